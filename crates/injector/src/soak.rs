//! The soak: random SIGKILLs of supervisors, jobs and holders while loops of them share three pools.
//!
//! Twelve loops: in eight, `chappe acquire a b c` runs one job after the other; in four, a holder uses the library. A
//! fourth of the jobs leave their second half to a child, so that the job outlives its first process. Each loop starts
//! its next process when the last has ended, in whatever way.
//!
//! The director picks a kind, then one of that kind among its own descendants (orphaned jobs come to it), makes sure by pidfd that it still
//! is the same process, and kills it. At the end it starts no more, waits until all have ended, and has a survivor count: every permit can
//! be had, exactly once. Findings:
//!
//! | | |
//! |---|---|
//! | collision | a job or holder found another that lives under its permit |
//! | hung | a process did not end within the watchdog, or a loop made no turn |
//! | failed | a supervisor or holder ended with an error of its own |
//! | faults of the count | a permit lost, doubled, a slot leaked |
//! | backstops | in holders, and in the survivor that counts |

pub mod chaos;
pub mod churn;
pub mod dice;
pub mod spaces;
pub mod structures;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use chappe::{Arena, ArenaOptions, Pool};

use self::dice::Dice;
use crate::board::{Fault, KEEPER, Stage, Verdict};
use crate::cast::{BACKSTOPS, COLLISION, DONE, LOCKS, POOLS};
use crate::child::Child;
use crate::patience::within;
use crate::scenario::{DATA, Scene, World};

const SUPERVISED: usize = 8;
const LOOPS: usize = 12;
/// The arguments by which this program becomes a job or a holder.
pub const JOB: &str = "job";
/// See [`JOB`].
pub const HOLD: &str = "hold";
const ARENAS: &str = "arenas";

/// What to do.
#[derive(Clone, Debug)]
pub struct Soak {
    /// How many kills.
    pub kills: u64,
    /// The `chappe` command.
    pub chappe: PathBuf,
    /// An empty directory of its own.
    pub home: PathBuf,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Supervisors killed.
    pub supervisors: u64,
    /// Jobs killed.
    pub jobs: u64,
    /// Holders killed.
    pub holders: u64,
    /// Turns that came to their end.
    pub turns: u64,
    /// Turns that found another holder under their permit.
    pub collisions: u64,
    /// Processes that did not end in time.
    pub hung: u64,
    /// Processes that ended with an error of their own.
    pub failed: u64,
    /// Permits that came back, if all is well all of them.
    pub count: Option<(Fault, String)>,
    /// Times the backstop fired.
    pub backstops: u64,
    /// How long it took.
    pub took: Duration,
    /// The first findings, in words.
    pub findings: Vec<String>,
}

impl Outcome {
    /// Whether something happened and nothing was found.
    pub fn clean(&self) -> bool {
        let found = self.collisions + self.hung + self.failed + self.backstops;
        found == 0 && self.count.is_none() && self.turns > 0 && self.kills() > 0
    }

    /// All kills.
    pub fn kills(&self) -> u64 {
        self.supervisors + self.jobs + self.holders
    }

    /// One line, and the findings below it.
    pub fn summary(&self, seed: u64) -> String {
        let permits: u32 = POOLS.iter().map(|(_, n)| n).sum();
        let count = match &self.count {
            None => format!("all {permits} permits back"),
            Some((fault, what)) => format!("{fault:?}: {what}"),
        };
        let mut text = format!(
            "soak: {} kills ({} supervisors, {} jobs, {} holders), {} turns done, {} collisions, {} hung, {} failed, \
             {count}, {} backstops, {:.1} s, seed {seed}",
            self.kills(),
            self.supervisors,
            self.jobs,
            self.holders,
            self.turns,
            self.collisions,
            self.hung,
            self.failed,
            self.backstops,
            self.took.as_secs_f64()
        );
        for finding in &self.findings {
            text.push_str("\n    ");
            text.push_str(finding);
        }
        text
    }

    fn note(&mut self, finding: String) {
        if self.findings.len() < 12 {
            self.findings.push(finding);
        }
    }
}

/// A process that a loop has started.
struct Running {
    slot: usize,
    since: Instant,
    stderr: PathBuf,
}

struct Director<'a> {
    soak: &'a Soak,
    dice: Dice,
    running: HashMap<i32, Running>,
    outcome: Outcome,
}

