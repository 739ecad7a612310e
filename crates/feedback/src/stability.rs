//! Where the loop of [`crate::Share`] is stable: its poles over gain, delay and period.
//!
//! **The system.** While data is waiting a stage uses all that it is given. Then, from period to period (k), with the share `b`, what is held of the use `v`, and
//! the fill of the input `q`:
//!
//! ```text
//! v[k+1] = v[k] + f (b[k-d] - v[k])                       f: part of a new use that is held at once
//! q[k+1] = q[k] + h (a - b[k])                            h: pipes that a whole processor empties in a period; a: what arrives
//! b[k]   = (1 + m) v[k] + g (q[k-d] - target)             m: margin, g: gain; d: periods until what is seen counts
//! ```
//!
//! Its poles are the roots of `z^d (z-1)(z-1+f) - (1+m) f (z-1) + g h (z-1+f)`, which for d = 0 is
//! `(z-1)^2 + (g h - m f)(z-1) + g h f`: stable where `m f < g h (1 - f)` and `2 (g h - m f) < 4 + g h f`. Period and pipe come in through `h` alone,
//! which grows with the period and shrinks with the pipe.
//!
//! - *Below*, with too little gain, the margin wins: the share grows until the pipe is empty. That is no harm: an empty pipe ends this regime, use falls to what
//!   arrives, and the share follows it with the poles `1 - fall` and 0.
//! - *Above*, with too much gain, share and fill swing. [`crate::Share`] keeps `g h` at 0.5 at most, which is inside for delays of up to two periods.
//!
//! What this leaves out: the cap, the floor and the threshold of change (each makes a step smaller), and that a full pipe
//! stops what comes before it. [`crate::model`] has all of them, and its tests try pipelines at random.

mod picture;

use crate::Law;

/// Processor time in a full pipe, in milliseconds.
const PIPE: f64 = 3.15;
/// Of what is measured, what a mean over 32 ms has after a millisecond.
const FOLLOW: f64 = 1.0 / 32.0;

/// One loop: the numbers of the equations above.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// `g`.
    pub gain: f64,
    /// `m`.
    pub margin: f64,
    /// `f`.
    pub follow: f64,
    /// `h`: period over the processor time that a whole pipe of data takes.
    pub turnover: f64,
    /// `d`.
    pub delay: usize,
}

/// A complex number.
type Complex = (f64, f64);

fn times((a, b): Complex, (c, d): Complex) -> Complex {
    (a * c - b * d, a * d + b * c)
}

fn over((a, b): Complex, (c, d): Complex) -> Complex {
    let square = c * c + d * d;
    ((a * c + b * d) / square, (b * c - a * d) / square)
}

impl Loop {
    /// The coefficients of the characteristic polynomial, that of the highest power (1) first.
    pub fn polynomial(&self) -> Vec<f64> {
        let Loop { gain, margin, follow, turnover, delay } = *self;
        let mut all = vec![0.0; delay + 3];
        // z^d (z - 1)(z - 1 + f)
        all[0] = 1.0;
        all[1] = follow - 2.0;
        all[2] = 1.0 - follow;
        // - (1 + m) f (z - 1) + g h (z - 1 + f)
        let gh = gain * turnover;
        all[delay + 1] += gh - (1.0 + margin) * follow;
        all[delay + 2] += (1.0 + margin) * follow - gh * (1.0 - follow);
        all
    }

    /// Its roots: the poles (real and imaginary part), by Durand and Kerner's iteration.
    pub fn poles(&self) -> Vec<(f64, f64)> {
        let all = self.polynomial();
        let degree = all.len() - 1;
        let value = |z: Complex| {
            all.iter().fold((0.0, 0.0), |sum, c| {
                let (re, im) = times(sum, z);
                (re + c, im)
            })
        };
        let mut roots: Vec<Complex> = (0..degree)
            .scan((1.0, 0.0), |z, _| {
                *z = times(*z, (0.4, 0.9));
                Some(*z)
            })
            .collect();
        for _ in 0..500 {
            let mut moved = 0.0f64;
            for at in 0..degree {
                let apart = (0..degree).filter(|other| *other != at).fold((1.0, 0.0), |product, other| {
                    times(product, (roots[at].0 - roots[other].0, roots[at].1 - roots[other].1))
                });
                if apart.0.hypot(apart.1) < 1e-280 {
                    continue;
                }
                let step = over(value(roots[at]), apart);
                roots[at] = (roots[at].0 - step.0, roots[at].1 - step.1);
                moved = moved.max(step.0.hypot(step.1));
            }
            if moved < 1e-13 {
                break;
            }
        }
        roots
    }

    /// The largest absolute value of a pole: below 1 the loop is stable, and what disturbs it dies away by this factor a period.
    pub fn radius(&self) -> f64 {
        self.poles().iter().map(|(re, im)| re.hypot(*im)).fold(0.0, f64::max)
    }

