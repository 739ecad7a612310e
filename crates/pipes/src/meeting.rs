//! Where the two owners of a pipe's ends meet: a file in a folder of the run's, which has the number of the pipe. The writer makes it, and begins
//! the lane; the reader finds it, joins, and removes it. So a lane's memory is gone with its processes, and what a writer leaves to which no
//! reader came is a page, until the next writer of a pipe of that number or the end of the run.
//!
//! Both own their ends alone ([`Run`](crate::Run)): so a pipe has one writer that makes its file, and one reader that looks for it.

use crate::place::{PAGE, Place, RING};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What a lane has of its file before its reader comes: the words.
const WORDS: i64 = 4096;

/// A run's folder.
#[derive(Clone, Copy)]
pub struct Meeting<'a>(pub &'a CStr);

/// The folder, open, and the file's name in it.
struct Named {
    folder: OwnedFd,
    name: [u8; 24],
}

impl Named {
    fn new(meeting: Meeting, number: u64) -> io::Result<Named> {
        let folder = open(libc::AT_FDCWD, meeting.0.as_ptr().cast(), libc::O_DIRECTORY)?;
        let mut name = [0; 24];
        io::Write::write_fmt(&mut &mut name[..23], format_args!("{number}"))?;
        Ok(Named { folder, name })
    }

    fn open(&self, flags: libc::c_int) -> io::Result<OwnedFd> {
        open(self.folder.as_raw_fd(), self.name.as_ptr(), flags | libc::O_RDWR | libc::O_NOFOLLOW)
    }

    fn remove(&self) {
        // SAFETY: a name that ends in 0. One that is not there is no loss.
        unsafe { libc::unlinkat(self.folder.as_raw_fd(), self.name.as_ptr().cast(), 0) };
    }
}

impl Meeting<'_> {
    /// The memory of a new lane, for the only writer of the pipe of this number.
    ///
    /// # Errors
    /// The system's: there is no room, the folder is gone, or the process may not make a file of that size.
    pub fn begin(self, number: u64) -> io::Result<Place> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // The kernel kills a process that makes a file larger than it may.
        // SAFETY: a place for the limit.
        if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0 && limit.rlim_cur < Place::LEN as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let named = Named::new(self, number)?;
        // A killed writer's, of an earlier pipe.
        named.remove();
        let file = named.open(libc::O_CREAT | libc::O_EXCL)?;
        // The words first: a reader finds the file whole, or too short. No page is touched that there may be no room for.
        let made = reserve(file.as_fd(), 0, WORDS);
        // SAFETY: a size for a file that this has made.
        let made = made.and_then(|()| answer(unsafe { libc::ftruncate(file.as_raw_fd(), Place::LEN as i64) }));
        let place = made.and_then(|()| Place::of(file.as_fd()));
        if place.is_err() {
            named.remove();
        }
        place
    }

    /// Whether a writer has begun a lane for the pipe of this number.
    pub fn is_begun(self, number: u64) -> bool {
        Named::new(self, number).is_ok_and(|named| {
            // SAFETY: a name that ends in 0.
            unsafe { libc::faccessat(named.folder.as_raw_fd(), named.name.as_ptr().cast(), libc::F_OK, 0) == 0 }
        })
    }

    /// The memory of the lane that this pipe's only writer has begun, for its only reader. None: it has not.
    ///
    /// # Errors
    /// The system's: there is no room.
    pub fn join(self, number: u64) -> io::Result<Option<Place>> {
        let file = match Named::new(self, number)?.open(0) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place for the facts, which the call fills where it succeeds.
        let len = unsafe {
            answer(libc::fstat(file.as_raw_fd(), facts.as_mut_ptr()))?;
            facts.assume_init().st_size
        };
        if len < Place::LEN as i64 {
            return Ok(None);
        }
        reserve(file.as_fd(), PAGE as i64, RING as i64)?;
        Place::of(file.as_fd()).map(Some)
    }

    /// Nobody is to find it any more: both are there, or the writer has given up.
    pub fn end(self, number: u64) {
        if let Ok(named) = Named::new(self, number) {
            named.remove();
        }
    }
}

pub(crate) fn open(at: RawFd, path: *const u8, flags: libc::c_int) -> io::Result<OwnedFd> {
    // Not the C library's function: see `holders`.
    // SAFETY: a path that ends in 0; the descriptor is new.
    unsafe {
        match libc::syscall(libc::SYS_openat, at, path, flags | libc::O_CLOEXEC, 0o600) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as RawFd)),
        }
    }
}

/// Room for a part of a file, so that no process is killed by touching it.
pub(crate) fn reserve(file: BorrowedFd, from: i64, len: i64) -> io::Result<()> {
    // SAFETY: a file, and a part of it.
    answer(unsafe { libc::fallocate(file.as_raw_fd(), 0, from, len) })
}

fn answer(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
