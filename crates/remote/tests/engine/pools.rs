//! Pools on three nodes: what the model promises is so.

use crate::nodes::Nodes;
use crate::person::{Person, Told};
use chappe_remote::acquire::{Grant, Outcome, Step};
use chappe_remote::drive;
use chappe_remote::engine::{Change, Engine, Keys, News, Op, Txn, Watch};
use chappe_remote::grant::{End, Own};
use chappe_remote::keys::Object;
use chappe_remote::release::Release;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Waits on a thread of its own; tells its places, and how it ended.
fn wait<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    person: &'s Person,
    pools: &'static [&'static str],
    n: u32,
) -> (Receiver<usize>, Receiver<Outcome>) {
    let ((placed, place), (done, outcome)) = (channel(), channel());
    scope.spawn(move || {
        let told = Told { placed: Some(placed), gives_up: None };
        done.send(person.tries(pools, n, true, &told).unwrap()).unwrap();
    });
    (place, outcome)
}

fn granted(outcome: &Receiver<Outcome>) -> Grant {
    match outcome.recv().unwrap() {
        Outcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

fn told(place: &Receiver<usize>, wanted: usize) {
    while place.recv().unwrap() != wanted {}
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_free_permit_is_taken_and_given_back_and_leaves_nothing_behind() {
    let Some(nodes) = Nodes::three() else { return };
    let one = Person::of(&nodes, "free");
    one.create("a", 1);
    let first = one.takes(&["a"], 1);
    assert_eq!((first.pool, first.indices.as_slice()), (0, &[0][..]));
    assert_eq!(one.holder("a", 0), Some((first.id.clone(), first.token)));
    assert_eq!(one.tries(&["a"], 1, false, &Told::default()), Ok(Outcome::WouldBlock));
    one.gives("a", &first);
    let second = one.takes(&["a"], 1);
    assert!(second.token > first.token);
    assert_eq!(one.gives_late("a", &first), [0], "it is another's by now");
    one.gives("a", &second);
    let left: Vec<String> = one.finds(one.space.all()).into_iter().map(|entry| entry.key).collect();
    assert_eq!(left, [one.space.size("a")]);
}

#[test]
#[ignore = "storm: it starts engines"]
fn of_several_pools_the_first_that_has_a_permit_gives_one() {
    let Some(nodes) = Nodes::three() else { return };
    let one = Person::of(&nodes, "choice");
    for pool in ["a", "b", "c"] {
        one.create(pool, 1);
    }
    let grants: Vec<Grant> = (0..3).map(|_| one.takes(&["a", "b", "c"], 1)).collect();
    assert_eq!(grants.iter().map(|grant| grant.pool).collect::<Vec<_>>(), [0, 1, 2]);
    let other = Person::of(&nodes, "choice");
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &other, &["a", "b", "c"], 1);
        told(&place, 0);
        one.gives("b", &grants[1]);
        let grant = granted(&outcome);
        assert_eq!(grant.pool, 1);
        let tickets = ["a", "b", "c"].map(|pool| one.finds(one.space.queue(pool)).len());
        assert_eq!(tickets, [0, 0, 0], "it has one permit, and no place in any queue");
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn several_permits_come_together_and_smaller_wishes_wait_behind() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, many, few) = (Person::of(&nodes, "n"), Person::of(&nodes, "n"), Person::of(&nodes, "n"));
    one.create("a", 4);
    let three = one.takes(&["a"], 3);
    assert_eq!(one.tries(&["a"], 2, false, &Told::default()), Ok(Outcome::WouldBlock));
    assert_eq!(one.tries(&["a"], 5, true, &Told::default()), Ok(Outcome::TooMany(4)));
    std::thread::scope(|scope| {
        let (place, first) = wait(scope, &many, &["a"], 2);
        told(&place, 0);
        let (place, second) = wait(scope, &few, &["a"], 1);
        told(&place, 1);
        one.gives("a", &three);
        let (first, second) = (granted(&first), granted(&second));
        assert_eq!((first.indices.len(), second.indices.len()), (2, 1));
        assert!(first.token < second.token, "the first that came was the first to be served");
        let mut all = [first.indices, second.indices].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3, "no permit has two holders");
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let Some(nodes) = Nodes::three() else { return };
    let holder = Person::of(&nodes, "fifo");
    holder.create("a", 1);
    let waiters: Vec<Person> = (0..5).map(|_| Person::of(&nodes, "fifo")).collect();
    let mut grant = holder.takes(&["a"], 1);
    std::thread::scope(|scope| {
        let mut outcomes = Vec::new();
        for (at, waiter) in waiters.iter().enumerate() {
            let (place, outcome) = wait(scope, waiter, &["a"], 1);
            told(&place, at);
            outcomes.push((outcome, place));
        }
        let mut last = &holder;
        for (waiter, (outcome, _)) in waiters.iter().zip(&outcomes) {
            last.gives("a", &grant);
            let next = granted(outcome);
            assert!(next.token > grant.token);
            (grant, last) = (next, waiter);
        }
        last.gives("a", &grant);
    });
    assert_eq!(holder.finds(holder.space.pool("a")).len(), 1, "nothing is left but the size");
}

#[test]
#[ignore = "storm: it starts engines"]
fn one_that_gives_up_leaves_the_queue_to_those_behind() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, leaves, stays) = (Person::of(&nodes, "up"), Person::of(&nodes, "up"), Person::of(&nodes, "up"));
    one.create("a", 1);
    let grant = one.takes(&["a"], 1);
    let gives_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ((placed, place), (done, outcome)) = (channel(), channel());
        let (leaves, gives_up) = (&leaves, &gives_up);
        scope.spawn(move || {
            let told = Told { placed: Some(placed), gives_up: Some(gives_up) };
            done.send(leaves.tries(&["a"], 1, true, &told)).unwrap();
        });
        told(&place, 0);
        let (behind, second) = wait(scope, &stays, &["a"], 1);
        told(&behind, 1);
        // Release: pairs with the waiter's look.
        gives_up.store(true, Ordering::Release);
        assert_eq!(outcome.recv().unwrap(), Ok(Outcome::Cancelled));
        told(&behind, 0);
        one.gives("a", &grant);
        granted(&second);
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_pool_of_another_size_serves_refuses_or_tells_its_waiters() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, waiter) = (Person::of(&nodes, "size"), Person::of(&nodes, "size"));
    one.create("a", 1);
    let _held = one.takes(&["a"], 1);
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &waiter, &["a"], 1);
        told(&place, 0);
        one.create("a", 2);
        assert_eq!(granted(&outcome).indices, [1]);
        let (place, outcome) = wait(scope, &waiter, &["a"], 2);
        told(&place, 0);
        one.create("a", 1);
        assert_eq!(outcome.recv().unwrap(), Outcome::TooMany(1));
        let (place, outcome) = wait(scope, &waiter, &["a"], 1);
        told(&place, 0);
        one.etcd.txn(&Txn::of(vec![Op::Delete(one.space.pool("a"))])).unwrap();
        assert!(matches!(outcome.recv().unwrap(), Outcome::Removed(0) | Outcome::Lost));
    });
    assert_eq!(waiter.tries(&["a"], 1, true, &Told::default()), Ok(Outcome::NoPool(0)));
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_permit_taken_by_force_goes_to_the_head_and_its_holder_is_told() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, waiter, admin) = (Person::of(&nodes, "force"), Person::of(&nodes, "force"), Person::of(&nodes, "force"));
    one.create("a", 1);
    let held = one.takes(&["a"], 1);
    let mut stream = one.etcd.watch(&[Keys::One(one.space.held("a", 0))], held.token + 1).unwrap();
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &waiter, &["a"], 1);
        told(&place, 0);
        let own = Own { pool: "a".into(), token: held.token, end: End::Left };
        let mut machine = Release::new(admin.space.clone(), own, vec![0], true);
        assert_eq!(drive::release(&admin.etcd, &mut machine, || false), Ok(vec![]));
        let next = granted(&outcome);
        assert!(next.token > held.token);
        match stream.next(None) {
            News::Changes(0, changes) => {
                assert!(matches!(&changes[..], [Change::Put(entry)] if entry.modified == next.token), "{changes:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(one.gives_late("a", &held), [0], "it is not its own any more");
        waiter.gives("a", &next);
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_dead_holders_permit_goes_to_the_head_when_its_lease_ends() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, other, waiter) = (Person::brief(&nodes, "dead"), Person::of(&nodes, "dead"), Person::of(&nodes, "dead"));
    one.create("a", 1);
    let _held = one.takes(&["a"], 1);
    let Person { etcd, session, .. } = one;
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &waiter, &["a"], 1);
        told(&place, 0);
        // Nobody renews it any more.
        let lease = session.lease();
        drop(session);
        let grant = granted(&outcome);
        assert!(etcd.left(lease).is_ok_and(|left| left.is_zero()), "it was granted before the lease ended");
        waiter.gives("a", &grant);
        // One that ends it itself needs no time.
        let held = other.takes(&["a"], 1);
        let (place, outcome) = wait(scope, &waiter, &["a"], 1);
        told(&place, 0);
        other.etcd.revoke(other.session.lease()).unwrap();
        assert!(granted(&outcome).token > held.token);
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn the_next_in_line_helps_a_head_that_is_stopped() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, stopped, helper) = (Person::of(&nodes, "help"), Person::of(&nodes, "help"), Person::of(&nodes, "help"));
    one.create("a", 1);
    let _held = one.takes(&["a"], 1);
    // It gets its place, and does nothing from then on.
    let (_, mut machine) = stopped.machine(&["a"], 1, true);
    while let Step::Call(txn) = machine.step() {
        machine.answered(&stopped.etcd.txn(&txn));
    }
    assert_eq!(machine.place(), Some(0));
    let revision = machine.views()[0].revision;
    let mut stream = stopped.etcd.watch(&[Keys::One(one.space.held("a", 0))], revision + 1).unwrap();
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &helper, &["a"], 1);
        told(&place, 1);
        one.etcd.revoke(one.session.lease()).unwrap();
        let lease = loop {
            match stream.next(None) {
                News::Changes(_, changes) => {
                    if let Some(Change::Put(entry)) = changes.last() {
                        break entry.lease;
                    }
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(lease, Some(stopped.session.lease()), "it was given to the head");
        stopped.etcd.revoke(stopped.session.lease()).unwrap();
        granted(&outcome);
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_mutex_tells_its_next_holder_whether_the_last_one_had_finished() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, dies, waiter) = (Person::of(&nodes, "mutex"), Person::of(&nodes, "mutex"), Person::of(&nodes, "mutex"));
    one.makes("m", Object::Mutex { taken: false });
    let first = one.takes(&["m"], 1);
    assert!(!first.owner_died);
    one.finishes("m", &first);
    let held = dies.takes(&["m"], 1);
    assert!(!held.owner_died, "the last one had finished");
    std::thread::scope(|scope| {
        let (place, outcome) = wait(scope, &waiter, &["m"], 1);
        told(&place, 0);
        dies.etcd.revoke(dies.session.lease()).unwrap();
        let after = granted(&outcome);
        assert!(after.owner_died && after.token > held.token, "{after:?}");
        let (place, outcome) = wait(scope, &one, &["m"], 1);
        told(&place, 0);
        waiter.finishes("m", &after);
        let last = granted(&outcome);
        assert!(!last.owner_died);
        assert_eq!(one.gives_late("m", &after), [0], "it is another's by now");
        one.finishes("m", &last);
    });
}

#[test]
#[ignore = "storm: it starts engines"]
fn units_of_a_semaphore_go_to_those_that_wait_and_are_kept_for_those_that_come() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, first, second) = (Person::of(&nodes, "sem"), Person::of(&nodes, "sem"), Person::of(&nodes, "sem"));
    one.makes("s", Object::Sem { value: 0 });
    one.makes("m", Object::Mutex { taken: false });
    let held = one.takes(&["m"], 1);
    assert_eq!(first.tries(&["s"], 1, false, &Told::default()), Ok(Outcome::WouldBlock));
    std::thread::scope(|scope| {
        let (place, both) = wait(scope, &first, &["s"], 2);
        told(&place, 0);
        let (place, either) = wait(scope, &second, &["m", "s"], 1);
        told(&place, 0);
        assert_eq!(one.adds("s", 3), 1, "two are the first one's");
        let (both, either) = (granted(&both), granted(&either));
        assert!(both.indices.is_empty() && either.pool == 1 && both.token < either.token, "{both:?}, {either:?}");
    });
    one.finishes("m", &held);
    assert_eq!(one.adds("s", 2), 2);
    let grant = second.takes(&["m", "s"], 1);
    assert_eq!((grant.pool, grant.owner_died), (0, false), "the one that is named first");
}

