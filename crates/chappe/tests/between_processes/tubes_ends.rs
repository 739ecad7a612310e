//! The ends of named tubes in forked children, in choices that are completed late, and in roles that never sleep.

use crate::house::{House, LONG, ROLE, listen, say};
use chappe::tube::named::{Kind, NotReceived, NotSent, Receiver, Sender, Tube, TubeOptions};
use chappe::{Role, Select, SelectError};
use std::panic::AssertUnwindSafe;

fn tube(name: &str, slots: u32, kind: Kind) -> Tube<u64> {
    Tube::open_or_create(name, &TubeOptions { slots, kind, ..TubeOptions::default() }).unwrap()
}

fn ends(tube: &Tube<u64>) -> (Sender<u64>, Receiver<u64>) {
    (tube.sender().unwrap(), tube.receiver().unwrap())
}

/// A forked child that does this and ends well, if `body` says so.
fn child(body: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child does what is tried here, and ends without what its parent would do.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let well = std::panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    pid
}

fn ended_well(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child found something else");
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    match std::env::var(ROLE).as_deref() {
        Ok("borrows") => {
            let receiver = tube("t", 4, Kind::Mpmc).receiver().unwrap();
            let _loan = receiver.borrow().unwrap();
            say("has it");
            listen();
        }
        Ok("reserves") => {
            let mut sender = tube("t", 1, Kind::Mpsc).sender().unwrap();
            let _slot = sender.reserve().unwrap();
            say("has it");
            listen();
        }
        _ => {}
    }
}

#[test]
fn the_parents_only_ends_are_not_the_childs_in_a_choice() {
    let _house = House::new("only-ends");
    let (tx, rx) = ends(&tube("t", 4, Kind::Spsc));
    let mut before = Select::new();
    before.send_on(&tx);
    ended_well(child(|| {
        let mut after = Select::new();
        after.recv_on(&rx);
        let refused = |select: &Select<'_>| matches!(select.try_wait(), Err(SelectError::Inherited { arm: 0, .. }));
        matches!(tx.try_send(1), Err(NotSent::Inherited { .. })) && refused(&before) && refused(&after)
    }));
    assert!(matches!(rx.try_recv(), Err(NotReceived::Empty)));
    before.try_select().unwrap().send_on(&tx, 5).unwrap();
    ended_well(child(|| Select::recv_on(&mut Select::new(), &rx) == 0 && rx.is_empty() && !tx.is_full()));
    assert_eq!(rx.try_recv().unwrap(), 5);
}

/// A choice that was made before the fork comes to the end in the child.
#[test]
fn a_choice_of_the_parents_is_the_childs_own_where_there_may_be_many() {
    let _house = House::new("many-ends");
    let tube = tube("t", 4, Kind::Mpmc);
    let (tx, rx) = ends(&tube);
    let mut select = Select::new();
    select.send_on(&tx);
    let (mut ready, mut go) = ([0; 2], [0; 2]);
    // SAFETY: room for two descriptors each.
    unsafe { assert_eq!((libc::pipe(ready.as_mut_ptr()), libc::pipe(go.as_mut_ptr())), (0, 0)) };
    let mut byte = 0u8;
    let pid = child(|| {
        select.try_select().unwrap().send_on(&tx, 1).unwrap();
        // SAFETY: one byte.
        unsafe { libc::write(ready[1], (&raw const byte).cast(), 1) };
        // SAFETY: as above.
        unsafe { libc::read(go[0], (&raw mut byte).cast(), 1) };
        true
    });
    // SAFETY: as above.
    unsafe { libc::read(ready[0], (&raw mut byte).cast(), 1) };
    assert_eq!(tube.info().unwrap().senders.len(), 2);
    assert_eq!(rx.recv().unwrap(), 1);
    // SAFETY: as above.
    unsafe { libc::write(go[1], (&raw const byte).cast(), 1) };
    ended_well(pid);
}

/// Whether a byte comes, and which.
fn byte(from: std::os::fd::RawFd) -> Option<u8> {
    let mut wait = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
    let mut byte = 0u8;
    // SAFETY: one descriptor.
    let came = unsafe { libc::poll(&raw mut wait, 1, LONG.as_millis() as i32) == 1 };
    // SAFETY: one byte.
    let read = if came { unsafe { libc::read(from, (&raw mut byte).cast(), 1) } } else { 0 };
    (read == 1).then_some(byte)
}

