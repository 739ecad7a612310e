//! What an engine can do: keys with revisions, leases, transactions and watches. etcd can, and so can a model of it.
//!
//! | | meaning |
//! |---|---|
//! | revision | the number of a change; one counter for all keys. All changes of one transaction have the same |
//! | `created` | the revision since which the key is there. A write to a key that is there keeps it |
//! | `modified` | the revision of the key's last write |
//! | lease | time to live that its owner renews; when it ends the engine deletes all keys that were put with it, at one revision |
//! | watch | all changes under some keys from a revision on, in order; those of one revision that one watch sees come together |

use std::time::Duration;

/// The number of a change.
pub type Revision = u64;

/// A lease's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// One key, or many.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Keys {
    /// This one.
    One(String),
    /// All that begin so.
    Under(String),
    /// All from this one on that come before that one, by their names.
    Between(String, String),
}

impl Keys {
    /// Whether a key is one of them.
    pub fn have(&self, key: &str) -> bool {
        match self {
            Keys::One(one) => one == key,
            Keys::Under(prefix) => key.starts_with(prefix.as_str()),
            Keys::Between(from, to) => (from.as_str()..to.as_str()).contains(&key),
        }
    }
}

/// What must be so of a key, or of each of some keys. A key that is not there has 0 for both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// None of them is there.
    Absent,
    /// It has been there since this revision.
    Created(Revision),
    /// It was last written at this revision.
    Modified(Revision),
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compare {
    /// Which keys.
    pub keys: Keys,
    /// What must be so.
    pub is: Test,
}

/// A part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Writes a key.
    Put {
        /// Which one.
        key: String,
        /// What to write.
        value: Vec<u8>,
        /// The lease with which it goes.
        lease: Option<LeaseId>,
    },
    /// Deletes keys.
    Delete(Keys),
    /// Reads keys, in the order of their names.
    Get(Keys),
    /// Reads which keys there are, and since when: without what was written, and without their leases.
    Names(Keys),
    /// Reads that one of some keys which was created first.
    First(Keys),
    /// A transaction within.
    Txn(Txn),
}

/// If all conditions hold, one list is done, otherwise the other: at one revision, whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Txn {
    /// The conditions.
    pub when: Vec<Compare>,
    /// What is done if they hold.
    pub then: Vec<Op>,
    /// What is done if one does not.
    pub otherwise: Vec<Op>,
}

impl Txn {
    /// A transaction without conditions.
    pub fn of(then: Vec<Op>) -> Txn {
        Txn { then, ..Txn::default() }
    }

    /// The operations that etcd counts against its limit ([`MOST_OPS`]): the longest list of each level, one level within the other.
    pub fn ops(&self) -> usize {
        let within = |ops: &[Op]| ops.iter().map(|op| if let Op::Txn(txn) = op { txn.ops() } else { 0 }).max();
        let own = self.when.len().max(self.then.len()).max(self.otherwise.len());
        own + within(&self.then).max(within(&self.otherwise)).unwrap_or(0)
    }
}

/// What etcd allows in one transaction, unless its administrator changed it.
pub const MOST_OPS: usize = 128;

/// A key that is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// What was written.
    pub value: Vec<u8>,
    /// Since when it is there.
    pub created: Revision,
    /// When it was last written.
    pub modified: Revision,
    /// The lease with which it goes.
    pub lease: Option<LeaseId>,
}

/// What came of a part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// It was put, or deleted.
    Done,
    /// It was read.
    Found(Vec<Entry>),
    /// The transaction within.
    Txn(bool, Vec<Reply>),
}

/// What came of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnReply {
    /// The engine's revision right after it.
    pub revision: Revision,
    /// Whether the conditions held.
    pub held: bool,
    /// One for each part of the list that was done.
    pub replies: Vec<Reply>,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It was written.
    Put(Entry),
    /// It was deleted.
    Deleted {
        /// Which one.
        key: String,
        /// When.
        at: Revision,
    },
}

impl Change {
    /// Its revision.
    pub fn revision(&self) -> Revision {
        match self {
            Change::Put(entry) => entry.modified,
            Change::Deleted { at, .. } => *at,
        }
    }

    /// Its key.
    pub fn key(&self) -> &str {
        match self {
            Change::Put(entry) => &entry.key,
            Change::Deleted { key, .. } => key,
        }
    }
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// Changes under the watch's keys of this number: all of a revision, and of no part of one.
    Changes(usize, Vec<Change>),
    /// The watch has ended: the engine was lost. Watch again, or read before.
    Broken(String),
    /// The watch has ended: the engine keeps no changes that are so old. Read, and watch again.
    Forgotten(String),
    /// The time was up.
    Nothing,
}

/// Why an engine did not say that it did something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It may have done it, may still do it, or not.
    #[error("the engine's answer was lost: {0}")]
    Unknown(String),
    /// The lease has ended; nothing was done.
    #[error("the lease has ended")]
    LeaseGone,
    /// It refused, and did nothing. To ask again is of no use.
    #[error("{0}")]
    Refused(String),
    /// It has no room. What was asked was done, or will never be: to read tells which. What only deletes or reads it does still.
    #[error("{0}")]
    Full(String),
}

/// An engine.
pub trait Engine {
    /// A stream of changes; it ends when this is dropped.
    type Watch: Watch;

    /// Does a transaction; waits for the answer as long as a request may take.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError>;

    /// The same, but waits for the answer so long at most. One that answers at once need not know of it.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn txn_within(&self, txn: &Txn, _most: Duration) -> Result<TxnReply, EngineError> {
        self.txn(txn)
    }

    /// Does a transaction that only reads, as one member has it: what it answers may be older than what is there, and it asks no other member. Waits for
    /// the answer so long at most.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn glance(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        self.txn_within(txn, most)
    }

    /// Makes a lease of this time to live; answers the time that the engine gives it.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError>;

    /// The same, but waits for the answer so long at most. One that answers at once need not know of it.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn grant_within(&self, ttl: Duration, _most: Duration) -> Result<(LeaseId, Duration), EngineError> {
        self.grant(ttl)
    }

    /// Renews a lease; answers its time to live, counted from some moment after this was called.
    ///
    /// # Errors
    /// `LeaseGone` for good, the others for this time.
    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError>;

    /// Ends a lease, and deletes all that was put with it.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError>;

    /// Watches keys, all from the same revision on.
    ///
    /// One that is not beyond the engine's own is served ten times a second only: give the revision after the one that was read.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    fn watch(&self, keys: &[Keys], from: Revision) -> Result<Self::Watch, EngineError>;
}

/// A stream of changes.
pub trait Watch {
    /// The next news; waits so long at most, without a time as long as it takes.
    fn next(&mut self, patience: Option<Duration>) -> News;
}
