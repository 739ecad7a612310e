//! The virtual clock: stands still while any thread has something to do, and jumps to deadlines.
//!
//! Reading it is no step. A thread that spins until a time comes sees it run on once all others only spin or sleep.

use crate::state::EPOCH_NS;
use crate::trace::{CLOCK, Touch};
use crate::turn::{Mode, me, mode, with};

/// Now, in nanoseconds.
pub fn now() -> u64 {
    match mode() {
        Mode::Outside => EPOCH_NS,
        Mode::Fibre => with(|e| {
            e.trace.touch(me(), CLOCK, 50, Touch::Read);
            e.now
        }),
        _ => with(|e| e.now),
    }
}

/// Now; as exact as [`now`].
pub fn coarse() -> u64 {
    now()
}

/// Now: a world's processes have one clock.
pub fn common() -> u64 {
    now()
}

/// Now.
pub fn common_coarse() -> u64 {
    coarse()
}
