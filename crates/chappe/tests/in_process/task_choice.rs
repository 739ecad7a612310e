//! Choices of tasks: exactly one arm happens, and nothing of the others is lost, whichever future is dropped.

use crate::asleep::{this_thread, until_asleep};
use crate::tasks::{LONG, bell, block_on, in_a_house, of_each_kind, poll};
use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
use chappe::tube::named::{Tube, TubeOptions};
use chappe::tube::{after, bounded, never, tick, unbounded};
use chappe::{Pool, RwLock, Semaphore, select_async, select_biased_async};
use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

fn is<T: PartialEq>(over: &Poll<T>, what: T) -> bool {
    matches!(over, Poll::Ready(got) if *got == what)
}

/// A private semaphore beside one of each kind.
fn of_two(name: &str, test: impl Fn(&Semaphore, &Semaphore)) {
    of_each_kind(name, |one| {
        let other = Semaphore::private(0).unwrap();
        test(one, &other);
        test(&other, one);
    });
}

#[test]
fn a_choice_takes_the_one_arm_that_is_ready() {
    of_two("choice_ready", |one, other| {
        one.up().unwrap();
        let (waker, woken, _) = bell();
        let mut choice =
            pin!(async { select_async! { down(other) -> _ => 1, down(one) -> r => { r.unwrap(); 2 } }.await });
        assert!(is(&poll(&mut choice, &waker), 2));
        assert_eq!((one.value(), other.value(), woken.count()), (0, 0, 0));
    });
}

#[test]
fn a_choice_is_woken_by_either_arm_and_leaves_the_other_line() {
    of_two("choice_either", |one, other| {
        for first in [one, other] {
            let (waker, _, woken) = bell();
            let mut choice = pin!(select_async! { down(one) -> _ => 1, down(other) -> _ => 2 });
            assert!(poll(&mut choice, &waker).is_pending());
            assert!(poll(&mut choice, &waker).is_pending(), "a poll for no reason changes nothing");
            assert_eq!((one.waiters().len(), other.waiters().len()), (1, 1));
            first.up().unwrap();
            woken.recv_timeout(LONG).unwrap();
            let at = if std::ptr::eq(first, one) { 1 } else { 2 };
            assert!(is(&poll(&mut choice, &waker), at));
            assert_eq!((one.waiters().len(), other.waiters().len()), (0, 0));
            assert_eq!((one.value(), other.value()), (0, 0));
        }
    });
}

#[test]
fn a_dropped_choice_gives_back_what_it_was_granted() {
    of_two("choice_dropped", |one, other| {
        let (waker, ..) = bell();
        let (next_waker, _, next_woken) = bell();
        let mut choice = Box::pin(select_async! { down(one) -> _ => 1, down(other) -> _ => 2 });
        assert!(poll(&mut choice.as_mut(), &waker).is_pending());
        let mut next = pin!(one.down_async());
        assert!(poll(&mut next, &next_waker).is_pending());
        one.up().unwrap();
        assert!(poll(&mut next, &next_waker).is_pending(), "the choice was the first");
        drop(choice);
        next_woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut next, &next_waker), Poll::Ready(Ok(()))));
        assert_eq!((one.value(), other.value(), other.waiters().len()), (0, 0, 0));
    });
}

#[test]
fn a_choice_of_many_arms_takes_the_first_if_it_is_biased() {
    let all: Vec<_> = (0..20).map(|_| Semaphore::private(1).unwrap()).collect();
    let [a, b] = [&all[3], &all[7]];
    assert_eq!(block_on(select_biased_async! { down(b) -> _ => 'b', down(a) -> _ => 'a' }), 'b');
    assert_eq!(block_on(select_biased_async! { down(b) -> _ => 'b', down(a) -> _ => 'a' }), 'a');
}

