//! The pipes of this process: what is known of each descriptor, when a lane is begun, and when it is left.
//!
//! ```text
//!   unseen --first call--> COUNTED --enough, and the end is this process' alone--> OWNED --another call, or the other end--> the kernel's
//!                             '------------- not to be had -----------------------------------------------------------------^
//! ```
//!
//! - I1 What is kept of a number is true as long as it is open: before each close it is forgotten, and until the close is over its calls are the
//!   kernel's ([`replace`]).
//! - I2 An end that owns a lane is the only one of its process for that pipe and direction: the first use of a second descriptor leaves it.
//! - I3 There is one thread (`gate`). A signal handler of it may come here at any point but where signals are kept out: then it finds either
//!   what was before, or what is behind.
//! - I4 No lane begins while the thread is in a call that the kernel may begin again behind a handler (`SA_RESTART`), or is about to make: its
//!   bytes would pass the lane by. A lane that was there before the call is told by its own words.
//! - I5 A lane whose demotion fails (no number for a descriptor, no `/proc`) stays, and so does its refusal: each call on that pipe tries again,
//!   and fails with the same error until one has succeeded. A descriptor is closed all the same: the other end's owner demotes.
//!
//! Nothing here allocates: the handler may have come out of the program's allocator.

use crate::{asked, gate};
use chappe_lane::{Lane, Reader, Writer};
use chappe_pipes::{Descriptor, EndRow, Place, is_stream};
use libc::{c_int, c_long};
use std::cell::{Cell, OnceCell};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, compiler_fence};

/// A look at all processes costs milliseconds: what a pipe has to bring before, in bytes or calls, and how much longer it takes after one in
/// vain.
const BYTES: u64 = 16 << 20;
const CALLS: u64 = 1 << 14;
const LONGER: u64 = 4;
/// The same of a pipe that this process has made, of which nothing has to be looked for: a lane's memory takes as long as some hundred calls.
const OWN_BYTES: u64 = 1 << 20;
const OWN_CALLS: u64 = 1 << 8;
/// How much a reader brings between two looks whether its writer has begun.
const LOOK: u64 = 64;
/// What one system call moves at most.
const MOST: usize = 0x7fff_f000;

const NUMBERS: usize = 1024;
const ENDS: usize = 32;

/// Why an end has no lane any more.
const SECOND: &str = "another descriptor of it";
const OTHER: &str = "its other end has left";

/// Of a descriptor: nothing is known yet.
const UNSEEN: u8 = 0;
/// All calls are the kernel's.
const KERNELS: u8 = 1;
/// It is this one of the ends, and those behind it.
const FIRST: u8 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Reads,
    Writes,
}

enum Owner {
    Reader(Reader<'static, Descriptor<'static>>),
    Writer(Writer<'static, Descriptor<'static>>),
}

/// One end of a pipe.
struct End {
    is_used: Cell<bool>,
    fd: Cell<RawFd>,
    role: Cell<Role>,
    /// The pipe's.
    number: Cell<u64>,
    /// What it has brought: for this process alone, or in the run's report.
    row: Cell<&'static EndRow>,
    /// With how many of either a lane is tried next.
    enough: Cell<(u64, u64)>,
    is_plain: Cell<bool>,
    /// This process has made the pipe, and hands nothing on: nobody else has it.
    is_own: Cell<bool>,
    // Never taken away again: the memory of words that are owned stays.
    place: OnceCell<Place>,
    descriptor: OnceCell<Descriptor<'static>>,
    owner: OnceCell<Owner>,
}

struct State {
    numbers: [Cell<u8>; NUMBERS],
    ends: [End; ENDS],
    /// The thread is in one of the calls here: I4.
    is_calling: Cell<bool>,
    /// Where the thread has its errno. Null: not asked yet.
    errno: Cell<*mut c_int>,
}

// SAFETY: there is one thread: I3.
unsafe impl Sync for State {}

/// What an end counts in that is not used.
static NOBODYS: EndRow = EndRow::new();
/// And one that nobody else wants to know of.
static OWN: [EndRow; ENDS] = [const { EndRow::new() }; ENDS];

static STATE: State = State {
    numbers: [const { Cell::new(UNSEEN) }; NUMBERS],
    ends: [const {
        End {
            is_used: Cell::new(false),
            fd: Cell::new(-1),
            role: Cell::new(Role::Reads),
            number: Cell::new(0),
            row: Cell::new(&NOBODYS),
            enough: Cell::new((0, 0)),
            is_plain: Cell::new(false),
            is_own: Cell::new(false),
            place: OnceCell::new(),
            descriptor: OnceCell::new(),
            owner: OnceCell::new(),
        }
    }; ENDS],
    is_calling: Cell::new(false),
    errno: Cell::new(std::ptr::null_mut()),
};

