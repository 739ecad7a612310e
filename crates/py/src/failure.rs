//! Which Python exception an error becomes: those of `chappe.errors`, which are children of the standard ones.
//!
//! | what happened | exception | a child of |
//! |---|---|---|
//! | the time was up | `TimeoutError` | |
//! | there is none of this name | `NotFound` | `FileNotFoundError` |
//! | there is one already | `FileExistsError` | |
//! | it is another kind, type or shape | `Mismatch` | `TypeError`, `ValueError` |
//! | it was removed | `Removed` | `RuntimeError` |
//! | the other end has gone | `Disconnected` | `BrokenPipeError`, `EOFError` |
//! | the same of all senders, and one of them died, or failed | `SenderDied` | `Disconnected` |
//! | a party of a barrier died, and the round has turned | `PartyDied` | `RuntimeError` |
//! | no room: a full arena, a full `/dev/shm`, a full map | `NoSpace` | `OSError` |
//! | another user's | `PermissionError` | |
//! | still in use | `InUse` | `RuntimeError` |
//! | it is held no longer, on an engine | `Lost` | `RuntimeError` |
//! | it is not known whether an engine has done it | `Unsure` | `RuntimeError` |
//! | an engine does not answer | `ConnectionError` | |
//! | it cannot be at all | `ValueError` | |

use chappe::map::MapError;
use chappe::tube::named::{NotReceived, NotSent, TubeError};
use chappe::{AcquireError, ArenaError, DownError, LockError, ObjectError, PoolError, SelectError, UpError};
use pyo3::exceptions::{PyFileExistsError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::io::ErrorKind;

/// What `errno` says where the exception is a child of `OSError`.
const NO_ENTRY: i32 = 2;
const NO_ACCESS: i32 = 13;
const EXISTS: i32 = 17;
const NO_SPACE: i32 = 28;
const PIPE: i32 = 32;

/// What an operation can fail with.
pub trait Failure: std::fmt::Display {
    /// It would have to wait, or has waited long enough.
    fn is_late(&self) -> bool {
        false
    }
    /// A signal was handled.
    fn is_interrupted(&self) -> bool {
        false
    }
    /// Anything else.
    fn kind(&self) -> Kind;
}

/// A row of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NotFound,
    Exists,
    Mismatch,
    Removed,
    Disconnected,
    SenderDied,
    PartyDied,
    NoSpace,
    NotOurs,
    InUse,
    Value,
    Inherited,
    System,
    #[cfg(any(feature = "remote", feature = "term"))]
    Late,
    #[cfg(feature = "remote")]
    Unreachable,
    #[cfg(feature = "remote")]
    Unsure,
    #[cfg(feature = "remote")]
    Lost,
}

/// The exception for an error.
pub fn failure(py: Python<'_>, e: impl Failure) -> PyErr {
    raised(py, e.kind(), e.to_string())
}

/// An exception of a kind.
pub fn raised(py: Python<'_>, kind: Kind, text: String) -> PyErr {
    match kind {
        Kind::NotFound => own(py, "NotFound", (NO_ENTRY, text)),
        Kind::Exists => PyFileExistsError::new_err((EXISTS, text)),
        Kind::Mismatch => own(py, "Mismatch", (text,)),
        Kind::Removed => own(py, "Removed", (text,)),
        Kind::Disconnected => own(py, "Disconnected", (PIPE, text)),
        Kind::SenderDied => own(py, "SenderDied", (PIPE, text)),
        Kind::PartyDied => own(py, "PartyDied", (text,)),
        Kind::NoSpace => own(py, "NoSpace", (NO_SPACE, text)),
        Kind::NotOurs => PyPermissionError::new_err((NO_ACCESS, text)),
        Kind::InUse => own(py, "InUse", (text,)),
        Kind::Value => PyValueError::new_err(text),
        Kind::Inherited => PyRuntimeError::new_err(text),
        Kind::System => PyOSError::new_err(text),
        #[cfg(any(feature = "remote", feature = "term"))]
        Kind::Late => late(text),
        #[cfg(feature = "remote")]
        Kind::Unreachable => pyo3::exceptions::PyConnectionError::new_err(text),
        #[cfg(feature = "remote")]
        Kind::Unsure => own(py, "Unsure", (text,)),
        #[cfg(feature = "remote")]
        Kind::Lost => own(py, "Lost", (text,)),
    }
}

