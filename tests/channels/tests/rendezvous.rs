//! A channel of capacity zero holds nothing. A message passes only when a sender and a receiver meet.

use chappe::tube::{
    self, Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError, bounded, select,
};

use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sends by `try_send` alone, which can only succeed while somebody waits to receive.
fn push<T>(tx: &Sender<T>, mut message: T) {
    let start = Instant::now();
    loop {
        match tx.try_send(message) {
            Ok(()) => return,
            Err(TrySendError::Full(back)) => message = back,
            Err(TrySendError::Disconnected(_)) => panic!("disconnected"),
        }
        assert!(start.elapsed() < LONG, "nobody came to receive");
        thread::yield_now();
    }
}

/// Receives by `try_recv` alone, which can only succeed while somebody waits to send.
fn pull<T>(rx: &Receiver<T>) -> T {
    let start = Instant::now();
    loop {
        match rx.try_recv() {
            Ok(message) => return message,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => panic!("disconnected"),
        }
        assert!(start.elapsed() < LONG, "nobody came to send");
        thread::yield_now();
    }
}

#[test]
fn it_is_both_empty_and_full() {
    let (tx, rx) = bounded::<u8>(0);
    assert_eq!((tx.capacity(), rx.capacity()), (Some(0), Some(0)));
    assert_eq!((tx.len(), rx.len()), (0, 0));
    assert!(tx.is_empty() && rx.is_empty());
    assert!(tx.is_full() && rx.is_full());
}

#[test]
fn attempts_fail_while_nobody_is_at_the_other_end() {
    let (tx, rx) = bounded(0);
    assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    // Neither attempt may have left anything behind for the other.
    assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn try_send_meets_a_waiting_receiver() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let receiver = thread::spawn(move || rx.recv());
        push(&tx, 7);
        assert_eq!(receiver.join().unwrap(), Ok(7));
    });
}

#[test]
fn try_recv_meets_a_waiting_sender() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let sender = thread::spawn(move || tx.send(7));
        assert_eq!(pull(&rx), 7);
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
}

#[test]
fn an_expired_wait_still_meets_who_is_there() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let past = Instant::now();
        let receiver = thread::spawn({
            let rx = rx.clone();
            move || rx.recv()
        });
        until(|| tx.send_deadline(1, past).is_ok());
        assert_eq!(receiver.join().unwrap(), Ok(1));
        let sender = thread::spawn(move || tx.send(2));
        until(|| match rx.recv_timeout(Duration::ZERO) {
            Ok(n) => n == 2,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => panic!("the message was lost"),
        });
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
}

#[test]
fn send_returns_only_once_the_message_is_taken() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let taking = Arc::new(AtomicBool::new(false));
        let sender = thread::spawn({
            let taking = taking.clone();
            move || {
                tx.send(1).unwrap();
                assert!(taking.load(Ordering::SeqCst), "the send returned before anybody received");
            }
        });
        nap();
        taking.store(true, Ordering::SeqCst);
        assert_eq!(rx.recv(), Ok(1));
        sender.join().unwrap();
    });
}

#[test]
fn a_waiting_sender_does_not_count_as_a_message() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let sender = thread::spawn(move || tx.send(1));
        nap();
        assert_eq!((rx.len(), rx.is_empty(), rx.is_full()), (0, true, true));
        assert_eq!(rx.recv(), Ok(1));
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn a_sender_that_gave_up_is_not_met_any_more() {
    let (tx, rx) = bounded(0);
    let start = Instant::now();
    assert_eq!(tx.send_timeout(1, ms(30)), Err(SendTimeoutError::Timeout(1)));
    assert!(start.elapsed() >= ms(30));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(tx.send_timeout(2, Duration::ZERO), Err(SendTimeoutError::Timeout(2)));
    assert_eq!(rx.recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_receiver_that_gave_up_is_not_met_any_more() {
    let (tx, rx) = bounded(0);
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(ms(30)), Err(RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= ms(30));
    assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
}

#[test]
fn messages_of_one_sender_arrive_in_order() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let sender = thread::spawn(move || (0..2000).for_each(|n| tx.send(n).unwrap()));
        for n in 0..2000 {
            assert_eq!(rx.recv(), Ok(n));
        }
        sender.join().unwrap();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
    });
}

#[test]
fn messages_are_moved_whole_and_aligned() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let sender = roomy(move || {
            for seed in 0..10 {
                tx.send((Big::new(seed), Aligned(seed))).unwrap_or_else(|_| panic!("closed"));
            }
        });
        for seed in 0..10 {
            let (big, aligned) = rx.recv().unwrap_or_else(|_| panic!("closed"));
            assert!(big.is(seed) && aligned.0 == seed && aligned.well_placed());
        }
        sender.join().unwrap();
        assert_eq!(Aligned::misplaced(), 0);
    });
}

#[test]
fn all_waiting_senders_are_met() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let senders: Vec<_> = (0..5)
            .map(|n| {
                let tx = tx.clone();
                thread::spawn(move || tx.send(n).unwrap())
            })
            .collect();
        let mut got: Vec<_> = (0..5).map(|_| rx.recv().unwrap()).collect();
        got.sort();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        for t in senders {
            t.join().unwrap();
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn all_waiting_receivers_are_met() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let receivers: Vec<_> = (0..5)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || rx.recv().unwrap())
            })
            .collect();
        for n in 0..5 {
            push(&tx, n);
        }
        let mut got: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
        got.sort();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        assert_eq!(tx.try_send(9), Err(TrySendError::Full(9)));
    });
}

#[test]
fn a_departing_receiver_gives_the_waiting_sender_its_message_back() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let sender = thread::spawn(move || tx.send(String::from("mine")));
        nap();
        drop(rx);
        assert_eq!(sender.join().unwrap().unwrap_err().into_inner(), "mine");
    });
}

