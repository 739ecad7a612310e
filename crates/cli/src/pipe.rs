//! `chappe pipe`: runs a shell's pipeline, and gives each stage just the processor that keeps data flowing (synthesis, 6.3.1).
//!
//! | | |
//! |---|---|
//! | [`split`] | where stages end in the shell's language |
//! | [`start`] | pipes, processes, their group |
//! | [`wait`] | statuses, signals, the terminal |
//! | [`attach`] | the pipeline that a process is in |
//! | [`look`] | what a stage uses and waits for |
//! | [`control`] | the loop: look, [`chappe::feedback::Share`], give |
//! | [`means`], [`group`], [`kernel`] | reservations, weights, niceness; what is refused |
//! | [`contest`] | the pipelines of this machine that are ended early for more important ones |
//! | [`tell`], [`view`], [`history`], [`report`] | text, JSON, the terminal, the page |
//!
//! When this process is killed, no data is lost: all of it is in the kernel's pipes, of which chappe holds no end. Stages keep what they
//! had. What they start then has nothing (RESET_ON_FORK), and a control group stays until the next `chappe pipe` that uses weights.

mod attach;
mod contest;
mod control;
mod group;
mod history;
mod kernel;
mod look;
mod means;
mod report;
mod split;
mod start;
mod tell;
mod view;
mod wait;

use crate::args::Pipe;
use crate::ended::{FAILED, as_it_did};
use crate::job::wants_own_group;
use crate::said::{Failure, failed};
use crate::signals;
use crate::supervise::{Ended, Watch};
use crate::terminal::Terminal;
use crate::within::no_thread;
use anyhow::{Context, Result, anyhow};
use chappe::feedback::Law;
use contest::Contest;
use control::{Controller, Event};
use kernel::Real;
use means::First;
pub use means::Kind;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tell::{Job, Manner, Teller};
use view::View;

/// The status of a pipeline that was ended early, as timeout(1) has it.
const EARLY: u8 = 124;

/// The controller's thread, and what it tells.
struct Steering {
    go: Sender<Controller>,
    tell: Sender<Event>,
    stop: Sender<()>,
    events: Receiver<Event>,
    thread: JoinHandle<()>,
}

impl Steering {
    /// The thread waits for its controller: where there is no thread, no stage is to be started with a reservation that nobody changes.
    fn begin() -> Result<Steering> {
        let ((go, gone), (stop, stopped), (tell, events)) = (channel::<Controller>(), channel(), channel());
        let thread = std::thread::Builder::new().name("chappe-pipe".into());
        let steer = move || gone.recv().map_or((), |controller| controller.run(&stopped));
        let thread = thread.spawn(steer).map_err(|e| no_thread(&e))?;
        Ok(Steering { go, tell, stop, events, thread })
    }

    /// Steers these, of which the first processes may have taken something by themselves. Called before any of them is waited for, as their numbers are theirs
    /// until then.
    fn steer(&self, a: &Pipe, roots: &[Vec<i32>], firsts: &[Option<First>]) {
        let mut controller = Controller::new(roots, law(a), a.rate.is_some(), a.means, self.tell.clone());
        controller.adopt(firsts, &mut Real);
        // The thread waits for it.
        let _ = self.go.send(controller);
    }

    fn tell(&self, teller: &mut Teller) {
        self.events.try_iter().for_each(|event| teller.take(event));
    }

    /// Has everything given back.
    fn end(self, teller: &mut Teller) {
        drop(self.stop);
        // It cannot panic in a way that matters here.
        let _ = self.thread.join();
        self.events.try_iter().for_each(|event| teller.take(event));
    }
}

/// The stages' law.
fn law(a: &Pipe) -> Law {
    Law { target: a.fill, ..Law::default() }
}

/// What each stage's first process reserves for itself: the first stage is a source if no pipe is before it.
fn firsts(a: &Pipe, stages: usize) -> Vec<Option<First>> {
    let source = look::pipe_of(std::process::id() as i32, 0).is_none();
    (0..stages).map(|at| control::first(a.means, law(a), at == 0 && source, &mut Real)).collect()
}

/// What is known of the job; of stdin, if it is a file, its size.
fn job(a: &Pipe) -> Job {
    // SAFETY: an all-zero stat is a valid value, and a valid place for the call to fill in.
    let stdin = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(0, &raw mut stat) == 0).then_some(stat)
    };
    let kind = stdin.map(|s| s.st_mode & libc::S_IFMT);
    // SAFETY: a plain call on a descriptor.
    let at = unsafe { libc::lseek(0, 0, libc::SEEK_CUR) };
    let left =
        stdin.filter(|_| a.attach.is_none() && kind == Some(libc::S_IFREG)).map(|s| (s.st_size - at).max(0) as f64);
    Job {
        rate: a.rate.map(|r| r as f64),
        deadline: a.deadline.map(|d| d.as_secs_f64()),
        size: a.size.map(|s| s as f64).or(left),
        reads: matches!(kind, Some(libc::S_IFREG | libc::S_IFIFO)),
    }
}

