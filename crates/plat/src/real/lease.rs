//! Locks on single bytes of a file that live as long as any process has the open file: leases of jobs.
//!
//! An OFD lock belongs to the open file description, which a child inherits. So it outlives the process that took
//! it, until the last descendant that has the descriptor is gone. The jobs' mark in their environment is for
//! those that closed it: see `marks`.

use super::dir::without_size_signal;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

fn range(kind: i32, at: u64, len: u64) -> libc::flock {
    // SAFETY: an all-zero flock is a valid value; the fields that matter are set below.
    let mut f: libc::flock = unsafe { std::mem::zeroed() };
    f.l_type = kind as i16;
    f.l_whence = libc::SEEK_SET as i16;
    f.l_start = at as i64;
    f.l_len = len as i64;
    f
}

/// Takes the byte for this open file. False: another has it.
///
/// # Errors
/// The system's.
pub fn try_lock(file: &OwnedFd, at: u64) -> io::Result<bool> {
    let r = range(libc::F_WRLCK, at, 1);
    // SAFETY: the descriptor is open and the struct valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &r) } == 0 {
        return Ok(true);
    }
    let e = io::Error::last_os_error();
    if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) { Ok(false) } else { Err(e) }
}

/// Gives the byte up, for forked children that have this open file as well.
pub fn unlock(file: &OwnedFd, at: u64) {
    let r = range(libc::F_UNLCK, at, 1);
    // SAFETY: the descriptor is open and the struct valid. There is nothing to be done about an error.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &r) };
}

/// Whether another open file has the byte.
///
/// # Errors
/// The system's.
pub fn is_locked(file: &OwnedFd, at: u64) -> io::Result<bool> {
    is_any_locked(file, at, 1)
}

/// Whether another open file has any of the `len` bytes from `at` on; 0: to the end, however long it gets.
///
/// # Errors
/// The system's.
pub fn is_any_locked(file: &impl AsRawFd, at: u64, len: u64) -> io::Result<bool> {
    let mut r = range(libc::F_RDLCK, at, len);
    // SAFETY: the descriptor is open and the struct valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut r) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(r.l_type) != libc::F_UNLCK)
}

/// Sleeps until no other open file has any of the `len` bytes from `at` on. Any number of threads may wait at once, each with an open file of its own.
///
/// # Errors
/// The system's.
pub fn wait_unlocked(file: &OwnedFd, at: u64, len: u64) -> io::Result<()> {
    let mut r = range(libc::F_RDLCK, at, len);
    loop {
        // SAFETY: as above.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &r) } == 0 {
            break;
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    r.l_type = libc::F_UNLCK as i16;
    // SAFETY: as above.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &r) };
    Ok(())
}

/// Whether anything was ever written to the `len` bytes from `at` on; true where the file system cannot tell.
pub fn is_written(file: &OwnedFd, at: u64, len: u64) -> bool {
    // SAFETY: an open descriptor; nothing reads or writes at its position.
    let next = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
    match u64::try_from(next) {
        Ok(next) => next < at + len,
        // Nothing is there from `at` on.
        Err(_) => io::Error::last_os_error().raw_os_error() != Some(libc::ENXIO),
    }
}

/// Reads what the file has from `at` on, as far as it goes.
///
/// # Errors
/// The system's.
pub fn read_at(file: &OwnedFd, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    // SAFETY: an open descriptor, and a place of that length.
    let got = unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), at as i64) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Writes all of `bytes` at `at`. A limit on the size of files (`RLIMIT_FSIZE`) is an error, and no signal.
///
/// # Errors
/// `ENOSPC`, `EFBIG`; others as the system gives them.
pub fn write_at(file: &OwnedFd, bytes: &[u8], at: u64) -> io::Result<()> {
    let e = without_size_signal(|| {
        // SAFETY: an open descriptor, and bytes of that length.
        let put = unsafe { libc::pwrite(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), at as i64) };
        match usize::try_from(put) {
            Err(_) => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
            Ok(all) if all == bytes.len() => 0,
            Ok(_) => libc::ENOSPC,
        }
    });
    if e == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(e)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    #[test]
    fn a_hole_and_what_lies_behind_the_end_was_never_written() {
        // SAFETY: a C string; the descriptor is fresh.
        let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"chappe".as_ptr(), libc::MFD_CLOEXEC)) };
        let far = 1 << 30;
        assert!(!is_written(&file, 0, 1 << 20) && !is_written(&file, far, 4096));
        write_at(&file, b"record", far).unwrap();
        assert!(!is_written(&file, 0, 1 << 20) && is_written(&file, far, 4096));
        assert!(!is_written(&file, far + (1 << 20), 4096));
    }
}
