//! How a thread is woken: it gets its token, and the waker that has taken it out of PARKED puts it into a queue. Invariants: the proc's.

use super::Proc;
use crate::record::{Thread, current, of};
use crate::words::token::{self, Wakes};
use chappe_plat::atomic::Ordering;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::Record;
use std::ptr::from_ref;

/// Gives a thread its token. True: the thread was parked and has consumed the token; the caller must put it into a
/// queue (I1).
#[inline(always)]
pub(crate) fn wakes(record: &Record) -> bool {
    done(record, token::give(&record.token))
}

#[inline(always)]
fn done(record: &Record, wakes: Wakes) -> bool {
    if wakes == Wakes::Asleep {
        futex::wake(&record.token, 1, Scope::Private);
    }
    wakes == Wakes::Parked
}

/// A thread was told of events: it looks for them.
pub(crate) fn tell(thread: &'static Thread) {
    if done(&thread.core, token::tell(&thread.core.token)) {
        ready(thread);
    }
}

#[inline(never)]
pub(crate) fn unpark(record: &'static Record) {
    if wakes(record) {
        ready(of(record));
    }
}

/// Puts a thread into its proc's queue or inbox. I1: the caller has taken it out of PARKED or STOPPED, or made it.
#[inline(always)]
pub(crate) fn ready(thread: &'static Thread) {
    let home = thread.proc();
    match current() {
        Some(me) if !me.away.get() => {
            if !std::ptr::eq(me.proc(), home) || !home.try_push(thread) {
                home.put_in(thread);
            }
        }
        _ => ready_from_outside(thread, home),
    }
}

/// `ready`, called by a kernel thread that runs no proc: the thread may move to an idle proc.
#[cold]
fn ready_from_outside(thread: &'static Thread, home: &'static Proc) {
    let mut to = home;
    // Acquire: I2.
    let may_go = || !home.is_asleep() && !thread.pinned.get() && thread.off.load(Ordering::Acquire) != 0;
    if home.shared.procs > 1
        && may_go()
        && let Some(idle) = home.shared.an_idle_one()
    {
        to = idle;
        thread.proc.store(from_ref(to) as u64, Ordering::Release); // Release: it is that one's.
    }
    to.put_in(thread);
}
