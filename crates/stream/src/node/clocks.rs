//! Ticks: by the machine's own clock, or locked to another one (synthesis, table 4.3's clock quaject, 6.4.1).
//!
//! | text | whose time |
//! |---|---|
//! | `clock 1000` | the machine's steady clock (CLOCK_MONOTONIC) |
//! | `clock 1000 lock=ntp` | the system's time of day, which NTP or PTP disciplines: 1,000 ticks in each of its seconds, on whole milliseconds |
//! | `clock 1000 lock=card`, and anywhere in the graph `... \| reference card \| ...` | the frames that go by there, at the rate of their type: a device's time, or another clock's |
//!
//! `reference` hands each block on, and tells the clocks that are locked to it how many frames went by, and when. A clock never makes one tick more or less than
//! that time has, however late its own thread or a telling is ([`Locked`]). It ends with its reference, when it has made the ticks of all frames; where the
//! reference stops, it may be ahead by the ticks of two blocks.
//!
//! **The system's time is set.** A step of more than 0.1 s is no drift: the ticks go on, with the next number, where the new time has its next one. Those that
//! it leaps over are counted as dropped.
//!
//! **Between processes** nothing is told: a clock and its reference belong to one process (`@process`); a graph where they do not is refused.

use super::time;
use crate::kind::{Anew, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::telling::{Listener, References, Teller, Telling};
use crate::types::{Block, Element, Type};
use chappe_feedback::Locked;
use chappe_plat::clock;
use chappe_sync::tube::{RecvTimeoutError, TryRecvError};
use chappe_synth::Schema;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The word for the system's time of day.
const NTP: &str = "ntp";
/// Seconds between two looks at the time of day.
const LOOK: f64 = 0.25;
/// More seconds than this between expected and found are a step of the time of day.
const STEP: f64 = 0.1;

/// Tells clocks what goes by.
struct Reference {
    name: String,
    graph: Arc<References>,
    /// Its clocks; nothing before the first block.
    clocks: Option<Vec<Teller>>,
    rate: f64,
    frame: usize,
    frames: u64,
}

impl Reference {
    fn clocks(&mut self) -> &mut Vec<Teller> {
        // All bodies of a graph are made before its first block: so all clocks listen.
        let (graph, name) = (&self.graph, &self.name);
        self.clocks.get_or_insert_with(|| graph.take(name))
    }

    fn tell(&mut self, at: u64, frames: u64) {
        let rate = self.rate;
        self.frames += frames;
        self.clocks().iter_mut().for_each(|clock| clock.tell(at, frames, rate));
    }
}

impl Stage for Reference {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.tell(clock::now(), (block.len() / self.frame) as u64);
        out.put(block)
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        let (at, rate) = (clock::now(), self.rate);
        self.clocks().drain(..).for_each(|clock| clock.end(at, rate));
        Ok(())
    }

    fn says(&self) -> Option<String> {
        Some(format!("{} frames", self.frames))
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // One that never began: its clocks end.
        self.clocks();
    }
}

/// A clock that is locked to the time of day, told both times of each look.
struct Day {
    clock: Locked,
    hz: f64,
    /// The machine's clock in seconds, and the time of day in nanoseconds.
    looked: Option<(f64, u64)>,
    steps: u64,
    leapt: u64,
    /// The largest difference between what was expected and what was found, in seconds, from the tenth look on.
    worst: f64,
    looks: u64,
}

impl Day {
    fn new(hz: f64) -> Day {
        Day { clock: Locked::new(hz, 1.0), hz, looked: None, steps: 0, leapt: 0, worst: 0.0, looks: 0 }
    }

    /// When to look again.
    fn look_at(&self) -> f64 {
        self.looked.map_or(0.0, |(now, _)| now + LOOK)
    }

