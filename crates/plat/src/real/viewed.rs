//! Files that processes have in common: some write, and some map them to look alone.

use super::dir::{Dir, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Makes a file of `len` zero bytes without a name, that this user alone writes; `shown`: the users that the directory admits may look at it. All but the
/// hole is backed by storage.
///
/// # Errors
/// `ENOSPC` when the file system is full; others as the system gives them.
pub fn create(dir: &Dir, len: u64, hole: Option<Range<u64>>, shown: bool) -> io::Result<File> {
    let file = dir.create_unnamed(len, hole.as_slice())?;
    let others = if shown { file.facts()?.mode & 0o044 } else { 0 };
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fchmod(file.as_raw_fd(), 0o600 | others) } == 0 {
        Ok(file)
    } else {
        Err(io::Error::last_os_error())
    }
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

/// Opens a file once more, for reading and writing: an open file of its own, which has no locks.
///
/// # Errors
/// The system's.
pub fn again(file: &OwnedFd) -> io::Result<OwnedFd> {
    // The process's own entry is empty once its first thread has ended.
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    std::fs::OpenOptions::new().read(true).write(true).open(path).map(OwnedFd::from)
}

/// The beginning of a file, mapped as long as this lives.
pub struct Mapping {
    at: *mut u8,
    len: usize,
}

// SAFETY: a mapping belongs to no thread; which of its bytes may be touched when, its users say.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file: to look at, or to write as well.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: &OwnedFd, len: usize, write: bool) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping wherever the kernel likes it; it aliases no object of Rust.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Mapping { at: at.cast(), len }) }
    }

    /// Where it begins: at a page.
    pub fn start(&self) -> *mut u8 {
        self.at
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and borrowed by no one any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