    /// The equations themselves, run for so many periods from a fill of `1` above the target with no arrival changing: the largest deviation of the fill in
    /// the last half by that in the first.
    pub fn swings(&self, periods: usize) -> f64 {
        let arrival = 0.3;
        // The point of rest: b = a = v, and the fill that makes it so.
        let rest = -self.margin * arrival / self.gain;
        let mut fills = vec![rest; self.delay + 1];
        *fills.last_mut().expect("there is one") += 0.01;
        let mut shares = vec![arrival; self.delay + 1];
        let (mut held, mut first, mut last) = (arrival, 0.0f64, 0.0f64);
        for k in 0..periods {
            let seen = fills[fills.len() - 1 - self.delay];
            let share = (1.0 + self.margin) * held + self.gain * seen;
            shares.push(share);
            let used = shares[shares.len() - 1 - self.delay];
            held += self.follow * (used - held);
            let fill = fills[fills.len() - 1] + self.turnover * (arrival - share);
            fills.push(fill);
            let away = (fill - rest).abs();
            if k < periods / 2 {
                first = first.max(away)
            } else {
                last = last.max(away)
            }
            if away > 1e9 {
                return f64::INFINITY;
            }
        }
        last / first.max(1e-12)
    }
}

/// With the law's margin, in the pipe of the benchmark.
fn radius(gain: f64, period: f64, delay: f64) -> f64 {
    let follow = (FOLLOW * period).min(1.0);
    let delay = (delay / period).ceil().min(16.0) as usize;
    Loop { gain, margin: Law::default().margin, follow, turnover: period / PIPE, delay }.radius()
}

/// The map of the stable region, as SVG that stands alone. The same each time.
pub fn map() -> String {
    picture::drawn(radius)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_roots() {
        // f = 1, m = 0: z^d (z - 1) z - (z - 1) + g h z; with d = 0: z^2 - (2 - gh) z + 1.
        let some = Loop { gain: 0.5, margin: 0.0, follow: 1.0, turnover: 1.0, delay: 0 };
        assert_eq!(some.polynomial(), [1.0, -1.5, 1.0]);
        assert!((some.radius() - 1.0).abs() < 1e-9);
        for delay in 0..5 {
            let l = Loop { gain: 0.7, margin: 0.12, follow: 0.2, turnover: 0.9, delay };
            let (all, poles) = (l.polynomial(), l.poles());
            assert_eq!(poles.len(), delay + 2);
            for z in poles {
                let value = all.iter().fold((0.0, 0.0), |sum, c| {
                    let (re, im) = times(sum, z);
                    (re + c, im)
                });
                assert!(value.0.hypot(value.1) < 1e-9, "{value:?}");
            }
        }
    }

    #[test]
    fn without_delay_the_region_is_the_one_in_the_head() {
        for (i, gh) in (1..60).map(|i| (i, f64::from(i) * 0.05)) {
            for (m, f) in [(0.12, 0.125), (0.25, 0.3), (0.0, 0.5)] {
                let l = Loop { gain: gh, margin: m, follow: f, turnover: 1.0, delay: 0 };
                let inside = m * f < gh * (1.0 - f) && 2.0 * (gh - m * f) < 4.0 + gh * f;
                let radius = l.radius();
                if (radius - 1.0).abs() > 1e-6 {
                    assert_eq!(radius < 1.0, inside, "{i}: {l:?} {radius}");
                }
            }
        }
    }

    #[test]
    fn the_equations_swing_where_the_poles_say_so() {
        let (mut inside, mut outside) = (0, 0);
        for delay in 0..4 {
            for gain in (1..40).map(|i| f64::from(i) * 0.08) {
                for turnover in [0.1, 0.5, 1.3, 4.0] {
                    let l = Loop { gain, margin: 0.12, follow: 0.125, turnover, delay };
                    let radius = l.radius();
                    if radius < 0.98 {
                        inside += 1;
                        assert!(l.swings(2_000) < 0.01, "{l:?} {radius} {}", l.swings(2_000));
                    } else if radius > 1.02 {
                        outside += 1;
                        assert!(l.swings(2_000) > 1.0, "{l:?} {radius} {}", l.swings(2_000));
                    }
                }
            }
        }
        assert!(inside > 50 && outside > 50, "{inside} {outside}");
    }

    #[test]
    fn the_gain_that_the_law_allows_itself_is_inside_for_two_periods_of_delay() {
        for delay in 0..=2 {
            for gh in [0.1, 0.2, 0.3, 0.4, 0.5] {
                let l = Loop { gain: gh, margin: 0.12, follow: 0.125, turnover: 1.0, delay };
                assert!(l.radius() < 1.0, "{l:?} {}", l.radius());
            }
        }
    }

    #[test]
    fn the_published_map_is_this_one() {
        let published = include_str!("../../../docs/feedback.svg");
        assert!(published == map(), "run: cargo run -p chappe-feedback --example stability_map > docs/feedback.svg");
    }

    #[test]
    fn chappe_pipe_is_inside_up_to_a_delay_of_a_period_and_too_much_gain_is_not() {
        let law = Law::default();
        assert!(radius(law.gain, 4.0, 0.0) < 1.0 && radius(law.gain, 4.0, 4.0) < 1.0);
        assert!(radius(5.0, 4.0, 4.0) > 1.0 && radius(5.0, 16.0, 0.0) > 1.0);
    }
}
