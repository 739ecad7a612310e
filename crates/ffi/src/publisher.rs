//! Publishers: where messages go into a broadcast tube.
//!
//! A publisher is used by one thread at a time; each takes its own by chappe_broadcast_publisher. When it is closed, or its process dies,
//! it has left; one that is left by death, or by exit without closing it, has not ended well, and subscribers are told so
//! (-ECONNRESET). A publisher that is killed before its message is sent has sent nothing, and after that it has sent to all. In a forked
//! child it is the parent's (-EPERM).

use crate::failure::{Answer, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use chappe::tube::broadcast::Publisher;
use std::ffi::{CStr, c_int, c_void};

/// A handle of a publisher.
pub struct chappe_publisher(());

/// A publisher, and how long its messages may be.
pub struct Publishing {
    end: Box<Publisher<[u8]>>,
    size: usize,
}

impl Object for Publishing {
    type Name = chappe_publisher;
    const KIND: u32 = 17;
    const REFUSAL: &'static CStr = c"this is no open handle of a publisher: NULL, closed already, or of something else";
}

impl Publishing {
    pub fn of(end: Publisher<[u8]>, size: usize) -> Publishing {
        Publishing { end: Box::new(end), size }
    }

    fn send(&self, message: &[u8], limit: Limit) -> Answer<()> {
        match limit {
            Limit::Forever => self.end.send(message)?,
            Limit::Now => self.end.try_send(message)?,
            Limit::Within(duration) => self.end.send_timeout(message, duration)?,
        }
        Ok(())
    }
}

/// Closes a handle: the publisher has left, and ended well. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_close(publisher: *mut chappe_publisher) -> c_int {
    done(|| handle::close::<Publishing>(publisher).map(drop))
}

/// Closes a handle, and says that what was published is not whole: subscribers get -ECONNRESET, once, as if the process had died.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_break_off(publisher: *mut chappe_publisher) -> c_int {
    done(|| {
        handle::close::<Publishing>(publisher)?.end.break_off();
        Ok(())
    })
}

fn sent(
    publisher: *mut chappe_publisher,
    message: *const c_void,
    len: usize,
    limit: impl FnOnce() -> Answer<Limit>,
) -> c_int {
    done(|| handle::get::<Publishing>(publisher)?.send(input::bytes(message, len)?, limit()?))
}

/// Sends `len` bytes as one message to each subscription that wants it; waits while one that blocks has no room for it. A handled signal
/// does not end the wait. Among publishers that wait for room there is no order. A message that nobody wants is not even copied. With room
/// and nobody waiting it makes no system call.
///
/// Errors: -EMSGSIZE if a message of this tube cannot have so many bytes (with a schema: has not as many as that says); -EIDRM if the tube
/// was removed; -EPERM if it is the parent process's; -EUSERS if the thread cannot become a member of the arena; -EBADF, -EFAULT; the
/// system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_send(publisher: *mut chappe_publisher, message: *const c_void, len: usize) -> c_int {
    sent(publisher, message, len, || Ok(Limit::Forever))
}

/// Sends a message if no subscription that blocks is in the way now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_publisher_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_try_send(
    publisher: *mut chappe_publisher,
    message: *const c_void,
    len: usize,
) -> c_int {
    sent(publisher, message, len, || Ok(Limit::Now))
}

/// As `chappe_publisher_send`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_publisher_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_send_timeout(
    publisher: *mut chappe_publisher,
    message: *const c_void,
    len: usize,
    ns: i64,
) -> c_int {
    sent(publisher, message, len, || input::within(ns))
}

/// As `chappe_publisher_send`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_publisher_send_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_send_deadline(
    publisher: *mut chappe_publisher,
    message: *const c_void,
    len: usize,
    at: i64,
) -> c_int {
    sent(publisher, message, len, || input::until(at))
}

/// How many subscribe now, the dead aside.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_subscribers(publisher: *const chappe_publisher) -> isize {
    answer(|| Ok(handle::get::<Publishing>(publisher)?.end.subscribers() as isize))
}

/// How many bytes a message can have.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_publisher_size(publisher: *const chappe_publisher) -> isize {
    answer(|| Ok(handle::get::<Publishing>(publisher)?.size as isize))
}
