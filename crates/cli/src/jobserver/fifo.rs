//! The job server's directory: the fifos, the name that clients open, and what keeps them when chappe is killed.
//!
//! ```text
//!   chappe-jobserver-PID-N/   jobs -> jobs-7      the name in MAKEFLAGS; one rename away from another fifo
//!                             jobs-0 ... jobs-7   one for each client that is there, one for the next
//!                             alive               locked as long as chappe or anything of the job has the socket
//! ```
//!
//! A fifo's content is gone when no process has it open; to open one for reading alone, as make does, waits for a writer; a write to one
//! without readers kills. So every fifo is held open both ways, by chappe, and by the job: the job inherits one end of a socket, and in
//! that socket's queue lies a copy of every descriptor. No process ever takes it out; it lives as long as the job has the socket, also when
//! chappe is dead. The copy of `alive` lies there, too, so that its lock tells whether the directory is still needed.
//!
//! What was left behind after a kill is removed by the next job server of the same user, and by `chappe doctor`.

use crate::notify::{Event, Notify};
use anyhow::{Result, anyhow, bail};
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What the fifos' names begin with.
pub const PREFIX: &str = "jobs-";
const DIRECTORY: &str = "chappe-jobserver-";
/// Scripts give the lowest descriptors numbers of their own choice: what is to reach a make below them has a number from here on.
const FAR: RawFd = 100;

/// One fifo, as chappe has it open.
pub struct Fifo {
    file: File,
    /// What it is called: the number behind [`PREFIX`].
    pub number: usize,
    /// How the news of it are marked.
    pub watch: i32,
    /// Which file it is.
    pub inode: (u64, u64),
}

impl Fifo {
    /// How many bytes are in it.
    pub fn bytes(&self) -> i64 {
        let mut n: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the place of the type that FIONREAD fills in.
        unsafe { libc::ioctl(self.file.as_raw_fd(), libc::FIONREAD, &mut n) };
        n.into()
    }

    /// The fifo opened once for reading and once for writing, as an inherited pipe would be: open files of their own, so that a client that
    /// sets one of them to non-blocking changes nothing for chappe.
    ///
    /// # Errors
    /// The system's.
    pub fn ends(&self) -> io::Result<[OwnedFd; 2]> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        // Neither waits: chappe has it open both ways.
        let ends = [OpenOptions::new().read(true).open(&path)?, OpenOptions::new().write(true).open(&path)?];
        Ok(ends.map(|end| {
            // SAFETY: an open descriptor; the one that this returns is ours.
            let far = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FAR) };
            // SAFETY: a fresh descriptor that nobody else owns.
            if far < 0 { end.into() } else { unsafe { OwnedFd::from_raw_fd(far) } }
        }))
    }

    /// Puts so many tokens in; answers how many. Fewer: it is full of what others wrote.
    pub fn put(&self, tokens: usize) -> usize {
        (&self.file).write(&vec![b'+'; tokens]).unwrap_or(0)
    }

    /// Takes so many tokens out, if they are there; answers how many.
    pub fn take(&self, tokens: usize) -> usize {
        (&self.file).read(&mut vec![0; tokens]).unwrap_or(0)
    }
}

/// What happened to a fifo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Which: its `watch`. -1: there was too much; it may have been anything, to any.
    pub watch: i32,
    /// A process opened it.
    pub opened: bool,
    /// A process closed it.
    pub closed: bool,
}

/// The directory, for as long as this lives.
pub struct Place {
    path: PathBuf,
    /// Where the copies go in.
    queue: UnixStream,
    /// What the job inherits.
    heir: UnixStream,
    notify: Notify,
    fifos: usize,
}

impl Place {
    /// Makes it.
    ///
    /// # Errors
    /// Where it was tried, and the system's.
    pub fn make() -> Result<Place> {
        clean_up();
        let path = directory()?;
        let failed = |e: io::Error| cannot(&path, &e);
        let (queue, heir) = UnixStream::pair().map_err(failed)?;
        queue.set_nonblocking(true).map_err(failed)?;
        let alive = open(&path.join("alive"), libc::O_CREAT).map_err(failed)?;
        if !lock(&alive).map_err(failed)? {
            bail!("{} is in use by another process", path.display());
        }
        let notify = Notify::new().map_err(|e| {
            anyhow!("cannot watch fifos: {e}; /proc/sys/fs/inotify/max_user_instances says how many may do so")
        })?;
        let place = Place { queue, heir, notify, fifos: 0, path };
        place.keep(alive.as_fd()).map_err(|e| anyhow!("cannot pass on descriptors: {e}"))?;
        Ok(place)
    }

    /// That something cannot be had there.
    pub fn cannot(&self, e: io::Error) -> anyhow::Error {
        cannot(&self.path, &e)
    }

    /// The name that clients open.
    pub fn name(&self) -> PathBuf {
        self.path.join("jobs")
    }

