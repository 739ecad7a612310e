//! A job's processes, as those that look after its permit know them.
//!
//! | a process of the job | is known by |
//! |---|---|
//! | has the line open, a pipe's end that its first process gets and all that it starts | the pipe's other end, which ends when all have closed it |
//! | has closed it | its mark: [`MARK`] in its environment |
//! | is the first, and has cleared that, too | its number |
//! | is another that has | chappe, whose descendant it is, and which names it to the keeper at its own end |
//!
//! What such a one starts after chappe's end is not seen, as with local permits.
//!
//! A group's number may be another's when its first process has ended and been waited for. So the group gets a signal only while that process
//! lives, or while one of the job's is known to be in it.

use crate::keep;
use crate::signals;
use chappe::alarm::Alarm;
use chappe::marks::Marked;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What a job has in its environment: the attempts that have got its permits, separated by commas.
pub const MARK: &str = "CHAPPE_HOLD";

/// A pipe: the end that is read, and the one that is written. Neither is inherited.
///
/// # Errors
/// The system's.
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh descriptors that nobody else owns.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Waits for these events, or until the other end is gone; answers whether it is so.
fn wait(from: &impl AsRawFd, events: libc::c_short, patience: Duration) -> bool {
    let mut one = libc::pollfd { fd: from.as_raw_fd(), events, revents: 0 };
    // SAFETY: the one entry is valid for the call.
    unsafe { libc::poll(&raw mut one, 1, i32::try_from(patience.as_millis()).unwrap_or(i32::MAX)) };
    one.revents != 0
}

/// Waits until something can be read, or the other end is gone, until a time since boot; answers whether it is so. The time comes while the machine sleeps, too, and then at once when that wakes.
pub fn wait_until(from: &impl AsRawFd, at: Duration) -> bool {
    let Ok(alarm) = Alarm::at(at) else { return wait(from, libc::POLLIN, Duration::from_millis(100)) };
    let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut two = [entry(from.as_raw_fd()), entry(alarm.as_fd().as_raw_fd())];
    // SAFETY: the two entries are valid for the call.
    unsafe { libc::poll(two.as_mut_ptr(), 2, -1) };
    two[0].revents != 0
}

/// A process that is not this one's child, so that its number may be another's later.
struct Process {
    pid: i32,
    /// None before Linux 5.3.
    fd: Option<OwnedFd>,
}

impl Process {
    /// `None`: it has ended.
    fn of(pid: i32) -> Option<Process> {
        keep::watch(pid).map(|fd| Process { pid, fd })
    }

    fn lives(&self) -> bool {
        match &self.fd {
            Some(fd) => !wait(fd, libc::POLLIN, Duration::ZERO),
            None => std::fs::exists(format!("/proc/{}", self.pid)).unwrap_or(false),
        }
    }
}

/// All of a job.
pub struct Crew {
    line: OwnedFd,
    mark: String,
    /// chappe, which has the line's other end open itself for a moment.
    chappe: i32,
    first: Option<Process>,
    own_group: bool,
    left: Vec<Process>,
}

impl Crew {
    /// Of a job that has not begun. `line` is the end that is read.
    pub fn new(line: OwnedFd, mark: String, chappe: i32) -> Crew {
        Crew { line, mark, chappe, first: None, own_group: false, left: Vec::new() }
    }

    /// Its mark, which its processes will have.
    pub fn is_marked(&mut self, mark: String) {
        self.mark = mark;
    }

    /// It has begun: its first process, and whether that has a group of its own.
    pub fn begins(&mut self, pid: i32, own_group: bool) {
        (self.first, self.own_group) = (Process::of(pid), own_group);
    }

    /// These are its as well.
    pub fn leaves(&mut self, pids: &[i32]) {
        self.left.extend(pids.iter().filter_map(|pid| Process::of(*pid)));
    }

    /// The line.
    pub fn line(&self) -> &OwnedFd {
        &self.line
    }

    /// Whether none has the line open. What one has written there is not its end.
    pub fn line_has_ended(&self) -> bool {
        wait(&self.line, 0, Duration::ZERO)
    }

    /// Whether none is left. A look at all processes, once the line has ended.
    pub fn has_ended(&self) -> bool {
        let known = || self.first.iter().chain(&self.left).any(Process::lives);
        self.line_has_ended() && !known() && self.marked().is_empty()
    }

    /// Waits for a part of it to end.
    pub fn wait(&self, patience: Duration) {
        if self.line_has_ended() {
            std::thread::sleep(patience.min(Duration::from_millis(100)));
        } else {
            wait(&self.line, 0, patience);
        }
    }

    /// Asks it to end, also what is stopped.
    pub fn ask_to_end(&self) {
        self.send(&[libc::SIGTERM, libc::SIGCONT], false);
    }

    /// Kills all of it. What was forked during the look is found the next time.
    pub fn kill(&self) {
        self.send(&[libc::SIGKILL], true);
    }

    fn send(&self, signals: &[i32], to_each: bool) {
        let send = |to: i32| signals.iter().for_each(|signal| signals::send(to, *signal));
        let group = self.first.as_ref().filter(|_| self.own_group).map(|first| first.pid);
        let first = self.first.as_ref().filter(|first| first.lives());
        // At once: the look at all processes takes its time.
        if let Some(first) = first {
            group.map(|group| -group).into_iter().chain([first.pid]).for_each(send);
        }
        if !to_each && first.is_some() && group.is_some() {
            return;
        }
        let found = self.found();
        // SAFETY: a plain system call.
        let in_group = |pid: &i32| Some(unsafe { libc::getpgid(*pid) }) == group;
        if let (None, Some(group), true) = (first, group, found.iter().any(in_group)) {
            send(-group);
        }
        if to_each || group.is_none() {
            found.into_iter().for_each(send);
        }
    }

    /// All that can be found.
    fn found(&self) -> BTreeSet<i32> {
        let left = self.left.iter().filter(|process| process.lives()).map(|process| process.pid);
        left.chain(self.writers()).chain(self.marked()).collect()
    }

    fn is_of_it(&self, pid: i32) -> bool {
        pid != std::process::id() as i32 && pid != self.chappe
    }

    fn marked(&self) -> Vec<i32> {
        if self.mark.is_empty() {
            return vec![];
        }
        let all = Marked::look(MARK).bearers(&self.mark).bear;
        all.into_iter().map(|pid| pid as i32).filter(|pid| self.is_of_it(*pid)).collect()
    }

    /// The processes that have the line's other end open.
    fn writers(&self) -> Vec<i32> {
        let target = std::fs::read_link(format!("/proc/self/fd/{}", self.line.as_raw_fd())).ok();
        let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let writes = |pid: &i32| {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            open.filter(|fd| std::fs::read_link(fd.path()).ok() == target).any(|fd| {
                let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.file_name().to_string_lossy()));
                let flags = info.ok().and_then(|info| {
                    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim();
                    i32::from_str_radix(flags, 8).ok()
                });
                flags.is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_WRONLY)
            })
        };
        if target.is_none() { vec![] } else { pids.filter(|pid| self.is_of_it(*pid) && writes(pid)).collect() }
    }
}
