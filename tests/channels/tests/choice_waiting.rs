//! A `Select` that cannot proceed waits until it is woken, its time is up or a timer fires. What it gave up leaves no
//! trace.

use chappe::tube::{self, Receiver, Select, Sender, TryRecvError, after, bounded, never, unbounded};

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn select_timeout_waits_its_time() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.recv(&rx);
    let start = Instant::now();
    assert!(choice.select_timeout(ms(30)).is_err());
    assert!(start.elapsed() >= ms(30));
    tx.send(1).unwrap();
    let start = Instant::now();
    assert_eq!(choice.select_timeout(LONG).unwrap().recv(&rx), Ok(1));
    assert!(start.elapsed() < LONG);
}

#[test]
fn select_deadline_waits_until_its_moment() {
    let (full, rx) = bounded(1);
    full.send(1).unwrap();
    let mut choice = Select::new();
    choice.send(&full);
    let moment = Instant::now() + ms(30);
    assert!(choice.select_deadline(moment).is_err());
    assert!(Instant::now() >= moment);
    rx.recv().unwrap();
    // The moment has passed, but what is ready is ready.
    assert_eq!(choice.select_deadline(moment).unwrap().send(&full, 2), Ok(()));
}

#[test]
fn ready_timeout_and_ready_deadline_wait_their_time() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.recv(&rx);
    let start = Instant::now();
    assert!(choice.ready_timeout(ms(30)).is_err());
    assert!(start.elapsed() >= ms(30));
    let moment = Instant::now() + ms(30);
    assert!(choice.ready_deadline(moment).is_err());
    assert!(Instant::now() >= moment);
    tx.send(1).unwrap();
    assert_eq!(choice.ready_deadline(moment).unwrap(), 0);
    assert_eq!(choice.ready_timeout(Duration::ZERO).unwrap(), 0);
    assert_eq!(choice.ready_timeout(Duration::MAX).unwrap(), 0);
}

#[test]
fn an_empty_choice_only_lets_time_pass() {
    let mut choice = Select::new();
    assert!(choice.try_select().is_err());
    assert!(choice.try_ready().is_err());
    let start = Instant::now();
    assert!(choice.select_timeout(ms(20)).is_err());
    assert!(choice.ready_timeout(ms(20)).is_err());
    assert!(start.elapsed() >= ms(40));
    let moment = Instant::now() + ms(20);
    assert!(choice.select_deadline(moment).is_err());
    assert!(choice.ready_deadline(moment).is_err());
    assert!(Instant::now() >= moment);
}

#[test]
fn the_same_receiver_twice_is_woken_and_takes_one_message() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1), unbounded()] {
            let chooser = thread::spawn({
                let rx = rx.clone();
                move || {
                    let mut choice = Select::new();
                    choice.recv(&rx);
                    choice.recv(&rx);
                    choice.select().recv(&rx)
                }
            });
            nap();
            tx.send(3).unwrap();
            assert_eq!(chooser.join().unwrap(), Ok(3));
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
            assert!(!matches!(tx.try_send(4), Err(tube::TrySendError::Disconnected(_))));
        }
    });
}

#[test]
fn any_one_of_a_hundred_operations_wakes_the_choice() {
    in_time(|| {
        let ends: Vec<(Sender<usize>, Receiver<usize>)> = (0..100).map(|n| bounded(n % 2)).collect();
        let (txs, rxs): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let (done, finished) = bounded(0);
        let chooser = thread::spawn(move || {
            let mut choice = Select::new();
            for rx in &rxs {
                choice.recv(rx);
            }
            for n in 0..100 {
                let chosen = choice.select();
                let i = chosen.index();
                assert_eq!(i, (n * 37) % 100);
                assert_eq!(chosen.recv(&rxs[i]), Ok(i));
                done.send(()).unwrap();
            }
        });
        for n in 0..100 {
            let i = (n * 37) % 100;
            txs[i].send(i).unwrap();
            finished.recv().unwrap();
        }
        chooser.join().unwrap();
    });
}

#[test]
fn a_choice_works_on_after_it_timed_out() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (_other, other_rx) = bounded::<u8>(0);
        let sender = thread::spawn(move || {
            for n in 0..10 {
                nap();
                tx.send(n).unwrap();
            }
        });
        let mut choice = Select::new();
        choice.recv(&other_rx);
        choice.recv(&rx);
        let mut next = 0;
        while next < 10 {
            if let Ok(chosen) = choice.select_timeout(ms(4)) {
                assert_eq!(chosen.index(), 1);
                assert_eq!(chosen.recv(&rx), Ok(next));
                next += 1;
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_choice_that_timed_out_waits_on_nothing() {
    let (tx, rx) = bounded(0);
    let (tx_b, rx_b) = bounded(0);
    let mut choice = Select::new();
    choice.recv(&rx);
    choice.send(&tx_b);
    assert!(choice.select_timeout(ms(10)).is_err());
    assert!(choice.ready_timeout(ms(10)).is_err());
    assert_eq!(tx.try_send(1), Err(tube::TrySendError::Full(1)));
    assert_eq!(rx_b.try_recv(), Err(TryRecvError::Empty));
    // `tx_b` must stay typed and open until here.
    assert_eq!(tx_b.try_send(1), Err(tube::TrySendError::Full(1)));
}

#[test]
fn a_biased_choice_still_waits_for_all_its_operations() {
    in_time(|| {
        let (_tx_a, a) = bounded::<u8>(0);
        let (tx_b, b) = bounded(0);
        let chooser = thread::spawn(move || {
            let mut choice = Select::new_biased();
            choice.recv(&a);
            choice.recv(&b);
            let chosen = choice.select();
            (chosen.index(), chosen.recv(&b))
        });
        tx_b.send(2).unwrap();
        assert_eq!(chooser.join().unwrap(), (1, Ok(2)));
    });
}

#[test]
fn a_waiting_choice_wakes_for_a_message() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1), unbounded()] {
            let chooser = thread::spawn(move || {
                let (_tx, empty) = bounded::<u8>(0);
                let mut choice = Select::new();
                choice.recv(&empty);
                choice.recv(&rx);
                let chosen = choice.select();
                (chosen.index(), chosen.recv(&rx))
            });
            nap();
            assert!(!chooser.is_finished());
            tx.send(4).unwrap();
            assert_eq!(chooser.join().unwrap(), (1, Ok(4)));
        }
    });
}

