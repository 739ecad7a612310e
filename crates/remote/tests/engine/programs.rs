//! What a program has of an engine, on three nodes.

use crate::control::until;
use crate::nodes::Nodes;
use crate::person::{Person, TTL};
use chappe_remote::engine::{Engine, Keys, Op, Txn};
use chappe_remote::place::Place;
use chappe_remote::{LockError, Loss, Patience, Remote, RemoteError, acquire_any};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

fn place(nodes: &Nodes, namespace: &str) -> Place {
    let mut place = Place::url(&nodes.url(namespace)).unwrap();
    place.options.connect_timeout = Duration::from_secs(60);
    place
}

fn program(nodes: &Nodes, namespace: &str) -> Remote {
    Remote::connect(&place(nodes, namespace), "test").unwrap()
}

/// Waits until it rings.
fn rings(held: &impl AsFd) {
    let mut one = libc::pollfd { fd: held.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, on our stack.
    assert_eq!(unsafe { libc::poll(&raw mut one, 1, -1) }, 1);
}

#[test]
#[ignore = "storm: it starts engines"]
fn programs_hand_permits_and_units_over_and_leave_nothing_behind() {
    let Some(nodes) = Nodes::three() else { return };
    let (one, other) = (program(&nodes, "hand"), program(&nodes, "hand"));
    let (a, b) = (one.create_pool("a", 1).unwrap(), one.create_pool("b", 1).unwrap());
    let held = [a.acquire().unwrap(), b.acquire().unwrap()];
    let (theirs, sem) = ((other.pool("a").unwrap(), other.pool("b").unwrap()), one.create_semaphore("s", 0).unwrap());
    assert!(matches!(theirs.0.try_acquire(), Err(RemoteError::WouldBlock { .. })));
    assert!(matches!(theirs.1.acquire_timeout(Duration::from_millis(1)), Err(RemoteError::Timeout { .. })));
    let waiter = std::thread::spawn(move || {
        let won = acquire_any(&[&theirs.0, &theirs.1], Patience::Forever).unwrap();
        other.semaphore("s").unwrap().down().unwrap();
        (won, other)
    });
    until("it waits", || waiter.is_finished() || b.info().unwrap().waiting > 0);
    let token = held[1].check().unwrap();
    let [first, second] = held;
    second.release().unwrap();
    until("it has a permit", || b.info().unwrap().waiting == 0);
    sem.up(1).unwrap();
    let ((which, permit), other) = waiter.join().unwrap();
    assert!(which == 1 && permit.check().unwrap() > token);
    drop((first, permit));
    let person = Person::of(&nodes, "hand");
    let left: Vec<String> = person.finds(person.space.all()).into_iter().map(|entry| entry.key).collect();
    let objects = ["a", "b", "s"].map(|name| person.space.size(name));
    assert_eq!(left, [[person.space.format()].as_slice(), &objects].concat());
    drop(other);
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_program_hears_of_a_permit_that_is_taken_away_and_of_a_lease_that_is_ended() {
    let Some(nodes) = Nodes::three() else { return };
    let (lab, person) = (program(&nodes, "loss"), Person::of(&nodes, "loss"));
    let pool = lab.create_pool("a", 2).unwrap();
    let (taken, kept) = (pool.acquire().unwrap(), pool.acquire().unwrap());
    let key = Keys::One(person.space.held("a", taken.indices()[0]));
    let lease = person.finds(key.clone())[0].lease.unwrap();
    person.etcd.txn(&Txn::of(vec![Op::Delete(key)])).unwrap();
    rings(&taken);
    assert_eq!((taken.check(), kept.check().is_ok()), (Err(Loss::TakenAway), true));
    person.etcd.revoke(lease).unwrap();
    rings(&kept);
    assert!(kept.check().is_err() && pool.acquire().unwrap().check().is_ok());
    assert!(matches!(taken.release(), Err(RemoteError::Lost { .. })));
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_program_that_the_engine_does_not_answer_loses_its_mutex_before_another_has_it() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let mut place = place(&nodes, "stop");
    place.ttl = Some(TTL);
    let lab = Remote::connect(&place, "test").unwrap();
    let guard = lab.create_mutex("m").unwrap().lock().unwrap();
    crate::control::signal(&nodes, 0, libc::SIGSTOP);
    rings(&guard);
    assert_eq!(guard.check(), Err(Loss::Unreachable));
    crate::control::signal(&nodes, 0, libc::SIGCONT);
    match lab.mutex("m").unwrap().lock() {
        Err(LockError::OwnerDied(next)) => assert!(next.check().is_ok()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(guard.unlock(), Err(RemoteError::Lost { .. })));
}

#[test]
#[ignore = "storm: it starts engines"]
fn records_of_a_program_come_to_one_receiver_each_and_again_to_another_if_need_be() {
    let Some(nodes) = Nodes::three() else { return };
    let (lab, other) = (program(&nodes, "tube"), program(&nodes, "tube"));
    let tube = lab.create_tube("t", 16, 1000).unwrap();
    let mut sender = tube.sender().unwrap();
    let records: Vec<String> = (0..5000).map(|i| i.to_string()).collect();
    let sends = std::thread::spawn(move || sender.send_all(&records, Patience::Forever).map(|()| records));
    let theirs = other.tube("t").unwrap();
    let (mut got, mut again) = (Vec::new(), 0);
    // Each receiver takes a part, and leaves the rest of what came with it.
    for most in [700, 10, usize::MAX] {
        let mut receiver = theirs.receiver().unwrap();
        for _ in 0..most {
            let Some(record) = receiver.recv().unwrap() else { break };
            again += usize::from(record.again);
            got.push(String::from_utf8(record.bytes).unwrap());
        }
    }
    assert_eq!(got, sends.join().unwrap().unwrap());
    assert!(again > 0, "what was put back says so");
    let person = Person::of(&nodes, "tube");
    assert!(person.finds(person.space.pages("t", 0, u64::MAX)).is_empty());
}
