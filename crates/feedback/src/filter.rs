//! Filters between what a loop measures and what it adjusts (synthesis, 6.2.3, figures 6.4 to 6.6).
//!
//! "The overall response of a software locked loop is determined by the kind of filter it uses": a low-pass filter makes the
//! output more uniform and later; an integrator lets a loop follow what changes linearly without error, two of them what changes
//! quadratically; a derivative answers sudden changes, and noise. Any of them may be scaled, added and chained:
//!
//! ```
//! use chappe_feedback::filter::{Derivative, Filter, Integrator, LowPass, Plain};
//!
//! let mut pid = Plain.scaled(0.5).plus(Integrator::default().scaled(0.1)).plus(Derivative::default().then(LowPass::default()));
//! assert_eq!(pid.next(1.0), 0.5 + 0.1 + 0.125);
//! assert_eq!(LowPass::default().then(Plain.scaled(8.0)).next(1.0), 1.0);
//! ```

/// What turns a measurement into an adjustment. One call for each measurement; never waits.
pub trait Filter {
    /// Takes the next value, and answers what comes out.
    fn next(&mut self, x: f64) -> f64;

    /// The same, times a constant.
    fn scaled(self, by: f64) -> Scaled<Self>
    where
        Self: Sized,
    {
        Scaled { filter: self, by }
    }

    /// The sum of both.
    fn plus<G: Filter>(self, other: G) -> Sum<Self, G>
    where
        Self: Sized,
    {
        Sum(self, other)
    }

    /// What comes out goes into another.
    fn then<G: Filter>(self, next: G) -> Chain<Self, G>
    where
        Self: Sized,
    {
        Chain(self, next)
    }
}

/// Lets everything through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Filter for Plain {
    fn next(&mut self, x: f64) -> f64 {
        x
    }
}

/// Figure 6.4: a part of the new value, the rest of the old ones.
#[derive(Clone, Copy, Debug)]
pub struct LowPass {
    now: f64,
    part: f64,
}

impl LowPass {
    /// One that takes this part, in (0, 1], of each new value, and begins at `now`.
    pub fn new(part: f64, now: f64) -> LowPass {
        LowPass { now, part: part.clamp(f64::MIN_POSITIVE, 1.0) }
    }

    /// What came out last.
    pub fn now(&self) -> f64 {
        self.now
    }
}

/// The paper's: an eighth of the new value.
impl Default for LowPass {
    fn default() -> LowPass {
        LowPass::new(0.125, 0.0)
    }
}

impl Filter for LowPass {
    fn next(&mut self, x: f64) -> f64 {
        self.now += self.part * (x - self.now);
        self.now
    }
}

/// Figure 6.5: the sum of all values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Integrator {
    sum: f64,
}

impl Filter for Integrator {
    fn next(&mut self, x: f64) -> f64 {
        self.sum += x;
        self.sum
    }
}

/// Figure 6.6: how much the value changed. The first one changed from 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derivative {
    old: f64,
}

impl Filter for Derivative {
    fn next(&mut self, x: f64) -> f64 {
        let changed = x - self.old;
        self.old = x;
        changed
    }
}

/// Follows what rises at once, and what falls slowly.
#[derive(Clone, Copy, Debug)]
pub struct PeakHold {
    now: f64,
    part: f64,
}

impl PeakHold {
    /// One that comes down by this part of the difference at each value, and begins at 0.
    pub fn new(part: f64) -> PeakHold {
        PeakHold { now: 0.0, part: part.clamp(0.0, 1.0) }
    }
}

impl Filter for PeakHold {
    fn next(&mut self, x: f64) -> f64 {
        self.now = x.max(self.now - self.part * (self.now - x));
        self.now
    }
}

/// See [`Filter::scaled`].
#[derive(Clone, Copy, Debug)]
pub struct Scaled<F> {
    filter: F,
    by: f64,
}

impl<F: Filter> Filter for Scaled<F> {
    fn next(&mut self, x: f64) -> f64 {
        self.by * self.filter.next(x)
    }
}

/// See [`Filter::plus`].
#[derive(Clone, Copy, Debug)]
pub struct Sum<F, G>(F, G);

impl<F: Filter, G: Filter> Filter for Sum<F, G> {
    fn next(&mut self, x: f64) -> f64 {
        self.0.next(x) + self.1.next(x)
    }
}

/// See [`Filter::then`].
#[derive(Clone, Copy, Debug)]
pub struct Chain<F, G>(F, G);

impl<F: Filter, G: Filter> Filter for Chain<F, G> {
    fn next(&mut self, x: f64) -> f64 {
        let between = self.0.next(x);
        self.1.next(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_filters_do_what_its_figures_say() {
        let mut low = LowPass::new(0.125, 0.0);
        assert_eq!(low.next(8.0), 1.0);
        assert_eq!(low.next(8.0), 7.0 / 8.0 + 1.0);
        let mut sum = Integrator::default();
        assert_eq!([1.0, 2.0, -4.0].map(|x| sum.next(x)), [1.0, 3.0, -1.0]);
        let mut change = Derivative::default();
        assert_eq!([1.0, 3.0, 2.0].map(|x| change.next(x)), [1.0, 2.0, -1.0]);
    }

    #[test]
    fn a_low_pass_takes_jitter_out() {
        let mut low = LowPass::default();
        // Figure 6.3's residue: from -2 to 2 and back.
        let out: Vec<f64> = (0..400).map(|i| low.next(f64::from(i % 5 - 2))).collect();
        assert!(out[200..].iter().all(|x| x.abs() < 0.5), "{:?}", &out[390..]);
    }

    #[test]
    fn a_peak_is_held_and_comes_down_slowly() {
        let mut peak = PeakHold::new(0.1);
        assert_eq!(peak.next(1.0), 1.0);
        assert_eq!(peak.next(0.0), 0.9);
        assert_eq!(peak.next(0.95), 0.95);
    }
}
