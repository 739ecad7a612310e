//! A model of etcd: what the protocol uses of it, at one place and without time.
//!
//! Left out: history (a watch is fed by the caller with what each call changed), members and elections.

use chappe_remote::engine::{
    Change, Compare, EngineError, Entry, Keys, LeaseId, Op, Reply, Revision, Test, Txn, TxnReply,
};
use std::collections::{BTreeMap, BTreeSet};

/// The engine's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    pub revision: Revision,
    pub entries: BTreeMap<String, Entry>,
    pub leases: BTreeSet<LeaseId>,
}

/// What a list of a transaction comes to, decided before anything is written.
struct Plan<'a> {
    held: bool,
    ops: Vec<(&'a Op, Option<Plan<'a>>)>,
}

impl Model {
    /// As an engine begins.
    pub fn new() -> Model {
        Model { revision: 1, entries: BTreeMap::new(), leases: BTreeSet::new() }
    }

    /// Does a transaction; answers also what it changed.
    pub fn txn(&mut self, txn: &Txn) -> (Result<TxnReply, EngineError>, Vec<Change>) {
        if txn.ops() > chappe_remote::engine::MOST_OPS {
            return (Err(EngineError::Refused("too many operations in txn request".into())), vec![]);
        }
        if written(&txn.then).is_none() || written(&txn.otherwise).is_none() {
            return (Err(EngineError::Refused("duplicate key given in txn request".into())), vec![]);
        }
        let plan = self.plan(txn);
        if !self.leases_are_there(&plan) {
            return (Err(EngineError::LeaseGone), vec![]);
        }
        let (mut changes, at) = (Vec::new(), self.revision + 1);
        let replies = self.carry_out(&plan, at, &mut changes);
        if !changes.is_empty() {
            self.revision = at;
        }
        (Ok(TxnReply { revision: self.revision, held: plan.held, replies }), changes)
    }

    /// Makes a lease.
    pub fn grant(&mut self, lease: LeaseId) {
        self.leases.insert(lease);
    }

    /// Ends a lease; answers what that changed.
    pub fn revoke(&mut self, lease: LeaseId) -> Vec<Change> {
        if !self.leases.remove(&lease) {
            return vec![];
        }
        let with = |entry: &&Entry| entry.lease == Some(lease);
        let keys: Vec<String> = self.entries.values().filter(with).map(|entry| entry.key.clone()).collect();
        let at = self.revision + 1;
        let changes: Vec<Change> = keys.into_iter().map(|key| Change::Deleted { key, at }).collect();
        for change in &changes {
            self.entries.remove(change.key());
        }
        if !changes.is_empty() {
            self.revision = at;
        }
        changes
    }

    fn plan<'a>(&self, txn: &'a Txn) -> Plan<'a> {
        let held = txn.when.iter().all(|compare| self.holds(compare));
        let list = if held { &txn.then } else { &txn.otherwise };
        let within = |op: &'a Op| if let Op::Txn(txn) = op { Some(self.plan(txn)) } else { None };
        Plan { held, ops: list.iter().map(|op| (op, within(op))).collect() }
    }

    /// Of a range, each key must do; of an empty one, a key that is not there, whose numbers are 0.
    fn holds(&self, compare: &Compare) -> bool {
        let is = |created, modified| match compare.is {
            Test::Absent => created == 0,
            Test::Created(at) => created == at,
            Test::Modified(at) => modified == at,
        };
        let mut some = self.entries.values().filter(|entry| compare.keys.have(&entry.key)).peekable();
        if some.peek().is_none() { is(0, 0) } else { some.all(|entry| is(entry.created, entry.modified)) }
    }

    fn leases_are_there(&self, plan: &Plan<'_>) -> bool {
        plan.ops.iter().all(|(op, within)| match (op, within) {
            (Op::Put { lease: Some(lease), .. }, _) => self.leases.contains(lease),
            (_, Some(within)) => self.leases_are_there(within),
            _ => true,
        })
    }

    fn carry_out(&mut self, plan: &Plan<'_>, at: Revision, changes: &mut Vec<Change>) -> Vec<Reply> {
        let mut replies = Vec::new();
        for (op, within) in &plan.ops {
            replies.push(match op {
                Op::Put { key, value, lease } => {
                    let created = self.entries.get(key).map_or(at, |entry| entry.created);
                    let entry = Entry { key: key.clone(), value: value.clone(), created, modified: at, lease: *lease };
                    self.entries.insert(key.clone(), entry.clone());
                    changes.push(Change::Put(entry));
                    Reply::Done
                }
                Op::Delete(keys) => {
                    let gone: Vec<String> = self.entries.keys().filter(|key| keys.have(key)).cloned().collect();
                    for key in gone {
                        self.entries.remove(&key);
                        changes.push(Change::Deleted { key, at });
                    }
                    Reply::Done
                }
                Op::Get(keys) => Reply::Found(self.found(keys).cloned().collect()),
                Op::Names(keys) => Reply::Found(
                    self.found(keys).map(|entry| Entry { value: vec![], lease: None, ..entry.clone() }).collect(),
                ),
                Op::First(keys) => {
                    Reply::Found(self.found(keys).min_by_key(|entry| entry.created).cloned().into_iter().collect())
                }
                Op::Txn(_) => {
                    let within = within.as_ref().expect("planned");
                    Reply::Txn(within.held, self.carry_out(within, at, changes))
                }
            });
        }
        replies
    }

    /// What is under these keys, in the order of their names.
    pub fn found<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(|entry| keys.have(&entry.key))
    }
}

/// The keys that a list puts, and those that it deletes; `None`: etcd takes one for written twice, whatever the conditions are. What one
/// transaction within deletes, a later one must not put; the other way round, and in its two lists, that is nothing to etcd.
fn written(ops: &[Op]) -> Option<(Vec<&String>, Vec<&Keys>)> {
    let (mut puts, mut deletes): (Vec<&String>, Vec<&Keys>) = (Vec::new(), Vec::new());
    deletes.extend(ops.iter().filter_map(|op| if let Op::Delete(keys) = op { Some(keys) } else { None }));
    for op in ops {
        let Op::Txn(txn) = op else { continue };
        let ((then, then_deletes), (otherwise, else_deletes)) = (written(&txn.then)?, written(&txn.otherwise)?);
        let is_free = |key: &&&String| !puts.contains(*key) && !deletes.iter().any(|keys| keys.have(key));
        if !then.iter().chain(&otherwise).all(|key| is_free(&key)) {
            return None;
        }
        puts.extend(then.into_iter().chain(otherwise));
        deletes.extend(then_deletes.into_iter().chain(else_deletes));
    }
    for op in ops {
        let Op::Put { key, .. } = op else { continue };
        if puts.contains(&key) || deletes.iter().any(|keys| keys.have(key)) {
            return None;
        }
        puts.push(key);
    }
    Some((puts, deletes))
}
