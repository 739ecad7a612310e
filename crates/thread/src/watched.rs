//! Valgrind and the address sanitizer are told which memory is a stack.
//!
//! Otherwise valgrind takes a switch from one stack to another for a frame of gigabytes, and warns. A client request is
//! a sequence of instructions that does nothing on a processor, and that valgrind recognises (valgrind.h). Each stack
//! is registered once, when it is new.
//!
//! If the process has an address sanitizer, the successor tells it of each switch (`chappe_plat::sanitizer`): which
//! thread goes on, and which stack was left. The sanitizer's value for a stack that was left lies in a table beside the
//! records; that of a kernel thread's own stack lies with that thread.

use crate::record::{MOST, Thread};
use chappe_plat::sanitizer::{self, Frames};
use chappe_plat::{Made, stacks};
use std::cell::{Cell, RefCell};
use std::ops::Range;

pub(crate) use chappe_plat::sanitizer::is_on as sees_switches;

const REGISTER: usize = 0x1501;

/// This is a stack from now on.
pub(crate) fn is_stack(bytes: Range<usize>) {
    if !cfg!(miri) {
        request([REGISTER, bytes.start, bytes.end, 0, 0, 0]);
    }
    sanitizer::is_root(bytes);
}

/// This is none any more.
pub(crate) fn is_no_stack(bytes: Range<usize>) {
    sanitizer::is_no_root(bytes);
}

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

#[cfg(target_arch = "x86_64")]
fn request(what: [usize; 6]) {
    // SAFETY: as it stands above: registers are turned round and back, and one is exchanged with itself. Valgrind reads what `rax` leads to.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") what.as_ptr(),
            inout("rdx") 0usize => _,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn request(what: [usize; 6]) {
    // SAFETY: as above, of `x4`.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") what.as_ptr(),
            inout("x3") 0usize => _,
            options(nostack),
        );
    }
}