fn say_byte(to: std::os::fd::RawFd, byte: u8) {
    // SAFETY: one byte.
    assert_eq!(unsafe { libc::write(to, (&raw const byte).cast(), 1) }, 1);
}

/// A process has one end, and its child attaches the other: the child is not at both.
#[test]
fn a_forked_child_attaches_an_end_of_its_own() {
    let _house = House::new("childs-end");
    for sends in [true, false] {
        let name = if sends { "sends" } else { "receives" };
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let parent = child(|| {
            let tube = tube(name, 2, Kind::Mpmc);
            let (mut tx, mut rx) = (None, None);
            if sends {
                rx = Some(tube.receiver().unwrap());
            } else {
                tx = Some(tube.sender().unwrap());
            }
            child(|| {
                let gone = if sends {
                    let own = tube.sender().unwrap();
                    own.send(1).unwrap();
                    own.send(2).unwrap();
                    say_byte(ends[1], b'1');
                    matches!(own.send_timeout(3, LONG), Err(NotSent::Disconnected { .. }))
                } else {
                    let own = tube.receiver().unwrap();
                    say_byte(ends[1], b'1');
                    matches!(own.recv_timeout(LONG), Err(NotReceived::SenderDied { .. }))
                };
                say_byte(ends[1], b'0' + u8::from(gone));
                gone
            });
            loop {
                std::thread::sleep(LONG);
                std::hint::black_box((&tx, &rx));
            }
        });
        assert_eq!(byte(ends[0]), Some(b'1'));
        // SAFETY: our own child.
        unsafe { libc::kill(parent, libc::SIGKILL) };
        // SAFETY: as above.
        unsafe { libc::waitpid(parent, std::ptr::null_mut(), 0) };
        assert_eq!(byte(ends[0]), Some(b'1'), "{name}: it still waits for its own end");
        for end in ends {
            // SAFETY: a descriptor of ours.
            unsafe { libc::close(end) };
        }
    }
}

#[test]
fn a_sender_that_breaks_off_or_panics_has_not_ended_well() {
    let _house = House::new("named-ended");
    let tube = tube("jobs", 4, Kind::Mpmc);
    let receiver = tube.receiver().unwrap();
    for how in ["ends", "breaks off", "panics", "ends"] {
        let sender = tube.sender().unwrap();
        sender.send(1).unwrap();
        let other = sender.another().unwrap();
        match how {
            "ends" => drop(sender),
            "breaks off" => sender.break_off(),
            _ => {
                std::panic::catch_unwind(AssertUnwindSafe(move || {
                    let _sender = sender;
                    std::panic::resume_unwind(Box::new(()));
                }))
                .unwrap_err();
            }
        }
        // The process has one still.
        assert_eq!(receiver.recv().unwrap(), 1);
        assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)), "{how}");
        drop(other);
        let died = matches!(receiver.recv(), Err(NotReceived::SenderDied { .. }));
        assert_eq!(died, how != "ends", "{how}");
        assert!(matches!(receiver.recv(), Err(NotReceived::Disconnected { .. })), "{how}");
    }
    assert_eq!(tube.info().unwrap().senders_died, 2);
}

/// A choice by an only sender, which sends something else before it completes it.
#[test]
fn a_send_before_a_choice_is_completed_is_not_written_over() {
    let _house = House::new("between");
    for slots in [2, 4] {
        for kind in [Kind::Spsc, Kind::Spmc, Kind::Mpmc] {
            let (tx, rx) = ends(&tube(&format!("{kind:?}{slots}").to_lowercase(), slots, kind));
            let mut select = Select::new();
            select.send_on(&tx);
            let chosen = select.try_select().unwrap();
            tx.try_send(1).unwrap();
            chosen.send_on(&tx, 2).unwrap();
            let mut got = [rx.try_recv().unwrap(), rx.try_recv().unwrap()];
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
            let chosen = select.try_select().unwrap();
            tx.try_send(3).unwrap();
            assert_eq!(rx.try_recv().unwrap(), 3);
            chosen.send_on(&tx, 4).unwrap();
            assert_eq!(rx.try_recv().unwrap(), 4);
            for n in 10..30 {
                tx.try_send(n).unwrap();
                assert_eq!(rx.try_recv().unwrap(), n);
            }
        }
    }
}

