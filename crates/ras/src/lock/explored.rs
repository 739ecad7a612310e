//! The section of [`super`] as the explorer has it: three steps, aborted as the kernel would.

use super::raw::{HELD_FAST, Outcome};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{rseq, sections};

/// Locks if `word` is 0 and `bias` is the processor on which the thread runs.
pub(super) fn lock(word: &AtomicU32, bias: &AtomicU32) -> Outcome {
    sections::begin();
    // E1 Acquire.
    let low = word.load(Ordering::Acquire);
    if low != 0 {
        return if sections::end() { Outcome::Busy } else { Outcome::Aborted };
    }
    let here = rseq::cpu();
    // Relaxed: behind the load above.
    if here != Some(bias.load(Ordering::Relaxed)) {
        return if sections::end() { Outcome::Elsewhere } else { Outcome::Aborted };
    }
    if sections::commit(word, HELD_FAST) { Outcome::Locked } else { Outcome::Aborted }
}
