//! Waits that can be ended from outside: when a handled signal has come, or when another thread says so.
//!
//! For interfaces that promise it: POSIX' `sem_wait` answers EINTR, and is a cancellation point. A wait inside of [`interruptible`]
//! sleeps as all others do. It ends early if the kernel says that a handler ran (an untimed sleep goes on by itself under SA_RESTART, a timed one
//! never does: that is the kernel's), or if somebody has called [`Interrupt::interrupt`]. Whether there was a grant before is
//! decided as with a deadline: one swap, and a grant that was faster wins.
//!
//! ```text
//!   who waits:       says where it sleeps -- looks whether it was asked -- sleeps ... says that it does not
//!   who interrupts:  asks -- looks where it sleeps -- wakes it, and looks again, until it does not
//! ```
//!
//! - I1: of the two at least one sees the other (sequentially consistent). A wake between the waiter's look and its sleep is
//!   lost, since the word that it sleeps on has not changed: so who interrupts wakes again and again until the waiter has left.
//! - I2: the word lies in a mapping that is never undone, so a late wake is in vain, and no more.
//! - I3: that a handler has run ends the wait that it ran in, unless a grant was faster; the next wait knows nothing of it.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::Scope;
use chappe_plat::process;

/// What ends a wait early. One serves one thread at a time. Once somebody has asked, it ends each wait at once.
#[derive(Debug, Default)]
pub struct Interrupt {
    asked: AtomicU32,
    /// A handler has run in the wait that goes on.
    handled: AtomicU32,
    /// Where the waiter sleeps: the address of the word, and whether other processes can wake it there (bit 0). 0: it does not.
    at: AtomicU64,
    /// Of which incarnation of the process it is a thread: a forked child has a copy of this, and not the thread.
    whose: AtomicU64,
}

impl Interrupt {
    /// One that has ended nothing yet.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub const fn new() -> Interrupt {
        let (asked, handled) = (AtomicU32::new(0), AtomicU32::new(0));
        Interrupt { asked, handled, at: AtomicU64::new(0), whose: AtomicU64::new(0) }
    }

    /// Ends the wait that goes on inside of [`interruptible`], or the next one. When this returns, the waiter has left its sleep.
    /// Waits for it to do so, and so for one that is stopped: not for a handler that may run in the waiter itself.
    #[cfg(not(feature = "sim"))]
    pub fn interrupt(&self) {
        self.asked.store(1, Ordering::SeqCst); // SeqCst: I1.
        loop {
            // SeqCst, both: I1; whose it is was stored before.
            let (at, whose) = (self.at.load(Ordering::SeqCst), self.whose.load(Ordering::SeqCst));
            if at == 0 || whose != process::incarnation() {
                return;
            }
            let scope = if at & 1 != 0 { Scope::Shared } else { Scope::Private };
            // SAFETY: the waiter has stored the address of a word that is always mapped, I2.
            let word = unsafe { &*((at & !1) as usize as *const AtomicU32) };
            chappe_plat::futex::wake(word, 1, scope);
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        // SeqCst: I1.
        self.asked.load(Ordering::SeqCst) != 0
    }

    /// Whether the wait that goes on is to end.
    pub(crate) fn has_come(&self) -> bool {
        // Relaxed: the waiter's own.
        self.is_asked() || self.handled.load(Ordering::Relaxed) != 0
    }

    /// A wait begins: I3.
    pub(crate) fn begin(&self) {
        self.handled.store(0, Ordering::Relaxed); // Relaxed: as above.
    }

    /// A handler has run.
    pub(crate) fn come(&self) {
        self.handled.store(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// The waiter is about to sleep.
    pub(crate) fn sleeps(&self, on: &AtomicU32, scope: Scope) {
        let shared = u64::from(scope == Scope::Shared);
        self.whose.store(process::incarnation(), Ordering::Relaxed); // Relaxed: before the place, which says that it is there.
        self.at.store(std::ptr::from_ref(on) as usize as u64 | shared, Ordering::SeqCst); // SeqCst: I1.
    }

    /// It does not sleep any more.
    pub(crate) fn left(&self) {
        self.at.store(0, Ordering::Release); // Release: after the sleep. Who still sees the place wakes once more.
    }
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
mod scope {
    use super::Interrupt;
    use std::cell::Cell;

    thread_local! {
        static BY: Cell<Option<&'static Interrupt>> = const { Cell::new(None) };
    }

    /// What this thread's waits are ended by now.
    pub(crate) fn current() -> Option<&'static Interrupt> {
        BY.get()
    }

    /// Does something in which a `down` of this thread can be ended by a handled signal, and by whoever has the other end of `by`.
    ///
    /// `down`, `down_timeout` and `down_deadline` of [`Semaphore`](crate::Semaphore) then answer
    /// [`DownError::Interrupted`](crate::DownError::Interrupted). Other operations wait as always.
    pub fn interruptible<R>(by: &Interrupt, act: impl FnOnce() -> R) -> R {
        struct Back(Option<&'static Interrupt>);
        impl Drop for Back {
            fn drop(&mut self) {
                BY.set(self.0);
            }
        }
        // SAFETY: it is taken away before this returns, by whatever way; only this thread sees it meanwhile.
        let by: &'static Interrupt = unsafe { &*std::ptr::from_ref(by) };
        let _back = Back(BY.replace(Some(by)));
        act()
    }
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
pub(crate) use scope::current;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use scope::interruptible;

/// Explored as such: no wait is interrupted there.
#[cfg(all(feature = "loom", not(feature = "sim")))]
pub(crate) fn current() -> Option<&'static Interrupt> {
    None
}
