//! Which errors are documented for objects that others make, fill and remove at any moment.

use chappe::tube::named::{NotReceived, NotSent, TubeError};
use chappe::{ArenaError, HelpError, MapError, MonitorError, ObjectError, PoolError, SharedError};

/// Why a turn ended early: a documented reason, or a finding.
pub enum Ends {
    /// As others' makes, removals and deaths may have it.
    Well,
    /// In words.
    Unclear(String),
}

/// An error, as one of the two.
pub trait Told {
    /// Which one.
    fn told(self) -> Ends;
}

/// By whether it is documented.
pub fn told(documented: bool, e: impl std::fmt::Display) -> Ends {
    if documented { Ends::Well } else { Ends::Unclear(e.to_string()) }
}

impl<E: Told> From<E> for Ends {
    fn from(e: E) -> Ends {
        e.told()
    }
}

impl Told for ArenaError {
    fn told(self) -> Ends {
        use ArenaError as E;
        let full =
            matches!(self, E::MembersFull { .. } | E::ObjectsFull { .. } | E::CellsFull { .. } | E::BlocksFull { .. });
        told(full, self)
    }
}

impl Told for ObjectError {
    fn told(self) -> Ends {
        use ObjectError as E;
        match self {
            E::Arena(e) => e.told(),
            E::Unknown { .. } | E::Exists { .. } | E::OtherKind { .. } | E::OtherType { .. } | E::InUse { .. } => {
                Ends::Well
            }
            e => told(false, e),
        }
    }
}

impl Told for PoolError {
    fn told(self) -> Ends {
        use PoolError as E;
        match self {
            E::Arena(e) => e.told(),
            E::Unknown { .. } | E::Exists { .. } | E::OtherKind { .. } | E::InUse { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}

impl Told for SharedError {
    fn told(self) -> Ends {
        use SharedError as E;
        match self {
            E::Object(e) => e.told(),
            E::OtherType { .. } | E::Full { .. } | E::Busy { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}

impl Told for MapError {
    fn told(self) -> Ends {
        use MapError as E;
        match self {
            E::Object(e) => e.told(),
            E::OtherType { .. } | E::Full { .. } | E::Busy { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}

impl Told for TubeError {
    fn told(self) -> Ends {
        use TubeError as E;
        match self {
            E::Object(e) => e.told(),
            E::OtherType { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}

impl Told for MonitorError {
    fn told(self) -> Ends {
        use MonitorError as E;
        match self {
            E::Shared(e) => e.told(),
            E::Lock(HelpError::OwnerDied { .. }) => Ends::Well,
            e => told(false, e),
        }
    }
}

impl<M> Told for NotSent<M>
where
    NotSent<M>: std::fmt::Display,
{
    fn told(self) -> Ends {
        use NotSent as E;
        match self {
            E::Arena { source, .. } => source.told(),
            E::Full(_) | E::Timeout(_) | E::Disconnected { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}

impl Told for NotReceived {
    fn told(self) -> Ends {
        use NotReceived as E;
        match self {
            E::Arena(e) => e.told(),
            E::Empty | E::Timeout | E::Disconnected { .. } | E::SenderDied { .. } | E::Dead { .. } => Ends::Well,
            e => told(false, e),
        }
    }
}
