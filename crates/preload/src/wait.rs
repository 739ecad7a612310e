//! Waiting: what `sem_wait` and its kin do when there is nothing to take at once.
//!
//! A wait ends with a unit, at its time limit, with EINTR (as the kernel does, and so the C library: an untimed wait goes on under
//! SA_RESTART, a timed one never does), or with the thread's cancellation. What can unwind, the test for a cancellation, stands in frames
//! that own nothing; cancellation is off in all others (`shield`).
//!
//! A thread that can be no member of the arena waits by looking again and again: if the arena has no slot left, if no thread can be
//! started, and in a thread so near its end that it has no local data any more. Such a wait has no place in the queue, and answers EINTR
//! whatever SA_RESTART says.
//!
//! A handler that has interrupted a wait may wait itself, or leave it by a jump (`siglongjmp`). POSIX allows neither, and both work with
//! the C library. So each thread notes where on its stack it waits. A wait from further down the stack while that frame is there (`stack`)
//! is a handler's, and looks again and again. A wait from above, or from where that frame was, comes after a jump: what the earlier wait
//! left half-way is given up first. (A jump within the first nanoseconds, before the note, or after what was granted is taken, takes a unit
//! along, as it does with the C library. If the stack cannot be walked, a wait from further down is taken for a handler's.)
//!
//! A limit on CLOCK_REALTIME is checked again when the time is up by the monotonic clock: a clock that was set back makes no wait end too
//! early. A clock that was set forward is not noticed during the wait: it ends when as much time has passed as was to pass at its
//! beginning.

use crate::cancel::{self, Listener};
use crate::forks;
use crate::place::Found;
use crate::shield::{back, contained, errno, fail, off, set_errno, test, without_signals};
use crate::{place, real, stack, word};
use chappe::{DownError, Interrupt, ObjectId, interruptible};
use libc::{c_int, clockid_t, sem_t, timespec};
use std::cell::Cell;
use std::time::Duration;

/// How often a waiter that cannot be woken looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How long to wait.
#[derive(Clone, Copy)]
pub enum Limit {
    /// For ever.
    Never,
    /// Until this clock shows this time.
    At(clockid_t, timespec),
}

impl Limit {
    /// What is left; none if there is no limit.
    fn left(self) -> Option<Duration> {
        let Limit::At(clock, at) = self else { return None };
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place for the time; the clock is one of two that are always there.
        unsafe { libc::clock_gettime(clock, &mut now) };
        let ns = |t: timespec| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec);
        let left = u64::try_from((ns(at) - ns(now)).max(0)).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(left))
    }
}

/// How a turn of a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// With this errno, or 0.
    Over(c_int),
    /// It is to be gone on with, after a look whether the thread is cancelled.
    Again,
}

/// Waits.
///
/// # Safety
/// `at` must point to a `sem_t`. The caller's frame must own nothing.
#[inline(never)]
pub unsafe fn slowly(at: *mut sem_t, limit: Limit) -> c_int {
    // SAFETY: the caller's.
    let Some((kind, spot)) = (unsafe { place::find(at) }) else {
        // SAFETY: the caller's.
        return unsafe { theirs(at, limit) };
    };
    let kept = errno();
    let frame = &raw const kept as usize;
    let mut from = From::Nothing;
    if HALF.get().frame != 0 {
        from = contained(From::Nothing, || comes_from(frame));
        back(from == From::Jump(true));
    }
    let listener = if from == From::Handler { None } else { cancel::mine() };
    loop {
        if let Some(listener) = listener {
            listener.arm();
        }
        test();
        let was_on = off();
        // What is not acted upon now need not be heard.
        let listener = listener.filter(|listener| was_on || listener.disarm());
        let half = Half { frame, kind, spot, was_on };
        let turn = contained(Turn::Over(libc::EINVAL), || match from {
            From::Handler => Found::at(kind, spot).map_or(Turn::Over(libc::EINVAL), |found| look(&found, limit)),
            _ => turn(half, limit, listener),
        });
        back(was_on);
        match turn {
            Turn::Over(0) => {
                set_errno(kept);
                return 0;
            }
            Turn::Over(e) => return fail(e),
            Turn::Again => {}
        }
    }
}

/// The wait on a semaphore that is not this library's, or that is broken.
///
/// # Safety
/// As [`slowly`].
unsafe fn theirs(at: *mut sem_t, limit: Limit) -> c_int {
    // SAFETY: the caller's, these.
    unsafe {
        if word::read(at) != word::Said::Foreign {
            return fail(libc::EINVAL);
        }
        match limit {
            Limit::Never => real::sem_wait(at),
            Limit::At(libc::CLOCK_REALTIME, t) => real::sem_timedwait(at, &t),
            Limit::At(clock, t) => real::sem_clockwait(at, clock, &t),
        }
    }
}

