//! A proc's inbox, and its sleep: anybody puts threads in, the proc takes them all.
//!
//! - I4: a proc says that it sleeps, then looks at its inbox; whoever puts something there looks then whether it sleeps. One sees the other.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};

/// A proc that is awake, and one that sleeps.
pub(crate) const AWAKE: u32 = 0;
pub(crate) const SLEEPS: u32 = 1;

/// Puts something in, whose link this is.
pub(crate) fn put(inbox: &AtomicU64, what: u64, link: &AtomicU64) {
    // Relaxed: the swap decides.
    let mut first = inbox.load(Ordering::Relaxed);
    loop {
        link.store(first, Ordering::Relaxed); // Relaxed: published by the swap.
        // SeqCst: I4. Relaxed: once more.
        match inbox.compare_exchange(first, what, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Whether there is something. A look: `take` takes.
#[inline(always)]
pub(crate) fn has_some(inbox: &AtomicU64) -> bool {
    inbox.load(Ordering::Relaxed) != 0 // Relaxed: as it says.
}

/// Takes all: the last that was put in, which leads to the others.
pub(crate) fn take(inbox: &AtomicU64) -> u64 {
    inbox.swap(0, Ordering::Acquire) // Acquire: what was put in, as it was left.
}

/// The proc says that it sleeps. False: it must look again, there is something.
pub(crate) fn lie_down(sleep: &AtomicU32, inbox: &AtomicU64) -> bool {
    // SeqCst, both: I4, the look comes after it has been said.
    sleep.swap(SLEEPS, Ordering::SeqCst);
    inbox.load(Ordering::SeqCst) == 0
}

/// It is up.
pub(crate) fn get_up(sleep: &AtomicU32) {
    sleep.store(AWAKE, Ordering::SeqCst); // SeqCst: who comes now need not wake it.
}

/// After something was put in: whether the caller is to wake the proc.
pub(crate) fn rouses(sleep: &AtomicU32) -> bool {
    // SeqCst, all: I4.
    sleep.load(Ordering::SeqCst) == SLEEPS
        && sleep.compare_exchange(SLEEPS, AWAKE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
