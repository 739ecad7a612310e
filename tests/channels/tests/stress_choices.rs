//! Many threads that choose at once: each choice performs exactly one operation, or none when its time is up.

use chappe::tube::{Select, after, bounded, never, select, unbounded};

use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
#[ignore = "storm: threads that race"]
fn choices_at_both_ends_perform_exactly_one_operation_each() {
    in_time(|| {
        for capacity in [0, 1, 3] {
            let (tx_a, rx_a) = bounded(capacity);
            let (tx_b, rx_b) = bounded(capacity);
            let senders: Vec<_> = (0..3)
                .map(|s| {
                    let (tx_a, tx_b) = (tx_a.clone(), tx_b.clone());
                    thread::spawn(move || {
                        let mut by_a = 0;
                        for n in 0..600 {
                            select! {
                                send(tx_a, (s, n)) -> sent => { sent.unwrap(); by_a += 1 }
                                send(tx_b, (s, n)) -> sent => sent.unwrap(),
                            }
                        }
                        by_a
                    })
                })
                .collect();
            drop((tx_a, tx_b));
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let (rx_a, rx_b) = (rx_a.clone(), rx_b.clone());
                    thread::spawn(move || {
                        let (mut by_a, mut by_b) = (Vec::new(), Vec::new());
                        let mut choice = Select::new();
                        let a = choice.recv(&rx_a);
                        let b = choice.recv(&rx_b);
                        let mut open = 2;
                        while open > 0 {
                            let chosen = choice.select();
                            let i = chosen.index();
                            let (list, got) = if i == a {
                                (&mut by_a, chosen.recv(&rx_a))
                            } else {
                                assert_eq!(i, b);
                                (&mut by_b, chosen.recv(&rx_b))
                            };
                            match got {
                                Ok(m) => list.push(m),
                                Err(_) => {
                                    choice.remove(i);
                                    open -= 1;
                                }
                            }
                        }
                        (by_a, by_b)
                    })
                })
                .collect();
            let sent_by_a: usize = senders.into_iter().map(|t| t.join().unwrap()).sum();
            let lists: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            let received_by_a: usize = lists.iter().map(|(by_a, _)| by_a.len()).sum();
            assert_eq!(sent_by_a, received_by_a, "a choice took one arm and reported the other");
            let separate: Vec<_> = lists.into_iter().flat_map(|(by_a, by_b)| [by_a, by_b]).collect();
            assert_complete_and_in_order(&separate, 3, 600, "choices");
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn threads_that_both_send_and_receive_in_one_choice_balance() {
    in_time(|| {
        for capacity in [0, 2] {
            let (tx, rx) = bounded::<usize>(capacity);
            let (stop, stopped) = bounded::<()>(0);
            let progress = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..4)
                .map(|me| {
                    let (tx, rx, stopped, progress) = (tx.clone(), rx.clone(), stopped.clone(), progress.clone());
                    thread::spawn(move || {
                        let (mut sent, mut received) = (Vec::new(), Vec::new());
                        loop {
                            let message = me * 1_000_000 + sent.len();
                            select! {
                                send(tx, message) -> ok => { ok.unwrap(); sent.push(message) }
                                recv(rx) -> got => received.push(got.unwrap()),
                                recv(stopped) -> _ => return (sent, received),
                            }
                            // Relaxed: it only says when to stop. The joins order what is compared.
                            progress.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            // Relaxed: a count that comes late only makes the test longer.
            until(|| progress.load(Ordering::Relaxed) > 2000);
            drop(stop);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for t in threads {
                let (s, r) = t.join().unwrap();
                sent.extend(s);
                received.extend(r);
            }
            // What was sent and not received is still in the channel.
            received.extend(rx.try_iter());
            sent.sort();
            received.sort();
            assert!(sent.len() >= 1000, "only {} were sent", sent.len());
            assert_eq!(sent, received, "capacity {capacity}");
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn crossed_choices_do_not_deadlock() {
    in_time(|| {
        // Two threads wait on the same two channels in opposite order and in opposite roles.
        let (tx_a, rx_a) = bounded::<u32>(0);
        let (tx_b, rx_b) = bounded::<u32>(0);
        let one = thread::spawn({
            let (tx_a, rx_b) = (tx_a.clone(), rx_b.clone());
            move || {
                let (mut sent, mut received) = (0, 0);
                let idle = bounded(0);
                while sent < 800 || received < 800 {
                    select! {
                        send(if sent < 800 { &tx_a } else { &idle.0 }, sent) -> ok => { ok.unwrap(); sent += 1 }
                        recv(rx_b) -> got => { assert_eq!(got, Ok(received)); received += 1 }
                    }
                }
            }
        });
        let (mut sent, mut received) = (0, 0);
        let idle = bounded(0);
        while sent < 800 || received < 800 {
            select! {
                recv(rx_a) -> got => { assert_eq!(got, Ok(received)); received += 1 }
                send(if sent < 800 { &tx_b } else { &idle.0 }, sent) -> ok => { ok.unwrap(); sent += 1 }
            }
        }
        one.join().unwrap();
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn a_choice_that_timed_out_did_nothing() {
    in_time(|| {
        let (tx_a, rx_a) = bounded(0);
        let (tx_b, rx_b) = bounded(1);
        let senders: Vec<_> = (0..2)
            .map(|s| {
                let (tx_a, tx_b) = (tx_a.clone(), tx_b.clone());
                thread::spawn(move || {
                    let mut delivered = Vec::new();
                    for n in 0..700 {
                        select! {
                            send(tx_a, (s, n)) -> sent => { sent.unwrap(); delivered.push((s, n)) }
                            send(tx_b, (s, n)) -> sent => { sent.unwrap(); delivered.push((s, n)) }
                            default(Duration::from_micros(n as u64 % 50)) => {}
                        }
                    }
                    delivered
                })
            })
            .collect();
        drop((tx_a, tx_b));
        let receiver = thread::spawn(move || {
            let mut received = Vec::new();
            let (mut a_open, mut b_open) = (true, true);
            while a_open || b_open {
                let idle = never();
                select! {
                    recv(if a_open { &rx_a } else { &idle }) -> got => match got {
                        Ok(m) => received.push(m),
                        Err(_) => a_open = false,
                    },
                    recv(if b_open { &rx_b } else { &idle }) -> got => match got {
                        Ok(m) => received.push(m),
                        Err(_) => b_open = false,
                    },
                    recv(after(Duration::from_micros(40))) -> _ => {}
                }
            }
            received
        });
        let mut delivered: Vec<Stamp> = senders.into_iter().flat_map(|t| t.join().unwrap()).collect();
        let mut received = receiver.join().unwrap();
        delivered.sort();
        received.sort();
        assert_eq!(delivered, received);
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn a_choice_over_many_channels_and_threads_keeps_all_orders() {
    in_time(|| {
        let (txs, rxs): (Vec<_>, Vec<_>) = (0..8).map(|n| if n == 7 { unbounded() } else { bounded(n % 3) }).unzip();
        let senders: Vec<_> = txs
            .into_iter()
            .enumerate()
            .map(|(s, tx)| thread::spawn(move || (0..400).for_each(|n| tx.send((s, n)).unwrap())))
            .collect();
        let rxs = Arc::new(rxs);
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let rxs = rxs.clone();
                thread::spawn(move || {
                    let mut choice = Select::new();
                    for rx in rxs.iter() {
                        choice.recv(rx);
                    }
                    let (mut list, mut open) = (Vec::new(), 8);
                    while open > 0 {
                        let chosen = choice.select();
                        let i = chosen.index();
                        match chosen.recv(&rxs[i]) {
                            Ok(m) => {
                                assert_eq!(m.0, i, "a message came out of a channel it was not sent into");
                                list.push(m);
                            }
                            Err(_) => {
                                choice.remove(i);
                                open -= 1;
                            }
                        }
                    }
                    list
                })
            })
            .collect();
        for t in senders {
            t.join().unwrap();
        }
        let lists: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
        assert_complete_and_in_order(&lists, 8, 400, "eight channels");
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn timers_fire_for_many_threads_at_once() {
    in_time(|| {
        let threads: Vec<_> = (0..8u64)
            .map(|n| {
                thread::spawn(move || {
                    for round in 0..10 {
                        let (start, wait) = (Instant::now(), ms(1 + (n + round) % 5));
                        let (_tx, data) = bounded::<u8>(0);
                        select! {
                            recv(data) -> _ => unreachable!(),
                            recv(after(wait)) -> told => assert!(told.unwrap() >= start + wait),
                        }
                        assert!(start.elapsed() >= wait);
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
    });
}
