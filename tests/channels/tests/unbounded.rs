//! An unbounded channel takes every message at once, in order, whatever it holds already.

use chappe::tube::{Receiver, RecvTimeoutError, Select, Sender, TryRecvError, bounded, unbounded};

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn it_is_never_full_and_has_no_capacity() {
    let (tx, rx) = unbounded();
    assert_eq!((tx.capacity(), rx.capacity()), (None, None));
    assert!(tx.is_empty() && rx.is_empty());
    for n in 0..1000 {
        tx.try_send(n).unwrap();
        assert!(!tx.is_full() && !rx.is_full());
        assert!(!tx.is_empty() && !rx.is_empty());
    }
    assert_eq!((tx.capacity(), rx.capacity()), (None, None));
}

#[test]
fn the_length_is_exact_at_every_size() {
    let (tx, rx) = unbounded();
    // Up and down again, so that every boundary inside the implementation is crossed both ways.
    for n in 0..500 {
        assert_eq!((tx.len(), rx.len()), (n, n));
        tx.send(n).unwrap();
    }
    for n in 0..500 {
        assert_eq!(tx.len(), 500 - n);
        assert_eq!(rx.recv(), Ok(n));
    }
    assert_eq!((tx.len(), rx.len()), (0, 0));
}

#[test]
fn messages_come_out_in_the_order_they_went_in() {
    let (tx, rx) = unbounded();
    let (mut sent, mut received) = (0usize, 0usize);
    let mut dice = Dice::new(3);
    for _ in 0..300 {
        for _ in 0..dice.below(60) {
            tx.send(sent).unwrap();
            sent += 1;
        }
        for _ in 0..dice.below(60).min(sent - received) {
            assert_eq!(rx.try_recv(), Ok(received));
            received += 1;
        }
        assert_eq!(rx.len(), sent - received);
    }
    assert!(received > 100);
}

#[test]
fn send_needs_no_receiver_at_work() {
    let (tx, rx) = unbounded();
    for n in 0..50_000 {
        tx.send(n).unwrap();
    }
    drop(tx);
    assert!(rx.into_iter().eq(0..50_000));
}

