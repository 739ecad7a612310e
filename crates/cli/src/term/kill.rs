//! `chappe term kill`: signals for a terminal's command, and for what the command has left.
//!
//! The keeper is the subreaper of all that runs in the terminal: what the command has left has the keeper for an ancestor, also in a session of
//! its own. Other terminals that were made in it, and what runs in them, are no part of it. A process is signalled by a descriptor of it: none that has got its number since.

use super::found::find;
use super::keeper;
use anyhow::{Result, bail};
use chappe::process;
use chappe::term::place::{Place, Role};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd;

/// What `chappe acquire` passes on to its command.
const PASSED_ON: [i32; 6] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// How often it is looked for processes that were started meanwhile.
const LOOKS: usize = 16;

/// Sends a signal to the command and to what it has in the foreground; when it has ended, to all that it has left.
///
/// # Errors
/// There is nothing to send it to, or it is not permitted.
pub fn kill(name: &str, signal: i32) -> Result<Value> {
    let place = find(name, true)?;
    let said = |count: usize| json!({ "name": name, "signal": signal, "processes": count });
    let Some(pid) = place.process(Role::Program).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1) else {
        let count = kill_left(&place, signal)?;
        if count == 0 {
            bail!("the command of terminal `{name}` has ended, and its keeper knows of no process that it has left");
        }
        return Ok(said(count));
    };
    let mut groups = vec![pid];
    // Of a job, chappe passes it on: twice would be once too often.
    let is_passed_on = !place.note().is_empty() && PASSED_ON.contains(&signal);
    let foreground = foreground(pid).filter(|_| !is_passed_on);
    groups.extend(foreground.filter(|group| *group != pid && *group > 1));
    let mut reached = 0;
    for group in &groups {
        // SAFETY: a plain system call.
        if unsafe { libc::kill(-group, signal) } == 0 {
            reached += 1;
        } else {
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::ESRCH) {
                bail!("cannot send signal {signal} to the command of terminal `{name}`: {e}");
            }
        }
    }
    if reached == 0 {
        bail!("the command of terminal `{name}` has just ended, or is in another PID namespace");
    }
    Ok(said(reached))
}

/// The process group that a process's terminal has in the foreground.
fn foreground(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(5)?.parse().ok()
}

/// Sends a signal to all that the keeper is an ancestor of; how many these are.
fn kill_left(place: &Place, signal: i32) -> Result<usize> {
    let mut done = HashSet::new();
    for _ in 0..LOOKS {
        let Some(keeper) = place.process(Role::Keeper) else { break };
        let had = done.len();
        for pid in descendants(keeper)? {
            let Some(started) = process::start_time(pid).filter(|started| !done.contains(&(pid, *started))) else {
                continue;
            };
            let Ok(to) = process::watch_exit(pid) else { continue };
            // It is the one that was looked at, and the descriptor is its.
            if process::start_time(pid) != Some(started) || !descendants(keeper)?.contains(&pid) {
                continue;
            }
            let none = std::ptr::null::<libc::siginfo_t>();
            // SAFETY: a plain system call; without information, null.
            if unsafe { libc::syscall(libc::SYS_pidfd_send_signal, to.as_raw_fd(), signal, none, 0) } != 0 {
                let e = io::Error::last_os_error();
                if e.raw_os_error() != Some(libc::ESRCH) {
                    bail!("cannot send signal {signal} to process {pid} of terminal `{}`: {e}", place.name());
                }
                continue;
            }
            done.insert((pid, started));
        }
        if done.len() == had {
            break;
        }
    }
    Ok(done.len())
}

/// All that descends from a keeper and has not ended, but for holders, and for other keepers with what descends from them.
fn descendants(of: u32) -> io::Result<Vec<u32>> {
    let all = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let parents: HashMap<u32, u32> = all.filter_map(|pid| Some((pid, process::parent(pid)?))).collect();
    let is_own = |pid: u32| process::name(pid).is_some_and(|name| name.as_bytes() == keeper::OWN.to_bytes());
    let is_below = |pid: &u32| {
        // As many steps as there are processes: what changes meanwhile may look like a circle.
        let steps = std::iter::successors(Some(pid), |pid| parents.get(pid)).take(parents.len());
        let mut steps = steps.skip_while(|pid| **pid != of && !is_own(**pid));
        *pid != of && steps.next() == Some(&of)
    };
    Ok(parents.keys().copied().filter(is_below).filter(|pid| process::state(*pid) != Some('Z')).collect())
}
