//! Semaphores: counters of saved wake-ups.
//!
//! `up` saves a wake-up, or hands it to the waiter that came first; `down` consumes one, or waits. Any thread may `up`:
//! a unit has no owner, and a death returns nothing. If a waiter dies after it was handed a wake-up and before it has
//! returned from `down`, the next waiter gets the wake-up. Waiters are served in the order of arrival, and no newcomer
//! overtakes them, unless the semaphore was made with CHAPPE_BARGING. An `up` and a `down` make no system call while no
//! thread waits.
//!
//! A handle may be used by any number of threads at once, until it is closed. In a forked child the handle of a named semaphore is
//! the same semaphore, that of a private one a copy.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::look::{chappe_waiter, listed};
use crate::process::{CHAPPE_PRIORITY, discipline};
use chappe::{Discipline, Semaphore, raw};
use std::ffi::{CStr, c_char, c_int};

/// A handle of a semaphore.
pub struct chappe_semaphore(());

/// The greatest value of a semaphore.
pub const CHAPPE_SEMAPHORE_MAX: i64 = 2147483647;
const _: () = assert!(CHAPPE_SEMAPHORE_MAX == Semaphore::MAX as i64);

/// Newcomers may overtake waiters that are just waking up: more throughput, and no promise about order.
pub const CHAPPE_BARGING: u32 = 1;

impl Object for Semaphore {
    type Name = chappe_semaphore;
    const KIND: u32 = 3;
    const REFUSAL: &'static CStr = c"this is no open handle of a semaphore: NULL, closed already, or of something else";
}

/// How waiters are served.
enum Serves {
    Barging,
    By(Discipline),
}

fn serves(flags: u32) -> Answer<Serves> {
    input::flags(flags, CHAPPE_BARGING | CHAPPE_PRIORITY)?;
    Ok(match (flags & CHAPPE_BARGING != 0, discipline(flags)) {
        (true, Discipline::Fifo) => Serves::Barging,
        (true, _) => return Err(Failure::new(libc::EINVAL, c"CHAPPE_BARGING and CHAPPE_PRIORITY exclude each other")),
        (false, discipline) => Serves::By(discipline),
    })
}

fn opened(semaphore: *mut *mut chappe_semaphore, make: impl FnOnce() -> Answer<Semaphore>) -> c_int {
    done(|| {
        let place = input::place(semaphore)?;
        place.write(handle::open_as(make)?);
        Ok(())
    })
}

/// Makes a semaphore for the threads of this process, with `value` saved wake-ups. `flags`: 0, CHAPPE_BARGING or CHAPPE_PRIORITY. It
/// goes when the handle is closed.
///
/// Errors: -EINVAL if the value is negative, or a flag is not known; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects;
/// -ENOMEM if there is no address space for what is private.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_private(value: i64, flags: u32, semaphore: *mut *mut chappe_semaphore) -> c_int {
    opened(semaphore, || {
        let value = input::count(value)?;
        Ok(match serves(flags)? {
            Serves::Barging => Semaphore::private_barging(value)?,
            Serves::By(discipline) => Semaphore::private_by(value, discipline)?,
        })
    })
}

/// Opens the semaphore of this name: "ready", or "lab/ready" for one in the arena "lab".
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_open(name: *const c_char, semaphore: *mut *mut chappe_semaphore) -> c_int {
    opened(semaphore, || Ok(Semaphore::open(input::name(name)?)?))
}

/// Makes the semaphore of this name, which must not be there, and its arena if need be. `flags`: 0, CHAPPE_BARGING
/// or CHAPPE_PRIORITY.
///
/// Errors: -EEXIST; -EINVAL if the value is negative or above CHAPPE_SEMAPHORE_MAX, or a flag is not known; -ENOSPC or -EUSERS if
/// the arena is full; -EPROTOTYPE and else as `chappe_semaphore_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_create(
    name: *const c_char,
    value: i64,
    flags: u32,
    semaphore: *mut *mut chappe_semaphore,
) -> c_int {
    opened(semaphore, || {
        let (name, value) = (input::name(name)?, input::count(value)?);
        Ok(match serves(flags)? {
            Serves::Barging => Semaphore::create_barging(name, value)?,
            Serves::By(discipline) => Semaphore::create_by(name, value, discipline)?,
        })
    })
}

/// Opens the semaphore of this name, or makes it with `value` saved wake-ups.
///
/// Errors: as `chappe_semaphore_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_open_or_create(
    name: *const c_char,
    value: i64,
    semaphore: *mut *mut chappe_semaphore,
) -> c_int {
    opened(semaphore, || Ok(Semaphore::open_or_create(input::name(name)?, input::count(value)?)?))
}

/// Closes a handle. A private semaphore goes with it, a named one stays. No other thread may be in a call with this handle, or call
/// with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_close(semaphore: *mut chappe_semaphore) -> c_int {
    done(|| handle::close::<Semaphore>(semaphore).map(drop))
}

