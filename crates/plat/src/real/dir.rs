//! The directory where named arenas lie, the files in it, and mapping them.

use super::thread::undisturbed;
use crate::light::Shield;
use std::ffi::CString;
use std::fs::{File as StdFile, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is known of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its inode number.
    pub inode: u64,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
    /// Its length in bytes.
    pub len: u64,
    /// How many names it has; 0 once unlinked.
    pub links: u64,
}

fn facts(m: &std::fs::Metadata) -> Facts {
    Facts { inode: m.ino(), uid: m.uid(), gid: m.gid(), mode: m.mode() & 0o7777, len: m.len(), links: m.nlink() }
}

/// What is known of a plain file; none where there is no such file, or it is something else.
pub fn file_at(path: &Path) -> Option<Facts> {
    std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file).map(|found| facts(&found))
}

/// The owner of the file of this name, which may be a symbolic link; none if there is none, or it cannot be determined.
pub fn owner_of(path: &Path) -> Option<u32> {
    std::fs::symlink_metadata(path).ok().map(|found| found.uid())
}

/// Whether a path lies on a tmpfs.
pub fn is_tmpfs(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a C string, and a place for what is found.
    let done = unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) } == 0;
    // SAFETY: the call has filled it.
    done && unsafe { found.assume_init() }.f_type == libc::TMPFS_MAGIC as _
}

/// An open directory of arenas.
pub struct Dir {
    fd: StdFile,
    path: PathBuf,
}

/// An open file of a [`Dir`].
pub struct File {
    pub(super) inner: StdFile,
}

impl File {
    /// One that was opened otherwise.
    pub fn of(fd: OwnedFd) -> File {
        File { inner: fd.into() }
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.inner.into()
    }
}

/// Exclusive right to create and remove in a directory; given back on drop and by any death.
pub struct Locked<'a> {
    _file: StdFile,
    _threads: MutexGuard<'a, ()>,
    /// A light thread that ended here would leave both to its process.
    _shield: Shield,
}

static THREADS: Mutex<()> = Mutex::new(());

/// By which signal a descriptor tells: the C library crate does not have the number.
const F_SETSIG: libc::c_int = 10;

/// Since Linux 5.14; the C library crate does not have it for all.
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// How often a thread tries to open a file that another process has for itself alone.
const LOOKS: u32 = 1000;

/// How often a thread with a time limit looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One call about the record lock of a whole file.
fn record_lock(file: &StdFile, call: libc::c_int) -> io::Result<libc::flock> {
    // SAFETY: an all-zero flock is a valid value; the fields that matter are set below.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as i16;
    // SAFETY: the descriptor is open and the struct valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), call, &mut range) } == 0 {
        Ok(range)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Backs so many bytes of a file by storage, from byte `from` on. To exceed the process's limit for a file (`RLIMIT_FSIZE`) is an error
/// like others, and raises no signal: the program writes nothing.
///
/// # Errors
/// `EFBIG`, `ENOSPC`; others as the system gives them.
pub fn allocate(file: BorrowedFd<'_>, from: u64, len: u64) -> io::Result<()> {
    let e = without_size_signal(|| {
        loop {
            // SAFETY: an open descriptor.
            let e = unsafe { libc::posix_fallocate(file.as_raw_fd(), from as i64, len as i64) };
            // A process that was stopped and goes on.
            if e != libc::EINTR {
                return e;
            }
        }
    });
    if e == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(e)) }
}