    /// The descriptor that the job must inherit.
    pub fn heir(&self) -> BorrowedFd<'_> {
        self.heir.as_fd()
    }

    /// Is readable when there is news.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.notify.as_fd()
    }

    /// One more fifo.
    ///
    /// # Errors
    /// The system's.
    pub fn fifo(&mut self) -> io::Result<Fifo> {
        let number = self.fifos;
        let path = self.path.join(format!("{PREFIX}{number}"));
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string.
        if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.fifos += 1;
        let file = open(&path, libc::O_NONBLOCK)?;
        let m = file.metadata()?;
        // What cannot be kept (a thousand are) is lost only to a job whose chappe was killed.
        let _ = self.keep(file.as_fd());
        let of = libc::IN_OPEN | libc::IN_CLOSE | libc::IN_ACCESS | libc::IN_MODIFY;
        let watch = self.notify.watch(&path, of)?;
        Ok(Fifo { file, number, watch, inode: (m.dev(), m.ino()) })
    }

    /// Makes the name stand for this fifo.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, fifo: &Fifo) -> io::Result<()> {
        let new = self.path.join("jobs.new");
        symlink(format!("{PREFIX}{}", fifo.number), &new)?;
        fs::rename(new, self.name())
    }

    /// What happened since the last call.
    pub fn news(&self) -> Vec<News> {
        // A file that is watched by its own name has no name in its news.
        let news = |e: Event| News {
            watch: e.watch,
            opened: e.what & libc::IN_OPEN != 0,
            closed: e.what & libc::IN_CLOSE != 0,
        };
        self.notify.events().into_iter().map(news).collect()
    }

    /// Puts a copy of a descriptor where the job keeps it.
    fn keep(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        const LEN: u32 = size_of::<RawFd>() as u32;
        // Aligned as a header of control data must be.
        let mut control = [0_u64; 8];
        let mut byte = [0_u8];
        let mut data = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        // SAFETY: an all-zero msghdr is a valid value. The control buffer has room for one header and one descriptor,
        // so CMSG_FIRSTHDR is not null and CMSG_DATA is within it.
        let sent = unsafe {
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            message.msg_iov = &mut data;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(LEN) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(LEN) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
            libc::sendmsg(self.queue.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags | libc::O_NOFOLLOW).open(path)
}

/// Where directories of job servers may lie: the first that will do is used.
fn bases() -> Vec<PathBuf> {
    let mut all = vec![std::env::temp_dir(), "/tmp".into(), "/dev/shm".into()];
    all.dedup();
    all
}

fn cannot(path: &Path, e: &io::Error) -> anyhow::Error {
    let why = chappe::room::missing(path, e).map_or_else(String::new, |missing| format!("; {missing}"));
    anyhow!("cannot make a job server in {}: {e}{why}", path.display())
}

/// Clients split MAKEFLAGS at blanks, and make expands it.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.as_os_str().as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || b"/._+-,@%~".contains(b))
}

fn directory() -> Result<PathBuf> {
    let mut why = anyhow!("no directory for temporary files has a name without blanks");
    for base in bases().into_iter().filter(|b| is_plain(b)) {
        for n in 0.. {
            let path = base.join(format!("{DIRECTORY}{}-{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    why = cannot(&base, &e);
                    break;
                }
            }
        }
    }
    Err(why)
}

/// Takes the file for this open file and its copies. False: another has it.
fn lock(file: &File) -> io::Result<bool> {
    super::lock::try_lock(file.as_fd(), 0)
}

fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // If it is not there any more, so much the better.
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(path);
}

/// Removes directories whose chappe and whose job are gone; tells which.
pub fn clean_up() -> Vec<PathBuf> {
    let mut gone = Vec::new();
    for base in bases() {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|n| n.strip_prefix(DIRECTORY)) else { continue };
            let Ok(m) = fs::symlink_metadata(entry.path()) else { continue };
            // SAFETY: takes nothing, cannot fail.
            let me = unsafe { libc::geteuid() };
            let maker = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
            // One whose maker lives may not have its lock yet.
            let Some(maker) = maker.filter(|_| m.is_dir() && m.uid() == me) else { continue };
            if fs::exists(format!("/proc/{maker}")).unwrap_or(true) {
                continue;
            }
            let locked = match open(&entry.path().join("alive"), 0) {
                Ok(alive) => !lock(&alive).unwrap_or(false),
                Err(e) => e.kind() != io::ErrorKind::NotFound,
            };
            if !locked {
                remove(&entry.path());
                gone.push(entry.path());
            }
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_is_kept_by_whoever_has_the_other_end() {
        // A process that another test of this program starts has the other end as well, until it calls exec.
        assert!((0..100).any(|_| is_removed_with_its_last_end()));
    }

    fn is_removed_with_its_last_end() -> bool {
        let mut place = Place::make().unwrap();
        let fifo = place.fifo().unwrap();
        place.show(&fifo).unwrap();
        assert_eq!((fifo.put(2), fifo.take(1)), (2, 1));
        assert_eq!(fifo.bytes(), 1);
        let heir = place.heir().try_clone_to_owned().unwrap();
        let path = place.name();
        drop(fifo);
        // As if by SIGKILL: chappe's ends are closed, and the directory stays.
        (place.queue, place.heir) = UnixStream::pair().unwrap();
        // A fifo that no process has open would be empty.
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        assert_eq!(file.read(&mut [0]).unwrap(), 1);
        drop((heir, place));
        let is_removed = !path.exists();
        if !is_removed {
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
        is_removed
    }

    #[test]
    fn news_tell_who_came_and_went() {
        let mut place = Place::make().unwrap();
        let fifo = place.fifo().unwrap();
        place.show(&fifo).unwrap();
        assert_eq!(place.news(), []);
        drop(open(&fs::canonicalize(place.name()).unwrap(), 0).unwrap());
        // A process that another test has just forked closes its copy later.
        let mut all = place.news();
        while !all.iter().any(|n| n.closed) {
            std::thread::yield_now();
            all.extend(place.news());
        }
        assert!(all.iter().all(|n| n.watch == fifo.watch));
        assert_eq!((all.iter().filter(|n| n.opened).count(), all.iter().filter(|n| n.closed).count()), (1, 1));
    }

    #[test]
    fn only_plain_paths_are_taken() {
        assert!(is_plain(Path::new("/tmp/a-b_c.d")));
        for bad in ["/tmp/a b", "relative", "/tmp/$x", "/tmp/a#b", "/tmp/\u{e4}"] {
            assert!(!is_plain(Path::new(bad)), "{bad}");
        }
    }
}
