//! What the reapers of a process have found.

use chappe_plat::atomic::{AtomicU64, Ordering};

/// How often something was found, and by which look.
pub(super) struct Tally {
    sweeps: AtomicU64,
    backstops: AtomicU64,
}

impl Tally {
    pub(super) const fn new() -> Tally {
        Tally { sweeps: AtomicU64::new(0), backstops: AtomicU64::new(0) }
    }

    /// How many dead members were found.
    pub(super) fn sweeps(&self) -> u64 {
        // Relaxed: a count.
        self.sweeps.load(Ordering::Relaxed)
    }

    /// How many times only the backstop found something.
    pub(super) fn backstops(&self) -> u64 {
        // Relaxed: a count.
        self.backstops.load(Ordering::Relaxed)
    }

    pub(super) fn found(&self, count: usize) {
        // Relaxed: a count.
        self.sweeps.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) {
        // Relaxed: a count.
        self.backstops.fetch_add(1, Ordering::Relaxed);
    }
}
