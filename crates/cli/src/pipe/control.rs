//! The loop that steers: looks at each stage every 4 ms, and gives it its share.
//!
//! It has a thread and a small reservation of its own, since on a busy machine it would not get to look in time otherwise. What it sees
//! goes to the main thread by a channel: it never waits for the code that draws and writes.

use super::kernel::{Attributes, Kernel, Real};
use super::look::{Processes, Waits};
use super::means::{First, Kind, Means, PERIOD, SOURCE, Task};
use chappe::feedback::{Law, Seen, Share};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What the loop reserves for itself of each period, in nanoseconds.
const OWN: u64 = 200_000;
/// So many periods make a look that is told.
const TOLD: u64 = 25;
/// In so many periods each stage has its slow look.
const SLOW: u64 = 6;
/// So many periods lie between two looks at a pipeline that is left alone.
const SELDOM: u64 = TOLD;
/// What a source has beyond what it uses, as a part of that, and at least. What it needs at a tick is no mean of many, and a task that has used more than its
/// reservation (an interrupt, a processor that stood still) waits for as long as the reservation takes to make up for it: ten times that with a tenth of a processor, two
/// hundred times with the others' least.
const SOURCES_MARGIN: f64 = 0.5;
const SOURCES_LEAST: f64 = 0.1;
/// A stage that has taken nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(5);

/// What is told to the main thread.
#[derive(Debug)]
pub enum Event {
    /// A stage has this means now, since another was refused or did not do.
    Means { stage: usize, kind: Kind, slices_only: bool, refused: Option<(Kind, String)> },
    /// Something is not as it should be.
    Warning { stage: usize, kind: &'static str, what: String },
    /// A tenth of a second of all stages.
    Look { at: Duration, stages: Vec<Row> },
}

/// A stage, as it is told. Shares are of one processor.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Bytes that it has taken in and put out through its pipes.
    pub moved: (u64, u64),
    /// The mean fill of its input, and the most.
    pub fill: Option<(f64, f64)>,
    /// Bytes in its input, at last.
    pub waiting: u32,
    pub used: f64,
    pub share: f64,
    /// Only where it is a reservation.
    pub reserved: Option<f64>,
    /// Which part of the looks it waited.
    pub waits: (f64, f64),
    pub stopped: bool,
    pub processes: usize,
    /// So many processors its threads can use at once.
    pub at_once: f64,
    /// The scheduler treats it like any other, since a stage takes all it is given.
    pub alone: bool,
    /// Processor and reservation since the begin, in seconds.
    pub sums: (f64, f64),
}

/// Whether a stage computes as fast as it may, and so its pipeline is to be left to the scheduler like any other.
///
/// A stage that uses all that it may have for a quarter of a second, and whose input does not get emptier for it, cannot be helped: it is
/// no stage that keeps up with something, but one that computes. The stages before and behind it wait for it, and need no help either.
/// Reservations for these would even harm it: the scheduler does not count tasks with a reservation when it spreads the others over
/// processors, and leaves another program's task beside the one that computes (tried on Linux 6.18 with two processors and two such tasks:
/// 0.2 of a processor instead of 0.5 to 1). A stage stops to count as one that computes when it has waited for its pipes all through a
/// quarter of a second; each time that was wrong it takes twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Taker {
    paced: bool,
    alone: bool,
    periods: u32,
    /// The fill when it began to use all.
    from: f64,
    patience: u32,
}

const QUARTER: u32 = 64;

impl Taker {
    /// `paced`: its data comes at a pace that is known, so that it is never left alone.
    pub fn new(paced: bool) -> Taker {
        Taker { paced, alone: false, periods: 0, from: 0.0, patience: QUARTER }
    }

    /// Takes a look, so many periods after the last one. Answers whether it computes from now on, if that has changed.
    pub fn next(&mut self, uses_all: bool, fill_in: f64, waits: bool, passed: u32) -> Option<bool> {
        let counts = if self.alone { waits } else { uses_all && !self.paced };
        if !counts {
            self.periods = 0;
            return None;
        }
        if self.periods == 0 {
            self.from = fill_in;
        }
        self.periods += passed;
        if self.periods < if self.alone { self.patience } else { QUARTER } {
            return None;
        }
        self.periods = 0;
        if self.alone {
            self.patience = (self.patience * 2).min(QUARTER * 256);
        } else if fill_in < self.from - 0.02 {
            // It catches up.
            return None;
        }
        self.alone = !self.alone;
        Some(self.alone)
    }
}