/// One of the package's own.
pub fn own<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py.import("chappe.errors").and_then(|errors| errors.getattr(name)?.call1(arguments));
    made.map_or_else(|e| e, PyErr::from_value)
}

/// The standard one for a time that is up.
pub fn late(text: String) -> PyErr {
    pyo3::exceptions::PyTimeoutError::new_err(text)
}

/// Writes a line to the log `chappe`. Ignores a failure of the log: it is no error of the lock's holder.
pub fn log(py: Python<'_>, text: &str) {
    let _ = py.import("chappe.errors").and_then(|errors| errors.getattr("_log")?.call1((text,)));
}

/// A number that an object can be made of, or asked for: whatever Python has, it is told what it is for.
pub fn number(what: &str, of: &str, given: i64) -> PyResult<u32> {
    u32::try_from(given)
        .map_err(|_| PyValueError::new_err(format!("{what} of {of} must be between 0 and {}, not {given}", u32::MAX)))
}

/// Shows a warning of the package's own; an error if the user has made it one.
pub fn warn(py: Python<'_>, name: &str, text: &str) -> PyResult<()> {
    let category = py.import("chappe.errors")?.getattr(name)?;
    py.import("warnings")?.call_method1("warn", (text, category, 2)).map(drop)
}

impl Failure for ArenaError {
    fn kind(&self) -> Kind {
        match self {
            ArenaError::NotFound { .. } => Kind::NotFound,
            ArenaError::Exists { .. } => Kind::Exists,
            ArenaError::Owner { .. }
            | ArenaError::Taken { .. }
            | ArenaError::NotOwner { .. }
            | ArenaError::Denied { .. }
            | ArenaError::Mode { .. } => Kind::NotOurs,
            ArenaError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => Kind::NotOurs,
            ArenaError::InUse { .. } => Kind::InUse,
            ArenaError::NoSpace { .. }
            | ArenaError::MembersFull { .. }
            | ArenaError::ObjectsFull { .. }
            | ArenaError::CellsFull { .. }
            | ArenaError::BlocksFull { .. } => Kind::NoSpace,
            ArenaError::Name { .. } | ArenaError::Capacity { .. } => Kind::Value,
            ArenaError::Removed { .. } => Kind::Removed,
            _ => Kind::System,
        }
    }
}

impl Failure for ObjectError {
    fn kind(&self) -> Kind {
        match self {
            ObjectError::Unknown { .. } => Kind::NotFound,
            ObjectError::Exists { .. } => Kind::Exists,
            ObjectError::OtherKind { .. } | ObjectError::OtherType { .. } => Kind::Mismatch,
            ObjectError::InUse { .. } => Kind::InUse,
            ObjectError::Arena(e) => e.kind(),
            _ => Kind::Value,
        }
    }
}

impl Failure for PoolError {
    fn kind(&self) -> Kind {
        match self {
            PoolError::Unknown { .. } => Kind::NotFound,
            PoolError::Exists { .. } => Kind::Exists,
            PoolError::OtherKind { .. } | PoolError::OtherSize { .. } => Kind::Mismatch,
            PoolError::InUse { .. } => Kind::InUse,
            PoolError::Dead { .. } => Kind::Removed,
            PoolError::Arena(e) => e.kind(),
            _ => Kind::Value,
        }
    }
}

