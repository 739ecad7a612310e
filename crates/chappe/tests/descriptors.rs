//! Descriptors as arms of a choice, and descriptors of tubes: readable when there is something, and not before.

#[path = "house/asleep.rs"]
mod asleep;

use asleep::{this_thread, until_asleep};
use chappe::tube::{self, bounded, never, spsc, unbounded};
use chappe::{Pool, Select, Semaphore, select, select_biased};
use std::fs::File;
use std::io::{ErrorKind, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    select! { readable(fd) -> r => { r.unwrap(); true } default => false }
}

#[test]
fn a_pipe_wakes_who_waits_for_it_among_other_things() {
    let (mut reader, mut writer) = pipe().unwrap();
    let (semaphore, pool, (_tx, rx)) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap(), bounded::<u8>(1));
    let (held, me) = (pool.acquire().unwrap(), this_thread());
    for round in 0..20u8 {
        thread::scope(|s| {
            s.spawn(|| {
                until_asleep(&me);
                writer.write_all(&[round]).unwrap();
            });
            select! {
                recv(rx) -> m => panic!("{m:?}"),
                down(semaphore) -> r => panic!("{r:?}"),
                acquire(pool) -> p => panic!("{p:?}"),
                readable(reader) -> r => r.unwrap(),
            }
        });
        let mut got = [0];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(got, [round]);
        assert!(!is_readable(reader.as_fd()));
    }
    drop(held);
}

#[test]
fn a_message_and_a_unit_wake_who_waits_for_a_descriptor_too() {
    let (reader, _writer) = pipe().unwrap();
    let (semaphore, (tx, rx), me) = (Semaphore::private(0).unwrap(), bounded::<u8>(1), this_thread());
    for round in 0..20 {
        thread::scope(|s| {
            s.spawn(|| {
                until_asleep(&me);
                if round % 2 == 0 { tx.send(round).unwrap() } else { semaphore.up().unwrap() }
            });
            let which = select! {
                readable(reader) -> r => panic!("{r:?}"),
                recv(rx) -> m => m.unwrap() % 2,
                down(semaphore) -> r => { r.unwrap(); 1 }
                default(LONG) => panic!("nobody came"),
            };
            assert_eq!(which, round % 2);
        });
    }
}

#[test]
fn a_full_pipe_is_writable_once_it_is_read() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut sent = 0;
    loop {
        match near.write(&[7; 4096]) {
            Ok(n) => sent += n,
            Err(e) => break assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
    }
    select! { writable(near) -> _ => panic!("it is full"), default(SHORT) => {} }
    let me = this_thread();
    thread::scope(|s| {
        s.spawn(|| {
            until_asleep(&me);
            let mut rest = vec![0; sent];
            far.read_exact(&mut rest).unwrap();
        });
        select! { writable(near) -> r => r.unwrap(), default(LONG) => panic!("there was room") }
    });
    // Both ways of one descriptor in one choice; nothing has come the other way.
    select! { readable(near) -> _ => panic!("nothing was sent"), writable(near) -> r => r.unwrap() }
}

#[test]
fn both_ways_of_one_descriptor_wake_different_threads() {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while near.write(&[7; 4096]).is_ok() {}
    far.set_nonblocking(true).unwrap();
    let (waits, waiters) = channel();
    thread::scope(|s| {
        let (near, to_read, to_write) = (&near, waits.clone(), waits);
        let reads = s.spawn(move || {
            to_read.send(this_thread()).unwrap();
            select! { readable(near) -> r => r.is_ok(), default(LONG) => false }
        });
        let writes = s.spawn(move || {
            to_write.send(this_thread()).unwrap();
            select! { writable(near) -> r => r.is_ok(), default(LONG) => false }
        });
        waiters.iter().take(2).for_each(|waiter| until_asleep(&waiter));
        far.write_all(b"x").unwrap();
        assert!(reads.join().unwrap(), "it was not told that it can read");
        let mut rest = [0; 4096];
        while far.read(&mut rest).is_ok() {}
        assert!(writes.join().unwrap(), "it was not told that it can write");
    });
}

#[test]
fn all_who_wait_for_a_descriptor_are_told() {
    let (mut reader, mut writer) = pipe().unwrap();
    let (waits, come) = channel();
    thread::scope(|s| {
        let wait = |waits: Sender<String>| {
            waits.send(this_thread()).unwrap();
            select! { readable(reader) -> r => r.is_ok(), default(LONG) => false }
        };
        let begin = |_| {
            let waits = waits.clone();
            s.spawn(move || wait(waits))
        };
        let waiters: Vec<_> = (0..4).map(begin).collect();
        come.iter().take(4).for_each(|waiter| until_asleep(&waiter));
        writer.write_all(b"x").unwrap();
        assert!(waiters.into_iter().all(|w| w.join().unwrap()));
    });
    reader.read_exact(&mut [0]).unwrap();
}