/// The result of a choice may be sent to another thread meanwhile.
fn sent<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn arms_of_all_kinds_wait_in_one_choice() {
    in_a_house("choice_kinds", || {
        let options = TubeOptions { slots: 1, ..TubeOptions::default() };
        let pool = Pool::create("p", 1).unwrap();
        let lock = RwLock::create("l", 7u32).unwrap();
        let named = Tube::<u64>::create("t", &options).unwrap();
        let full = Tube::<u64>::create("f", &options).unwrap();
        let (sender, mut receiver) = (named.sender().unwrap(), named.receiver().unwrap());
        let (mut into, out) = (full.sender().unwrap(), full.receiver().unwrap());
        into.send(1).unwrap();
        let cast = Broadcast::<u64>::create("b", &BroadcastOptions::default()).unwrap();
        let (publisher, mut heard) = (cast.publisher().unwrap(), cast.subscribe(Subscribe::to_all()).unwrap());
        let (tx, rx) = bounded::<u32>(1);
        let (full_tx, full_rx) = bounded::<u32>(1);
        full_tx.send(1).unwrap();
        let (pipe, mut writer) = std::io::pipe().unwrap();
        let _held = (pool.acquire_owned().unwrap(), lock.write().unwrap());
        let all: [(&str, &mut dyn FnMut()); 6] = [
            ("named", &mut || sender.send(5).unwrap()),
            ("full", &mut || assert_eq!(out.recv().unwrap(), 1)),
            ("heard", &mut || publisher.send(6).unwrap()),
            ("rx", &mut || tx.send(7).unwrap()),
            ("full_tx", &mut || assert_eq!(full_rx.recv(), Ok(1))),
            ("pipe", &mut || writer.write_all(b"x").unwrap()),
        ];
        for (name, make) in all {
            let (waker, _, woken) = bell();
            let mut choice = pin!(sent(async {
                select_async! {
                    recv(receiver) -> m => { assert_eq!(m, Ok(5)); "named" }
                    send(into, 2) -> r => { assert!(r.is_ok()); "full" }
                    recv(heard) -> m => { assert_eq!(m, Ok(6)); "heard" }
                    recv(rx) -> m => { assert_eq!(m, Ok(7)); "rx" }
                    send(full_tx, 2) -> r => { assert!(r.is_ok()); "full_tx" }
                    readable(pipe) -> r => { r.unwrap(); "pipe" }
                    acquire(pool) -> permit => { drop(permit.unwrap()); "pool" }
                    write(lock) -> guard => { drop(guard.unwrap()); "lock" }
                }
                .await
            }));
            assert!(poll(&mut choice, &waker).is_pending(), "{name}");
            make();
            woken.recv_timeout(LONG).unwrap_or_else(|_| panic!("{name} wakes it"));
            assert!(is(&poll(&mut choice, &waker), name));
        }
        assert_eq!((out.recv().unwrap(), full_rx.recv().unwrap()), (2, 2));
    });
}

#[test]
fn a_choice_takes_a_permit_of_the_process_and_a_lock() {
    in_a_house("choice_guards", || {
        let (pool, lock) = (Pool::create("p", 1).unwrap(), RwLock::private(7u32).unwrap());
        let stop = Semaphore::private(0).unwrap();
        let held = pool.acquire_owned().unwrap();
        let (waker, _, woken) = bell();
        let mut choice = pin!(select_async! { acquire(pool) -> p => p.ok(), down(stop) -> _ => None });
        assert!(poll(&mut choice, &waker).is_pending());
        drop(held);
        woken.recv_timeout(LONG).unwrap();
        let Poll::Ready(Some(permit)) = poll(&mut choice, &waker) else { panic!("it was granted") };
        assert_eq!(pool.available(), 0);
        std::thread::spawn(move || drop(permit)).join().unwrap();
        assert_eq!(pool.available(), 1);
        let guard = block_on(select_async! { write(lock) -> g => g.ok(), down(stop) -> _ => None });
        assert!(lock.try_read().is_err(), "it is locked");
        drop(guard);
        let guard = block_on(select_async! { read(lock) -> g => g.ok(), down(stop) -> _ => None });
        assert_eq!(guard.map(|guard| *guard), Some(7));
        assert!(lock.try_write().is_ok());
    });
}

