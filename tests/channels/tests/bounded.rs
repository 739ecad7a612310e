//! A bounded channel holds as many messages as its capacity, in order, and makes a sender wait for room.

use chappe::tube::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError, bounded};

use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn length_capacity_and_fullness_follow_the_contents() {
    let (tx, rx) = bounded(3);
    let both = |len: usize| {
        assert_eq!((tx.len(), rx.len()), (len, len));
        assert_eq!((tx.is_empty(), rx.is_empty()), (len == 0, len == 0));
        assert_eq!((tx.is_full(), rx.is_full()), (len == 3, len == 3));
        assert_eq!((tx.capacity(), rx.capacity()), (Some(3), Some(3)));
    };
    both(0);
    for n in 1..=3 {
        tx.send(n).unwrap();
        both(n);
    }
    for n in 1..=3 {
        assert_eq!(rx.recv(), Ok(n));
        both(3 - n);
    }
}

#[test]
fn capacities_are_not_rounded() {
    for capacity in [1, 2, 3, 5, 6, 7, 9, 31, 33, 100] {
        let (tx, rx) = bounded(capacity);
        for n in 0..capacity {
            assert_eq!(tx.try_send(n), Ok(()), "capacity {capacity}");
        }
        assert_eq!(tx.try_send(capacity), Err(TrySendError::Full(capacity)));
        assert_eq!((rx.len(), rx.capacity()), (capacity, Some(capacity)));
    }
}

#[test]
fn order_is_kept_over_many_laps_of_the_buffer() {
    let (tx, rx) = bounded(5);
    let (mut sent, mut received) = (0u32, 0u32);
    let mut dice = Dice::new(7);
    while received < 5000 {
        for _ in 0..dice.below(6) {
            if tx.try_send(sent).is_ok() {
                sent += 1;
            }
        }
        for _ in 0..dice.below(6) {
            if let Ok(n) = rx.try_recv() {
                assert_eq!(n, received);
                received += 1;
            }
        }
        assert_eq!(tx.len() as u32, sent - received);
    }
}

#[test]
fn a_full_channel_hands_the_message_back_and_stays_as_it_was() {
    let (tx, rx) = bounded(1);
    let first = Box::new(1);
    let second = Box::new(2);
    let place = std::ptr::from_ref(&*second);
    tx.try_send(first).unwrap();
    match tx.try_send(second) {
        Err(TrySendError::Full(back)) => assert_eq!(std::ptr::from_ref(&*back), place),
        other => panic!("{other:?}"),
    }
    assert_eq!(rx.len(), 1);
    assert_eq!(rx.recv().as_deref(), Ok(&1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn an_empty_channel_has_nothing_and_then_has_something() {
    let (tx, rx) = bounded(2);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    tx.send("x").unwrap();
    assert_eq!(rx.try_recv(), Ok("x"));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn send_waits_until_there_is_room() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        let sent = Arc::new(AtomicBool::new(false));
        tx.send(1).unwrap();
        let sender = thread::spawn({
            let sent = sent.clone();
            move || {
                tx.send(2).unwrap();
                sent.store(true, Ordering::SeqCst);
            }
        });
        nap();
        assert!(!sent.load(Ordering::SeqCst), "a send into a full channel returned");
        assert_eq!(rx.recv(), Ok(1));
        assert_eq!(rx.recv(), Ok(2));
        sender.join().unwrap();
    });
}

#[test]
fn recv_waits_until_there_is_a_message() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        let receiver = thread::spawn(move || rx.recv());
        nap();
        assert!(!receiver.is_finished(), "a receive from an empty channel returned");
        tx.send(5).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(5));
    });
}

#[test]
fn send_timeout_waits_its_time_and_returns_the_message() {
    let (tx, rx) = bounded(1);
    tx.send(1).unwrap();
    let start = Instant::now();
    assert_eq!(tx.send_timeout(2, ms(40)), Err(SendTimeoutError::Timeout(2)));
    assert!(start.elapsed() >= ms(40));
    assert!(start.elapsed() < LONG);
    assert_eq!(rx.recv(), Ok(1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "a send that timed out left its message");
}

#[test]
fn send_deadline_waits_until_its_moment() {
    let (tx, rx) = bounded(1);
    let moment = Instant::now() + ms(40);
    assert_eq!(tx.send_deadline(1, moment), Ok(()));
    assert!(Instant::now() < moment + LONG);
    assert_eq!(tx.send_deadline(2, moment), Err(SendTimeoutError::Timeout(2)));
    assert!(Instant::now() >= moment);
    assert_eq!(rx.len(), 1);
}

#[test]
fn recv_timeout_and_recv_deadline_wait_their_time() {
    let (tx, rx) = bounded::<u8>(1);
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(ms(40)), Err(RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= ms(40));
    let moment = Instant::now() + ms(40);
    assert_eq!(rx.recv_deadline(moment), Err(RecvTimeoutError::Timeout));
    assert!(Instant::now() >= moment);
    tx.send(9).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(9), "a receiver that gave up took a later message");
}

