//! Many threads on one channel: every message is received once and whole, and those of one sender in order.

use chappe::tube::{
    Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError, bounded, never, select,
    unbounded,
};

use crate::support::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

fn each_kind<T>() -> Vec<(&'static str, Sender<T>, Receiver<T>)> {
    let named = |name, (tx, rx)| (name, tx, rx);
    vec![
        named("rendezvous", bounded(0)),
        named("bounded(1)", bounded(1)),
        named("bounded(7)", bounded(7)),
        named("unbounded", unbounded()),
    ]
}

#[test]
#[ignore = "storm: threads that race"]
fn four_senders_and_four_receivers() {
    in_time(|| {
        for (kind, tx, rx) in each_kind() {
            let senders: Vec<_> = (0..4)
                .map(|s| {
                    let tx = tx.clone();
                    thread::spawn(move || (0..1500).for_each(|n| tx.send((s, n)).unwrap()))
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..4)
                .map(|_| {
                    let rx = rx.clone();
                    thread::spawn(move || rx.iter().collect::<Vec<_>>())
                })
                .collect();
            for t in senders {
                t.join().unwrap();
            }
            let lists: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            assert_complete_and_in_order(&lists, 4, 1500, kind);
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn every_way_to_send_meets_every_way_to_receive() {
    in_time(|| {
        for (kind, tx, rx) in each_kind::<Stamp>() {
            let senders: Vec<_> = (0..4)
                .map(|s| {
                    let tx = tx.clone();
                    thread::spawn(move || {
                        for n in 0..200 {
                            match s {
                                0 => tx.send((s, n)).unwrap(),
                                1 => {
                                    while tx.try_send((s, n)).is_err() {
                                        thread::yield_now();
                                    }
                                }
                                2 => while tx.send_timeout((s, n), Duration::from_micros(50)).is_err() {},
                                _ => select! {
                                    send(tx, (s, n)) -> sent => sent.unwrap(),
                                    recv(never::<()>()) -> _ => unreachable!(),
                                },
                            }
                        }
                    })
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..4)
                .map(|r| {
                    let rx = rx.clone();
                    thread::spawn(move || {
                        let mut list = Vec::new();
                        loop {
                            let open = match r {
                                0 => rx.recv().map(|m| list.push(m)).is_ok(),
                                1 => match rx.try_recv() {
                                    Ok(m) => {
                                        list.push(m);
                                        true
                                    }
                                    Err(error) => {
                                        thread::yield_now();
                                        error != TryRecvError::Disconnected
                                    }
                                },
                                2 => match rx.recv_timeout(Duration::from_micros(50)) {
                                    Ok(m) => {
                                        list.push(m);
                                        true
                                    }
                                    Err(error) => error != RecvTimeoutError::Disconnected,
                                },
                                _ => select! {
                                    recv(rx) -> got => got.map(|m| list.push(m)).is_ok(),
                                    recv(never::<()>()) -> _ => unreachable!(),
                                },
                            };
                            if !open {
                                return list;
                            }
                        }
                    })
                })
                .collect();
            for t in senders {
                t.join().unwrap();
            }
            let lists: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            assert_complete_and_in_order(&lists, 4, 200, kind);
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn messages_are_never_torn() {
    in_time(|| {
        for (kind, tx, rx) in each_kind::<[u64; 40]>() {
            let senders: Vec<_> = (0..3)
                .map(|s| {
                    let tx = tx.clone();
                    thread::spawn(move || (0..500).for_each(|n| tx.send([s * 1000 + n; 40]).unwrap()))
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let rx = rx.clone();
                    thread::spawn(move || {
                        rx.iter().map(|m| m.iter().all(|&word| word == m[0]).then_some(m[0])).collect::<Vec<_>>()
                    })
                })
                .collect();
            for t in senders {
                t.join().unwrap();
            }
            let all: Vec<_> = receivers.into_iter().flat_map(|t| t.join().unwrap()).collect();
            assert!(all.iter().all(Option::is_some), "{kind}: a torn message");
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), 1500, "{kind}");
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn a_send_that_timed_out_was_not_received() {
    in_time(|| {
        for capacity in [0, 1] {
            let (tx, rx) = bounded(capacity);
            let senders: Vec<_> = (0..3)
                .map(|s| {
                    let tx = tx.clone();
                    thread::spawn(move || {
                        let mut delivered = Vec::new();
                        for n in 0..500 {
                            let wait = Duration::from_micros(n as u64 % 60);
                            match tx.send_timeout((s, n), wait) {
                                Ok(()) => delivered.push((s, n)),
                                Err(SendTimeoutError::Timeout(back)) => assert_eq!(back, (s, n)),
                                Err(SendTimeoutError::Disconnected(_)) => panic!("closed"),
                            }
                        }
                        delivered
                    })
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..2)
                .map(|r| {
                    let rx = rx.clone();
                    thread::spawn(move || {
                        let mut list = Vec::new();
                        loop {
                            match rx.recv_timeout(Duration::from_micros(20 + 30 * r)) {
                                Ok(m) => list.push(m),
                                Err(RecvTimeoutError::Timeout) => {}
                                Err(RecvTimeoutError::Disconnected) => return list,
                            }
                        }
                    })
                })
                .collect();
            let mut delivered: Vec<Stamp> = senders.into_iter().flat_map(|t| t.join().unwrap()).collect();
            let mut received: Vec<Stamp> = receivers.into_iter().flat_map(|t| t.join().unwrap()).collect();
            delivered.sort();
            received.sort();
            assert_eq!(delivered, received, "capacity {capacity}");
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn attempts_racing_over_one_place_neither_lose_nor_double() {
    in_time(|| {
        let (tx, rx) = bounded(1);
        let threads: Vec<_> = (0..4)
            .map(|me| {
                let (tx, rx) = (tx.clone(), rx.clone());
                thread::spawn(move || {
                    let (mut sent, mut received) = (Vec::new(), Vec::new());
                    for n in 0..3000 {
                        match tx.try_send((me, n)) {
                            Ok(()) => sent.push((me, n)),
                            Err(TrySendError::Full(back)) => assert_eq!(back, (me, n)),
                            Err(TrySendError::Disconnected(_)) => panic!("closed"),
                        }
                        match rx.try_recv() {
                            Ok(m) => received.push(m),
                            Err(TryRecvError::Empty) => {}
                            Err(TryRecvError::Disconnected) => panic!("closed"),
                        }
                    }
                    (sent, received)
                })
            })
            .collect();
        let (mut sent, mut received): (Vec<Stamp>, Vec<Stamp>) = (Vec::new(), Vec::new());
        for t in threads {
            let (s, r) = t.join().unwrap();
            sent.extend(s);
            received.extend(r);
        }
        received.extend(rx.try_iter());
        sent.sort();
        received.sort();
        assert!(!sent.is_empty());
        assert_eq!(sent, received);
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn no_more_sends_complete_than_there_is_room_for() {
    in_time(|| {
        for capacity in [0, 1, 4] {
            let (tx, rx) = bounded(capacity);
            let begun = Arc::new(AtomicUsize::new(0));
            let receiver = thread::spawn({
                let begun = begun.clone();
                move || {
                    for n in 0..3000 {
                        begun.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(rx.recv(), Ok(n));
                    }
                }
            });
            for n in 0..3000 {
                tx.send(n).unwrap();
                let begun = begun.load(Ordering::SeqCst);
                assert!(n < begun + capacity, "{} sends completed with {begun} receives begun", n + 1);
            }
            receiver.join().unwrap();
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn ends_are_cloned_and_dropped_while_messages_flow() {
    in_time(|| {
        for (kind, tx, rx) in each_kind() {
            let senders: Vec<_> = (0..3)
                .map(|s| {
                    let mut tx = tx.clone();
                    thread::spawn(move || {
                        for n in 0..600 {
                            tx.send((s, n)).unwrap();
                            tx = tx.clone();
                        }
                    })
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let mut rx = rx.clone();
                    thread::spawn(move || {
                        let mut list = Vec::new();
                        while let Ok(m) = rx.recv() {
                            list.push(m);
                            rx = rx.clone();
                        }
                        list
                    })
                })
                .collect();
            for t in senders {
                t.join().unwrap();
            }
            let lists: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            assert_complete_and_in_order(&lists, 3, 600, kind);
        }
    });
}

#[test]
fn many_channels_live_shortly() {
    in_time(|| {
        let tally = Tally::default();
        let (work, jobs) = unbounded::<(Sender<Token>, Token)>();
        let worker = thread::spawn(move || {
            for (n, (reply, token)) in jobs.iter().enumerate() {
                // Every third is refused by dropping both.
                if n % 3 != 0 {
                    // The asker may have left.
                    let _ = reply.send(token);
                }
            }
        });
        let mut answered = 0;
        for n in 0..1500 {
            let (reply, answer) = if n % 2 == 0 { bounded(1) } else { unbounded() };
            work.send((reply, tally.token())).unwrap_or_else(|_| panic!("closed"));
            if n % 5 == 0 {
                drop(answer);
            } else {
                answered += usize::from(answer.recv().is_ok());
            }
        }
        drop(work);
        worker.join().unwrap();
        assert_eq!(answered, 800);
        tally.assert_each_dropped_once();
    });
}

#[test]
fn a_token_runs_around_a_ring_of_eight_threads() {
    in_time(|| {
        for capacity in [0, 1] {
            let (txs, mut rxs): (Vec<_>, Vec<_>) = (0..8).map(|_| bounded::<usize>(capacity)).unzip();
            let (done, finished) = bounded(1);
            rxs.rotate_left(7);
            // Thread `i` now receives from channel `i - 1`.
            let first = txs[7].clone();
            let threads: Vec<_> = txs
                .into_iter()
                .zip(rxs)
                .map(|(tx, rx)| {
                    let done = done.clone();
                    thread::spawn(move || {
                        for token in rx {
                            if token == 800 {
                                done.send(token).unwrap();
                                // Leaving closes the ring, one thread after the other.
                                break;
                            }
                            if tx.send(token + 1).is_err() {
                                break;
                            }
                        }
                    })
                })
                .collect();
            first.send(0).unwrap();
            drop(first);
            assert_eq!(finished.recv(), Ok(800));
            for t in threads {
                t.join().unwrap();
            }
        }
    });
}

#[test]
fn a_pipeline_of_stages_keeps_order_through_every_flavour() {
    in_time(|| {
        let (tx, mut rx) = unbounded();
        for (stage, (next_tx, next_rx)) in
            [bounded(0), bounded(1), unbounded(), bounded(5), bounded(0)].into_iter().enumerate()
        {
            thread::spawn(move || {
                for n in rx {
                    next_tx.send(n + (1usize << (20 + stage))).unwrap();
                }
            });
            rx = next_rx;
        }
        let feeder = thread::spawn(move || (0..1500).for_each(|n| tx.send(n).unwrap()));
        let all = 0b11111 << 20;
        assert!(rx.iter().eq((0..1500).map(|n| n + all)));
        feeder.join().unwrap();
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn waiting_receivers_are_woken_by_messages_sent_together() {
    in_time(|| {
        // A lost wake-up shows as a receiver that sleeps while a message lies in the channel.
        for (kind, tx, rx) in each_kind::<usize>() {
            let (tell, told) = unbounded();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (rx, tell) = (rx.clone(), tell.clone());
                    thread::spawn(move || {
                        for n in rx {
                            tell.send(n).unwrap();
                        }
                    })
                })
                .collect();
            for round in 0..150 {
                for n in 0..3 {
                    tx.send(round * 3 + n).unwrap();
                }
                let mut got: Vec<_> = (0..3).map(|_| told.recv_timeout(LONG).expect(kind)).collect();
                got.sort();
                assert_eq!(got, [round * 3, round * 3 + 1, round * 3 + 2], "{kind}");
            }
            drop(tx);
            for t in threads {
                t.join().unwrap();
            }
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn watchers_of_readiness_share_messages_without_losing_one() {
    in_time(|| {
        for (kind, tx, rx) in each_kind() {
            let watchers: Vec<_> = (0..3)
                .map(|_| {
                    let rx = rx.clone();
                    thread::spawn(move || {
                        let mut choice = Select::new();
                        choice.recv(&rx);
                        let mut list = Vec::new();
                        loop {
                            choice.ready();
                            // Another watcher may have been faster.
                            match rx.try_recv() {
                                Ok(m) => list.push(m),
                                Err(TryRecvError::Empty) => {}
                                Err(TryRecvError::Disconnected) => return list,
                            }
                        }
                    })
                })
                .collect();
            let senders: Vec<_> = (0..2)
                .map(|s| {
                    let tx = tx.clone();
                    thread::spawn(move || (0..500).for_each(|n| tx.send((s, n)).unwrap()))
                })
                .collect();
            drop(tx);
            for t in senders {
                t.join().unwrap();
            }
            let lists: Vec<_> = watchers.into_iter().map(|t| t.join().unwrap()).collect();
            assert_complete_and_in_order(&lists, 2, 500, kind);
        }
    });
}