/// A receiver that never sleeps, and one that only tries, gets what a dead one had, though no other thread recovers the dead.
#[test]
fn a_dead_receivers_message_comes_to_a_receiver_that_never_sleeps() {
    for tries in [false, true] {
        let house = House::new("never-sleeps");
        let (tx, rx) = ends(&tube("t", 4, Kind::Mpmc));
        tx.send(1).unwrap();
        let mut actor = house.actor("borrows");
        assert_eq!(actor.hear(), "has it");
        actor.kill();
        let got = if tries { rx.try_recv() } else { Role::Spin.during(|| rx.recv_timeout(LONG)) };
        assert_eq!(got.unwrap(), 1);
    }
}

/// What a choice received that a dead one had says so, copied and in place.
#[test]
fn a_choice_tells_what_comes_again() {
    for placed in [false, true] {
        let house = House::new("again");
        let (tx, rx) = ends(&tube("t", 4, Kind::Mpmc));
        tx.send(1).unwrap();
        let mut actor = house.actor("borrows");
        assert_eq!(actor.hear(), "has it");
        actor.kill();
        tx.send(2).unwrap();
        let mut select = Select::new();
        select.recv_on(&rx);
        let mut got: Vec<_> = std::iter::from_fn(|| {
            let chosen = select.try_select().ok()?;
            Some(if placed {
                let loan = chosen.borrow(&rx).unwrap();
                (*loan, loan.again())
            } else {
                chosen.recv_redelivered(&rx).unwrap()
            })
        })
        .collect();
        got.sort_unstable();
        assert_eq!(got, [(1, true), (2, false)]);
    }
}

#[test]
fn a_slot_that_a_dead_one_had_comes_to_who_never_sleeps() {
    for tries in [false, true] {
        let house = House::new("slot-of-the-dead");
        let (tx, rx) = ends(&tube("t", 1, Kind::Mpsc));
        let mut actor = house.actor("reserves");
        assert_eq!(actor.hear(), "has it");
        actor.kill();
        let sent = if tries { tx.try_send(1) } else { Role::Spin.during(|| tx.send_timeout(1, LONG)) };
        sent.unwrap();
        assert_eq!(rx.try_recv().unwrap(), 1);
    }
}

/// A child that has not come to its end yet, and a tube that is no more: its memory may be another's.
#[test]
fn a_child_does_not_look_into_what_is_anothers() {
    let _house = House::new("anothers");
    let tx = tube("t", 4, Kind::Mpmc).sender().unwrap();
    let mut go = [0; 2];
    // SAFETY: room for two descriptors.
    unsafe { assert_eq!(libc::pipe(go.as_mut_ptr()), 0) };
    let mut byte = 0u8;
    let pid = child(|| {
        // SAFETY: one byte.
        unsafe { libc::read(go[0], (&raw mut byte).cast(), 1) };
        tx.is_empty()
            && !tx.is_full()
            && tx.capacity() == 4
            && matches!(tx.try_send(1), Err(NotSent::Inherited { .. } | NotSent::Dead { .. }))
    });
    drop(tx);
    Tube::<[u8]>::remove("t", false).unwrap();
    let other = Tube::<[u64; 20]>::create("other", &TubeOptions { slots: 64, ..TubeOptions::default() }).unwrap();
    let (otx, orx) = (other.sender().unwrap(), other.receiver().unwrap());
    (0..40).for_each(|n| otx.try_send([n << 20; 20]).unwrap());
    (0..10).for_each(|n| assert_eq!(orx.try_recv().unwrap(), [n << 20; 20]));
    // SAFETY: as above.
    unsafe { libc::write(go[1], (&raw const byte).cast(), 1) };
    ended_well(pid);
    (10..40).for_each(|n| assert_eq!(orx.try_recv().unwrap(), [n << 20; 20]));
}