/// A call, which is told whether it is within another one: it comes from a handler then.
#[inline]
fn calling<R>(call: impl FnOnce(bool) -> R) -> R {
    let is_within = STATE.is_calling.replace(true);
    // SeqCst, of the compiler alone: a handler that comes behind the call's look at its end begins no lane.
    compiler_fence(Ordering::SeqCst);
    let result = call(is_within);
    compiler_fence(Ordering::SeqCst); // SeqCst: nor one that comes before the kernel's call is over.
    STATE.is_calling.set(is_within);
    result
}

/// The answer of a call that fails for this reason.
fn refused(why: c_int) -> isize {
    set_errno(why);
    -1
}

/// read(2).
///
/// # Safety
/// Room for as many bytes, or none at all and the kernel says so.
#[inline]
pub unsafe fn read(fd: RawFd, into: *mut u8, len: usize) -> isize {
    // SAFETY: the caller's.
    let kernels = || unsafe { libc::syscall(libc::SYS_read, fd, into, len) as isize };
    calling(|is_within| match find(fd, Role::Reads) {
        Ok(Some(end)) => {
            if let Some(Owner::Reader(reader)) = end.owner_by_now(is_within) {
                // SAFETY: the caller's. The kernel moves no more at once, either.
                let into = unsafe { std::slice::from_raw_parts_mut(present(into), len.min(MOST)) };
                return end.answer(|| reader.read(into));
            }
            end.count(kernels())
        }
        Ok(None) => kernels(),
        Err(why) => refused(why),
    })
}

/// write(2).
///
/// # Safety
/// As many bytes, or none at all and the kernel says so.
#[inline]
pub unsafe fn write(fd: RawFd, from: *const u8, len: usize) -> isize {
    // SAFETY: the caller's.
    let kernels = || unsafe { libc::syscall(libc::SYS_write, fd, from, len) as isize };
    calling(|is_within| match find(fd, Role::Writes) {
        Ok(Some(end)) => {
            if let Some(Owner::Writer(writer)) = end.owner_by_now(is_within) {
                // SAFETY: the caller's. The kernel moves no more at once, either.
                let from = unsafe { std::slice::from_raw_parts(present(from.cast_mut()), len.min(MOST)) };
                return end.answer(|| writer.write(from));
            }
            end.count(kernels())
        }
        Ok(None) => kernels(),
        Err(why) => refused(why),
    })
}

/// An address that no slice may not have.
fn present(at: *mut u8) -> *mut u8 {
    if at.is_null() { std::ptr::dangling_mut() } else { at }
}

/// A call behind which the descriptor is no more, or another file: its pipe's lane is left before.
pub fn replace(fd: RawFd, name: &str, call: impl FnOnce() -> c_int) -> c_int {
    calling(|_| {
        let Some((number, end)) = known(fd) else { return call() };
        if end.is_some() {
            without_signals(|| forget(fd, name));
        }
        number.set(KERNELS);
        let result = call();
        number.set(UNSEEN);
        result
    })
}

fn forget(fd: RawFd, by: &str) {
    let Some((number, Some(end))) = known(fd) else { return };
    // What is refused here is left to the other end's owner. I5. From here on the number is another file's, into which nothing is pushed.
    let _ = end.leave(by);
    end.is_plain.set(true);
    // Its memory stays its own, and so it is not used again.
    end.is_used.set(end.place.get().is_some());
    end.fd.set(-1);
    number.set(KERNELS);
}

/// A call that knows nothing of lanes, on this descriptor, or on any: its pipe's lane is left for good before.
pub fn apart(fd: Option<RawFd>, name: &str, call: impl FnOnce() -> c_long) -> c_long {
    calling(|_| match fd.map_or_else(|| leave_all(name), |fd| leave(fd, name)) {
        Ok(()) => call(),
        Err(why) => refused(why) as c_long,
    })
}

fn leave(fd: RawFd, by: &str) -> Result<(), c_int> {
    match known(fd) {
        Some((_, Some(end))) => without_signals(|| end.leave(by)),
        Some((number, None)) if number.get() == KERNELS => Ok(()),
        // It may be another descriptor of a pipe that has one.
        _ => leave_all(by),
    }
}

fn leave_all(by: &str) -> Result<(), c_int> {
    if STATE.ends.iter().any(End::has_lane) {
        // All of them, also behind one that is refused.
        return without_signals(|| STATE.ends.iter().map(|end| end.leave(by)).fold(Ok(()), Result::and));
    }
    Ok(())
}

fn known(fd: RawFd) -> Option<(&'static Cell<u8>, Option<&'static End>)> {
    let number = STATE.numbers.get(usize::try_from(fd).ok()?)?;
    Some((number, number.get().checked_sub(FIRST).map(|at| &STATE.ends[usize::from(at)])))
}

