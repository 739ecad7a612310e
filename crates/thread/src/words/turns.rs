//! Whose turn it is at a proc's queue: its owner's, who comes all the time, or a thief's, who comes seldom.
//!
//! - I3: `busy` before `taken`, on one side, `taken` before `busy` on the other, with a fence for all threads on the thief's: one of the two
//!   goes away. The owner waits for the thief, who takes some ns; the thief for nobody.

use chappe_plat::atomic::{AtomicU32, Ordering, pause};
use chappe_plat::fence;

/// The owner comes to the queue.
#[inline(always)]
pub(crate) fn enter(busy: &AtomicU32, taken: &AtomicU32) {
    loop {
        // Relaxed: I3, with the fence behind it. Acquire: what the last thief has left.
        busy.store(1, Ordering::Relaxed);
        fence::light();
        if taken.load(Ordering::Acquire) == 0 {
            return;
        }
        wait_for_thief(busy, taken);
    }
}

/// The same of a queue that no thief knows of.
#[inline(always)]
pub(crate) fn enter_alone(busy: &AtomicU32) {
    // Relaxed: I5 of the proc, our own kernel thread's handlers look at it.
    busy.store(1, Ordering::Relaxed);
    // For the compiler: what follows is not to be done before.
    fence::light_alone();
}

/// The same, if its owner is not there: the caller may have interrupted it.
#[inline(always)]
pub(crate) fn try_enter_alone(busy: &AtomicU32) -> bool {
    // Relaxed: as above.
    let free = busy.load(Ordering::Relaxed) == 0;
    if free {
        enter_alone(busy);
    }
    free
}

/// As `enter`, if nobody is there: not its owner either: the caller may have interrupted it.
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

/// It goes.
#[inline(always)]
pub(crate) fn leave(busy: &AtomicU32) {
    // Release: for the thief.
    busy.store(0, Ordering::Release);
}

/// A thief does something at the queue, if neither its owner nor another thief is there.
pub(crate) fn steal(busy: &AtomicU32, taken: &AtomicU32, act: impl FnOnce()) {
    // Acquire: the last thief's. Relaxed: another is there.
    if taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    // I3. Acquire: what the owner has left.
    if fence::try_heavy() && busy.load(Ordering::Acquire) == 0 {
        act();
    }
    // Release: what the thief has left.
    taken.store(0, Ordering::Release);
}