#[test]
fn the_end_of_a_pipe_is_something_to_read() {
    let ((reader, writer), me) = (pipe().unwrap(), this_thread());
    thread::scope(|s| {
        s.spawn(|| {
            until_asleep(&me);
            drop(writer);
        });
        select! { readable(reader) -> r => r.unwrap(), default(LONG) => panic!("its other end is closed") }
    });
}

#[test]
fn a_number_that_comes_again_is_another_descriptor() {
    for round in 0..50 {
        // Each pipe has the numbers of the one before.
        let (reader, mut writer) = pipe().unwrap();
        thread::scope(|s| {
            s.spawn(|| writer.write_all(b"x").unwrap());
            select! { readable(reader) -> r => r.unwrap(), default(LONG) => panic!("round {round}") }
        });
    }
}

#[test]
fn a_file_is_always_ready() {
    let file = File::open("/proc/self/exe").unwrap();
    let mut choice = Select::new();
    let (read, write) = (choice.readable(&file), choice.writable(&file));
    let chosen = choice.select();
    assert!(chosen.index() == read || chosen.index() == write);
    chosen.descriptor().unwrap();
    assert!([read, write].contains(&choice.ready()));
}

#[test]
fn nothing_is_ready_before_its_time() {
    let (reader, _writer) = pipe().unwrap();
    let mut choice = Select::new();
    choice.readable(&reader);
    assert!(choice.try_select().is_err() && choice.try_ready().is_err());
    assert!(choice.select_timeout(SHORT).is_err() && choice.ready_timeout(SHORT).is_err());
}

#[test]
fn a_tubes_descriptor_is_readable_while_there_is_something_to_receive() {
    for (tx, rx) in [bounded(4), unbounded(), bounded(1)] {
        let fd = rx.descriptor().unwrap();
        assert_eq!(rx.descriptor().unwrap().as_raw_fd(), fd.as_raw_fd(), "one for all");
        assert!(!is_readable(fd));
        for round in 0..10 {
            tx.send(round).unwrap();
            assert!(is_readable(fd));
            assert!(!rx.rearm(), "there is something");
            assert!(is_readable(fd));
            assert_eq!(rx.try_recv(), Ok(round));
            assert!(rx.rearm());
            assert!(!is_readable(fd));
        }
        drop(tx);
        assert!(is_readable(fd), "nobody sends any more");
        assert!(!rx.rearm());
    }
}

