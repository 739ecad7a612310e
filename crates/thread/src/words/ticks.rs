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

/// The procs of a set.
fn procs(set: u64) -> impl Iterator<Item = usize> + Clone {
    (0..u64::BITS as usize).filter(move |at| set >> at & 1 != 0)
}

/// Which idle proc helps which of those that are `stuck`: each idle one helps one. If fewer idle than are stuck, those begin that `turn` says. So while the same
/// ones are stuck, with each look another is helped: a proc whose ready threads may not leave it holds up no other. (Of a set that changes with each
/// look, one may be passed over as long as it does.)
pub(crate) fn pairs(idle: u64, stuck: u64, turn: u32) -> impl Iterator<Item = (usize, usize)> {
    let first = turn as usize % (stuck.count_ones() as usize).max(1);
    procs(idle).zip(procs(stuck).cycle().skip(first).take(stuck.count_ones() as usize))
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn each_idle_proc_helps_one_and_each_stuck_one_has_its_turn() {
        for (idle, stuck) in
            [(0b1, 0b110), (0b1001, 0b110), (0b1, 0b11_1010), (0b111, 0b1000), (1 << 63, 0b11), (0, 0b1), (0b1, 0)]
        {
            let (mut helped, turns) = (0, u64::count_ones(stuck));
            for turn in 0..turns {
                let (mut helpers, mut others) = (0u64, 0u64);
                for (helper, other) in pairs(idle, stuck, turn) {
                    assert!(idle >> helper & 1 != 0 && stuck >> other & 1 != 0);
                    assert!(helpers >> helper & 1 == 0 && others >> other & 1 == 0, "no proc twice");
                    (helpers, others) = (helpers | 1 << helper, others | 1 << other);
                }
                assert_eq!(
                    helpers.count_ones(),
                    idle.count_ones().min(stuck.count_ones()),
                    "each idle proc helps while one is left that is stuck"
                );
                helped |= others;
            }
            assert_eq!(helped, if idle == 0 { 0 } else { stuck }, "each has its turn");
        }
    }
}
