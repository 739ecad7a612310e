//! What a wrapper calls for a thread that has no area yet.

use chappe_plat::rseq;

/// Called by a wrapper for a thread that has no area yet. Without an area the body would run unarmed, and a thread that relies on it would
/// not know.
pub extern "C" fn entered() {
    rseq::enter();
    if rseq::cpu().is_none() {
        // Out of a function that C could call, this ends the process.
        panic!(
            "the kernel gives this thread no area for restartable sequences: the sequence that it enters would not be atomic \
             (was a filter for system calls installed after the sequence, or is the thread just about to end?)"
        );
    }
}