    fn look(&mut self, now: f64, day: u64) {
        let Some((before, then)) = self.looked.replace((now, day)) else {
            // Tick 0 is the next whole multiple of a tick's length.
            let length = 1.0 / self.hz;
            let whole = if self.hz >= 1.0 { day % 1_000_000_000 } else { day };
            let into = (whole as f64 / 1e9) % length;
            self.clock.reference(now, if into > 0.0 { into - length } else { 0.0 });
            return;
        };
        let elapsed = (i128::from(day) - i128::from(then)) as f64 / 1e9;
        let step = elapsed - (now - before);
        if step.abs() > STEP {
            let ticks = (step * self.hz).round();
            self.clock.jump(now, elapsed - ticks / self.hz);
            self.steps += 1;
            self.leapt += ticks.max(0.0) as u64;
            return;
        }
        self.clock.reference(now, elapsed);
        self.looks += 1;
        if self.looks > 10 {
            self.worst = self.worst.max(self.clock.error().abs());
        }
    }
}

/// What a clock's ticks are locked to.
enum To {
    Day(Box<Day>),
    Device { name: String, hear: Listener, clock: Option<Locked>, over: bool },
}

/// Ticks that are locked to something.
struct Follower {
    hz: f64,
    to: To,
    count: Option<u64>,
    made: u64,
    began: u64,
    told: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Tick,
    /// Wait until then, or until something is told.
    Wait(Option<f64>),
    End,
}

impl To {
    /// What is to be done at this time, if nothing more is told.
    fn next(&self, now: f64) -> Next {
        let (due, until, over) = match self {
            To::Day(day) => (day.clock.due(), Some(day.look_at()), false),
            To::Device { clock, over, .. } => {
                if *over && clock.is_none_or(|clock| clock.owed() == 0) {
                    return Next::End;
                }
                // After the last telling nothing is too far ahead any more.
                (clock.and_then(|c| c.due()), None, *over)
            }
        };
        match (due, until) {
            (Some(due), _) if due <= now => Next::Tick,
            (None, _) if over => Next::Tick,
            (Some(due), Some(until)) => Next::Wait(Some(due.min(until))),
            (Some(due), None) => Next::Wait(Some(due)),
            (None, until) => Next::Wait(until),
        }
    }

    fn clock(&mut self) -> Option<&mut Locked> {
        match self {
            To::Day(day) => Some(&mut day.clock),
            To::Device { clock, .. } => clock.as_mut(),
        }
    }
}

impl Follower {
    fn new(hz: f64, to: To, count: Option<u64>) -> Follower {
        Follower { hz, to, count, made: 0, began: clock::now(), told: 0 }
    }

    /// Seconds of this clock's own time.
    fn seconds(&self, at: u64) -> f64 {
        (i128::from(at) - i128::from(self.began)) as f64 / 1e9
    }

    fn hear(&mut self, telling: Telling) {
        let (at, hz) = (self.seconds(telling.at), self.hz);
        if let To::Device { clock, .. } = &mut self.to {
            clock.get_or_insert_with(|| Locked::new(hz, telling.rate)).reference(at, telling.frames as f64);
        }
    }

    /// Takes what was told meanwhile, and looks at the time of day if it is time.
    fn catch_up(&mut self) {
        let now = self.seconds(clock::now());
        if let To::Day(day) = &mut self.to {
            if now >= day.look_at() {
                let (now, time) = both(self.began);
                day.look(now, time);
            }
            return;
        }
        loop {
            let To::Device { hear, over, .. } = &mut self.to else { return };
            match hear.try_recv() {
                Ok(telling) => self.hear(telling),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    *over = true;
                    return;
                }
            }
        }
    }

    fn wait(&mut self, until: Option<f64>) {
        let began = self.began;
        let To::Device { hear, over, .. } = &mut self.to else {
            if let Some(until) = until {
                time::sleep_until(began + (until.max(0.0) * 1e9).ceil() as u64);
            }
            return;
        };
        let told = match until {
            // Nothing is told any more.
            Some(until) if *over => {
                time::sleep_until(began + (until.max(0.0) * 1e9).ceil() as u64);
                return;
            }
            Some(until) => {
                let left = until - (clock::now() - began) as f64 / 1e9;
                hear.recv(Some(Instant::now() + Duration::from_secs_f64(left.clamp(0.0, 1e6))))
            }
            None => hear.recv(None),
        };
        match told {
            Ok(telling) => self.hear(telling),
            Err(RecvTimeoutError::Timeout) => {}
            Err(_) => *over = true,
        }
    }
}

