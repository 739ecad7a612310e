//! All points of one operation: chosen, tried, counted.
//!
//! A first trial lets the operation run to its end, one instruction at a time, and records the path. Then comes one
//! trial per point. A full sweep takes every instruction; a share takes every `stride`-th, and always an atomic
//! instruction or a system call and what comes after it: that is where shared state changes hands.
//!
//! A point is an address and the so-manieth time that the victim comes there. How often a loop turns varies a little
//! between runs (digits of a process id, spinning): a victim that never comes to its point dies at the operation's end,
//! and is not counted as killed inside. Of a loop the first turns are taken ([`Plan::turns`]): some operations read all of
//! /proc, half a million instructions that are the same few thousand again and again.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::board::{Fault, Stage};
use crate::step::{Kind, Reader};
use crate::trial::{Mark, Play, Point, Trial, run};

/// A sweep that finds this many wedges or leaks has made its point: each costs a watchdog.
const ENOUGH: u64 = 4;

/// Which points, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Every so-manieth instruction; 1 for all.
    pub stride: u64,
    /// How many of the times that the victim comes to one address.
    pub turns: u32,
    /// The watchdog.
    pub limit: Duration,
}

impl Plan {
    /// Every instruction.
    pub fn all() -> Plan {
        Plan { stride: 1, turns: 16, limit: Duration::from_secs(20) }
    }

    /// Every `stride`-th instruction, and where shared state changes hands.
    pub fn share(stride: u64) -> Plan {
        Plan { stride, turns: 2, limit: Duration::from_secs(20) }
    }
}

/// What a sweep counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The operation.
    pub name: String,
    /// Its surroundings.
    pub scene: String,
    /// Instructions of the operation in the first run.
    pub instructions: u64,
    /// Trials made.
    pub trials: u64,
    /// Trials in which the victim died inside the operation, at its point.
    pub kills: u64,
    /// Trials after which a survivor did not get on.
    pub wedged: u64,
    /// Trials after which a permit was missing.
    pub lost: u64,
    /// Trials after which a permit had two holders.
    pub doubled: u64,
    /// Trials after which state contradicted itself.
    pub torn: u64,
    /// Trials after which a slot stayed out of use.
    pub leaked: u64,
    /// Times the backstop fired.
    pub backstops: u64,
    /// Times a survivor that locked a mutex was told of its holder's death: no fault, but what saves it from torn data.
    pub told: u64,
    /// How long it took.
    pub took: Duration,
    /// The system refuses ptrace: nothing was tried.
    pub refused: bool,
    /// The first findings, in words.
    pub findings: Vec<String>,
}

impl Tally {
    /// Whether something was tried and nothing was found.
    pub fn clean(&self) -> bool {
        self.trials > 0 && !self.refused && self.faults() == 0 && self.backstops == 0
    }

    /// Trials with a fault of any kind.
    pub fn faults(&self) -> u64 {
        self.wedged + self.torn + self.lost + self.doubled + self.leaked
    }

    /// Trials with a fault of this kind.
    pub fn of(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Wedged => self.wedged,
            Fault::Torn => self.torn,
            Fault::Lost => self.lost,
            Fault::Doubled => self.doubled,
            Fault::Leaked => self.leaked,
        }
    }

    /// Counts one trial.
    pub fn count(&mut self, trial: &Trial, whence: &str) {
        self.trials += 1;
        self.kills += u64::from(trial.reached);
        self.backstops += trial.backstops;
        self.told += trial.told;
        self.refused |= trial.refused;
        for verdict in [&trial.before, &trial.verdict] {
            if let Err((fault, text)) = verdict {
                match fault {
                    Fault::Wedged => self.wedged += 1,
                    Fault::Torn => self.torn += 1,
                    Fault::Lost => self.lost += 1,
                    Fault::Doubled => self.doubled += 1,
                    Fault::Leaked => self.leaked += 1,
                }
                self.note(format!("{whence}: {fault:?}: {text}"));
                // One fault a trial: the second is a consequence.
                return;
            }
        }
        if trial.backstops > 0 {
            self.note(format!("{whence}: the backstop fired {} times", trial.backstops));
        }
    }

    /// Adds up.
    pub fn add(&mut self, other: &Tally) {
        self.instructions += other.instructions;
        self.trials += other.trials;
        self.kills += other.kills;
        self.wedged += other.wedged;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.torn += other.torn;
        self.leaked += other.leaked;
        self.backstops += other.backstops;
        self.told += other.told;
        self.took += other.took;
        self.refused |= other.refused;
    }

    fn note(&mut self, finding: String) {
        if self.findings.len() < 8 {
            self.findings.push(finding);
        }
    }
}