#[test]
fn a_departing_sender_wakes_the_waiting_receiver() {
    in_time(|| {
        let (tx, rx) = bounded::<u8>(0);
        let receiver = thread::spawn(move || rx.recv());
        nap();
        drop(tx);
        assert!(receiver.join().unwrap().is_err());
    });
}

#[test]
fn attempts_meet_a_select_that_waits() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (back, answers) = bounded(0);
        let chooser = thread::spawn(move || {
            let mut choice = Select::new();
            let r = choice.recv(&rx);
            let s = choice.send(&back);
            for _ in 0..2 {
                let ready = choice.select();
                match ready.index() {
                    i if i == r => assert_eq!(ready.recv(&rx), Ok(1)),
                    i if i == s => assert_eq!(ready.send(&back, 2), Ok(())),
                    i => panic!("no operation {i}"),
                }
            }
        });
        push(&tx, 1);
        assert_eq!(pull(&answers), 2);
        chooser.join().unwrap();
    });
}

#[test]
fn attempts_meet_a_select_macro_that_waits() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (back, answers) = bounded(0);
        let chooser = thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                select! {
                    recv(rx) -> n => seen.push(n.unwrap()),
                    send(back, 2) -> sent => { sent.unwrap(); seen.push(2) }
                }
            }
            seen
        });
        assert_eq!(pull(&answers), 2);
        // Nobody receives answers any more, so only the receive is left to it.
        push(&tx, 1);
        assert_eq!(chooser.join().unwrap(), [2, 1]);
    });
}

#[test]
fn two_choices_at_opposite_ends_meet() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let never = tube::never::<u32>();
        let sender = thread::spawn({
            let never = never.clone();
            move || {
                for n in 0..500 {
                    select! {
                        send(tx, n) -> sent => sent.unwrap(),
                        recv(never) -> _ => unreachable!(),
                    }
                }
            }
        });
        for n in 0..500 {
            select! {
                recv(never) -> _ => unreachable!(),
                recv(rx) -> got => assert_eq!(got, Ok(n)),
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn one_choice_holding_both_ends_does_not_meet_itself() {
    let (tx, rx) = bounded::<u8>(0);
    let mut choice = Select::new();
    choice.send(&tx);
    choice.recv(&rx);
    assert!(choice.try_select().is_err());
    assert!(choice.select_timeout(ms(20)).is_err());
    assert!(choice.try_ready().is_err());
    assert!(choice.ready_timeout(ms(20)).is_err());
    // Nor did it stay behind as a peer for a later attempt.
    assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
#[ignore = "storm: threads that race"]
fn two_choices_that_each_hold_both_ends_meet_each_other() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let meet = |tx: Sender<u8>, rx: Receiver<u8>, mine: u8| {
            move || {
                select! {
                    send(tx, mine) -> sent => { sent.unwrap(); None }
                    recv(rx) -> got => Some(got.unwrap()),
                }
            }
        };
        for _ in 0..200 {
            let one = thread::spawn(meet(tx.clone(), rx.clone(), 1));
            let two = meet(tx.clone(), rx.clone(), 2)();
            match (one.join().unwrap(), two) {
                (None, Some(1)) | (Some(2), None) => {}
                other => panic!("one did not send what the other received: {other:?}"),
            }
        }
    });
}

#[test]
fn a_choice_that_took_one_arm_no_longer_waits_on_the_others() {
    in_time(|| {
        let (tx_a, rx_a) = bounded(0);
        let (tx_b, rx_b) = bounded::<u8>(0);
        let chooser = thread::spawn({
            let rx_b = rx_b.clone();
            move || {
                select! {
                    recv(rx_a) -> n => n.unwrap(),
                    recv(rx_b) -> _ => unreachable!(),
                }
            }
        });
        push(&tx_a, 3);
        assert_eq!(chooser.join().unwrap(), 3);
        assert_eq!(tx_b.try_send(4), Err(TrySendError::Full(4)));
        assert_eq!(rx_b.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn waiting_for_readiness_is_not_yet_receiving() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (tell, told) = bounded(0);
        let watcher = thread::spawn(move || {
            let mut choice = Select::new();
            choice.recv(&rx);
            tell.send(()).unwrap();
            // Readiness may be reported in vain, so the attempt decides.
            loop {
                assert_eq!(choice.ready(), 0);
                if let Ok(n) = rx.try_recv() {
                    return n;
                }
            }
        });
        told.recv().unwrap();
        nap();
        assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)), "ready() took part as a receiver");
        tx.send(2).unwrap();
        assert_eq!(watcher.join().unwrap(), 2);
    });
}

#[test]
fn many_meet_many_without_loss() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let senders: Vec<_> = (0..3)
            .map(|s| {
                let tx = tx.clone();
                thread::spawn(move || (0..300).for_each(|n| tx.send(s * 300 + n).unwrap()))
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
        let mut all: Vec<i32> = receivers.into_iter().flat_map(|t| t.join().unwrap()).collect();
        all.sort();
        assert_eq!(all, (0..900).collect::<Vec<_>>());
    });
}

#[test]
fn a_message_dropped_by_the_receiver_is_dropped_once() {
    in_time(|| {
        let tally = Tally::default();
        let (tx, rx) = bounded(0);
        let receiver = thread::spawn(move || rx.iter().take(20).for_each(drop));
        let mut sent = 0;
        while tx.send(tally.token()).is_ok() {
            sent += 1;
        }
        receiver.join().unwrap();
        assert_eq!(sent, 20);
        assert_eq!(tally.made(), 21);
        tally.assert_each_dropped_once();
    });
}