/// One stage.
struct Stage {
    processes: Processes,
    share: Share,
    means: Means,
    taker: Taker,
    told: Option<Kind>,
    /// It asked for more than it got.
    short: bool,
    /// Periods for which the system has refused it more, it used all it had, and its input stayed full.
    refused: u32,
    several: bool,
    /// It has waited for a pipe.
    up: bool,
    law: Law,
    reserved: f64,
    cap: f64,
    fills: (f64, f64),
    /// What it uses, over the last periods: the system ends a reservation's turn at its own ticks.
    smooth: f64,
    /// How full its input is, likewise.
    smooth_fill: f64,
    /// Sums since the last look that was told: use, fills, their number, the most, slow looks, waits.
    used: f64,
    fill_sum: f64,
    fill_count: u32,
    fill_most: f64,
    looks: (u32, u32, u32),
    waiting: u32,
    room: f64,
    rate: f64,
    moved: (u64, u64),
    sums: (f64, f64),
    /// Since when it has taken nothing though data waits.
    stuck: Option<Instant>,
    /// Since when its input has been full with the most that it may have.
    full: Option<Instant>,
    warned: (bool, bool, bool),
}

/// The law of a stage, and its reservations' period. A source is a stage without a pipe before it: it waits for a timer, a device or a file.
pub fn law(law: Law, source: bool) -> (Law, u64) {
    if source { (Law { margin: SOURCES_MARGIN, floor: SOURCES_LEAST, ..law }, SOURCE) } else { (law, PERIOD) }
}

/// What a stage's first process reserves for itself, if it may.
pub fn first(kind: Kind, all: Law, source: bool, kernel: &mut dyn Kernel) -> Option<First> {
    let (law, period) = law(all, source);
    First::new(kind, Share::new(law).told(), period, kernel)
}

/// What steers a pipeline.
pub struct Controller {
    stages: Vec<Stage>,
    tell: Sender<Event>,
    paced: bool,
    processors: f64,
    /// A stage takes all it is given: no stage is steered.
    alone: bool,
    began: Instant,
    told: Instant,
}

impl Controller {
    /// For stages whose first processes these are.
    pub fn new(roots: &[Vec<i32>], all: Law, paced: bool, first: Kind, tell: Sender<Event>) -> Controller {
        let stage = |(at, roots): (usize, &Vec<i32>)| {
            let processes = Processes::new(roots);
            let (law, period) = self::law(all, processes.input.is_none());
            Stage {
                processes,
                share: Share::new(law),
                means: Means::new(at + 1, first, period),
                taker: Taker::new(paced),
                told: None,
                short: true,
                refused: 0,
                several: false,
                up: false,
                law,
                reserved: 0.0,
                cap: law.cap,
                fills: (0.0, 0.0),
                smooth: 0.0,
                smooth_fill: 0.0,
                used: 0.0,
                fill_sum: 0.0,
                fill_count: 0,
                fill_most: 0.0,
                looks: (0, 0, 0),
                waiting: 0,
                room: 0.0,
                rate: 0.0,
                moved: (0, 0),
                sums: (0.0, 0.0),
                stuck: None,
                full: None,
                warned: (false, false, false),
            }
        };
        let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let stages = roots.iter().enumerate().map(stage).collect();
        Controller { stages, tell, paced, processors, alone: false, began: Instant::now(), told: Instant::now() }
    }

    /// What the stages' first processes have taken by themselves counts as given.
    pub fn adopt(&mut self, firsts: &[Option<First>], kernel: &mut dyn Kernel) {
        for (stage, first) in self.stages.iter_mut().zip(firsts) {
            let Some(first) = first else { continue };
            let shares = stage.processes.pids().filter_map(|pid| stage.means.adopt(pid, first, kernel));
            stage.reserved = shares.sum();
        }
    }