/// Removes the semaphore of this name. One with a waiter is refused unless `force`: then waiters get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_semaphore_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Semaphore::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_name(semaphore: *const chappe_semaphore, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Semaphore>(semaphore)?.name()))
}

/// How many wake-ups are saved at this moment. A look, not a promise.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_value(semaphore: *const chappe_semaphore) -> i64 {
    answer(|| Ok(handle::get::<Semaphore>(semaphore)?.value().into()))
}

/// Lists the waiters, in the order in which they will be served: writes as many as have room, answers how many there
/// are.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_waiters(
    semaphore: *const chappe_semaphore,
    to: *mut chappe_waiter,
    room: usize,
) -> isize {
    answer(|| listed(&handle::get::<Semaphore>(semaphore)?.waiters(), to, room, |waiter| waiter.into()))
}

/// Of whatever limit.
pub fn down(semaphore: &Semaphore, limit: Limit) -> Answer<()> {
    match limit {
        Limit::Forever => semaphore.down()?,
        Limit::Now => semaphore.try_down()?,
        Limit::Within(duration) => semaphore.down_timeout(duration)?,
    }
    Ok(())
}

// Out of line, with C's calling convention: the fast path saves no register for these three, and reaches them by a
// jump.
#[inline(never)]
extern "C" fn waited(semaphore: *mut chappe_semaphore) -> c_int {
    done(|| down(handle::get::<Semaphore>(semaphore)?, Limit::Forever))
}

#[inline(never)]
extern "C" fn tried(semaphore: *mut chappe_semaphore) -> c_int {
    done(|| down(handle::get::<Semaphore>(semaphore)?, Limit::Now))
}

#[inline(never)]
extern "C" fn handed_on(semaphore: *mut chappe_semaphore) -> c_int {
    done(|| Ok(handle::get::<Semaphore>(semaphore)?.up()?))
}

/// Consumes a saved wake-up; waits for one, in the order of arrival. A handled signal does not end the wait.
///
/// Errors: -EIDRM if it is or gets removed; -EUSERS if the thread cannot become a member of its arena; -EBADF; the system's, if it
/// refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_down(semaphore: *mut chappe_semaphore) -> c_int {
    if handle::quick::<Semaphore>(semaphore).is_some_and(raw::down_now) { 0 } else { waited(semaphore) }
}

/// Consumes a saved wake-up if there is one and nobody waits for it. Never enters the kernel.
///
/// Errors: -EAGAIN, -EIDRM, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_try_down(semaphore: *mut chappe_semaphore) -> c_int {
    if handle::quick::<Semaphore>(semaphore).is_some_and(raw::down_now) { 0 } else { tried(semaphore) }
}

/// As `chappe_semaphore_down`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_semaphore_down`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_down_timeout(semaphore: *mut chappe_semaphore, ns: i64) -> c_int {
    done(|| down(handle::get::<Semaphore>(semaphore)?, input::within(ns)?))
}

/// As `chappe_semaphore_down`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_semaphore_down_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_down_deadline(semaphore: *mut chappe_semaphore, at: i64) -> c_int {
    done(|| down(handle::get::<Semaphore>(semaphore)?, input::until(at)?))
}

/// Saves a wake-up, or hands it to the waiter that came first. Never waits. Once it has taken effect it does not touch the semaphore
/// any more: the waiter that was woken may remove it.
///
/// A signal handler may call it: of a private semaphore always, of a named one in threads that have used its arena before, and in all
/// after `chappe_semaphore_prepare_handlers`. It may change errno, which a handler has to put back.
///
/// Errors: -EOVERFLOW if its value is CHAPPE_SEMAPHORE_MAX already, and nothing is changed; -EIDRM; -EUSERS; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_up(semaphore: *mut chappe_semaphore) -> c_int {
    if handle::quick::<Semaphore>(semaphore).is_some_and(raw::up_now) { 0 } else { handed_on(semaphore) }
}

/// As `n` times `chappe_semaphore_up`, at once: all of them, or none.
///
/// Errors: -EINVAL if `n` is negative; else as `chappe_semaphore_up`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_up_many(semaphore: *mut chappe_semaphore, n: i64) -> c_int {
    done(|| {
        let semaphore = handle::get::<Semaphore>(semaphore)?;
        match u32::try_from(n) {
            Ok(n) => Ok(semaphore.up_many(n)?),
            Err(_) if n < 0 => Err(Failure::new(libc::EINVAL, c"a semaphore cannot go up a negative number of times")),
            // More than any value.
            Err(_) => Ok(semaphore.up_many(u32::MAX)?),
        }
    })
}

/// Makes ready for `chappe_semaphore_up` in signal handlers of any thread of this process, also of threads that have not used the
/// semaphore's arena before. Once a process; again in a forked child. Private semaphores need it not. It starts a thread that
/// sleeps, and takes one place in the arena.
///
/// Errors: -EUSERS, -EBADF; the system's, if it refuses a thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_prepare_handlers(semaphore: *mut chappe_semaphore) -> c_int {
    done(|| Ok(handle::get::<Semaphore>(semaphore)?.prepare_handlers()?))
}
