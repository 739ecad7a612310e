//! Of several choices that are equally good, each is taken about as often as the others.

use chappe::tube::{Receiver, Select, Sender, after, at, bounded, select, tick, unbounded};

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 2000;

/// Fails when one of `ways` equally good choices was taken less than half as often as is its due.
/// A fair implementation fails here less often than once in a million million runs.
#[track_caller]
fn assert_fair(taken: &[usize], ways: usize) {
    let counts = counts(taken.iter().copied());
    assert_eq!(counts.len(), ways, "some way was never taken: {counts:?}");
    for (way, &count) in &counts {
        assert!(count * ways * 2 >= taken.len(), "way {way} was taken {count} times of {}", taken.len());
    }
}

/// Runs `round`, which counts how often each of several threads had its turn, and fails when one is starved. On a busy
/// machine a thread may not run at all in many rounds, so there are more, with time between: a thread that the channel
/// starves is starved in each.
#[track_caller]
fn assert_none_is_starved(mut round: impl FnMut() -> Vec<usize>) {
    let mut seen = Vec::new();
    for _ in 0..500 {
        seen = round();
        if seen.iter().all(|&count| count > ROUNDS / 100) {
            return;
        }
        thread::sleep(ms(10));
    }
    panic!("somebody was starved in every round: the last was {seen:?}");
}

/// Channels that are always ready to be received from, for `ROUNDS` rounds.
fn ready_to_receive(count: usize) -> (Vec<Sender<usize>>, Vec<Receiver<usize>>) {
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded()).unzip();
    for tx in &txs {
        (0..ROUNDS).for_each(|n| tx.send(n).unwrap());
    }
    (txs, rxs)
}

