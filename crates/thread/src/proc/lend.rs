//! Lending one's turn: another thread of the proc runs at once, in the place of the caller, which stays ready (nonblocking-real-time, 4.3: the hint with which
//! who waits for a lock passes its processor to the holder).
//!
//! The other is looked for in the queue, at the price of a look at those of its level before it: who lends is held up anyway.

use super::*;
use chappe_plat::light::Turn;

/// Runs `to`, if it is ready here. The caller stays ready: as the first of its level, or as the last.
pub(super) fn lend(to: &'static Record, turn: Turn) -> bool {
    let (Some(me), to) = (current(), of(to)) else { return false };
    if !is_with(me, to) || std::ptr::eq(me, to) || asks::is_inside(me) {
        return false;
    }
    let proc = me.proc();
    proc.enter();
    proc.empty_inbox();
    if !proc.queue.remove(to) {
        proc.leave();
        return false;
    }
    // Who is suspended runs for nobody: it is in no queue from here on (S1).
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

/// Of two threads that the first one's proc has, while the first runs.
fn is_with(me: &'static Thread, other: &Thread) -> bool {
    !me.away.get() && std::ptr::eq(me.proc(), other.proc())
}

/// Whether a thread is with the proc that runs the caller, stays there, and is not on its stack: then it does not run before the caller has given way.
pub(super) fn is_here(who: &Record) -> bool {
    // SAFETY: a record is the first part of a thread, and there is no other scheduler.
    let who = unsafe { &*from_ref(who).cast::<Thread>() };
    let Some(me) = current().filter(|me| is_with(me, who)) else { return false };
    // Acquire: I2: as it was left. One that is away is on its stack.
    who.off.load(Ordering::Acquire) == 1 && (me.proc().shared.procs == 1 || who.pinned.get())
}

/// The caller's level.
pub(super) fn level() -> u8 {
    current().map_or(0, |me| me.level.get())
}
