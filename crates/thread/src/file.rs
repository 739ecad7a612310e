//! Files that light threads read and write: see [`File`].

use crate::record::{Thread, current};
use crate::{end, ring};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::file::{self as plain, Call, Nature, OpenOptions};
use chappe_plat::light;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// An open file whose reads, writes and synchronisations wait lightly: a light thread that reads what is not in memory gives its proc up, and takes no kernel thread.
/// Of a kernel thread they block it.
///
/// ```
/// use chappe_thread::{File, Runtime};
/// use std::io::{Read, Write};
/// let name = std::env::temp_dir().join(format!("chappe-doc-{}", std::process::id()));
/// Runtime::new(1)?.run(|| {
///     let mut file = File::create(&name)?;
///     file.write_all(b"light threads read files")?;
///     file.sync_data()?;
///     let mut word = [0; 7];
///     File::open(&name)?.read_exact_at(&mut word, 6)?;
///     assert_eq!(&word, b"threads");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # std::fs::remove_file(&name)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// What is in memory is read with one system call (`preadv2`, `RWF_NOWAIT`), which never waits; so is what can be written without a wait, on file systems that tell (XFS, Btrfs and
/// tmpfs do, ext4 does not). All else goes by a ring of the process (io_uring, Linux 5.7): the light thread asks the kernel, its proc runs others, and the completion
/// wakes it. Where there is no such ring (an older kernel, `kernel.io_uring_disabled`, a container's filter) it blocks a kernel thread in place, as
/// [`block_in_place`](crate::block_in_place) does: [`file_way`] says which. Opening, closing and metadata are calls of [`block_in_place`](crate::block_in_place) and the standard library.
///
/// A read may be short, as reads are. FIFOs and terminals will do as files, too, and are waited for in the kernel; for sockets and pipes there is [`Io`](crate::Io). Threads that use the
/// file's position at once, by several descriptors of one open file, may read the same twice: [`read_at`](Self::read_at) has a place of its own.
///
/// A thread that is destroyed in such a wait, or whose wait an [`Interrupt`](chappe_sync::Interrupt) ends, has the kernel give the call up, and waits until it says so: at once where there
/// is nothing to read yet, after the transfer where a device is at it. An interrupted one answers the error ECANCELED; whether a part was written is not known then.
/// A forked child makes plain calls. While the kernel works for a file it may use the kernel thread that asked for that: a call of the program that sleeps there, in
/// [`block_in_place`](crate::block_in_place), may answer EINTR, as after a signal.
#[derive(Debug)]
pub struct File {
    inner: plain::File,
    regular: bool,
    /// Which calls can be tried at once: [`READS`], [`WRITES`].
    // Ordering: Relaxed: a hint of the file's own.
    at_once: AtomicU32,
}

const READS: u32 = 1;
const WRITES: u32 = 2;

/// How a light thread waits for a [`File`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileWay {
    /// By a ring (io_uring): its proc runs others.
    Ring,
    /// By a kernel thread that blocks, and why.
    KernelThread(String),
}

impl std::fmt::Display for FileWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileWay::Ring => f.write_str("io_uring"),
            FileWay::KernelThread(why) => write!(f, "a kernel thread for each wait ({why})"),
        }
    }
}

/// How light threads of this process wait for a [`File`]. Makes the ring, if none was made.
pub fn file_way() -> FileWay {
    if end::is_inherited() {
        return FileWay::KernelThread("this is a forked child".into());
    }
    match ring::ring() {
        Ok(_) => FileWay::Ring,
        Err(why) => FileWay::KernelThread(why),
    }
}

