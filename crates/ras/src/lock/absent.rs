//! The section of [`super`] on processors for which none is written: it never locks.

use super::raw::Outcome;
use chappe_plat::atomic::AtomicU32;

/// Answers that the lock is not biased to this processor.
#[inline(always)]
pub(super) fn lock(_word: &AtomicU32, _bias: &AtomicU32) -> Outcome {
    Outcome::Elsewhere
}
