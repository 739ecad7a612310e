//! The chaos run: a dozen processes over several arenas that take, wait, choose, send, make, remove, fork, exec, are killed, stopped and
//! continued, and run out of memory, of descriptors and of room, with every history checked.
//!
//! What there is, is in [`places`]; which process does what, in [`processes`]; the killer, in [`director`]; what they note of themselves, in
//! [`board`] and [`ledger`]. A visit is a number of rounds. In each, all are killed at random for some seconds; then all end by themselves,
//! and a survivor counts ([`audit`]). So what is undecided because a process died in the middle of it never adds up. In the first two
//! thirds none is stopped, and the backstop must never fire. In the last third some are; there its firing is counted apart, since a stopped
//! process that had just been told of a death may leave others asleep until then.
//!
//! Findings:
//!
//! | | |
//! |---|---|
//! | doubled | one permit or mutex with two living holders; a unit too many; a message twice that does not say so |
//! | lost | a permit, unit or message does not come back, besides those that may be missing; what a program had that called exec |
//! | leaked | a slot, a member or a file stays |
//! | torn | data or messages contradict themselves, or an object is another than was asked for |
//! | out of order | a message after a later one of its sender |
//! | untold | a mutex whose holder had died, and whose next holder was not told |
//! | unclear errors | an error that is not documented for what was tried |
//! | wedged | a process made no turn within the watchdog |
//! | held up | a process waited for a stopped one of which it needs nothing |
//! | failed | a process ended with an error, or crashed |

pub mod audit;
pub mod board;
pub mod churners;
pub mod director;
pub mod forkers;
pub mod ledger;
pub mod places;
pub mod pool_users;
pub mod processes;
pub mod semaphore_users;
pub mod starved;
pub mod store_users;
pub mod tube_users;
pub mod units;
pub mod worker;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use self::board::{Board, Count, FOUND, Found};
use self::director::{Director, Tally};
use self::worker::{Chaos, Mistake};
use super::ask;
use crate::board::{Fault, Stage};

/// What to do.
#[derive(Clone, Debug)]
pub struct Visit {
    /// How many kills, at most.
    pub kills: u64,
    /// How long, at most.
    pub time: Duration,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
    /// An empty directory of its own.
    pub home: PathBuf,
    /// What is to be wrong.
    pub mistake: Option<Mistake>,
}

/// How many kills one round has, and how long it lasts.
const ROUND: (u64, Duration) = (250, Duration::from_secs(5));

/// What was counted.
#[derive(Debug, Default)]
pub struct Sum {
    /// Rounds, kills and the rest, without stops and with.
    pub parts: [(u64, Tally); 2],
    /// Times the backstop fired, without stops and with.
    pub backstops: [u64; 2],
    /// What was found how often.
    pub found: Vec<(&'static str, u64)>,
    /// The rest of what is worth telling.
    pub counted: Vec<(Count, u64)>,
    /// What could not be tried here.
    pub not_tested: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// The first findings, in words.
    pub findings: Vec<String>,
}

impl Sum {
    /// Whether something happened and nothing was found.
    pub fn clean(&self) -> bool {
        let found: u64 = self.found.iter().map(|(_, count)| count).sum();
        found + self.backstops[0] == 0 && self.parts[0].1.kills > 0
    }

    fn counted(&self, what: Count) -> u64 {
        self.counted.iter().find(|(it, _)| *it == what).map_or(0, |(_, count)| *count)
    }