#[test]
fn an_expired_send_still_succeeds() {
    let (tx, rx) = unbounded();
    let past = Instant::now();
    nap();
    assert_eq!(tx.send_deadline(1, past), Ok(()));
    assert_eq!(tx.send_timeout(2, Duration::ZERO), Ok(()));
    assert_eq!(tx.send_timeout(3, Duration::MAX), Ok(()));
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn an_empty_channel_has_nothing_yet() {
    let (tx, rx) = unbounded();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(ms(30)), Err(RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= ms(30));
    let moment = Instant::now() + ms(30);
    assert_eq!(rx.recv_deadline(moment), Err(RecvTimeoutError::Timeout));
    assert!(Instant::now() >= moment);
    tx.send(1).unwrap();
    assert_eq!(rx.recv_deadline(moment), Ok(1));
}

#[test]
fn a_waiting_receiver_wakes() {
    in_time(|| {
        let (tx, rx) = unbounded();
        let receiver = thread::spawn(move || (rx.recv(), rx.recv_timeout(LONG), rx.recv_timeout(Duration::MAX)));
        for n in 0..3 {
            nap();
            assert!(!receiver.is_finished());
            tx.send(n).unwrap();
        }
        assert_eq!(receiver.join().unwrap(), (Ok(0), Ok(1), Ok(2)));
    });
}

#[test]
fn several_waiting_receivers_all_wake() {
    in_time(|| {
        let (tx, rx) = unbounded();
        let receivers: Vec<_> = (0..6)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || rx.recv().unwrap())
            })
            .collect();
        nap();
        // All at once: each send must wake a receiver that has not been woken yet.
        for n in 0..6 {
            tx.send(n).unwrap();
        }
        let mut got: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
        got.sort();
        assert_eq!(got, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn each_sender_keeps_its_own_order() {
    in_time(|| {
        let (tx, rx) = unbounded();
        for s in 0..4 {
            let tx = tx.clone();
            thread::spawn(move || (0..2000).for_each(|n| tx.send((s, n)).unwrap()));
        }
        drop(tx);
        let mut next = [0; 4];
        for (s, n) in rx {
            assert_eq!(n, next[s]);
            next[s] += 1;
        }
        assert_eq!(next, [2000; 4]);
    });
}

#[test]
fn a_request_carries_the_way_back() {
    in_time(|| {
        let (requests, rx) = unbounded::<(u32, Sender<u32>)>();
        let server = thread::spawn(move || {
            for (n, reply) in rx {
                reply.send(n * 2).unwrap();
            }
        });
        let clients: Vec<_> = (0..3)
            .map(|c| {
                let requests = requests.clone();
                thread::spawn(move || {
                    for n in 0..100 {
                        // One of each flavour as the way back.
                        let (reply, answer) = match n % 3 {
                            0 => bounded(0),
                            1 => bounded(1),
                            _ => unbounded(),
                        };
                        requests.send((c * 1000 + n, reply)).unwrap();
                        assert_eq!(answer.recv(), Ok((c * 1000 + n) * 2));
                        // The server let go of its end, or will.
                        assert!(answer.recv().is_err());
                    }
                })
            })
            .collect();
        drop(requests);
        for t in clients {
            t.join().unwrap();
        }
        server.join().unwrap();
    });
}

#[test]
fn channels_of_channels_of_channels() {
    let (outer_tx, outer_rx) = unbounded::<Receiver<Receiver<u8>>>();
    let (middle_tx, middle_rx) = unbounded();
    let (inner_tx, inner_rx) = unbounded();
    outer_tx.send(middle_rx).unwrap();
    middle_tx.send(inner_rx).unwrap();
    inner_tx.send(42).unwrap();
    assert_eq!(outer_rx.recv().unwrap().recv().unwrap().recv(), Ok(42));
    // The received ends were temporaries, so both inner channels are closed by now.
    assert!(middle_tx.send(unbounded().1).is_err());
    assert!(inner_tx.send(1).is_err());
    assert!(outer_tx.send(unbounded().1).is_ok());
}

#[test]
fn a_receiver_can_be_handed_on_while_messages_wait() {
    in_time(|| {
        let (tx, rx) = unbounded();
        let (hand, handed) = bounded(0);
        for n in 0..10 {
            tx.send(n).unwrap();
        }
        let next = thread::spawn(move || {
            let rx: Receiver<i32> = handed.recv().unwrap();
            rx.iter().sum::<i32>()
        });
        assert_eq!(rx.recv(), Ok(0));
        assert_eq!(rx.recv(), Ok(1));
        hand.send(rx).unwrap();
        tx.send(100).unwrap();
        drop(tx);
        assert_eq!(next.join().unwrap(), 44 + 100);
    });
}

struct Loop(Sender<Loop>, Token);

#[test]
fn a_sender_in_its_own_channel_keeps_it_open() {
    let tally = Tally::default();
    let (tx, rx) = unbounded();
    tx.send(Loop(tx.clone(), tally.token())).unwrap();
    drop(tx);
    let Loop(tx, _token) = rx.recv().unwrap_or_else(|_| panic!("closed too early"));
    assert!(matches!(rx.try_recv(), Err(TryRecvError::Empty)));
    drop(tx);
    assert!(matches!(rx.try_recv(), Err(TryRecvError::Disconnected)));
}

#[test]
fn a_sender_in_its_own_channel_is_freed_with_the_last_receiver() {
    let tally = Tally::default();
    let (tx, rx) = unbounded();
    tx.send(Loop(tx.clone(), tally.token())).unwrap();
    tx.send(Loop(tx.clone(), tally.token())).unwrap();
    drop(tx);
    drop(rx);
    assert_eq!(tally.dropped(), 2, "the channel kept itself alive");
    tally.assert_each_dropped_once();
}

#[test]
fn large_messages_arrive_whole() {
    in_time(|| {
        let (tx, rx) = unbounded();
        for seed in 0..40 {
            tx.send(Big::new(seed)).unwrap_or_else(|_| panic!("closed"));
        }
        assert_eq!(rx.len(), 40);
        for seed in 0..35 {
            assert!(rx.recv().unwrap_or_else(|_| panic!("closed")).is(seed));
        }
    });
}

#[test]
fn messages_keep_their_alignment_inside_the_channel() {
    let (tx, rx) = unbounded();
    for n in 0..100 {
        tx.send(Aligned(n)).unwrap();
    }
    for n in 0..50 {
        let message = rx.recv().unwrap();
        assert!(message.well_placed() && message.0 == n);
    }
    // The other half is dropped where it lies.
    drop((tx, rx));
    assert_eq!(Aligned::misplaced(), 0);
}

#[test]
fn clones_are_ends_of_the_same_channel() {
    let (tx, rx) = unbounded();
    let (other_tx, other_rx) = unbounded();
    assert!(tx.same_channel(&tx.clone()) && rx.same_channel(&rx.clone()));
    assert!(!tx.same_channel(&other_tx) && !rx.same_channel(&other_rx));
    tx.clone().send(1).unwrap();
    other_tx.send(2).unwrap();
    assert_eq!((rx.clone().recv(), other_rx.recv()), (Ok(1), Ok(2)));
}

#[test]
fn flavours_are_different_channels() {
    let (zero_tx, zero_rx) = bounded::<u8>(0);
    let (some_tx, some_rx) = bounded::<u8>(1);
    let (any_tx, any_rx) = unbounded::<u8>();
    assert!(!zero_tx.same_channel(&some_tx) && !some_tx.same_channel(&any_tx) && !any_tx.same_channel(&zero_tx));
    assert!(!zero_rx.same_channel(&some_rx) && !some_rx.same_channel(&any_rx) && !any_rx.same_channel(&zero_rx));
}

#[test]
fn a_send_operation_is_always_ready() {
    let (tx, rx) = unbounded();
    let mut choice = Select::new();
    choice.send(&tx);
    for n in 0..100 {
        assert_eq!(choice.try_ready(), Ok(0));
        choice.try_select().unwrap().send(&tx, n).unwrap();
    }
    assert!(rx.try_iter().eq(0..100));
}

#[test]
fn emptying_and_refilling_goes_on_forever() {
    let (tx, rx) = unbounded();
    let tally = Tally::default();
    for round in 0..200 {
        for _ in 0..round % 40 {
            tx.send(tally.token()).unwrap();
        }
        assert_eq!(rx.try_iter().count(), round % 40);
        assert!(rx.is_empty());
    }
    assert!(tally.made() > 1000);
    tally.assert_each_dropped_once();
}

/// The least stack that threads of the standard library begin with; unoptimised, each function that a message passes through has several
/// copies of it there.
#[test]
fn a_message_of_32_kib_goes_through_within_the_usual_stack() {
    let through = || {
        let (tx, rx) = unbounded();
        tx.send([7u8; 32_768]).unwrap();
        assert!(rx.try_iter().all(|message| message[32_767] == 7));
        tx.send([8u8; 32_768]).unwrap();
        assert_eq!(rx.recv().unwrap()[0], 8);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(through).unwrap().join().unwrap();
}