/// The end that this descriptor is, if calls of this kind on it are not just the kernel's, or are counted.
#[inline]
fn find(fd: RawFd, role: Role) -> Result<Option<&'static End>, c_int> {
    Ok(match known(fd) {
        Some((_, Some(end))) => (end.role.get() == role).then_some(end),
        Some((number, None)) if number.get() == KERNELS => None,
        Some((number, None)) => without_signals(|| first(fd, number))?.filter(|end| end.role.get() == role),
        // A number for which there is no place: it may be another one of a pipe that has a lane.
        None => {
            leave_all(SECOND)?;
            None
        }
    })
}

/// The program has made a pipe, since it is known to be understood.
pub fn made(both: [RawFd; 2]) {
    for (fd, role) in both.into_iter().zip([Role::Reads, Role::Writes]) {
        if let Ok(Some(end)) = find(fd, role) {
            end.is_own.set(true);
            end.enough.set((OWN_CALLS, OWN_BYTES));
        }
    }
}

/// The first call on a descriptor. An error: its pipe has a lane that cannot be left, and the next call is the first again.
#[cold]
fn first(fd: RawFd, seen: &Cell<u8>) -> Result<Option<&'static End>, c_int> {
    let Some(number) = pipe_number(fd) else {
        // Also what is no descriptor: it may be one at the next call.
        // SAFETY: touches no memory.
        if unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) } >= 0 {
            seen.set(KERNELS);
        }
        return Ok(None);
    };
    // SAFETY: touches no memory.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) } as c_int;
    let role = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Some(Role::Reads),
        libc::O_WRONLY => Some(Role::Writes),
        _ => None,
    };
    let mut is_second = role.is_none();
    for end in STATE.ends.iter().filter(|end| end.is_used.get() && end.number.get() == number) {
        let is_same = role.is_none_or(|role| role == end.role.get());
        // I2. One that comes while the other end has a lane has been opened since its proof.
        end.leave(SECOND)?;
        if is_same {
            end.give_up(SECOND);
        }
        is_second |= is_same;
    }
    let free = STATE.ends.iter().position(|end| !end.is_used.get()).filter(|_| !is_second);
    let (Some(at), Some(role)) = (free, role) else {
        seen.set(KERNELS);
        return Ok(None);
    };
    let end = &STATE.ends[at];
    end.fd.set(fd);
    end.role.set(role);
    end.number.set(number);
    end.row.set(asked::row(number, role == Role::Writes).unwrap_or_else(|| OWN[at].cleared()));
    end.enough.set((CALLS, BYTES));
    end.is_plain.set(false);
    end.is_own.set(false);
    end.is_used.set(true);
    seen.set(FIRST + at as u8);
    Ok(Some(end))
}