/// Does what may meet a limit on the size of files, and answers with the error's number, 0 for none. The signal that goes with `EFBIG` is taken
/// away; no other comes meanwhile.
pub(crate) fn without_size_signal(act: impl Fn() -> i32) -> i32 {
    let is_pending = || {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a place for a set, which the call fills.
        unsafe { libc::sigpending(all.as_mut_ptr()) == 0 && libc::sigismember(all.as_ptr(), libc::SIGXFSZ) == 1 }
    };
    // All of them: some kernels undo on tmpfs what the call has done when one comes, and a process with a timer would make no progress.
    undisturbed(|| {
        let somebodys = is_pending();
        let e = act();
        if e == libc::EFBIG && !somebodys && is_pending() {
            let (mut only, now) = (MaybeUninit::uninit(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
            // SAFETY: a place for a set, which the calls fill, and a time; the signal is taken by nobody else, since it is this thread's.
            unsafe {
                libc::sigemptyset(only.as_mut_ptr());
                libc::sigaddset(only.as_mut_ptr(), libc::SIGXFSZ);
                libc::sigtimedwait(only.as_ptr(), std::ptr::null_mut(), &now);
            }
        }
        e
    })
}

/// Waits until no thread of this process has a directory's lock, and keeps it so.
pub fn quiet() -> MutexGuard<'static, ()> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dir {
    /// Makes the directory with `mode` if it is not there.
    ///
    /// # Errors
    /// The system's.
    pub fn make(path: &Path, mode: u32) -> io::Result<()> {
        match std::fs::DirBuilder::new().mode(mode).create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Opens a directory; a symbolic link in its place is refused (`ELOOP` or `ENOTDIR`).
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        Ok(Dir { fd: file, path: path.to_owned() })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of it.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> io::Result<Facts> {
        Ok(facts(&self.fd.metadata()?))
    }

    /// Takes the lock under which arenas are created and removed. Waits for a living holder.
    ///
    /// A record lock of the process: no child inherits it, and the kernel drops it at any death.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(&self) -> io::Result<Locked<'static>> {
        let (shield, threads) = (Shield::raise(), quiet());
        let file = self.open_lock()?;
        loop {
            match record_lock(&file, libc::F_SETLKW) {
                Ok(_) => return Ok(Locked { _file: file, _threads: threads, _shield: shield }),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// As [`Dir::lock`], waiting at most so long. None: a living holder still has it.
    ///
    /// # Errors
    /// The system's.
    pub fn lock_within(&self, most: Duration) -> io::Result<Option<Locked<'static>>> {
        let until = Instant::now() + most;
        loop {
            let shield = Shield::raise();
            if let Ok(threads) = THREADS.try_lock() {
                let file = self.open_lock()?;
                match record_lock(&file, libc::F_SETLK) {
                    Ok(_) => return Ok(Some(Locked { _file: file, _threads: threads, _shield: shield })),
                    Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES | libc::EINTR)) => {}
                    Err(e) => return Err(e),
                }
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The process that has the lock, if another process has it; 0 for one that has no id here (it is in another PID namespace).
    pub fn locked_by(&self) -> Option<u32> {
        // Closing the file would release a lock of this process.
        let _shield = Shield::raise();
        let _threads = THREADS.try_lock().ok()?;
        let file = self.openat(".lock", libc::O_RDWR, 0).ok()?;
        let there = record_lock(&file, libc::F_GETLK).ok()?;
        (i32::from(there.l_type) != libc::F_UNLCK).then(|| u32::try_from(there.l_pid).unwrap_or(0))
    }

    fn open_lock(&self) -> io::Result<StdFile> {
        Ok(self.open_or_make(".lock")?.into())
    }

    pub(super) fn openat(&self, name: &str, flags: i32, mode: u32) -> io::Result<StdFile> {
        let name = CString::new(name)?;
        // SAFETY: the name is a C string, the directory open; the descriptor returned is ours.
        let fd = unsafe {
            libc::openat(self.fd.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOFOLLOW, mode)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(unsafe { StdFile::from_raw_fd(fd) })
    }

    /// Makes a file of `len` zero bytes without a name, for the users that the directory admits. Every byte of it is backed by storage
    /// except those in the holes, in order, which are to be backed ([`back`]) before any thread touches them. Where the kernel cannot do
    /// that, there are no holes.
    ///
    /// # Errors
    /// `ENOSPC` when the file system is full; others as the system gives them.
    pub fn create_unnamed(&self, len: u64, holes: &[Range<u64>]) -> io::Result<File> {
        let file = self.unnamed()?;
        let fd = file.inner.as_fd();
        if holes.is_empty() || !can_back() {
            allocate(fd, 0, len)?;
            return Ok(file);
        }
        let mut from = 0;
        for hole in holes {
            allocate(fd, from, hole.start - from)?;
            from = hole.end;
        }
        // Last: with it the file has its length.
        allocate(fd, from, len - from)?;
        Ok(file)
    }

    /// Gives an unnamed file its name; the name must be free.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken; others as the system gives them.
    pub fn link(&self, file: &File, name: &str) -> io::Result<()> {
        // The process's own entry is empty once its first thread has ended.
        let from = CString::new(format!("/proc/thread-self/fd/{}", file.inner.as_raw_fd()))?;
        let to = CString::new(name)?;
        // SAFETY: both are C strings, the descriptors open.
        let r = unsafe {
            libc::linkat(libc::AT_FDCWD, from.as_ptr(), self.fd.as_raw_fd(), to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
        };
        if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Opens a file for reading and writing. A symbolic link is refused, and so is whatever else is no file. Does not block, except for up
    /// to a second while another process is just removing the file.
    ///
    /// # Errors
    /// The system's; `InvalidInput` for a directory, a fifo, a socket or a device.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        self.open_known(name).map(|(file, _)| file)
    }

    /// The same, with what is known of it.
    fn open_known(&self, name: &str) -> io::Result<(File, Facts)> {
        let none = || io::Error::new(io::ErrorKind::InvalidInput, "it is no file, and so no arena: move it away");
        let mut looks = 0;
        let inner = loop {
            match self.openat(name, libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY, 0) {
                // A process has it for itself alone, and is just removing it: see `while_alone`.
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) && looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // A directory, a socket.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EISDIR | libc::ENXIO)) => return Err(none()),
                opened => break opened?,
            }
        };
        let found = inner.metadata()?;
        if found.is_file() { Ok((File { inner }, facts(&found))) } else { Err(none()) }
    }

    /// Takes the name away.
    ///
    /// # Errors
    /// The system's.
    pub fn unlink(&self, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        // SAFETY: a C string and an open directory.
        let r = unsafe { libc::unlinkat(self.fd.as_raw_fd(), name.as_ptr(), 0) };
        if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The inode that a name stands for now; `None` if there is no such name.
    ///
    /// # Errors
    /// The system's: then it cannot be determined.
    pub fn inode_of(&self, name: &str) -> io::Result<Option<u64>> {
        let name = CString::new(name)?;
        let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: an open directory, a C string, and a place for what is found.
        let r =
            unsafe { libc::fstatat(self.fd.as_raw_fd(), name.as_ptr(), found.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW) };
        if r == 0 {
            // SAFETY: the call has filled it.
            return Ok(Some(unsafe { found.assume_init() }.st_ino));
        }
        let why = io::Error::last_os_error();
        if why.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(why) }
    }

    /// Whether a file of this name, which this process has mapped, has lost its name (the name is gone, or another file has it). `folder`
    /// is the inode of the directory in which it had it: the same path may mean another directory by now (after a chroot).
    pub fn has_lost(&self, folder: u64, name: &str, inode: u64) -> bool {
        let lost = self.inode_of(name).is_ok_and(|now| now != Some(inode));
        lost && (self.facts().is_ok_and(|here| here.inode == folder) || super::process::maps_what_was_deleted(inode))
    }

    /// The names in it that do not begin with a dot, sorted.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        self.listed(|name| !name.starts_with('.'))
    }

    /// Those that do, sorted.
    ///
    /// # Errors
    /// The system's.
    pub fn dotted_names(&self) -> io::Result<Vec<String>> {
        self.listed(|name| name.starts_with('.'))
    }

    fn listed(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && is_wanted(&name)
            {
                out.push(name);
            }
        }
        out.sort();
        Ok(out)
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.inner.as_raw_fd()
    }
}

impl File {
    /// What is known of it now.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> io::Result<Facts> {
        Ok(facts(&self.inner.metadata()?))
    }

    /// Maps the first `len` bytes, shared, for the rest of the process's life.
    ///
    /// # Errors
    /// The system's.
    pub fn map(&self, len: usize) -> io::Result<*mut u8> {
        map(libc::MAP_SHARED, self.inner.as_raw_fd(), len)
    }

    /// Runs `act` while no other process has the file open or mapped, or can open it; false, without running it, if one has.
    ///
    /// It takes a write lease, which the kernel grants on just this condition; the kernel counts mappings, those of forked children
    /// included, until the processes end, in whatever way. A thread that opens the file meanwhile by [`Dir::open_file`] tries again until
    /// this is over. Also false where no lease is granted: for another user's file.
    ///
    /// # Errors
    /// That of `act`.
    pub fn while_alone(&self, act: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        let fd = self.inner.as_raw_fd();
        // The signal that tells of a waiting opener needs no action; SIGIO, the usual one, would end the process.
        // SAFETY: plain calls on an open descriptor.
        let leased = unsafe {
            libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
        };
        if !leased {
            return Ok(false);
        }
        let done = act();
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        done.map(|()| true)
    }

    /// Reads up to `buf.len()` bytes from the start, without mapping (a file may be too short to map).
    ///
    /// # Errors
    /// The system's.
    pub fn read_start(&self, buf: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        self.inner.read_at(buf, 0)
    }
}

/// An open file whose bytes can be locked, each by one holder at a time.
///
/// These are locks of the open file (OFD locks), and each `Bytes` is an open file of its own. So threads of one process exclude each
/// other, and the kernel gives a lock up when its holder's process has ended, in whatever PID namespace it was. It does that
/// after it has marked the robust words of all threads of that process: first a dying thread gives up its memory, then its files.
///
/// A child that is forked while a thread of its parent has a lock keeps that lock if the parent dies before it gives it up,
/// until the child ends or calls exec.
pub struct Bytes(File);

/// Opens the file of this name and inode to lock bytes of it. None: there is no need to lock any (that answer is the explorer's).
///
/// # Errors
/// `NotFound` if the name is not that file's any more; others as the system gives them.
pub fn bytes_of(directory: &Path, name: &str, inode: u64) -> io::Result<Option<Bytes>> {
    let (file, facts) = Dir::open(directory)?.open_known(name)?;
    if facts.inode == inode { Ok(Some(Bytes(file))) } else { Err(io::ErrorKind::NotFound.into()) }
}

impl Bytes {
    fn call(&self, call: libc::c_int, kind: libc::c_int, at: u64) -> io::Result<libc::flock> {
        // SAFETY: an all-zero flock is a valid value; the fields that matter are set below.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        (range.l_type, range.l_start, range.l_len) = (kind as i16, at as i64, 1);
        loop {
            // SAFETY: the descriptor is open and the struct valid.
            if unsafe { libc::fcntl(self.0.as_raw_fd(), call, &mut range) } == 0 {
                return Ok(range);
            }
            match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            }
        }
    }

    /// Locks byte `at`. False: another holder has it.
    ///
    /// # Errors
    /// The system's.
    pub fn try_lock(&self, at: u64) -> io::Result<bool> {
        match self.call(libc::F_OFD_SETLK, libc::F_WRLCK, at) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Locks byte `at`; waits for a living holder.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(&self, at: u64) -> io::Result<()> {
        self.call(libc::F_OFD_SETLKW, libc::F_WRLCK, at).map(|_| ())
    }

    /// Gives byte `at` up, for forked children that have this open file as well.
    pub fn unlock(&self, at: u64) {
        let _ = self.call(libc::F_OFD_SETLK, libc::F_UNLCK, at);
    }

    /// Whether another holder has byte `at`.
    ///
    /// # Errors
    /// The system's.
    pub fn is_locked(&self, at: u64) -> io::Result<bool> {
        Ok(i32::from(self.call(libc::F_OFD_GETLK, libc::F_WRLCK, at)?.l_type) != libc::F_UNLCK)
    }

    /// Keeps the file open, and so what is locked of it locked, until [`give_up`]. Answers what that is called with, never negative.
    pub fn keep(self) -> i32 {
        use std::os::fd::IntoRawFd;
        self.0.inner.into_raw_fd()
    }
}

/// Closes what [`Bytes::keep`] has kept, if that number still is the file of this inode: the program may have closed it, and given the
/// number to another. `unlocks`: gives byte `at` up as well, which a forked child must not do for its parent.
pub fn give_up(kept: i32, inode: u64, at: u64, unlocks: bool) {
    // SAFETY: a number that may be any open descriptor, or none; it is only looked at, and not closed.
    let file = std::mem::ManuallyDrop::new(Bytes(File { inner: unsafe { StdFile::from_raw_fd(kept) } }));
    if !file.0.facts().is_ok_and(|f| f.inode == inode) {
        return;
    }
    if unlocks {
        file.unlock(at);
    }
    drop(std::mem::ManuallyDrop::into_inner(file));
}

/// Zeroed memory of this process alone, backed only where it is touched, for the rest of its life.
///
/// # Errors
/// The system's.
pub fn map_private(len: usize) -> io::Result<*mut u8> {
    map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, len)
}

/// Has storage behind `len` bytes of a mapped file, whatever was there before: to touch them is no error (SIGBUS) from then on.
///
/// # Errors
/// `ENOSPC` when the file system is full; others as the system gives them.
pub fn back(at: *mut u8, len: usize) -> io::Result<()> {
    let start = at as usize & !4095;
    let len = (at as usize + len).next_multiple_of(4096) - start;
    loop {
        // SAFETY: the pages are the caller's, and keep what is in them.
        if unsafe { libc::madvise(start as *mut libc::c_void, len, MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            // What would have been a SIGBUS.
            Some(libc::EFAULT) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(libc::EINTR | libc::EAGAIN) => {}
            // A kernel that cannot do it: the file has no holes.
            Some(libc::EINVAL) => return Ok(()),
            // A filter that allows no advice. The maker of the file had none either, and it has holes.
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
                return (0..len).step_by(4096).try_for_each(|page| touch(start + page));
            }
            _ => return Err(e),
        }
    }
}

/// Has storage behind a page of a mapped file by a write that changes nothing: the kernel adds 0 to its first word, and says so where it
/// cannot. At most two that sleep on that word wake up, as from a wake that comes for no reason.
fn touch(page: usize) -> io::Result<()> {
    /// Adds 0 to the second word, and compares what was there with 0.
    const ADD_NOTHING: u32 = (libc::FUTEX_OP_ADD as u32) << 28 | (libc::FUTEX_OP_CMP_EQ as u32) << 24;
    loop {
        // SAFETY: the page is the caller's, and keeps what is in it.
        let done = unsafe { libc::syscall(libc::SYS_futex, page, libc::FUTEX_WAKE_OP, 1, 1usize, page, ADD_NOTHING) };
        if done >= 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EFAULT) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(libc::EINTR | libc::EAGAIN) => {}
            _ => return Err(e),
        }
    }
}

