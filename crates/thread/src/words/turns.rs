//! The lock of a proc's queue, biased to its owner: the owner enters at every switch, a thief (another proc) seldom.
//!
//! | word | 1 means | written by |
//! |---|---|---|
//! | `busy` | the owner is at the queue, or idles | the owner, by plain stores |
//! | `taken` | a thief is at the queue | thieves, by a compare-exchange |
//!
//! - I3: the owner sets `busy`, then reads `taken`. A thief sets `taken`, then reads `busy`, with a fence for all
//!   threads (membarrier) in between, which stands for the owner's fence as well. So at least one sees the other, and
//!   gives way: the owner waits for the thief to leave, which takes some nanoseconds; the thief never waits.
//!
//! Visibility: each side leaves by a release store of its word and enters by an acquire load of the other's.
//!
//! Deaths: the words are private to the process and end with it.

use chappe_plat::atomic::{AtomicU32, Ordering, pause};
use chappe_plat::fence;

/// The owner enters the queue; waits for a thief that is there.
#[inline(always)]
pub(crate) fn enter(busy: &AtomicU32, taken: &AtomicU32) {
    loop {
        // Relaxed: I3, with the fence behind it. Acquire: what the last thief did at the queue.
        busy.store(1, Ordering::Relaxed);
        fence::light();
        if taken.load(Ordering::Acquire) == 0 {
            return;
        }
        wait_for_thief(busy, taken);
    }
}

/// The owner enters a queue that has no thieves.
#[inline(always)]
pub(crate) fn enter_alone(busy: &AtomicU32) {
    // Relaxed: I5 of the proc, our own kernel thread's handlers look at it.
    busy.store(1, Ordering::Relaxed);
    // Keeps the compiler from moving what follows before the store.
    fence::light_alone();
}

/// As `enter_alone`, unless the owner is at the queue: the caller may be a signal handler that has interrupted it.
#[inline(always)]
pub(crate) fn try_enter_alone(busy: &AtomicU32) -> bool {
    // Relaxed: as above.
    let free = busy.load(Ordering::Relaxed) == 0;
    if free {
        enter_alone(busy);
    }
    free
}

/// As `enter`, but never waits. False: a thief is at the queue, or the owner, which the caller (a signal handler) has
/// interrupted.
#[inline(always)]
pub(crate) fn try_enter(busy: &AtomicU32, taken: &AtomicU32) -> bool {
    // Relaxed: I5 of the proc, our own kernel thread's.
    if busy.load(Ordering::Relaxed) != 0 {
        return false;
    }
    // Relaxed, Acquire: as in `enter`.
    busy.store(1, Ordering::Relaxed);
    fence::light();
    if taken.load(Ordering::Acquire) != 0 {
        leave(busy);
        return false;
    }
    true
}

#[cold]
fn wait_for_thief(busy: &AtomicU32, taken: &AtomicU32) {
    leave(busy);
    // Acquire: what the thief has left.
    while taken.load(Ordering::Acquire) != 0 {
        pause();
    }
}

/// The owner leaves the queue.
#[inline(always)]
pub(crate) fn leave(busy: &AtomicU32) {
    // Release: publishes the queue to the next thief.
    busy.store(0, Ordering::Release);
}

/// A thief runs `act` at the queue, if neither the owner nor another thief is there.
pub(crate) fn steal(busy: &AtomicU32, taken: &AtomicU32, act: impl FnOnce()) {
    // Acquire: what the last thief did. Relaxed: another thief is there.
    if taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    // I3. Acquire: what the owner did at the queue.
    if fence::try_heavy() && busy.load(Ordering::Acquire) == 0 {
        act();
    }
    // Release: publishes what the thief did.
    taken.store(0, Ordering::Release);
}