    /// Steers until all stages have ended, or the other side of `stop` has gone; then gives everything back.
    pub fn run(mut self, stop: &Receiver<()>) {
        let mut kernel = Real;
        // Whose own scheduling cannot be read is left with its reservation.
        let before = kernel.attributes(0).ok();
        // Refused, it looks when it is let.
        let _ = kernel.set_attributes(0, &Attributes::reservation(OWN, PERIOD));
        let mut last = Instant::now();
        let mut tick = 0u64;
        while self.stages.iter().any(|s| s.processes.is_there()) {
            let now = Instant::now();
            let alone = self.alone;
            self.period(tick, now.duration_since(last), &mut kernel);
            if alone != self.alone {
                let own = Attributes::reservation(OWN, PERIOD);
                // Refused, it looks when it is let, or keeps what it has.
                let _ = kernel.set_attributes(0, before.as_ref().filter(|_| self.alone).unwrap_or(&own));
            }
            last = now;
            let periods = if self.alone { SELDOM } else { 1 };
            tick += periods;
            let pause = Duration::from_nanos(periods * PERIOD).saturating_sub(now.elapsed());
            if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        self.tell_look();
        for stage in &mut self.stages {
            // A process that was started since the last look has nothing of chappe's.
            stage.means.give_back(&mut kernel);
        }
    }

    fn period(&mut self, tick: u64, passed: Duration, kernel: &mut dyn Kernel) {
        // The first look comes at once.
        let seconds = passed.as_secs_f64().max(PERIOD as f64 / 2e9);
        let slow = match (self.alone, tick) {
            (true, _) => 1,
            (false, ..50) => 2,
            _ => SLOW,
        };
        let periods = if self.alone { SELDOM as u32 } else { 1 };
        let somebody_runs = self.stages.iter().any(|s| s.processes.is_there() && !s.processes.waits.stopped);
        for at in 0..self.stages.len() {
            let stage = &mut self.stages[at];
            if !stage.processes.is_there() {
                continue;
            }
            // What each of several tasks needs changes, too.
            let changed = (tick + at as u64).is_multiple_of(slow) && (stage.look(self.processors) || stage.several);
            let uses = stage.quick(seconds);
            let all = stage.takes_all(uses);
            let waits = stage.processes.waits.input || stage.processes.waits.output;
            if stage.taker.next(all, stage.smooth_fill, waits, periods) == Some(true) && !self.alone {
                let what = "takes all that it is given: the pipeline is left to the scheduler as everybody".to_owned();
                let _ = self.tell.send(Event::Warning { stage: at + 1, kind: "takes-all", what });
            }
            if !self.alone {
                stage.steer(uses, changed, tick, at + 1, &self.tell, kernel);
            }
            stage.judge(at + 1, self.paced, somebody_runs, &self.tell);
        }
        let alone = self.stages.iter().any(|s| s.taker.alone && s.processes.is_there());
        if alone != self.alone {
            self.alone = alone;
            self.stages.iter_mut().for_each(|s| s.leave(alone, kernel));
        }
        if self.alone || tick % TOLD == TOLD - 1 {
            self.tell_look();
        }
    }

    fn tell_look(&mut self) {
        let window = self.told.elapsed();
        self.told = Instant::now();
        let alone = self.alone;
        let rows = self.stages.iter_mut().map(|s| s.row(window.as_secs_f64(), alone)).collect();
        // The other side is gone when its answer is no longer wanted.
        let _ = self.tell.send(Event::Look { at: self.began.elapsed(), stages: rows });
    }
}

impl Stage {
    fn look(&mut self, processors: f64) -> bool {
        let changed = self.processes.look();
        self.several = self.processes.tasks().len() > 1;
        let Waits { input, output, .. } = self.processes.waits;
        self.looks.0 += 1;
        self.looks.1 += u32::from(input);
        self.looks.2 += u32::from(output);
        // It has begun and waits for data: what it took to begin (loading, linking) says nothing of what it will need.
        if !self.up && (input || output) {
            (self.up, self.share) = (true, Share::new(self.law));
        }
        self.cap = Law::default().cap * processors.min(self.processes.busy() as f64);
        self.share.set_cap(self.cap);
        changed
    }

