//! A `Select` chooses one operation that can proceed now, and performs that one alone.

use chappe::tube::{Receiver, RecvError, Select, SendError, Sender, TryRecvError, bounded, never, unbounded};

use crate::support::*;
use std::collections::HashSet;
use std::thread;

#[test]
fn operations_are_numbered_as_they_are_added() {
    let (tx, rx) = bounded::<u8>(1);
    let (other_tx, _other_rx) = unbounded::<String>();
    let mut choice = Select::new();
    assert_eq!(choice.recv(&rx), 0);
    assert_eq!(choice.send(&tx), 1);
    assert_eq!(choice.send(&other_tx), 2);
    assert_eq!(choice.recv(&rx), 3);
}

#[test]
fn the_only_ready_receive_is_chosen() {
    let (_tx, empty) = unbounded::<u8>();
    let (tx, rx) = unbounded();
    tx.send(7).unwrap();
    let mut choice = Select::new();
    choice.recv(&empty);
    choice.recv(&rx);
    let chosen = choice.select();
    assert_eq!(chosen.index(), 1);
    assert_eq!(chosen.recv(&rx), Ok(7));
    assert!(rx.is_empty());
}

#[test]
fn the_only_ready_send_is_chosen() {
    let (full, _rx) = bounded(1);
    full.send(0).unwrap();
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.send(&full);
    choice.send(&tx);
    let chosen = choice.select();
    assert_eq!(chosen.index(), 1);
    assert_eq!(chosen.send(&tx, 8), Ok(()));
    assert_eq!(rx.try_recv(), Ok(8));
}

#[test]
fn try_select_fails_while_nothing_is_ready() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.recv(&rx);
    assert!(choice.try_select().is_err());
    tx.send(1).unwrap();
    let chosen = choice.try_select().unwrap();
    assert_eq!((chosen.index(), chosen.recv(&rx)), (0, Ok(1)));
    assert!(choice.try_select().is_err());
}

#[test]
fn ready_only_looks() {
    let (tx, rx) = bounded(2);
    tx.send(1).unwrap();
    let mut choice = Select::new();
    let r = choice.recv(&rx);
    for _ in 0..10 {
        assert_eq!(choice.ready(), r);
        assert_eq!(choice.try_ready(), Ok(r));
    }
    assert_eq!(rx.len(), 1);
    assert_eq!(rx.recv(), Ok(1));
    assert!(choice.try_ready().is_err());
}

#[test]
fn the_default_choice_is_empty() {
    let (tx, _rx) = bounded::<u8>(1);
    let mut choice = Select::default();
    assert!(choice.try_select().is_err());
    assert_eq!(choice.send(&tx), 0);
    assert_eq!(choice.ready(), 0);
}

#[test]
fn a_closed_channel_is_ready_with_its_error() {
    for (tx, rx) in [bounded(0), bounded(1), unbounded()] {
        drop(rx);
        let mut choice = Select::new();
        choice.send(&tx);
        assert_eq!(choice.try_ready(), Ok(0));
        assert_eq!(choice.ready(), 0);
        assert_eq!(choice.ready_timeout(LONG).unwrap(), 0);
        assert_eq!(choice.select().send(&tx, 5), Err(SendError(5)));
        assert_eq!(choice.try_select().unwrap().send(&tx, 6), Err(SendError(6)));
    }
    for (tx, rx) in [bounded::<u8>(0), bounded(1), unbounded()] {
        drop(tx);
        let mut choice = Select::new();
        choice.recv(&rx);
        assert_eq!(choice.try_ready(), Ok(0));
        assert_eq!(choice.ready(), 0);
        assert_eq!(choice.ready_timeout(LONG).unwrap(), 0);
        assert_eq!(choice.select().recv(&rx), Err(RecvError));
        assert_eq!(choice.try_select().unwrap().recv(&rx), Err(RecvError));
    }
}