/// Gives the storage of a mapped file's whole pages within so many bytes back; what is in them is zero from then on, and to touch them may be an
/// error again. Where that cannot be, they keep it.
pub fn unback(at: *mut u8, len: usize) {
    let (start, end) = ((at as usize).next_multiple_of(4096), (at as usize + len) & !4095);
    if start < end {
        // SAFETY: the pages are the caller's, which declares that nothing is in them.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_REMOVE) };
    }
}

/// Whether the kernel can do that (5.14). A filter may forbid it.
pub fn can_back() -> bool {
    let Ok(page) = map_private(4096) else { return false };
    // SAFETY: a page of our own, of which nobody knows.
    unsafe {
        let can = libc::madvise(page.cast(), 4096, MADV_POPULATE_WRITE) == 0;
        libc::munmap(page.cast(), 4096);
        can
    }
}

fn map(flags: i32, fd: i32, len: usize) -> io::Result<*mut u8> {
    // SAFETY: the kernel chooses the place; nothing of ours is replaced.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
    if p == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(p.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_lost_its_name_only_where_it_had_it() {
        let path = std::env::temp_dir().join(format!("chappe-dir-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory of its own");
        let dir = Dir::open(&path).expect("it is there");
        let folder = dir.facts().expect("it is open").inode;
        std::fs::write(path.join("a"), "a").expect("room for a byte");
        let inode = dir.inode_of("a").expect("it can be looked at").expect("it is there");
        assert!(!dir.has_lost(folder, "a", inode));
        std::fs::rename(path.join("a"), path.join("b")).expect("another name");
        assert!(matches!(dir.inode_of("a"), Ok(None)));
        assert!(dir.has_lost(folder, "a", inode));
        // The same path in another root.
        assert!(!dir.has_lost(folder + 1, "a", inode));
        assert!(dir.inode_of("no\0name").is_err() && !dir.has_lost(folder, "no\0name", inode), "nobody knows");
        // Renamed, the directory is the same.
        let moved = path.with_extension("moved");
        std::fs::rename(&path, &moved).expect("another name");
        assert!(matches!(dir.inode_of("b"), Ok(Some(i)) if i == inode));
        std::fs::remove_dir_all(&moved).expect("its own");
    }
}
