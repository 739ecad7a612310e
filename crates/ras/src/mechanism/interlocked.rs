//! The mechanism `Interlocked`: a compare-and-swap each way, and a futex to wait on.
//!
//! netbsd-restartable-sequences, 4.3. Every machine of today can do it, and every other mechanism falls back to it.
//!
//! | word | |
//! |---|---|
//! | 0 | free |
//! | 1 | held |
//! | 2 | held, and a thread may be asleep: the releaser wakes one |
//!
//! A woken sleeper takes the word as 2, since others may sleep behind it: at worst one wake-up too many. Not fair: the first thread that
//! comes takes it. A holder that dies leaves it held.

use chappe_plat::atomic::{AtomicU32, Ordering, pause};
use chappe_plat::futex::{self, Scope};

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;
/// How often a waiter looks again before it sleeps.
const LOOKS: u32 = 100;

/// Takes it if it is free.
#[inline]
pub(crate) fn try_acquire(word: &AtomicU32) -> bool {
    // Acquire: what the last holder wrote. Relaxed: nothing was taken.
    word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes it, and waits until it is free.
#[inline]
pub(crate) fn acquire(word: &AtomicU32) {
    if !try_acquire(word) {
        wait(word);
    }
}

#[cold]
fn wait(word: &AtomicU32) {
    for _ in 0..LOOKS {
        // Relaxed: only a look.
        if word.load(Ordering::Relaxed) == FREE && try_acquire(word) {
            return;
        }
        pause();
    }
    // Acquire: as in `try_acquire`.
    while word.swap(WAITED, Ordering::Acquire) != FREE {
        futex::wait(word, WAITED, None, Scope::Private);
    }
}

/// Gives it up.
#[inline]
pub(crate) fn release(word: &AtomicU32) {
    // Release: what was written under it.
    if word.swap(FREE, Ordering::Release) == WAITED {
        futex::wake(word, 1, Scope::Private);
    }
}
