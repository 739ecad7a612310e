//! Where there are no sequences: nothing is ever done, and no caller can have the proof that there are any.

use super::outcome::Outcome;
use chappe_plat::atomic::AtomicU32;

pub(super) fn test_and_set(_area: isize, _word: &AtomicU32) -> Outcome {
    Outcome::Again
}

/// No code at all.
pub(super) fn body() -> (*const u8, usize) {
    (std::ptr::null(), 0)
}
