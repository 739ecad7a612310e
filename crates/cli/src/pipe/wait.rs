//! Staying with the stages until the last one has ended: statuses, signals, the terminal.
//!
//! As [`crate::supervise`] has it for a job of one process, and for as many here: signals are blocked and taken one by one; what a process
//! sends to chappe is passed on; what the terminal sends reaches stages in chappe's group by itself. When all that live are stopped
//! (Ctrl-Z), so is chappe, and they go on when chappe does. One stage that is stopped by itself stops no other: that is reported, and
//! waited for.

use crate::family;
use crate::signals::{self, Set};
use crate::supervise::{Ended, Watch};
use crate::terminal::{self, Terminal};
use std::time::{Duration, Instant};

/// The stages that were started.
pub struct Stages<'a> {
    pids: Vec<i32>,
    ended: Vec<Option<Ended>>,
    stopped: Vec<Option<i32>>,
    own_group: bool,
    terminal: &'a Terminal,
    /// When they were asked to end early; again when that did not do.
    asked: Option<Instant>,
}

/// How long stages that are to end early may take for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a pipeline ends by how its stages did, as `set -o pipefail` has it.
pub fn outcome(ended: &[Ended], negated: bool) -> Ended {
    let failed = ended.iter().rev().find(|e| **e != Ended::Exited(0));
    let outcome = failed.copied().unwrap_or(Ended::Exited(0));
    match (negated, outcome) {
        (false, outcome) => outcome,
        (true, Ended::Exited(0)) => Ended::Exited(1),
        (true, _) => Ended::Exited(0),
    }
}

/// The status that a shell shows for it.
pub fn status(ended: Ended) -> u8 {
    match ended {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => 128u8.wrapping_add(signal as u8),
    }
}

/// Those that have ended since, by their place.
pub type News = [(usize, Ended)];

impl<'a> Stages<'a> {
    /// Those that were started, the leader of their group first.
    pub fn new(pids: Vec<i32>, own_group: bool, terminal: &'a Terminal) -> Stages<'a> {
        let none = vec![None; pids.len()];
        Stages { ended: vec![None; pids.len()], stopped: none, pids, own_group, terminal, asked: None }
    }

    /// Their group, if they have one of their own.
    pub fn group(&self) -> Option<i32> {
        self.own_group.then_some(self.pids[0])
    }

    /// Stays until all have ended; calls `meanwhile` some times a second, with those that have ended since. When it says so, they are ended: by
    /// SIGTERM, and by SIGKILL five seconds later.
    pub fn stay(&mut self, watch: &Watch, meanwhile: &mut dyn FnMut(&News) -> bool) -> Vec<Ended> {
        loop {
            let news = self.reap();
            if meanwhile(&news) {
                self.end_early();
            }
            if self.ended.iter().all(Option::is_some) {
                break;
            }
            if let Some(signal) = self.all_stopped().filter(|_| self.own_group && self.terminal.is_there()) {
                self.stop(signal);
                continue;
            }
            let Some(came) = watch.signals().wait(Some(Duration::from_millis(100))) else { continue };
            if came.signal == libc::SIGCHLD || came.by_kernel && !self.own_group {
                continue;
            }
            self.signal(came.signal);
            if !came.by_kernel && matches!(came.signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP) {
                // A stopped process does not end.
                self.signal(libc::SIGCONT);
            }
        }
        if self.own_group {
            self.terminal.take_back(Some(self.pids[0]));
        }
        self.ended.iter().flatten().copied().collect()
    }

    fn end_early(&mut self) {
        match self.asked {
            None => {
                self.asked = Some(Instant::now());
                self.signal(libc::SIGTERM);
                // A stopped process does not end.
                self.signal(libc::SIGCONT);
            }
            Some(asked) if asked.elapsed() > PATIENCE => self.signal(libc::SIGKILL),
            Some(_) => {}
        }
    }

    /// Takes note of every child that has ended, stopped or gone on.
    fn reap(&mut self) -> Vec<(usize, Ended)> {
        let mut news = Vec::new();
        loop {
            let mut status = 0;
            // SAFETY: the status is a valid place.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) };
            if pid <= 0 {
                return news;
            }
            let Some(at) = self.pids.iter().position(|p| *p == pid) else { continue };
            self.stopped[at] = libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status));
            let ended = if libc::WIFEXITED(status) {
                Ended::Exited(libc::WEXITSTATUS(status) as u8)
            } else if libc::WIFSIGNALED(status) {
                Ended::Killed(libc::WTERMSIG(status))
            } else {
                continue;
            };
            self.ended[at] = Some(ended);
            news.push((at, ended));
        }
    }

    /// The signal that has stopped all that live.
    fn all_stopped(&self) -> Option<i32> {
        let living = self.ended.iter().zip(&self.stopped).filter(|(ended, _)| ended.is_none());
        let mut signals = living.map(|(_, stopped)| *stopped);
        let first = signals.next()??;
        signals.all(|s| s.is_some()).then_some(first)
    }

    /// Stops chappe, too, and lets all go on when chappe is continued.
    fn stop(&mut self, signal: i32) {
        let group = self.pids[0];
        let for_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        self.stopped.fill(None);
        // A shell's `fg` sends no notice: the terminal is chappe's by now, and the stages may have it.
        if for_terminal && self.terminal.give(group) {
            self.signal(libc::SIGCONT);
            return;
        }
        self.terminal.take_back(Some(group));
        signals::stop_by(signal);
        // It is blocked: if it is not pending, chappe was not continued, since it was not stopped.
        let continued = Set::of(&[libc::SIGCONT]).wait(Some(Duration::ZERO)).is_some();
        if for_terminal && !continued {
            terminal::hang_up(group);
            return;
        }
        self.terminal.give(group);
        self.signal(libc::SIGCONT);
    }

    /// Sends a signal to all of it.
    fn signal(&self, signal: i32) {
        if self.own_group {
            // The group exists as long as a process in it does, whichever led it.
            signals::send(-self.pids[0], signal);
            return;
        }
        let group = terminal::own_group();
        let all = family::descendants(std::process::id() as i32);
        for p in all.iter().filter(|p| p.group == group) {
            signals::send(p.pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_that_failed_says_how_it_ended() {
        use Ended::{Exited, Killed};
        for (stages, expected) in [
            (&[Exited(0), Exited(0)][..], Exited(0)),
            (&[Exited(3), Exited(0)], Exited(3)),
            (&[Exited(3), Exited(4), Exited(0)], Exited(4)),
            (&[Killed(libc::SIGPIPE), Exited(0)], Killed(libc::SIGPIPE)),
        ] {
            assert_eq!(outcome(stages, false), expected);
            let turned = u8::from(expected == Exited(0));
            assert_eq!(outcome(stages, true), Exited(turned));
        }
        assert_eq!((status(Killed(libc::SIGPIPE)), status(Exited(7))), (141, 7));
    }
}
