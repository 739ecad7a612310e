//! Medians, and intervals by the bootstrap.
//!
//! An interval says where the median would lie in 95 of 100 repetitions of this run: what was measured is drawn again, with replacement, a thousand
//! times, by dice of a fixed seed, so that the same samples have the same interval. The samples come in visits, each a process of its own at another time of
//! the run: first visits are drawn, then samples within each, so that what differs from process to process (where its memory lies, what else
//! the machine did) is in the interval. A few visits look more alike than they are: the interval is widened (`few`), as Student's t is wider than the normal law.
//! What differs from one day to another is not in it.

use serde::{Deserialize, Serialize};

const DRAWS: usize = 1000;
/// So many samples are drawn from at most: more would take minutes, and narrow nothing that matters.
const ENOUGH: usize = 1000;

/// A median and where it may lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median of the samples.
    pub median: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Of samples, visit by visit; `None` of none, or where one is not a number.
    pub fn of(visits: &[Vec<f64>]) -> Option<Estimate> {
        let visits: Vec<&[f64]> = visits.iter().filter(|v| !v.is_empty()).map(Vec::as_slice).collect();
        let mut all: Vec<f64> = visits.iter().copied().flatten().copied().collect();
        if all.is_empty() || all.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let step = all.len().div_ceil(ENOUGH);
        let thin = |v: &&[f64]| v.iter().copied().step_by(step).collect();
        let visits: Vec<Vec<f64>> = visits.iter().map(thin).collect();
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut drawn = Vec::with_capacity(all.len());
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                drawn.clear();
                for _ in 0..visits.len() {
                    let visit = &visits[dice.below(visits.len())];
                    drawn.extend((0..visit.len()).map(|_| visit[dice.below(visit.len())]));
                }
                median(&mut drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let (median, wider) = (median(&mut all), few(visits.len()));
        // By factors, not differences: a time is never below nothing.
        let from = |end: f64| if median > 0.0 && end > 0.0 { median * (end / median).powf(wider) } else { end };
        Some(Estimate { median, low: from(medians[DRAWS / 40]), high: from(medians[DRAWS - 1 - DRAWS / 40]) })
    }

    /// Whether two intervals have a point in common.
    pub fn meets(&self, other: &Estimate) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// How much wider than what the bootstrap of so many visits says its 95 % interval is: Student's t for one visit fewer, over the normal law's 1.96, and
/// what drawing from n visits loses of their spread, sqrt(n / (n - 1)). Of one visit nothing is known of others: its own
/// samples are taken for as little as two visits say.
fn few(visits: usize) -> f64 {
    /// The 97.5 % points of Student's t, from one degree of freedom on.
    const T: [f64; 9] = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let n = visits.max(2);
    let t = T.get(n - 2).copied().unwrap_or(1.96 + 2.5 / (n - 1) as f64);
    t / 1.96 * (n as f64 / (n - 1) as f64).sqrt()
}

/// The value below which this share of the samples lies; they are sorted.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

fn median(samples: &mut [f64]) -> f64 {
    let middle = samples.len() / 2;
    let (below, upper, _) = samples.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    match below.iter().copied().reduce(f64::max) {
        Some(lower) if samples.len().is_multiple_of(2) => (lower + upper) / 2.0,
        _ => upper,
    }
}

/// Xorshift: good enough to draw samples.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(samples: &[f64]) -> Option<Estimate> {
        Estimate::of(&[samples.to_vec()])
    }

    #[test]
    fn an_interval_holds_its_median_and_narrows_with_more_samples() {
        let samples = |count: u32| (0..count).map(|n| f64::from(n * 37 % count)).collect::<Vec<_>>();
        let (few, many) = (one(&samples(11)).unwrap(), one(&samples(1001)).unwrap());
        for e in [few, many] {
            assert!(e.low <= e.median && e.median <= e.high, "{e:?}");
        }
        assert!((many.high - many.low) / 1001.0 < (few.high - few.low) / 11.0);
        assert_eq!(one(&samples(11)), one(&samples(11)));
    }

    #[test]
    fn too_few_or_invalid_values_give_no_estimate() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(one(&[]), None);
        assert_eq!(one(&[1.0, f64::NAN]), None);
        assert_eq!(one(&[3.0]), Some(Estimate { median: 3.0, low: 3.0, high: 3.0 }));
        assert_eq!(one(&[4.0, 1.0]).map(|e| e.median), Some(2.5));
    }

    #[test]
    fn visits_that_differ_widen_the_interval() {
        // A process is fast or slow for all of its life.
        let visit = |level: f64| vec![level; 50];
        let apart = Estimate::of(&[visit(1.0), visit(2.0), visit(3.0)]).unwrap();
        assert!(apart.low < 1.0 && apart.median == 2.0 && apart.high > 3.0, "{apart:?}");
        // The same samples as if one process had made them look far surer than they are.
        let mixed: Vec<f64> = (0..150).map(|n| f64::from(n % 3 + 1)).collect();
        let together = one(&mixed).unwrap();
        assert_eq!((together.low, together.high), (2.0, 2.0));
    }

    #[test]
    fn few_visits_are_widened_and_many_hardly() {
        assert_eq!(few(1), few(2));
        assert!(few(2) > few(3) && few(3) > 2.5 && few(10) < 1.25);
        // The table goes over into the approximation without a step.
        assert!((few(10) - few(11)).abs() < 0.05 && (few(30) - 1.08).abs() < 0.03, "{} {}", few(11), few(30));
    }

    #[test]
    fn intervals_that_touch_meet() {
        let e = |low, high| Estimate { median: (low + high) / 2.0, low, high };
        assert!(e(1.0, 2.0).meets(&e(2.0, 3.0)) && !e(1.0, 2.0).meets(&e(2.1, 3.0)));
    }
}
