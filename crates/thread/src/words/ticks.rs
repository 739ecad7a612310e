//! Which procs idle, and whether the tick runs, which helps those that do not (see `runtime`).
//!
//! | word | values | changed by |
//! |---|---|---|
//! | `idle` | a bit for each proc that idles | that proc |
//! | `ticks` | 1: the tick runs | a proc sets 1, and wakes the tick; the tick sets 0 |
//!
//! - T1: while some procs idle and others do not, the tick runs. A proc changes its bit, then reads `ticks`; the tick
//!   sets 0, then reads `idle`. All four are SeqCst, so at least one sees the other: the proc starts the tick, or the
//!   tick goes on. So a thread that becomes ready need not say so: whatever it is ready by, and whichever comes first,
//!   it or the proc that idles, the tick looks for it.
//!
//! Visibility: the words publish nothing else.
//!
//! Deaths: both words are private to the process and end with it.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};

/// Whether some of `all` idle, and others do not.
fn is_wanted(idle: u64, all: u64) -> bool {
    idle != 0 && idle != all
}

/// True: the caller has started the tick, and wakes it.
fn starts(ticks: &AtomicU32) -> bool {
    // SeqCst, both: T1. Relaxed: another has started it.
    ticks.load(Ordering::SeqCst) == 0 && ticks.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// The proc of that bit begins or ceases to idle. True: the caller has started the tick, and wakes it.
pub(crate) fn idles(idle: &AtomicU64, bit: u64, idles: bool, all: u64, ticks: &AtomicU32) -> bool {
    // SeqCst, both: T1; and a waker, and a thread that adds a deadline, look for an idle proc.
    let now = match idles {
        true => idle.fetch_or(bit, Ordering::SeqCst) | bit,
        false => idle.fetch_and(!bit, Ordering::SeqCst) & !bit,
    };
    is_wanted(now, all) && starts(ticks)
}

/// The tick stops, if no proc wants it, until one does. True: it has stopped.
pub(crate) fn stops(ticks: &AtomicU32, idle: &AtomicU64, all: u64) -> bool {
    // SeqCst, all: T1.
    if is_wanted(idle.load(Ordering::SeqCst), all) {
        return false;
    }
    ticks.store(0, Ordering::SeqCst);
    if is_wanted(idle.load(Ordering::SeqCst), all) {
        // A proc may have started it as well.
        starts(ticks);
    }
    true
}
