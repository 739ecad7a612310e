//! An engine as a program is connected to it: with a renewer of leases, which also watches what is held, on a thread that is no caller's.

use crate::engine::{Engine, EngineError, Keys, LeaseId, Revision, Txn, TxnReply, Watch};
use crate::pulse::{Hold, Pulse};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A stream of changes, of whatever engine.
pub type News = Box<dyn Watch + Send>;

/// An engine, with its own thread.
pub trait Connection: Send + Sync {
    /// As [`Engine::txn`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError>;

    /// As [`Engine::txn_within`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn txn_within(&self, txn: &Txn, _most: Duration) -> Result<TxnReply, EngineError> {
        self.txn(txn)
    }

    /// As [`Engine::glance`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn glance(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        self.txn_within(txn, most)
    }

    /// As [`Engine::grant`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError>;

    /// As [`Engine::grant_within`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn grant_within(&self, ttl: Duration, _most: Duration) -> Result<(LeaseId, Duration), EngineError> {
        self.grant(ttl)
    }

    /// As [`Engine::keep_alive`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError>;

    /// As [`Engine::revoke`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError>;

    /// As [`Engine::watch`].
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn watch(&self, keys: &[Keys], from: Revision) -> Result<News, EngineError>;

    /// The bytes of its database, and how many there may be (0: not said); `None`: it does not say that, or not within that time.
    fn size(&self, _most: Duration) -> Option<(u64, u64)> {
        None
    }

    /// Renews a lease from now on, and tells its pulse; until that is gone, or over.
    fn renew(&self, lease: LeaseId, pulse: Weak<Pulse>);

    /// Watches the keys of what is held from now on, and tells it; until it is gone, or lost.
    fn attend(&self, hold: Weak<Hold>);
}

/// A connection, as the drivers of the machines take it.
#[derive(Clone)]
pub struct Link(pub Arc<dyn Connection>);

impl Watch for News {
    fn next(&mut self, patience: Option<Duration>) -> crate::engine::News {
        (**self).next(patience)
    }
}

impl Engine for Link {
    type Watch = News;

    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError> {
        self.0.txn(txn)
    }

    fn txn_within(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        self.0.txn_within(txn, most)
    }

    fn glance(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        self.0.glance(txn, most)
    }

    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError> {
        self.0.grant(ttl)
    }

    fn grant_within(&self, ttl: Duration, most: Duration) -> Result<(LeaseId, Duration), EngineError> {
        self.0.grant_within(ttl, most)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError> {
        self.0.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        self.0.revoke(lease)
    }

    fn watch(&self, keys: &[Keys], from: Revision) -> Result<News, EngineError> {
        self.0.watch(keys, from)
    }
}
