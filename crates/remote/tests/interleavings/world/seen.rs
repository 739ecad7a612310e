//! What an engine has, and what a change of it must be like.

use super::space;
use crate::model::Model;
use chappe_remote::engine::{Change, Op, Txn};
use chappe_remote::keys::{self, Object};
use chappe_remote::view::View;

pub fn view(engine: &Model, pool: &str) -> View {
    let all: Vec<_> = engine.found(&space().pool(pool)).cloned().collect();
    View::of(&space(), pool, &all, engine.revision)
}

pub fn is_mutex(engine: &Model, name: &str) -> bool {
    view(engine, name).object.is_some_and(|object| matches!(object.what, Object::Mutex { .. }))
}

/// Whether it is a semaphore without the units that its head waits for.
pub fn lacks_units(engine: &Model, name: &str) -> bool {
    let view = view(engine, name);
    let is_sem = view.object.is_some_and(|object| matches!(object.what, Object::Sem { .. }));
    is_sem && view.head().is_none_or(|(_, head)| view.free(head.ticket.n, 0).is_none())
}

/// Whether an engine counts what a transaction puts: it does not look into those within.
pub fn puts(txn: &Txn) -> bool {
    txn.then.iter().chain(&txn.otherwise).any(|op| matches!(op, Op::Put { .. }))
}

/// Whether a transaction changes nothing.
pub fn reads(txn: &Txn) -> bool {
    let reads = |op: &Op| match op {
        Op::Get(_) | Op::First(_) | Op::Names(_) => true,
        Op::Put { .. } | Op::Delete(_) => false,
        Op::Txn(within) => reads(within),
    };
    txn.then.iter().chain(&txn.otherwise).all(reads)
}

/// All keys that a view knows of.
pub fn keys_of(view: &View, pool: &str) -> Vec<String> {
    let held = view.held.keys().map(|index| space().held(pool, *index));
    let tickets = view.queue.keys().map(|(_, id)| space().ticket(pool, id));
    let got = view.got.keys().map(|id| space().got(pool, id));
    held.chain(tickets).chain(got).chain(view.object.map(|_| space().size(pool))).collect()
}

/// What is granted goes to the head of the queue, or nobody waits; and an attempt has permits of one pool, and no ticket with them.
pub fn in_order(before: &Model, changes: &[Change]) {
    for change in changes {
        let Change::Put(entry) = change else { continue };
        let (pool, index) = match space().part(&entry.key) {
            Some((pool, keys::Part::Held(index))) => (pool.to_owned(), Some(index)),
            Some((pool, keys::Part::Got(_))) => (pool.to_owned(), None),
            _ => continue,
        };
        let holder: keys::Holder = keys::read(&entry.value).expect("a holder");
        let (view, id) = (view(before, &pool), holder.id);
        match view.place(&id) {
            Some(place) => assert_eq!(place, 0, "{id} overtook in the queue of {pool}"),
            None => assert!(view.queue.is_empty(), "{id} passed by the queue of {pool}"),
        }
        let within = index.is_none_or(|index| index < view.permits());
        assert!(within, "{pool}:{index:?} is beyond the pool's size");
        let quoted = format!("{id:?}");
        let had = before.entries.values().any(|entry| String::from_utf8_lossy(&entry.value).contains(&quoted));
        assert!(!had, "{id} had permits before");
        let is_ticket = |key: &str| matches!(space().part(key), Some((_, keys::Part::Ticket(of))) if of == id);
        let gone = changes.iter().filter(|change| is_ticket(change.key())).count();
        let tickets = before.entries.keys().filter(|key| is_ticket(key)).count();
        assert_eq!(gone, tickets, "{id} has permits, and a ticket is left");
    }
}