/// Runs it.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Pipe, json: bool, file_size: bool) -> Result<u8, Failure> {
    let wrong = |why| Failure { status: FAILED, why };
    // Where it cannot be written, that is to be known before anything runs.
    let report = a.report.as_ref().map(|path| {
        File::create(path).map_err(|e| wrong(anyhow!("cannot write the report to {}: {e}", path.display())))
    });
    let report = report.transpose()?;
    let manner = Manner { json, quiet: a.quiet, interval: a.interval };
    let (teller, outcome) = match a.attach {
        Some(pid) => attached(a, pid as i32, manner)?,
        None => started(a, manner, file_size)?,
    };
    let (mut teller, (outcome, signal)) = (teller, outcome);
    let summary = teller.done(outcome);
    if let Some(mut file) = report {
        let page = report::page(&summary, &teller.history);
        file.write_all(page.as_bytes()).context("cannot write the report").map_err(wrong)?;
    }
    if let Some(signal) = signal {
        signals::die_by(signal);
    }
    if teller.ended_early().is_some() {
        emergency(a.emergency.as_deref());
        return Ok(EARLY);
    }
    Ok(match outcome {
        // As a shell does: the process that started chappe stops where its user wanted all to stop.
        Some(ended @ Ended::Killed(libc::SIGINT | libc::SIGQUIT | libc::SIGTERM | libc::SIGHUP)) => {
            as_it_did(ended, None)
        }
        Some(ended) => wait::status(ended),
        None => 0,
    })
}

/// Runs what is to be done for a pipeline that was ended early. It writes to stderr: stdout was the stages', and is let go of.
fn emergency(command: Option<&str>) {
    let Some(command) = command else { return };
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]).stdin(std::process::Stdio::null());
    // Where there is no descriptor left it writes nowhere.
    shell.stdout(
        std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| std::process::Stdio::null(), Into::into),
    );
    // How it ends is its own affair: the pipeline's status says that it ended early.
    if let Err(e) = shell.status() {
        crate::said::complain(false, &format!("the emergency command does not begin: {e}"));
    }
}

type Outcome = (Option<Ended>, Option<i32>);

fn started(a: &Pipe, manner: Manner, file_size: bool) -> Result<(Teller, Outcome), Failure> {
    let pipeline = start::parse(a.pipeline.as_deref().unwrap_or_default())?;
    let view = if manner.json { None } else { View::new(pipeline.stages.len(), a.view, a.quiet) };
    let of = job(a);
    // Before anything runs: what cannot be done is to be known then.
    let contest = match a.importance {
        None => None,
        Some(importance) => {
            let bytes = of.size.ok_or_else(|| Failure {
                status: FAILED,
                why: anyhow!("how much there is to do is not known: say it with --size, or let stdin be a file"),
            })?;
            Some(Contest::join(importance, bytes, of.deadline.unwrap_or(f64::INFINITY)).map_err(failed)?)
        }
    };
    let mut teller = Teller::new(pipeline.stages.clone(), of, manner, view);
    teller.compete(contest);
    let terminal = Terminal::find();
    let own_group = wants_own_group(&terminal, a.foreground);
    let watch = Watch::begin(own_group);
    // Without it the pipeline runs as it would anyway.
    let steering = Steering::begin();
    let firsts = if steering.is_ok() { firsts(a, pipeline.stages.len()) } else { Vec::new() };
    let pids = start::start(&pipeline.stages, own_group, watch.before, file_size, &terminal, &firsts)?;
    teller.started(&pids, false);
    let roots: Vec<Vec<i32>> = pids.iter().map(|pid| vec![*pid]).collect();
    let mut stages = wait::Stages::new(pids, own_group, &terminal);
    if let Some(group) = stages.group() {
        teller.of_group(group);
    }
    match &steering {
        Ok(steering) => steering.steer(a, &roots, &firsts),
        Err(e) => crate::said::complain(
            manner.json,
            &format!("{}: the pipeline runs, and nothing steers it", crate::look::chain(e)),
        ),
    }
    let ended = stages.stay(&watch, &mut |news| {
        if let Ok(steering) = &steering {
            steering.tell(&mut teller);
        }
        news.iter().for_each(|(at, ended)| teller.ended(at + 1, *ended));
        teller.ended_early().is_some()
    });
    if let Ok(steering) = steering {
        steering.end(&mut teller);
    }
    Ok((teller, (Some(wait::outcome(&ended, pipeline.negated)), None)))
}

fn attached(a: &Pipe, pid: i32, manner: Manner) -> Result<(Teller, Outcome), Failure> {
    let found = attach::find(pid).map_err(failed)?;
    let commands: Vec<String> = found.iter().map(|s| s.command.clone()).collect();
    let roots: Vec<Vec<i32>> = found.into_iter().map(|s| s.roots).collect();
    let view = if manner.json { None } else { View::new(roots.len(), a.view, a.quiet) };
    let mut teller = Teller::new(commands, job(a), manner, view);
    let first: Vec<i32> = roots.iter().map(|r| r.first().copied().unwrap_or(0)).collect();
    teller.started(&first, true);
    let ends = signals::Set::of(&signals::heeded(&[libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT]));
    ends.block();
    let steering = Steering::begin().map_err(failed)?;
    steering.steer(a, &roots, &[]);
    let signal = loop {
        if let Some(came) = ends.wait(Some(Duration::from_millis(100))) {
            break Some(came.signal);
        }
        steering.tell(&mut teller);
        if steering.thread.is_finished() {
            break None;
        }
    };
    steering.end(&mut teller);
    Ok((teller, (None, signal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdin_that_is_no_file_has_no_size() {
        // Whatever the tests' stdin is: with a size that is given, that is the size.
        use clap::Parser;
        let cli = crate::args::Cli::parse_from(["chappe", "pipe", "--size", "1K", "--rate", "2K", "a | b"]);
        let crate::args::Command::Pipe(a) = cli.command else { panic!("not pipe") };
        let job = job(&a);
        assert_eq!((job.size, job.rate, job.deadline), (Some(1024.0), Some(2048.0), None));
        assert_eq!((a.fill, a.means), (0.25, Kind::Deadline));
    }
}