/// Soaks. The environment's `CHAPPE_DIR` is set to a directory in [`Soak::home`] for all that are started.
///
/// # Errors
/// The system's, when the stage cannot be set.
pub fn soak(soak: &Soak) -> std::io::Result<Outcome> {
    let start = Instant::now();
    let arenas = soak.home.join(ARENAS);
    std::fs::create_dir_all(&arenas)?;
    std::fs::create_dir_all(soak.home.join(LOCKS))?;
    // SAFETY: the director has one thread.
    unsafe { std::env::set_var("CHAPPE_DIR", &arenas) };
    let stage = Stage::new(soak.limit);
    ask(&stage, "setting the stage", || {
        let options = ArenaOptions { members: Some(128), objects: Some(6), cells: Some(12), data: Some(DATA) };
        let arena = Arena::create("default", &options).map_err(|e| (Fault::Torn, e.to_string()))?;
        for (name, permits) in POOLS {
            Pool::create_in(arena, name, permits).map_err(|e| (Fault::Torn, e.to_string()))?;
        }
        Ok(())
    })
    .map_err(|(_, text)| std::io::Error::other(text))?;

    let mut director =
        Director { soak, dice: Dice::new(soak.seed), running: HashMap::new(), outcome: Outcome::default() };
    director.storm()?;
    director.calm();
    let mut outcome = director.outcome;
    outcome.count = ask(&stage, "the count", || {
        let w = World::new(&stage, Scene::Alone);
        for (name, permits) in POOLS {
            w.audit(name, permits)?;
        }
        w.full_house("default", &POOLS.map(|(name, _)| name))?;
        stage.board().backstops.fetch_add(chappe::recoveries().backstops, SeqCst);
        Ok(())
    })
    .err();
    outcome.turns = size(&soak.home.join(DONE));
    outcome.backstops = stage.board().backstops.load(SeqCst) + size(&soak.home.join(BACKSTOPS));
    outcome.took = start.elapsed();
    Ok(outcome)
}

/// Has a child do something with chappe: the director itself never does.
fn ask(stage: &Stage, what: &str, part: impl FnOnce() -> Verdict) -> Verdict {
    stage.clear();
    let mut child = Child::fork(|| stage.judge(KEEPER, &part()));
    if !within(stage.limit * 4, || child.ended().is_some()) {
        return Err((Fault::Wedged, format!("{what} hangs")));
    }
    match child.ended() {
        Some(0) => stage.verdict(),
        status => Err((Fault::Torn, format!("{what} ended with status {status:x?}"))),
    }
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |m| m.len())
}

