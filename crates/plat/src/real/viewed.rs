//! Files that one user's processes write and map, and that others at most look at.

use super::dir::{Dir, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Makes a file of `len` zero bytes without a name, for reading and writing by this user alone; with `others`, the users that the
/// directory admits may read it. All but the hole is backed by storage.
///
/// # Errors
/// `ENOSPC` when the file system is full; others as the system gives them.
pub fn create(dir: &Dir, len: u64, hole: Range<u64>, others: bool) -> io::Result<File> {
    let file = dir.create_unnamed(len, &[hole])?;
    let mode = if others { file.facts()?.mode & 0o644 } else { 0o600 };
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fchmod(file.as_raw_fd(), mode) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Opens a file to look at it, or to write as well. A symbolic link is refused; does not block.
///
/// # Errors
/// The system's; `InvalidInput` for what is no file.
pub fn open(dir: &Dir, name: &str, write: bool) -> io::Result<File> {
    if write {
        return dir.open_file(name);
    }
    let inner = dir.openat(name, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0)?;
    if inner.metadata()?.is_file() { Ok(File { inner }) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Maps the first `len` bytes of a file for the rest of the process's life: to look at, or to write as well.
///
/// # Errors
/// The system's.
pub fn map(file: &OwnedFd, len: usize, write: bool) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
    // SAFETY: a new mapping wherever the kernel likes it; it aliases no object of Rust.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.inner.into()
    }
}
