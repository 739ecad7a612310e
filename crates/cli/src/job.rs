//! The job: the command that runs under a permit, and how signals reach it.
//!
//! | the session's terminal | others in chappe's group      | the job's group                                   |
//! |------------------------|-------------------------------|---------------------------------------------------|
//! | none                   | any                           | its own                                           |
//! | there                  | none                          | its own; it gets the terminal when chappe has it  |
//! | there                  | some: a pipeline, a script    | chappe's: the terminal's signals reach all at once |
//! | any                    | any, with `--foreground`      | chappe's: a KILL to chappe's group reaches it, too |
//!
//! A group of its own is what can be signalled as a whole, even while it forks. In a shared one the job's
//! descendants are looked up one by one, so that chappe's neighbours are left alone.
//!
//! Between fork and exec the lease's file is made inheritable: from the exec on the job keeps the permit taken, before it chappe does, and
//! if chappe is killed in between, the child's copy of the open file. There is no moment at which the job runs and no process has the
//! lease. The job does not die with chappe (no PR_SET_PDEATHSIG): work goes on.

use crate::family;
use crate::signals::{self, Set};
use crate::terminal::{self, Terminal};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A job that was started.
pub struct Job {
    /// Its first process.
    pub pid: i32,
    /// Whether it has a group of its own, which has the number of its first process.
    pub own_group: bool,
}

/// Whether the job gets a group of its own.
pub fn wants_own_group(terminal: &Terminal, foreground: bool) -> bool {
    if foreground {
        return false;
    }
    !terminal.is_there() || !(family::group_is_shared() || terminal::is_pipe(0) || terminal::is_pipe(1))
}

/// What a job starts with.
pub struct Start<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// What its environment has beyond chappe's own.
    pub environment: &'a [(&'a str, OsString)],
    /// What it inherits beside stdin, stdout and stderr: the lease's open file.
    pub inherits: &'a [BorrowedFd<'a>],
    /// The signals that are to be blocked in it.
    pub mask: Set,
    /// Whether SIGXFSZ is to have its default action again.
    pub file_size: bool,
    /// Whether it gets a group of its own.
    pub own_group: bool,
}

impl Start<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// The system's, of the fork or of the exec.
    pub fn start(self, terminal: &Terminal) -> io::Result<Job> {
        let (own_group, mask, file_size) = (self.own_group, self.mask, self.file_size);
        let tty = if own_group { terminal.ours() } else { None };
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(self.environment.iter().map(|(k, v)| (k, v)));
        let inherits: Vec<RawFd> = self.inherits.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: between fork and exec only system calls are made: no memory is allocated, no lock taken.
        unsafe {
            command.pre_exec(move || {
                if own_group {
                    own_group_and_terminal(tty);
                }
                if file_size {
                    signals::default(libc::SIGXFSZ);
                }
                mask.set();
                inherits.iter().try_for_each(|fd| inheritable(*fd))
            });
        }
        match command.spawn() {
            Ok(child) => Ok(Job { pid: child.id() as i32, own_group }),
            Err(e) => {
                if tty.is_some() {
                    terminal.take_back(None);
                }
                Err(e)
            }
        }
    }
}

fn own_group_and_terminal(tty: Option<RawFd>) {
    // SAFETY: a plain system call; a fresh child is no group's leader.
    unsafe { libc::setpgid(0, 0) };
    if let Some(tty) = tty {
        // A background process that asks for the terminal is stopped, unless it blocks that signal.
        Set::of(&[libc::SIGTTOU]).block();
        terminal::set_foreground(tty, terminal::own_group());
    }
}

/// Lets a descriptor live on across exec. May be called between fork and exec.
///
/// # Errors
/// The system's.
pub fn inheritable(fd: RawFd) -> io::Result<()> {
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Job {
    /// Sends a signal to all of it that is in its group.
    pub fn signal(&self, signal: i32) {
        if self.own_group {
            signals::send(-self.pid, signal);
            // Its first process may have moved to another group or session.
            // SAFETY: a plain system call; the process is our child and not yet waited for.
            if unsafe { libc::getpgid(self.pid) } != self.pid {
                signals::send(self.pid, signal);
            }
            return;
        }
        let group = terminal::own_group();
        let all = family::descendants(std::process::id() as i32);
        // Parents first: a shell that sees its child die goes on to the next command, and may be done before its turn.
        signals::send(self.pid, signal);
        for p in all.iter().filter(|p| p.group == group && p.pid != self.pid) {
            signals::send(p.pid, signal);
        }
    }
}
