//! Staying with a job until its first process ends: signals, the terminal, stops.
//!
//! All signals that matter are blocked and taken one by one, so that nothing runs in a handler and nothing is lost.
//! They are blocked before the job is started: one that comes earlier ends chappe, and the permit returns.
//!
//! - A signal that a process sent to chappe is meant for the job, and passed on. After TERM, INT or HUP the grace begins.
//! - A signal that the terminal sent reached a job in chappe's group by itself. A job that has a group of its own and not the terminal gets
//!   it from chappe. What the terminal's user does is between them and the job: no grace begins.
//! - A job with a group of its own that was stopped (Ctrl-Z, or for using the terminal from the background) stops chappe too, so that the
//!   shell gets its prompt; when chappe is continued the job is, and has the terminal again if chappe does. If there is no shell that could
//!   continue chappe, the system does not let it stop, and the job goes on.
//! - While chappe lives, descendants whose parents die become its children (subreaper), so that none is lost from sight.

use crate::job::Job;
use crate::said::tell;
use crate::signals::{self, Set};
use crate::terminal::{self, Terminal};
use crate::time;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// The status or the signal.
    pub fn parts(self) -> (Option<u8>, Option<i32>) {
        match self {
            Ended::Exited(status) => (Some(status), None),
            Ended::Killed(signal) => (None, Some(signal)),
        }
    }
}

/// What is to be looked after beside the job's end and signals.
pub trait Beside {
    /// Does what is due, and answers after how long it must be called again. It is called at the beginning, and after each signal; SIGCHLD to this
    /// process has it called at once.
    fn look(&mut self, job: &Job) -> Option<Duration>;

    /// A child of chappe's that is not the job's.
    fn own(&self) -> Option<i32>;
}

/// The signals of one supervision, blocked.
pub struct Watch {
    set: Set,
    /// What was blocked before, which is what the job is to start with.
    pub before: Set,
    /// The first signal that came and asks a job to end.
    pub asked: Cell<Option<i32>>,
}

impl Watch {
    /// Blocks what is to be taken one by one. For the life of a job with or without a group of its own.
    pub fn begin(own_group: bool) -> Watch {
        use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
        let mut wanted = signals::heeded(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
        if own_group {
            wanted.extend(signals::heeded(&[SIGTSTP]));
            wanted.push(SIGCONT);
        }
        wanted.push(SIGCHLD);
        // If chappe inherited it ignored, the job's status would be lost.
        signals::default(SIGCHLD);
        let before = Set::blocked_now();
        let set = Set::of(&wanted);
        set.block();
        // SAFETY: a plain system call that takes two numbers.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } == 0 {
            chappe::keeps_descendants();
        }
        Watch { set, before, asked: Cell::new(None) }
    }

    /// What is blocked, to be taken one by one.
    pub fn signals(&self) -> &Set {
        &self.set
    }

    /// Stays until the job's first process has ended, and takes the terminal back.
    pub fn stay(
        &self,
        job: &Job,
        terminal: &Terminal,
        grace: Option<Duration>,
        mut beside: Option<&mut dyn Beside>,
    ) -> Ended {
        let (mut end_at, mut is_told) = (None::<Instant>, false);
        let ended = loop {
            match reap(job.pid) {
                Some(News::Ended(how)) => break how,
                Some(News::Stopped(signal)) if job.own_group && terminal.is_there() => {
                    stopped(signal, job, terminal);
                    continue;
                }
                _ => {}
            }
            let left = end_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                if let Some(grace) = grace.map(time::show).filter(|_| !is_told) {
                    is_told = true;
                    tell(format_args!(
                        "chappe: the job has not ended within {grace} (--grace) of the signal: it is killed"
                    ));
                }
                job.signal(libc::SIGKILL);
                // What was forked during the look for the job's processes is found the next time.
                end_at = Some(Instant::now() + Duration::from_secs(1));
                continue;
            }
            let due = beside.as_mut().and_then(|beside| beside.look(job));
            let Some(came) = self.set.wait(left.into_iter().chain(due).min()) else { continue };
            if matches!(came.signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT) {
                self.asked.set(self.asked.get().or(Some(came.signal)));
            }
            if came.signal == libc::SIGCHLD || came.by_kernel && !job.own_group {
                continue;
            }
            job.signal(came.signal);
            if !came.by_kernel && matches!(came.signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP) {
                // A stopped process does not end.
                job.signal(libc::SIGCONT);
                end_at = end_at.or_else(|| Instant::now().checked_add(grace?));
            }
        };
        if job.own_group {
            terminal.take_back(Some(job.pid));
        }
        ended
    }
}

enum News {
    Ended(Ended),
    Stopped(i32),
}

/// Takes note of every child that has ended: what a job has left running is this process's.
pub fn bury() {
    // There is no such job.
    reap(0);
}

/// Takes note of every child that ended or stopped; answers what became of the job's first process.
fn reap(job: i32) -> Option<News> {
    let mut news = None;
    loop {
        let mut status = 0;
        // SAFETY: the status is a valid place.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::WUNTRACED) };
        if pid <= 0 {
            return news;
        }
        if pid != job {
            continue;
        }
        if libc::WIFEXITED(status) {
            news = Some(News::Ended(Ended::Exited(libc::WEXITSTATUS(status) as u8)));
        } else if libc::WIFSIGNALED(status) {
            news = Some(News::Ended(Ended::Killed(libc::WTERMSIG(status))));
        } else if libc::WIFSTOPPED(status) {
            news = Some(News::Stopped(libc::WSTOPSIG(status)));
        }
    }
}

/// The job was stopped: stop, too, and when continued continue it.
fn stopped(signal: i32, job: &Job, terminal: &Terminal) {
    let for_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
    // A shell's `fg` sends no notice: the terminal is chappe's by now, and the job may have it.
    if for_terminal && terminal.give(job.pid) {
        job.signal(libc::SIGCONT);
        return;
    }
    terminal.take_back(Some(job.pid));
    signals::stop_by(signal);
    // It is blocked: if it is not pending, chappe was not continued, since it was not stopped.
    let continued = Set::of(&[libc::SIGCONT]).wait(Some(Duration::ZERO)).is_some();
    if for_terminal && !continued {
        terminal::hang_up(job.pid);
        return;
    }
    terminal.give(job.pid);
    job.signal(libc::SIGCONT);
}
