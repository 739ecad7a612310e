//! Counters that many threads add to, and few read.
//!
//! Each CPU has a share, to which a section adds with plain instructions. A thread that cannot do so (no sequences, its slot is closed, or
//! it is traced step by step and aborted each time) adds to the `rest`, with an interlocked instruction. The value is the sum of all.
//!
//! - I1: an add is in exactly one share, or in the rest, from its commit on.
//! - I2: what a sum contains: every add that happened before the call, none that happens after its return, and of those in between any. So
//!   if all adds are non-negative, it lies between the value at the call and the value at the return. With adds of both signs in between it
//!   may be a number that the counter never was. While no thread adds, it is exact.
//! - I3: a drain takes from a share that it has seized (`per_cpu.rs`), or takes by a section of its own CPU: an add is in exactly one
//!   drain, or still there.
//! - R1: a drain whose fence is refused puts what it has taken so far into the rest: nothing is lost, and nothing was drained. But until
//!   then it is in no share: a sum meanwhile misses it, as after a drain.
//! - R2: two drains at once: a share that the other one has is left to it. Each add is in one of the two.
//!
//! An add orders no other memory: to conclude from the value what other threads have stored needs another edge.
//!
//! `add` is wait-free: a few tries, then the rest. It may be called in a signal handler that interrupts it. `sum` reads one word a CPU.

use crate::per_cpu::{PerCpu, SeizeError};
use crate::sequence::{Index, Outcome};
use chappe_plat::atomic::{AtomicU64, Ordering};

/// A counter of which each CPU has a share, modulo 2^64.
///
/// ```
/// let requests = chappe_ras::Counter::new(chappe_ras::Index::Cpu);
/// requests.add(2);
/// requests.add(3);
/// assert_eq!(requests.sum(), 5);
/// ```
pub struct Counter {
    shares: PerCpu<AtomicU64>,
    rest: AtomicU64,
}

impl Counter {
    /// Nothing.
    pub fn new(index: Index) -> Counter {
        Counter { shares: PerCpu::new(index, || AtomicU64::new(0)), rest: AtomicU64::new(0) }
    }

    /// Adds. To take away, add what is missing to 2^64: `(-1_i64) as u64`.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        // SAFETY: only sections on the slot write to its share, and the thread that has seized it.
        let added = self.shares.attempt(|here, slot| unsafe { here.add(slot.owner(), slot.value(), n) });
        if !matches!(added, Outcome::Done(())) {
            self.add_to_rest(n);
        }
    }

    #[cold]
    fn add_to_rest(&self, n: u64) {
        // Relaxed: a count.
        self.rest.fetch_add(n, Ordering::Relaxed);
    }

    /// What was added: see I2 of the file's head for what it means while others add. Never waits.
    pub fn sum(&self) -> u64 {
        // Relaxed, both: counts.
        let rest = self.rest.load(Ordering::Relaxed);
        self.shares.values().fold(rest, |sum, share| sum.wrapping_add(share.load(Ordering::Relaxed)))
    }

    /// Takes what was added, and leaves nothing. Every add is in one drain, or still there. Interrupts each other CPU on which this
    /// process runs.
    ///
    /// # Errors
    /// [`SeizeError::Refused`]: the kernel refuses the fence. Then nothing was taken; for a moment a sum may have been too small (R1).
    pub fn drain(&self) -> Result<u64, SeizeError> {
        // Relaxed: a count.
        let mut sum = self.rest.swap(0, Ordering::Relaxed);
        // SAFETY: as in `add`.
        if let Outcome::Done(own) = self.shares.attempt(|h, s| unsafe { h.fetch(s.owner(), s.value(), 0) }) {
            sum = sum.wrapping_add(own);
        }
        for slot in 0..self.shares.len() {
            // Relaxed: a look. What is added meanwhile is of the next drain.
            if self.shares.value(slot).load(Ordering::Relaxed) == 0 {
                continue;
            }
            match self.shares.seize(slot) {
                // Relaxed: the caller has seized it.
                Ok(share) => sum = sum.wrapping_add(share.swap(0, Ordering::Relaxed)),
                Err(SeizeError::Busy) => {}
                Err(refused) => {
                    self.add_to_rest(sum);
                    return Err(refused);
                }
            }
        }
        Ok(sum)
    }
}