/// Sweeps one play.
pub fn sweep(play: &dyn Play, plan: Plan) -> Tally {
    let start = Instant::now();
    let stage = Stage::new(plan.limit);
    let mut reader = Reader::default();
    let mut tally = Tally { name: play.name(), scene: play.scene(), ..Tally::default() };

    let whole = run(play, &stage, Point::End, false, &mut reader);
    tally.instructions = whole.path.len() as u64;
    tally.count(&whole, "at its end");
    // An operation that fails when nobody is killed tells nothing by being killed.
    let broken = tally.faults() > 0;

    let sleeps = (1..=whole.sleeps).map(|n| (Point::Asleep(n), format!("in sleep {n}")));
    for (turn, (point, whence)) in points(&whole.path, plan).chain(sleeps).enumerate() {
        if broken || tally.wedged + tally.leaked >= ENOUGH {
            tally.note("the rest was not tried".to_owned());
            break;
        }
        let trial = run(play, &stage, point, turn % 2 == 1, &mut reader);
        tally.count(&trial, &whence);
    }
    tally.took = start.elapsed();
    tally
}

/// Runs a play that is not led, several times.
pub fn repeat(play: &dyn Play, times: u64, limit: Duration) -> Tally {
    let start = Instant::now();
    let stage = Stage::new(limit);
    let mut tally = Tally { name: play.name(), scene: play.scene(), ..Tally::default() };
    for turn in 1..=times {
        if tally.wedged + tally.leaked >= ENOUGH {
            break;
        }
        let trial = run(play, &stage, Point::End, false, &mut Reader::default());
        tally.count(&trial, &format!("time {turn}"));
    }
    tally.took = start.elapsed();
    tally
}

/// The points of a share, each with a name for people.
fn points(path: &[Mark], plan: Plan) -> impl Iterator<Item = (Point, String)> {
    let chosen = choose(path, plan.stride);
    let mut times: HashMap<u64, u32> = HashMap::new();
    (0u64..).zip(path).filter_map(move |(at, mark)| {
        let time = times.entry(mark.address).or_default();
        *time += 1;
        let point = Point::Before(mark.address, *time);
        (*time <= plan.turns && chosen.contains(&at))
            .then(|| (point, format!("instruction {at}, {}", place(mark.address, *time))))
    })
}

/// An address as `addr2line` wants it: relative to where this program was loaded.
fn place(address: u64, time: u32) -> String {
    // SAFETY: asks the linker about an address; it writes only to `info`.
    let (base, file) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return format!("{address:#x}, time {time}");
        }
        (info.dli_fbase as u64, std::ffi::CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    };
    let file = file.rsplit('/').next().unwrap_or_default().to_owned();
    format!("{file}+{:#x}, time {time}", address - base)
}

fn choose(path: &[Mark], stride: u64) -> BTreeSet<u64> {
    let count = path.len() as u64;
    let mut chosen: BTreeSet<u64> = (0..count).step_by(stride.max(1) as usize).collect();
    for (at, mark) in (0u64..).zip(path) {
        if matches!(mark.kind, Kind::Atomic | Kind::Call) {
            // Before it has happened, and after.
            chosen.extend(at..(at + 2).min(count));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(atomic: usize) -> Vec<Mark> {
        (0..100)
            .map(|at| Mark { address: at as u64, kind: if at == atomic { Kind::Atomic } else { Kind::Plain } })
            .collect()
    }

    #[test]
    fn a_full_sweep_has_every_instruction() {
        assert_eq!(choose(&path(50), 1), (0..100).collect());
    }

    #[test]
    fn a_share_kills_before_and_after_each_atomic_instruction() {
        assert_eq!(choose(&path(50), 100), [0, 50, 51].into());
    }

    #[test]
    fn a_loop_is_told_apart_by_its_turns() {
        let turn = Mark { address: 7, kind: Kind::Plain };
        let plan = Plan { turns: 2, ..Plan::all() };
        let all: Vec<Point> = points(&[turn; 3], plan).map(|(point, _)| point).collect();
        assert_eq!(all, [Point::Before(7, 1), Point::Before(7, 2)]);
    }
}
