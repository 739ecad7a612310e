//! What the two ends of a tube have in common: how they are driven.

use crate::engine::{Change, EngineError, Keys, Revision, Txn, TxnReply};

/// What an end of a tube wants next.
#[derive(Debug)]
pub enum Next {
    /// The engine is to do this.
    Call(Txn),
    /// News of what it watches, from this revision on.
    News(Revision),
    /// Its user.
    User,
}

/// An end of a tube.
pub trait TubeEnd {
    /// What it wants next.
    fn next(&self) -> Next;
    /// What it waits for.
    fn watched(&self) -> Vec<Keys>;
    /// The engine did what was to be done next, or did not say that it did.
    fn answered(&mut self, answer: &Result<TxnReply, EngineError>);
    /// Changes came of what it waits for.
    fn news(&mut self, changes: &[Change]);
    /// The watch ended: changes may have been missed.
    fn missed_some(&mut self);
}
