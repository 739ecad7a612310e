//! The delay-locked loop of F. Adriaensen ("Using a DLL to filter time", 2005): the common way to take the jitter out of a
//! device's wake-ups.
//!
//! Each period somebody says when it was woken. That is late by a varying time; the loop's two integrators know when the period
//! really began, and when the next will. With w = 2 pi B T (bandwidth B, period T): `t1 += sqrt(2) w e + e2; e2 += w^2 e`.

use std::f64::consts::{SQRT_2, TAU};

/// Filters the times at which the periods of a device begin.
///
/// **What is left of the jitter.** Where wake-ups are late by `s` rms, each independently, an interval between two answers has `sqrt(2) w s` rms, and the time
/// itself some `sqrt(1.1 w) s`. At 2 Hz and 64 frames of 48 kHz these are 0.024 and 0.13 of `s`. A device that begins its periods anew (after an xrun) has
/// another series of them: [`Dll::reset`] there, or the loop takes a second to forget the step.
///
/// ```
/// use chappe_feedback::Dll;
///
/// let mut dll = Dll::new(2.0, 64.0 / 48_000.0);
/// for i in 0..5_000 {
///     let jitter = if i % 3 == 0 { 15e-6 } else { 0.0 };
///     dll.update(f64::from(i) * 64.0 / 48_000.0 + jitter);
/// }
/// assert!((dll.period() * 48_000.0 - 64.0).abs() < 0.01);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dll {
    bandwidth: f64,
    period: f64,
    next: Option<f64>,
}

impl Dll {
    /// A loop of this bandwidth in Hz (0.1 to 4 is usual) and this expected period in seconds.
    pub fn new(bandwidth: f64, period: f64) -> Dll {
        Dll { bandwidth, period, next: None }
    }

    /// A period has begun, as far as one can see at `now`, in seconds. Answers when it really began.
    pub fn update(&mut self, now: f64) -> f64 {
        let Some(expected) = self.next else {
            self.next = Some(now + self.period);
            return now;
        };
        let w = TAU * self.bandwidth * self.period;
        let e = now - expected;
        self.next = Some(expected + SQRT_2 * w * e + self.period);
        self.period += w * w * e;
        expected
    }

    /// When the next period will begin; nothing before the first.
    pub fn next(&self) -> Option<f64> {
        self.next
    }

    /// How long a period is.
    pub fn period(&self) -> f64 {
        self.period
    }

    /// Another bandwidth from now on: a wide one at the begin locks sooner, a narrow one later has less jitter.
    pub fn set_bandwidth(&mut self, bandwidth: f64) {
        self.bandwidth = bandwidth;
    }

    /// Forgets when periods begin, as after a pause of the device; the period's length stays.
    pub fn reset(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    #[test]
    fn jitter_of_ten_microseconds_becomes_less_than_one_rms() {
        let (period, mut random) = (64.0 / 48_000.0, Random::new(7));
        let mut dll = Dll::new(2.0, period * 1.0002);
        let (mut sum, mut count) = (0.0, 0.0);
        for i in 0..30_000 {
            let begun = f64::from(i) * period;
            // The mean lateness is the device's, not jitter.
            let t = dll.update(begun + random.within(-10e-6, 10e-6));
            if i > 5_000 {
                sum += (t - begun).powi(2);
                count += 1.0;
            }
        }
        let rms = (sum / count).sqrt();
        assert!(rms < 1e-6, "{rms}");
        // White noise of +-10 us has 5.8 us rms: that none was taken out would show.
        assert!(rms > 1e-8, "{rms}");
    }

    #[test]
    fn the_loop_leaves_the_jitter_that_theory_says() {
        let (period, mut random) = (64.0 / 48_000.0, Random::new(3));
        for bandwidth in [0.5, 2.0, 4.0] {
            let mut dll = Dll::new(bandwidth, period);
            let (mut times, mut intervals, mut count, mut before) = (0.0, 0.0, 0.0, 0.0);
            for i in 0..60_000 {
                let begun = f64::from(i) * period;
                let t = dll.update(begun + random.within(-60e-6, 60e-6));
                if i > 10_000 {
                    times += (t - begun).powi(2);
                    intervals += (t - before - period).powi(2);
                    count += 1.0;
                }
                before = t;
            }
            let (w, late) = (TAU * bandwidth * period, 120e-6 / 12f64.sqrt());
            let (times, intervals): (f64, f64) = ((times / count).sqrt(), (intervals / count).sqrt());
            assert!((intervals / (SQRT_2 * w * late) - 1.0).abs() < 0.1, "{bandwidth}: {intervals}");
            assert!((times / ((1.1 * w).sqrt() * late) - 1.0).abs() < 0.2, "{bandwidth}: {times}");
        }
    }

    #[test]
    fn a_device_that_pauses_is_locked_to_again() {
        let mut dll = Dll::new(2.0, 0.001);
        for i in 0..2_000 {
            dll.update(f64::from(i) * 0.001);
        }
        dll.reset();
        assert_eq!(dll.next(), None);
        assert_eq!(dll.update(9.0), 9.0);
        assert!((dll.next().unwrap() - 9.001).abs() < 1e-9);
    }
}
