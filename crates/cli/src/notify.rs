//! What happens to files: inotify(7).

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where news of files comes.
pub struct Notify(File);

/// What happened.
#[derive(Debug)]
pub struct Event {
    /// To what is watched: the number that [`Notify::watch`] gave. -1: there was too much; it may have been anything, to any.
    pub watch: i32,
    /// Bits of inotify(7).
    pub what: u32,
}

impl Notify {
    /// For nothing yet.
    ///
    /// # Errors
    /// The system's: a user has a limited number, `/proc/sys/fs/inotify/max_user_instances`.
    pub fn new() -> io::Result<Notify> {
        // SAFETY: takes a number; the descriptor it returns is ours.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        // SAFETY: a fresh descriptor that nobody else owns.
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Notify(unsafe { File::from_raw_fd(fd) })) }
    }

    /// Watches a file or a directory for these; answers its number.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self, path: &Path, of: u32) -> io::Result<i32> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string and an open descriptor.
        let watch = unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), of) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(watch) }
    }

    /// What happened since the last call.
    pub fn events(&self) -> Vec<Event> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(len) = (&self.0).read(&mut buffer)
            && len > 0
        {
            let mut rest = &buffer[..len];
            while let Some((event, more)) = rest.split_at_checked(16) {
                let word = |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
                all.push(Event { watch: word(0) as i32, what: word(4) });
                // A name, if a directory is watched.
                rest = more.get(word(12) as usize..).unwrap_or_default();
            }
        }
        all
    }
}

impl AsFd for Notify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
