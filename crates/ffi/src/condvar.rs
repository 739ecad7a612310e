//! Condition variables: a thread waits at one until the data under a mutex changes.
//!
//! Waiters are woken in the order of arrival. A waiter must test its condition again after waking: it may wake without
//! a cause. If a waiter dies before it has received its notification, the next waiter gets it. Any condition variable
//! goes with any mutex, of the same arena or not.
//!
//! A handle may be used by any number of threads at once, until it is closed.

use crate::failure::{Answer, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::mutex::{Locked, chappe_mutex};
use chappe::Condvar;
use std::ffi::{CStr, c_char, c_int};

/// A handle of a condition variable.
pub struct chappe_condvar(());

/// An answer of a wait, beside CHAPPE_OWNER_DIED: the time was up.
pub const CHAPPE_TIMED_OUT: c_int = 2;
/// An answer of a wait: the condition variable was removed.
pub const CHAPPE_CONDVAR_REMOVED: c_int = 4;

impl Object for Condvar {
    type Name = chappe_condvar;
    const KIND: u32 = 6;
    const REFUSAL: &'static CStr =
        c"this is no open handle of a condition variable: NULL, closed already, or of something else";
}

fn opened(condvar: *mut *mut chappe_condvar, make: impl FnOnce() -> Answer<Condvar>) -> c_int {
    done(|| {
        let place = input::place(condvar)?;
        place.write(handle::open_as(make)?);
        Ok(())
    })
}

/// Makes a condition variable for the threads of this process. It goes when the handle is closed.
///
/// Errors: -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects; -ENOMEM if there is no address space for what is
/// private.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_private(condvar: *mut *mut chappe_condvar) -> c_int {
    opened(condvar, || Ok(Condvar::private()?))
}

/// Opens the condition variable of this name.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_open(name: *const c_char, condvar: *mut *mut chappe_condvar) -> c_int {
    opened(condvar, || Ok(Condvar::open(input::name(name)?)?))
}

/// Makes the condition variable of this name, which must not be there, and its arena if need be.
///
/// Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as `chappe_condvar_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_create(name: *const c_char, condvar: *mut *mut chappe_condvar) -> c_int {
    opened(condvar, || Ok(Condvar::create(input::name(name)?)?))
}

/// Opens the condition variable of this name, or makes it.
///
/// Errors: as `chappe_condvar_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_open_or_create(name: *const c_char, condvar: *mut *mut chappe_condvar) -> c_int {
    opened(condvar, || Ok(Condvar::open_or_create(input::name(name)?)?))
}

/// Closes a handle. A private condition variable goes with it, a named one stays. No other thread may be in a call with this handle,
/// or call with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_close(condvar: *mut chappe_condvar) -> c_int {
    done(|| handle::close::<Condvar>(condvar).map(drop))
}

/// Removes the condition variable of this name. One with a waiter is refused unless `force`: then waiters get
/// CHAPPE_CONDVAR_REMOVED.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_condvar_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Condvar::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_name(condvar: *const chappe_condvar, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Condvar>(condvar)?.name()))
}

fn wait(condvar: *mut chappe_condvar, mutex: *mut chappe_mutex, limit: Answer<Limit>) -> c_int {
    answer(|| {
        let (condvar, locked, limit) = (handle::get::<Condvar>(condvar)?, handle::get::<Locked>(mutex)?, limit?);
        let guard = locked.guard()?;
        let (result, timed_out) = match limit {
            Limit::Within(duration) => condvar.wait_timeout(guard, duration),
            Limit::Forever | Limit::Now => (condvar.wait(guard), false),
        };
        let (answered, is_gone) = locked.again(result)?;
        let more = |is_so: bool, flag: c_int| if is_so { flag } else { 0 };
        Ok(answered | more(timed_out, CHAPPE_TIMED_OUT) | more(is_gone, CHAPPE_CONDVAR_REMOVED))
    })
}

/// Unlocks the mutex, waits to be notified, and locks it again. The first two steps are atomic: the waiter misses no
/// notification of a thread that locks the mutex in between. The mutex must have been locked by this thread with this
/// handle.
///
/// Answers 0 or more if the mutex is locked again: the sum of what is true of CHAPPE_OWNER_DIED (which see) and
/// CHAPPE_CONDVAR_REMOVED.
///
/// Errors: -EPERM if the mutex is not locked by this thread with this handle, and -EBADF: nothing was done. All others, which are
/// those of `chappe_mutex_lock`: the mutex is not locked any more.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_wait(condvar: *mut chappe_condvar, mutex: *mut chappe_mutex) -> c_int {
    wait(condvar, mutex, Ok(Limit::Forever))
}

/// As `chappe_condvar_wait`, waiting at most for `ns` nanoseconds to be notified; then CHAPPE_TIMED_OUT is in the answer.
///
/// Errors: -EINVAL if `ns` is negative, and nothing was done; else as `chappe_condvar_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_wait_timeout(
    condvar: *mut chappe_condvar,
    mutex: *mut chappe_mutex,
    ns: i64,
) -> c_int {
    wait(condvar, mutex, input::within(ns))
}

/// As `chappe_condvar_wait_timeout`, until `at` (see `chappe_now`).
///
/// Errors: as `chappe_condvar_wait_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_wait_deadline(
    condvar: *mut chappe_condvar,
    mutex: *mut chappe_mutex,
    at: i64,
) -> c_int {
    wait(condvar, mutex, input::until(at))
}

/// Wakes the waiter that came first, if there is one. Never waits.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_notify_one(condvar: *mut chappe_condvar) -> c_int {
    done(|| {
        handle::get::<Condvar>(condvar)?.notify_one();
        Ok(())
    })
}

/// Wakes all present waiters. Never waits.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_notify_all(condvar: *mut chappe_condvar) -> c_int {
    done(|| {
        handle::get::<Condvar>(condvar)?.notify_all();
        Ok(())
    })
}
