//! What a thread does first on a stack that another has come from: it reads the note that was left in a register. Invariants: the proc's, and M1 of `modes`.

use super::*;
use crate::{end, modes};

/// What a note says besides whose stack was left: the thread has ended.
pub(super) const ENDED: usize = 1;
/// The sanitizer is to be told which thread goes on.
pub(super) const TOLD: usize = 2;
/// The side that leaves, or comes, keeps floating-point modes of its own.
pub(super) const MODES: usize = 4;
/// What is no part of the record's address.
const BITS: usize = ENDED | TOLD | MODES;

/// On another stack than before: nobody is on the one that was left.
#[inline(always)]
pub(super) fn landed<const FIRST: bool>(me: &'static Thread, left: usize) {
    // A thread that begins comes mostly after one that has ended, or has begun it; the others do not.
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

/// The same after one that has ended, where modes change, or under a sanitizer.
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
        // For the next that has the record. Relaxed: nobody else changes the word of one that has ended.
        from.core.control.fetch_and(!light::asked::MODES, Ordering::Relaxed);
    }
    proc.told.set((proc.told.get() & !MODES) | if to.is_some() { MODES } else { 0 });
}

/// The thread that has left a note; none: the kernel thread.
#[inline(always)]
pub(super) fn whose(left: usize) -> Option<&'static Thread> {
    // SAFETY: a record, or null.
    unsafe { ((left & !BITS) as *const Thread).as_ref() }
}

/// Nobody is on the stack any more of a thread that goes on later. A note that says nothing else.
#[inline(always)]
fn let_go(left: usize) {
    // SAFETY: a record, or null.
    if let Some(left) = unsafe { (left as *const Thread).as_ref() } {
        // Release: I2.
        left.off.store(1, Ordering::Release);
    }
}

/// By the thread that comes after another: null, after none.
#[inline(always)]
pub(super) fn take_note(proc: &Proc, left: usize) {
    if left & ENDED != 0 {
        notify_dead(proc, left);
    } else {
        let_go(left & !BITS);
    }
}

/// It has ended.
#[inline(never)]
fn notify_dead(proc: &Proc, left: usize) {
    let thread = whose(left).expect("the kernel thread does not end");
    proc.over.set(proc.over.get() + 1);
    if end::is_over(thread) {
        proc.put_free(thread);
    }
}
