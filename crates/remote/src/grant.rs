//! The transactions by which permits change hands.
//!
//! | | if | then |
//! |---|---|---|
//! | [`take`] | in the first pool where nobody waits and the permits are free | holds them |
//! | [`enqueue`] | all pools are as known | has a ticket in each: one place, at one revision |
//! | [`give`] | all tickets of a waiter are there, and the permits are free | it holds them, and has no ticket. By itself, or by a helper |
//! | [`hand_over`] | the same, and the permit is the giver's | the same, and the permit was never free |
//! | [`settle`] | always | nothing of the attempt happens later: what it has now is all |
//!
//! **A ticket is used once.** `give` and `hand_over` compare `created` of each ticket and delete all: of several that serve one waiter (itself,
//! helpers, a releaser) one succeeds, and one that arrives late finds no ticket.
//! **The token** is the revision of the grant, [`Entry::modified`](crate::engine::Entry) of `held`: a hand-over writes over the key, and so
//! keeps `created`.
//! **What was never answered may still be on its way.** `take` and `enqueue` create something from nothing, so both compare that `fence/ID` is
//! absent; `settle` writes it. The other transactions can be repeated: their conditions hold once.

use crate::engine::{Compare, Keys, LeaseId, Op, Revision, Test, Txn};
use crate::keys::{self, Holder, Space, Ticket, Who};

/// The most pools of a choice: each has a part in a transaction, of which an engine takes [`MOST_OPS`](crate::engine::MOST_OPS).
pub const MOST_POOLS: usize = 32;
/// The most permits at once, for the same reason.
pub const MOST_AT_ONCE: u32 = 100;

/// An attempt to get permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its name: [`keys::attempt`].
    pub id: String,
    /// The lease with which all goes that it has.
    pub lease: LeaseId,
    /// The process.
    pub who: Who,
}

impl Attempt {
    fn holder(&self) -> String {
        keys::write(&Holder { id: self.id.clone(), who: self.who.clone() })
    }
}

/// Some permits of a pool, as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    /// The pool.
    pub pool: String,
    /// The revision of its size.
    pub size: Revision,
    /// Which permits.
    pub indices: Vec<u32>,
}

fn is(key: String, is: Test) -> Compare {
    Compare { keys: Keys::One(key), is }
}

/// Reads all of some pools.
pub fn reads(space: &Space, pools: &[String]) -> Vec<Op> {
    pools.iter().map(|pool| Op::Get(space.pool(pool))).collect()
}

/// Reads all of some pools, and the format.
pub fn look(space: &Space, pools: &[String]) -> Txn {
    let mut ops = vec![Op::Get(Keys::One(space.format()))];
    ops.extend(reads(space, pools));
    Txn::of(ops)
}

/// Takes the first of these that is free and not waited for. The depth of the first `true` among the answers says which one.
pub fn take(space: &Space, by: &Attempt, choice: &[Permits]) -> Txn {
    let one = |permits: &Permits| {
        let mut when = vec![
            Compare { keys: space.queue(&permits.pool), is: Test::Absent },
            is(space.size(&permits.pool), Test::Modified(permits.size)),
        ];
        when.extend(free(space, permits));
        Txn { when, then: puts(space, permits, by.holder(), Some(by.lease)), otherwise: vec![] }
    };
    let mut all = Txn::default();
    for permits in choice.iter().rev() {
        let otherwise = if all == Txn::default() { vec![] } else { vec![Op::Txn(all)] };
        all = Txn { otherwise, ..one(permits) };
    }
    Txn { when: vec![is(space.fence(&by.id), Test::Absent)], then: vec![Op::Txn(all)], otherwise: vec![] }
}

fn free<'a>(space: &'a Space, permits: &'a Permits) -> impl Iterator<Item = Compare> + 'a {
    permits.indices.iter().map(|index| is(space.held(&permits.pool, *index), Test::Absent))
}

fn puts(space: &Space, permits: &Permits, value: String, lease: Option<LeaseId>) -> Vec<Op> {
    let put = |index: &u32| Op::Put { key: space.held(&permits.pool, *index), value: value.clone(), lease };
    permits.indices.iter().map(put).collect()
}

/// Takes a place in the queue of each pool, and reads all of them, also if a size is another by now. `sizes` are those known.
pub fn enqueue(space: &Space, by: &Attempt, pools: &[String], sizes: &[Revision], n: u32) -> Txn {
    let mut when = vec![is(space.fence(&by.id), Test::Absent)];
    when.extend(pools.iter().zip(sizes).map(|(pool, size)| is(space.size(pool), Test::Modified(*size))));
    let value = keys::write(&Ticket { pools: pools.to_vec(), n, who: by.who.clone() });
    let put = |pool: &String| Op::Put { key: space.ticket(pool, &by.id), value: value.clone(), lease: Some(by.lease) };
    let then = pools.iter().map(put).chain(reads(space, pools)).collect();
    Txn { when, then, otherwise: reads(space, pools) }
}