impl Failure for AcquireError {
    fn is_late(&self) -> bool {
        matches!(self, AcquireError::WouldBlock | AcquireError::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, AcquireError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            AcquireError::Dead { .. } => Kind::Removed,
            AcquireError::Arena(e) => e.kind(),
            AcquireError::System(_) => Kind::System,
            _ => Kind::Value,
        }
    }
}

impl Failure for DownError {
    fn is_late(&self) -> bool {
        matches!(self, DownError::WouldBlock | DownError::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, DownError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            DownError::Dead { .. } => Kind::Removed,
            DownError::Arena(e) => e.kind(),
            _ => Kind::System,
        }
    }
}

impl Failure for UpError {
    fn kind(&self) -> Kind {
        match self {
            UpError::Dead { .. } => Kind::Removed,
            UpError::Arena(e) => e.kind(),
            _ => Kind::Value,
        }
    }
}

impl<G> Failure for LockError<G> {
    fn is_late(&self) -> bool {
        matches!(self, LockError::WouldBlock | LockError::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, LockError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            LockError::Arena(e) => e.kind(),
            LockError::System(_) => Kind::System,
            LockError::Deadlock { .. } => Kind::Value,
            _ => Kind::Removed,
        }
    }
}

impl Failure for TubeError {
    fn kind(&self) -> Kind {
        match self {
            TubeError::Object(e) => e.kind(),
            TubeError::OtherType { .. } | TubeError::OtherShape { .. } => Kind::Mismatch,
            TubeError::Single { .. } => Kind::InUse,
            TubeError::Sealed { .. } => Kind::Disconnected,
            TubeError::Dead { .. } => Kind::Removed,
            _ => Kind::Value,
        }
    }
}

impl Failure for NotSent {
    fn is_late(&self) -> bool {
        matches!(self, NotSent::Full(()) | NotSent::Timeout(()))
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, NotSent::Interrupted(()))
    }
    fn kind(&self) -> Kind {
        match self {
            NotSent::Disconnected { .. } => Kind::Disconnected,
            NotSent::Dead { .. } => Kind::Removed,
            NotSent::Inherited { .. } | NotSent::Lost { .. } => Kind::Inherited,
            NotSent::Arena { source, .. } => source.kind(),
            NotSent::System { .. } => Kind::System,
            _ => Kind::Value,
        }
    }
}

impl Failure for NotReceived {
    fn is_late(&self) -> bool {
        matches!(self, NotReceived::Empty | NotReceived::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, NotReceived::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            NotReceived::Disconnected { .. } => Kind::Disconnected,
            NotReceived::SenderDied { .. } => Kind::SenderDied,
            NotReceived::Dead { .. } => Kind::Removed,
            NotReceived::Inherited { .. } | NotReceived::Lost { .. } => Kind::Inherited,
            NotReceived::Arena(e) => e.kind(),
            NotReceived::System(_) => Kind::System,
            _ => Kind::Value,
        }
    }
}

impl Failure for MapError {
    fn is_interrupted(&self) -> bool {
        matches!(self, MapError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            MapError::Object(e) => e.kind(),
            MapError::OtherType { .. } | MapError::OtherShape { .. } => Kind::Mismatch,
            MapError::Full { .. } | MapError::Busy { .. } => Kind::NoSpace,
            MapError::Dead { .. } => Kind::Removed,
            MapError::System(_) => Kind::System,
            _ => Kind::Value,
        }
    }
}

impl Failure for SelectError {
    fn is_late(&self) -> bool {
        matches!(self, SelectError::WouldBlock | SelectError::Timeout)
    }
    fn is_interrupted(&self) -> bool {
        matches!(self, SelectError::Interrupted)
    }
    fn kind(&self) -> Kind {
        match self {
            SelectError::Dead { .. } => Kind::Removed,
            SelectError::Inherited { .. } => Kind::Inherited,
            SelectError::Arena(e) => e.kind(),
            SelectError::System(_) => Kind::System,
            _ => Kind::Value,
        }
    }
}
