//! Table 3.4 of the thesis: the callback of a device with one and with two active sources, made for these, beside the ways without code
//! synthesis: flags that are tested (figure 3.6), and a call for each source (figure 3.7).

use crate::process::pin;
use crate::table::{Aim, Case, Table, times};
use chappe::synth::{Feed, Period, Tap};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Samples of a period.
const FRAMES: usize = 64;
/// Periods that a ring holds: so many are timed at once.
const DEPTH: usize = 64;
/// Sources that the device has, most of them inactive.
const SOURCES: usize = 8;
/// How loud what is played is.
const GAIN: f32 = 0.5;

/// A ring of periods, as `chappe::synth` has it: one writer, one reader.
struct Ring {
    written: AtomicU64,
    read: AtomicU64,
    missed: u64,
    samples: Vec<f32>,
}

impl Ring {
    fn new() -> Ring {
        let samples = vec![0.25; DEPTH * FRAMES];
        Ring { written: AtomicU64::new(0), read: AtomicU64::new(0), missed: 0, samples }
    }

    #[inline(always)]
    fn record(&mut self, input: &[f32]) {
        // Relaxed: its own. Acquire, and the release below: as between two threads.
        let written = self.written.load(Ordering::Relaxed);
        // Acquire: pairs with the reader's release.
        if written - self.read.load(Ordering::Acquire) == DEPTH as u64 {
            self.missed += 1;
            return;
        }
        self.samples[written as usize % DEPTH * FRAMES..][..FRAMES].copy_from_slice(input);
        self.written.store(written + 1, Ordering::Release); // Release: as above.
    }

    #[inline(always)]
    fn play(&mut self, output: &mut [f32]) {
        // Relaxed: its own. Acquire, and the release below: as between two threads.
        let read = self.read.load(Ordering::Relaxed);
        // Acquire: pairs with the writer's release.
        if self.written.load(Ordering::Acquire) == read {
            self.missed += 1;
            return;
        }
        let samples = &self.samples[read as usize % DEPTH * FRAMES..][..FRAMES];
        output.iter_mut().zip(samples).for_each(|(out, sample)| *out += sample * GAIN);
        self.read.store(read + 1, Ordering::Release); // Release: as above.
    }

    /// The other side takes all that was recorded, or brings all that can be played.
    fn refill(&mut self, plays: bool) {
        let (written, read) = (self.written.get_mut(), self.read.get_mut());
        if plays { *written = *read + DEPTH as u64 } else { *read = *written }
    }
}

/// A source that is called: by the other side, or for a period of samples in and out.
type Called = dyn FnMut(bool, &[f32], &mut [f32]);

/// A source of the ways without synthesis.
struct Source {
    active: bool,
    plays: bool,
    ring: Ring,
}

impl Source {
    fn all(active: usize) -> Vec<Source> {
        (0..SOURCES).map(|n| Source { active: n < active, plays: n == 1, ring: Ring::new() }).collect()
    }
}

/// Times `DEPTH` periods; before that the other side does its part.
fn timed(mut other: impl FnMut(), mut period: impl FnMut(&[f32], &mut [f32])) -> f64 {
    let (input, mut output) = ([0.125; FRAMES], [0.0; FRAMES]);
    const AGAIN: u32 = 32;
    let mut ns = 0;
    for _ in 0..AGAIN {
        other();
        let start = Instant::now();
        for _ in 0..DEPTH {
            period(black_box(&input), &mut output);
            black_box(&output);
        }
        ns += start.elapsed().as_nanos();
    }
    ns as f64 / f64::from(AGAIN) / DEPTH as f64
}

