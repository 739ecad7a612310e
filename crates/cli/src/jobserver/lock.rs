//! Locks on single bytes that belong to an open file, and so to every process that inherited it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn set(file: BorrowedFd<'_>, kind: i32, at: i64) -> io::Result<()> {
    // SAFETY: an all-zero flock is a valid value; the fields that matter are set below.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as i16;
    range.l_whence = libc::SEEK_SET as i16;
    range.l_start = at;
    range.l_len = 1;
    // SAFETY: the descriptor is open and the struct valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Takes the byte. False: another open file has it.
///
/// # Errors
/// The system's.
pub fn try_lock(file: BorrowedFd<'_>, at: i64) -> io::Result<bool> {
    match set(file, libc::F_WRLCK, at) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Gives the byte back.
pub fn unlock(file: BorrowedFd<'_>, at: i64) {
    // It cannot fail on an open file.
    let _ = set(file, libc::F_UNLCK, at);
}
