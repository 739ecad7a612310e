//! The first steps after a switch. The successor reads the note that its predecessor left in a register: the
//! predecessor's record, and flags ([`ENDED`], [`TOLD`], [`MODES`]). By that note it marks the predecessor as off its
//! stack (I2), or gives back a thread that has ended. Invariants: the proc's, and M1 of `modes`.

use super::{BITS, ENDED, MODES, Proc, TOLD};
use crate::record::Thread;
use crate::{modes, over, watched};
use chappe_plat::atomic::Ordering;
use chappe_plat::light;

/// Called on the stack of `me` just after a switch to it: handles the note `left`. No kernel thread is on the stack
/// that was left.
#[inline(always)]
pub(super) fn landed<const FIRST: bool>(me: &'static Thread, left: usize) {
    // A thread that begins mostly follows a thread that has ended, or the thread that has begun it; other threads do
    // not.
    if left & if FIRST { TOLD | MODES } else { BITS } != 0 {
        return landed_otherwise(me, FIRST, left);
    }
    let proc = me.proc();
    if FIRST {
        take_note(proc, left)
    } else {
        let_go(left)
    }
    proc.leave();
}

/// `landed` after a thread that has ended, where modes change, or under a sanitizer.
#[inline(never)]
fn landed_otherwise(me: &'static Thread, first: bool, left: usize) {
    if left & TOLD != 0 {
        watched::landed(me, first, whose(left), left & ENDED != 0);
    }
    let proc = me.proc();
    if left & MODES != 0 {
        pass_modes(proc, left, Some(me));
    }
    take_note(proc, left);
    proc.leave();
}

/// From the floating-point modes of the side that has left to those of the thread that comes; none: the kernel thread. M1.
#[cold]
pub(super) fn pass_modes(proc: &Proc, left: usize, to: Option<&'static Thread>) {
    let from = whose(left).filter(|from| from.keeps_modes());
    let to = to.filter(|to| to.keeps_modes());
    modes::pass(from.map(|from| &from.modes), to.map(|to| &to.modes), &proc.shared_modes);
    if let Some(from) = from.filter(|_| left & ENDED != 0) {
        // For the next thread that gets the record. Relaxed: no other thread changes the word of a thread that has
        // ended.
        from.core.control.fetch_and(!light::asked::MODES, Ordering::Relaxed);
    }
    proc.told.set((proc.told.get() & !MODES) | if to.is_some() { MODES } else { 0 });
}

/// The thread that left the note; `None`: the kernel thread.
#[inline(always)]
pub(super) fn whose(left: usize) -> Option<&'static Thread> {
    // SAFETY: a record, or null.
    unsafe { ((left & !BITS) as *const Thread).as_ref() }
}

/// The predecessor, which will run again, is off its stack. The note has no flags.
#[inline(always)]
fn let_go(left: usize) {
    // SAFETY: a record, or null.
    if let Some(left) = unsafe { (left as *const Thread).as_ref() } {
        // Release: I2, publishes the stack as it was left to a proc that takes the thread over.
        left.off.store(1, Ordering::Release);
    }
}

/// The successor handles the note of its predecessor; a null record: there was none.
#[inline(always)]
pub(super) fn take_note(proc: &Proc, left: usize) {
    if left & ENDED != 0 {
        notify_dead(proc, left);
    } else {
        let_go(left & !BITS);
    }
}

/// The predecessor has ended: counts it, and keeps its record if no handle needs it.
#[inline(always)]
fn notify_dead(proc: &Proc, left: usize) {
    let thread = whose(left).expect("the kernel thread does not end");
    proc.over.set(proc.over.get() + 1);
    if over::is_over(thread) {
        proc.put_free(thread);
    }
}
