//! What an end says, as its users' errors.

use crate::body::Not;
use crate::error::{RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};

pub fn send_error<T>(e: (Not, T)) -> SendError<T> {
    SendError(e.1)
}

pub fn try_send_error<T>((not, message): (Not, T)) -> TrySendError<T> {
    match not {
        Not::Now => TrySendError::Full(message),
        Not::Ever => TrySendError::Disconnected(message),
    }
}

pub fn send_timeout_error<T>((not, message): (Not, T)) -> SendTimeoutError<T> {
    match not {
        Not::Now => SendTimeoutError::Timeout(message),
        Not::Ever => SendTimeoutError::Disconnected(message),
    }
}

pub fn try_recv_error(not: Not) -> TryRecvError {
    match not {
        Not::Now => TryRecvError::Empty,
        Not::Ever => TryRecvError::Disconnected,
    }
}

pub fn recv_timeout_error(not: Not) -> RecvTimeoutError {
    match not {
        Not::Now => RecvTimeoutError::Timeout,
        Not::Ever => RecvTimeoutError::Disconnected,
    }
}
