//! The plain atomic lock: one locked operation each way, and sleeping. The biased lock is measured against it; it is the choice where no
//! bias is wanted.
//!
//! | word | |
//! |---|---|
//! | 0 | free |
//! | 1 | held |
//!
//! - I1: it goes from 0 to 1 by compare-and-swap only, and back by the holder.
//! - E1: locking acquires what unlocking released. Unlocking and entering are locked operations: E1 of `parking`.
//!
//! Blocking; nothing is known of the holder. Explored: `tests/crash_lock.rs`.

use super::RawLock;
use super::parking::Parking;
use super::patience::look;
use chappe_plat::atomic::{AtomicU32, Ordering};

/// A lock of two locked operations.
pub struct RawPlainLock {
    word: AtomicU32,
    parking: Parking,
}

impl RawPlainLock {
    /// A free one.
    pub const fn new() -> RawPlainLock {
        RawPlainLock { word: AtomicU32::new(0), parking: Parking::new() }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        // E1. SeqCst: for a waiter, after it has entered.
        self.word.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        // Relaxed: only whether it is worth a try.
        if look(|| self.word.load(Ordering::Relaxed) == 0 && self.take()) {
            return;
        }
        self.parking.enter();
        loop {
            let seen = self.parking.look();
            if self.take() {
                break;
            }
            self.parking.sleep(seen, None);
        }
        self.parking.leave();
    }
}

impl Default for RawPlainLock {
    fn default() -> RawPlainLock {
        RawPlainLock::new()
    }
}

// SAFETY: I1: one holder at a time.
unsafe impl RawLock for RawPlainLock {
    #[inline(always)]
    fn lock(&self) {
        if !self.take() {
            self.wait();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.take()
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // E1. SeqCst: before the look at the waiters.
        self.word.swap(0, Ordering::SeqCst);
        if self.parking.is_awaited() {
            self.parking.tell();
        }
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a look, not a promise.
        self.word.load(Ordering::Relaxed) != 0
    }
}
