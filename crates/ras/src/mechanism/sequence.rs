//! The mechanism `Sequence`: the paper's own, a test-and-set that the kernel starts again. On one processor only.
//!
//! netbsd-restartable-sequences, section 5: "a *blocking* construct": a thread that finds the flag set sleeps in the kernel. The paper's
//! thread library has its scheduler for that; here it is a futex.
//!
//! The word is 0 (free) or 1 (held); `waiters` counts the threads that sleep or are about to. Nothing on the fast path is a locked
//! instruction or a fence. That is right on one processor: its own loads and stores are in order, and a switch to another thread leaves
//! nothing behind.
//!
//! - I1: all threads that use the flag run on one processor. The choice of the mechanism ensures this as far as it can be seen
//!   (`mechanism.rs`).
//! - R1, release against sleep: the releaser stores the word, then looks at `waiters`; the waiter counts itself, then tries, and sleeps
//!   only while the word is 1. Wherever they are switched in between, one of the two sees the other.

use super::tas::{self, Sequences};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};

#[inline(always)]
pub(super) fn try_acquire(sequences: Sequences, word: &AtomicU32) -> bool {
    !tas::called_sequence(sequences, word)
}

#[inline(always)]
pub(super) fn acquire(sequences: Sequences, word: &AtomicU32, waiters: &AtomicU32) {
    if !try_acquire(sequences, word) {
        wait(sequences, word, waiters);
    }
}

#[cold]
fn wait(sequences: Sequences, word: &AtomicU32, waiters: &AtomicU32) {
    // Relaxed: R1: in order on its processor.
    waiters.fetch_add(1, Ordering::Relaxed);
    while !try_acquire(sequences, word) {
        futex::wait(word, 1, None, Scope::Private);
    }
    // Relaxed: as above.
    waiters.fetch_sub(1, Ordering::Relaxed);
}

#[inline(always)]
pub(super) fn release(word: &AtomicU32, waiters: &AtomicU32) {
    tas::release(word);
    tas::in_order();
    // Relaxed: R1: in order on its processor, and the compiler has been told.
    if waiters.load(Ordering::Relaxed) != 0 {
        futex::wake(word, 1, Scope::Private);
    }
}