#[test]
fn queued_messages_of_a_closed_channel_come_before_the_error() {
    let (tx, rx) = bounded(2);
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    drop(tx);
    let mut choice = Select::new();
    choice.recv(&rx);
    assert_eq!(choice.select().recv(&rx), Ok(1));
    assert_eq!(choice.select().recv(&rx), Ok(2));
    assert_eq!(choice.select().recv(&rx), Err(RecvError));
}

#[test]
fn the_same_receiver_may_be_added_twice() {
    let (tx, rx) = unbounded();
    let mut choice = Select::new();
    choice.recv(&rx);
    choice.recv(&rx);
    let mut chosen = HashSet::new();
    for n in 0..200 {
        tx.send(n).unwrap();
        let ready = choice.select();
        chosen.insert(ready.index());
        assert_eq!(ready.recv(&rx), Ok(n));
    }
    assert_eq!(chosen, HashSet::from([0, 1]));
    assert!(choice.try_select().is_err());
}

#[test]
fn the_same_sender_may_be_added_twice() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    choice.send(&tx);
    choice.send(&tx);
    for n in 0..50 {
        let chosen = choice.select();
        assert!(chosen.index() < 2);
        chosen.send(&tx, n).unwrap();
        assert!(choice.try_select().is_err());
        assert_eq!(rx.recv(), Ok(n));
    }
}

#[test]
fn both_ends_of_one_buffered_channel_in_one_choice() {
    let (tx, rx) = bounded(1);
    let mut choice = Select::new();
    let s = choice.send(&tx);
    let r = choice.recv(&rx);
    for n in 0..50 {
        // With one place, exactly one of the two is possible, by turns.
        let chosen = choice.select();
        assert_eq!(chosen.index(), s);
        chosen.send(&tx, n).unwrap();
        let chosen = choice.select();
        assert_eq!(chosen.index(), r);
        assert_eq!(chosen.recv(&rx), Ok(n));
    }
}

#[test]
fn a_removed_operation_is_never_chosen() {
    let (tx_a, a) = unbounded();
    let (tx_b, b) = unbounded();
    let mut choice = Select::new();
    let ia = choice.recv(&a);
    let ib = choice.recv(&b);
    for n in 0..100 {
        tx_a.send(n).unwrap();
        tx_b.send(n).unwrap();
    }
    choice.remove(ia);
    for n in 0..100 {
        let chosen = choice.select();
        assert_eq!(chosen.index(), ib);
        assert_eq!(chosen.recv(&b), Ok(n));
    }
    assert!(choice.try_select().is_err());
    assert!(choice.try_ready().is_err());
    assert_eq!(a.len(), 100);
}

#[test]
fn numbers_are_not_used_again_after_a_removal() {
    let (_tx, rx) = unbounded::<u8>();
    let mut choice = Select::new();
    assert_eq!((choice.recv(&rx), choice.recv(&rx), choice.recv(&rx)), (0, 1, 2));
    choice.remove(1);
    assert_eq!(choice.recv(&rx), 3);
    choice.remove(3);
    choice.remove(0);
    assert_eq!(choice.recv(&rx), 4);
    choice.remove(2);
    choice.remove(4);
    // All are gone, and still a fresh number comes.
    assert!(choice.try_select().is_err());
    assert_eq!(choice.recv(&rx), 5);
}

#[test]
fn removing_what_is_closed_lets_the_others_be_heard() {
    in_time(|| {
        let (txs, rxs): (Vec<_>, Vec<_>) = (0..5).map(|_| bounded(1)).unzip();
        for (s, tx) in txs.into_iter().enumerate() {
            thread::spawn(move || (0..20 * (s + 1)).for_each(|n| tx.send(n).unwrap()));
        }
        let mut choice = Select::new();
        for rx in &rxs {
            choice.recv(rx);
        }
        let mut next = [0; 5];
        let mut open = 5;
        while open > 0 {
            let chosen = choice.select();
            let i = chosen.index();
            match chosen.recv(&rxs[i]) {
                Ok(n) => {
                    assert_eq!(n, next[i]);
                    next[i] += 1;
                }
                Err(RecvError) => {
                    choice.remove(i);
                    open -= 1;
                }
            }
        }
        assert_eq!(next, [20, 40, 60, 80, 100]);
    });
}