#[test]
fn of_two_ready_receives_in_a_macro() {
    let (_txs, rxs) = ready_to_receive(2);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|_| {
            select! {
                recv(rxs[0]) -> got => { got.unwrap(); 0 }
                recv(rxs[1]) -> got => { got.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_two_ready_receives_in_a_macro_with_default() {
    let (_txs, rxs) = ready_to_receive(2);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            if n % 2 == 0 {
                select! {
                    recv(rxs[0]) -> got => { got.unwrap(); 0 }
                    recv(rxs[1]) -> got => { got.unwrap(); 1 }
                    default => 2,
                }
            } else {
                select! {
                    recv(rxs[0]) -> got => { got.unwrap(); 0 }
                    recv(rxs[1]) -> got => { got.unwrap(); 1 }
                    default(LONG) => 2,
                }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_two_ready_sends_in_a_macro() {
    let (tx_a, _a) = unbounded();
    let (tx_b, _b) = bounded(ROUNDS);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            select! {
                send(tx_a, n) -> sent => { sent.unwrap(); 0 }
                send(tx_b, n) -> sent => { sent.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_a_ready_receive_and_a_ready_send() {
    let (_txs, rxs) = ready_to_receive(1);
    let (tx, _rx) = unbounded();
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            select! {
                send(tx, n) -> sent => { sent.unwrap(); 0 }
                recv(rxs[0]) -> got => { got.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_both_ends_of_one_channel() {
    let (tx, rx) = bounded(ROUNDS * 2);
    (0..ROUNDS).for_each(|n| tx.send(n).unwrap());
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            select! {
                send(tx, n) -> sent => { sent.unwrap(); 0 }
                recv(rx) -> got => { got.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_ten_ready_receives_in_every_form_of_select() {
    let (_txs, rxs) = ready_to_receive(10);
    let mut choice = Select::new();
    for rx in &rxs {
        choice.recv(rx);
    }
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            let chosen = match n % 3 {
                0 => choice.select(),
                1 => choice.try_select().unwrap(),
                _ => choice.select_timeout(LONG).unwrap(),
            };
            let i = chosen.index();
            chosen.recv(&rxs[i]).unwrap();
            i
        })
        .collect();
    assert_fair(&taken, 10);
}

#[test]
fn of_ready_in_every_form() {
    let (_txs, rxs) = ready_to_receive(4);
    let mut choice = Select::new();
    for rx in &rxs {
        choice.recv(rx);
    }
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| match n % 3 {
            0 => choice.ready(),
            1 => choice.try_ready().unwrap(),
            _ => choice.ready_timeout(LONG).unwrap(),
        })
        .collect();
    assert_fair(&taken, 4);
}

#[test]
fn of_a_choice_made_anew_each_time() {
    let (_txs, rxs) = ready_to_receive(3);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let mut choice = Select::new();
            for rx in &rxs {
                choice.recv(rx);
            }
            let chosen = choice.select();
            let i = chosen.index();
            chosen.recv(&rxs[i]).unwrap();
            i
        })
        .collect();
    assert_fair(&taken, 3);
}

#[test]
fn of_one_receiver_added_three_times() {
    let (_txs, rxs) = ready_to_receive(1);
    let mut choice = Select::new();
    for _ in 0..3 {
        choice.recv(&rxs[0]);
    }
    let taken: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let chosen = choice.select();
            let i = chosen.index();
            chosen.recv(&rxs[0]).unwrap();
            i
        })
        .collect();
    assert_fair(&taken, 3);
}

#[test]
fn of_what_is_left_after_a_removal() {
    let (_txs, rxs) = ready_to_receive(4);
    let mut choice = Select::new();
    for rx in &rxs {
        choice.recv(rx);
    }
    choice.remove(1);
    let taken: Vec<_> = (0..ROUNDS).map(|_| choice.ready()).collect();
    assert!(!taken.contains(&1));
    assert_fair(&taken, 3);
}

#[test]
fn of_the_ready_ones_among_idle_ones() {
    // Ready operations at the edges of a long row of idle ones.
    let (_txs, rxs) = ready_to_receive(2);
    let (_idle_tx, idle) = unbounded::<usize>();
    let mut choice = Select::new();
    choice.recv(&rxs[0]);
    for _ in 0..20 {
        choice.recv(&idle);
    }
    choice.recv(&rxs[1]);
    let taken: Vec<_> = (0..ROUNDS).map(|_| choice.ready()).collect();
    assert!(taken.iter().all(|&i| i == 0 || i == 21));
    let sides: Vec<_> = taken.iter().map(|&i| i / 21).collect();
    // The idle row must not double the share of its neighbour beyond all bounds.
    let counts = counts(sides.iter().copied());
    assert!(counts.len() == 2 && counts.values().all(|&count| count >= ROUNDS / 10), "{counts:?}");
}

#[test]
fn of_a_closed_channel_and_a_live_one() {
    let (_txs, rxs) = ready_to_receive(1);
    let (_, closed) = bounded::<u8>(1);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|_| {
            select! {
                recv(closed) -> got => { assert!(got.is_err()); 0 }
                recv(rxs[0]) -> got => { got.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_a_fired_timer_and_a_message() {
    let (_txs, rxs) = ready_to_receive(1);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|_| {
            select! {
                recv(after(ms(0))) -> told => { told.unwrap(); 0 }
                recv(rxs[0]) -> got => { got.unwrap(); 1 }
            }
        })
        .collect();
    assert_fair(&taken, 2);
}

#[test]
fn of_channels_of_different_flavours() {
    let (tx_a, a) = bounded(ROUNDS);
    let (tx_b, b) = unbounded();
    for n in 0..ROUNDS {
        tx_a.send(n).unwrap();
        tx_b.send(n).unwrap();
    }
    let (tx_c, _c) = bounded(ROUNDS);
    let taken: Vec<_> = (0..ROUNDS)
        .map(|n| {
            select! {
                recv(a) -> got => { got.unwrap(); 0 }
                recv(b) -> got => { got.unwrap(); 1 }
                send(tx_c, n) -> sent => { sent.unwrap(); 2 }
            }
        })
        .collect();
    assert_fair(&taken, 3);
}

#[test]
#[ignore = "storm: counts of a race"]
fn no_busy_sender_is_starved() {
    in_time(|| {
        for capacity in [0, 1] {
            let (txs, rxs): (Vec<_>, Vec<_>) = (0..3).map(|_| bounded::<()>(capacity)).unzip();
            let senders: Vec<_> =
                txs.into_iter().map(|tx| thread::spawn(move || while tx.send(()).is_ok() {})).collect();
            assert_none_is_starved(|| {
                let mut heard = vec![0; 3];
                for _ in 0..ROUNDS {
                    select! {
                        recv(rxs[0]) -> got => { got.unwrap(); heard[0] += 1 }
                        recv(rxs[1]) -> got => { got.unwrap(); heard[1] += 1 }
                        recv(rxs[2]) -> got => { got.unwrap(); heard[2] += 1 }
                    }
                }
                heard
            });
            drop(rxs);
            for t in senders {
                t.join().unwrap();
            }
        }
    });
}

#[test]
#[ignore = "storm: counts of a race"]
fn no_eager_receiver_is_starved() {
    in_time(|| {
        assert_none_is_starved(|| {
            let (txs, rxs): (Vec<_>, Vec<_>) = (0..3).map(|_| bounded::<usize>(0)).unzip();
            let receivers: Vec<_> = rxs.into_iter().map(|rx| thread::spawn(move || rx.iter().count())).collect();
            for n in 0..ROUNDS {
                select! {
                    send(txs[0], n) -> sent => sent.unwrap(),
                    send(txs[1], n) -> sent => sent.unwrap(),
                    send(txs[2], n) -> sent => sent.unwrap(),
                }
            }
            drop(txs);
            let served: Vec<_> = receivers.into_iter().map(|t| t.join().unwrap()).collect();
            assert_eq!(served.iter().sum::<usize>(), ROUNDS);
            served
        });
    });
}

/// Clocks of which several have struck by the time one looks: what counts is that, and not in which order.
#[test]
fn clocks_that_have_struck_are_taken_alike() {
    for delay in [0, 1] {
        let taken: Vec<usize> = (0..ROUNDS / 4)
            .map(|_| {
                select! {
                    recv(after(ms(delay))) -> _ => 0,
                    recv(after(ms(delay))) -> _ => 1,
                }
            })
            .collect();
        assert_fair(&taken, 2);
    }
    let taken: Vec<usize> = (0..ROUNDS / 8)
        .map(|_| {
            let mut choice = Select::new();
            let clocks = [at(Instant::now() + ms(1)), after(ms(1)), tick(ms(1))];
            clocks.iter().for_each(|clock| _ = choice.recv(clock));
            let chosen = choice.select();
            let at = chosen.index();
            chosen.recv(&clocks[at]).unwrap();
            at
        })
        .collect();
    assert_fair(&taken, 3);
}

#[test]
fn arms_of_one_clock_are_taken_alike() {
    let ticker = tick(ms(1));
    for delay in [0, 1] {
        let taken: Vec<usize> = (0..ROUNDS / 4)
            .map(|round| {
                let clock = if round % 2 == 0 { ticker.clone() } else { after(ms(delay)) };
                select! {
                    recv(clock) -> _ => 0,
                    recv(clock) -> _ => 1,
                    recv(clock) -> _ => 2,
                    recv(clock) -> _ => 3,
                    recv(clock) -> _ => 4,
                }
            })
            .collect();
        assert_fair(&taken, 5);
    }
}

/// If one object stands in several arms, each arm is taken, also when another thread wakes the waiter.
#[test]
fn arms_of_one_tube_are_taken_alike_by_who_waited() {
    let (tx, rx) = unbounded();
    let (asked, ask) = bounded(0);
    let sender = thread::spawn(move || {
        for () in ask {
            nap_shortly();
            tx.send(()).unwrap();
        }
    });
    let other = unbounded::<()>();
    let taken: Vec<usize> = (0..ROUNDS / 4)
        .map(|_| {
            asked.send(()).unwrap();
            select! {
                recv(rx) -> _ => 0,
                recv(rx) -> _ => 1,
                recv(other.1) -> _ => unreachable!(),
                recv(rx) -> _ => 2,
            }
        })
        .collect();
    drop(asked);
    sender.join().unwrap();
    assert_fair(&taken, 3);
}

/// Long enough that a thread that waits for this one has gone to sleep, as a rule.
fn nap_shortly() {
    thread::sleep(Duration::from_micros(300));
}
