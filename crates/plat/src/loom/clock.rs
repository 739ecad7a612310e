//! Time in a model: each look advances it by a millisecond, so that a thread that has waited twice has waited long.

use super::explore;

const STEP_NS: u64 = 1_000_000;

/// Now.
pub fn now() -> u64 {
    explore::later(STEP_NS)
}

/// Now.
pub fn coarse() -> u64 {
    now()
}

/// Now: a model's processes have one clock.
pub fn common() -> u64 {
    now()
}

/// Now.
pub fn common_coarse() -> u64 {
    now()
}

/// Now.
pub fn boot() -> u64 {
    now()
}

/// Now, since boot.
pub(crate) fn common_boot() -> Option<u64> {
    Some(now())
}

/// None.
pub(crate) fn boot_offset() -> Option<i64> {
    Some(0)
}
