//! The model of etcd beside etcd: the same random transactions and ends of leases, and the same answers, revisions and news.

use crate::model::Model;
use crate::nodes::Nodes;
use crate::person::options;
use chappe_remote::engine::{
    Change, Compare, Engine, EngineError, Keys, LeaseId, MOST_OPS, News, Op, Test, Txn, TxnReply, Watch,
};
use chappe_remote::etcd::Etcd;
use std::time::Duration;

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn key(&mut self) -> String {
        format!("{}/{}", ["a", "b"][self.below(2) as usize], self.below(3))
    }

    fn keys(&mut self) -> Keys {
        match self.below(4) {
            0 => Keys::Between(self.key(), self.key()),
            1 => Keys::Under(["a/", "b/", "c/"][self.below(3) as usize].to_owned()),
            _ => Keys::One(self.key()),
        }
    }

    /// Often one that is so.
    fn compare(&mut self, model: &Model) -> Compare {
        let keys = self.keys();
        let there = model.found(&keys).next().map(|entry| (entry.created, entry.modified));
        let is = match (self.below(4), there) {
            (0, _) | (_, None) => Test::Absent,
            (1, Some((created, _))) => Test::Created(created),
            (2, Some((_, modified))) => Test::Modified(modified),
            _ => Test::Modified(self.below(model.revision + 1)),
        };
        Compare { keys, is }
    }

    fn op(&mut self, model: &Model, leases: &[LeaseId], depth: u32) -> Op {
        match self.below(if depth == 0 { 7 } else { 9 }) {
            0..=2 => {
                let lease = leases.get(self.below(leases.len() as u64 + 1) as usize).copied();
                Op::Put { key: self.key(), value: self.below(1000).to_string().into_bytes(), lease }
            }
            3 => Op::Delete(self.keys()),
            4 => Op::Get(self.keys()),
            5 => Op::Names(self.keys()),
            // Of keys that were created together etcd answers any.
            6 => Op::First(Keys::One(self.key())),
            _ => Op::Txn(self.txn(model, leases, depth - 1)),
        }
    }

    fn txn(&mut self, model: &Model, leases: &[LeaseId], depth: u32) -> Txn {
        let when = (0..self.below(3)).map(|_| self.compare(model)).collect();
        let mut ops = || (0..self.below(4)).map(|_| self.op(model, leases, depth)).collect();
        Txn { when, then: ops(), otherwise: ops() }
    }
}

/// Both refuse, each in its own words.
fn alike(own: &Result<TxnReply, EngineError>, real: &Result<TxnReply, EngineError>) -> bool {
    match (own, real) {
        (Err(EngineError::Refused(own)), Err(EngineError::Refused(real))) => real.contains(own.as_str()),
        _ => own == real,
    }
}

/// As many as the model had, of a watch that began before.
fn told(stream: &mut <Etcd as Engine>::Watch, wanted: usize) -> Vec<Change> {
    let mut all = Vec::new();
    while all.len() < wanted {
        match stream.next(Some(Duration::from_secs(60))) {
            News::Changes(_, changes) => all.extend(changes),
            other => panic!("{other:?} after {} of {wanted} changes", all.len()),
        }
    }
    all
}

#[test]
#[ignore = "storm: it starts engines"]
fn the_model_answers_as_etcd_does() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let etcd = Etcd::connect(&options(&nodes, "unused")).unwrap();
    let mut model = Model::new();
    let reply = etcd.txn(&Txn::of(vec![Op::Get(Keys::One("a/0".into()))])).unwrap();
    assert_eq!(reply.revision, model.revision, "both begin alike");
    let mut stream = etcd.watch(&[Keys::Under("a/".into())], model.revision + 1).unwrap();
    let (mut random, mut refused, mut gone, mut wanted) = (Random(42), 0, 0, Vec::new());
    let mut leases: Vec<LeaseId> = Vec::new();
    for turn in 0..3000 {
        if leases.len() < 3 || random.below(40) == 0 {
            let (lease, _) = etcd.grant(Duration::from_secs(600)).unwrap();
            model.grant(lease);
            leases.push(lease);
        }
        if leases.len() > 3 {
            // It stays among those that are used: what has ended is refused.
            let at = random.below(leases.len() as u64) as usize;
            etcd.revoke(leases[at]).unwrap();
            wanted.extend(model.revoke(leases[at]));
            if random.below(2) == 0 {
                leases.swap_remove(at);
            }
            leases.truncate(8);
        }
        let txn = random.txn(&model, &leases, 2);
        let ((own, changes), real) = (model.txn(&txn), etcd.txn(&txn));
        assert!(alike(&own, &real), "in turn {turn} the model says {own:?}, etcd {real:?}, of {txn:?}");
        refused += u32::from(matches!(own, Err(EngineError::Refused(_))));
        gone += u32::from(own == Err(EngineError::LeaseGone));
        wanted.extend(changes);
    }
    assert!(refused > 50 && gone > 50, "{refused} were refused, of {gone} the lease was gone");
    wanted.retain(|change| change.key().starts_with("a/"));
    assert_eq!(told(&mut stream, wanted.len()), wanted);
}

#[test]
#[ignore = "storm: it starts engines"]
fn the_limit_of_operations_is_etcds() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let etcd = Etcd::connect(&options(&nodes, "unused")).unwrap();
    let gets = |n: usize| (0..n).map(|i| Op::Get(Keys::One(format!("a/{i}")))).collect::<Vec<Op>>();
    let nested = |own: usize, within: usize| {
        let mut txn = Txn::of(gets(own - 1));
        txn.then.push(Op::Txn(Txn { otherwise: gets(within), ..Txn::default() }));
        txn
    };
    let all = [Txn::of(gets(MOST_OPS)), Txn::of(gets(MOST_OPS + 1)), nested(100, 28), nested(100, 29)];
    for (txn, fits) in all.iter().zip([true, false, true, false]) {
        let (own, real) = (Model::new().txn(txn).0, etcd.txn(txn));
        assert_eq!(own.is_ok(), fits, "{}", txn.ops());
        assert!(alike(&own, &real), "{own:?}, {real:?}");
    }
}