#[test]
fn a_wait_with_no_time_left_is_still_an_attempt() {
    let (tx, rx) = bounded(1);
    let past = Instant::now();
    nap();
    assert_eq!(tx.send_deadline(1, past), Ok(()));
    assert_eq!(tx.send_deadline(2, past), Err(SendTimeoutError::Timeout(2)));
    assert_eq!(tx.send_timeout(2, Duration::ZERO), Err(SendTimeoutError::Timeout(2)));
    assert_eq!(rx.recv_deadline(past), Ok(1));
    assert_eq!(rx.recv_deadline(past), Err(RecvTimeoutError::Timeout));
    assert_eq!(tx.send_timeout(3, Duration::ZERO), Ok(()));
    assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(3));
    assert_eq!(rx.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
}

#[test]
fn waits_end_early_when_the_other_end_acts() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        let start = Instant::now();
        let peer = thread::spawn({
            let (tx, rx) = (tx.clone(), rx.clone());
            move || {
                nap();
                tx.send(1).unwrap();
                // Only the main thread's receive makes room for this one.
                tx.send(2).unwrap();
                until(|| rx.is_full());
                nap();
                rx.recv().unwrap()
            }
        });
        assert_eq!(rx.recv_timeout(LONG), Ok(1));
        until(|| rx.is_full());
        assert_eq!(tx.send_timeout(3, LONG), Ok(()));
        assert_eq!(peer.join().unwrap(), 2);
        assert_eq!(rx.recv_deadline(Instant::now() + LONG), Ok(3));
        assert!(start.elapsed() < LONG);
    });
}

#[test]
fn the_longest_timeout_does_not_overflow() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        assert_eq!(tx.send_timeout(1, Duration::MAX), Ok(()));
        let sender = thread::spawn(move || tx.send_timeout(2, Duration::MAX));
        nap();
        assert_eq!(rx.recv_timeout(Duration::MAX), Ok(1));
        assert_eq!(rx.recv_timeout(Duration::MAX), Ok(2));
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(rx.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn two_threads_take_turns_over_one_slot_each_way() {
    in_time(|| {
        let (to, from_main) = bounded(1);
        let (back, answers) = bounded(1);
        let echo = thread::spawn(move || {
            for n in from_main {
                back.send(n + 1).unwrap();
            }
        });
        let mut n = 0;
        for _ in 0..2000 {
            to.send(n).unwrap();
            n = answers.recv().unwrap();
        }
        assert_eq!(n, 2000);
        drop(to);
        echo.join().unwrap();
    });
}

#[test]
fn every_sleeping_receiver_gets_one_of_the_messages() {
    in_time(|| {
        let (tx, rx) = bounded(4);
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || rx.recv().unwrap())
            })
            .collect();
        nap();
        for n in 0..4 {
            tx.send(n).unwrap();
        }
        let mut got: Vec<_> = sleepers.into_iter().map(|t| t.join().unwrap()).collect();
        got.sort();
        assert_eq!(got, [0, 1, 2, 3]);
    });
}

#[test]
fn every_sleeping_sender_gets_one_of_the_places() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        tx.send(0).unwrap();
        let sleepers: Vec<_> = (1..=4)
            .map(|n| {
                let tx = tx.clone();
                thread::spawn(move || tx.send(n).unwrap())
            })
            .collect();
        nap();
        let mut got: Vec<_> = (0..5).map(|_| rx.recv().unwrap()).collect();
        got.sort();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        for t in sleepers {
            t.join().unwrap();
        }
    });
}

