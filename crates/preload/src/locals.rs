//! The end of a thread's local data.
//!
//! The standard library has the destructors of thread-local data called by `__cxa_thread_atexit_impl`, where there is one. The C library's
//! version calls the program's `calloc`, and takes the dynamic linker's lock: a handler that posts for the first time in its thread could
//! have interrupted either. So this library has one of its own, which no other library sees: a list in each thread, of this library's own
//! memory, and a key of `pthread_key_create` whose destructor goes through it.
//!
//! That destructor defers its work while there are others to come, so that the program's own destructors still find their thread whole; the
//! C library goes round four times. For a thread that calls `exit` this library's own destructor ends its data. A key beyond the first 32
//! needs the program's `calloc` again: this library's key is made when it is loaded, or earlier.

use crate::last;
use crate::shield::without_signals;
use libc::{c_int, c_void, pthread_key_t};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// One of a thread's local data.
struct Local {
    end: Destructor,
    at: *mut c_void,
    next: *mut Local,
}

/// In which of the C library's rounds they end: the one after it is for what begins in this one.
const LATE: u32 = 3;

thread_local! {
    static LAST: Cell<*mut Local> = const { Cell::new(null_mut()) };
    /// How many rounds have been.
    static ROUNDS: Cell<u32> = const { Cell::new(0) };
}

/// The key, and 1; 0: there is none yet.
// Ordering: Relaxed: a number.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key, if there is none. None: all keys are taken.
pub fn key() -> Option<pthread_key_t> {
    if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
        return Some(key);
    }
    let mut key = 0;
    // SAFETY: a place for it, and a function that stays.
    if unsafe { libc::pthread_key_create(&mut key, Some(round)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Some(key),
        Err(theirs) => {
            // SAFETY: nobody has it.
            unsafe { libc::pthread_key_delete(key) };
            Some(theirs - 1)
        }
    }
}

/// Has [`round`] called when the calling thread ends.
pub fn arm() {
    if let Some(key) = key() {
        // SAFETY: our key. What it points to is never looked at.
        unsafe { libc::pthread_setspecific(key, (&raw const KEY).cast()) };
    }
}

/// What the standard library calls; `_library` is this one.
extern "C" fn register(end: Destructor, at: *mut c_void, _library: *mut c_void) -> c_int {
    without_signals(|| {
        LAST.set(Box::into_raw(Box::new(Local { end, at, next: LAST.get() })));
        arm();
    });
    0
}

// Not by `no_mangle`: that would put it in front of the C library's for every library.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".globl __cxa_thread_atexit_impl",
    ".hidden __cxa_thread_atexit_impl",
    ".type __cxa_thread_atexit_impl, %function",
    "__cxa_thread_atexit_impl:",
    #[cfg(target_arch = "x86_64")]
    "jmp {}",
    #[cfg(target_arch = "aarch64")]
    "b {}",
    sym register,
);

fn pop() -> Option<Box<Local>> {
    let last = LAST.get();
    if std::ptr::eq(last, null()) {
        return None;
    }
    // SAFETY: made by `register`, in this thread.
    let local = unsafe { Box::from_raw(last) };
    LAST.set(local.next);
    Some(local)
}

/// Ends the calling thread's local data, the last first.
pub fn end() {
    while let Some(local) = without_signals(pop) {
        // SAFETY: as the standard library wants it, once.
        unsafe { (local.end)(local.at) };
    }
}

/// The C library's round in a thread that ends.
extern "C" fn round(_: *mut c_void) {
    ROUNDS.set(ROUNDS.get() + 1);
    if ROUNDS.get() < LATE {
        arm();
        return;
    }
    end();
    if ROUNDS.get() == LATE {
        last::ends();
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    struct Told;
    static ENDED: AtomicU32 = AtomicU32::new(0);
    static SEEN: AtomicU32 = AtomicU32::new(0);

    impl Drop for Told {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst); // SeqCst: a test.
        }
    }

    thread_local! {
        static DATA: Told = const { Told };
    }

    extern "C" fn program(_: *mut c_void) {
        if DATA.try_with(|_| ()).is_ok() {
            SEEN.fetch_add(1, Ordering::SeqCst); // SeqCst: a test.
        }
    }

    #[test]
    fn local_data_ends_with_its_thread_behind_the_programs_own() {
        let mut theirs = 0;
        // SAFETY: a place for the key, and a function that stays.
        assert_eq!(unsafe { libc::pthread_key_create(&mut theirs, Some(program)) }, 0);
        for _ in 0..10 {
            let thread = std::thread::spawn(move || {
                DATA.with(|_| ());
                assert!(!LAST.get().is_null(), "it is ours that is called");
                // SAFETY: the key is there.
                unsafe { libc::pthread_setspecific(theirs, (&raw const KEY).cast()) };
            });
            thread.join().expect("it ends");
        }
        // SeqCst, both: a test.
        assert_eq!((ENDED.load(Ordering::SeqCst), SEEN.load(Ordering::SeqCst)), (10, 10));
    }
}
