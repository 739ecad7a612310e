//! How long a locker looks before it sleeps, and when a lock is biased to a processor.
//!
//! A bias saves some 16 ns each time, and to take it away costs from 300 ns (no thread of this process runs there) to 2 us (the thread that
//! runs there is interrupted). So a lock is biased to a processor from which it was taken [`FIRST`] times in a row; twice as many after
//! each bias that did not earn what its end has cost, half as many after each that did, and never more than [`MOST`]: a lock that was
//! contended by two processors for a while is biased again once it no longer is.

use chappe_plat::atomic::{give_way, pause};

/// So many times in a row on one processor, at first and at least.
const FIRST: u32 = 256;
/// At most: a third of a millisecond.
const MOST: u32 = 1 << 14;
/// What a pair spares while there is a bias.
const SPARED_NS: u64 = 16;

/// How many times a lock that is held is looked at before one sleeps.
#[cfg(not(feature = "sim"))]
const LOOKS: u32 = 10;
#[cfg(feature = "sim")]
const LOOKS: u32 = 0;
/// The first of them are this many pauses apart, then twice as many each time; between the others, any other thread can run here.
const PAUSING: u32 = 6;
const PAUSES: u32 = 4;

/// Looks for a while. True: one of the attempts came to something.
#[inline]
pub(super) fn look(attempt: impl Fn() -> bool) -> bool {
    look_with(&mut (), |()| attempt())
}

/// As [`look`], with what the attempts change.
#[inline]
pub(super) fn look_with<S>(state: &mut S, attempt: impl Fn(&mut S) -> bool) -> bool {
    (0..LOOKS).any(|turn| {
        if turn < PAUSING {
            (0..PAUSES << turn).for_each(|_| pause());
        } else {
            give_way();
        }
        attempt(state)
    })
}

/// What a lock has learned of its users. The holder's alone.
pub(super) struct Habits {
    /// How many pairs the last bias has served.
    pub served: u64,
    /// So many times in a row are wanted, and at most so many.
    wanted: u32,
    most: u32,
    /// On which processor it was taken last, without a bias, and how many times in a row.
    cpu: u32,
    row: u32,
}

impl Habits {
    pub(super) const fn new() -> Habits {
        Habits { served: 0, wanted: FIRST, most: MOST, cpu: u32::MAX, row: 0 }
    }

    /// So many times in a row suffice, whatever it has cost: for tests.
    pub(super) const fn always(row: u32) -> Habits {
        Habits { wanted: row, most: row, ..Habits::new() }
    }

    /// A bias has come to its end, which has cost so much.
    pub(super) fn ended(&mut self, cost_ns: u64) {
        let earned = self.served.saturating_mul(SPARED_NS) >= cost_ns;
        let w = self.wanted;
        self.wanted = if earned { (w / 2).max(FIRST.min(self.most)) } else { (w * 2).min(self.most) };
        self.row = 0;
    }

    /// It was taken on this processor without a bias. True: it is to be biased to it.
    #[inline(always)]
    pub(super) fn taken(&mut self, cpu: u32) -> bool {
        self.row = if cpu == self.cpu { self.row.saturating_add(1) } else { 1 };
        self.cpu = cpu;
        self.row >= self.wanted
    }

    /// It is biased now.
    pub(super) fn begun(&mut self) {
        (self.served, self.row) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many times in a row are wanted.
    fn wanted(h: &mut Habits) -> u32 {
        h.row = 0;
        (1..=2 * MOST).find(|_| h.taken(7)).expect("it is biased some time")
    }

    #[test]
    fn a_bias_that_does_not_pay_comes_later_each_time_but_comes_again() {
        let mut h = Habits::new();
        assert_eq!(wanted(&mut h), FIRST);
        for n in 1..20 {
            h.begun();
            h.ended(2_000);
            assert_eq!(wanted(&mut h), (FIRST << n.min(10)).min(MOST));
        }
        for _ in 0..20 {
            h.begun();
            h.served = 1_000;
            h.ended(2_000);
        }
        assert_eq!(wanted(&mut h), FIRST);
    }

    #[test]
    fn another_processor_begins_anew() {
        let mut h = Habits::new();
        assert!((0..10 * FIRST).all(|n| !h.taken(n / 100)));
    }
}