#[test]
fn a_choices_time_is_up_while_no_arm_is_ready() {
    of_each_kind("choice_time", |s| {
        let mut choice = Box::pin(select_async! { down(s) -> _ => 1, default(Duration::from_millis(2)) => 2 });
        assert_eq!(block_on(choice.as_mut()), 2);
        assert_eq!((s.value(), s.waiters().len()), (0, 0));
        let strikes = after(Duration::from_millis(2));
        assert_eq!(block_on(select_async! { down(s) -> _ => 1, recv(strikes) -> m => { m.unwrap(); 2 } }), 2);
        let ticks = tick(Duration::from_millis(1));
        for _ in 0..3 {
            assert_eq!(block_on(select_async! { down(s) -> _ => 1, recv(ticks) -> m => { m.unwrap(); 2 } }), 2);
        }
        let silent = never::<u8>();
        s.up().unwrap();
        assert_eq!(block_on(select_async! { recv(silent) -> _ => 1, down(s) -> _ => 2 }), 2);
    });
}

#[test]
fn a_default_alone_is_taken_when_its_time_is_up() {
    assert_eq!(block_on(select_async! { default(Duration::from_millis(2)) => 2 }), 2);
    let (waker, woken, _) = bell();
    assert!(is(&poll(&mut pin!(select_biased_async! { default(Duration::ZERO) => 3 }), &waker), 3));
    for far in [Duration::from_secs(1 << 20), Duration::MAX] {
        let mut waits = pin!(select_async! { default(far) => () });
        assert!(poll(&mut waits, &waker).is_pending());
        assert!(poll(&mut waits, &waker).is_pending());
    }
    assert_eq!(woken.count(), 0);
}

/// A message that is not made after all.
fn panics<T>() -> T {
    std::panic::resume_unwind(Box::new("by intent"))
}

fn is_panic<R>(act: impl FnOnce() -> R) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err()
}

#[test]
fn a_message_that_panics_leaves_its_slot_to_the_next() {
    for (tx, rx) in [bounded::<u32>(1), bounded(2), unbounded()] {
        for round in 0..5 {
            assert!(is_panic(|| block_on(select_async! { send(tx, panics()) -> _ => () })));
            assert_eq!((tx.len(), rx.try_recv().is_err()), (0, true), "nothing was sent");
            let room = tx.capacity().unwrap_or(2) as u32;
            (0..room).for_each(|i| tx.try_send(round + i).unwrap());
            (0..room).for_each(|i| assert_eq!(rx.try_recv(), Ok(round + i)));
        }
    }
    let (tx, rx) = bounded::<u32>(1);
    let (waker, _, woken) = bell();
    let mut waits = pin!(tx.send_async(7));
    let mut begin = || {
        assert!(poll(&mut waits, &waker).is_pending(), "the choice has the slot");
        panics()
    };
    assert!(is_panic(|| block_on(select_biased_async! { send(tx, begin()) -> _ => () })));
    woken.recv_timeout(LONG).expect("the next sender is told");
    assert!(matches!(poll(&mut waits, &waker), Poll::Ready(Ok(()))));
    assert_eq!(rx.try_recv(), Ok(7));
}

#[test]
fn a_message_of_a_named_tube_that_panics_or_is_too_long_leaves_its_slot_to_the_next() {
    in_a_house("choice_panics", || {
        let options = TubeOptions { slots: 1, size: 8, ..TubeOptions::default() };
        let tube = Tube::<[u8]>::create("t", &options).unwrap();
        let (mut tx, mut other, rx) = (tube.sender().unwrap(), tube.sender().unwrap(), tube.receiver().unwrap());
        let next = |tx: &chappe::tube::named::Sender<[u8]>| {
            tx.try_send(b"next").unwrap();
            assert_eq!(rx.recv().unwrap(), b"next");
        };
        for _ in 0..3 {
            assert!(is_panic(|| block_on(select_async! { send(tx, panics()) -> _ => () })));
            next(&other);
            assert!(block_on(select_async! { send(tx, vec![0; 9]) -> r => r.is_err() }));
            next(&other);
        }
        let (waker, _, woken) = bell();
        let mut waits = pin!(other.send_async(b"other"));
        let mut begin = || {
            assert!(poll(&mut waits, &waker).is_pending(), "the choice has the slot");
            panics()
        };
        assert!(is_panic(|| block_on(select_biased_async! { send(tx, begin()) -> _ => () })));
        woken.recv_timeout(LONG).expect("the next sender is told");
        assert!(matches!(poll(&mut waits, &waker), Poll::Ready(Ok(()))));
        assert_eq!(rx.recv().unwrap(), b"other");
    });
}

