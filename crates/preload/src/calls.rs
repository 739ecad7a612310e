//! The functions of POSIX that take, give and look.
//!
//! Each has a fast path, which owns nothing, takes no lock, allocates no memory and makes no system call: one compare-and-swap. All else is
//! in a function of its own.

use crate::named::MOST;
use crate::place::{self, Found};
use crate::real;
use crate::shield::{back, contained, errno, fail, off, set_errno, test, without_signals};
use crate::wait::{Limit, slowly};
use crate::word::{self, Said};
use chappe::{DownError, ObjectId, Semaphore, UpError};
use libc::{c_int, c_uint, clockid_t, sem_t, timespec};

/// Takes a unit if the semaphore is intact and a unit is free.
///
/// # Safety
/// `at` must point to a `sem_t`.
#[inline(always)]
unsafe fn take_at_once(at: *const sem_t) -> bool {
    // SAFETY: the caller's.
    unsafe { word::plain(at) }.is_some_and(Semaphore::down_alone)
}

fn is_valid(t: &timespec) -> bool {
    (0..1_000_000_000).contains(&t.tv_nsec)
}

/// POSIX' function: makes a semaphore of `value` units in the memory at `at`.
///
/// # Safety
/// As POSIX has it: `at` points to memory for a `sem_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_init(at: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    if value > MOST {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's.
    unsafe { place::init(at, shared, value) }
}

/// POSIX' function: ends a semaphore of `sem_init`.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_destroy(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's.
    unsafe { place::destroy(at) }
}

/// POSIX' function: takes a unit, waiting for one in the order of arrival. A cancellation point.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(at: *mut sem_t) -> c_int {
    test();
    // SAFETY: the caller's, both.
    if unsafe { take_at_once(at) } { 0 } else { unsafe { slowly(at, Limit::Never) } }
}

/// POSIX' function: the same, at most until CLOCK_REALTIME shows `limit`.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore, `limit` to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(at: *mut sem_t, limit: *const timespec) -> c_int {
    // SAFETY: the caller's.
    let limit = unsafe { *limit };
    if !is_valid(&limit) {
        return fail(libc::EINVAL);
    }
    test();
    let limit = Limit::At(libc::CLOCK_REALTIME, limit);
    // SAFETY: the caller's, both.
    if unsafe { take_at_once(at) } { 0 } else { unsafe { slowly(at, limit) } }
}

/// POSIX' function: the same, by one of the clocks CLOCK_REALTIME and CLOCK_MONOTONIC.
///
/// # Safety
/// As [`sem_timedwait`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(at: *mut sem_t, clock: clockid_t, limit: *const timespec) -> c_int {
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's.
    let limit = unsafe { *limit };
    if !is_valid(&limit) {
        return fail(libc::EINVAL);
    }
    // As in the C library, a thread checks whether it is cancelled only if it has to wait.
    // SAFETY: the caller's, both.
    if unsafe { take_at_once(at) } { 0 } else { unsafe { slowly(at, Limit::At(clock, limit)) } }
}

/// POSIX' function: takes a unit if one is free and no waiter is entitled to it. EAGAIN.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_trywait(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's, both.
    if unsafe { take_at_once(at) } { 0 } else { unsafe { try_slowly(at) } }
}

/// # Safety
/// `at` must point to a `sem_t`. The caller's frame must own nothing.
#[inline(never)]
unsafe fn try_slowly(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's.
    let Some((kind, spot)) = (unsafe { place::find(at) }) else {
        // SAFETY: as above.
        return match unsafe { word::read(at) } {
            // SAFETY: as above.
            Said::Foreign => unsafe { real::sem_trywait(at) },
            _ => fail(libc::EINVAL),
        };
    };
    quietly(|| match Found::at(kind, spot).map(|found| found.take()) {
        Some(Ok(())) => 0,
        Some(Err(DownError::Dead { .. })) | None => libc::EINVAL,
        Some(Err(_)) => libc::EAGAIN,
    })
}

/// POSIX' function: gives a unit back, to the waiter that came first if there is one. A signal handler may call it. Once it has taken
/// effect it does not touch the semaphore any more.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_post(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's.
    if unsafe { word::plain(at) }.is_some_and(Semaphore::up_alone) {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { post_slowly(at) }
}

/// # Safety
/// As [`try_slowly`].
#[inline(never)]
unsafe fn post_slowly(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's.
    let Some((kind, spot)) = (unsafe { place::find(at) }) else {
        // SAFETY: as above.
        return match unsafe { word::read(at) } {
            // SAFETY: as above.
            Said::Foreign => unsafe { real::sem_post(at) },
            _ => fail(libc::EINVAL),
        };
    };
    quietly(|| give(kind, spot))
}

fn give(kind: u64, spot: ObjectId) -> c_int {
    let Some(found) = Found::at(kind, spot) else { return libc::EINVAL };
    // A signal handler may have interrupted any code; a thread that becomes a member here takes locks.
    let given = if found.is_met() { found.give() } else { without_signals(|| found.give()) };
    match given {
        Ok(()) => 0,
        Err(UpError::Overflow { .. }) => libc::EOVERFLOW,
        Err(UpError::Dead { .. }) => libc::EINVAL,
        // It was not given: this thread can be no member.
        Err(_) => match found.give_unseen() {
            Ok(()) => 0,
            Err(UpError::Overflow { .. }) => libc::EOVERFLOW,
            Err(_) => libc::EINVAL,
        },
    }
}

/// POSIX' function: how many units there are. While a thread waits, none.
///
/// # Safety
/// As POSIX has it: `at` points to a semaphore, `value` to a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_getvalue(at: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: the caller's.
    let Some((kind, spot)) = (unsafe { place::find(at) }) else {
        // SAFETY: as above.
        return match unsafe { word::read(at) } {
            // SAFETY: as above.
            Said::Foreign => unsafe { real::sem_getvalue(at, value) },
            _ => fail(libc::EINVAL),
        };
    };
    quietly(|| match Found::at(kind, spot) {
        Some(found) => {
            // SAFETY: the caller's.
            unsafe { *value = found.value() as c_int };
            0
        }
        None => libc::EINVAL,
    })
}

/// Without cancellation and panics, and errno as it was; signals are let in. `act` answers 0 or an errno.
///
/// The caller's frame must own nothing.
fn quietly(act: impl FnOnce() -> c_int) -> c_int {
    let kept = errno();
    let was_on = off();
    let e = contained(libc::EINVAL, act);
    set_errno(if e == 0 { kept } else { e });
    back(was_on);
    if e == 0 { 0 } else { -1 }
}
