//! Waits that can be ended from outside: after a signal was handled, or by another thread.
//!
//! This is for interfaces that promise it: POSIX' `sem_wait` answers EINTR, and is a cancellation point. A wait inside of `ended_by`
//! sleeps as all others do. It ends early if the kernel says that a handler ran (an untimed sleep goes on by itself under SA_RESTART, a timed
//! sleep never does: the kernel decides that), or if a thread has called [`Interrupt::interrupt`]. Whether there was a grant before is
//! decided as with a deadline: by one swap, and a grant that was faster wins.
//!
//! ```text
//!   the waiter:       says where it sleeps -- looks whether it was asked -- sleeps ... says that it does not sleep
//!   the interrupter:  asks -- looks where the waiter sleeps -- wakes it, and looks again, until it does not sleep
//! ```
//!
//! - I1: at least one of the two sees the other (sequentially consistent). A wake between the waiter's look and its sleep is
//!   lost, since the word that it sleeps on has not changed: so the interrupter wakes again and again until the waiter has left.
//! - I2: the word lies in a mapping that is never undone, so a late wake is useless, but harmless.
//! - I3: a handler ends the wait that it ran in, unless a grant was faster; the next wait is not affected.
//!
//! Explored: `tests/crash_interrupt.rs`. There a sleep that returns for no reason represents a handler.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::Scope;
use chappe_plat::light::{self, Record};
use chappe_plat::process;

/// The waiter is a light thread.
const LIGHT: u64 = 2;

/// Ends a thread's waits early. An `Interrupt` serves one thread at a time. Once it has been asked, it ends each wait at once.
#[derive(Debug, Default)]
pub struct Interrupt {
    asked: AtomicU32,
    /// A handler has run in the present wait.
    handled: AtomicU32,
    /// Where the waiter sleeps: the address of the word, and whether other processes can wake it there (bit 0); for a light thread, its record
    /// (bit 1). 0: the waiter does not sleep.
    at: AtomicU64,
    /// The incarnation of the waiter's process: a forked child has a copy of this, but not the waiter.
    whose: AtomicU64,
}

impl Interrupt {
    /// An interrupt that has not been asked yet.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    #[inline]
    pub const fn new() -> Interrupt {
        let (asked, handled) = (AtomicU32::new(0), AtomicU32::new(0));
        Interrupt { asked, handled, at: AtomicU64::new(0), whose: AtomicU64::new(0) }
    }

    /// Ends the present wait inside of `interruptible`, or the next one. When this returns, the waiter has left its sleep.
    /// This waits for it to leave, also for a waiter that is stopped, or that runs a handler on top of its wait. It does not wait for
    /// a light thread: that is ready, and leaves its wait when it runs next.
    #[inline]
    pub fn interrupt(&self) {
        while !self.try_interrupt(u32::MAX) {}
    }

    /// The same, with at most so many tries, some twenty microseconds apart. False: the waiter has not left its sleep yet. It may
    /// not have been asleep, so the wake may be lost: call this again.
    #[doc(hidden)]
    #[inline]
    pub fn try_interrupt(&self, tries: u32) -> bool {
        self.asked.store(1, Ordering::SeqCst); // SeqCst: I1.
        for _ in 0..tries {
            // SeqCst, both: I1; the incarnation was stored before.
            let (at, whose) = (self.at.load(Ordering::SeqCst), self.whose.load(Ordering::SeqCst));
            if at == 0 || whose != process::incarnation() {
                return true;
            }
            if at & LIGHT != 0 {
                // SAFETY: the waiter has stored the address of its record, which never goes away. It has a token, so no wake is lost.
                light::unpark(unsafe { &*((at & !LIGHT) as usize as *const Record) });
                return true;
            }
            let scope = if at & 1 != 0 { Scope::Shared } else { Scope::Private };
            // SAFETY: the waiter has stored the address of a word that is always mapped, I2.
            let word = unsafe { &*((at & !1) as usize as *const AtomicU32) };
            chappe_plat::futex::wake(word, 1, scope);
            #[cfg(not(feature = "sim"))]
            std::thread::sleep(std::time::Duration::from_micros(20));
            #[cfg(feature = "sim")]
            chappe_plat::atomic::pause();
        }
        false
    }

    /// The waiter has left its wait, but not by returning from it. Called by the waiter, which waits for nothing now.
    #[doc(hidden)]
    pub fn forsake(&self) {
        self.left();
    }

    /// Forgets that it was asked. Called by the waiter, which waits for nothing now. Its next wait ends only if a thread asks from now on.
    #[inline]
    pub fn clear(&self) {
        if self.is_asked() {
            self.asked.store(0, Ordering::SeqCst); // SeqCst: I1.
        }
    }

