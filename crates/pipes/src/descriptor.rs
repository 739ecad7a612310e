//! A pipe's end as one process has it. All calls are made without the C library's wrappers, which are the program's own entry to a lane and
//! at which a thread may be cancelled.

use crate::place::{Place, RING, WIDE};
use crate::report::Count;
use chappe_lane::Pipe;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// What the kernel's pipe may hold where a lane begins: what a new one holds. More would not leave room for the ring.
const NARROW: libc::c_int = 64 << 10;

/// A descriptor of a pipe, with the memory of its lane.
pub struct Descriptor<'a> {
    fd: RawFd,
    place: &'a Place,
    /// The bytes that the kernel has moved.
    moved: &'a Count,
}

impl<'a> Descriptor<'a> {
    /// The caller keeps the descriptor open.
    pub fn new(fd: RawFd, place: &'a Place) -> Descriptor<'a> {
        static UNASKED: Count = Count::new();
        Descriptor::counted(fd, place, &UNASKED)
    }

    /// The same, and what the kernel's read(2) and write(2) bring is counted.
    pub fn counted(fd: RawFd, place: &'a Place, moved: &'a Count) -> Descriptor<'a> {
        Descriptor { fd, place, moved }
    }

    fn count(&self, moved: io::Result<usize>) -> io::Result<usize> {
        self.moved.add(*moved.as_ref().unwrap_or(&0) as u64);
        moved
    }

    fn control(&self, what: libc::c_int, argument: libc::c_int) -> libc::c_int {
        // SAFETY: a call that touches no memory of this process.
        unsafe { libc::syscall(libc::SYS_fcntl, self.fd, what, argument) as libc::c_int }
    }

    /// Another descriptor of the same pipe, which does not block. `O_RDWR`: the kernel raises no signal though all readers end meanwhile. In a
    /// process that has no number left, one more is allowed for the moment, as far as its hard limit goes. A child that another thread forks
    /// meanwhile has it too, until exec: a program with threads that fork waits for its demoters.
    fn second(&self) -> io::Result<RawFd> {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let mut path = [0; 32];
        io::Write::write_fmt(&mut &mut path[..], format_args!("/proc/thread-self/fd/{}", self.fd))?;
        // SAFETY: a path that ends in 0.
        let open = || answer(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) });
        let full = |why: &io::Error| why.raw_os_error() == Some(libc::EMFILE);
        open().or_else(|why| if full(&why) { with_one_more(open) } else { Err(why) }).map(|fd| fd as RawFd)
    }

    /// Whether this process may push: another user's pipe may not be opened again. Asked before the lane is used.
    pub fn may_push(&self) -> bool {
        let second = self.second();
        // SAFETY: a descriptor that this has opened.
        second.map(|fd| unsafe { libc::syscall(libc::SYS_close, fd) }).is_ok()
    }

    /// Whether the kernel says of this end, which is for writing, that no reader is left.
    fn is_unread(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.fd, events: 0, revents: 0 };
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: one descriptor to ask for, and a time, which the kernel writes.
        let told = unsafe { libc::syscall(libc::SYS_ppoll, &raw mut asked, 1usize, &raw mut now, no_mask, 8usize) };
        told > 0 && asked.revents & libc::POLLERR != 0
    }
}

/// Whether this end is asked for bytes alone: neither for packets, nor for a signal for each call of the other end, which the kernel does not send
/// for what goes through a ring.
pub fn is_stream(fd: RawFd) -> bool {
    // SAFETY: a call that touches no memory of this process.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) } as libc::c_int;
    flags >= 0 && flags & (libc::O_DIRECT | libc::O_ASYNC) == 0
}

/// The process of which a thread has raised the limit: in a child that was forked meanwhile, nobody.
static RAISED_BY: AtomicI32 = AtomicI32::new(0);

/// One thread of the process at a time. The standard library's lock would stay locked in a forked child for ever.
struct Raising;

