//! A page that another process of the same user may map, to leave a message in: it finds the page by a descriptor of this process.
//!
//! The page is absent from a child after a fork. A process may open it if it may debug this process: the kernel asks that for
//! `/proc/PID/fd`.

use super::lease;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// How large it is.
pub const LEN: usize = 4096;
const NAME: &std::ffi::CStr = c"chappe-control";
/// What `/proc` calls the descriptor.
const LINK: &str = "/memfd:chappe-control (deleted)";

fn map(fd: &OwnedFd) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping.
    let at =
        unsafe { libc::mmap(null_mut(), LEN, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Makes this process's: where it is, all zeros, for as long as the process lives; and its descriptor, which stays open.
///
/// # Errors
/// The system's.
pub fn make() -> io::Result<(NonNull<u8>, u32)> {
    // SAFETY: a name that ends.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: our own descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), LEN as i64) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let at = map(&fd)?;
    // SAFETY: our own mapping.
    unsafe { libc::madvise(at.as_ptr().cast(), LEN, libc::MADV_DONTFORK) };
    Ok((at, fd.into_raw_fd() as u32))
}

/// Another process's, until it is dropped.
#[derive(Debug)]
pub struct Theirs {
    at: NonNull<u8>,
    file: OwnedFd,
}

impl Theirs {
    /// The one behind that descriptor of that process.
    ///
    /// # Errors
    /// `NotFound`: there is none; `PermissionDenied`.
    pub fn open(pid: u32, fd: u32) -> io::Result<Theirs> {
        let path = format!("/proc/{pid}/fd/{fd}");
        if std::fs::read_link(&path)?.as_os_str() != LINK {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = std::fs::File::options().read(true).write(true).open(&path)?;
        // A shorter one would be a fault.
        if file.metadata()?.len() < LEN as u64 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = file.into();
        Ok(Theirs { at: map(&file)?, file })
    }

    /// Takes the page for this one alone, if no other has it. The kernel gives the lock up when the last process that has this open file ends, whatever
    /// PID namespace it is of.
    ///
    /// # Errors
    /// The system's.
    pub fn try_lock(&self) -> io::Result<bool> {
        lease::try_lock(&self.file, 0)
    }

    /// Where it is mapped.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // By name: a child that another thread has just forked has the open file, too.
        lease::unlock(&self.file, 0);
        // SAFETY: mapped so, and nobody else's.
        unsafe { libc::munmap(self.at.as_ptr().cast(), LEN) };
    }
}