impl Director<'_> {
    /// All loops turn, and a process is killed every few milliseconds.
    fn storm(&mut self) -> std::io::Result<()> {
        for slot in 0..LOOPS {
            self.start(slot)?;
        }
        let mut last = Instant::now();
        while self.outcome.kills() < self.soak.kills {
            let end = Instant::now() + Duration::from_micros(2_000 + self.dice.roll(18_000));
            while Instant::now() < end {
                for slot in self.reap() {
                    self.start(slot)?;
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            if self.strike() {
                last = Instant::now();
            }
            let late: Vec<i32> =
                self.running.iter().filter(|(_, r)| r.since.elapsed() > self.soak.limit).map(|(pid, _)| *pid).collect();
            if !late.is_empty() || last.elapsed() > self.soak.limit {
                self.hung(&late);
                break;
            }
        }
        Ok(())
    }

    /// None is started any more; all end by themselves.
    fn calm(&mut self) {
        let limit = self.soak.limit;
        let ended = within(limit, || {
            self.reap();
            self.running.is_empty() && descendants().is_empty()
        });
        if ended {
            return;
        }
        let left: Vec<i32> = descendants().into_iter().map(|d| d.pid).collect();
        self.hung(&left);
        within(limit, || {
            for d in descendants() {
                d.kill();
            }
            self.reap();
            self.running.is_empty() && descendants().is_empty()
        });
    }

    fn hung(&mut self, pids: &[i32]) {
        self.outcome.hung += pids.len().max(1) as u64;
        for pid in pids {
            let stack = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
            self.outcome.note(format!("hangs: {pid} {} in {stack}", words(*pid).join(" ")));
        }
    }

    /// Starts a loop's next process.
    fn start(&mut self, slot: usize) -> std::io::Result<()> {
        let me = std::env::current_exe()?;
        let work = (2 + self.dice.roll(20)).to_string();
        let stderr = self.soak.home.join(format!("stderr-{slot}"));
        let mut command = if slot < SUPERVISED {
            let mut command = Command::new(&self.soak.chappe);
            command.arg("acquire").args(POOLS.map(|(name, _)| name)).arg("--").arg(me).arg(JOB);
            command.arg(&self.soak.home).arg(work).arg(if self.dice.roll(4) == 0 { "fork" } else { "stay" });
            command
        } else {
            let mut command = Command::new(me);
            command.arg(HOLD).arg(&self.soak.home).arg(work);
            command
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr)?);
        let child = command.spawn()?;
        // It is reaped with all others, by its number.
        self.running.insert(child.id() as i32, Running { slot, since: Instant::now(), stderr });
        Ok(())
    }

    /// Takes note of all processes that have ended. Answers the loops that need a next process.
    fn reap(&mut self) -> Vec<usize> {
        let mut slots = Vec::new();
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the duration of the call.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if pid <= 0 {
                return slots;
            }
            // Orphaned jobs have no entry.
            let entry = self.running.remove(&pid);
            slots.extend(entry.as_ref().map(|r| r.slot));
            if !libc::WIFEXITED(status) {
                continue;
            }
            match libc::WEXITSTATUS(status) {
                0 => {}
                COLLISION => {
                    self.outcome.collisions += 1;
                    self.outcome.note(format!("collision seen by {pid}"));
                }
                other => {
                    self.outcome.failed += 1;
                    let said = entry.map_or_else(
                        || "an orphan: a job, what one left, or what `chappe` started beside it".into(),
                        |r| std::fs::read_to_string(r.stderr).unwrap_or_default(),
                    );
                    self.outcome.note(format!("{pid} ended with status {other}: {}", said.trim()));
                }
            }
        }
    }

    /// Kills a process. False if there was none of the kind.
    fn strike(&mut self) -> bool {
        let kind = match self.dice.roll(10) {
            0..4 => Kind::Supervisor,
            4..7 => Kind::Job,
            _ => Kind::Holder,
        };
        let all: Vec<Descendant> = descendants().into_iter().filter(|d| d.kind == Some(kind)).collect();
        if all.is_empty() || !all[self.dice.roll(all.len() as u64) as usize].kill() {
            return false;
        }
        match kind {
            Kind::Supervisor => self.outcome.supervisors += 1,
            Kind::Job => self.outcome.jobs += 1,
            Kind::Holder => self.outcome.holders += 1,
        }
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Supervisor,
    Job,
    Holder,
}

/// A process that this one, or one that this one started, has started.
struct Descendant {
    pid: i32,
    kind: Option<Kind>,
}

impl Descendant {
    fn kill(&self) -> bool {
        // SAFETY: plain system calls; the descriptor is closed below.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) } as i32;
        if fd < 0 {
            return false;
        }
        // Behind the descriptor is the process that has the number now: is it still the one that was seen?
        let same = descendants().iter().any(|d| d.pid == self.pid && d.kind == self.kind);
        // SAFETY: as above; no siginfo is given.
        let done = same
            && unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, std::ptr::null::<u8>(), 0) } == 0;
        // SAFETY: ours, and used by nobody else.
        unsafe { libc::close(fd) };
        done
    }
}

/// The words of a process's command line.
fn words(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect()
}

/// All living processes below this one.
fn descendants() -> Vec<Descendant> {
    let mut parents = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some((_, rest)) = text.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let (state, parent) = (fields.next(), fields.next().and_then(|p| p.parse::<i32>().ok()));
        if state != Some("Z")
            && let Some(parent) = parent
        {
            parents.insert(pid, parent);
        }
    }
    let me = std::process::id() as i32;
    let below = |mut pid: i32| {
        // No line of descent is longer than there are processes.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == me => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let kind = |pid: i32| match words(pid).get(1).map(String::as_str) {
        Some("acquire") => Some(Kind::Supervisor),
        Some(JOB) => Some(Kind::Job),
        Some(HOLD) => Some(Kind::Holder),
        // Between fork and exec.
        _ => None,
    };
    parents.keys().filter(|pid| below(**pid)).map(|pid| Descendant { pid: *pid, kind: kind(*pid) }).collect()
}
