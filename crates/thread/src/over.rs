//! What comes after the end of a thread, once no thread is on its stack: the states of the word `end`, which `end` explains, the wake of a waiter, and
//! the clearing of the record.

use crate::record::{self, Thread};
use chappe_plat::atomic::Ordering;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light;

pub(crate) const RUNS: u32 = 0;
pub(crate) const ENDS: u32 = 1;
pub(crate) const OVER: u32 = 2;
pub(crate) const LOOSE: u32 = 3;
pub(crate) const STATE: u32 = 3;
pub(crate) const SLEEPER: u32 = 4;
pub(crate) const WAITER: u32 = 3;

/// The thread has ended and is off its stack. True: record and stack can be used for another thread now; false: its
/// handle gives them back.
#[inline(always)]
pub(crate) fn is_over(thread: &'static Thread) -> bool {
    // Relaxed: the handle sets LOOSE only while the state is RUNS, which the thread itself has ended (`ends`) on this
    // kernel thread.
    if thread.end.load(Ordering::Relaxed) & STATE == LOOSE {
        clear(thread);
        return true;
    }
    // AcqRel: publishes all that the thread did; acquires the waiter's record.
    let was = thread.end.swap(OVER, Ordering::AcqRel);
    wake(thread, was);
    false
}

/// Wakes what that value of a thread's word says that waits.
#[inline(always)]
pub(crate) fn wake(thread: &'static Thread, waits: u32) {
    if waits & SLEEPER != 0 {
        futex::wake(&thread.end, u32::MAX, Scope::Private);
    } else if waits >> WAITER != 0
        && let Some(waiter) = record::number(waits >> WAITER)
    {
        light::unpark(&waiter.core);
    }
}

/// Clears the record for the next thread that uses it.
#[inline(always)]
pub(crate) fn clear(thread: &'static Thread) {
    // SAFETY: the thread is over, or about to be, and nobody else has it.
    if unsafe { &*thread.extra.get() }.is_some() {
        clear_extra(thread);
    }
}

#[cold]
#[inline(never)]
fn clear_extra(thread: &'static Thread) {
    // SAFETY: as above.
    let extra = unsafe { &mut *thread.extra.get() };
    if let Some(stack) = extra.take().and_then(|extra| extra.stack) {
        // SAFETY: nobody is on it.
        unsafe { record::drop_stack(stack) };
    }
}
