//! Readers-writer locks, between the threads of a process and between processes: order of service, waiters, what a death leaves.

use crate::asleep::{this_thread, until_asleep};
use crate::house::{House, LONG, ROLE, eventually, listen, say};
use chappe::{
    Arena, Interrupt, ObjectError, ObjectState, RwLock, RwLockError, Semaphore, WriteGuard, interruptible, select,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Two fields that are the same whenever no thread is between them.
type Pair = [u64; 2];

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let lock = RwLock::<Pair>::open("l").unwrap();
    match role.as_str() {
        "read" => {
            let guard = lock.read().unwrap();
            say("inside");
            listen();
            drop(guard);
            say("out");
        }
        "tear" => {
            let mut guard = lock.write().unwrap();
            guard[0] += 1;
            say("inside");
            listen();
            guard[1] += 1;
        }
        other => panic!("no such role: {other}"),
    }
}

fn waiting(lock: &str, count: u32) {
    let arena = Arena::open("default").unwrap();
    eventually(&format!("{count} wait for {lock}"), || arena.object(lock).unwrap().waiting == count);
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let _house = House::new("rwlock-share");
    for lock in [RwLock::private([1u64, 1]).unwrap(), RwLock::create("l", [1u64, 1]).unwrap()] {
        let reading = lock.read().unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                assert_eq!(lock.try_read().unwrap()[1], 1);
                assert!(matches!(lock.try_write(), Err(RwLockError::WouldBlock)));
                assert!(matches!(lock.write_timeout(Duration::from_millis(1)), Err(RwLockError::Timeout)));
                // Nobody waits any more.
                assert!(lock.try_read().is_ok());
                assert!(lock.read_deadline(Instant::now()).is_ok());
            });
        });
        drop(reading);
        let mut writing = lock.try_write().unwrap();
        writing[0] = 2;
        std::thread::scope(|s| {
            s.spawn(|| {
                assert!(matches!(lock.try_read(), Err(RwLockError::WouldBlock)));
                assert!(matches!(lock.read_timeout(Duration::from_millis(1)), Err(RwLockError::Timeout)));
            });
        });
        let reading = WriteGuard::downgrade(writing);
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.try_read().unwrap()[0], 2));
        });
        assert_eq!(reading[0], 2);
    }
}

#[test]
fn it_is_not_recursive_and_cannot_be_upgraded() {
    let _house = House::new("rwlock-recursion");
    for lock in [RwLock::private(0u64).unwrap(), RwLock::create("l", 0u64).unwrap()] {
        let reading = lock.read().unwrap();
        for e in [lock.write().map(drop).unwrap_err().to_string(), lock.read().map(drop).unwrap_err().to_string()] {
            assert!(e.contains("drop the read guard first"), "{e}");
        }
        assert!(matches!(lock.try_write(), Err(RwLockError::Upgrade { .. })));
        drop(reading);
        let writing = lock.write().unwrap();
        assert!(matches!(lock.write(), Err(RwLockError::Deadlock { .. })));
        assert!(matches!(lock.try_read(), Err(RwLockError::Deadlock { .. })));
        drop(writing);
        assert!(lock.try_write().is_ok());
    }
}

/// A writer waits behind a reader; a reader that comes then waits behind the writer.
#[test]
fn first_come_is_first_served() {
    let _house = House::new("rwlock-order");
    let lock = RwLock::create("l", 0u64).unwrap();
    let reading = lock.read().unwrap();
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            let mut writing = lock.write().unwrap();
            assert_eq!(*writing, 0, "somebody was before it");
            *writing = 1;
        });
        waiting("l", 1);
        let readers: Vec<_> = (0..2).map(|_| s.spawn(|| *lock.read().unwrap())).collect();
        waiting("l", 3);
        let (order, arena) = (Arena::open("default").unwrap().waiters("l").unwrap(), Arena::open("default").unwrap());
        assert_eq!(order.len(), 3);
        let ObjectState::RwLock { writer: None, readers: inside, .. } = arena.object("l").unwrap().state else {
            panic!("not read")
        };
        assert_eq!(inside.len(), 1);
        drop(reading);
        writer.join().unwrap();
        readers.into_iter().for_each(|r| assert_eq!(r.join().unwrap(), 1, "a reader passed a writer"));
    });
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_in() {
    let _house = House::new("rwlock-gives-up");
    let lock = RwLock::create("l", 0u64).unwrap();
    let (reading, by) = (lock.read().unwrap(), Interrupt::new());
    std::thread::scope(|s| {
        let writer = s.spawn(|| assert!(matches!(interruptible(&by, || lock.write()), Err(RwLockError::Interrupted))));
        waiting("l", 1);
        let reader = s.spawn(|| drop(lock.read().unwrap()));
        by.interrupt();
        writer.join().unwrap();
        // The first reader still is inside.
        reader.join().unwrap();
    });
    drop(reading);
}

