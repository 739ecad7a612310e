//! A clock cheap enough to be read at each acquisition, and labour that takes a known time.
//!
//! Where the processor has a counter that runs evenly (x86-64: the time stamp counter) that is read, about as dear as a
//! locked operation; elsewhere the system's clock.

use crate::process::now;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The counter.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        now()
    }
}

/// Nanoseconds a tick.
pub fn tick() -> f64 {
    static TICK: OnceLock<f64> = OnceLock::new();
    *TICK.get_or_init(|| {
        let (began, from) = (now(), ticks());
        std::thread::sleep(Duration::from_millis(50));
        (now() - began) as f64 / (ticks() - from) as f64
    })
}

/// Steps of [`labour`] that take so many nanoseconds.
pub fn steps(ns: u64) -> u64 {
    static STEP: OnceLock<f64> = OnceLock::new();
    let step = STEP.get_or_init(|| {
        const MANY: u64 = 100_000;
        let try_once = || {
            let began = Instant::now();
            labour(MANY);
            began.elapsed().as_nanos() as f64 / MANY as f64
        };
        (0..50).map(|_| try_once()).fold(f64::INFINITY, f64::min)
    });
    (ns as f64 / step).round() as u64
}

/// Keeps the processor busy, and touches no memory that others do.
#[inline(always)]
pub fn labour(steps: u64) {
    let mut x = steps;
    for _ in 0..steps {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_on_and_has_a_length() {
        let from = ticks();
        std::thread::sleep(Duration::from_millis(1));
        assert!(ticks() > from);
        assert!(tick() > 0.0);
    }

    #[test]
    fn more_time_is_more_steps() {
        assert!(steps(1_000_000) > steps(1_000));
        assert_eq!(steps(0), 0);
    }
}
