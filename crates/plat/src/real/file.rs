//! Reads and writes of open files, each a value: the same can be done at once or not at all, by a call that blocks, and by a ring (`uring`).

pub use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The most bytes that Linux moves in one call.
const MOST: usize = 0x7fff_f000;

/// What is asked of an open file. `at` is the place in the file; none: the file's own position, which moves on.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// To read into memory.
    Read {
        /// The file.
        fd: RawFd,
        /// The memory.
        to: *mut u8,
        /// How much there is of it.
        len: usize,
        /// From where.
        at: Option<u64>,
    },
    /// To write from memory.
    Write {
        /// The file.
        fd: RawFd,
        /// The memory.
        from: *const u8,
        /// How much there is of it.
        len: usize,
        /// To where.
        at: Option<u64>,
    },
    /// To have what was written on the device.
    Sync {
        /// The file.
        fd: RawFd,
        /// Without what is not needed to read it back, such as times.
        data_only: bool,
    },
}

/// A place as the kernel is told it.
fn place(at: Option<u64>) -> i64 {
    at.map_or(-1, |at| at as i64)
}

fn outcome(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Call {
    /// The file.
    pub fn fd(&self) -> RawFd {
        match *self {
            Call::Read { fd, .. } | Call::Write { fd, .. } | Call::Sync { fd, .. } => fd,
        }
    }

    /// Reads or writes with `preadv2` or `pwritev2`.
    ///
    /// # Safety
    /// As [`blocking`](Self::blocking).
    unsafe fn vectored(
        number: libc::c_long,
        fd: RawFd,
        memory: *mut u8,
        len: usize,
        at: i64,
        flags: i32,
    ) -> io::Result<usize> {
        let part = libc::iovec { iov_base: memory.cast(), iov_len: len.min(MOST) };
        // The upper half of the place is ignored where a register has 64 bits.
        // SAFETY: one part, on our stack, which says what the caller has promised.
        outcome(unsafe { libc::syscall(number, fd, &raw const part, 1usize, at, 0usize, flags) })
    }

    /// Does as much of it as takes no wait: at least one byte, or the end of the file is told.
    ///
    /// # Errors
    /// `WouldBlock`: it takes a wait. `Unsupported`: this file, this kernel or this call cannot tell. The system's.
    ///
    /// # Safety
    /// As [`blocking`](Self::blocking).
    pub unsafe fn at_once(&self) -> io::Result<usize> {
        let done = match *self {
            // SAFETY: the caller's promise, both.
            Call::Read { fd, to, len, at } => unsafe {
                Call::vectored(libc::SYS_preadv2, fd, to, len, place(at), libc::RWF_NOWAIT)
            },
            // SAFETY: as above; memory that is written from is only read.
            Call::Write { fd, from, len, at } => unsafe {
                Call::vectored(libc::SYS_pwritev2, fd, from.cast_mut(), len, place(at), libc::RWF_NOWAIT)
            },
            Call::Sync { .. } => return Err(io::ErrorKind::Unsupported.into()),
        };
        done.map_err(|e| match e.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => io::ErrorKind::Unsupported.into(),
            _ => e,
        })
    }

    /// Does it by a call that blocks the kernel thread for as long as it takes; a signal that comes meanwhile does not end it.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Safety
    /// The memory is the caller's, and of that length: to be written if the call reads.
    pub unsafe fn blocking(&self) -> io::Result<usize> {
        loop {
            let done = match *self {
                // SAFETY: the caller's promise, both.
                Call::Read { fd, to, len, at } => unsafe {
                    Call::vectored(libc::SYS_preadv2, fd, to, len, place(at), 0)
                },
                // SAFETY: as above; memory that is written from is only read.
                Call::Write { fd, from, len, at } => unsafe {
                    Call::vectored(libc::SYS_pwritev2, fd, from.cast_mut(), len, place(at), 0)
                },
                // SAFETY: touches no memory of ours.
                Call::Sync { fd, data_only: true } => outcome(unsafe { libc::fdatasync(fd) }.into()),
                // SAFETY: as above.
                Call::Sync { fd, data_only: false } => outcome(unsafe { libc::fsync(fd) }.into()),
            };
            match done {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// What can be said of an open file beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// It is a regular file: its end stays where it is until somebody writes.
    pub regular: bool,
    /// [`Call::at_once`] keeps its word for reads.
    pub reads_at_once: bool,
    /// The same for writes.
    pub writes_at_once: bool,
}

impl Nature {
    /// Of that file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(fd: RawFd) -> io::Result<Nature> {
        // SAFETY: touches no memory of ours.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place for the answer.
        if flags < 0 || unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has filled it.
        let mode = unsafe { stat.assume_init() }.st_mode;
        // Direct transfers and synchronous writes are begun without a wait, and waited for all the same.
        let direct = flags & libc::O_DIRECT != 0;
        let synchronous = flags & (libc::O_SYNC | libc::O_DSYNC) != 0;
        Ok(Nature {
            regular: mode & libc::S_IFMT == libc::S_IFREG,
            reads_at_once: !direct,
            writes_at_once: !direct && !synchronous,
        })
    }
}

/// To open a file for transfers past the kernel's cache (O_DIRECT): see [`direct_align`]. A file system that has none refuses to open: `InvalidInput`.
pub fn direct(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_DIRECT)
}

/// What the places, the lengths and the memory of such transfers are multiples of: a power of two.
///
/// # Errors
/// The system's; `InvalidInput`: there are none to this file.
pub fn direct_align(file: &File) -> io::Result<usize> {
    let mut about = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let (fd, wanted) = (file.as_raw_fd(), libc::STATX_DIOALIGN | libc::STATX_MODE);
    // SAFETY: a place for the answer; an empty name means the file itself.
    if unsafe { libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, wanted, about.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it, and zero is a value of each number.
    let about = unsafe { about.assume_init() };
    if about.stx_mask & libc::STATX_DIOALIGN != 0 {
        return match about.stx_dio_mem_align.max(about.stx_dio_offset_align) as usize {
            0 => Err(io::ErrorKind::InvalidInput.into()),
            align => Ok(align.next_power_of_two()),
        };
    }
    // An older kernel, or a file system that does not say: what a device says, and a page for files.
    let mut size: libc::c_int = 0;
    // SAFETY: a place for the answer. Of what is no device it fails.
    let is_device = unsafe { libc::ioctl(fd, libc::BLKSSZGET as libc::Ioctl, &raw mut size) } == 0;
    Ok(if is_device { size.unsigned_abs().max(512).next_power_of_two() as usize } else { 4096 })
}

/// Tells the kernel that a file is read from its begin to its end: it reads further ahead of the reader. A hint.
pub fn read_in_order(file: &File) {
    // SAFETY: takes numbers. A file that has no cache refuses it, and is read all the same.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_SEQUENTIAL) };
}

/// Has the kernel begin to read a part of a file into its cache; it reads as much of it as its device takes in one transfer. A hint.
pub fn read_ahead(file: &File, at: u64, bytes: u64) {
    // SAFETY: as above.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), at as i64, bytes as i64, libc::POSIX_FADV_WILLNEED) };
}

/// How many lines a terminal has; none where the descriptor is no terminal, or one that does not know.
pub fn terminal_lines(fd: &impl AsRawFd) -> Option<usize> {
    // SAFETY: an all-zero winsize is a valid value, and a valid place for the call to fill in.
    let lines = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size);
        size.ws_row
    };
    (lines > 0).then(|| lines.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn read(fd: RawFd, to: &mut [u8], at: Option<u64>) -> Call {
        Call::Read { fd, to: to.as_mut_ptr(), len: to.len(), at }
    }

    #[test]
    fn an_operation_that_must_wait_is_not_done_at_once() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (fd, mut place) = (reader.as_raw_fd(), [0; 8]);
        // SAFETY: our own memory, here and below.
        let nothing = unsafe { read(fd, &mut place, None).at_once() };
        let kind = nothing.unwrap_err().kind();
        assert!(matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Unsupported), "{kind:?}");
        writer.write_all(b"five!").unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { read(fd, &mut place, None).blocking() }.unwrap(), 5);
        assert_eq!(&place[..5], b"five!");
        assert!(!Nature::of(fd).unwrap().regular);
        // SAFETY: as above.
        assert!(unsafe { read(-1, &mut place, None).blocking() }.is_err());
        assert!(Nature::of(-1).is_err());
    }

    #[test]
    fn a_file_has_places_and_a_position() {
        let name = std::env::temp_dir().join(format!("chappe-file-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        let fd = file.as_raw_fd();
        let write = |text: &[u8], at| Call::Write { fd, from: text.as_ptr(), len: text.len(), at };
        let mut place = [0; 8];
        // SAFETY: our own memory, in all of these.
        unsafe {
            assert_eq!(write(b"abcdef", Some(2)).blocking().unwrap(), 6);
            assert_eq!(write(b"xy", None).blocking().unwrap(), 2);
            assert_eq!(Call::Sync { fd, data_only: true }.blocking().unwrap(), 0);
            assert_eq!(Call::Sync { fd, data_only: false }.blocking().unwrap(), 0);
            assert_eq!(read(fd, &mut place, Some(0)).blocking().unwrap(), 8);
            assert_eq!(&place, b"xyabcdef");
            assert_eq!(read(fd, &mut place[..3], None).blocking().unwrap(), 3);
            assert_eq!(&place[..3], b"abc");
            assert_eq!(read(fd, &mut place, Some(8)).blocking().unwrap(), 0);
        }
        assert!(Nature::of(fd).unwrap().regular);
    }
}