#[test]
fn any_one_of_a_hundred_operations_is_found() {
    let ends: Vec<(Sender<usize>, Receiver<usize>)> = (0..100).map(|n| bounded(n % 3 + 1)).collect();
    let mut choice = Select::new();
    for (n, (_, rx)) in ends.iter().enumerate() {
        assert_eq!(choice.recv(rx), n);
    }
    for (n, (tx, rx)) in ends.iter().enumerate() {
        tx.send(n).unwrap();
        assert_eq!(choice.try_ready(), Ok(n));
        let chosen = choice.select();
        assert_eq!(chosen.index(), n);
        assert_eq!(chosen.recv(rx), Ok(n));
    }
}

#[test]
fn a_choice_is_used_again_and_again() {
    let (tx_a, a) = bounded(4);
    let (tx_b, b) = unbounded();
    let (out, collected) = bounded(2);
    let mut choice = Select::new();
    let ia = choice.recv(&a);
    let ib = choice.recv(&b);
    let io = choice.send(&out);
    let (mut sent, mut taken, mut put) = (0, 0, 0);
    for n in 0..3000 {
        if n % 3 == 0 && tx_a.try_send(n).is_ok() {
            sent += 1;
        }
        if n % 5 == 0 {
            tx_b.send(n).unwrap();
            sent += 1;
        }
        while let Ok(chosen) = choice.try_select() {
            match chosen.index() {
                i if i == ia => taken += usize::from(chosen.recv(&a).is_ok()),
                i if i == ib => taken += usize::from(chosen.recv(&b).is_ok()),
                i if i == io => put += usize::from(chosen.send(&out, n).is_ok()),
                i => panic!("no operation {i}"),
            }
        }
        assert_eq!(collected.try_iter().count(), 2, "the send operation was not filled up");
    }
    assert_eq!((sent, taken, put), (1600, 1600, 6000));
}

#[test]
fn a_clone_is_a_choice_of_its_own() {
    let (tx, rx) = unbounded();
    let (_tx, empty) = unbounded::<u8>();
    tx.send(1).unwrap();
    let mut choice = Select::new();
    choice.recv(&empty);
    choice.recv(&rx);
    let mut clone = choice.clone();
    choice.remove(1);
    assert!(choice.try_ready().is_err());
    assert_eq!(clone.try_ready(), Ok(1));
    assert_eq!(clone.recv(&empty), 2);
    assert_eq!(choice.recv(&empty), 2);
    assert_eq!(clone.select().recv(&rx), Ok(1));
}

#[test]
fn a_biased_choice_takes_the_first_that_is_ready() {
    let (tx_a, a) = unbounded();
    let (tx_b, b) = unbounded();
    let mut choice = Select::new_biased();
    choice.recv(&a);
    choice.recv(&b);
    for n in 0..100 {
        tx_a.send(n).unwrap();
        tx_b.send(n).unwrap();
    }
    for n in 0..100 {
        assert_eq!(choice.ready(), 0);
        assert_eq!(choice.try_ready(), Ok(0));
        let chosen = match n % 3 {
            0 => choice.select(),
            1 => choice.try_select().unwrap(),
            _ => choice.select_timeout(LONG).unwrap(),
        };
        assert_eq!((chosen.index(), chosen.recv(&a)), (0, Ok(n)));
    }
    for n in 0..100 {
        let chosen = choice.select();
        assert_eq!((chosen.index(), chosen.recv(&b)), (1, Ok(n)));
    }
    assert!(choice.try_select().is_err());
}

#[test]
fn a_biased_choice_stays_biased_when_cloned() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    let mut choice = Select::new_biased();
    choice.recv(&rx);
    choice.recv(&rx);
    choice.recv(&rx);
    let mut clone = choice.clone();
    assert!((0..100).all(|_| clone.ready() == 0));
}

