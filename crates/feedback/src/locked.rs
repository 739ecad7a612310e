//! Software locked loops: a stream of events at N times the rate of a reference (synthesis, 6.2).
//!
//! An FLL counts: N of its events for each of the reference's, whatever the intervals; its residue is the paper's. An ILL measures
//! intervals: its own are an N-th of the reference's, even if that loses events.
//!
//! **Deviation.** Figure 6.3 runs the filter at both kinds of events and lets the residue hover between -2 and 2. Here it runs at the reference's alone,
//! just before they add N: there the residue of a loop that is locked is 0, so nothing jitters. Adjustments are shares of the frequency,
//! not events a second: the same filter does for 1 Hz and for 1 MHz.
//!
//! ```
//! use chappe_feedback::locked::{Domain, Fll};
//!
//! assert_eq!(Domain::choose(30.0, 1.0 / 60.0), Domain::Frequency);
//! let mut fll = Fll::new(4, 150.0); // wrong: the reference comes 50 times a second
//! let (mut next, mut reference) = (0.0, 0.0);
//! while reference < 1.0 {
//!     if next < reference {
//!         next += fll.output();
//!     } else {
//!         fll.reference();
//!         reference += 0.02;
//!     }
//! }
//! assert!((fll.frequency() - 200.0).abs() < 20.0);
//! ```

use crate::filter::{Derivative, Filter, LowPass, Plain, Scaled, Sum};

/// What is measured and adjusted (6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Events are counted: an [`Fll`].
    Frequency,
    /// Time between events is measured: an [`Ill`].
    Interval,
}

impl Domain {
    /// The better one for a reference of so many events a second and a timer of this resolution in seconds: "we would like to measure the
    /// larger quantity of the two since it carries higher accuracy". An FLL is within 10 % after some 50 events; an interval of more ticks
    /// than that is the better measure.
    pub fn choose(rate: f64, resolution: f64) -> Domain {
        if 1.0 / (rate * resolution) > 50.0 { Domain::Interval } else { Domain::Frequency }
    }
}

/// The filter of [`Fll::new`]: a share of the residue, and of its change.
pub type Damped = Sum<Scaled<Plain>, Scaled<Derivative>>;

/// A frequency locked loop: N events for each of the reference.
#[derive(Clone, Copy, Debug)]
pub struct Fll<F = Damped> {
    residue: f64,
    frequency: f64,
    n: f64,
    filter: F,
}

impl Fll {
    /// `n` events for each of the reference; the first guess of their frequency, in Hz, must be positive. Within 10 % after at most
    /// 50 events of the reference, from a guess of a tenth to ten times of what is right. With `n` below 4 a whole event is much of the residue,
    /// and the frequency keeps swinging: run the loop at `4 n`, and use each fourth event.
    pub fn new(n: u32, guess: f64) -> Fll {
        Fll::with(n, guess, Plain.scaled(0.025).plus(Derivative::default().scaled(0.3)))
    }
}

impl<F: Filter> Fll<F> {
    /// With a filter of one's own: it gets the residue in events of the reference, and answers by which share the frequency changes.
    pub fn with(n: u32, guess: f64, filter: F) -> Fll<F> {
        Fll { residue: 0.0, frequency: guess, n: f64::from(n.max(1)), filter }
    }

    /// `i1` of figure 6.3: an event of the reference. Answers the frequency from now on.
    pub fn reference(&mut self) -> f64 {
        // A share of more than half at once would overshoot from a bad guess.
        let change = self.filter.next(self.residue / self.n).clamp(-0.5, 0.5);
        self.frequency *= 1.0 + change;
        self.residue += self.n;
        // What a loop far from its lock has piled up would have to be paid back in events.
        self.residue = self.residue.clamp(-2.0 * self.n, 3.0 * self.n);
        self.frequency
    }

    /// `i2`: an event of this loop. Answers after how many seconds the next one is due.
    pub fn output(&mut self) -> f64 {
        self.residue -= 1.0;
        1.0 / self.frequency
    }

    /// Events a second.
    pub fn frequency(&self) -> f64 {
        self.frequency
    }
}

/// An interval locked loop: its intervals are an N-th of the reference's.
#[derive(Clone, Copy, Debug)]
pub struct Ill<F = LowPass> {
    last: Option<f64>,
    interval: f64,
    n: f64,
    filter: F,
}

impl Ill {
    /// `n` intervals for each of the reference; `guess` is the first one, in seconds.
    pub fn new(n: u32, guess: f64) -> Ill {
        Ill::with(n, guess, LowPass::new(0.5, 0.0))
    }
}

impl<F: Filter> Ill<F> {
    /// With a filter of one's own: it gets by how much the interval is too short, in seconds, and answers by how much it grows.
    pub fn with(n: u32, guess: f64, filter: F) -> Ill<F> {
        Ill { last: None, interval: guess, n: f64::from(n.max(1)), filter }
    }

    /// An event of the reference, at `now` in seconds. Answers the interval from now on.
    pub fn reference(&mut self, now: f64) -> f64 {
        if let Some(last) = self.last.replace(now) {
            let error = (now - last) / self.n - self.interval;
            self.interval += self.filter.next(error);
        }
        self.interval
    }

    /// Seconds from one event to the next.
    pub fn interval(&self) -> f64 {
        self.interval
    }
}

/// Intervals of whole ticks whose sum keeps time (6.4.1): "calculate based on elapsed time; not on intervals".
///
/// ```
/// use chappe_feedback::locked::Ticks;
///
/// let mut ticks = Ticks::default();
/// let five: Vec<u64> = (0..5).map(|_| ticks.next(1843.2)).collect();
/// assert_eq!(five.iter().filter(|t| **t == 1843).count(), 4);
/// assert_eq!(five.iter().sum::<u64>(), 9216);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticks {
    /// What is beyond the whole ticks that were given.
    beyond: f64,
}

