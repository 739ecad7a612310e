//! The transactions by which permits, mutexes and units change hands.
//!
//! | | if | then |
//! |---|---|---|
//! | [`take`] | in the first pool where nobody waits and the permits are free | holds them. After a look that may be old: if the format is as it was then |
//! | [`take_again`] | the same of the first pool alone, as it was seen before | the same; otherwise reads as [`look`] |
//! | [`enqueue`] | all pools are as known | has a ticket in each: one place, at one revision |
//! | [`give`] | all tickets of a waiter are there, and the permits are free | it holds them, and has no ticket. By itself, or by a helper |
//! | [`hand_over`] | the same, and the permit is the giver's | the same, and the permit was never free |
//! | [`add`] | the semaphore is as known, and so is its head | has more units, or the head has its own |
//! | [`settle`] | always | nothing of the attempt happens later: what it has now is all |
//!
//! **A ticket is used once.** `give` and `hand_over` compare `created` of each ticket and delete all: of several that serve one waiter (itself,
//! helpers, a releaser) one succeeds, and one that arrives late finds no ticket.
//! **The token** is the revision of the grant, [`Entry::modified`](crate::engine::Entry) of `held`: a hand-over writes over the key, and so
//! keeps `created`.
//! **What was never answered may still be on its way.** `take`, `enqueue` and `add` create something from nothing, so they compare that `fence/ID`
//! is absent; `settle` and `settle_add` write it. The other transactions can be repeated: their conditions hold once.
//!
//! **A mutex** says in `size` that it is taken, beside `held`, which goes with the lease. A holder that has finished takes that back in the
//! transaction that gives the mutex back; what else ends `held` leaves it. So each grant knows what became of the last holder, and says so in
//! `held`, where a waiter finds it, whichever client granted: each compares the revision of `size`.
//!
//! **A unit of a semaphore** has no owner: what is left of a grant is `got/ID`, by which the waiter knows. A waiter that dies has spent its unit.

use crate::engine::{Compare, Entry, Keys, LeaseId, Op, Revision, Test, Txn};
use crate::keys::{self, Holder, Object, Part, Space, Ticket, Who};
use crate::view::{Given, Seen};
use serde::{Deserialize, Serialize};

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
    fn holder(&self, owner_died: bool) -> Vec<u8> {
        keys::write(&Holder { id: self.id.clone(), owner_died, who: self.who.clone() })
    }
}

/// Some of a pool, a mutex or a semaphore, as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    /// The pool.
    pub pool: String,
    /// The revision of its size.
    pub size: Revision,
    /// What.
    pub given: Given,
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
pub fn take(space: &Space, by: &Attempt, choice: &[Permits], format: Option<Revision>) -> Txn {
    let one = |permits: &Permits| Txn {
        when: unwaited(space, permits).collect(),
        then: puts(space, permits, by),
        otherwise: vec![],
    };
    let mut all = Txn::default();
    for permits in choice.iter().rev() {
        let otherwise = if all == Txn::default() { vec![] } else { vec![Op::Txn(all)] };
        all = Txn { otherwise, ..one(permits) };
    }
    let format = format.map(|format| is(space.format(), Test::Modified(format)));
    let when = [is(space.fence(&by.id), Test::Absent)].into_iter().chain(format).collect();
    Txn { when, then: vec![Op::Txn(all)], otherwise: vec![] }
}

/// Takes what was given back to the first of these pools, if that is as it was, the permits are free and nobody waits; otherwise looks.
pub fn take_again(space: &Space, by: &Attempt, pools: &[String], seen: &Seen) -> Txn {
    let pool = pools.first().cloned().unwrap_or_default();
    let permits = Permits { pool, size: seen.object.modified, given: seen.given.clone() };
    let mut when = vec![is(space.fence(&by.id), Test::Absent), is(space.format(), Test::Modified(seen.format))];
    when.extend(unwaited(space, &permits));
    Txn { when, then: puts(space, &permits, by), otherwise: look(space, pools).then }
}

/// Nobody waits, the pool is as it is known, and the permits are free.
fn unwaited<'a>(space: &'a Space, permits: &'a Permits) -> impl Iterator<Item = Compare> + 'a {
    let queue = Compare { keys: space.queue(&permits.pool), is: Test::Absent };
    let size = is(space.size(&permits.pool), Test::Modified(permits.size));
    [queue, size].into_iter().chain(free(space, permits))
}

fn free<'a>(space: &'a Space, permits: &'a Permits) -> impl Iterator<Item = Compare> + 'a {
    permits.given.indices().iter().map(|index| is(space.held(&permits.pool, *index), Test::Absent))
}