/// A wait that a thread is in.
#[derive(Clone, Copy)]
struct Half {
    /// An address of its frame; 0 for none.
    frame: usize,
    kind: u64,
    spot: ObjectId,
    /// Whether cancellation was on before.
    was_on: bool,
}

impl Half {
    const NONE: Half = Half { frame: 0, kind: 0, spot: ObjectId { arena: 0, object: 0, generation: 0 }, was_on: false };
}

/// Whether the thread runs on its stack for handlers.
fn is_on_other_stack() -> bool {
    let mut stack = std::mem::MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: a place for the answer, which the call fills.
    unsafe {
        libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()) == 0
            && stack.assume_init().ss_flags & libc::SS_ONSTACK != 0
    }
}

/// What a thread that comes to wait comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// No wait of its own.
    Nothing,
    /// A wait that it has interrupted as a handler.
    Handler,
    /// A wait that it has jumped out of, with cancellation on before it.
    Jump(bool),
}

/// Looks, and gives up what was jumped out of.
#[cold]
fn comes_from(frame: usize) -> From {
    let half = HALF.get();
    let is_of_this_process = HALF_OF.get() == forks::generation();
    let is_on_top = frame < half.frame || is_on_other_stack();
    if is_of_this_process && is_on_top && stack::is_there(frame, half.frame) != Some(false) {
        return From::Handler;
    }
    HALF.set(Half::NONE);
    if !is_of_this_process {
        return From::Nothing;
    }
    if let Some(listener) = cancel::mine() {
        listener.forsake();
    }
    READY.set((0, [0; 4]));
    if let Some(found) = Found::at(half.kind, half.spot) {
        without_signals(|| found.leave());
    }
    From::Jump(half.was_on)
}

thread_local! {
    static HALF: Cell<Half> = const { Cell::new(Half::NONE) };
    /// In which process.
    static HALF_OF: Cell<u32> = const { Cell::new(0) };
    /// The arenas in which this thread can wait without further ado, and in which process that was.
    static READY: Cell<(u32, [u64; 4])> = const { Cell::new((0, [0; 4])) };
}

/// Makes the thread a member of the arena, once, with signals kept out: see `shield`.
fn get_ready(found: &Found, spot: ObjectId) -> Result<(), DownError> {
    let now = forks::generation();
    let (then, arenas) = READY.get();
    let arenas = if then == now { arenas } else { [0; 4] };
    if arenas.contains(&spot.arena) {
        return Ok(());
    }
    without_signals(|| found.prepare())?;
    READY.set((now, [spot.arena, arenas[0], arenas[1], arenas[2]]));
    Ok(())
}

fn turn(half: Half, limit: Limit, listener: Option<&'static Listener>) -> Turn {
    let Half { kind, spot, .. } = half;
    let Some(found) = Found::at(kind, spot) else { return Turn::Over(libc::EINVAL) };
    match get_ready(&found, spot) {
        Ok(()) => {}
        Err(DownError::Dead { .. }) => return Turn::Over(libc::EINVAL),
        Err(_) => return look(&found, limit),
    }
    // A wait that no canceller knows is ended by signals alone.
    let own = Interrupt::new();
    let by = match listener.map(Listener::enter) {
        Some(None) => return Turn::Again,
        Some(Some(by)) => by,
        None => &own,
    };
    HALF_OF.set(forks::generation());
    HALF.set(half);
    let ended = interruptible(by, || found.wait(limit.left()));
    HALF.set(Half::NONE);
    let was_told = listener.is_some_and(Listener::leave);
    match ended {
        Ok(()) => Turn::Over(0),
        Err(DownError::Interrupted) if was_told => Turn::Again,
        Err(DownError::Interrupted) => Turn::Over(libc::EINTR),
        Err(DownError::Dead { .. }) => Turn::Over(libc::EINVAL),
        Err(DownError::Timeout) if limit.left().is_some_and(|left| left.is_zero()) => Turn::Over(libc::ETIMEDOUT),
        // The clock was set back.
        Err(DownError::Timeout | DownError::WouldBlock) => Turn::Again,
        Err(_) => look(&found, limit),
    }
}

/// A turn of a thread that can be no member: a look, and a short sleep.
fn look(found: &Found, limit: Limit) -> Turn {
    match found.take() {
        Ok(()) => return Turn::Over(0),
        Err(DownError::Dead { .. }) => return Turn::Over(libc::EINVAL),
        Err(_) => {}
    }
    let left = limit.left();
    if left.is_some_and(|left| left.is_zero()) {
        return Turn::Over(libc::ETIMEDOUT);
    }
    let nap = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
    let nap = timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()).max(1) };
    // SAFETY: plain data.
    let r = unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &nap, std::ptr::null_mut()) };
    if r == libc::EINTR { Turn::Over(libc::EINTR) } else { Turn::Again }
}
