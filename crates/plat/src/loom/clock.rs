//! Time in a model: a millisecond later with every look, so that whoever has waited twice has waited long.

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
