//! A proc's inbox and its sleep word. Any thread (the sender) puts ready threads in; the proc takes them all at once.
//!
//! | word | values | changed by |
//! |---|---|---|
//! | `inbox` | 0, or the newest thread, which links to the older ones | senders; the proc, which takes all by a swap |
//! | `sleep` | AWAKE, SLEEPS | the proc sets SLEEPS and AWAKE; the one sender that changes SLEEPS to AWAKE wakes the proc |
//!
//! - I4: the proc sets SLEEPS, then reads its inbox. A sender puts its thread in, then reads `sleep`. All four are
//!   SeqCst, so at least one sees the other: a proc does not sleep while its inbox holds a thread, unless the sender's
//!   wake is on its way.
//!
//! Visibility: a sender's compare-exchange publishes the thread and its link; the proc's swap acquires them.
//!
//! Deaths: both words are private to the process and end with it.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};

/// A proc that is awake, and one that sleeps.
pub(crate) const AWAKE: u32 = 0;
pub(crate) const SLEEPS: u32 = 1;

/// Puts `what` in; `link` is its link to the next older entry.
pub(crate) fn put(inbox: &AtomicU64, what: u64, link: &AtomicU64) {
    // Relaxed: the compare-exchange decides.
    let mut first = inbox.load(Ordering::Relaxed);
    loop {
        link.store(first, Ordering::Relaxed); // Relaxed: published by the compare-exchange.
        // SeqCst: I4. Relaxed: the loop retries.
        match inbox.compare_exchange(first, what, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Whether the inbox holds a thread. A hint: `take` decides.
#[inline(always)]
pub(crate) fn has_some(inbox: &AtomicU64) -> bool {
    inbox.load(Ordering::Relaxed) != 0 // Relaxed: a hint.
}

/// Takes all threads: answers the newest, which links to the others.
pub(crate) fn take(inbox: &AtomicU64) -> u64 {
    inbox.swap(0, Ordering::Acquire) // Acquire: the threads and links as their senders left them.
}

/// The proc sets SLEEPS. False: the inbox holds a thread, so the proc must not sleep.
pub(crate) fn lie_down(sleep: &AtomicU32, inbox: &AtomicU64) -> bool {
    // SeqCst, both: I4, the read of the inbox comes after SLEEPS is set.
    sleep.swap(SLEEPS, Ordering::SeqCst);
    inbox.load(Ordering::SeqCst) == 0
}

/// The proc is awake again.
pub(crate) fn get_up(sleep: &AtomicU32) {
    // SeqCst: a sender that reads AWAKE need not wake the proc, which reads its inbox after this store.
    sleep.store(AWAKE, Ordering::SeqCst);
}

/// After `put`: whether the sender must wake the proc.
pub(crate) fn rouses(sleep: &AtomicU32) -> bool {
    // SeqCst, all: I4.
    sleep.load(Ordering::SeqCst) == SLEEPS
        && sleep.compare_exchange(SLEEPS, AWAKE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
