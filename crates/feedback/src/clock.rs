//! A clock that keeps the time of another one: so many ticks a second of the reference's, however long (synthesis, 6.4.1: "integral stability").
//!
//! The reference tells now and then how many *units* of its own have gone by: frames of a sound device, seconds of the system's time. Each telling is late
//! by a varying time. A loop of second order, [`Dll`](crate::Dll)'s for tellings of any length, works out from them when each unit was. Tick `k` is due
//! when `k / hz` of the reference's seconds have gone by.
//!
//! - I1: a tick's number is its place in the reference's time. So nothing that is late, told late or told at once makes the count wrong.
//! - I2: no tick is due that is further ahead of the last telling than two tellings are apart: a reference that stands still stops the clock.
//! - I3: a telling that is far from where it was expected (four tellings, and 50 ms) is a pause or a jump: the loop begins anew from there. The unit's
//!   length stays, and I1 holds.
//!
//! **A thread that is held up** tells much later than usual, and then all at once. That moves where the reference is thought to be, for a moment; how fast it is
//! is not learnt from a telling that is further off than four times the usual: else ticks would come early afterwards.
//!
//! **Bandwidth.** 0.1 Hz unless it is set. The first tellings are followed faster (as a fit of a line through all tellings until now would), so the loop
//! is locked after some ten of them. It is never wider than a twentieth of the tellings' rate, where the loop would ring.
//!
//! An [`Fll`](crate::locked::Fll) gives whole multiples of its reference's events; here the ratio is any, as of 1 kHz to blocks of 64 frames at 44,100 Hz.

use std::f64::consts::{SQRT_2, TAU};

/// A clock that is locked to a reference. All times are the caller's own clock in seconds.
///
/// ```
/// use chappe_feedback::Locked;
///
/// // 1,000 ticks a second of a sound card, which says 48,000 Hz and runs 150 ppm fast by our clock.
/// let mut clock = Locked::new(1_000.0, 48_000.0);
/// let (mut now, mut ticks) = (0.0, 0);
/// for _ in 0..7_500 {
///     now += 64.0 / 48_000.0 / 1.000_15;
///     clock.reference(now, 64.0);
///     while clock.due().is_some_and(|due| due <= now) {
///         clock.tick();
///         ticks += 1;
///     }
/// }
/// assert!((clock.rate() - 48_007.2).abs() < 0.5);
/// assert!((9_999..=10_001).contains(&ticks));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Locked {
    /// Units a tick.
    tick: f64,
    /// Seconds a unit, as the reference promises, and as the loop has it.
    nominal: f64,
    each: f64,
    bandwidth: f64,
    /// When the last telling was, in truth; and how many units there were.
    at: Option<f64>,
    units: f64,
    /// Units of the last telling.
    last: f64,
    /// How far the last telling was from where it was expected.
    error: f64,
    /// Tellings that the loop has followed, and those since it began anew.
    told: f64,
    since: f64,
    /// How far tellings are from where they are expected, usually.
    usual: f64,
    ticks: u64,
    jumps: u64,
}

impl Locked {
    /// `hz` ticks a second of a reference that promises `rate` units a second. Both must be positive.
    pub fn new(hz: f64, rate: f64) -> Locked {
        let each = 1.0 / rate;
        Locked {
            tick: rate / hz,
            nominal: each,
            each,
            bandwidth: 0.1,
            at: None,
            units: 0.0,
            last: 0.0,
            error: 0.0,
            told: 0.0,
            since: 0.0,
            usual: 0.05,
            ticks: 0,
            jumps: 0,
        }
    }

    /// With another bandwidth in Hz: a wider one follows changes sooner, a narrower one has less of the tellings' jitter.
    #[must_use]
    pub fn bandwidth(self, bandwidth: f64) -> Locked {
        Locked { bandwidth, ..self }
    }

    /// So many more units have gone by, as far as one can see at `now`. The first telling may have fewer than none: then tick 0 is due later. A later one
    /// that has fewer than none is a reference that was set back: a [`jump`](Locked::jump).
    pub fn reference(&mut self, now: f64, units: f64) {
        if units < 0.0 && self.at.is_some() {
            self.jump(now, units);
            return;
        }
        self.units += units;
        let Some(at) = self.at else {
            (self.at, self.last) = (Some(now), units.max(0.0));
            return;
        };
        if units == 0.0 {
            return;
        }
        let length = units * self.each;
        let expected = at + length;
        (self.error, self.last) = (now - expected, units);
        if self.error.abs() > (4.0 * length).max(0.05) {
            self.jump(now, 0.0);
            return;
        }
        (self.told, self.since) = (self.told + 1.0, self.since + 1.0);
        let gain = |tellings: f64| (TAU * self.bandwidth * length).max(2.8 / (tellings + 8.0)).min(TAU / 20.0);
        self.at = Some(expected + SQRT_2 * gain(self.since) * self.error);
        // A thread that was held up tells much later than usual, which says nothing of how fast the reference is: more than four times the usual does not count.
        let most = 4.0 * self.usual;
        let follow = (1.0 / self.told).max(0.005);
        self.usual = (self.usual + (self.error.abs().min(most) - self.usual) * follow).max(1e-6);
        let counts = if self.error.abs() <= most { self.error } else { 0.0 };
        let change = gain(self.told).powi(2) * counts / units;
        // A device that is off by half is none; noise at the begin may look so.
        self.each = (self.each + change).clamp(self.nominal * 0.5, self.nominal * 2.0);
    }

