//! Subscriptions: where messages come out of a broadcast tube, for one subscriber.
//!
//! A subscription gets each message that its filter wants, and so does each other one: see chappe_broadcast(3). It is used by one thread at a
//! time, and in a forked child it is the parent's (-EPERM). It goes when its handle is closed, and when its process is killed at any
//! instruction: then no publisher waits for it. It is an arm of a choice: chappe_arm_subscription, see chappe_choice(3).

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::lending::{Lendable, Lent};
use chappe::raw::{Armed, hear_chosen};
use chappe::synth::Value;
use chappe::tube::broadcast::Subscription;
use chappe::{ReceivingEnd as _, SelectedOperation};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd;

/// A handle of a subscription.
pub struct chappe_subscription(());

/// A parameter is a signed integer: `value.i`.
pub const CHAPPE_PARAM_INT: c_int = 1;
/// A parameter is an unsigned integer: `value.u`.
pub const CHAPPE_PARAM_UINT: c_int = 2;
/// A parameter is a double: `value.d`.
pub const CHAPPE_PARAM_DOUBLE: c_int = 3;
/// A parameter is a truth value: `value.b`, 0 or not.
pub const CHAPPE_PARAM_BOOL: c_int = 4;
/// A parameter is a text: `value.text`.
pub const CHAPPE_PARAM_TEXT: c_int = 5;

/// The value of a parameter.
#[repr(C)]
#[derive(Clone, Copy)]
pub union chappe_value {
    /// Of CHAPPE_PARAM_INT.
    pub i: i64,
    /// Of CHAPPE_PARAM_UINT.
    pub u: u64,
    /// Of CHAPPE_PARAM_DOUBLE.
    pub d: f64,
    /// Of CHAPPE_PARAM_BOOL.
    pub b: c_int,
    /// Of CHAPPE_PARAM_TEXT: ended by a 0, UTF-8.
    pub text: *const c_char,
}

/// A parameter of a filter, `$limit` in `price > $limit`. chappe_param_int and its like fill it in.
#[repr(C)]
pub struct chappe_param {
    /// Its name, without the `$`.
    pub name: *const c_char,
    /// CHAPPE_PARAM_INT ...
    pub kind: c_int,
    /// Its value, by the kind.
    pub value: chappe_value,
}

fn param(name: *const c_char, kind: c_int, value: chappe_value) -> chappe_param {
    chappe_param { name, kind, value }
}

/// A parameter that is a signed integer.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_param_int(name: *const c_char, value: i64) -> chappe_param {
    param(name, CHAPPE_PARAM_INT, chappe_value { i: value })
}

/// A parameter that is an unsigned integer.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_param_uint(name: *const c_char, value: u64) -> chappe_param {
    param(name, CHAPPE_PARAM_UINT, chappe_value { u: value })
}

/// A parameter that is a double.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_param_double(name: *const c_char, value: f64) -> chappe_param {
    param(name, CHAPPE_PARAM_DOUBLE, chappe_value { d: value })
}

/// A parameter that is true or false.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_param_bool(name: *const c_char, value: c_int) -> chappe_param {
    param(name, CHAPPE_PARAM_BOOL, chappe_value { b: value })
}

/// A parameter that is a text, which stays the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_param_text(name: *const c_char, value: *const c_char) -> chappe_param {
    param(name, CHAPPE_PARAM_TEXT, chappe_value { text: value })
}

/// Parameters, as the library has them.
pub fn params<'a>(first: *const chappe_param, count: usize) -> Answer<Vec<(&'a str, Value)>> {
    let one = |given: &'a chappe_param| {
        let name = input::text(given.name)?;
        let value = match given.kind {
            // SAFETY: any bytes are a number or an address; which of them was written, the kind says.
            CHAPPE_PARAM_INT => Value::Int(unsafe { given.value.i }),
            // SAFETY: as above.
            CHAPPE_PARAM_UINT => Value::Uint(unsafe { given.value.u }),
            // SAFETY: as above.
            CHAPPE_PARAM_DOUBLE => Value::Double(unsafe { given.value.d }),
            // SAFETY: as above.
            CHAPPE_PARAM_BOOL => Value::Bool(input::truth(unsafe { given.value.b })),
            // SAFETY: as above; the address is looked at before it is used.
            CHAPPE_PARAM_TEXT => Value::Text(input::text(unsafe { given.value.text })?.as_bytes().to_vec()),
            kind => {
                let text = format_args!("parameter `{name}` is of no kind there is: {kind} (CHAPPE_PARAM_INT ...)");
                return Err(Failure::told(libc::EINVAL, text));
            }
        };
        Ok((name, value))
    };
    input::array(first, count)?.iter().map(one).collect()
}

/// A subscription, and how long its messages may be.
pub struct Hearing {
    end: Lendable<Subscription<[u8]>>,
    size: usize,
}

impl Object for Hearing {
    type Name = chappe_subscription;
    const KIND: u32 = 18;
    const REFUSAL: &'static CStr =
        c"this is no open handle of a subscription: NULL, closed already, or of something else";
}

impl Hearing {
    pub fn of(end: Subscription<[u8]>, size: usize) -> Hearing {
        Hearing { end: Lendable::new(end), size }
    }

    fn end(&self) -> Answer<&Subscription<[u8]>> {
        // SAFETY: it lives as long as this, and no wait has it; a handle is used by one thread at a time.
        Ok(unsafe { &*self.end.at()? })
    }

    /// The subscription, for a wait.
    pub fn lend(&'static self) -> Answer<Lent<Subscription<[u8]>>> {
        // SAFETY: nothing refers to it for longer than a call.
        unsafe { self.end.lend() }
    }

