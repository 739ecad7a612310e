//! Tubes between processes: bounded channels of plain data, or of bytes, in an arena.
//!
//! A named tube outlives its users: any process that may use the arena attaches a [`Sender`] or a [`Receiver`], and whatever was sent
//! is there until it is received, or the tube is removed. Any of them may be killed, or stopped, at any instruction:
//!
//! | who dies | what becomes of the message |
//! |---|---|
//! | a sender before its message is sent | nothing was sent |
//! | a receiver that copies out | it has the message, or another receives it |
//! | a receiver that looks at it in place ([`Receiver::borrow`]) | it is delivered once more, marked; after a second death it is dropped, and counted |
//!
//! So what is sent is received at least once, and twice only if it says so. Who stops in the middle holds up nobody: others pass it
//! over. Order is that of the commits, and what one sender sends stays in order. What comes once more comes before all that is still
//! there, the oldest first. So if receivers come one after the other, each receives from where the last one was killed, in order. Where
//! several receive at a time, one's share may come late to another, and [`Loan::position`] says where it belongs.
//!
//! When every sender has gone, receivers get what is there and then `Disconnected`; if one of them died, broke off, or exited with
//! its sender still there, `SenderDied` first, once for each receiver that was there or found something. When every receiver has gone,
//! or died, senders get `Disconnected`. Both may be attached again, and then it goes on; unless it is [sealed](Tube::seal): then no sender comes any more. Before the
//! first one has come, one waits. A message that another receiver is just looking at is not there: if that one dies after
//! the others were told `Disconnected`, it is there for whoever is attached next.
//!
//! Each operation has a plain form, which waits, a `try_`, a `_timeout` and a `_deadline`. Both ends join choices
//! ([`select!`](crate::select!)), with private tubes, pools and semaphores, and have descriptors for epoll and runtimes
//! ([`Receiver::descriptor`]).
//!
//! Paper: nix-semaphores-tubes, 3; synthesis, 5.2 (four kinds).

pub(crate) mod arms;
pub(crate) mod pipe;
pub(crate) mod senders;

#[cfg(not(feature = "sim"))]
mod attach;
#[cfg(not(feature = "sim"))]
mod chosen;
#[cfg(not(feature = "sim"))]
mod descriptor;
#[cfg(not(feature = "sim"))]
mod ends;
#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod made;
#[cfg(not(feature = "sim"))]
mod place;

pub(crate) use pipe::{clear, drain, is_attached, recover};
pub(crate) use senders::{drain_end, is_named};

#[cfg(not(feature = "sim"))]
pub(crate) use self::{
    attach::ATTACHED,
    descriptor::LIST,
    made::{info, name_of},
    pipe::{is_used_by, keep_from_all},
};
#[cfg(not(feature = "sim"))]
pub use self::{
    ends::{Receiver, Record, Sender},
    error::{NotReceived, NotSent, TubeError},
    made::{Kind, Tube, TubeInfo, TubeOptions},
    place::{Loan, Slot},
};
