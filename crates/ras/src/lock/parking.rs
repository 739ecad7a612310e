//! Sleeping until a lock is given up, and waking who sleeps: the same for the biased lock and the plain one.
//!
//! | word | what it is |
//! |---|---|
//! | `waiters` | how many have entered and not left: the only thing that who unlocks looks at |
//! | `wake` | bit 0, TOLD: somebody who entered is awake, or about to be, and has not looked yet; above it a count of wake-ups |
//!
//! ```text
//!   unlock: free the lock                      wait: waiters += 1
//!           E1                                       E1
//!           waiters = 0? done                  +---> take TOLD away, keep `wake`      <--+
//!           E2 fence                           |     E2                                  |
//!           TOLD? done                         |     try to lock -- got it --> leave     |
//!           TOLD, count += 1                   |     still held                          |
//!           wake one  . . . . . . . . . . . . .|. .> sleep while `wake` is what was kept +
//! ```
//!
//! - I1: who sleeps has seen the lock held after it had entered, and after TOLD was away. So whoever gives the lock up after that
//!   sees `waiters` (E1), and sees TOLD away (E2), or set again by somebody else, who wakes one.
//! - I2: while TOLD stands, one that has entered will look before it sleeps, or none is asleep: the count was raised with it, so that
//!   who was about to sleep does not, and one of those who did sleep is woken, whoever may have got the lock meanwhile.
//!
//! - E1 (store, load against store, load): of freeing and looking at `waiters` on one side, entering and looking at the lock on the
//!   other, one sees the other's store. How is up to the lock: a locked operation and a load, both SeqCst, on each side; or a plain store
//!   and load, and a fence that only the sleeper pays. A locked operation alone is not enough: where it is a loop of load and
//!   store, a relaxed load behind it may come before its store.
//! - E2 (the same of freeing and TOLD, taking TOLD away and the lock): fences on both sides; the slow side each.
//!
//! Barging: who comes along may have the lock before who was woken. Unlocking never blocks.

use chappe_plat::atomic::{AtomicU32, Ordering, fence};
use chappe_plat::futex::{self, Scope};

/// Somebody was told, and has not looked yet.
const TOLD: u32 = 1;

/// Those who wait for one lock.
pub(super) struct Parking {
    waiters: AtomicU32,
    wake: AtomicU32,
}

impl Parking {
    pub(super) const fn new() -> Parking {
        Parking { waiters: AtomicU32::new(0), wake: AtomicU32::new(0) }
    }

    /// Whether anybody waits: for who has just freed the lock by a locked operation.
    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        // SeqCst: E1, behind that operation.
        self.waiters.load(Ordering::SeqCst) != 0
    }

    /// The same for who has freed it by a plain store: only where who sleeps fences.
    #[inline(always)]
    pub(super) fn is_awaited_by_who_fences(&self) -> bool {
        // Relaxed: E1, by the sleeper's fence.
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Tells one. The caller has freed the lock, and seen that somebody waits.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&self) {
        fence(Ordering::SeqCst); // SeqCst: E2, between the freeing and the look.
        // Relaxed: behind the fence.
        let seen = self.wake.load(Ordering::Relaxed);
        // SeqCst: E2. A failure: somebody else tells, or one that was told looks, after the lock was freed.
        if seen & TOLD == 0
            && self.wake.compare_exchange(seen, seen.wrapping_add(2) | TOLD, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            futex::wake(&self.wake, 1, Scope::Private);
        }
    }

    /// From here on who unlocks tells.
    pub(super) fn enter(&self) {
        // SeqCst: E1.
        self.waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// Before each look at the lock: answers what to sleep on if it is held.
    pub(super) fn look(&self) -> u32 {
        // SeqCst: E2.
        let seen = self.wake.load(Ordering::SeqCst);
        if seen & TOLD == 0 {
            return seen;
        }
        // SeqCst: E2. Only TOLD: another count is seen by the kernel.
        self.wake.fetch_and(!TOLD, Ordering::SeqCst);
        seen & !TOLD
    }

    /// Sleeps unless somebody was told since that look; at most until then.
    pub(super) fn sleep(&self, seen: u32, deadline: Option<u64>) {
        futex::wait(&self.wake, seen, deadline, Scope::Private);
    }

    /// The caller has the lock.
    pub(super) fn leave(&self) {
        // Relaxed: too many are no harm.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}