    /// Refuses a buffer in which the longest message has no room.
    pub fn check(&self, room: usize) -> Answer<()> {
        if room >= self.size {
            return Ok(());
        }
        let size = self.size;
        let text = format_args!("a buffer of {room} bytes is too small: this tube's messages have up to {size}");
        Err(Failure::told(libc::EMSGSIZE, text))
    }

    fn recv(&self, buffer: &mut [u8], limit: Limit) -> Answer<usize> {
        self.check(buffer.len())?;
        Ok(match limit {
            Limit::Forever => self.end()?.recv_into(buffer)?,
            Limit::Now => self.end()?.try_recv_into(buffer)?,
            Limit::Within(duration) => self.end()?.recv_into_timeout(buffer, duration)?,
        })
    }

    /// As an arm of a choice.
    pub fn arm(&self) -> Answer<Armed<'_>> {
        Ok(self.end()?.__arm())
    }

    /// Receives the message that a choice has taken.
    pub fn finish(&self, chosen: SelectedOperation<'_>, buffer: &mut [u8]) -> Answer<usize> {
        Ok(hear_chosen(chosen, self.end()?, buffer)?)
    }
}

/// Closes a handle: the subscription goes. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBUSY if a wait has it (`chappe_subscription_recv_async`), here and in each call with the handle; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_close(subscription: *mut chappe_subscription) -> c_int {
    done(|| {
        handle::get::<Hearing>(subscription)?.end()?;
        handle::close::<Hearing>(subscription).map(drop)
    })
}

fn received(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
    limit: impl FnOnce() -> Answer<Limit>,
) -> isize {
    answer(|| {
        let end = handle::get::<Hearing>(subscription)?;
        Ok(end.recv(input::buffer(to, room)?, limit()?)? as isize)
    })
}

/// Receives the next message that the subscription wants, by copying it into `to`, which must have room for the longest (`room` bytes,
/// `chappe_subscription_size` or more); answers its length. Waits while there is none. A handled signal does not end the wait. With a
/// message there it makes no system call.
///
/// Errors: -EPIPE if there is none and all publishers have gone, -ECONNRESET, once, if one of them died, exited without closing it, or broke
/// off; -EMSGSIZE if there is too little room, and nothing is received; -EIDRM if the tube was removed; -EPERM if it is the parent
/// process's; -EUSERS if the thread cannot become a member of the arena; -EBADF, -EFAULT; the system's, if it refuses the thread that
/// watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_recv(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
) -> isize {
    received(subscription, to, room, || Ok(Limit::Forever))
}

/// Receives the next message if there is one now. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_subscription_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_try_recv(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
) -> isize {
    received(subscription, to, room, || Ok(Limit::Now))
}

/// As `chappe_subscription_recv`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_subscription_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_recv_timeout(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
    ns: i64,
) -> isize {
    received(subscription, to, room, || input::within(ns))
}

/// As `chappe_subscription_recv`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_subscription_recv_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_recv_deadline(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
    at: i64,
) -> isize {
    received(subscription, to, room, || input::until(at))
}

/// Gives `count` parameters of its filter other values, for what is sent from here on and for what is there already; all of them, or
/// none. Those that are not named keep theirs. Waits for nobody.
///
/// Errors: -EINVAL: there is no such parameter, no filter, or the values do not fit (the text says which); -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_set(
    subscription: *mut chappe_subscription,
    params: *const chappe_param,
    count: usize,
) -> c_int {
    done(|| {
        let end = handle::get::<Hearing>(subscription)?;
        Ok(end.end()?.set(&self::params(params, count)?)?)
    })
}

/// How many messages it has lost because it was too slow, since it subscribed.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_lost(subscription: *const chappe_subscription) -> i64 {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.end()?.lost() as i64))
}

/// How many messages are there for it, those that are just being written too.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_len(subscription: *const chappe_subscription) -> isize {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.end()?.len() as isize))
}

/// 1 if there is no message for it, else 0.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_is_empty(subscription: *const chappe_subscription) -> c_int {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.end()?.is_empty().into()))
}

/// How many bytes the longest message can have.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_size(subscription: *const chappe_subscription) -> isize {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.size as isize))
}

/// A descriptor (an eventfd) that becomes readable when there is a message that the subscription wants, no publisher any more (gone or
/// dead), or no tube: for poll(2) and epoll(7). This handle's own, made when it is first asked for, and closed with the handle. Only poll
/// it: do not read it. It becomes readable once, and is made ready for the next time by `chappe_subscription_rearm`. A message that the
/// filter does not want makes nothing readable once the publishers have taken the filter in; until then `chappe_subscription_rearm` drops
/// it.
///
/// The first one in an arena starts a thread of this process, which takes a place among the arena's members; the call waits until that
/// thread has started. A receive that waits, and a choice, take that thread's place: the descriptor becomes readable then, and is made
/// ready again as ever.
///
/// Errors: the system's, when it refuses a descriptor or a thread; the arena's, when that thread cannot join it: -EUSERS if there is no
/// place for another member; -EPERM if the subscription is the parent process's; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_descriptor(subscription: *mut chappe_subscription) -> c_int {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.end()?.descriptor()?.as_raw_fd()))
}

/// Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: something has come, and it is readable; or this is a
/// forked child, whose parent has the subscription: then nothing becomes readable. Waits for no other process.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_rearm(subscription: *mut chappe_subscription) -> c_int {
    answer(|| Ok(handle::get::<Hearing>(subscription)?.end()?.rearm().into()))
}