/// The machine's clock in seconds since `began`, and the time of day: of five looks the one that took the least time.
fn both(began: u64) -> (f64, u64) {
    let look = |_| {
        let before = clock::now();
        let day = clock::time_of_day();
        let after = clock::now();
        (after - before, (before - began) as f64 / 1e9 + (after - before) as f64 / 2e9, day)
    };
    let (_, now, day) = (0..5).map(look).min_by_key(|(took, ..)| *took).expect("five looks");
    (now, day)
}

/// What is known of whether something synchronises the time of day.
fn by(disciplined: io::Result<bool>) -> String {
    match disciplined {
        Ok(true) => "which is synchronised".into(),
        Ok(false) => "which NOTHING synchronises".into(),
        Err(e) => format!("of which nobody can say whether anything synchronises it (adjtimex: {e})"),
    }
}

/// The record of a tick.
fn record(number: u64) -> Block {
    let mut record = number.to_le_bytes().to_vec();
    record.extend(clock::now().to_le_bytes());
    Block::bytes(record)
}

impl Source for Follower {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if self.count.is_some_and(|n| self.made >= n) {
            return Ok(None);
        }
        loop {
            self.catch_up();
            match self.to.next(self.seconds(clock::now())) {
                Next::Tick => {
                    if let Some(clock) = self.to.clock() {
                        clock.tick();
                    }
                    self.made += 1;
                    return Ok(Some(record(self.made - 1)));
                }
                Next::Wait(until) => self.wait(until),
                Next::End => return Ok(None),
            }
        }
    }

    fn dropped(&mut self) -> u64 {
        let To::Day(day) = &self.to else { return 0 };
        day.leapt - std::mem::replace(&mut self.told, day.leapt)
    }

    fn says(&self) -> Option<String> {
        Some(match &self.to {
            To::Day(day) => {
                format!(
                    "{} ticks, locked to the system's time, {}: {:+.3} ppm of our clock, {} steps, at worst {:.1} us from where it was expected",
                    self.made,
                    by(clock::disciplined()),
                    day.clock.ppm(),
                    day.steps,
                    day.worst * 1e6
                )
            }
            To::Device { name, clock: Some(clock), .. } => format!(
                "{} ticks, locked to {name}: {:.3} Hz by our clock ({:+.1} ppm), {} pauses",
                self.made,
                clock.rate(),
                clock.ppm(),
                clock.jumps()
            ),
            To::Device { name, .. } => format!("no ticks: {name} told nothing"),
        })
    }
}

/// Ticks whose number keeps time: the n-th is n/f after the first, however late the one before it was (6.4.1).
struct Ticker {
    hz: f64,
    at: u64,
    count: Option<u64>,
    began: u64,
}