/// One table: so many of the sources are active, the first records, the second plays.
fn compared(title: &str, active: usize, rounds: u32) -> Table {
    let period = Period::new(FRAMES, 1, 1).expect("a device");
    let mut callback = period.callback().expect("its callback");
    let mut tap: Option<Tap> = (active > 0).then(|| period.record(0, DEPTH).expect("a source"));
    let mut feed: Option<Feed> = (active > 1).then(|| period.play(0, GAIN, DEPTH).expect("a source"));
    let name = if period.code_bytes().is_some() { "synthesised" } else { "a list of the active ones" };
    let mut flags = Source::all(active);
    let mut inlined = Source::all(active);
    let mut called: Vec<Box<Called>> = Vec::new();
    for mut source in Source::all(active).into_iter().filter(|s| s.active) {
        called.push(Box::new(move |refill, input, output| match (refill, source.plays) {
            (true, plays) => source.ring.refill(plays),
            (false, true) => source.ring.play(output),
            (false, false) => source.ring.record(input),
        }));
    }
    let mut block = [0.25; FRAMES];
    let synthesised = move || {
        timed(
            || {
                while tap.as_mut().is_some_and(|tap| tap.pull(&mut block).expect("a period")) {}
                while feed.as_mut().is_some_and(|feed| feed.push(&block).expect("a period")) {}
            },
            |input, output| callback.run(input, output).expect("a period"),
        )
    };
    let hand = move || {
        // What a programmer writes that knows which sources are active for ever.
        let [one, two, ..] = &mut inlined[..] else { unreachable!("eight sources") };
        let (one, two) = (std::cell::RefCell::new(&mut one.ring), std::cell::RefCell::new(&mut two.ring));
        timed(
            || {
                one.borrow_mut().refill(false);
                two.borrow_mut().refill(true);
            },
            |input, output| {
                output.fill(0.0);
                if active > 0 {
                    one.borrow_mut().record(input);
                }
                if active > 1 {
                    two.borrow_mut().play(output);
                }
            },
        )
    };
    let tested = move || {
        let flags = std::cell::RefCell::new(&mut flags);
        timed(
            || flags.borrow_mut().iter_mut().for_each(|s| s.ring.refill(s.plays)),
            |input, output| {
                output.fill(0.0);
                for source in black_box(&mut **flags.borrow_mut()) {
                    if source.active {
                        if source.plays { source.ring.play(output) } else { source.ring.record(input) }
                    }
                }
            },
        )
    };
    let calls = move || {
        let called = std::cell::RefCell::new(&mut called);
        timed(
            || called.borrow_mut().iter_mut().for_each(|f| f(true, &[], &mut [])),
            |input, output| {
                output.fill(0.0);
                black_box(&mut **called.borrow_mut()).iter_mut().for_each(|f| f(false, input, output));
            },
        )
    };
    let cases = vec![
        Case::new(name, synthesised),
        Case::new("hand-written for these sources", hand),
        Case::new("flags of eight sources tested", tested),
        Case::new("a call for each active source", calls),
    ];
    let table = Table::measure(format!("{title}, a period of {FRAMES} samples"), rounds, cases);
    println!("{}", table.report());
    table
}

/// What a change of the sources takes, while nothing is played.
fn changes(rounds: u32) {
    let period = Period::new(FRAMES, 1, 1).expect("a device");
    let case = |others: usize| {
        let period = period.clone();
        move || {
            let _others: Vec<Feed> = (0..others).map(|_| period.play(0, GAIN, 4).expect("a source")).collect();
            let start = Instant::now();
            drop(black_box(period.play(0, GAIN, 4)));
            start.elapsed().as_nanos() as f64 / 2.0
        }
    };
    let cases =
        vec![Case::new("beside none", case(0)), Case::new("beside 8", case(8)), Case::new("beside 64", case(64))];
    println!("{}", Table::measure("a source comes or goes, on its own thread", rounds, cases).report());
}

/// The tables, and what was wanted.
///
/// # Panics
/// When a device refuses what it must take.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            compared("nobody is active", 0, rounds);
            let mut aims = Vec::new();
            for (title, active) in [("one records (CD in)", 1), ("one records, one plays (CD in, DA)", 2)] {
                let table = compared(title, active, rounds);
                for other in ["flags of eight sources tested", "a call for each active source"] {
                    let what = format!("{title}: made for them, beside {other}");
                    aims.push(Aim::at_most(what, 1.0, 1.0 / table.ratio(other), times));
                }
            }
            changes((rounds / 3).max(3));
            aims
        });
        aims = measured.join().expect("the measuring thread");
    });
    aims
}