impl File {
    /// Opens one to read. Blocks in place.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::open_with(OpenOptions::new().read(true), path)
    }

    /// Opens one to write: makes it, or empties it. Blocks in place.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        File::open_with(OpenOptions::new().write(true).create(true).truncate(true), path)
    }

    /// Opens one as the options say. Blocks in place.
    ///
    /// # Errors
    /// The system's.
    pub fn open_with(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
        light::blocking(|| options.open(path)).and_then(File::new)
    }

    /// One that is open.
    ///
    /// # Errors
    /// The system's, if it does not say what kind of file it is.
    pub fn new(inner: plain::File) -> io::Result<File> {
        let nature = Nature::of(inner.as_raw_fd())?;
        let at_once = (u32::from(nature.reads_at_once) * READS) | (u32::from(nature.writes_at_once) * WRITES);
        Ok(File { inner, regular: nature.regular, at_once: AtomicU32::new(at_once) })
    }

    /// What it is made of. Its own methods block the proc.
    pub fn get_ref(&self) -> &plain::File {
        &self.inner
    }

    /// What it was made of.
    pub fn into_inner(self) -> plain::File {
        self.inner
    }

    /// Reads from a place of the file: how many bytes. 0: the file has no more.
    ///
    /// # Errors
    /// The system's; ECANCELED: the wait was interrupted.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_from(buffer, Some(at))
    }

    /// Reads at most `most` bytes from a place of the file, behind what `to` has: how many. 0: the file has no more. New memory is not
    /// cleared before.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn append_at(&self, to: &mut Vec<u8>, most: usize, at: u64) -> io::Result<usize> {
        // SAFETY: the memory is that of the call until we return.
        self.append(to, most, at, |call| unsafe { self.perform(call, READS) })
    }

    /// The same, as far as it takes no wait, from any thread: with one system call, or none where the file or the kernel cannot tell.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is in memory there, or nobody can tell, or the file has no more: [`append_at`](Self::append_at) finds that out. As
    /// [`read_at`](Self::read_at).
    pub fn append_at_once(&self, to: &mut Vec<u8>, most: usize, at: u64) -> io::Result<usize> {
        // Relaxed: as `at_once` says.
        if self.at_once.load(Ordering::Relaxed) & READS == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        // SAFETY: as in `append_at`.
        match self.append(to, most, at, |call| unsafe { call.at_once() }) {
            // Linux 5.9 and 5.10 say so also of what is not in memory. And `append_at` notes what cannot tell.
            Ok(0) => Err(ErrorKind::WouldBlock.into()),
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Interrupted) => {
                Err(ErrorKind::WouldBlock.into())
            }
            done => done,
        }
    }

    fn append(
        &self,
        to: &mut Vec<u8>,
        most: usize,
        at: u64,
        perform: impl FnOnce(Call) -> io::Result<usize>,
    ) -> io::Result<usize> {
        to.reserve(most);
        let place = to.spare_capacity_mut();
        let len = most.min(place.len());
        // The room is ours until we return, and is written only.
        let call = Call::Read { fd: self.inner.as_raw_fd(), to: place.as_mut_ptr().cast(), len, at: Some(at) };
        let read = perform(call)?;
        // SAFETY: the kernel has filled so many bytes of that room.
        unsafe { to.set_len(to.len() + read) };
        Ok(read)
    }

    /// Fills the buffer from a place of the file.
    ///
    /// # Errors
    /// `UnexpectedEof`: the file has not so much; the buffer has what there is. As [`read_at`](Self::read_at).
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, at)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => (buffer, at) = (&mut buffer[n..], at + n as u64),
            }
        }
        Ok(())
    }

    /// Writes to a place of the file: how many bytes. (To one that was opened to append: to its end.)
    ///
    /// # Errors
    /// The system's; ECANCELED: the wait was interrupted.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.write_to(bytes, Some(at))
    }

    /// Writes all of them to a place of the file.
    ///
    /// # Errors
    /// `WriteZero`: the file takes no more. As [`write_at`](Self::write_at).
    pub fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, at)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => (bytes, at) = (&bytes[n..], at + n as u64),
            }
        }
        Ok(())
    }

    /// Waits until what was written is on the device, and what is needed to read it back (`fdatasync`).
    ///
    /// # Errors
    /// The system's; ECANCELED: the wait was interrupted.
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    /// The same, with all that is known of the file (`fsync`).
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    fn sync(&self, data_only: bool) -> io::Result<()> {
        // SAFETY: no memory is named.
        unsafe { self.perform(Call::Sync { fd: self.inner.as_raw_fd(), data_only }, 0) }.map(drop)
    }

    fn read_from(&self, buffer: &mut [u8], at: Option<u64>) -> io::Result<usize> {
        let call = Call::Read { fd: self.inner.as_raw_fd(), to: buffer.as_mut_ptr(), len: buffer.len(), at };
        // SAFETY: the buffer is ours until we return.
        unsafe { self.perform(call, READS) }
    }

    fn write_to(&self, bytes: &[u8], at: Option<u64>) -> io::Result<usize> {
        let call = Call::Write { fd: self.inner.as_raw_fd(), from: bytes.as_ptr(), len: bytes.len(), at };
        // SAFETY: as above.
        unsafe { self.perform(call, WRITES) }
    }

    /// # Safety
    /// The memory is as [`Call::blocking`] wants it.
    unsafe fn perform(&self, call: Call, kind: u32) -> io::Result<usize> {
        match current().filter(|me| !me.away.get()) {
            // SAFETY: the caller's promise.
            Some(me) if !end::is_inherited() => unsafe { self.perform_lightly(me, call, kind) },
            // SAFETY: as above.
            _ => unsafe { call.blocking() },
        }
    }

    /// # Safety
    /// As above.
    unsafe fn perform_lightly(&self, me: &'static Thread, call: Call, kind: u32) -> io::Result<usize> {
        while self.at_once.load(Ordering::Relaxed) & kind != 0 {
            // SAFETY: the caller's promise.
            match unsafe { call.at_once() } {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    self.at_once.fetch_and(!kind, Ordering::Relaxed);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // Linux 5.9 and 5.10 say so also of what is not in memory. At its end a regular file waits for nothing.
                // SAFETY: as above.
                Ok(0) if self.regular && kind == READS => return unsafe { call.blocking() },
                done => return done,
            }
        }
        if let Ok(ring) = ring::ring() {
            // SAFETY: as above.
            if let Some(done) = unsafe { ring::perform(me, ring, &call) } {
                return done;
            }
        }
        // SAFETY: as above.
        light::blocking(|| unsafe { call.blocking() })
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, None)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_to(bytes, None)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