    /// One line, and below it what could not be tried, and the findings.
    pub fn summary(&self, seed: u64) -> String {
        let mut all = Tally::default();
        self.parts.iter().for_each(|(_, tally)| all += *tally);
        let [(rounds, plain), (more, stopped)] = &self.parts;
        let found: Vec<String> = self.found.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let c = |what| self.counted(what);
        let mut text = format!(
            "chaos: {} kills ({} without stops, {} beside {} stops) in {} rounds of {} lives, {} turns; {} permits, {} units, {} \
             sections ({} told of a death), {} messages sent, {} received and {} marked, {} missing (at most {}), {} made and {} \
             removed, {} refused for want of room, {} forks and {} killed by their own, {} execs, {} ended by themselves; {}; {} \
             backstops without stops, {} with; {:.1} s, {:.0} kills a second, seed {seed}",
            all.kills,
            plain.kills,
            stopped.kills,
            stopped.stops,
            rounds + more,
            all.births,
            all.turns,
            c(Count::Permits),
            c(Count::Units),
            c(Count::Sections),
            c(Count::Told),
            c(Count::Sent),
            c(Count::Got),
            c(Count::Marked),
            c(Count::Missing),
            c(Count::MayMiss),
            c(Count::Made),
            c(Count::Removed),
            c(Count::Full),
            c(Count::Forks),
            c(Count::Family),
            all.execs,
            all.ends,
            found.join(", "),
            self.backstops[0],
            self.backstops[1],
            self.took.as_secs_f64(),
            all.kills as f64 / self.took.as_secs_f64(),
        );
        for line in self.not_tested.iter().map(|what| format!("not tested: {what}")) {
            text.push('\n');
            text.push_str(&line);
        }
        for finding in &self.findings {
            text.push_str("\n    ");
            text.push_str(finding);
        }
        text
    }
}

/// How many lines of findings are shown.
const SHOWN: usize = 400;

/// A visit. The environment's `CHAPPE_DIR` is set to a directory in [`Visit::home`] for all that are started.
///
/// # Errors
/// What keeps the stage from being set.
pub fn visit(visit: &Visit) -> Result<Sum, String> {
    let start = Instant::now();
    let text = |e: std::io::Error| e.to_string();
    let arenas = visit.home.join("arenas");
    std::fs::create_dir_all(&arenas).map_err(text)?;
    // SAFETY: the director has one thread.
    unsafe { std::env::set_var("CHAPPE_DIR", &arenas) };
    let little = Little::mount(&visit.home.join("small"));
    let path = visit.home.join("findings");
    let log = File::options().create(true).append(true).open(&path).map_err(text)?;
    let small = little.as_ref().ok().map(|little| little.0.clone());
    let chaos = Chaos { board: Board::shared(), log, mistake: visit.mistake, small };
    let stage = Stage::new(visit.limit);
    ask(&stage, "setting the stage", || places::make().map_err(|e| (Fault::Torn, e.to_string()))).map_err(|e| e.1)?;

    let mut sum = Sum::default();
    let mut director = Director::new(&chaos, visit.seed, visit.limit);
    // Parts of two thirds and one third, in rounds of about equal size.
    for (part, share, thirds) in [(0, 2, 2), (1, 1, 3)] {
        let (kills, until) = ((visit.kills * share).div_ceil(3), visit.time * thirds / 3);
        let mut goes_on = true;
        while goes_on && sum.parts[part].1.kills < kills && start.elapsed() < until {
            let left = (kills - sum.parts[part].1.kills).min(ROUND.0);
            let (tally, well) = director.round(left, ROUND.1.min(until - start.elapsed()), part == 1);
            sum.parts[part].0 += 1;
            sum.parts[part].1 += tally;
            goes_on = well && check(&chaos, &stage, false) && chaos.board.all_findings() == 0;
            sum.backstops[part] += chaos.board.backstops.swap(0, SeqCst);
        }
        if !goes_on {
            break;
        }
    }
    if chaos.board.all_findings() == 0 {
        // The last round has been counted.
        chaos.board.forget();
        check(&chaos, &stage, true);
    }
    sum.found = FOUND.iter().map(|(what, name)| (*name, chaos.board.findings(*what))).collect();
    sum.counted = Count::ALL.iter().map(|what| (*what, chaos.board.counted(*what))).collect();
    sum.not_tested = little.err();
    sum.took = start.elapsed();
    let told = std::fs::read_to_string(path).unwrap_or_default();
    sum.findings = told.lines().take(SHOWN).map(str::to_owned).collect();
    Ok(sum)
}

/// The count between two rounds. False: something was found.
fn check(chaos: &Chaos, stage: &Stage, last: bool) -> bool {
    let verdict = ask(stage, "the count", || audit::audit(chaos, stage, last)).and_then(|()| {
        let Some(small) = &chaos.small else { return Ok(()) };
        ask(stage, "the count of the small file system", || audit::small(small))?;
        // Every process that had something mapped is gone.
        match audit::used(small) {
            Ok(0..=LOCK_FILE) => Ok(()),
            other => Err((Fault::Leaked, format!("of the emptied small file system {other:?} bytes are in use"))),
        }
    });
    let Err((fault, text)) = verdict else { return true };
    let found = match fault {
        Fault::Wedged => Found::Wedged,
        Fault::Torn => Found::Torn,
        Fault::Lost => Found::Lost,
        Fault::Doubled => Found::Doubled,
        Fault::Leaked => Found::Leaked,
    };
    chaos.found(found, &format!("at the end of a round: {text}"));
    false
}

/// What an empty directory with its lock takes.
const LOCK_FILE: u64 = 8192;

/// A small file system of this visit's own, which no process outside sees; unmounted when dropped.
struct Little(PathBuf);

impl Little {
    fn mount(path: &Path) -> Result<Little, String> {
        let why = |what: &str| {
            let e = std::io::Error::last_os_error();
            format!("who runs out of room for arenas: this system does not let one {what} ({e})")
        };
        std::fs::create_dir_all(path).map_err(|e| e.to_string())?;
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let options = std::ffi::CString::new(format!("size={},mode=0700", starved::ROOM)).map_err(|e| e.to_string())?;
        let none = std::ptr::null();
        // SAFETY: this process has one thread; all strings are C strings that outlive the calls.
        unsafe {
            if libc::unshare(libc::CLONE_NEWNS) != 0 {
                return Err(why("have mounts of its own"));
            }
            // Nothing is mounted for other processes from here on.
            if libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) != 0
                || libc::mount(c"tmpfs".as_ptr(), name.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) != 0
            {
                return Err(why("mount"));
            }
        }
        Ok(Little(path.to_owned()))
    }
}

impl Drop for Little {
    fn drop(&mut self) {
        if let Ok(name) = std::ffi::CString::new(self.0.as_os_str().as_encoded_bytes()) {
            // SAFETY: a C string. If it cannot be unmounted, it goes with this process.
            unsafe { libc::umount2(name.as_ptr(), libc::MNT_DETACH) };
        }
    }
}
