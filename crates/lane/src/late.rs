//! A lane that begins in the middle of a stream: bytes that nobody has counted are in the kernel's pipe, and the two ends have to agree on a
//! position. The protocol is told at the head of the crate.

use super::words::{FLAGS, Lane, Pipe, SHIFT, position};
use chappe_plat::atomic::Ordering;

/// Where a late lane's count begins: no kernel's pipe that may have a lane holds as many bytes.
const START: u64 = 1 << 20;

impl<P: Pipe> Lane<'_, P> {
    /// The count begins here: what the kernel's pipe holds has been written before. For the only process that has the pipe's writing end, with one
    /// thread, before it owns the end. The thread is outside its write(2), and also not in a signal handler that has interrupted one: the kernel
    /// begins that again behind the handler, and nobody counts its bytes. False: somebody has counted already, so this lane is not to be used.
    pub fn begin_late(self) -> bool {
        let words = self.words;
        // Relaxed: the swap decides.
        if words.tail.load(Ordering::Relaxed) != 0 {
            return false;
        }
        words.kernel_end.store(START, Ordering::Relaxed); // Relaxed: the swap releases it, I5.
        // Release: I5. Relaxed where it fails: nothing is done.
        words.tail.compare_exchange(0, START << SHIFT, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Finds the position of a late reader: all that the kernel's pipe holds has been counted up to `kernel_end`, or is older than the count. For
    /// the only thread that has the pipe's reading end, before it owns the end, outside its read(2) and not in a signal handler that has
    /// interrupted one; no signal handler reads in between.
    /// False: not now, as the writer is in write(2); or never, as nobody has begun.
    pub fn catch_up(self) -> bool {
        let words = self.words;
        let seen = words.tail.load(Ordering::Acquire); // Acquire: E1, I5.
        // A flag: write(2) is under way, or the lane is somebody's, or closed.
        if seen & FLAGS != 0 || position(seen) < START {
            return false;
        }
        let kernel_end = words.kernel_end.load(Ordering::Acquire); // Acquire: I5.
        let start = kernel_end.checked_sub(self.pipe.held());
        // Acquire: no write(2) has begun meanwhile. Each that brings bytes moves the position.
        let Some(start) = start.filter(|_| words.tail.load(Ordering::Acquire) == seen) else { return false };
        let head = &words.head.0;
        let now = head.load(Ordering::Relaxed); // Relaxed: the swap decides.
        // AcqRel: E2, E4. Relaxed where it fails: the lane is closed.
        now & FLAGS == 0 && head.compare_exchange(now, start << SHIFT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