fn puts(space: &Space, permits: &Permits, by: &Attempt) -> Vec<Op> {
    let (value, lease) = (by.holder(permits.given.owner_died()), Some(by.lease));
    let size = |object: Object| Op::Put { key: space.size(&permits.pool), value: keys::write(&object), lease: None };
    let put = |index: &u32| Op::Put { key: space.held(&permits.pool, *index), value: value.clone(), lease };
    let mut puts: Vec<Op> = permits.given.indices().iter().map(put).collect();
    match permits.given {
        Given::Mutex { owner_died: false } => puts.push(size(Object::Mutex { taken: true })),
        // It says so already.
        Given::Mutex { owner_died: true } | Given::Permits(_) => {}
        Given::Units { rest } => {
            puts.push(size(Object::Sem { value: rest }));
            puts.push(Op::Put { key: space.got(&permits.pool, &by.id), value, lease });
        }
    }
    puts
}

/// Takes a place in the queue of each pool, and reads all of them, also if one is not there any more. `since` are their ages: how a mutex or a
/// semaphore stands may change again and again before there is a place in its queue.
pub fn enqueue(space: &Space, by: &Attempt, pools: &[String], since: &[Revision], n: u32) -> Txn {
    let mut when = vec![is(space.fence(&by.id), Test::Absent)];
    when.extend(pools.iter().zip(since).map(|(pool, since)| is(space.size(pool), Test::Created(*since))));
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
    /// The one to which a ticket belongs, and how many permits it wants.
    pub fn of(space: &Space, entry: &Entry) -> Option<(Waiter, u32)> {
        let (_, Part::Ticket(id)) = space.part(&entry.key)? else { return None };
        let ticket: Ticket = keys::read(&entry.value)?;
        let by = Attempt { id: id.to_owned(), lease: entry.lease?, who: ticket.who };
        Some((Waiter { by, pools: ticket.pools, since: entry.created }, ticket.n))
    }

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
    let mut then = puts(space, permits, &to.by);
    then.extend(to.leaves(space));
    Txn { when, then, otherwise: reads(space, then_read) }
}

/// What becomes of a permit that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum End {
    /// It is a pool's, or a mutex's whose holder has not finished: taken away, or given back for one that died.
    Left,
    /// It is a mutex's whose holder has finished.
    Finished,
}

impl End {
    /// Of what is held of this, where its holder has finished or has not.
    pub fn of(object: Object, finished: bool) -> End {
        if finished && matches!(object, Object::Mutex { .. }) { End::Finished } else { End::Left }
    }
}

/// A permit that is its holder's, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// The pool or mutex.
    pub pool: String,
    /// The token.
    pub token: Revision,
    /// How its holder ended.
    pub end: End,
}

impl Own {
    fn stands<'a>(&'a self, space: &'a Space, indices: &'a [u32]) -> impl Iterator<Item = Compare> + 'a {
        indices.iter().map(move |index| is(space.held(&self.pool, *index), Test::Modified(self.token)))
    }
}

/// Gives a permit that is the giver's to the head of the queue; if that cannot be, gives it back. Answers as [`give_back`] if so.
pub fn hand_over(space: &Space, to: &Waiter, own: &Own, permit: &Permits) -> Txn {
    let (given, lease) = (&permit.given, Some(to.by.lease));
    let mut when = to.stands(space);
    when.push(is(space.size(&own.pool), Test::Modified(permit.size)));
    when.extend(own.stands(space, given.indices()));
    // A mutex stays taken: what `size` says of it is so.
    let value = to.by.holder(given.owner_died());
    let put = |index: &u32| Op::Put { key: space.held(&own.pool, *index), value: value.clone(), lease };
    let mut then: Vec<Op> = given.indices().iter().map(put).collect();
    then.extend(to.leaves(space));
    Txn { when, then, otherwise: vec![Op::Txn(give_back(space, own, given.indices()))] }
}

/// Gives permits back if they are the giver's, whether a waiter is there or not.
pub fn give_back(space: &Space, own: &Own, indices: &[u32]) -> Txn {
    let mut then: Vec<Op> = indices.iter().map(|index| Op::Delete(Keys::One(space.held(&own.pool, *index)))).collect();
    if own.end == End::Finished {
        let value = keys::write(&Object::Mutex { taken: false });
        then.push(Op::Put { key: space.size(&own.pool), value, lease: None });
    }
    Txn { when: own.stands(space, indices).collect(), then, otherwise: vec![] }
}

/// The same if nobody waits; otherwise reads what a hand-over needs.
pub fn give_back_unless_waited_for(space: &Space, own: &Own, indices: &[u32]) -> Txn {
    let mut txn = give_back(space, own, indices);
    txn.when.push(Compare { keys: space.queue(&own.pool), is: Test::Absent });
    Txn { otherwise: head(space, &own.pool), ..txn }
}

/// Reads the head of a queue, and the pool's size.
pub fn head(space: &Space, pool: &str) -> Vec<Op> {
    vec![Op::First(space.queue(pool)), Op::Get(Keys::One(space.size(pool)))]
}

