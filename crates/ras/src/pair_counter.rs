//! Two counters that change together: no reader ever sees one add without the other.
//!
//! As a [`Counter`](crate::Counter), with a pair in place of each number. A section cannot store two words at once, so a pair has two
//! buffers, and a version that says which of them is current: the section writes the other one, and commits with the version (`sequence`,
//! I1 and E2). A thread that cannot run sections adds to the rest, which is two words that an interlocked instruction changes as one
//! (`wide.rs`).
//!
//! - I1: each share's two numbers, and the rest's, are of the same adds. So are their sums.
//! - I2: which adds a sum contains is as for a counter: all before the call, none after its return, any of those in between; but of each
//!   add both halves or neither.
//!
//! `add` is wait-free but for the rest, which is lock-free. `sum` tries a CPU's pair again while that CPU changes it; it never waits for a
//! thread that is stopped.

use crate::per_cpu::PerCpu;
use crate::sequence::{Index, Outcome, Pair};
use crate::wide::Wide;

/// Two counters of which each CPU has a share, modulo 2^64, and of which no add is seen by half.
///
/// ```
/// let (messages, bytes) = {
///     let sent = chappe_ras::PairCounter::new(chappe_ras::Index::Cpu);
///     sent.add(1, 80);
///     sent.add(1, 20);
///     sent.sum()
/// };
/// assert_eq!((messages, bytes), (2, 100));
/// ```
pub struct PairCounter {
    shares: PerCpu<Pair>,
    rest: Wide,
}

impl PairCounter {
    /// Nothing of both.
    pub fn new(index: Index) -> PairCounter {
        PairCounter { shares: PerCpu::new(index, Pair::default), rest: Wide::default() }
    }

    /// Adds to both.
    #[inline(always)]
    pub fn add(&self, a: u64, b: u64) {
        // SAFETY: only sections on the slot write to its pair.
        let added = self.shares.attempt(|here, slot| unsafe { here.add_two(slot.owner(), slot.value(), a, b) });
        if !matches!(added, Outcome::Done(())) {
            self.add_to_rest(a, b);
        }
    }

    #[cold]
    fn add_to_rest(&self, a: u64, b: u64) {
        self.rest.add(a, b);
    }

    /// What was added to each: see I2 of the file's head for what it means while others add.
    pub fn sum(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), more: (u64, u64)| (sum.0.wrapping_add(more.0), sum.1.wrapping_add(more.1));
        self.shares.values().map(Pair::read).fold(self.rest.add(0, 0), add)
    }
}
