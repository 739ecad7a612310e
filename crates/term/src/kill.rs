//! Signals for a terminal's command, and for what the command has left.
//!
//! The keeper is the subreaper of all that runs in the terminal: what the command has left has the keeper for an ancestor, also in a session of
//! its own. Other terminals that were made in it, and what runs in them, are no part of it: a process with the short name [`OWN`] is taken for the
//! keeper of another one. What has been left is signalled by a descriptor: none that has got a process's number since.
//!
//! The terminal's user can write the words that name its processes. So root signals with that user's rights: none but that user's own.
//!
//! Where the keeper and the holder were killed and the command ignores the hang-up (nohup), what is left are the processes of the command's session.

use crate::layout;
use crate::place::{Place, Role};
use chappe_plat::atomic::Ordering;
use chappe_plat::process;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;

/// The short name of keepers and holders. What they start has its own.
pub const OWN: &CStr = c"chappe-term";

/// What a job's `chappe` passes on to its command: SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM.
const PASSED_ON: [i32; 6] = [1, 2, 3, 10, 12, 15];

/// How often it is looked for processes that were started meanwhile.
const LOOKS: usize = 16;

/// Why a signal was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KillError {
    /// There is nothing to send it to.
    #[error("the command of terminal `{0}` has ended, and no process is known that it has left")]
    Ended(String),
    /// It ended meanwhile, or cannot be seen.
    #[error("the command of terminal `{0}` has just ended, or is in another PID namespace")]
    Gone(String),
    /// The system's.
    #[error("cannot send signal {signal} to the command of terminal `{name}`: {why}")]
    Io {
        /// The terminal.
        name: String,
        /// The signal.
        signal: i32,
        /// The system's reason.
        #[source]
        why: io::Error,
    },
}

impl Place {
    /// Sends a signal to the command and to what it has in the foreground; when it has ended, to all that it has left. How many process groups or
    /// processes got it. It is the command of this very terminal, whatever has its name by now.
    ///
    /// # Errors
    /// See [`KillError`].
    pub fn kill(&self, signal: i32) -> Result<usize, KillError> {
        let name = || self.name().to_owned();
        let io = |why| KillError::Io { name: name(), signal, why };
        let Some(pid) = self.running(Role::Program).filter(|pid| *pid > 1) else {
            return match self.kill_left(signal).map_err(io)? {
                0 => Err(KillError::Ended(name())),
                count => Ok(count),
            };
        };
        let (own, foreground) = process::groups(pid).unwrap_or((pid as i32, 0));
        // Of a job, chappe passes it on: twice would be once too often.
        let is_passed_on = self.is_job() && self.process(Role::Job) != Some(pid) && PASSED_ON.contains(&signal);
        // The command last: when the first process of a session ends, the kernel sends the foreground SIGHUP,
        // which is another end than the one that is asked for.
        let foreground = Some(foreground).filter(|group| !is_passed_on && *group != own);
        let (mut reached, mut refused) = (0, None);
        for group in foreground.into_iter().chain([own]).filter(|group| *group > 1) {
            match self.with_its_rights(|| process::signal(-group, signal)) {
                Ok(is_there) => reached += usize::from(is_there),
                // Another user's, as under sudo: the other group gets it all the same.
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            _ if reached > 0 => Ok(reached),
            Some(why) => Err(io(why)),
            None => Err(KillError::Gone(name())),
        }
    }

    /// What a command that has ended has left, and what has outlived a hang-up: the keeper's processes that are not its own, or those of the command's session.
    /// Of a command that runs, it and all that it has started.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn left(&self) -> io::Result<Vec<u32>> {
        // One that has ended, and was not waited for, has no descendants any more.
        self.running(Role::Keeper).map_or_else(|| self.session(), descendants)
    }

    /// Of a terminal that was hung up, what its command and all that has not left its session are; none after another end.
    pub(crate) fn session(&self) -> io::Result<Vec<u32>> {
        // Relaxed: written before any end.
        let load = |at: usize| self.word(at).load(Ordering::Relaxed);
        let (leader, now) = (load(layout::PROGRAM) as u32, process::start_time(load(layout::PROGRAM) as u32));
        // The number is not given to another process as long as the session has one.
        let is_gone = now.is_some_and(|started| started != load(layout::PROGRAM + 1));
        if leader == 0 || is_gone || self.end().is_said() {
            return Ok(Vec::new());
        }
        // Without its leader the session may be another's, of the same number.
        let named = format!("CHAPPE_TERM={}", self.name());
        let is_ours = |pid: &u32| now.is_some() || process::environment_has(*pid, named.as_bytes());
        let is_in = |pid: &u32| process::session(*pid) == Some(leader) && process::state(*pid) != Some('Z');
        Ok(process::all()?.into_iter().filter(is_in).filter(is_ours).collect())
    }

    fn with_its_rights(&self, signal: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        process::as_user(self.user(), signal)?
    }

    /// Sends a signal to all that is left; how many these are.
    fn kill_left(&self, signal: i32) -> io::Result<usize> {
        let (mut done, mut refused) = (HashSet::new(), None);
        for _ in 0..LOOKS {
            let had = done.len();
            for pid in self.left()? {
                let Some(started) = process::start_time(pid).filter(|started| !done.contains(&(pid, *started))) else {
                    continue;
                };
                let Ok(to) = process::watch_exit(pid) else { continue };
                // It is the one that was looked at, and the descriptor is its.
                let is_it = process::start_time(pid) == Some(started) && self.left()?.contains(&pid);
                if is_it {
                    match self.with_its_rights(|| process::signal_by(&to, signal)) {
                        Ok(true) => _ = done.insert((pid, started)),
                        Ok(false) => {}
                        // Another user's: the others get it all the same.
                        Err(why) => refused = Some(why),
                    }
                }
            }
            if done.len() == had {
                break;
            }
        }
        refused.filter(|_| done.is_empty()).map_or(Ok(done.len()), Err)
    }
}

/// All that descends from a keeper and has not ended, but for holders, and for other keepers with what descends from them.
fn descendants(of: u32) -> io::Result<Vec<u32>> {
    let parents: HashMap<u32, u32> =
        process::all()?.into_iter().filter_map(|pid| Some((pid, process::parent(pid)?))).collect();
    let is_own = |pid: u32| process::name(pid).is_some_and(|name| name.as_bytes() == OWN.to_bytes());
    let is_below = |pid: &u32| {
        // As many steps as there are processes: what changes meanwhile may look like a circle.
        let steps = std::iter::successors(Some(pid), |pid| parents.get(pid)).take(parents.len());
        let mut steps = steps.skip_while(|pid| **pid != of && !is_own(**pid));
        *pid != of && steps.next() == Some(&of)
    };
    Ok(parents.keys().copied().filter(is_below).filter(|pid| process::state(*pid) != Some('Z')).collect())
}
