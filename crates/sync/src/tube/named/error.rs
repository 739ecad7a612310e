//! The errors of named tubes; their texts say what to do.

use crate::error::{ObjectError, inside};
use chappe_arena::ArenaError;
use std::{fmt, io};

/// Why a named tube could not be opened, made, attached or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TubeError {
    /// There is no tube of this name, or one already; or the object is of another kind, or in use.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Its messages are of another type.
    #[error("tube `{name}` carries {has}, not {wanted}; open it as what it was made for, or take another name")]
    OtherType {
        /// The tube's name.
        name: String,
        /// What it carries.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// The tube exists, and was made with other options.
    #[error("tube `{name}` is there as {has}, not as {wanted}; open it as it is, or remove it first")]
    OtherShape {
        /// The tube's name.
        name: String,
        /// How it was made.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// A tube cannot have such a size.
    #[error("a tube cannot have {count} {what}: between 1 and {most} are possible")]
    Capacity {
        /// What of it.
        what: &'static str,
        /// What was asked for.
        count: u64,
        /// The limit.
        most: u64,
    },
    /// Such an alignment is not possible.
    #[error("records cannot be aligned to {align} bytes: powers of two up to 64 are possible")]
    Align {
        /// What was asked for.
        align: u64,
    },
    /// The end may have one handle only, and a process has it.
    #[error(
        "tube `{name}` has one {end} at a time, and pid {pid} `{label}` has it; wait until that one goes, or make the tube as one with many"
    )]
    Single {
        /// The tube's name.
        name: String,
        /// `sender` or `receiver`.
        end: &'static str,
        /// The process that has it.
        pid: u32,
        /// That process's label.
        label: String,
    },
    /// The tube is sealed: no sender may come any more.
    #[error("tube `{name}` is sealed: no sender may be attached any more, what is in it is still received")]
    Sealed {
        /// The tube's name.
        name: String,
    },
    /// A schema, or a filter over one, makes no sense; or there is none.
    #[error("{what}")]
    Schema {
        /// What is wrong, with the place.
        what: String,
    },
    /// The tube was removed.
    #[error("tube `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// The tube's name.
        name: String,
    },
}

impl From<ArenaError> for TubeError {
    fn from(e: ArenaError) -> TubeError {
        TubeError::Object(e.into())
    }
}

/// Why a message was not sent; it comes back. `M` is the message, or nothing where the caller still has it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NotSent<M = ()> {
    /// There is no room now.
    #[error("the tube is full")]
    Full(M),
    /// There was no room in time.
    #[error("timed out waiting for room in the tube")]
    Timeout(M),
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for room in the tube")]
    Interrupted(M),
    /// All receivers have gone.
    #[error("tube `{tube}` has no receiver any more: they have gone, or died")]
    Disconnected {
        /// The tube's name.
        tube: String,
        /// What was not sent.
        message: M,
    },
    /// The tube was removed.
    #[error("tube `{tube}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// The tube's name.
        tube: String,
        /// What was not sent.
        message: M,
    },
    /// The record has more bytes than a record of the tube can have.
    #[error("a record of {len} bytes is too long for tube `{tube}`: {most} are the most it was made for")]
    TooLong {
        /// The tube's name.
        tube: String,
        /// How many bytes.
        len: usize,
        /// How many are possible.
        most: usize,
        /// What was not sent.
        message: M,
    },
    /// The record has fewer bytes than a record of the tube's schema has.
    #[error("a record of {len} bytes is too short for tube `{tube}`: by its schema each has {wanted}")]
    TooShort {
        /// The tube's name.
        tube: String,
        /// How many bytes.
        len: usize,
        /// How many there must be.
        wanted: usize,
        /// What was not sent.
        message: M,
    },
    /// The thread has left the arena meanwhile, and its slot was taken from it.
    #[error("the thread has left the arena of tube `{tube}` with a slot of its own: that was given up")]
    Lost {
        /// The tube's name.
        tube: String,
        /// What was not sent.
        message: M,
    },
    /// The handle was inherited in a fork, and cannot be shared.
    #[error("the sender of tube `{tube}` belongs to the parent process; let the child attach one of its own")]
    Inherited {
        /// The tube's name.
        tube: String,
        /// What was not sent.
        message: M,
    },
    /// The arena cannot take another member, or is gone.
    #[error("{source}")]
    Arena {
        /// What is wrong with it.
        source: ArenaError,
        /// What was not sent.
        message: M,
    },
    /// The system refused to start the thread that watches for deaths, without which no thread may sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.source))]
    System {
        /// The system's reason.
        source: io::Error,
        /// What was not sent.
        message: M,
    },
}

impl<M> fmt::Debug for NotSent<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NotSent({self})")
    }
}

impl<M> NotSent<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            NotSent::Full(message) | NotSent::Timeout(message) | NotSent::Interrupted(message) => message,
            NotSent::Disconnected { message, .. }
            | NotSent::Dead { message, .. }
            | NotSent::TooLong { message, .. }
            | NotSent::TooShort { message, .. }
            | NotSent::Lost { message, .. }
            | NotSent::Inherited { message, .. }
            | NotSent::Arena { message, .. }
            | NotSent::System { message, .. } => message,
        }
    }
}

/// Why no message was received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReceived {
    /// There is no message now.
    #[error("the tube is empty")]
    Empty,
    /// No message came in time.
    #[error("timed out waiting for a message")]
    Timeout,
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for a message")]
    Interrupted,
    /// There is no message, and all senders have gone. It names its tube: match it as `NotReceived::Disconnected { .. }`.
    #[error("tube `{tube}` is empty and has no sender any more: they have gone, or died")]
    Disconnected {
        /// The tube's name.
        tube: String,
    },
    /// There is no message, all senders have gone, and one of them died, or broke off, before it had ended well: what
    /// was received may be a part. Each receiver that was there or found messages is told once; after that it gets
    /// `Disconnected`.
    #[error("tube `{tube}` is empty and has no sender any more: one of them died, or broke off, in the middle")]
    SenderDied {
        /// The tube's name.
        tube: String,
    },
    /// The tube was removed.
    #[error("tube `{tube}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// The tube's name.
        tube: String,
    },
    /// The buffer has no room for the longest record.
    #[error("a buffer of {has} bytes is too small for tube `{tube}`: its records have up to {wanted}")]
    Buffer {
        /// The tube's name.
        tube: String,
        /// How many bytes it has.
        has: usize,
        /// How many it must have.
        wanted: usize,
    },
    /// The thread has left the arena meanwhile, and the record may come again.
    #[error("the thread has left the arena of tube `{tube}` with a record of its own: it may come again")]
    Lost {
        /// The tube's name.
        tube: String,
    },
    /// The handle was inherited in a fork, and cannot be shared.
    #[error("the receiver of tube `{tube}` belongs to the parent process; let the child attach one of its own")]
    Inherited {
        /// The tube's name.
        tube: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused to start the thread that watches for deaths, without which no thread may sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}
