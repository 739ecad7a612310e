//! An address sanitizer is told of each switch from one stack to another.
//!
//! The successor tells it (`chappe_plat::sanitizer`): which thread goes on, and which stack was left. The sanitizer's value for a stack that
//! was left lies in a table beside the records; that of a kernel thread's own stack lies with that thread.

use crate::record::{MOST, Thread};
use chappe_plat::sanitizer::{self, Frames};
use chappe_plat::{Made, stacks};
use std::cell::{Cell, RefCell};

pub(crate) use chappe_plat::sanitizer::is_on as sees_switches;

thread_local! {
    /// Where the kernel thread's own stack lies; known when it has first been left.
    static ROOT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static ROOT_FRAMES: RefCell<Frames> = const { RefCell::new(Frames::NONE) };
}

/// What is kept of a thread's stack while nobody is on it.
#[allow(clippy::mut_from_ref, reason = "of a thread that one has")]
fn frames(thread: &Thread) -> Option<&mut Frames> {
    static ALL: Made<usize> = Made::new();
    let all = ALL.get_or_try(|| stacks::reserve(MOST * size_of::<Frames>(), c"chappe-frames").map(|at| at as usize));
    // SAFETY: within the region, of which each thread's part belongs to the proc that has the thread; zeros are no frames.
    all.ok().map(|all| unsafe { &mut *(*all as *mut Frames).add(thread.number() as usize) })
}

/// The calling thread goes on, for the first time or again; which thread it comes after: `None`, the kernel thread
/// itself. One that has `ended` never comes back.
#[cold]
#[inline(never)]
pub(crate) fn landed(me: &Thread, first: bool, left: Option<&Thread>, ended: bool) {
    let (low, top) = me.stack();
    if first {
        // The last on this stack may have left frames without returning from them.
        sanitizer::is_clear(low..top);
    }
    let Some(mine) = frames(me) else { return };
    match left {
        None => {
            let root = ROOT_FRAMES.with_borrow_mut(|root| sanitizer::landed(low..top, mine, Some(root)));
            if ROOT.replace((root.start, root.end)) == (0, 0) {
                // While a light thread runs it is not the kernel thread's stack to the leak checker.
                sanitizer::is_root(root);
            }
        }
        Some(left) => {
            let left = (!ended).then(|| frames(left)).flatten();
            sanitizer::landed(low..top, mine, left);
        }
    }
}

/// The kernel thread ends.
pub(crate) fn root_ends() {
    let (low, top) = ROOT.replace((0, 0));
    if top != 0 {
        sanitizer::is_no_root(low..top);
    }
}

/// The kernel thread goes on itself, after that one.
#[cold]
#[inline(never)]
pub(crate) fn landed_at_root(left: Option<&Thread>, ended: bool) {
    let (low, top) = ROOT.get();
    let left = left.filter(|_| !ended).and_then(frames);
    ROOT_FRAMES.with_borrow_mut(|root| sanitizer::landed(low..top, root, left));
}
