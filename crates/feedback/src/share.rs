//! How much of a processor a stage of a pipeline is given (synthesis, 6.3.1): its use, some margin, and more while data piles up.
//!
//! The paper's law, more for a stage whose input fills and less for one whose output fills, by itself loses data on a machine where others
//! compute: a pipe says that a stage has too little only when it is late. So the law is use first and fill second:
//!
//! ```text
//! share = (1 + margin) * held(use) + floor + gain' * max(0, fill in - max(fill out, target))      at most `cap`
//! ```
//!
//! - *held(use)*: the larger of the mean over eight periods and what three periods in a row had at least, let down slowly. One period alone is no
//!   measure: at 1 kHz four blocks fall into one, or five.
//! - *gain'*: `gain`, but no more than `0.5 / turnover`, where turnover is how many times a whole processor would empty the pipe in a period. A pipe
//!   that is emptied ten times between two looks says nothing by its fill, and a loop that believed it would swing ([`crate::stability`]).
//! - *A sudden rise*: a stage that has used all that it was given while its input grew by a twentieth gets twice as much at once.
//! - The scheduler is told when the share changes by more than `change`, a call each period being for nothing.
//!
//! I1: a share is within `[floor, cap]`. I2: with nothing used and nothing waiting it comes down to `floor`. I3: what is told differs from what
//! was told before by more than `change`, up or down.

use crate::filter::{Filter, PeakHold};

/// Numbers of the law. Shares are of one processor: 1 is all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// What a stage gets beyond what it uses, as a part of that.
    pub margin: f64,
    /// What a stage gets that uses nothing.
    pub floor: f64,
    /// The share for a full input and an empty output.
    pub gain: f64,
    /// The most.
    pub cap: f64,
    /// A fill that is nothing to worry about.
    pub target: f64,
    /// The scheduler is told of changes of more than this part.
    pub change: f64,
    /// Which part of a fall is followed in a period.
    pub fall: f64,
}

/// What steers `chappe pipe`, with a period of 4 ms.
impl Default for Law {
    fn default() -> Law {
        Law { margin: 0.12, floor: 0.005, gain: 0.4, cap: 0.8, target: 0.25, change: 0.08, fall: 0.02 }
    }
}

/// What was seen of a stage in the last period.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The part of a processor that it used.
    pub used: f64,
    /// How full its input is, from 0 to 1; 0 if it has none that can be looked at.
    pub fill_in: f64,
    /// How full its output is.
    pub fill_out: f64,
    /// How many times its input was emptied in the period: bytes that went through, by the pipe's size. 0 if nobody knows.
    pub turnover: f64,
}

/// The controller of one stage.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    law: Law,
    /// The last eight uses.
    window: [f64; 8],
    at: usize,
    held: PeakHold,
    fill: f64,
    now: f64,
    told: f64,
}

impl Share {
    /// One that begins with a quarter of a processor, or less if the law has it so.
    pub fn new(law: Law) -> Share {
        let first = 0.25f64.clamp(law.floor, law.cap);
        Share { law, window: [0.0; 8], at: 0, held: PeakHold::new(law.fall), fill: 0.0, now: first, told: first }
    }

    /// Takes what was seen in a period. Answers the share of which the scheduler is to be told, if it is to be told anything.
    pub fn next(&mut self, seen: Seen) -> Option<f64> {
        let law = self.law;
        self.window[self.at % 8] = seen.used.max(0.0);
        self.at += 1;
        // Until the window is full the first share stays, unless more is needed.
        let known = self.at.min(8);
        let mean = self.window[..known].iter().sum::<f64>() / known as f64;
        let lasting = (1..=3).map(|i| self.window[(self.at + 8 - i) % 8]).fold(f64::INFINITY, f64::min);
        let held = self.held.next(if self.at >= 3 { mean.max(lasting) } else { mean });
        let wanted = (1.0 + law.margin) * held + law.floor + self.gain(seen, mean) * self.pressure(seen);
        let grew = seen.fill_in - std::mem::replace(&mut self.fill, seen.fill_in) > 0.05;
        let sudden = grew && seen.used > 0.95 * self.told && seen.fill_in > seen.fill_out && seen.turnover < 1.0;
        let wanted = if sudden { wanted.max(2.0 * self.told) } else { wanted };
        let wanted = wanted.clamp(law.floor.min(law.cap), law.cap);
        self.now = if self.at < 8 { wanted.max(self.now) } else { wanted };
        // I3. The cap and the floor are reached, too.
        let apart = (self.now - self.told).abs();
        let at_an_end = self.now == law.cap && self.told < law.cap;
        (apart > law.change * self.told || at_an_end).then(|| {
            self.told = self.now;
            self.now
        })
    }