#[test]
fn clones_are_ends_of_the_same_channel() {
    let (tx, rx) = bounded(2);
    let (other_tx, other_rx) = bounded::<i32>(2);
    let (tx2, rx2) = (tx.clone(), rx.clone());
    assert!(tx.same_channel(&tx2) && rx.same_channel(&rx2));
    assert!(!tx.same_channel(&other_tx) && !rx.same_channel(&other_rx));
    tx2.send(1).unwrap();
    tx.send(2).unwrap();
    assert_eq!(tx2.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!((rx.recv(), rx2.recv()), (Ok(1), Ok(2)));
}

#[test]
fn a_message_is_taken_by_one_receiver_only() {
    let (tx, rx) = bounded(1);
    let rx2 = rx.clone();
    tx.send(1).unwrap();
    assert_eq!(rx2.try_recv(), Ok(1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn a_capacity_of_a_million_is_used_in_full() {
    const CAPACITY: usize = 1 << 20;
    let (tx, rx) = bounded(CAPACITY);
    assert_eq!(tx.capacity(), Some(CAPACITY));
    for n in 0..CAPACITY {
        tx.try_send(n as u32).unwrap();
    }
    assert!(tx.is_full());
    assert_eq!(tx.try_send(7), Err(TrySendError::Full(7)));
    assert_eq!(rx.len(), CAPACITY);
    for n in 0..CAPACITY {
        assert_eq!(rx.try_recv(), Ok(n as u32));
    }
    assert!(rx.is_empty());
}

#[test]
fn messages_of_64_kib_arrive_whole() {
    in_time(|| {
        let (tx, rx) = bounded(3);
        let sender = roomy(move || {
            for seed in 0..20 {
                tx.send(Big::new(seed)).unwrap_or_else(|_| panic!("closed"));
            }
        });
        for seed in 0..20 {
            assert!(rx.recv().unwrap_or_else(|_| panic!("closed")).is(seed), "message {seed} is torn");
        }
        sender.join().unwrap();
    });
}

#[test]
fn messages_keep_their_alignment_inside_the_channel() {
    let (tx, rx) = bounded(7);
    for n in 0..5 {
        tx.send(Aligned(n)).unwrap();
    }
    let first = rx.recv().unwrap();
    assert!(first.well_placed());
    assert_eq!(first.0, 0);
    // The other four are dropped where they lie.
    drop((tx, rx));
    assert_eq!(Aligned::misplaced(), 0);
}

#[test]
fn a_message_is_moved_and_not_copied() {
    let (tx, rx) = bounded(1);
    let message = vec![1, 2, 3];
    let place = message.as_ptr();
    tx.send(message).unwrap();
    let received = rx.recv().unwrap();
    assert_eq!(received.as_ptr(), place);
}

#[test]
#[ignore = "storm: threads that race"]
fn the_length_is_never_above_the_capacity() {
    in_time(|| {
        let (tx, rx) = bounded(2);
        let watched = rx.clone();
        let sender = thread::spawn(move || (0..5000).for_each(|n| tx.send(n).unwrap()));
        let receiver = thread::spawn(move || rx.iter().count());
        while !sender.is_finished() {
            assert!(watched.len() <= 2);
        }
        sender.join().unwrap();
        assert_eq!(receiver.join().unwrap(), 5000);
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn many_senders_and_receivers_share_without_loss() {
    in_time(|| {
        let (tx, rx): (Sender<usize>, Receiver<usize>) = bounded(3);
        let senders: Vec<_> = (0..3)
            .map(|s| {
                let tx = tx.clone();
                thread::spawn(move || (0..1000).for_each(|n| tx.send(s * 1000 + n).unwrap()))
            })
            .collect();
        drop(tx);
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || rx.iter().collect::<Vec<_>>())
            })
            .collect();
        for t in senders {
            t.join().unwrap();
        }
        let mut all: Vec<_> = receivers.into_iter().flat_map(|t| t.join().unwrap()).collect();
        all.sort();
        assert_eq!(all, (0..3000).collect::<Vec<_>>());
    });
}

#[test]
fn closures_and_trait_objects_travel() {
    in_time(|| {
        let (tx, rx) = bounded::<Box<dyn FnOnce() -> i32 + Send>>(2);
        let worker = thread::spawn(move || rx.iter().map(|job| job()).sum::<i32>());
        for n in 0..10 {
            tx.send(Box::new(move || n * n)).unwrap();
        }
        drop(tx);
        assert_eq!(worker.join().unwrap(), 285);
    });
}

#[test]
fn borrowed_messages_travel_between_scoped_threads() {
    let words = [String::from("a"), String::from("bc"), String::from("def")];
    let (tx, rx) = bounded::<&str>(1);
    let total: usize = thread::scope(|scope| {
        let counter = scope.spawn(move || rx.iter().map(str::len).sum());
        for word in &words {
            tx.send(word).unwrap();
        }
        drop(tx);
        counter.join().unwrap()
    });
    assert_eq!(total, 6);
}

#[test]
#[should_panic(expected = "bounded channel capacity is too large")]
fn a_capacity_beyond_counting_is_refused() {
    let _ = bounded::<u8>(usize::MAX);
}
