//! Waits that can be ended from outside: by a handled signal, or by another thread that raises an interrupt.
//!
//! Waits of this library go on after a handled signal. chappe_semaphore_down_interruptible ends with -EINTR instead, as
//! sem_wait(3) does; it also ends when another thread raises the interrupt with which it waits. A wake-up that was
//! faster is never lost: then the wait answers 0.
//!
//! An interrupt serves one thread at a time. It lies in this process; in a forked child the handle is a copy. An
//! interrupt that was raised stays raised, and ends every later wait at once: make another one for the next use.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::semaphore::{chappe_semaphore, down};
use crate::thread::here;
use chappe::raw::incarnation;
use chappe::{Interrupt, Semaphore, interruptible};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A handle of an interrupt.
pub struct chappe_interrupt(());

/// An interrupt, and the thread that waits with it.
pub struct Interrupting {
    by: Interrupt,
    /// The thread that waits; 0: none does.
    thread: AtomicUsize,
    /// The incarnation of that thread's process: in a forked child no thread waits.
    incarnation: AtomicU64,
}

impl Object for Interrupting {
    type Name = chappe_interrupt;
    const KIND: u32 = 10;
    const REFUSAL: &'static CStr =
        c"this is no open handle of an interrupt: NULL, closed already, or of something else";
}

/// While a thread waits.
struct Turn<'a>(&'a Interrupting);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Release); // Release: its wait is over.
    }
}

impl Interrupting {
    /// The thread that waits with it now; 0: none does.
    fn waiter(&self) -> usize {
        // Acquire: with whose it is; Relaxed: that never changes in one process.
        let thread = self.thread.load(Ordering::Acquire);
        if self.incarnation.load(Ordering::Relaxed) == incarnation() { thread } else { 0 }
    }

    fn begin(&self) -> Answer<Turn<'_>> {
        let (now, mine) = (incarnation(), self.incarnation.load(Ordering::Relaxed)); // Relaxed: the swap below decides.
        // In a forked child the wait of the parent's thread is over. One of several threads clears it, before any
        // begins.
        // Relaxed: if the word is the parent's, no thread changes it before the compare-exchange below.
        let parents = self.thread.load(Ordering::Relaxed);
        // AcqRel: `thread` belongs to the process that this word names. Relaxed on failure: another thread has changed
        // the word, and may not have cleared `thread` yet.
        if mine != now && self.incarnation.compare_exchange(mine, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // Release: no thread waits. Relaxed on failure: no thread of the parent waited, and a thread of this
            // process waits by now.
            let _ = self.thread.compare_exchange(parents, 0, Ordering::Release, Ordering::Relaxed);
        }
        // AcqRel: after the wait of the last thread. Relaxed on failure: nothing was taken.
        if self.thread.compare_exchange(0, here(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            let text = c"another thread waits with this interrupt: it serves one at a time";
            return Err(Failure::new(libc::EBUSY, text));
        }
        Ok(Turn(self))
    }
}

/// Makes an interrupt, which nobody has raised.
///
/// Errors: -EFAULT, -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_interrupt_make(interrupt: *mut *mut chappe_interrupt) -> c_int {
    done(|| {
        let place = input::place(interrupt)?;
        let new = Interrupting {
            by: Interrupt::new(),
            thread: AtomicUsize::new(0),
            incarnation: AtomicU64::new(incarnation()),
        };
        place.write(handle::open(new)?);
        Ok(())
    })
}

/// Closes a handle. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBUSY if a thread waits with it; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_interrupt_close(interrupt: *mut chappe_interrupt) -> c_int {
    done(|| {
        if handle::get::<Interrupting>(interrupt)?.waiter() != 0 {
            return Err(Failure::new(libc::EBUSY, c"a thread waits with this interrupt: raise it first"));
        }
        handle::close::<Interrupting>(interrupt).map(drop)
    })
}

/// Ends the wait that goes on with this interrupt, and every later one. When it returns, the waiter has left its sleep: it waits for
/// that, and so for a waiter that is stopped, and for a handler that runs in the waiter on top of its wait. It asks for no memory, and a
/// signal handler may call it, also one that runs in the waiting thread itself: then it is raised, and returns at once, and it is the
/// handled signal that ends the wait.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_interrupt_raise(interrupt: *mut chappe_interrupt) -> c_int {
    done(|| {
        let it = handle::get::<Interrupting>(interrupt)?;
        if it.waiter() == here() {
            // On top of its own sleep, which it cannot wait for.
            it.by.try_interrupt(0);
        } else {
            it.by.interrupt();
        }
        Ok(())
    })
}

/// 1 if it was raised, else 0.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_interrupt_is_raised(interrupt: *const chappe_interrupt) -> c_int {
    answer(|| Ok(handle::get::<Interrupting>(interrupt)?.by.is_asked().into()))
}

/// As `chappe_semaphore_down_timeout` (`ns` may be CHAPPE_FOREVER), but a handled signal ends the wait, and so does
/// `chappe_interrupt_raise`. `interrupt` may be NULL: then only a signal does. A saved wake-up is consumed even if the
/// interrupt is raised. A signal that is handled just before the wait sleeps does not end it: a program that must not
/// miss it lets another thread raise an interrupt. SA_RESTART makes no difference. Under CHAPPE_SPIN, where a wait does
/// not sleep, no signal ends it, and a raised interrupt does.
///
/// Errors: -EINTR; -ETIMEDOUT; -EBUSY if another thread waits with this interrupt; else as `chappe_semaphore_down_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_down_interruptible(
    semaphore: *mut chappe_semaphore,
    interrupt: *mut chappe_interrupt,
    ns: i64,
) -> c_int {
    done(|| {
        let semaphore = handle::get::<Semaphore>(semaphore)?;
        let limit = match input::within(ns)? {
            // The kernel goes on with an untimed sleep under SA_RESTART.
            Limit::Forever => Limit::Within(Duration::from_nanos(i64::MAX as u64)),
            limit => limit,
        };
        if interrupt.is_null() {
            return interruptible(&Interrupt::new(), || down(semaphore, limit));
        }
        let turn = handle::get::<Interrupting>(interrupt)?.begin()?;
        interruptible(&turn.0.by, || down(semaphore, limit))
    })
}