/// Sees to it that nothing of an attempt can happen any more, reads what it has, and with `leave` gives up its place. A `full` engine takes no fence: what
/// it answered it does not do later, what it never answered it may.
pub fn settle(space: &Space, by: &Attempt, pools: &[String], leave: bool, full: bool) -> Txn {
    let fence = Op::Put { key: space.fence(&by.id), value: vec![], lease: Some(by.lease) };
    let mut ops = if full { vec![] } else { vec![fence] };
    if leave {
        ops.extend(pools.iter().map(|pool| Op::Delete(Keys::One(space.ticket(pool, &by.id)))));
    }
    ops.extend(reads(space, pools));
    Txn::of(ops)
}

/// Adds to a semaphore, or gives the head its units of what there is then: `to` is it, `given` what is left, and `known` how the semaphore
/// stands. If that has changed, reads it again.
pub fn add(space: &Space, by: &Attempt, pool: &str, known: Revision, value: u32, to: Option<&Waiter>) -> Txn {
    let mut when = vec![is(space.fence(&by.id), Test::Absent), is(space.size(pool), Test::Modified(known))];
    let permits = Permits { pool: pool.to_owned(), size: known, given: Given::Units { rest: value } };
    let mut then = vec![Op::Put { key: space.done(&by.id), value: vec![], lease: Some(by.lease) }];
    match to {
        Some(to) => {
            when.extend(to.stands(space));
            then.extend(puts(space, &permits, &to.by));
            then.extend(to.leaves(space));
        }
        None => {
            let value = keys::write(&Object::Sem { value });
            then.push(Op::Put { key: space.size(pool), value, lease: None });
        }
    }
    Txn { when, then, otherwise: head(space, pool) }
}

/// Sees to it that an attempt to add is not done later, and reads whether it was.
pub fn settle_add(space: &Space, by: &Attempt, full: bool) -> Txn {
    let fence = Op::Put { key: space.fence(&by.id), value: vec![], lease: Some(by.lease) };
    let done = Op::Get(Keys::One(space.done(&by.id)));
    Txn::of(if full { vec![done] } else { vec![fence, done] })
}

/// Deletes what an attempt at a semaphore has left for itself, when it knows how it ended. It goes with the lease, too.
pub fn forget(space: &Space, pool: &str, id: &str) -> Txn {
    // Not the fence: what has not been answered may still come.
    let all = [space.got(pool, id), space.done(id)];
    Txn::of(all.into_iter().map(|key| Op::Delete(Keys::One(key))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MOST_OPS;
    use crate::view::Known;

    #[test]
    fn the_largest_of_each_fit_what_an_engine_allows() {
        let space = Space::new("lab").unwrap();
        let by = Attempt { id: "1-1".into(), lease: LeaseId(1), who: Who::default() };
        let pools: Vec<String> = (0..MOST_POOLS).map(|i| format!("p{i}")).collect();
        let permits = |pool: &String, given| Permits { pool: pool.clone(), size: 1, given };
        let all_of = |given: Given| -> Vec<Permits> { pools.iter().map(|pool| permits(pool, given.clone())).collect() };
        let choice = all_of(Given::Permits(vec![0]));
        let (mutexes, sems) = (all_of(Given::Mutex { owner_died: false }), all_of(Given::Units { rest: 1 }));
        let indices: Vec<u32> = (0..MOST_AT_ONCE).collect();
        let many = permits(&pools[0], Given::Permits(indices.clone()));
        let object = Known { what: Object::Pool { permits: MOST_AT_ONCE }, created: 1, modified: 1 };
        let seen = Seen { object, format: 1, given: Given::Permits(indices.clone()) };
        let own = Own { pool: pools[0].clone(), token: 1, end: End::Finished };
        let waiter = |pools: &[String]| Waiter { by: by.clone(), pools: pools.to_vec(), since: 1 };
        let all = [
            look(&space, &pools),
            take(&space, &by, &choice, Some(1)),
            take(&space, &by, &mutexes, Some(1)),
            take(&space, &by, &sems, Some(1)),
            take(&space, &by, std::slice::from_ref(&many), Some(1)),
            take_again(&space, &by, &pools, &seen),
            enqueue(&space, &by, &pools, &vec![1; pools.len()], 1),
            give(&space, &waiter(&pools), &mutexes[0], &pools),
            give(&space, &waiter(&pools), &sems[0], &pools),
            give(&space, &waiter(&pools[..1]), &many, &pools[..1]),
            hand_over(&space, &waiter(&pools), &own, &mutexes[0]),
            give_back_unless_waited_for(&space, &own, &indices),
            add(&space, &by, &pools[0], 1, 1, Some(&waiter(&pools))),
            settle(&space, &by, &pools, true, false),
        ];
        for txn in all {
            assert!(txn.ops() <= MOST_OPS, "{} operations: {txn:?}", txn.ops());
        }
    }
}
