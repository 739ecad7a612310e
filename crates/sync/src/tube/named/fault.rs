//! Why nothing was sent or received, and the errors that say so.

use super::arms::{Mapped, Not};
use super::attach::Attachment;
use super::error::{NotReceived, NotSent};
use crate::handle::shown;
use crate::patience::Until;
use chappe_arena::ArenaError;
use std::io;

/// The tube's name, as users write it.
pub(crate) fn name_of(pipe: &Mapped) -> String {
    shown(pipe.map, pipe.place)
}

/// Why nothing was done.
pub(super) enum Fault {
    Not(Not),
    Arena(ArenaError),
    System(io::Error),
}

impl From<Not> for Fault {
    fn from(why: Not) -> Fault {
        Fault::Not(why)
    }
}

pub(super) fn not_sent<M>(pipe: &Mapped, fault: Fault, until: Until, message: M) -> NotSent<M> {
    let tube = || name_of(pipe);
    match fault {
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

pub(super) fn not_received(at: &Attachment, fault: Fault, until: Until) -> NotReceived {
    let tube = name_of(&at.pipe);
    match fault {
        Fault::Not(Not::Now) if matches!(until, Until::Now) => NotReceived::Empty,
        Fault::Not(Not::Now) => NotReceived::Timeout,
        Fault::Not(Not::Interrupted) => NotReceived::Interrupted,
        Fault::Not(Not::Ever) if at.learns_of_death() => NotReceived::SenderDied { tube },
        Fault::Not(Not::Ever) => NotReceived::Disconnected { tube },
        Fault::Not(Not::Dead) => NotReceived::Dead { tube },
        Fault::Not(Not::Lost) => NotReceived::Lost { tube },
        Fault::Not(Not::Inherited) => NotReceived::Inherited { tube },
        Fault::Arena(e) => NotReceived::Arena(e),
        Fault::System(e) => NotReceived::System(e),
    }
}