impl Raising {
    fn begin() -> Raising {
        // SAFETY: takes nothing, cannot fail.
        let this = unsafe { libc::getpid() };
        loop {
            let by = RAISED_BY.load(Ordering::Relaxed); // Relaxed: the swap decides.
            // Acquire: behind the end of the one before. Relaxed where it fails: it is loaded again.
            if by != this && RAISED_BY.compare_exchange(by, this, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Raising;
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
            let nowhere = std::ptr::null_mut::<libc::timespec>();
            // SAFETY: a time. Not the C library's call, at which a thread may be cancelled.
            unsafe { libc::syscall(libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC, 0, &raw const pause, nowhere) };
        }
    }
}

impl Drop for Raising {
    fn drop(&mut self) {
        RAISED_BY.store(0, Ordering::Release); // Release: as above.
    }
}

/// The hard limit on descriptors in place of the soft one, for a moment. A child that another thread forks meanwhile keeps it. What the program
/// itself sets meanwhile stays, unless that is between the last look and the call.
fn with_one_more<R>(act: impl Fn() -> io::Result<R>) -> io::Result<R> {
    let limit = |new: Option<&libc::rlimit>| {
        let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: a limit, and a place for one.
        answer(unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, new, &raw mut old) }).map(|_| old)
    };
    let _alone = Raising::begin();
    let old = limit(None)?;
    if old.rlim_cur >= old.rlim_max {
        return act();
    }
    limit(Some(&libc::rlimit { rlim_cur: old.rlim_max, ..old }))?;
    let result = act();
    if limit(None).is_ok_and(|now| (now.rlim_cur, now.rlim_max) == (old.rlim_max, old.rlim_max)) {
        // It has succeeded a moment ago; and what was done is done.
        let _ = limit(Some(&old));
    }
    result
}

fn answer(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Pipe for Descriptor<'_> {
    type Error = io::Error;

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: a place for as many bytes.
        self.count(answer(unsafe { libc::syscall(libc::SYS_read, self.fd, into.as_mut_ptr(), into.len()) }))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: as many bytes.
        self.count(answer(unsafe { libc::syscall(libc::SYS_write, self.fd, bytes.as_ptr(), bytes.len()) }))
    }

    fn held(&self) -> u64 {
        let mut count: libc::c_int = 0;
        // SAFETY: a place for the count.
        unsafe { libc::syscall(libc::SYS_ioctl, self.fd, libc::FIONREAD, &raw mut count) };
        count.max(0) as u64
    }

    fn push(&self, bytes: &[u8]) -> io::Result<usize> {
        let second = match self.second() {
            Ok(second) => second,
            Err(_) if self.is_unread() => return Ok(0),
            Err(why) => return Err(why),
        };
        // SAFETY: as many bytes; a descriptor that this has opened.
        unsafe {
            let pushed = answer(libc::syscall(libc::SYS_write, second, bytes.as_ptr(), bytes.len()));
            libc::syscall(libc::SYS_close, second);
            pushed
        }
    }

    fn is_stream(&self) -> bool {
        is_stream(self.fd)
    }

    fn widen(&self) -> bool {
        let size = self.control(libc::F_GETPIPE_SZ, 0);
        (0..=NARROW).contains(&size) && self.control(libc::F_SETPIPE_SZ, WIDE as libc::c_int) >= WIDE as libc::c_int
    }

    fn refusal(&self) -> Option<io::Error> {
        let flags = self.control(libc::F_GETFL, 0);
        (flags >= 0 && flags & libc::O_NONBLOCK != 0).then(|| io::Error::from_raw_os_error(libc::EAGAIN))
    }

    fn interrupted(&self) -> io::Error {
        io::Error::from_raw_os_error(libc::EINTR)
    }

    #[inline]
    fn size(&self) -> u64 {
        RING as u64
    }

    #[inline]
    fn atomic(&self) -> usize {
        libc::PIPE_BUF
    }

    #[inline]
    fn put(&self, at: u64, bytes: &[u8]) {
        self.place.put(at, bytes);
    }

    #[inline]
    fn get(&self, at: u64, into: &mut [u8]) {
        self.place.get(at, into);
    }
}