/// A waiter as its tickets tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Its attempt; the lease is the ticket's.
    pub by: Attempt,
    /// The pools in whose queues it stands.
    pub pools: Vec<String>,
    /// Since when, in each of them.
    pub since: Revision,
}

impl Waiter {
    fn stands(&self, space: &Space) -> Vec<Compare> {
        let one = |pool: &String| is(space.ticket(pool, &self.by.id), Test::Created(self.since));
        self.pools.iter().map(one).collect()
    }

    fn leaves(&self, space: &Space) -> Vec<Op> {
        self.pools.iter().map(|pool| Op::Delete(Keys::One(space.ticket(pool, &self.by.id)))).collect()
    }
}

/// Gives a waiter at the head of a queue what is free there. If it cannot be, reads `then_read`.
pub fn give(space: &Space, to: &Waiter, permits: &Permits, then_read: &[String]) -> Txn {
    let mut when = to.stands(space);
    when.push(is(space.size(&permits.pool), Test::Modified(permits.size)));
    when.extend(free(space, permits));
    let mut then = puts(space, permits, to.by.holder(), Some(to.by.lease));
    then.extend(to.leaves(space));
    Txn { when, then, otherwise: reads(space, then_read) }
}

/// Gives a permit that is the giver's to the head of the queue; if that cannot be, gives it back. Answers as [`give_back`] if so.
pub fn hand_over(space: &Space, to: &Waiter, permit: &Permits, token: Revision) -> Txn {
    let mut when = to.stands(space);
    when.push(is(space.size(&permit.pool), Test::Modified(permit.size)));
    when.extend(own(space, permit, token));
    let mut then = puts(space, permit, to.by.holder(), Some(to.by.lease));
    then.extend(to.leaves(space));
    Txn { when, then, otherwise: vec![Op::Txn(give_back(space, &permit.pool, &permit.indices, token))] }
}

fn own<'a>(space: &'a Space, permits: &'a Permits, token: Revision) -> impl Iterator<Item = Compare> + 'a {
    permits.indices.iter().map(move |index| is(space.held(&permits.pool, *index), Test::Modified(token)))
}

/// Gives permits back if they are the giver's, whether a waiter is there or not.
pub fn give_back(space: &Space, pool: &str, indices: &[u32], token: Revision) -> Txn {
    let when = indices.iter().map(|index| is(space.held(pool, *index), Test::Modified(token))).collect();
    let then = indices.iter().map(|index| Op::Delete(Keys::One(space.held(pool, *index)))).collect();
    Txn { when, then, otherwise: vec![] }
}

/// The same if nobody waits; otherwise reads what a hand-over needs.
pub fn give_back_unless_waited_for(space: &Space, pool: &str, indices: &[u32], token: Revision) -> Txn {
    let mut txn = give_back(space, pool, indices, token);
    txn.when.push(Compare { keys: space.queue(pool), is: Test::Absent });
    Txn { otherwise: head(space, pool), ..txn }
}

/// Reads the head of a queue, and the pool's size.
pub fn head(space: &Space, pool: &str) -> Vec<Op> {
    vec![Op::First(space.queue(pool)), Op::Get(Keys::One(space.size(pool)))]
}

/// Sees to it that nothing of an attempt can happen any more, reads what it has, and with `leave` gives up its place.
pub fn settle(space: &Space, by: &Attempt, pools: &[String], leave: bool) -> Txn {
    let mut ops = vec![Op::Put { key: space.fence(&by.id), value: String::new(), lease: Some(by.lease) }];
    if leave {
        ops.extend(pools.iter().map(|pool| Op::Delete(Keys::One(space.ticket(pool, &by.id)))));
    }
    ops.extend(reads(space, pools));
    Txn::of(ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MOST_OPS;

    #[test]
    fn the_largest_of_each_fit_what_an_engine_allows() {
        let space = Space::new("lab").unwrap();
        let by = Attempt { id: "1-1".into(), lease: LeaseId(1), who: Who::default() };
        let pools: Vec<String> = (0..MOST_POOLS).map(|i| format!("p{i}")).collect();
        let permits = |pool: &String, n| Permits { pool: pool.clone(), size: 1, indices: (0..n).collect() };
        let choice: Vec<Permits> = pools.iter().map(|pool| permits(pool, 1)).collect();
        let many = permits(&pools[0], MOST_AT_ONCE);
        let waiter = |pools: &[String]| Waiter { by: by.clone(), pools: pools.to_vec(), since: 1 };
        let all = [
            look(&space, &pools),
            take(&space, &by, &choice),
            take(&space, &by, std::slice::from_ref(&many)),
            enqueue(&space, &by, &pools, &vec![1; pools.len()], 1),
            give(&space, &waiter(&pools), &choice[0], &pools),
            give(&space, &waiter(&pools[..1]), &many, &pools[..1]),
            hand_over(&space, &waiter(&pools), &choice[0], 1),
            give_back_unless_waited_for(&space, &many.pool, &many.indices, 1),
            settle(&space, &by, &pools, true),
        ];
        for txn in all {
            assert!(txn.ops() <= MOST_OPS, "{} operations: {txn:?}", txn.ops());
        }
    }
}