    /// When the next tick is due; nothing before the reference's first telling, and while the next tick is too far ahead of the last one (I2).
    pub fn due(&self) -> Option<f64> {
        let ahead = self.ticks as f64 * self.tick - self.units;
        let known = self.last == 0.0 || ahead <= 2.0 * self.last;
        self.at.filter(|_| known).map(|at| at + ahead * self.each)
    }

    /// How many units have gone by at `now`, by the loop; nothing before the reference's first telling.
    pub fn units_at(&self, now: f64) -> Option<f64> {
        self.at.map(|at| self.units + (now - at) / self.each)
    }

    /// Units that were told until now.
    pub fn units(&self) -> f64 {
        self.units
    }

    /// A tick: answers its number, from 0 on.
    pub fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks - 1
    }

    /// The reference is known to have jumped: so many more units count (or fewer), and the loop begins anew at `now`. The unit's length stays.
    pub fn jump(&mut self, now: f64, units: f64) {
        self.units += units;
        (self.at, self.since) = (Some(now), 0.0);
        self.jumps += 1;
    }

    /// Ticks until now.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Ticks whose place is before the last telling's end, and which were not made: what is left when the reference ends.
    pub fn owed(&self) -> u64 {
        // A millionth of a tick is rounding.
        let all = (self.units / self.tick - 1e-6).ceil().max(0.0) as u64;
        all.saturating_sub(self.ticks)
    }

    /// Units a second, by the caller's clock.
    pub fn rate(&self) -> f64 {
        1.0 / self.each
    }

    /// By how many millionths the reference is faster than it promises, by the caller's clock.
    pub fn ppm(&self) -> f64 {
        (self.nominal / self.each - 1.0) * 1e6
    }

    /// How late the last telling was, in seconds; of those that are told evenly this is jitter.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// How often the reference has paused or jumped (I3).
    pub fn jumps(&self) -> u64 {
        self.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    /// A reference that tells `units` at a time, whose clock is off by `ppm` and that pauses once for some seconds; each telling is late by up to `jitter`
    /// seconds. How far each tick came from the time that the reference was at its place, at worst from `from` seconds on; and the clock.
    fn run(hz: f64, rate: f64, units: f64, ppm: f64, jitter: f64, pause: f64, from: f64) -> (f64, Locked) {
        let mut random = Random::new(4);
        let (mut clock, mut worst) = (Locked::new(hz, rate), 0.0f64);
        let length = units / (rate * (1.0 + ppm * 1e-6));
        let tellings = (600.0 / length) as usize;
        let stops = tellings / 2;
        let begin = |k: usize| k as f64 * length + if k > stops { pause } else { 0.0 };
        for k in 1..=tellings {
            let told = begin(k) + random.within(0.0, jitter);
            while let Some(due) = clock.due().filter(|due| *due <= told) {
                // When the reference was at this tick's place.
                let at = clock.tick() as f64 / hz * rate / units;
                let right = begin(at as usize) + at.fract() * length;
                if told > from && (k < stops || k > stops + (20.0 / length) as usize) {
                    worst = worst.max((due - right).abs());
                }
            }
            clock.reference(told, units);
        }
        (worst, clock)
    }

    #[test]
    fn a_locked_clock_is_never_a_tick_off_in_ten_minutes() {
        // A sound card in blocks of 64 and 1,024 frames; a disciplined second that is looked at four times a second; the clock of another.
        for (hz, rate, units) in [
            (1_000.0, 48_000.0, 64.0),
            (333.3, 44_100.0, 1_024.0),
            (100.0, 1.0, 0.25),
            (10.0, 1.0, 1.0),
            (1.0, 50.0, 1.0),
        ] {
            for ppm in [-200.0, 0.0, 200.0] {
                let (worst, clock) = run(hz, rate, units, ppm, 0.0, 0.0, 30.0);
                assert!(worst * hz <= 1e-3, "{hz} Hz of {rate}: {worst} s off");
                assert!((clock.ppm() - ppm).abs() < 0.1 && clock.jumps() == 0, "{ppm}: {}", clock.ppm());
            }
        }
    }

    #[test]
    fn late_readings_move_ticks_by_their_mean_delay() {
        // Blocks of 1.3 ms that are told up to 0.5 ms late: the mean of 0.25 ms is the device's.
        let (worst, clock) = run(1_000.0, 48_000.0, 64.0, 137.0, 500e-6, 0.0, 30.0);
        assert!(worst < 300e-6, "{worst}");
        assert!((clock.ppm() - 137.0).abs() < 10.0, "{}", clock.ppm());
    }

    #[test]
    fn a_reference_that_pauses_stops_the_clock_and_no_tick_is_lost() {
        let (worst, clock) = run(1_000.0, 48_000.0, 64.0, 50.0, 0.0, 3.0, 30.0);
        assert!(worst < 1e-6 && clock.jumps() == 1, "{worst} {}", clock.jumps());
        let mut clock = Locked::new(1_000.0, 48_000.0);
        clock.reference(0.0, 480.0);
        clock.reference(0.01, 480.0);
        let mut made = 0;
        while clock.due().is_some_and(|due| due < 100.0) {
            clock.tick();
            made += 1;
        }
        // 20 ms and two tellings of 10 ms more, with the tick at each end.
        assert_eq!((made, clock.owed()), (41, 0));
    }

    #[test]
    fn a_thread_that_tells_and_is_held_up_makes_no_tick_early() {
        // Blocks of 10 ms from a device that goes on meanwhile: each few seconds the one that tells stands still for 10 to 200 ms, and then tells all at once.
        let (mut random, mut clock) = (Random::new(8), Locked::new(1_000.0, 48_000.0));
        let (mut early, mut held) = (0.0f64, 0.0);
        for k in 1..=60_000 {
            let at = f64::from(k) * 0.01 / 1.000_2;
            if k > 3_000 && random.within(0.0, 300.0) < 1.0 {
                held = at + random.within(0.01, 0.2);
            }
            let told = at.max(held);
            while let Some(due) = clock.due().filter(|due| *due <= told) {
                let right = clock.tick() as f64 / 1_000.0 / 1.000_2;
                if k > 3_000 {
                    early = early.max(right - due);
                }
            }
            clock.reference(told, 480.0);
        }
        assert!(clock.jumps() > 50 && early < 1e-3, "{} jumps, {early} s early", clock.jumps());
        assert_eq!(clock.ticks() + clock.owed(), 600_000);
    }

    #[test]
    fn a_reference_that_changes_its_rate_is_followed_within_a_tick() {
        let (mut clock, mut at, mut worst) = (Locked::new(1_000.0, 48_000.0), 0.0, 0.0f64);
        for k in 1..=12_000 {
            at += 0.01 / if k > 6_000 { 1.000_3 } else { 0.999_9 };
            while clock.due().is_some_and(|due| due <= at) {
                clock.tick();
            }
            if k > 1 {
                worst = worst.max((clock.ticks() as f64 - f64::from(k) * 10.0).abs());
            }
            clock.reference(at, 480.0);
        }
        assert!(worst <= 1.0 && (clock.ppm() - 300.0).abs() < 1.0, "{worst} {}", clock.ppm());
    }

    #[test]
    fn the_clock_owes_the_ticks_that_the_reference_had() {
        let mut clock = Locked::new(100.0, 44_100.0);
        for _ in 0..4 {
            clock.reference(0.0, 2_205.0);
        }
        assert_eq!(clock.owed(), 20);
        clock.jump(1.0, -1_323.0);
        assert_eq!((clock.owed(), clock.tick(), clock.ticks(), clock.jumps()), (17, 0, 1, 1));
        // The first telling puts tick 0 where it is wanted.
        let mut clock = Locked::new(10.0, 1.0);
        clock.reference(5.0, -0.02);
        assert!(clock.owed() == 0 && (clock.due().unwrap() - 5.02).abs() < 1e-9);
    }

    #[test]
    fn a_reference_that_goes_back_is_followed_from_where_it_is_then() {
        // 1 Hz of a reference of 1 Hz, at 0 to 4 s; half a second later it stands at 3.5.
        let mut clock = Locked::new(1.0, 1.0);
        (0..=4).for_each(|k| clock.reference(f64::from(k), f64::from(k.min(1))));
        while clock.due().is_some_and(|due| due <= 4.5) {
            clock.tick();
        }
        assert_eq!((clock.ticks(), clock.jumps()), (5, 0));
        clock.reference(4.5, -0.5);
        // Tick 5 has its place at 5: that is 1.5 s after 4.5 s.
        assert!((clock.due().unwrap() - 6.0).abs() < 1e-9, "{:?}", clock.due());
        assert_eq!((clock.ticks(), clock.jumps(), clock.owed()), (5, 1, 0));
        // A telling of nothing changes nothing.
        clock.reference(4.6, 0.0);
        assert!((clock.due().unwrap() - 6.0).abs() < 1e-9, "{:?}", clock.due());
    }

    #[test]
    fn a_clock_that_is_not_locked_loses_time() {
        // What I1 is worth: told once, a timer that is 200 ppm off is 0.12 s off after ten minutes.
        let mut clock = Locked::new(1_000.0, 1.0);
        clock.reference(0.0, 0.0);
        let mut ticks = 0;
        while clock.due().is_some_and(|due| due < 600.0 * 1.000_2) {
            clock.tick();
            ticks += 1;
        }
        assert!(ticks > 600_110, "{ticks}");
    }
}
