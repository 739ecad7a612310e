//! For tests alone: a count of what each section came to. See `delays`, too.

use super::operand::Outcome;
use chappe_plat::atomic::{AtomicU64, Ordering};

static ABORTED: AtomicU64 = AtomicU64::new(0);
static MOVED: AtomicU64 = AtomicU64::new(0);

/// How often the kernel has aborted a section of this process.
pub fn aborted() -> u64 {
    // Relaxed: a count.
    ABORTED.load(Ordering::Relaxed)
}

/// How often a section was another slot's, or its own was closed.
pub fn moved() -> u64 {
    // Relaxed: a count.
    MOVED.load(Ordering::Relaxed)
}

pub(super) fn count<T>(outcome: &Outcome<T>) {
    // Relaxed, both: counts.
    match outcome {
        Outcome::Aborted => _ = ABORTED.fetch_add(1, Ordering::Relaxed),
        Outcome::Moved => _ = MOVED.fetch_add(1, Ordering::Relaxed),
        Outcome::Done(_) | Outcome::Differs => {}
    }
}