#[test]
fn a_panic_and_a_leaked_guard_are_told() {
    let _house = House::new("rwlock-panic");
    let lock = RwLock::create("l", [0u64, 0]).unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut writing = lock.write().unwrap();
        writing[0] = 1;
        panic!("in the middle");
    }));
    let Err(RwLockError::OwnerDied(seen)) = lock.read() else { panic!("not told") };
    assert_eq!(*seen, [1, 0]);
    drop(seen);
    let Err(RwLockError::OwnerDied(mut writing)) = lock.write() else { panic!("not told") };
    writing[1] = 1;
    WriteGuard::make_consistent(&mut writing);
    drop(writing);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _reading = lock.read().unwrap();
        panic!("while reading");
    }));
    assert!(lock.read().is_ok(), "a reader that panics tears nothing");
    // What it borrowed may be in use.
    std::thread::scope(|s| drop(s.spawn(|| std::mem::forget(lock.read().unwrap())).join()));
    eventually("condemned", || lock.is_condemned());
    assert!(matches!(lock.write(), Err(RwLockError::Condemned { .. })));
    assert!(matches!(lock.read(), Err(RwLockError::Condemned { .. })));
    RwLock::remove("l", true).unwrap();
}

#[test]
fn it_joins_choices() {
    let _house = House::new("rwlock-choice");
    for lock in [RwLock::private(5u64).unwrap(), RwLock::create("l", 5u64).unwrap()] {
        let stop = Semaphore::private(0).unwrap();
        let got = select! {
            down(stop) -> _ => 0,
            read(lock) -> guard => *guard.unwrap(),
        };
        assert_eq!(got, 5);
        let writing = lock.write().unwrap();
        std::thread::scope(|s| {
            let tries = s.spawn(|| {
                select! {
                    read(lock) -> _ => panic!("somebody writes"),
                    write(lock) -> _ => panic!("somebody writes"),
                    default => {}
                }
            });
            tries.join().unwrap();
            let (waits, waiter) = std::sync::mpsc::channel();
            let (lock, stop) = (&lock, &stop);
            let chooser = s.spawn(move || {
                waits.send(this_thread()).unwrap();
                select! {
                    down(stop) -> _ => 0,
                    write(lock) -> guard => { *guard.unwrap() += 1; 1 },
                }
            });
            until_asleep(&waiter.recv().unwrap());
            drop(writing);
            assert_eq!(chooser.join().unwrap(), 1);
        });
        assert_eq!(*lock.read().unwrap(), 6);
        assert!(lock.try_write().is_ok(), "an arm that was not chosen, or was, left a trace");
    }
}

#[test]
fn a_wait_can_be_interrupted() {
    let _house = House::new("rwlock-interrupt");
    let lock = RwLock::create("l", 0u64).unwrap();
    let interrupt: &'static chappe::Interrupt = Box::leak(Box::default());
    let writing = lock.write().unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| interruptible(interrupt, || matches!(lock.read(), Err(RwLockError::Interrupted))));
        waiting("l", 1);
        interrupt.interrupt();
        assert!(waits.join().unwrap());
    });
    drop(writing);
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_dead_reader_gives_its_share_back_and_a_dead_writer_is_told() {
    let house = House::new("rwlock-deaths");
    let lock = RwLock::<Pair>::create("l", [0, 0]).unwrap();
    let mut reader = house.actor("read");
    assert_eq!(reader.hear(), "inside");
    assert!(matches!(lock.try_write(), Err(RwLockError::WouldBlock)));
    assert!(matches!(RwLock::remove("l", false), Err(ObjectError::InUse { .. })));
    reader.kill();
    drop(lock.write_timeout(LONG).unwrap());
    let mut writer = house.actor("tear");
    assert_eq!(writer.hear(), "inside");
    assert!(matches!(lock.try_read(), Err(RwLockError::WouldBlock)));
    writer.kill();
    let Err(RwLockError::OwnerDied(seen)) = lock.read_timeout(LONG) else { panic!("not told") };
    assert_eq!(*seen, [1, 0]);
}

#[test]
fn removal_is_refused_while_it_is_in_use_and_tells_those_who_wait() {
    let _house = House::new("rwlock-remove");
    let lock = RwLock::create("l", 7u64).unwrap();
    assert!(matches!(RwLock::create("l", 7u64), Err(ObjectError::Exists { .. })));
    assert!(matches!(RwLock::<u32>::open("l"), Err(ObjectError::OtherType { .. })));
    let writing = lock.write().unwrap();
    std::thread::scope(|s| {
        let reader = s.spawn(|| matches!(lock.read(), Err(RwLockError::Dead { .. })));
        let writer = s.spawn(|| matches!(lock.write(), Err(RwLockError::Dead { .. })));
        waiting("l", 2);
        let why = RwLock::remove("l", false).unwrap_err().to_string();
        assert!(why.contains("written by pid") && why.contains("2 waiting"), "{why}");
        RwLock::remove("l", true).unwrap();
        assert!(reader.join().unwrap() && writer.join().unwrap());
    });
    drop(writing);
    assert!(matches!(lock.try_read(), Err(RwLockError::Dead { .. })));
    // Its slots, all three, and its data are there for others.
    for _ in 0..3 {
        let lock = RwLock::create("l", 8u64).unwrap();
        assert_eq!(*lock.read().unwrap(), 8);
        Arena::open("default").unwrap().remove_object("l", false).unwrap();
    }
}
