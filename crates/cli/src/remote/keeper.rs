//! The process that looks after a remote permit when chappe cannot: `chappe keep --remote`, which `chappe acquire` starts while it
//! connects, and tells of the lease before it asks for anything under it.
//!
//! ```text
//!   chappe ---- pipe: holder, permits, deadline ----> keeper          the pipe ends: chappe is gone
//!   job and all that it started ---- the line -------> chappe, keeper  the line ends: all that have it open have ended
//! ```
//!
//! | what happens | what the keeper does |
//! |---|---|
//! | chappe is killed before it tells of a lease | ends: nothing is held |
//! | chappe is killed while it waits | ends the lease, if that has to come yet as soon as it has: the place in the queue is gone at once |
//! | chappe is killed, its job goes on | renews the lease in its place until the line ends, and gives the permit back; has a keeper of its own |
//! | both are killed | gives the permit back at once |
//! | chappe is stopped, or cut off from the engine | TERM and KILL of the job before the engine can give the permit away |
//! | chappe has given all back, and is gone | ends the lease: chappe need not wait for that |
//! | chappe has ended the lease itself | ends with it |
//! | the keeper is killed or stopped, or does not read what it is told four times | chappe starts another when it next tells it something, within a fifth of the TTL |
//!
//! If chappe and its keepers are all killed, or stopped, at the same time and the job is not, the job goes on without its permit when the lease
//! has ended: then only the fencing token protects.
//!
//! The keeper does not ask the engine: of a permit that is taken away while chappe is stopped it knows only that it is not renewed.

use super::held::Held;
use super::line;
use crate::args::OnLoss;
use chappe::remote::engine::LeaseId;
use chappe::remote::etcd::Options;
use chappe::remote::keys;
use chappe::remote::life::Life;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

/// The command that a keeper is, of no other words. What it is about comes on stdin; on stdout and stderr it reads what is new, and the line.
pub const KEEP: [&str; 2] = ["keep", "--remote"];

/// What a keeper is told first.
#[derive(Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The engine.
    pub options: Options,
    /// What is done when the lease is lost.
    pub on_loss: OnLoss,
}

/// What it is told each time that something of it is new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The lease. Without one nothing is held, or asked for.
    pub lease: Option<i64>,
    /// The deadline, since boot.
    pub deadline: Duration,
    /// The lease's time to live.
    pub ttl: Duration,
    /// What is held.
    pub held: Option<Held>,
    /// The job's first process, and whether it has a group of its own.
    pub job: Option<(i32, bool)>,
    /// Other processes of the job, which only chappe knows.
    pub left: Vec<i32>,
    /// The lease has ended.
    pub done: bool,
}

impl Now {
    /// What the job has in its environment: the name of the lease's first attempt.
    pub fn mark(&self) -> String {
        self.lease.map_or_else(String::new, |lease| keys::attempt(LeaseId(lease), 1))
    }

    /// The lease's life, as it was told.
    pub fn life(&self) -> Life {
        Life::new(self.deadline.saturating_sub(self.ttl), self.ttl)
    }
}

/// How many lines may be unread: a keeper that does not read is of no use.
const UNREAD: usize = 4;

/// A keeper that runs.
pub struct Keeper {
    begin: Begin,
    now: Now,
    line: OwnedFd,
    child: Option<(Child, File)>,
}

impl Keeper {
    /// Starts one. `line` is the end of the line that is read.
    ///
    /// # Errors
    /// The system's.
    pub fn start(begin: Begin, now: Now, line: OwnedFd) -> io::Result<Keeper> {
        let mut keeper = Keeper { begin, now, line, child: None };
        keeper.spawn()?;
        Ok(keeper)
    }

    fn spawn(&mut self) -> io::Result<()> {
        // All that it must know is there before it is: this process may be killed right after its start.
        let mut first = memory()?;
        first.write_all((line_of(&self.begin) + &line_of(&self.now)).as_bytes())?;
        first.rewind()?;
        let (read, write) = line::open()?;
        // SAFETY: a plain call on an open descriptor. A keeper that is stopped must not stop chappe.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let mut command = Command::new("/proc/self/exe");
        command.arg0("chappe").args(KEEP);
        // Nothing of what marks a local permit's job. Nothing is done between fork and exec, so that the system need not copy this process's page tables.
        // A group of its own from the start: what the terminal sends to chappe's is not for it.
        command.process_group(0).current_dir("/").env_clear().stdin(first).stdout(read).stderr(self.line.try_clone()?);
        self.child = Some((command.spawn()?, File::from(write)));
        Ok(())
    }

    /// Tells it what is new, and starts another if it is gone, or does not listen.
    /// Answers whether there is one.
    pub fn tell(&mut self, change: impl FnOnce(&mut Now)) -> bool {
        let before = self.now.clone();
        change(&mut self.now);
        let text = if before == self.now { String::new() } else { line_of(&self.now) };
        let is_of_use = self.child.as_mut().is_some_and(|(child, input)| {
            // What cannot be waited for has been: it is gone, and its number may be another's.
            let lives = matches!(child.try_wait(), Ok(None));
            // A line is written whole or not at all: it is shorter than PIPE_BUF.
            let listens =
                text.is_empty() || unread(input) <= UNREAD * text.len() && input.write_all(text.as_bytes()).is_ok();
            // One that is stopped reads what it was told when it is too late.
            let is_stopped = is_stopped(child.id() as i32);
            if lives && (!listens || is_stopped) {
                let _ = child.kill();
            }
            lives && listens && !is_stopped
        });
        // Without one the job is ended by chappe alone: that is no reason to end it now.
        is_of_use || self.spawn().is_ok()
    }

    /// Its number.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|(child, _)| child.id() as i32)
    }

    /// What the job must have in its environment for it.
    pub fn mark(&self) -> String {
        self.now.mark()
    }

    /// The lease has ended: it may end.
    pub fn end(mut self) {
        self.tell(|now| now.done = true);
    }

    /// Nothing is held any more: it ends the lease when this is dropped. Answers whether there is one.
    pub fn ends_the_lease(&mut self) -> bool {
        self.tell(|now| now.held = None)
    }
}

/// Whether a process is stopped.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// The bytes of a pipe that nobody has read yet.
fn unread(pipe: &File) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: a place for the number.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    usize::try_from(bytes).unwrap_or_default()
}

/// A file without a name.
fn memory() -> io::Result<File> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"chappe".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn line_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}
