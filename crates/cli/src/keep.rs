//! What a job left running, and keeping the permit taken for it.
//!
//! A descendant that outlives the job's first process has the lease's open file or bears its mark, and so keeps the
//! permit by itself: unless it closed all files *and* its environment was cleared. While we live it is our child or
//! grandchild, so it is seen. For such ones a background process of our own, `chappe keep PID...`, holds the lease until
//! they have ended. What they start themselves after we have gone is not seen.

use crate::family::{self, Process};
use crate::job::inheritable;
use crate::signals::Set;
use anyhow::{Result, anyhow};
use chappe::Lease;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Everything that descends from us now, when the job's first process has ended.
pub fn survivors() -> Vec<Process> {
    family::descendants(std::process::id() as i32)
}

/// Sees to it that those of `survivors` who no longer have the mark keep the permit taken all the same.
///
/// # Errors
/// Says that it could not be done.
pub fn look_after(survivors: &[Process], lease: &Lease, mask: Set) -> Result<()> {
    let mark = lease.cookie().rsplit(',').next().unwrap_or_default();
    let lost: Vec<String> =
        survivors.iter().filter(|p| !family::bears(p.pid, mark)).map(|p| p.pid.to_string()).collect();
    stay_for(&lost, lease, mask)
}

/// Starts the process that keeps a lease as long as these run.
///
/// # Errors
/// Says that it could not be done.
pub fn stay_for(lost: &[String], lease: &Lease, mask: Set) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("chappe").arg("keep").args(lost).env("CHAPPE_LEASE", lease.cookie()).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let file = lease.as_fd().as_raw_fd();
    // SAFETY: between fork and exec only system calls are made: no memory is allocated, no lock taken.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            mask.set();
            inheritable(file)
        });
    }
    let failed = |e| anyhow!("cannot keep the permit for {} process(es) that the command left: {e}", lost.len());
    let mut child = command.spawn().map_err(failed)?;
    // Until it has a hold of them, their numbers are theirs: we are still here, and do not wait for them.
    if let Some(mut ready) = child.stdout.take() {
        ready.read_to_end(&mut Vec::new()).map_err(failed)?;
    }
    Ok(())
}

/// `chappe keep`: stays until all of these have ended. The lease is an open file that we inherited.
///
/// Who started it may be killed before it is ready. Then nobody reads that it is, and it stays all the same. A number
/// that another process has got meanwhile keeps the permit taken for longer than need be, never for less.
pub fn keep(pids: &[i32]) {
    let watched: Vec<(i32, Option<OwnedFd>)> = pids.iter().filter_map(|pid| watch(*pid).map(|fd| (*pid, fd))).collect();
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(b"ready\n").and_then(|()| out.flush());
    // SAFETY: nobody uses the descriptor after this; the starter waits for its end.
    unsafe { libc::close(1) };
    for (pid, fd) in watched {
        match fd {
            Some(fd) => ended(&fd),
            None => {
                while std::fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

/// A descriptor that tells the end of a process; `Some(None)` before Linux 5.3; `None` if it has ended already.
fn watch(pid: i32) -> Option<Option<OwnedFd>> {
    // SAFETY: a plain system call; the descriptor it returns is ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd >= 0 {
        // SAFETY: a fresh descriptor that nobody else owns.
        return Some(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }));
    }
    (std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)).then_some(None)
}

fn ended(fd: &OwnedFd) {
    let mut one = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the one entry is valid for the call.
    while unsafe { libc::poll(&mut one, 1, -1) } < 0 {}
}