#[test]
fn a_choice_meets_the_senders_of_a_tube_without_slots() {
    let (tx, rx) = bounded::<u32>(0);
    let stop = Semaphore::private(0).unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = tx.clone();
        scope.spawn(move || {
            tell.send(this_thread()).unwrap();
            thread.send(1).unwrap();
        });
        until_asleep(&told.recv().unwrap());
        let got = block_on(select_async! { recv(rx) -> m => m.ok(), down(stop) -> _ => None });
        assert_eq!(got, Some(1), "a thread that waits");
    });
    std::thread::scope(|scope| {
        let (waker, _, woken) = bell();
        let mut choice = pin!(select_async! { recv(rx) -> m => m.ok(), down(stop) -> _ => None });
        assert!(poll(&mut choice, &waker).is_pending());
        scope.spawn(|| tx.send(2).unwrap());
        woken.recv_timeout(LONG).unwrap();
        let mut got = poll(&mut choice, &waker);
        while got.is_pending() {
            woken.recv_timeout(LONG).unwrap();
            got = poll(&mut choice, &waker);
        }
        assert!(is(&got, Some(2)), "a thread that comes");
    });
    let (waker, ..) = bell();
    let mut sends = pin!(tx.send_async(3));
    assert!(poll(&mut sends, &waker).is_pending());
    let got = block_on(select_async! { recv(rx) -> m => m.ok(), down(stop) -> _ => None });
    assert_eq!(got, Some(3), "a task");
    assert!(matches!(poll(&mut sends, &waker), Poll::Ready(Ok(()))));
}

#[test]
#[should_panic(expected = "cannot send through a tube without slots")]
fn a_choice_that_would_meet_nobody_is_refused() {
    let (tx, _rx) = bounded::<u32>(0);
    block_on(select_async! { send(tx, 1) -> _ => () });
}

#[test]
fn an_arm_whose_object_has_gone_is_ready() {
    in_a_house("choice_dead", || {
        let (pool, stop) = (Pool::create("p", 1).unwrap(), Semaphore::private(0).unwrap());
        let _held = pool.acquire_owned().unwrap();
        let (waker, _, woken) = bell();
        let mut choice = pin!(select_async! { down(stop) -> _ => None, acquire(pool) -> p => Some(p.map(|_| ())) });
        assert!(poll(&mut choice, &waker).is_pending());
        Pool::remove("p", true).unwrap();
        woken.recv_timeout(LONG).unwrap();
        let over = poll(&mut choice, &waker);
        assert!(matches!(over, Poll::Ready(Some(Err(chappe::AcquireError::Dead { .. })))));
        let (tx, rx) = bounded::<u32>(1);
        drop(tx);
        assert!(block_on(select_async! { recv(rx) -> m => m.is_err(), down(stop) -> _ => false }));
    });
}

#[test]
fn choices_of_tasks_and_threads_lose_no_unit_and_no_message() {
    const EACH: u32 = 2_000;
    let (tx, rx) = bounded::<u32>(2);
    let (units, done) = (Semaphore::private(0).unwrap(), Semaphore::private(0).unwrap());
    let counts = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..3)
            .map(|taker| {
                let (rx, units, done) = (&rx, &units, &done);
                scope.spawn(move || {
                    let (mut sum, mut taken) = (0u64, 0u64);
                    loop {
                        let got = block_on(select_async! {
                            recv(rx) -> m => m.map(|m| Some(u64::from(m))).unwrap_or(None),
                            down(units) -> _ => { taken += 1; Some(0) }
                            down(done) -> _ => None,
                        });
                        match got {
                            Some(message) => sum += message,
                            None => return (taker, sum, taken),
                        }
                    }
                })
            })
            .collect();
        let adds = scope.spawn(|| (0..EACH).for_each(|_| units.up().unwrap()));
        (1..=EACH).for_each(|message| tx.send(message).unwrap());
        adds.join().unwrap();
        while units.value() > 0 || !rx.is_empty() {
            std::thread::yield_now();
        }
        done.up_many(3).unwrap();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect::<Vec<_>>()
    });
    let sums = counts.iter().fold((0, 0), |all, (_, sum, taken)| (all.0 + sum, all.1 + taken));
    assert_eq!(sums, (u64::from(EACH) * u64::from(EACH + 1) / 2, u64::from(EACH)));
}