    fn pressure(&self, seen: Seen) -> f64 {
        (seen.fill_in.clamp(0.0, 1.0) - seen.fill_out.clamp(0.0, 1.0).max(self.law.target)).max(0.0)
    }

    /// The gain that this pipe stands.
    fn gain(&self, seen: Seen, mean: f64) -> f64 {
        if seen.turnover <= 0.0 || mean <= 0.0 {
            return self.law.gain;
        }
        self.law.gain.min(0.5 * mean / seen.turnover)
    }

    /// The share as it is wanted now; the scheduler knows one that is within `change` of it.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// What the scheduler was told last.
    pub fn told(&self) -> f64 {
        self.told
    }

    /// The most has changed: the stage computes with more threads at once, or with fewer.
    pub fn set_cap(&mut self, cap: f64) {
        self.law.cap = cap;
    }

    /// The scheduler has granted something else than was asked for: the next answer is against this.
    pub fn granted(&mut self, share: f64) {
        self.told = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    fn steady(seen: impl Fn(usize) -> Seen, periods: usize) -> (Share, usize) {
        let mut share = Share::new(Law::default());
        let told = (0..periods).filter(|i| share.next(seen(*i)).is_some()).count();
        (share, told)
    }

    #[test]
    fn a_share_stays_within_its_bounds_whatever_is_seen() {
        let mut random = Random::new(1);
        let law = Law::default();
        let mut share = Share::new(law);
        let mut before = share.told();
        for _ in 0..100_000 {
            let mut any = || random.within(-0.2, 1.5);
            let seen = Seen { used: any(), fill_in: any(), fill_out: any(), turnover: any() };
            if let Some(told) = share.next(seen) {
                assert!((told - before).abs() > law.change * before || told == law.cap, "{before} {told}"); // I3
                before = told;
            }
            assert!(share.now() >= law.floor && share.now() <= law.cap); // I1
        }
    }

    #[test]
    fn an_idle_stage_comes_down_to_the_floor() {
        let (share, _) = steady(|_| Seen::default(), 2_000);
        assert!(share.told() <= Law::default().floor * 1.1, "{}", share.told()); // I2
    }

    #[test]
    fn a_steady_stage_is_told_of_seldom_and_has_little_more_than_it_uses() {
        let mut random = Random::new(3);
        let blocks: Vec<f64> = (0..2_000).map(|_| 0.15 * random.within(0.75, 1.25)).collect();
        let (share, told) = steady(|i| Seen { used: blocks[i], fill_in: 0.1, ..Seen::default() }, 2_000);
        assert!(share.told() > 0.15 && share.told() < 0.15 * 1.3, "{}", share.told());
        assert!(told < 40, "{told}");
    }

    #[test]
    fn data_that_piles_up_raises_a_share_and_a_full_output_does_not() {
        let with = |fill_in, fill_out| steady(|_| Seen { used: 0.2, fill_in, fill_out, turnover: 0.0 }, 300).0.now();
        assert!(with(0.9, 0.0) > with(0.1, 0.0) + 0.2);
        assert_eq!(with(0.9, 0.95), with(0.1, 0.0));
        // A pipe that is emptied twenty times between two looks tells nothing by its fill.
        let quick = steady(|_| Seen { used: 0.2, fill_in: 0.9, fill_out: 0.0, turnover: 20.0 }, 300).0.now();
        assert!(quick < with(0.1, 0.0) + 0.01, "{quick}");
    }

    #[test]
    fn a_stage_of_two_threads_may_have_more_than_one_processor() {
        let mut share = Share::new(Law::default());
        share.set_cap(1.6);
        for _ in 0..300 {
            share.next(Seen { used: 1.3, ..Seen::default() });
        }
        assert!(share.told() > 1.3 && share.told() <= 1.6, "{}", share.told());
        share.set_cap(0.8);
        share.next(Seen { used: 1.3, ..Seen::default() });
        assert_eq!(share.now(), 0.8);
    }

    #[test]
    fn a_step_is_followed_within_three_periods() {
        let mut share = Share::new(Law::default());
        for _ in 0..500 {
            share.next(Seen { used: 0.15, ..Seen::default() });
        }
        let took = (1..).find(|_| {
            share.next(Seen { used: 0.7, ..Seen::default() });
            share.told() > 0.7
        });
        assert_eq!(took, Some(3));
    }
}
