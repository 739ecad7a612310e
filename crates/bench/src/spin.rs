//! Plan 9's old `Lock`, which its semaphores replaced (plan9-semaphores, section 5): the peer of table 2.
//!
//! It spins by test-and-set; after a thousand attempts it reschedules itself between them (`sleep(0)`; here
//! `sched_yield`); after a thousand of those it sleeps for milliseconds at a time.

use crate::peers::Lock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The lock: all zeroes are an unlocked one.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    fn test_and_set(&self) -> bool {
        // Acquire: pairs with the store in `unlock`.
        self.0.swap(1, Ordering::Acquire) != 0
    }
}

impl Lock for SpinLock {
    #[inline]
    fn lock(&self) {
        for _ in 0..1000 {
            if !self.test_and_set() {
                return;
            }
        }
        for _ in 0..1000 {
            if !self.test_and_set() {
                return;
            }
            std::thread::yield_now();
        }
        while self.test_and_set() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    #[inline]
    fn unlock(&self) {
        // Release: pairs with the swap of the next locker.
        self.0.store(0, Ordering::Release);
    }
}
