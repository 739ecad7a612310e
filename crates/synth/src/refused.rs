//! Whose query it is, and why it is refused.

use crate::complaint::Complaint;
use crate::query::BindError;

/// Whose query it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Of the same user: it may become machine code.
    Own,
    /// Of another user: it is interpreted, and may have at most [`FOREIGN_OPS`] operations.
    Foreign,
}

/// How large another user's query may be: what it costs the process that runs it is bounded by that.
pub const FOREIGN_OPS: usize = 256;

/// The most subscriptions of a switchboard.
pub const MAX_SUBSCRIPTIONS: usize = 4096;

/// Why a query cannot be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The text is wrong.
    #[error(transparent)]
    Text(#[from] Complaint),
    /// The parameters are.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// It is another user's, and too large.
    #[error("another user's query may have {FOREIGN_OPS} operations at most, and this one has {0}")]
    Foreign(usize),
    /// It is over other records than the switchboard's.
    #[error("the subscription is over records of another schema")]
    Schema,
    /// There is no number left for it.
    #[error("there are {MAX_SUBSCRIPTIONS} subscriptions already: no more fit")]
    Full,
}