    /// Whether a thread has asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        // SeqCst: I1.
        self.asked.load(Ordering::SeqCst) != 0
    }

    /// Whether the present wait is to end.
    pub(crate) fn has_come(&self) -> bool {
        // Relaxed: the waiter's own.
        self.is_asked() || self.handled.load(Ordering::Relaxed) != 0
    }

    /// A wait begins: I3.
    #[inline]
    pub fn begin(&self) {
        self.handled.store(0, Ordering::Relaxed); // Relaxed: as above.
    }

    /// A handler has run.
    #[inline]
    pub fn come(&self) {
        self.handled.store(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// The waiter is about to sleep.
    #[inline]
    pub fn sleeps(&self, on: &AtomicU32, scope: Scope) {
        let shared = u64::from(scope == Scope::Shared);
        self.whose.store(process::incarnation(), Ordering::Relaxed); // Relaxed: before the place, which says that it is there.
        self.at.store(std::ptr::from_ref(on) as usize as u64 | shared, Ordering::SeqCst); // SeqCst: I1.
    }

    /// The waiter is a light thread, and about to park.
    #[inline]
    pub fn parks(&self, me: &'static Record) {
        self.whose.store(process::incarnation(), Ordering::Relaxed); // Relaxed: as above.
        self.at.store(std::ptr::from_ref(me) as usize as u64 | LIGHT, Ordering::SeqCst); // SeqCst: I1.
    }

    /// The waiter does not sleep any more.
    #[inline]
    pub fn left(&self) {
        self.at.store(0, Ordering::Release); // Release: after the sleep. An interrupter that still sees the place wakes once more.
    }
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
mod scope {
    use super::Interrupt;
    use chappe_plat::light;
    use std::cell::Cell;
    use std::ptr::{from_ref, null};

    thread_local! {
        /// A kernel thread's. A light thread's is in its record, since it may run on another kernel thread after each wait.
        static BY: Cell<Option<&'static Interrupt>> = const { Cell::new(None) };
    }

    /// The interrupt that ends this thread's waits now.
    #[inline]
    pub fn current() -> Option<&'static Interrupt> {
        match light::current() {
            // SAFETY: `within` has put it there, and takes it away before it goes.
            Some(me) => unsafe { me.ends.get().cast::<Interrupt>().as_ref() },
            None => BY.get(),
        }
    }

    /// Sets it. Answers what it was.
    fn replace(by: Option<&'static Interrupt>) -> Option<&'static Interrupt> {
        match light::current() {
            // SAFETY: as in `current`.
            Some(me) => unsafe {
                me.ends.replace(by.map_or(null(), |by| from_ref(by).cast())).cast::<Interrupt>().as_ref()
            },
            None => BY.replace(by),
        }
    }

    /// Runs a function in which each wait of this thread, light or not, can be ended by a handled signal, or by a thread that interrupts `by`.
    pub fn ended_by<R>(by: &Interrupt, act: impl FnOnce() -> R) -> R {
        // SAFETY: it is taken away before this returns, by whatever way; only this thread sees it meanwhile.
        within(Some(unsafe { &*std::ptr::from_ref(by) }), act)
    }

    /// Runs a function in which no wait of this thread can be ended so.
    pub fn uninterrupted<R>(act: impl FnOnce() -> R) -> R {
        within(None, act)
    }

    /// Parks the calling light thread, once, unless it is inside of [`ended_by`] and somebody has asked. True: somebody has. For waits that other crates make.
    #[doc(hidden)]
    #[inline]
    pub fn park(me: &'static light::Record) -> bool {
        let Some(by) = current() else {
            light::park(None);
            return false;
        };
        by.parks(me);
        if !by.is_asked() {
            light::park(None);
        }
        by.left();
        by.is_asked()
    }

    fn within<R>(by: Option<&'static Interrupt>, act: impl FnOnce() -> R) -> R {
        struct Back(Option<&'static Interrupt>);
        impl Drop for Back {
            fn drop(&mut self) {
                replace(self.0);
            }
        }
        let _back = Back(replace(by));
        act()
    }
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use scope::{current, uninterrupted};
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use scope::{ended_by, park};

/// In this exploration no wait is interrupted.
#[cfg(all(feature = "loom", not(feature = "sim")))]
#[inline]
pub fn current() -> Option<&'static Interrupt> {
    None
}

/// As above.
#[cfg(all(feature = "loom", not(feature = "sim")))]
pub fn uninterrupted<R>(act: impl FnOnce() -> R) -> R {
    act()
}
