//! Medians, and intervals by the bootstrap.
//!
//! An interval says where the median would lie in 95 of 100 repetitions of this run: the samples are drawn again, with replacement, a thousand
//! times, by dice of a fixed seed, so that the same samples have the same interval. What differs from run to run (another day, another
//! load) is not in it.

use serde::{Deserialize, Serialize};

const DRAWS: usize = 1000;

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
    /// Of samples; `None` of none, or where one is not a number.
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut drawn = vec![0.0; samples.len()];
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                drawn.iter_mut().for_each(|place| *place = samples[dice.below(samples.len())]);
                median(&mut drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Some(Estimate {
            median: median(&mut samples.to_vec()),
            low: medians[DRAWS / 40],
            high: medians[DRAWS - 1 - DRAWS / 40],
        })
    }

    /// Whether two intervals have a point in common.
    pub fn meets(&self, other: &Estimate) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The value below which this share of the samples lies; they are sorted.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 { samples[middle] } else { (samples[middle - 1] + samples[middle]) / 2.0 }
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

    #[test]
    fn an_interval_holds_its_median_and_narrows_with_more_samples() {
        let samples = |count: u32| (0..count).map(|n| f64::from(n * 37 % count)).collect::<Vec<_>>();
        let (few, many) = (Estimate::of(&samples(11)).unwrap(), Estimate::of(&samples(1001)).unwrap());
        for e in [few, many] {
            assert!(e.low <= e.median && e.median <= e.high, "{e:?}");
        }
        assert!((many.high - many.low) / 1001.0 < (few.high - few.low) / 11.0);
        assert_eq!(Estimate::of(&samples(11)), Estimate::of(&samples(11)));
    }

    #[test]
    fn what_cannot_be_estimated_is_not() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN]), None);
        assert_eq!(Estimate::of(&[3.0]), Some(Estimate { median: 3.0, low: 3.0, high: 3.0 }));
    }

    #[test]
    fn intervals_that_touch_meet() {
        let e = |low, high| Estimate { median: (low + high) / 2.0, low, high };
        assert!(e(1.0, 2.0).meets(&e(2.0, 3.0)) && !e(1.0, 2.0).meets(&e(2.1, 3.0)));
    }
}
