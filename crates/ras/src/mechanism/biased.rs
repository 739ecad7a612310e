//! The mechanism `Biased`: a lock that is biased to the processor that uses it most (`lock/mod.rs`).
//!
//! Not the paper's: its sequences need one processor for all threads, these one for each lock at a time.

use crate::gate;
pub(super) use crate::lock::RawCpuLock;

/// A free one; for a flag of another mechanism, one that is never biased.
pub(super) fn new(used: bool) -> RawCpuLock {
    RawCpuLock::new(used)
}

/// Whether there is one, where there are sequences, and why not.
pub(super) fn is_there() -> Result<(), &'static str> {
    gate::biases().then_some(()).ok_or("CHAPPE_BIAS=off in the environment says that no lock is to be biased")
}
