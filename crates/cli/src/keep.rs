//! What a job left running, and keeping the permit taken for it.
//!
//! A descendant that outlives the job's first process and still has the lease's open file keeps the permit by itself. One that closed the
//! file keeps it by its mark, but only in the eyes of processes that can see it: those of its PID namespace and of those above, and none if
//! its environment was cleared. While chappe lives it is chappe's child or grandchild, so chappe sees it. For such processes a background
//! process of chappe's, `chappe keep PID...`, holds the lease's file until they have ended: a lock on a file holds from everywhere. What
//! they start themselves after chappe is gone is seen only by its mark.

use crate::family::{self, Process};
use crate::job::inheritable;
use crate::signals::Set;
use anyhow::{Result, anyhow};
use chappe::{LEASE_VARIABLE, Lease};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often it is looked whether a kept permit can be given back, and how long after the last time.
const LOOKS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(200);

/// In the environment of what `chappe submit` has begun, each time with another value: it is no part of a job that it was begun in.
pub const APART: &str = "CHAPPE_APART";

/// Whether a process was begun by `chappe submit`, and this one is no part of that.
fn is_apart(pid: i32) -> bool {
    let own = std::env::var_os(APART).unwrap_or_default();
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark =
        environ.split(|byte| *byte == 0).find_map(|part| part.strip_prefix(APART.as_bytes())?.strip_prefix(b"="));
    mark.is_some_and(|mark| mark != own.as_bytes())
}

/// All descendants of chappe when the job's first process has ended, but for jobs that it has handed in, and its `own`.
pub fn survivors(own: Option<i32>) -> Vec<Process> {
    // They would be its children: it is their subreaper. To look for them reads of every process of the machine.
    let me = std::process::id();
    if chappe::process::is_childless() || own.is_some_and(|own| family::is_only_child(own, me)) {
        return Vec::new();
    }
    let mut all = family::descendants(me as i32);
    let mut apart = Vec::new();
    // Parents come before their children.
    all.retain(|process| Some(process.pid) != own);
    all.retain(|process| {
        let is_part = !apart.contains(&process.parent) && !is_apart(process.pid);
        apart.extend((!is_part).then_some(process.pid));
        is_part
    });
    all
}

/// Sees to it that those of `survivors` that no longer have the lease's file keep the permit taken all the same.
///
/// # Errors
/// Says that it could not be done.
pub fn look_after(survivors: &[Process], lease: &Lease, object: &str, mask: Set) -> Result<()> {
    let file = std::fs::File::from(lease.as_fd().try_clone_to_owned()?).metadata()?;
    let lost: Vec<String> =
        survivors.iter().filter(|p| !family::has_open(p.pid, &file)).map(|p| p.pid.to_string()).collect();
    stay_for(&lost, lease, object, mask)
}

/// Starts the process that keeps a lease as long as these run.
///
/// # Errors
/// Says that it could not be done.
pub fn stay_for(lost: &[String], lease: &Lease, object: &str, mask: Set) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("chappe")
        .args(["keep", "--object", object])
        .args(lost)
        .env(LEASE_VARIABLE, lease.cookie())
        .current_dir("/");
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
    // Until it has a hold of them, their numbers are theirs: chappe still runs, and does not wait for them.
    if let Some(mut ready) = child.stdout.take() {
        ready.read_to_end(&mut Vec::new()).map_err(failed)?;
    }
    Ok(())
}

/// `chappe keep`: stays until all of these have ended. The lease is an inherited open file. Then it closes that, and gives a pool's
/// permit back, or forgets a lock's job, if nothing else keeps it: processes that wait in another PID namespace cannot see that the job is gone.
///
/// The starter may be killed before this process is ready. Then its message is not read, and it stays all the same. A number that another
/// process has got meanwhile keeps the permit taken for longer than need be, never for less.
pub fn keep(pids: &[i32], object: Option<&str>) {
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
    match object {
        Some(name) if pids.is_empty() => {
            // It may have been removed; and the next process that looks gives the permit back, or forgets the job, as well. On a busy machine
            // a look may tell nothing: some process is always just ending, and cannot be asked for its mark.
            for _ in 0..LOOKS {
                let kept = match chappe::Pool::open(name) {
                    Ok(pool) => pool.reclaim() == 0 && pool.holders().iter().any(|holder| holder.orphan),
                    Err(_) => chappe::lock_jobs(name).is_ok_and(|jobs| !jobs.is_empty()),
                };
                if !kept {
                    break;
                }
                std::thread::sleep(BETWEEN);
            }
        }
        Some(object) => {
            // A program that neither has the file nor bears the mark, which stays in this one's environment. If it cannot be begun, see above.
            let mut next = Command::new("/proc/self/exe");
            next.arg0("chappe").args(["keep", "--object", object]).env_remove(LEASE_VARIABLE);
            // SAFETY: nobody here has a descriptor beyond the standard ones; the lease was inherited.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
            let _ = next.stdout(Stdio::null()).exec();
        }
        None => {}
    }
}

/// A descriptor that tells the end of a process; `Some(None)` before Linux 5.3; `None` if it has ended already.
pub fn watch(pid: i32) -> Option<Option<OwnedFd>> {
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