#[test]
fn a_waiting_choice_wakes_for_room() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1)] {
            let full = tx.try_send(0).is_ok();
            let chooser = thread::spawn(move || {
                let (_tx, empty) = bounded::<u8>(0);
                let mut choice = Select::new();
                choice.recv(&empty);
                choice.send(&tx);
                let chosen = choice.select_timeout(Duration::MAX).unwrap();
                (chosen.index(), chosen.send(&tx, 1))
            });
            nap();
            assert!(!chooser.is_finished());
            if full {
                assert_eq!(rx.recv(), Ok(0));
            }
            assert_eq!(rx.recv(), Ok(1));
            assert_eq!(chooser.join().unwrap(), (1, Ok(())));
        }
    });
}

#[test]
fn a_waiting_ready_wakes_for_messages_and_for_room() {
    in_time(|| {
        for (tx, rx) in [bounded(1), bounded(3)] {
            while tx.try_send(0).is_ok() {}
            let capacity = tx.capacity().unwrap();
            let (back, answers) = unbounded();
            let watcher = thread::spawn(move || {
                let mut choice = Select::new();
                choice.recv(&answers);
                choice.send(&tx);
                loop {
                    let first = choice.ready();
                    // Readiness may be reported in vain.
                    if first == 1 && tx.try_send(1).is_ok() {
                        break;
                    }
                }
                loop {
                    if choice.ready() == 0
                        && let Ok(n) = answers.try_recv()
                    {
                        return n;
                    }
                    thread::yield_now();
                }
            });
            nap();
            assert_eq!(rx.recv(), Ok(0));
            until(|| rx.len() == capacity);
            back.send(9).unwrap();
            assert_eq!(watcher.join().unwrap(), 9);
        }
    });
}

#[test]
fn a_timer_ends_a_choice_that_would_wait() {
    let (_tx, rx) = bounded::<u8>(0);
    let start = Instant::now();
    let timer = after(ms(30));
    let mut choice = Select::new();
    choice.recv(&rx);
    let t = choice.recv(&timer);
    let chosen = choice.select();
    assert_eq!(chosen.index(), t);
    assert!(chosen.recv(&timer).unwrap() >= start + ms(30));
    assert!(start.elapsed() >= ms(30));
    // It fires once only.
    assert!(choice.select_timeout(ms(10)).is_err());
}

#[test]
fn readiness_of_a_timer_is_waited_for() {
    let (start, timer, early) = within(ms(300), || {
        let start = Instant::now();
        let timer = after(ms(300));
        let mut choice = Select::new();
        choice.recv(&timer);
        let early = choice.try_ready();
        (start, timer, early)
    });
    assert!(early.is_err());
    let mut choice = Select::new();
    choice.recv(&timer);
    assert_eq!(choice.ready(), 0);
    assert!(start.elapsed() >= ms(300));
    assert_eq!(choice.try_ready(), Ok(0), "looking took the message");
    assert!(timer.try_recv().is_ok());
    assert!(choice.try_ready().is_err());
}

#[test]
fn the_sooner_of_two_timers_is_chosen() {
    let (soon, late) = (after(ms(20)), after(LONG));
    let mut choice = Select::new();
    choice.recv(&late);
    choice.recv(&soon);
    let chosen = choice.select();
    assert_eq!(chosen.index(), 1);
    assert!(chosen.recv(&soon).is_ok());
}

#[test]
fn a_choice_can_move_to_another_thread() {
    let (tx, rx) = bounded(1);
    let (out, collected) = bounded(0);
    let mut choice = Select::new();
    choice.recv(&rx);
    thread::scope(|scope| {
        let rx = &rx;
        scope.spawn(move || out.send(choice.select().recv(rx).unwrap()).unwrap());
        tx.send(6).unwrap();
        assert_eq!(collected.recv(), Ok(6));
    });
}

#[test]
fn two_choices_on_one_receiver_share_its_messages() {
    in_time(|| {
        let (tx, rx) = bounded(2);
        let choosers: Vec<_> = (0..2)
            .map(|_| {
                let rx = rx.clone();
                thread::spawn(move || {
                    let nothing = never::<()>();
                    let mut choice = Select::new();
                    choice.recv(&nothing);
                    choice.recv(&rx);
                    let mut got = Vec::new();
                    while let Ok(n) = choice.select().recv(&rx) {
                        got.push(n);
                    }
                    got
                })
            })
            .collect();
        for n in 0..2000 {
            tx.send(n).unwrap();
        }
        drop(tx);
        let lists: Vec<Vec<i32>> = choosers.into_iter().map(|t| t.join().unwrap()).collect();
        for list in &lists {
            assert!(list.is_sorted(), "one receiver saw messages out of order");
        }
        let mut all = lists.concat();
        all.sort();
        assert!(all.into_iter().eq(0..2000));
    });
}

#[test]
fn a_choice_with_no_time_still_tries() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.recv(&rx);
    assert!(choice.select_timeout(Duration::ZERO).is_err());
    tx.send(1).unwrap();
    assert_eq!(choice.select_timeout(Duration::ZERO).unwrap().recv(&rx), Ok(1));
}