impl End {
    /// What owns its lane. Before that, a lane is begun, if it is time, and this call is not within another one: I4.
    #[inline]
    fn owner_by_now(&'static self, is_within: bool) -> Option<&'static Owner> {
        if self.is_plain.get() {
            return None;
        }
        let owner = self.owner.get();
        if owner.is_some() {
            return owner;
        }
        let ((calls, bytes), (had_calls, had_bytes)) = (self.enough.get(), self.row.get().kernel.now());
        if !is_within && (had_calls >= calls || had_bytes >= bytes) {
            without_signals(|| self.begin());
        }
        self.owner.get().filter(|_| !self.is_plain.get())
    }

    /// Behind a call of the kernel's.
    fn count(&self, moved: isize) -> isize {
        self.row.get().kernel.add(moved.max(0) as u64);
        moved
    }

    /// A call of the lane's, as the C library has it: errno stays if it succeeds.
    #[inline]
    fn answer(&self, call: impl FnOnce() -> std::io::Result<usize>) -> isize {
        let kept = errno();
        let result = call();
        if self.place.get().is_some_and(|place| place.words().is_plain()) {
            self.row.get().why(format_args!("{OTHER}"));
            self.is_plain.set(true);
        }
        match result {
            Ok(count) => {
                self.row.get().lane.add(count as u64);
                set_errno(kept);
                count as isize
            }
            Err(why) => {
                set_errno(why.raw_os_error().unwrap_or(libc::EIO));
                -1
            }
        }
    }

    /// Owns a lane, if that can be had now.
    #[cold]
    fn begin(&'static self) {
        let (calls, bytes) = self.enough.get();
        if self.role.get() == Role::Reads && self.place.get().is_none() && !asked::meeting().is_begun(self.number.get())
        {
            let (calls, bytes) = self.row.get().kernel.now();
            self.row.get().why(format_args!("its writer has begun nothing"));
            return self.enough.set((calls + LOOK, bytes + BYTES / LOOK));
        }
        // The program may have asked since it was tried last.
        if !is_stream(self.fd.get()) {
            return self.give_up("it is asked for signals, or for packets");
        }
        if !gate::has_no_system_calls() {
            return self.give_up("the program makes system calls of its own");
        }
        // The reader whose writer was in a call goes on from here.
        if self.place.get().is_none() {
            self.enough.set((calls * LONGER, bytes * LONGER));
            let Some(is_alone) = self.is_alone() else {
                return self.row.get().why(format_args!("what other processes have cannot be told"));
            };
            if !is_alone {
                return self.row.get().why(format_args!("another process has this end, too"));
            }
            let met = match self.role.get() {
                Role::Reads => asked::meeting().join(self.number.get()),
                Role::Writes => asked::meeting().begin(self.number.get()).map(Some),
            };
            match met {
                Ok(Some(place)) => _ = self.place.set(place),
                Ok(None) => return,
                Err(_) => return self.give_up("there is no room for its memory"),
            }
        }
        let Some(place) = self.place.get() else { return };
        let within = &self.row.get().within;
        let pipe = self.descriptor.get_or_init(|| Descriptor::counted(self.fd.get(), place, within));
        let lane = Lane { words: place.words(), pipe };
        let owner = match self.role.get() {
            Role::Reads if place.words().is_plain() => return self.give_up(OTHER),
            Role::Reads if !lane.catch_up() => {
                // The writer is in write(2): at the next call.
                return self.enough.set((self.row.get().kernel.now().0 + 1, u64::MAX));
            }
            Role::Reads => lane.reader().map(|reader| reader.map(Owner::Reader)),
            Role::Writes if pipe.may_push() && lane.begin_late() => {
                lane.writer().map(|writer| writer.map(Owner::Writer))
            }
            Role::Writes => Ok(None),
        };
        match owner {
            Ok(Some(owner)) => {
                if matches!(owner, Owner::Reader(_)) {
                    asked::meeting().end(self.number.get());
                }
                let _ = self.owner.set(owner);
                self.row.get().begun();
            }
            // A lane that is closed has nothing in its ring before its reader has come.
            _ => self.give_up("it may not be opened again, or made larger"),
        }
    }

    /// Whether no other process has this end, if that can be told.
    fn is_alone(&self) -> Option<bool> {
        if self.is_own.get() {
            return Some(true);
        }
        asked::run().others(self.fd.get()).map(|others| match self.role.get() {
            Role::Reads => !others.read,
            Role::Writes => !others.write,
        })
    }

    /// There is no lane, and will be none.
    fn give_up(&self, why: &str) {
        self.row.get().why(format_args!("{why}"));
        if self.place.get().is_some() {
            asked::meeting().end(self.number.get());
        }
        self.is_plain.set(true);
    }

    /// Whether it has begun one, which it has not left.
    fn has_lane(&self) -> bool {
        self.is_used.get() && self.place.get().is_some() && !self.is_plain.get()
    }

    /// If it has a lane, all calls are the kernel's from here on. An error: I5.
    fn leave(&self, by: &str) -> Result<(), c_int> {
        if !self.has_lane() {
            return Ok(());
        }
        let left = match self.owner.get() {
            Some(Owner::Reader(reader)) => reader.demote(),
            Some(Owner::Writer(writer)) => writer.demote(),
            None => Ok(()),
        };
        left.map_err(|why| why.raw_os_error().unwrap_or(libc::EIO))?;
        self.give_up(by);
        Ok(())
    }
}

/// The number of a descriptor's pipe. None: it is no pipe.
pub fn pipe_number(fd: RawFd) -> Option<u64> {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a place for the facts, which the call fills where it succeeds.
    unsafe {
        if libc::syscall(libc::SYS_fstat, fd, facts.as_mut_ptr()) != 0 {
            return None;
        }
        let facts = facts.assume_init();
        (facts.st_mode & libc::S_IFMT == libc::S_IFIFO).then_some(facts.st_ino)
    }
}

/// No handler runs meanwhile, and errno stays.
fn without_signals<R>(act: impl FnOnce() -> R) -> R {
    let kept = errno();
    let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: both are places for masks, which the calls fill.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = act();
    // SAFETY: the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    set_errno(kept);
    result
}

#[inline]
fn errno() -> c_int {
    // SAFETY: the thread's own.
    unsafe { *errno_place() }
}

#[inline]
fn set_errno(to: c_int) {
    // SAFETY: as above.
    unsafe { *errno_place() = to };
}

/// There is one thread, so it is always the same.
#[inline]
fn errno_place() -> *mut c_int {
    let at = STATE.errno.get();
    if !at.is_null() {
        return at;
    }
    // SAFETY: the C library's.
    let at = unsafe { libc::__errno_location() };
    STATE.errno.set(at);
    at
}
