//! Engines that are stopped or lost while somebody holds and waits.

use crate::control::{etcdctl, signal};
use crate::nodes::Nodes;
use crate::person::{Person, Told, options};
use chappe_remote::acquire::Outcome;
use chappe_remote::engine::{Engine, EngineError, Keys, LeaseId, News, Op, Txn, Watch};
use chappe_remote::etcd::{Etcd, now};
use chappe_remote::life;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
#[ignore = "storm: it stops and kills engines"]
fn one_engine_of_three_can_be_stopped_or_killed_and_nobody_loses_anything() {
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    let (holder, waiter) = (Person::of(&nodes, "n"), Person::of(&nodes, "n"));
    holder.create("a", 1);
    let mut grant = holder.takes(&["a"], 1);
    for (at, how) in [(0, libc::SIGSTOP), (1, libc::SIGSTOP), (2, libc::SIGSTOP), (0, libc::SIGKILL)] {
        signal(&nodes, at, how);
        let begun = now();
        // Until both were renewed by another.
        let renewed = |person: &Person| person.session.life().deadline() > begun + life::USUAL;
        while !(renewed(&holder) && renewed(&waiter)) {
            assert!(!holder.session.is_over() && !waiter.session.is_over(), "node {at}");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::scope(|scope| {
            let ((placed, place), (done, outcome)) = (channel(), channel());
            let waiter = &waiter;
            scope.spawn(move || {
                let told = Told { placed: Some(placed), gives_up: None };
                done.send(waiter.tries(&["a"], 1, true, &told)).unwrap();
            });
            while place.recv().unwrap() != 0 {}
            holder.gives("a", &grant);
            match outcome.recv().unwrap() {
                Ok(Outcome::Granted(next)) => {
                    assert!(next.token > grant.token);
                    waiter.gives("a", &next);
                }
                other => panic!("node {at}: {other:?}"),
            }
        });
        if how == libc::SIGSTOP {
            signal(&nodes, at, libc::SIGCONT);
        }
        grant = holder.takes(&["a"], 1);
    }
}

#[test]
#[ignore = "storm: it stops an engine"]
fn a_lease_that_is_asked_for_of_a_silent_engine_says_why_there_is_none() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let person = Person::of(&nodes, "n");
    person.create("a", 1);
    signal(&nodes, 0, libc::SIGSTOP);
    let session = person.etcd.session_ahead(life::USUAL, Duration::from_millis(100));
    let held = Op::Put { key: person.space.held("a", 0), value: vec![], lease: Some(session.lease()) };
    let txn = Txn::of(vec![held]);
    // It would have been behind the lease.
    assert!(matches!(person.etcd.txn_within(&txn, Duration::from_millis(100)), Err(EngineError::Unknown(_))));
    assert!(matches!(session.came(), Err(EngineError::Unknown(_))) && session.was_asked_in_vain());
    // It may be there: what was granted under it must not be taken for lost.
    assert!(!session.is_over());
    signal(&nodes, 0, libc::SIGCONT);
    // What is asked under a lease that never was is not done, and is asked once.
    let gone = Txn::of(vec![Op::Put { key: "n".into(), value: vec![], lease: Some(LeaseId(77)) }]);
    assert_eq!(person.etcd.txn(&gone), Err(EngineError::LeaseGone));
    assert_eq!(person.etcd.ends(LeaseId(77)), Ok(false));
}

#[test]
#[ignore = "storm: it starts an engine"]
fn a_watch_of_what_is_not_kept_any_more_says_so() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let etcd = Etcd::connect(&options(&nodes, "n")).unwrap();
    let person = Person::of(&nodes, "n");
    for permits in 1..20 {
        person.create("a", permits);
    }
    etcdctl(&nodes, &["compaction", "15"]);
    let mut stream = etcd.watch(&[Keys::Under("chappe/".into())], 3).unwrap();
    match stream.next(None) {
        News::Forgotten(why) => assert!(why.contains("compacted its history up to revision 15"), "{why}"),
        other => panic!("{other:?}"),
    }
}
