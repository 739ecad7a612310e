//! What can go wrong at an end of a tube. Named, shaped and worded as crossbeam-channel's: programs match on them.

use std::error::Error;
use std::fmt;

/// There is no receiver any more: the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why a message was not sent at once; it comes back.
// Exhaustive: programs match on both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room for it now; in a tube without slots, no receiver waits.
    Full(T),
    /// There is no receiver any more.
    Disconnected(T),
}

/// Why a message was not sent in time; it comes back.
// Exhaustive: programs match on both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room for it in time.
    Timeout(T),
    /// There is no receiver any more.
    Disconnected(T),
}

/// There is no message, and no sender any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("receiving on an empty and disconnected channel")]
pub struct RecvError;

/// Why no message was received at once.
// Exhaustive: programs match on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryRecvError {
    /// There is none now.
    #[error("receiving on an empty channel")]
    Empty,
    /// There is none, and no sender any more.
    #[error("receiving on an empty and disconnected channel")]
    Disconnected,
}

/// Why no message was received in time.
// Exhaustive: programs match on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// None came in time.
    #[error("timed out waiting on receive operation")]
    Timeout,
    /// There is none, and no sender any more.
    #[error("channel is empty and disconnected")]
    Disconnected,
}

/// Nothing to choose is ready now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all operations in select would block")]
pub struct TrySelectError;

/// Nothing to choose was ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out waiting on select")]
pub struct SelectTimeoutError;

/// Nothing is ready now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no operation is ready")]
pub struct TryReadyError;

/// Nothing was ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out waiting for an operation to be ready")]
pub struct ReadyTimeoutError;

// Shown without the message, which need not be showable, as a quoted text.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        "SendError(..)".fmt(f)
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        "sending on a disconnected channel".fmt(f)
    }
}

impl<T> Error for SendError<T> {}

impl<T> SendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrySendError::Full(_) => "Full(..)".fmt(f),
            TrySendError::Disconnected(_) => "Disconnected(..)".fmt(f),
        }
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrySendError::Full(_) => "sending on a full channel".fmt(f),
            TrySendError::Disconnected(_) => "sending on a disconnected channel".fmt(f),
        }
    }
}

impl<T> Error for TrySendError<T> {}

impl<T> TrySendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        }
    }
    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }
    /// Whether there was no receiver.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(e: SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(e.0)
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        "SendTimeoutError(..)".fmt(f)
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on send operation".fmt(f),
            SendTimeoutError::Disconnected(_) => "sending on a disconnected channel".fmt(f),
        }
    }
}

impl<T> Error for SendTimeoutError<T> {}

impl<T> SendTimeoutError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }
    /// Whether the time was up.
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }
    /// Whether there was no receiver.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(e: SendError<T>) -> SendTimeoutError<T> {
        SendTimeoutError::Disconnected(e.0)
    }
}

impl TryRecvError {
    /// Whether there was no message.
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }
    /// Whether there was no sender either.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl RecvTimeoutError {
    /// Whether the time was up.
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }
    /// Whether there was no sender.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}
