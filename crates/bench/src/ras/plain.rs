//! The plain atomic lock that the biased ones are held against: a compare-and-swap to lock, an exchange to unlock, and a futex
//! where somebody waits. Nobody's death, fairness or data is its business.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | free |
//! | 1 | held |
//! | 2 | held, and a thread may sleep |

use crate::guarded::Guarded;
use crate::peers::Lock;
use crate::raw::{self, Scope};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

const SPINS: u32 = 100;

/// The lock, and beside it the number that it guards.
#[derive(Default)]
pub struct PlainLock(AtomicU32, UnsafeCell<u64>);

// SAFETY: the number is touched only by the holder of the lock.
unsafe impl Sync for PlainLock {}

impl PlainLock {
    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            // Acquire: pairs with the exchange in `unlock`. Relaxed: it saw nothing, or is not free.
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        // Acquire: as above.
        while self.0.swap(2, Ordering::Acquire) != 0 {
            raw::wait(&self.0, 2, Scope::Private);
        }
    }
}

impl Lock for PlainLock {
    #[inline(always)]
    fn lock(&self) {
        // Acquire: pairs with the exchange in `unlock`. Relaxed: it was not taken.
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
    }
    #[inline(always)]
    fn unlock(&self) {
        // Release: pairs with the next locker.
        if self.0.swap(0, Ordering::Release) == 2 {
            raw::wake(&self.0, Scope::Private);
        }
    }
}

impl Guarded for PlainLock {
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut u64) -> R) -> R {
        self.lock();
        // SAFETY: we hold the lock.
        let answer = work(unsafe { &mut *self.1.get() });
        self.unlock();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contend::{Board, Contest, contend};
    use crate::handoff::Sides;
    use std::time::Duration;

    #[test]
    fn one_at_a_time_and_nobody_is_left_asleep() {
        let contest = Contest {
            sides: Sides::Threads,
            workers: 4,
            inside: |_| 1000,
            outside: 0,
            pinned: false,
            time: Duration::from_millis(20),
            timed: false,
        };
        let outcome = contend(&PlainLock::default(), contest, Board::make());
        assert!(outcome.counts.iter().sum::<u64>() > 0);
    }
}