impl Ticks {
    /// The next interval in whole ticks, where `interval` would be right. The sum of all is never a tick away from the right one.
    pub fn next(&mut self, interval: f64) -> u64 {
        // Half a tick ahead, so that each is as near to its moment as it can be.
        let due = self.beyond + interval.max(0.0);
        let whole = (due + 0.5).floor().max(0.0);
        self.beyond = due - whole;
        whole as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Integrator;

    /// How many events of the reference an FLL takes until it stays within this share of N times its rate.
    fn settles(n: u32, rate: f64, guess: f64, within: f64) -> usize {
        let mut fll = Fll::new(n, guess);
        let (mut next, mut outside) = (0.0, 0);
        for i in 0..400 {
            let now = f64::from(i) / rate;
            while next < now {
                next += fll.output();
            }
            fll.reference();
            // At once, as a timer would be set anew: a bad guess is not waited for.
            next = next.min(now + 1.0 / fll.frequency());
            if (fll.frequency() / (rate * f64::from(n)) - 1.0).abs() > within {
                outside = i as usize + 1;
            }
        }
        outside
    }

    #[test]
    fn an_fll_is_within_a_tenth_after_fifty_events_as_the_paper_found() {
        for n in [4, 5, 17, 1000] {
            for rate in [1.0, 30.0, 44_100.0] {
                for off in [0.1, 0.5, 0.9, 1.1, 2.0, 10.0] {
                    let took = settles(n, rate, rate * f64::from(n) * off, 0.1);
                    assert!(took <= 50, "N {n}, {rate} Hz, {off} times: {took}");
                }
            }
        }
    }

    #[test]
    fn an_fll_keeps_the_number_of_events_while_the_reference_changes() {
        let mut fll = Fll::new(4, 400.0);
        let (mut next, mut now, mut made) = (0.0, 0.0, 0i64);
        let mut wrong = 0;
        for i in 0..5_000i64 {
            // From 100 Hz to 150 Hz and back.
            let rate = 100.0 + 50.0 * (i as f64 / 400.0).sin().powi(2);
            while next < now {
                next += fll.output();
                made += 1;
            }
            fll.reference();
            wrong = wrong.max((made - 4 * i).abs());
            now += 1.0 / rate;
        }
        assert!(wrong <= 6, "{wrong}");
    }

    /// What an ILL with this filter is off by in the end, where the reference's interval is `path(i)`.
    fn off<F: Filter>(filter: F, path: impl Fn(f64) -> f64) -> f64 {
        let mut ill = Ill::with(1, path(0.0), filter);
        let (mut now, mut last) = (0.0, 0.0);
        for i in 0..3_000 {
            // What it had foretold, and what came.
            last = ill.interval() - path(f64::from(i) - 1.0);
            ill.reference(now);
            now += path(f64::from(i));
        }
        last.abs()
    }

    #[test]
    fn each_integrator_follows_one_power_more_without_error() {
        let constant = |_| 3.0;
        let ramp = |i: f64| 1.0 + 0.001 * i;
        let square = |i: f64| 1.0 + 1e-6 * i * i;
        let one = || Plain.scaled(0.5);
        let two = || Plain.scaled(0.5).plus(Integrator::default().scaled(0.1));
        let three = || two().plus(Integrator::default().then(Integrator::default()).scaled(0.01));
        assert!(off(one(), constant) < 1e-9 && off(one(), ramp) > 1e-4);
        assert!(off(two(), ramp) < 1e-9 && off(two(), square) > 1e-6);
        assert!(off(three(), square) < 1e-8, "{}", off(three(), square));
    }

    #[test]
    fn the_domain_is_that_of_the_larger_number() {
        assert_eq!(Domain::choose(1.0, 1e-6), Domain::Interval);
        assert_eq!(Domain::choose(30.0, 1.0 / 60.0), Domain::Frequency);
        // The first scenario: an ILL has it at the second event, an FLL after fifty.
        let mut ill = Ill::with(1, 0.5, Plain);
        ill.reference(0.0);
        assert!((ill.reference(1.000_001) - 1.0).abs() < 1e-5);
        // The second: intervals of 1, 2 or 3 ticks of 1/60 s.
        let mut coarse = Ill::with(1, 1.0 / 30.0, Plain);
        coarse.reference(0.0);
        assert!((coarse.reference(3.0 / 60.0) * 30.0 - 1.0).abs() > 0.4);
    }

    #[test]
    fn a_disks_turn_is_divided_into_sectors_after_three_turns() {
        let mut ill = Ill::new(17, 0.001);
        for turn in 0..8 {
            ill.reference(f64::from(turn) / 60.0);
        }
        assert!((ill.interval() * 60.0 * 17.0 - 1.0).abs() < 0.01, "{}", ill.interval() * 60.0 * 17.0);
        let mut quick = Ill::with(17, 0.001, Plain);
        for turn in 0..3 {
            quick.reference(f64::from(turn) / 60.0);
        }
        assert!((quick.interval() * 60.0 * 17.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn ticks_keep_time_however_crooked_the_interval() {
        for interval in [1843.2, 0.3, 1.0 / 3.0, 22.675_736_961_451_25, 1e6 + 0.001] {
            let mut ticks = Ticks::default();
            let sum: u64 = (0..600_000).map(|_| ticks.next(interval)).sum();
            assert!((sum as f64 - 600_000.0 * interval).abs() <= 1.0, "{interval}: {sum}");
        }
    }
}
