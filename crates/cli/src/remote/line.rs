//! The line: a pipe of which a job and all that it starts have one end open. It ends when all of them have.

use crate::signals;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The two ends of a line: that which is read, and that which the job and all that it starts have open.
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

/// Whether the line has ended: nobody has its other end open.
pub fn has_ended(line: &OwnedFd) -> bool {
    wait(line, Duration::ZERO)
}

/// Waits until something can be read, or the other end is gone.
pub fn wait(from: &impl AsRawFd, patience: Duration) -> bool {
    let mut one = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the one entry is valid for the call.
    unsafe { libc::poll(&raw mut one, 1, i32::try_from(patience.as_millis()).unwrap_or(i32::MAX)) };
    one.revents != 0
}

/// Asks a job to end, also one that is stopped.
pub fn ask_to_end(job: Option<(i32, bool)>) {
    if let Some((pid, group)) = job {
        let to = if group { -pid } else { pid };
        signals::send(to, libc::SIGTERM);
        signals::send(to, libc::SIGCONT);
    }
}

/// Ends all of a job: its group, and every process that has the line's other end open.
pub fn kill(job: Option<(i32, bool)>, line: &OwnedFd) {
    match job {
        Some((pid, true)) => signals::send(-pid, libc::SIGKILL),
        Some((pid, false)) => signals::send(pid, libc::SIGKILL),
        None => {}
    }
    writers(line).into_iter().for_each(|pid| signals::send(pid, libc::SIGKILL));
}

/// The processes that have the line's other end open.
fn writers(line: &OwnedFd) -> Vec<i32> {
    let target = std::fs::read_link(format!("/proc/self/fd/{}", line.as_raw_fd())).ok();
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
    let me = std::process::id() as i32;
    if target.is_none() { vec![] } else { pids.filter(|pid| *pid != me && writes(pid)).collect() }
}
