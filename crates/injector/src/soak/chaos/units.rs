//! How many units of a semaphore there may be, after deaths in the middle of `down` and `up`.

// SeqCst everywhere here: the bounds are in one order with the changes of the semaphore that they are about.
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// By how much there may be fewer or more units than at the start.
#[repr(C)]
pub struct Units {
    least: AtomicI64,
    most: AtomicI64,
}

impl Units {
    /// Widens what there may be, or makes it narrower.
    pub fn change(&self, least: i64, most: i64) {
        // Apart: between the two it is only wider than it must be.
        self.least.fetch_add(least.min(0), SeqCst);
        self.most.fetch_add(most, SeqCst);
        self.least.fetch_add(least.max(0), SeqCst);
    }

    /// How many there are at least, and at most, if there were `start`.
    pub fn bounds(&self, start: u32) -> (i64, i64) {
        (i64::from(start) + self.least.load(SeqCst), i64::from(start) + self.most.load(SeqCst))
    }

    /// All are there again.
    pub fn forget(&self) {
        self.least.store(0, SeqCst);
        self.most.store(0, SeqCst);
    }
}
