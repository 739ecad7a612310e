//! Times of a part: on the wall, and of the processor.

use std::time::Instant;

pub fn per(begun: Instant, operations: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / operations as f64
}

/// A moment in the processor time of this process: of one that uses one processor all the time, the same as the time on the wall, but for what
/// others have taken.
#[derive(Clone, Copy)]
pub struct Used(f64);

impl Used {
    pub fn now() -> Used {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place for the answer.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
        Used(now.tv_sec as f64 * 1e9 + now.tv_nsec as f64)
    }

    pub fn per(self, operations: usize) -> f64 {
        (Used::now().0 - self.0) / operations as f64
    }
}
