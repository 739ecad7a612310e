//! Clocks that are locked to another one keep its time (synthesis, 6.4.1, "integral stability"): N ticks in N/f of its seconds, one more or less, however long.

use chappe_feedback::locked::Fll;
use chappe_feedback::model::Random;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A timer of our own that is off by `own` ppm, locked at `n` ticks for each of a device's periods of `rate` a second, whose clock is off by `ppm` and each of
/// whose periods is told late by up to `jitter` seconds. How far the ticks are off the device's time at worst, in ticks, from `from` seconds on.
fn locked(n: u32, rate: f64, ppm: f64, own: f64, jitter: f64, from: f64, seconds: f64) -> f64 {
    let mut random = Random::new(26);
    let mut fll = Fll::new(n, f64::from(n) * rate);
    let (mut next, mut ticks, mut worst) = (0.0f64, 0i64, 0.0f64);
    let period = 1.0 / (rate * (1.0 + ppm * 1e-6));
    for k in 0.. {
        let at = k as f64 * period;
        if at > seconds {
            return worst;
        }
        let told = at + random.within(0.0, jitter);
        while next < told {
            // By elapsed time, as the section says: what a tick is late is no part of the next one's interval.
            next += fll.output() * (1.0 + own * 1e-6);
            ticks += 1;
        }
        if at > from {
            // Ticks of the device's time by now, of which those that came while the period's end was told late are part.
            let due = told / period * f64::from(n);
            worst = worst.max((ticks as f64 - due).abs());
        }
        fll.reference();
    }
    worst
}

#[test]
fn a_clock_locked_to_a_device_keeps_its_time_for_ten_minutes() {
    // A sound card of 48 kHz and 1,024 frames; of ±200 ppm, with a timer of ours that is off by 300.
    for (ppm, jitter) in [(0.0, 0.0), (200.0, 0.0), (-200.0, 0.0), (137.0, 500e-6), (-137.0, 500e-6)] {
        let worst = locked(8, 48_000.0 / 1_024.0, ppm, 300.0, jitter, 30.0, 600.0);
        // What is told late is counted late: by so many ticks at most.
        let told_late = jitter * 8.0 * 48_000.0 / 1_024.0 * 1.001;
        assert!(worst <= 1.0 + told_late + 1e-6, "{ppm} ppm, {jitter} s of jitter: {worst:.3} ticks off");
    }
}

#[test]
fn a_clock_locked_to_the_seconds_of_a_better_one_keeps_its_time_for_ten_minutes() {
    for own in [-300.0, 0.0, 300.0] {
        let worst = locked(1_000, 1.0, 0.0, own, 0.0, 60.0, 600.0);
        assert!(worst <= 1.0 + 1e-6, "{own} ppm: {worst:.3} ticks off");
    }
}

#[test]
fn a_timer_that_is_not_locked_does_not() {
    // The same timer by itself: after ten minutes 300 ppm are 180 ticks of a millisecond.
    let mut fll = Fll::new(1_000, 1_000.0);
    let ticks = (0..).scan(0.0, |next, _| {
        *next += fll.output() * (1.0 + 300e-6);
        Some(*next)
    });
    let ticks = ticks.take_while(|at| *at < 600.0).count();
    assert!(600_000 - ticks > 170, "{ticks}");
}

/// What the system says of its clock: whether something disciplines it, its frequency in ppm, and the error that is estimated, in microseconds.
fn disciplined() -> (bool, f64, i64) {
    // SAFETY: zeroes ask for nothing but the state.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the struct lives through the call.
    unsafe { libc::adjtimex(&raw mut state) };
    (state.status & libc::STA_UNSYNC == 0, state.freq as f64 / 65_536.0, state.esterror)
}

#[test]
#[ignore = "storm: a minute of real time"]
fn a_clock_locked_to_the_systems_disciplined_time_keeps_it_for_a_minute() {
    const HZ: i64 = 1_000;
    let real = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let (synchronised, ppm, error) = disciplined();
    println!("the system's clock: synchronised {synchronised}, {ppm:+.3} ppm, {error} us");
    // From a whole second on; our timer is made 300 ppm slow.
    let zero = real().ceil();
    while real() < zero {
        std::thread::sleep(Duration::from_micros(200));
    }
    let began = Instant::now();
    let late = real() - zero;
    let mut fll = Fll::new(HZ as u32, HZ as f64);
    // The begin of second 0.
    fll.reference();
    let (mut next, mut ticks, mut worst, mut oldest) = (0.0f64, 0i64, 0i64, 0.0f64);
    for second in 1..=60i64 {
        // When that second begins, by our own timer: both clocks are read behind it.
        let at = loop {
            let (now, mine) = (real() - zero, began.elapsed().as_secs_f64() + late);
            if now >= second as f64 {
                break mine - (now - second as f64);
            }
            let mut due = 0;
            while next <= mine {
                oldest = oldest.max(mine - next);
                next += fll.output() * (1.0 + 300e-6);
                (ticks, due) = (ticks + 1, due + 1);
            }
            if due == 0 {
                std::thread::sleep(Duration::from_secs_f64((next - mine).clamp(20e-6, 1e-3)));
            }
        };
        while next < at {
            next += fll.output() * (1.0 + 300e-6);
            ticks += 1;
        }
        if second > 15 {
            worst = worst.max((ticks - second * HZ).abs());
        }
        fll.reference();
    }
    println!(
        "{ticks} ticks of 1 kHz in 60 s, at worst {worst} off from second 16 on; the latest tick was {:.3} ms late",
        oldest * 1e3
    );
    assert!(worst <= 1, "{worst}");
}
