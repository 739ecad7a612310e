//! Tubes between processes: bounded channels of plain data, or of bytes, in an arena.
//!
//! A named tube outlives its users: any process that may use the arena attaches a [`Sender`] or a [`Receiver`], and what was sent stays
//! until it is received, or the tube is removed. A process may be killed, or stopped, at any instruction:
//!
//! | what dies | what becomes of the message |
//! |---|---|
//! | a sender before its message is sent | nothing was sent |
//! | a receiver that copies out | it has the message, or another receives it |
//! | a receiver that looks at it in place ([`Receiver::borrow`]) | it is delivered once more, marked; after a second death it is dropped, and counted |
//!
//! So each message is received at least once, and redelivered messages are flagged. A thread that stops in the middle delays no other
//! thread: the others pass its slot over. The order is that of the commits, and the messages of one sender stay in order. Redelivered
//! messages come before all that is still there, the oldest first. So receivers that come one after the other each go on where the last
//! one was killed, in order. Where several receive at a time, the share of a dead one may come late to another: [`Loan::position`] says
//! where a message belongs.
//!
//! When every sender has gone, receivers get what is there and then `Disconnected`. If one of the senders died, broke off, or exited with
//! its sender still there, they get `SenderDied` first, once for each receiver that was there or found something. When every receiver has
//! gone, or died, senders get `Disconnected`. Both may be attached again, and then it goes on; a [sealed](Tube::seal) tube accepts no
//! further sender. Until the first process has come to an end, the other end behaves as if it were there. A message that another receiver
//! is looking at in place is not there: if that receiver dies after the others were told `Disconnected`, the message is there for the
//! next receiver that is attached.
//!
//! Each operation has a plain form, which waits, a `try_`, a `_timeout` and a `_deadline`. Both ends join choices
//! ([`select!`](crate::select!)), with private tubes, pools and semaphores, and have descriptors for epoll and runtimes
//! ([`Receiver::descriptor`]).
//!
//! Paper: nix-semaphores-tubes, 3; synthesis, 5.2 (four kinds).

#[cfg(not(feature = "sim"))]
mod attach;
#[cfg(not(feature = "sim"))]
mod awaited;
#[cfg(not(feature = "sim"))]
mod chosen;
#[cfg(not(feature = "sim"))]
mod descriptor;
#[cfg(not(feature = "sim"))]
mod ends;
#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod fault;
#[cfg(not(feature = "sim"))]
mod made;
#[cfg(not(feature = "sim"))]
mod message;
#[cfg(not(feature = "sim"))]
mod place;
#[cfg(not(feature = "sim"))]
mod polled;

#[cfg(not(feature = "sim"))]
pub(in crate::tube) use self::ends::waited;
#[cfg(not(feature = "sim"))]
pub use self::{
    awaited::Awaited,
    ends::{Receiver, Sender},
    error::{NotReceived, NotSent, TubeError},
    made::{Kind, Tube, TubeInfo, TubeOptions},
    message::Record,
    place::{Loan, Slot},
};
#[cfg(not(feature = "sim"))]
pub(crate) use self::{
    descriptor::{Watched, not_ours},
    made::info,
};
#[cfg(not(feature = "sim"))]
pub(crate) use self::{
    ends::{as_unwritten, number},
    fault::{Fault, fits, not_received, not_sent},
    message::as_owned,
};