/// Which permits have a holder, and the last token of each: what the engine is not asked.
#[derive(Default)]
struct Oracle(Mutex<BTreeMap<(String, u32), (bool, u64)>>);

impl Oracle {
    fn taken(&self, pool: &str, grant: &Grant) {
        let mut all = self.0.lock().unwrap();
        let (held, token) = all.entry((pool.to_owned(), grant.indices[0])).or_default();
        assert!(!*held, "{pool}:{:?} has two holders", grant.indices);
        assert!(*token < grant.token, "token {} of {pool} comes after {token}", grant.token);
        (*held, *token) = (true, grant.token);
    }

    fn given(&self, pool: &str, grant: &Grant) {
        self.0.lock().unwrap().entry((pool.to_owned(), grant.indices[0])).or_default().0 = false;
    }
}

#[test]
#[ignore = "storm: it starts engines"]
fn many_that_choose_at_once_never_hold_the_same_permit() {
    let Some(nodes) = Nodes::three() else { return };
    let people: Vec<Person> = (0..8).map(|_| Person::of(&nodes, "many")).collect();
    people[0].create("a", 1);
    people[0].create("b", 2);
    let choices: [&[&str]; 3] = [&["a", "b"], &["b", "a"], &["b"]];
    let oracle = Oracle::default();
    std::thread::scope(|scope| {
        for (at, person) in people.iter().enumerate() {
            let (oracle, pools) = (&oracle, choices[at % 3]);
            scope.spawn(move || {
                for _ in 0..25 {
                    let grant = person.takes(pools, 1);
                    let pool = pools[grant.pool];
                    oracle.taken(pool, &grant);
                    oracle.given(pool, &grant);
                    person.gives(pool, &grant);
                }
            });
        }
    });
    assert_eq!(people[0].finds(people[0].space.pools()).len(), 2, "nothing is left but the sizes");
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_permit_asked_for_together_with_its_lease_is_had_and_goes_with_it() {
    let Some(nodes) = Nodes::three() else { return };
    let one = Person::of(&nodes, "ahead");
    one.create("a", 1);
    for round in 0..200 {
        let ahead = one.anew();
        let put = Op::Put { key: one.space.done("first"), value: vec![], lease: Some(ahead.session.lease()) };
        assert!(ahead.etcd.txn(&Txn::of(vec![put])).is_ok_and(|done| done.held), "round {round}");
        let grant = ahead.takes(&["a"], 1);
        assert_eq!(one.holder("a", 0), Some((grant.id.clone(), grant.token)), "round {round}");
        let Person { session, .. } = ahead;
        assert!(!session.was_asked_in_vain() && session.came().is_ok() && session.came().is_ok());
        assert_eq!(session.end(), Ok(()));
        assert_eq!(one.holder("a", 0), None, "round {round}: it goes with its lease");
    }
}
