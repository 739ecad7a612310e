//! Lending a turn: the caller lets another thread of its proc run at once in its place, and stays ready
//! (nonblocking-real-time, 4.3: the hint with which the waiter for a lock passes its processor to the holder).
//!
//! The lender searches the queue for that thread, past the threads of the same level that stand before it. It is
//! blocked anyway, so it has no better use for that time.
//!
//! Invariants: the proc's.

use crate::record::{Thread, current, of};
use chappe_plat::atomic::Ordering;
use chappe_plat::light::{Record, Turn};
use std::ptr::from_ref;

/// Runs `to`, if it is ready here. The caller stays ready: as the first of its level, or as the last.
pub(crate) fn lend(to: &'static Record, turn: Turn) -> bool {
    let (Some(me), to) = (current(), of(to)) else { return false };
    if !is_with(me, to) || std::ptr::eq(me, to) || me.is_inside() {
        return false;
    }
    let proc = me.proc();
    proc.enter();
    proc.empty_inbox();
    if !proc.queue.remove(to) {
        proc.leave();
        return false;
    }
    // A suspended thread does not run, for a lender either: `takes` has marked it STOPPED, and it is in no queue from
    // here on (S1).
    if !proc.takes(to) {
        proc.leave();
        return false;
    }
    match turn {
        Turn::First => proc.queue.push_first(me),
        Turn::Last => proc.queue.push(me),
    }
    proc.switch_to(me, to);
    true
}

/// Whether both threads belong to the proc that runs `me`.
fn is_with(me: &'static Thread, other: &Thread) -> bool {
    !me.away.get() && std::ptr::eq(me.proc(), other.proc())
}

/// Whether a thread belongs to the proc that runs the caller, stays there, and is off its stack: then it does not run
/// before the caller yields.
pub(crate) fn is_here(who: &Record) -> bool {
    // SAFETY: a record is the first part of a thread, and there is no other scheduler.
    let who = unsafe { &*from_ref(who).cast::<Thread>() };
    let Some(me) = current().filter(|me| is_with(me, who)) else { return false };
    // Acquire: I2, what the thread did before it left its stack. A thread that is away is on its stack.
    who.off.load(Ordering::Acquire) == 1 && (me.proc().shared.procs == 1 || who.pinned.get())
}

/// The caller's level.
pub(crate) fn level() -> u8 {
    current().map_or(0, |me| me.level.get())
}