#[test]
fn the_message_may_be_made_after_the_choice() {
    let (tx_a, a) = bounded(1);
    let (tx_b, b) = bounded(1);
    tx_a.send(String::from("full")).unwrap();
    let mut choice = Select::new();
    let ia = choice.send(&tx_a);
    let ib = choice.send(&tx_b);
    let chosen = choice.select();
    let message = format!("for {}", if chosen.index() == ia { "a" } else { "b" });
    assert_eq!(chosen.index(), ib);
    chosen.send(&tx_b, message).unwrap();
    assert_eq!(b.recv().unwrap(), "for b");
    assert_eq!(a.recv().unwrap(), "full");
}

#[test]
fn two_chosen_operations_may_be_open_at_once() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    let mut choice = Select::new();
    choice.recv(&rx);
    let one = choice.select();
    let two = choice.select();
    assert!(choice.try_select().is_err());
    let mut got = [two.recv(&rx).unwrap(), one.recv(&rx).unwrap()];
    got.sort();
    assert_eq!(got, [1, 2]);
}

#[test]
fn one_choice_only_touches_one_channel() {
    let (tx_a, a) = bounded(1);
    let (tx_b, b) = bounded(1);
    let (tx_c, c) = bounded(1);
    for _ in 0..100 {
        tx_a.send(1).unwrap();
        tx_b.send(2).unwrap();
        let mut choice = Select::new();
        choice.recv(&a);
        choice.recv(&b);
        choice.send(&tx_c);
        let chosen = choice.select();
        let left = match chosen.index() {
            0 => {
                assert_eq!(chosen.recv(&a), Ok(1));
                (0, 1, 0)
            }
            1 => {
                assert_eq!(chosen.recv(&b), Ok(2));
                (1, 0, 0)
            }
            _ => {
                chosen.send(&tx_c, 3).unwrap();
                (1, 1, 1)
            }
        };
        assert_eq!((a.len(), b.len(), c.len()), left);
        while a.try_recv().is_ok() || b.try_recv().is_ok() || c.try_recv().is_ok() {}
    }
}

#[test]
fn messages_of_several_types_meet_in_one_choice() {
    let (words, words_rx) = bounded::<String>(1);
    let (units, units_rx) = bounded::<()>(0);
    let (nested, nested_rx) = unbounded::<Receiver<u8>>();
    let mut choice = Select::new();
    choice.recv(&words_rx);
    choice.recv(&units_rx);
    choice.recv(&nested_rx);
    words.send("w".into()).unwrap();
    assert_eq!(choice.select().recv(&words_rx).unwrap(), "w");
    nested.send(never()).unwrap();
    assert_eq!(choice.select().recv(&nested_rx).unwrap().try_recv(), Err(TryRecvError::Empty));
    drop(units);
    assert_eq!(choice.select().recv(&units_rx), Err(RecvError));
}

#[test]
fn never_is_never_chosen() {
    let nothing = never::<u8>();
    let (tx, rx) = unbounded();
    let mut choice = Select::new();
    choice.recv(&nothing);
    choice.recv(&rx);
    assert!(choice.try_select().is_err());
    for n in 0..20 {
        tx.send(n).unwrap();
        let chosen = choice.select();
        assert_eq!((chosen.index(), chosen.recv(&rx)), (1, Ok(n)));
    }
    choice.remove(1);
    assert!(choice.select_timeout(ms(10)).is_err());
    assert!(choice.try_ready().is_err());
}

#[test]
fn messages_in_a_choice_are_dropped_once() {
    in_time(|| {
        let tally = Tally::default();
        for (tx, rx) in [bounded(0), bounded(2), unbounded()] {
            let sender = thread::spawn({
                let tally = tally.clone();
                move || {
                    let nothing = never::<()>();
                    for _ in 0..50 {
                        let mut choice = Select::new();
                        choice.recv(&nothing);
                        choice.send(&tx);
                        // Also when it fails: then the error drops it.
                        let _ = choice.select().send(&tx, tally.token());
                    }
                }
            });
            let mut choice = Select::new();
            choice.recv(&rx);
            for _ in 0..30 {
                assert!(choice.select().recv(&rx).is_ok());
            }
            drop(rx);
            sender.join().unwrap();
        }
        assert_eq!(tally.made(), 150);
        tally.assert_each_dropped_once();
    });
}