    /// Answers what it uses of a processor.
    fn quick(&mut self, seconds: f64) -> f64 {
        let used = self.processes.used() as f64 / 1e9;
        self.sums.0 += used;
        self.used += used;
        self.sums.1 += self.reserved * seconds;
        let part =
            |fill: Option<(u32, u32)>| fill.map_or(0.0, |(bytes, room)| f64::from(bytes) / f64::from(room.max(1)));
        let input = self.processes.fill(false);
        self.fills = (part(input), part(self.processes.fill(true)));
        if let Some((bytes, room)) = input {
            (self.waiting, self.room) = (bytes, room.into());
            self.fill_sum += self.fills.0;
            self.fill_count += 1;
            self.fill_most = self.fill_most.max(self.fills.0);
        }
        used / seconds
    }

    /// What it may use, as far as the system was told.
    fn has(&self) -> f64 {
        if self.means.kind() == Kind::Deadline { self.reserved } else { self.share.told() }
    }

    /// Takes note of what it uses. Answers whether that is all it can get, and data waits.
    fn takes_all(&mut self, uses: f64) -> bool {
        self.smooth += 0.15 * (uses - self.smooth);
        let fill_in = self.fill_in();
        // A stage that empties its input keeps up, whatever it uses.
        self.smooth_fill += 0.15 * (fill_in - self.smooth_fill);
        let all = self.is_bound() && self.smooth_fill > 0.5;
        let refused = all && self.short && self.means.kind() == Kind::Deadline && self.reserved > 0.0;
        self.refused = if refused { self.refused + 1 } else { 0 };
        all && self.has() >= 0.9 * self.cap
    }

    fn is_bound(&self) -> bool {
        self.smooth >= 0.9 * self.has()
    }

    /// What has no pipe before it has more to do whenever it uses all that it has.
    fn fill_in(&self) -> f64 {
        if self.processes.input.is_some() { self.fills.0 } else { f64::from(u8::from(self.is_bound())) }
    }

    /// The pipeline is left alone, or steered again.
    fn leave(&mut self, alone: bool, kernel: &mut dyn Kernel) {
        if alone {
            self.means.give_back(kernel);
            self.reserved = 0.0;
        } else {
            // What was seen before is old.
            self.share = Share::new(self.law);
            self.share.set_cap(self.cap);
        }
        self.short = true;
        self.refused = 0;
    }

    fn steer(
        &mut self,
        uses: f64,
        changed: bool,
        tick: u64,
        number: usize,
        tell: &Sender<Event>,
        kernel: &mut dyn Kernel,
    ) {
        let turnover = if self.room > 0.0 { self.rate * PERIOD as f64 / 1e9 / self.room } else { 0.0 };
        let seen = Seen { used: uses, fill_in: self.fill_in(), fill_out: self.fills.1, turnover };
        let wanted = self.share.next(seen);
        if self.means.kind() == Kind::Deadline {
            let brief = self.processes.brief > 0.5;
            // With less than it needs it would be worse off than without means. A stage that takes all is detected before.
            if brief || self.refused > 2 * QUARTER {
                self.means.fall(kernel);
                let why = if brief {
                    "it starts processes faster than they can be given reservations".to_owned()
                } else {
                    format!(
                        "the system has no more than {:.0} % of a processor left to reserve for it",
                        self.reserved * 100.0
                    )
                };
                self.tell_means(number, tell, Some((Kind::Deadline, why)));
                (self.short, self.refused) = (true, 0);
            }
        }
        if wanted.is_none() && !changed && !(self.short && tick.is_multiple_of(5)) {
            return;
        }
        let tasks: Vec<Task> =
            self.processes.tasks().into_iter().map(|(pid, tid, part)| Task { pid, tid, part }).collect();
        // Before its first slow look it has what it has taken by itself.
        if tasks.is_empty() {
            return;
        }
        let asked = self.share.told();
        let given = self.means.give(asked, &tasks, kernel);
        self.short = given.share < 0.9 * asked;
        if self.short && self.means.kind() == Kind::Deadline {
            self.share.granted(given.share);
        }
        self.reserved = if self.means.kind() == Kind::Deadline { given.share } else { 0.0 };
        let kind = self.means.kind();
        for (at, refused) in given.refused.iter().enumerate() {
            let last = at + 1 == given.refused.len();
            if last {
                self.tell_means(number, tell, Some(refused.clone()));
            } else {
                let (from, why) = refused.clone();
                let kind = given.refused[at + 1].0;
                let refused = Some((from, why));
                let _ = tell.send(Event::Means { stage: number, kind, slices_only: false, refused });
            }
        }
        if self.told != Some(kind) {
            self.tell_means(number, tell, None);
        }
    }

