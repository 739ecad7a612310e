//! Why nothing was sent or received at a tube in a named arena, plain or broadcast, and the errors
//! that say so.

use super::attach::Attachment;
use super::error::{NotReceived, NotSent};
use crate::handle::shown;
use chappe_arena::ArenaError;
use chappe_tube::named::arms::{Mapped, Not};
use chappe_wait::patience::Until;
use std::io;

/// The tube's name, as users write it.
pub(crate) fn name_of(pipe: &Mapped) -> String {
    shown(pipe.map, pipe.place)
}

/// Why nothing was done.
pub(crate) enum Fault {
    Not(Not),
    Arena(ArenaError),
    System(io::Error),
}

impl From<Not> for Fault {
    fn from(why: Not) -> Fault {
        Fault::Not(why)
    }
}

impl Fault {
    /// Why a message was not sent; `tube` is the tube's name.
    pub fn not_sent<M>(self, tube: impl FnOnce() -> String, until: Until, message: M) -> NotSent<M> {
        match self {
            Fault::Not(Not::Now) if matches!(until, Until::Now) => NotSent::Full(message),
            Fault::Not(Not::Now) => NotSent::Timeout(message),
            Fault::Not(Not::Interrupted) => NotSent::Interrupted(message),
            Fault::Not(Not::Ever) => NotSent::Disconnected { tube: tube(), message },
            Fault::Not(Not::Dead) => NotSent::Dead { tube: tube(), message },
            Fault::Not(Not::Lost) => NotSent::Lost { tube: tube(), message },
            Fault::Not(Not::Inherited) => NotSent::Inherited { tube: tube(), message },
            Fault::Arena(source) => NotSent::Arena { source, message },
            Fault::System(source) => NotSent::System { source, message },
        }
    }

    /// Why none was received. `learns`: whether a sender has died of which this receiver was not told;
    /// it is now.
    pub fn not_received(
        self,
        tube: impl FnOnce() -> String,
        until: Until,
        learns: impl FnOnce() -> bool,
    ) -> NotReceived {
        match self {
            Fault::Not(Not::Now) if matches!(until, Until::Now) => NotReceived::Empty,
            Fault::Not(Not::Now) => NotReceived::Timeout,
            Fault::Not(Not::Interrupted) => NotReceived::Interrupted,
            Fault::Not(Not::Ever) if learns() => NotReceived::SenderDied { tube: tube() },
            Fault::Not(Not::Ever) => NotReceived::Disconnected { tube: tube() },
            Fault::Not(Not::Dead) => NotReceived::Dead { tube: tube() },
            Fault::Not(Not::Lost) => NotReceived::Lost { tube: tube() },
            Fault::Not(Not::Inherited) => NotReceived::Inherited { tube: tube() },
            Fault::Arena(e) => NotReceived::Arena(e),
            Fault::System(e) => NotReceived::System(e),
        }
    }
}

pub(crate) fn not_sent<M>(pipe: &Mapped, fault: Fault, until: Until, message: M) -> NotSent<M> {
    fault.not_sent(|| name_of(pipe), until, message)
}

pub(crate) fn not_received(at: &Attachment, fault: Fault, until: Until) -> NotReceived {
    fault.not_received(|| name_of(&at.pipe), until, || at.learns_of_death())
}

/// Whether the tube takes a record of so many bytes: at most as many as it was made for, and with a schema exactly as many. Readers by the
/// schema could not get past a shorter one.
///
/// # Errors
/// `TooLong`, `TooShort`.
pub(crate) fn fits(pipe: &Mapped, len: usize) -> Result<(), NotSent> {
    let most = pipe.ring.size() as usize;
    if len > most {
        return Err(NotSent::TooLong { tube: name_of(pipe), len, most, message: () });
    }
    // Another object's memory has no schema of this tube's: sending says that the tube is dead.
    if len < most && pipe.schema_hash() != 0 && pipe.has_blocks() {
        return Err(NotSent::TooShort { tube: name_of(pipe), len, wanted: most, message: () });
    }
    Ok(())
}
