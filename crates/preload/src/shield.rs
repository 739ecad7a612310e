//! What keeps signals and cancellation out of this library's code, and errno as it was.
//!
//! A thread that is cancelled unwinds its stack. Functions of Rust that own something must not be on it then, so their callers disable
//! cancellation before and enable it behind, in a frame that owns nothing. Code that takes locks also blocks signals: a handler may call
//! `sem_post`, and that may have to make the thread a member of an arena, which takes the same locks.

use crate::forks;
use libc::c_int;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

// Declared here because they may unwind, which the C library crate does not say.
// SAFETY: these are the C library's.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

/// Switches cancellation off; whether it was on.
#[inline]
pub fn off() -> bool {
    let mut old = DISABLE;
    // SAFETY: a place for the old state. To switch it off never unwinds.
    unsafe { pthread_setcancelstate(DISABLE, &mut old) };
    old == ENABLE
}

/// Switches cancellation back on, if it was. The caller's frame must own nothing: with the asynchronous type, this acts.
#[inline]
pub fn back(was_on: bool) {
    if !was_on {
        return;
    }
    let (mut state, mut kind) = (DISABLE, DEFERRED);
    // Where it acts at once, by the test: what acts within `pthread_setcancelstate` forgets, in glibc before 2.37, to say that the thread
    // was cancelled.
    // SAFETY: places for what was before; the caller sees to its frame.
    unsafe {
        pthread_setcanceltype(DEFERRED, &mut kind);
        pthread_setcancelstate(ENABLE, &mut state);
        if kind == ASYNCHRONOUS {
            pthread_testcancel();
            pthread_setcanceltype(ASYNCHRONOUS, &mut kind);
        }
    }
}

/// Acts upon a cancellation that is pending. The caller's frame must own nothing.
#[inline(always)]
pub fn test() {
    // SAFETY: the caller sees to its frame.
    unsafe { pthread_testcancel() };
}

/// The calling thread's errno.
#[inline]
pub fn errno() -> c_int {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline]
pub fn set_errno(e: c_int) {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = e };
}

/// Says why, the C way.
#[inline]
pub fn fail(e: c_int) -> c_int {
    set_errno(e);
    -1
}

/// Does something of which nothing comes out but what it answers: no panic, which has been told by then.
pub fn contained<R>(otherwise: R, act: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(otherwise)
}

thread_local! {
    static WITHOUT: Cell<bool> = const { Cell::new(false) };
}

/// Whether signals are kept out of this thread just now, by [`keep_out`].
pub fn is_without_signals() -> bool {
    WITHOUT.get()
}

/// Keeps all signals out of this thread. Answers what let them in before.
pub fn block() -> libc::sigset_t {
    let (mut all, mut old) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: both are places for masks, which the calls fill.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        old.assume_init()
    }
}

/// Sets the mask that was there before.
pub fn unblock(mask: &libc::sigset_t) {
    // SAFETY: a mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Keeps signals out of its thread as long as it is there. None inside: another does.
pub struct Kept(Option<libc::sigset_t>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(mask) = &self.0 {
            WITHOUT.set(false);
            unblock(mask);
        }
    }
}

/// From here on no handler runs in this thread.
pub fn keep_out() -> Kept {
    if is_without_signals() {
        return Kept(None);
    }
    let kept = Kept(Some(block()));
    WITHOUT.set(true);
    kept
}

/// Does something during which no handler runs in this thread.
pub fn without_signals<R>(act: impl FnOnce() -> R) -> R {
    let _kept = keep_out();
    act()
}

/// What takes locks or files: without cancellation, signals and panics, and errno as it was. `act` answers 0 or an errno.
///
/// The caller's frame must own nothing.
pub fn shielded(act: impl FnOnce() -> c_int) -> c_int {
    let kept = errno();
    let was_on = off();
    let act = || {
        forks::prepare();
        act()
    };
    let e = contained(libc::ENOSYS, || without_signals(act));
    set_errno(if e == 0 { kept } else { e });
    back(was_on);
    if e == 0 { 0 } else { -1 }
}
