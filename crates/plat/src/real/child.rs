//! A child process: started with a text to read, killed when the process that started it is gone.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// A child.
#[derive(Debug)]
pub struct Child(std::process::Child);

/// How a child has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// A nameless file with this text, to be read from its begin.
fn held(text: &str) -> io::Result<std::fs::File> {
    // SAFETY: a C string; the descriptor that comes back is nobody else's.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"chappe".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

impl Child {
    /// Begins a program that reads `text` on its standard input. It is killed when the calling *thread* ends. A terminal's Ctrl-C and its end are none of its
    /// business: its parent gets them.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(program: &Path, args: &[OsString], variable: (&str, &str), text: &str) -> io::Result<Child> {
        let mut command = Command::new(program);
        command.args(args).env(variable.0, variable.1).stdin(Stdio::from(held(text)?));
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
                // It may have gone before that was asked for.
                if libc::getppid() as u32 == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
            });
        }
        Ok(Child(command.spawn()?))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it has ended, if it has. Never waits.
    ///
    /// # Errors
    /// The system's.
    pub fn ended(&mut self) -> io::Result<Option<Ended>> {
        let status = self.0.try_wait()?;
        Ok(status.map(|s| match (s.code(), s.signal()) {
            (Some(code), _) => Ended::Exited(code),
            (None, signal) => Ended::Killed(signal.unwrap_or(0)),
        }))
    }

    /// Whether it was stopped, or let go on, since this was asked last: `Some(true)` if it was stopped last. Never waits.
    pub fn stopped(&self) -> Option<bool> {
        let mut last = None;
        loop {
            // SAFETY: zeroes are an info; the call writes nothing else, and takes no child away that has ended.
            let info = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let which = libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG;
                if libc::waitid(libc::P_PID, self.pid(), &mut info, which) != 0 {
                    return last;
                }
                info
            };
            match info.si_code {
                libc::CLD_STOPPED => last = Some(true),
                libc::CLD_CONTINUED => last = Some(false),
                _ => return last,
            }
        }
    }

    /// Kills it, and waits until it has gone.
    pub fn kill(&mut self) {
        // It has ended by itself otherwise.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, with nothing to read; what it has said on stderr if it has not ended with 0. Where another takes its end away (SIGCHLD is ignored,
/// or a thread waits for any child), it has ended well if it has said nothing.
///
/// # Errors
/// The system's: it cannot be started, or not be waited for.
pub fn run(program: &OsStr, args: &[OsString]) -> io::Result<Result<(), String>> {
    let mut command = Command::new(program);
    let mut child = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut said = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut said)?;
    }
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    let how = match child.wait() {
        Ok(status) if status.success() => return Ok(Ok(())),
        Ok(status) => status.to_string(),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) && said.is_empty() => return Ok(Ok(())),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => String::new(),
        Err(e) => return Err(e),
    };
    Ok(Err(if said.is_empty() { format!("`{}` has ended: {how}", program.display()) } else { said }))
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// This process's program.
///
/// # Errors
/// The system's.
pub fn own_program() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}