#[test]
fn a_descriptor_that_is_asked_for_late_knows_what_is_there() {
    let (tx, rx) = bounded(1);
    tx.send(1).unwrap();
    assert!(is_readable(rx.descriptor().unwrap()));
    assert!(!is_readable(tx.descriptor().unwrap()), "it is full");
    assert!(tx.rearm());
    rx.recv().unwrap();
    assert!(is_readable(tx.descriptor().unwrap()), "there is room");
    let (tx, rx) = spsc(1);
    assert!(is_readable(tx.descriptor().unwrap()) && !is_readable(rx.descriptor().unwrap()));
    tx.send(1).unwrap();
    assert!(is_readable(rx.descriptor().unwrap()) && tx.rearm());
    drop(rx);
    assert!(is_readable(tx.descriptor().unwrap()), "nobody receives any more");
    assert_eq!(never::<u8>().descriptor().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(tube::after(SHORT).descriptor().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_tube_without_slots_says_when_somebody_waits() {
    let (tx, rx) = bounded(0);
    let fd = rx.descriptor().unwrap();
    thread::scope(|s| {
        s.spawn(|| tx.send(5).unwrap());
        select! { readable(fd) -> r => r.unwrap(), default(LONG) => panic!("somebody sends") }
        assert_eq!(rx.recv(), Ok(5));
    });
    assert!(rx.rearm());
}

/// Receives by the descriptor alone, as a runtime would; another thread receives at the same time, and neither misses any.
#[test]
fn no_message_is_missed_by_who_watches_the_descriptor() {
    const COUNT: u64 = 20_000;
    let (tx, rx) = bounded(16);
    let sum = |rx: tube::Receiver<u64>| {
        let (mut sum, fd) = (0, rx.descriptor().unwrap().try_clone_to_owned().unwrap());
        loop {
            match rx.try_recv() {
                Ok(n) => sum += n,
                Err(tube::TryRecvError::Disconnected) => return sum,
                Err(tube::TryRecvError::Empty) => {
                    if rx.rearm() {
                        select! { readable(fd) -> r => r.unwrap(), default(LONG) => panic!("a wake-up was missed") }
                    }
                }
            }
        }
    };
    let sums: u64 = thread::scope(|s| {
        let (one, other) = (rx.clone(), rx);
        let all = [s.spawn(move || sum(one)), s.spawn(move || other.iter().sum::<u64>())];
        let tx2 = tx.clone();
        s.spawn(move || (0..COUNT).for_each(|n| tx2.send(n).unwrap()));
        s.spawn(move || (COUNT..2 * COUNT).for_each(|n| tx.send(n).unwrap()));
        all.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(sums, (0..2 * COUNT).sum::<u64>());
}

#[test]
fn a_child_watches_for_itself() {
    let (mut reader, mut writer) = pipe().unwrap();
    // The parent's thread that watches is there already.
    select! { readable(reader) -> _ => panic!(), default(SHORT) => {} }
    // SAFETY: the child uses this crate and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let how = select_biased! {
            readable(reader) -> r => i32::from(r.is_err()),
            default(LONG) => 7,
        };
        // SAFETY: always safe.
        unsafe { libc::_exit(how) };
    }
    until_asleep(&child.to_string());
    writer.write_all(b"x").unwrap();
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    reader.read_exact(&mut [0]).unwrap();
}

/// As a runtime of one thread does for two of its tasks.
#[test]
fn two_that_wait_by_descriptors_at_a_tube_without_slots_meet() {
    let (tx, rx) = bounded(0);
    let (room, there) = (tx.descriptor().unwrap(), rx.descriptor().unwrap());
    for n in 0..10 {
        assert!(tx.try_send(n).is_err() && tx.rearm(), "nobody receives");
        assert!(rx.try_recv().is_err() && rx.rearm(), "nobody sends");
        assert!(is_readable(room) && !is_readable(there));
        tx.try_send(n).unwrap();
        assert!(tx.try_send(n).is_err(), "one for each time that the receiver waits");
        assert!(is_readable(there));
        assert_eq!(rx.try_recv(), Ok(n));
        assert!(rx.try_recv().is_err() && rx.rearm());
        assert!(!tx.rearm(), "a receiver waits");
        tx.try_send(n).unwrap();
        assert!(is_readable(there));
        assert_eq!(rx.try_recv(), Ok(n));
    }
}

#[test]
fn threads_that_poll_both_ends_of_a_tube_without_slots_pass_all_messages() {
    let (tx, rx) = spsc(0);
    let wait = |fd: BorrowedFd<'_>| select! { readable(fd) -> r => r.unwrap() };
    thread::scope(|s| {
        s.spawn(move || {
            for n in 0..1000 {
                while tx.try_send(n).is_err() {
                    let room = tx.descriptor().unwrap();
                    if tx.rearm() {
                        wait(room);
                    }
                }
            }
        });
        let mut next = 0;
        while next < 1000 {
            match rx.try_recv() {
                Ok(n) => next = (assert_eq!(n, next), next + 1).1,
                Err(_) => {
                    let there = rx.descriptor().unwrap();
                    if rx.rearm() {
                        wait(there);
                    }
                }
            }
        }
    });
}

#[test]
fn a_message_left_for_a_receiver_that_gave_up_goes_to_the_next() {
    let left = || {
        let (tx, rx) = bounded(0);
        rx.descriptor().unwrap();
        assert!(tx.try_send(std::sync::Arc::new(7)).is_err(), "it has not looked yet");
        assert!(rx.rearm());
        let message = std::sync::Arc::new(7);
        tx.try_send(message.clone()).unwrap();
        (tx, rx, message)
    };
    let (_tx, rx, _) = left();
    assert_eq!(*rx.recv().unwrap(), 7);
    let (_tx, rx, _) = left();
    assert_eq!(*select! { recv(rx) -> m => m.unwrap() }, 7);
    let (_tx, rx, _) = left();
    assert_eq!(rx.len(), 1);
    chappe::thread::spawn(move || assert_eq!(*rx.recv().unwrap(), 7)).join().unwrap();
    let (tx, rx, _) = left();
    chappe::thread::spawn(move || {
        let other = never::<u8>();
        drop(tx);
        assert_eq!(*select! { recv(other) -> _ => unreachable!(), recv(rx) -> m => m.unwrap() }, 7);
        assert!(rx.recv().is_err());
    })
    .join()
    .unwrap();
    let (_tx, rx, message) = left();
    drop(rx);
    assert_eq!(std::sync::Arc::strong_count(&message), 1, "nobody will receive it");
}
