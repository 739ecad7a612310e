//! Sleeping until a lock is released, and waking sleepers: the same for the biased lock and the plain one.
//!
//! | word | what it is |
//! |---|---|
//! | `waiters` | how many threads have entered and not left: the only thing that an unlocking thread looks at |
//! | `wake` | bit 0, TOLD: a waiter that entered is awake, or about to be, and has not looked yet; above it a count of wake-ups |
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
//! - I1: a sleeper has seen the lock held after it had entered, and after TOLD was away. So a holder that releases the lock after that sees
//!   `waiters` (E1), and sees TOLD away (E2), or set again by another thread, which wakes one waiter.
//! - I2: while TOLD is set, a waiter that has entered will look before it sleeps, or none is asleep. The count was raised with TOLD, so
//!   that a waiter that was about to sleep does not, and one of the sleepers is woken, whichever thread may have got the lock meanwhile.
//!
//! - E1 (store, load against store, load): of freeing and looking at `waiters` on one side, entering and looking at the lock on the other,
//!   one sees the other's store. The lock decides how: a locked operation and a load, both SeqCst, on each side; or a plain store and load,
//!   and a fence that only the sleeper pays. A locked operation alone is not enough: where it is a loop of load and store, a relaxed load
//!   behind it may come before its store.
//! - E2 (the same for freeing and TOLD against taking TOLD away and the lock): fences on both sides, on the slow path of each.
//!
//! Barging: a new locker may get the lock before the woken waiter. Unlocking never blocks.

use chappe_plat::atomic::{AtomicU32, Ordering, fence};
use chappe_plat::futex::{self, Scope};

/// A waiter was told, and has not looked yet.
const TOLD: u32 = 1;

/// The waiters of one lock.
pub(super) struct Parking {
    waiters: AtomicU32,
    wake: AtomicU32,
}

impl Parking {
    pub(super) const fn new() -> Parking {
        Parking { waiters: AtomicU32::new(0), wake: AtomicU32::new(0) }
    }

    /// Whether any thread waits: for a caller that has just freed the lock by a locked operation.
    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        // SeqCst: E1, behind that operation.
        self.waiters.load(Ordering::SeqCst) != 0
    }

    /// The same for a caller that has freed it by a plain store: only where sleepers fence.
    #[inline(always)]
    pub(super) fn is_awaited_by_who_fences(&self) -> bool {
        // Relaxed: E1, by the sleeper's fence.
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Tells one waiter. The caller has freed the lock, and seen that a thread waits.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&self) {
        fence(Ordering::SeqCst); // SeqCst: E2, between the freeing and the look.
        // Relaxed: behind the fence.
        let seen = self.wake.load(Ordering::Relaxed);
        // SeqCst: E2. A failure: another thread tells, or a waiter that was told looks, after the lock was freed.
        if seen & TOLD == 0
            && self.wake.compare_exchange(seen, seen.wrapping_add(2) | TOLD, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            futex::wake(&self.wake, 1, Scope::Private);
        }
    }

    /// From here on unlocking threads tell.
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

    /// Sleeps unless a waiter was told since that look; at most until the deadline.
    pub(super) fn sleep(&self, seen: u32, deadline: Option<u64>) {
        futex::wait(&self.wake, seen, deadline, Scope::Private);
    }

    /// The caller has the lock.
    pub(super) fn leave(&self) {
        // Relaxed: too many are no harm.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}
