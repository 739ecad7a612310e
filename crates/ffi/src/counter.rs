//! Counters: numbers that threads and processes add to, without waiting for each other.
//!
//! An addition is one step: a killed thread has made it, or not; a death takes nothing back. Only a thread's first addition to a named
//! counter waits for a thread that makes or removes an object at that moment.
//!
//! A handle may be used by any number of threads at once, until it is closed.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input;
use chappe::Counter;
use std::ffi::{CStr, c_char, c_int};

/// A handle of a counter.
pub struct chappe_counter(());

/// An answer: nothing was added.
pub const CHAPPE_COUNTER_NO: c_int = 0;
/// An answer: it was added.
pub const CHAPPE_COUNTER_YES: c_int = 1;

/// A counter, where a slot of the table of handles has room for it.
struct Held(Box<Counter>);

impl Object for Held {
    type Name = chappe_counter;
    const KIND: u32 = 13;
    const REFUSAL: &'static CStr = c"this is no open handle of a counter: NULL, closed already, or of something else";
}

fn opened(counter: *mut *mut chappe_counter, make: impl FnOnce() -> Answer<Counter>) -> c_int {
    done(|| {
        let place = input::place(counter)?;
        place.write(handle::open_as(|| make().map(|counter| Held(Box::new(counter))))?);
        Ok(())
    })
}

/// Puts a value where it is wanted.
fn put(to: *mut i64, value: i64) -> Answer<()> {
    if let Some(place) = input::place_if(to)? {
        place.write(value);
    }
    Ok(())
}

/// Makes a counter for the threads of this process, that begins with this value. It goes when the handle is closed.
///
/// Errors: -EFAULT; -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_private(value: i64, counter: *mut *mut chappe_counter) -> c_int {
    opened(counter, || Ok(Counter::private(value)))
}

/// Opens the counter of this name.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_open(name: *const c_char, counter: *mut *mut chappe_counter) -> c_int {
    opened(counter, || Ok(Counter::open(input::name(name)?)?))
}

/// Makes the counter of this name, which must not be there, and its arena if need be.
///
/// Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as `chappe_counter_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_create(name: *const c_char, value: i64, counter: *mut *mut chappe_counter) -> c_int {
    opened(counter, || Ok(Counter::create(input::name(name)?, value)?))
}

/// Opens the counter of this name, whatever its value, or makes it.
///
/// Errors: as `chappe_counter_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_open_or_create(
    name: *const c_char,
    value: i64,
    counter: *mut *mut chappe_counter,
) -> c_int {
    opened(counter, || Ok(Counter::open_or_create(input::name(name)?, value)?))
}

/// Closes a handle. A private counter goes with it, a named one stays. No other thread may be in a call with this handle, or call with it
/// later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_close(counter: *mut chappe_counter) -> c_int {
    done(|| handle::close::<Held>(counter).map(drop))
}

/// Removes the counter of this name. One that another process has changed and may again is refused unless `force`: then its users get
/// -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_counter_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Counter::unmake(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_name(counter: *const chappe_counter, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Held>(counter)?.0.name()))
}

/// Its value.
///
/// Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_get(counter: *const chappe_counter, value: *mut i64) -> c_int {
    done(|| {
        let place = input::place(value)?;
        place.write(handle::get::<Held>(counter)?.0.get()?);
        Ok(())
    })
}

/// Adds; a negative number takes away. What it was before is in `before`, unless that is NULL. Wait-free.
///
/// Errors: -EIDRM if it was removed; -EUSERS if the arena cannot take another member; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_add(counter: *mut chappe_counter, n: i64, before: *mut i64) -> c_int {
    done(|| {
        input::place_if(before)?;
        put(before, handle::get::<Held>(counter)?.0.add(n)?)
    })
}

/// Adds, if the sum is between `least` and `most`. Answers `CHAPPE_COUNTER_YES`, with what it was before in `before`, unless that is NULL; or
/// `CHAPPE_COUNTER_NO`. Lock-free.
///
/// Errors: -EINVAL if `least` is above `most`; else as `chappe_counter_add`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_counter_add_within(
    counter: *mut chappe_counter,
    n: i64,
    least: i64,
    most: i64,
    before: *mut i64,
) -> c_int {
    answer(|| {
        input::place_if(before)?;
        if least > most {
            return Err(Failure::new(libc::EINVAL, c"the least sum that is wanted is above the most"));
        }
        match handle::get::<Held>(counter)?.0.add_within(n, least..=most)? {
            Some(was) => put(before, was).map(|()| CHAPPE_COUNTER_YES),
            None => Ok(CHAPPE_COUNTER_NO),
        }
    })
}