    fn tell_means(&mut self, number: usize, tell: &Sender<Event>, refused: Option<(Kind, String)>) {
        let kind = self.means.kind();
        self.told = Some(kind);
        let slices_only = self.means.has_slices_only();
        let _ = tell.send(Event::Means { stage: number, kind, slices_only, refused });
    }

    /// Says what is wrong with it, once until it is right again.
    fn judge(&mut self, number: usize, paced: bool, others_run: bool, tell: &Sender<Event>) {
        let say = |kind, what| drop(tell.send(Event::Warning { stage: number, kind, what }));
        let waits = self.processes.waits;
        let pid = self.processes.pids().next().unwrap_or(0);
        let stopped = waits.stopped && others_run;
        if stopped && !self.warned.0 {
            say(
                "stopped",
                format!("is stopped (pid {pid}), and the others wait for it: `kill -CONT {pid}` lets it go on"),
            );
        }
        self.warned.0 = stopped;
        // Idle, with data before it, and not because of what is behind it.
        let sleeps = self.used == 0.0 && self.fills.1 < 0.9 && waits == Waits::default();
        let idle = self.waiting > 0 && sleeps;
        let since = *self.stuck.get_or_insert_with(Instant::now);
        if !idle {
            (self.stuck, self.warned.1) = (None, false);
        } else if since.elapsed() > HANGS && !self.warned.1 {
            self.warned.1 = true;
            let what = self.processes.sleeps_in().map_or(String::new(), |what| format!(", sleeps in {what}"));
            say(
                "hangs",
                format!(
                    "has taken nothing for {} s though {} bytes wait (pid {pid}{what})",
                    HANGS.as_secs(),
                    self.waiting
                ),
            );
        }
        let too_slow = paced && self.fills.0 > 0.95 && self.share.now() >= 0.99 * self.cap;
        let since = *self.full.get_or_insert_with(Instant::now);
        if !too_slow {
            (self.full, self.warned.2) = (None, false);
        } else if since.elapsed() > Duration::from_secs(1) && !self.warned.2 {
            self.warned.2 = true;
            let what =
                "is too slow: it has the most that can be given, and its input stays full; what is before it waits";
            say("too-slow", what.to_owned());
        }
    }

    fn row(&mut self, seconds: f64, alone: bool) -> Row {
        let seconds = seconds.max(1e-3);
        let moved = self.processes.moved;
        // Reads are seen some time after they were made: the rate is smoothed.
        let through = if self.processes.input.is_some() { moved.0 - self.moved.0 } else { moved.1 - self.moved.1 };
        if seconds > 0.01 {
            self.rate += 0.3 * (through as f64 / seconds - self.rate);
        }
        self.moved = moved;
        let part = |count: u32| f64::from(count) / f64::from(self.looks.0.max(1));
        let row = Row {
            moved,
            fill: (self.fill_count > 0).then(|| (self.fill_sum / f64::from(self.fill_count), self.fill_most)),
            waiting: self.waiting,
            used: self.used / seconds,
            share: self.share.told(),
            reserved: (self.means.kind() == Kind::Deadline).then_some(self.reserved),
            waits: (part(self.looks.1), part(self.looks.2)),
            stopped: self.processes.waits.stopped,
            processes: self.processes.count(),
            at_once: self.processes.at_once(),
            alone,
            sums: self.sums,
        };
        (self.used, self.fill_sum, self.fill_count, self.fill_most) = (0.0, 0.0, 0, 0.0);
        self.looks = (0, 0, 0);
        row
    }
}

#[cfg(test)]
mod tests;
