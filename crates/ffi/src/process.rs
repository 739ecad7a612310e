//! The library as a whole, and this thread and process.

use crate::failure::{Answer, answer, done, last};
use crate::input;
use chappe::{Bias, Discipline, Priority, Role};
use std::ffi::{CStr, c_char, c_int};

/// As a time limit: for ever.
pub const CHAPPE_FOREVER: i64 = 9223372036854775807;
const _: () = assert!(CHAPPE_FOREVER == input::FOREVER);
/// A second, in the unit of time limits.
pub const CHAPPE_SECOND: i64 = 1000000000;
/// A millisecond, in the unit of time limits.
pub const CHAPPE_MILLISECOND: i64 = 1000000;
const _: () = assert!(1000 * CHAPPE_MILLISECOND == CHAPPE_SECOND);

/// A role: spins for as long as spinning has paid lately, at most some microseconds, then sleeps.
pub const CHAPPE_TIME_SHARING: c_int = 0;
/// A role: has a core of its own, spins and never sleeps. Waiting makes no system call.
pub const CHAPPE_SPIN: c_int = 1;
/// A role: sleeps at once.
pub const CHAPPE_SLEEPER: c_int = 2;

/// A flag of private mutexes and pools of one permit: none is ever biased to a thread that uses it alone. Else one may be, where that
/// pays: its thread then locks and unlocks it with plain stores, and the first other one waits some microseconds. The same for
/// all of a process: CHAPPE_BIAS=off in its environment.
pub const CHAPPE_BIAS_OFF: u32 = 1;

/// A mutex's or pool's flags.
pub(crate) fn bias(flags: u32) -> Answer<Bias> {
    input::flags(flags, CHAPPE_BIAS_OFF)?;
    Ok(if flags & CHAPPE_BIAS_OFF != 0 { Bias::Off } else { Bias::Auto })
}

/// The version of the library, as "0.1.0". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("it ends in a 0"),
    };
    VERSION.as_ptr()
}

/// What the thread's last error was: what happened, to which object, and what to do. Never NULL; "" if there was none. Valid until
/// the next call of this thread that fails. A call that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_last_error() -> *const c_char {
    last()
}

/// What CLOCK_MONOTONIC says, in nanoseconds: `chappe_now() + 5 * CHAPPE_SECOND` is a deadline.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_now() -> i64 {
    answer(|| Ok(input::now()))
}

/// What this process calls itself in listings from now on; its first 63 bytes are kept. Without it, it is the program's name.
///
/// Errors: -EFAULT, -EINVAL if it is not UTF-8, -ENAMETOOLONG if it has no end within 255 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_set_label(label: *const c_char) -> c_int {
    done(|| {
        chappe::set_label(input::text(label)?);
        Ok(())
    })
}

/// How the calling thread spends its time before it sleeps: CHAPPE_TIME_SHARING (as every thread at first), CHAPPE_SPIN or
/// CHAPPE_SLEEPER.
///
/// Errors: -EINVAL for another number.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_set_role(role: c_int) -> c_int {
    done(|| {
        chappe::set_role(match role {
            CHAPPE_TIME_SHARING => Role::TimeSharing,
            CHAPPE_SPIN => Role::Spin,
            CHAPPE_SLEEPER => Role::Sleeper,
            _ => return Err(crate::failure::Failure::new(libc::EINVAL, c"there is no such role")),
        });
        Ok(())
    })
}

/// Waiters are served by priority (`chappe_set_priority`), and in the order of arrival within one. A waiter that has waited for a second is
/// overtaken by no later one.
pub const CHAPPE_PRIORITY: u32 = 4;

/// As flags say.
pub fn discipline(flags: u32) -> Discipline {
    if flags & CHAPPE_PRIORITY != 0 { Discipline::PRIORITY } else { Discipline::Fifo }
}

/// The calling thread's place where waiters are served by priority: before all whose number is smaller. 0, as every thread
/// has at first, to 255. It counts from the thread's next wait on.
///
/// Errors: -EINVAL for another number.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_set_priority(priority: c_int) -> c_int {
    done(|| {
        let priority = u8::try_from(priority)
            .map_err(|_| crate::failure::Failure::new(libc::EINVAL, c"a priority is a number from 0 to 255"))?;
        chappe::set_priority(Priority(priority));
        Ok(())
    })
}