impl Source for Ticker {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if self.count.is_some_and(|n| self.at >= n) {
            return Ok(None);
        }
        if self.at == 0 {
            self.began = clock::now();
        }
        time::sleep_until(self.began + (self.at as f64 / self.hz * 1e9) as u64);
        self.at += 1;
        Ok(Some(record(self.at - 1)))
    }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "clock",
            "HZ [count=N] [lock=ntp|REFERENCE]",
            "ticks: records of their number and their time; by the machine's clock, or locked to another",
            |call| {
                call.no_input()?;
                let hz = call.needs_number(0, "hz", (1e-6, 1e6))?;
                let count = call.number(1, "count", (1.0, 1e15))?.map(|n| n as u64);
                let lock = call.text(usize::MAX, "lock")?.map(|(name, span)| (name.to_owned(), span));
                let schema = Schema::parse("tick: u64, at: u64").map_err(|e| Wrong::new(e.to_string()))?;
                let gives = Type { rate: Some(hz), ..Type::of(Element::Record(Arc::new(schema))) };
                let follows = lock.clone().filter(|(name, _)| name != NTP);
                let references = call.references();
                let body = move || {
                    let source: Box<dyn Source> = match lock {
                        None => Box::new(Ticker { hz, at: 0, count, began: 0 }),
                        Some((name, _)) if name == NTP => {
                            Box::new(Follower::new(hz, To::Day(Box::new(Day::new(hz))), count))
                        }
                        Some((name, _)) => {
                            let hear = references.listen(&name);
                            Box::new(Follower::new(hz, To::Device { name, hear, clock: None, over: false }, count))
                        }
                    };
                    Ok(Body::Source(source))
                };
                let plan = Plan::source(gives, body).ends(End::Passive, End::Active).anew(Anew::Fresh);
                Ok(Plan { follows, ..plan })
            },
        ),
        Kind::new(
            "reference",
            "NAME",
            "hands on; `clock HZ lock=NAME` keeps the time of what goes by, as a device gives or takes it",
            |call| {
                let input = call.input()?;
                let (name, span) = call.needs_text(0, "name")?;
                if name == NTP {
                    return Err(Wrong::at(span, "`ntp` is the system's time: give this reference another name"));
                }
                let has_rate = input.rate.filter(|_| !input.has_no_frames());
                let rate = has_rate.ok_or_else(|| {
                    call.mismatch(
                        input,
                        "something with a rate",
                        "`rate 48000` before it says how many frames a second",
                    )
                })?;
                let (name, graph, frame) = (name.to_owned(), call.references(), time::frame(input));
                let offers = Some(name.clone());
                let make = move || stage(Reference { name, graph, clocks: None, rate, frame, frames: 0 });
                Ok(Plan { offers, ..Plan::filter(input.clone(), make) })
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;
    use crate::telling::{TELLINGS, pair};

    const SECOND: u64 = 1_000_000_000;
    const BEGAN: u64 = 1_790_000_000 * SECOND + 700_000_123;

    /// A clock of `hz` at a time of day that runs `ppm` fast by the machine's, and is set by these steps (at, seconds); looked at as the node does, in virtual
    /// time, whose thread comes up to `late` seconds late. The time of day of each tick, in nanoseconds.
    fn day(hz: f64, ppm: f64, steps: &[(f64, f64)], late: f64, seconds: f64) -> (Vec<u64>, Box<Day>) {
        let time = |now: f64| {
            let set: f64 = steps.iter().filter(|(at, _)| now >= *at).map(|(_, by)| by).sum();
            (BEGAN as i128 + ((now * (1.0 + ppm * 1e-6) + set) * 1e9) as i128) as u64
        };
        let (mut random, mut now, mut ticks) = (chappe_feedback::model::Random::new(9), 0.0, Vec::new());
        let mut to = To::Day(Box::new(Day::new(hz)));
        while now < seconds {
            let To::Day(clock) = &mut to else { unreachable!() };
            if now >= clock.look_at() {
                clock.look(now, time(now));
            }
            match to.next(now) {
                Next::Tick => {
                    ticks.push(time(now));
                    to.clock().unwrap().tick();
                }
                Next::Wait(until) => now = until.unwrap().max(now) + random.within(0.0, late),
                Next::End => unreachable!("the day has no end"),
            }
        }
        let To::Day(day) = to else { unreachable!() };
        (ticks, day)
    }

    #[test]
    fn a_clock_at_the_time_of_day_ticks_on_its_whole_multiples_for_ten_minutes() {
        for (hz, ppm) in [(100.0, 0.0), (100.0, 300.0), (3.0, -300.0), (0.5, 200.0)] {
            let (ticks, day) = day(hz, ppm, &[], 0.0, 600.0);
            let wanted = 600.0 * (1.0 + ppm * 1e-6) * hz;
            assert!((ticks.len() as f64 - wanted).abs() <= 1.0, "{hz} Hz, {ppm} ppm: {} ticks", ticks.len());
            // Settled: each within 2 us of its place.
            for at in &ticks[ticks.len() / 10..] {
                let place = (at % (10 * SECOND)) as f64 / 1e9 * hz;
                let off = (place - place.round()).abs() / hz;
                assert!(off < 2e-6, "{hz} Hz, {ppm} ppm: {off} s off at {at}");
            }
            assert_eq!((day.steps, day.leapt), (0, 0));
        }
    }

    #[test]
    fn a_thread_that_is_late_makes_no_tick_more_or_less() {
        let (ticks, _) = day(100.0, 50.0, &[], 0.03, 600.0);
        assert!((ticks.len() as f64 - 60_003.0).abs() <= 4.0, "{}", ticks.len());
        assert!(ticks.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn a_step_of_the_time_of_day_is_leapt_over_and_counted() {
        let (ticks, day) = day(10.0, 0.0, &[(20.0, 3_600.03), (40.0, -50.0)], 0.0, 60.0);
        assert_eq!((day.steps, day.leapt), (2, 36_000));
        assert!((598..=602).contains(&ticks.len()), "{}", ticks.len());
        // On the new time's multiples again at once.
        for at in [ticks[250], ticks[599 - 10]] {
            let off = (at + SECOND / 20) % (SECOND / 10);
            assert!(off.abs_diff(SECOND / 20) < 100_000, "{off}");
        }
    }

    #[test]
    fn a_reference_tells_each_clock_every_frame_also_one_that_is_held_up() {
        let graph = Arc::new(References::default());
        let (hear, slow) = (graph.listen("card"), graph.listen("card"));
        let other = graph.listen("other");
        let mut reference = Reference { name: "card".into(), graph, clocks: None, rate: 48_000.0, frame: 2, frames: 0 };
        let mut out = Kept::default();
        let mut heard = 0;
        for _ in 0..TELLINGS + 44 {
            reference.put(Block::f32(vec![0.0; 128]), &mut out).unwrap();
            heard += hear.try_recv().unwrap().frames;
        }
        // There is room again: an end that waits for it is `telling`'s to test.
        let first = slow.try_recv().unwrap().frames;
        reference.end(&mut out).unwrap();
        let read = first + std::iter::from_fn(|| slow.try_recv().ok()).map(|t| t.frames).sum::<u64>();
        assert_eq!((heard, read), (300 * 64, 300 * 64));
        assert_eq!(hear.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(other.try_recv(), Err(TryRecvError::Empty));
        assert_eq!((out.blocks.len(), reference.says().unwrap()), (300, "19200 frames".into()));
    }

    /// A follower of a device, and what tells it.
    fn device(hz: f64) -> (Teller, Follower) {
        let (tell, hear) = pair();
        (tell, Follower::new(hz, To::Device { name: "card".into(), hear, clock: None, over: false }, None))
    }

    #[test]
    fn a_clock_ends_with_its_device_and_has_made_its_ticks() {
        let (mut tell, mut clock) = device(1_000.0);
        // It came before the clock began: all is due.
        for k in 0..4u64 {
            tell.tell(clock.began - (4 - k) * 10_000_000, 480, 48_000.0);
        }
        drop(tell);
        let numbers = std::iter::from_fn(|| clock.get().unwrap()).map(|b| b.to_bytes());
        let numbers: Vec<u64> = numbers.map(|b| u64::from_le_bytes(b[..8].try_into().unwrap())).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<_>>());
        assert!(clock.says().unwrap().starts_with("40 ticks, locked to card: 48000.000 Hz"), "{:?}", clock.says());
        let (tell, mut clock) = device(1_000.0);
        drop(tell);
        assert!(clock.get().unwrap().is_none());
        assert_eq!(clock.says().unwrap(), "no ticks: card told nothing");
    }

    #[test]
    fn a_report_says_when_it_is_unknown_whether_the_time_is_synchronised() {
        assert_eq!(
            (by(Ok(true)), by(Ok(false))),
            ("which is synchronised".into(), "which NOTHING synchronises".into())
        );
        let refused = by(Err(io::Error::from_raw_os_error(1)));
        assert!(
            refused.contains("nobody can say whether") && refused.contains("adjtimex: Operation not permitted"),
            "{refused}"
        );
    }
}
