//! A receiver is iterated by waiting, by trying or by value, and the iteration ends as the channel does.

use chappe::tube::{TryRecvError, after, bounded, never, unbounded};

use crate::support::*;
use std::thread;

#[test]
fn iter_yields_until_the_channel_is_closed_and_empty() {
    let (tx, rx) = holding(0..10);
    drop(tx);
    assert!(rx.iter().eq(0..10));
    assert_eq!(rx.iter().next(), None);
}

#[test]
fn iter_waits_for_each_message() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1), unbounded()] {
            let collector = thread::spawn(move || rx.iter().collect::<Vec<_>>());
            for n in 0..5 {
                nap();
                assert!(!collector.is_finished());
                tx.send(n).unwrap();
            }
            drop(tx);
            assert_eq!(collector.join().unwrap(), [0, 1, 2, 3, 4]);
        }
    });
}

#[test]
fn try_iter_yields_only_what_is_there() {
    let (tx, rx) = holding(0..3);
    assert!(rx.try_iter().eq(0..3));
    assert_eq!(rx.try_iter().next(), None);
    tx.send(3).unwrap();
    assert!(rx.try_iter().eq(3..4));
    drop(tx);
    assert_eq!(rx.try_iter().next(), None);
}

#[test]
fn try_iter_goes_on_when_more_has_come() {
    let (tx, rx) = holding(0..1);
    let mut iter = rx.try_iter();
    assert_eq!(iter.next(), Some(0));
    assert_eq!(iter.next(), None);
    tx.send(1).unwrap();
    assert_eq!(iter.next(), Some(1));
    assert_eq!(iter.next(), None);
}

#[test]
fn into_iter_owns_the_receiver() {
    let (tx, rx) = holding(0..5);
    let mut iter = rx.into_iter();
    assert_eq!(iter.next(), Some(0));
    assert!(tx.send(5).is_ok());
    drop(iter);
    assert!(tx.send(6).is_err(), "the receiver outlived its iterator");
}

#[test]
fn into_iter_ends_with_the_channel() {
    let (tx, rx) = holding(0..5);
    drop(tx);
    let mut iter = rx.into_iter();
    assert!(iter.by_ref().eq(0..5));
    assert_eq!(iter.next(), None);
    assert_eq!(iter.next(), None);
}

#[test]
fn a_for_loop_takes_the_receiver_or_borrows_it() {
    let (tx, rx) = holding(0..10);
    for n in &rx {
        if n == 4 {
            break;
        }
    }
    drop(tx);
    let mut next = 5;
    for n in rx {
        assert_eq!(n, next);
        next += 1;
    }
    assert_eq!(next, 10);
}

#[test]
fn a_dropped_iterator_leaves_the_rest() {
    let (tx, rx) = holding(0..10);
    assert_eq!(rx.iter().take(3).sum::<u32>(), 3);
    assert_eq!(rx.try_iter().take(3).sum::<u32>(), 12);
    assert_eq!(rx.len(), 4);
    // Only borrowed, so nothing was closed.
    assert!(tx.send(1).is_ok());
}

#[test]
fn iterators_share_the_messages_with_other_receivers() {
    let (_tx, rx) = holding(0..4);
    let twin = rx.clone();
    let (mut one, mut two) = (rx.iter(), twin.try_iter());
    assert_eq!((one.next(), two.next(), one.next(), two.next()), (Some(0), Some(1), Some(2), Some(3)));
    assert_eq!(two.next(), None);
}

#[test]
fn iterators_are_fused_after_closing() {
    let (tx, rx) = holding(0..1);
    drop(tx);
    let mut iter = rx.iter();
    assert_eq!((iter.next(), iter.next(), iter.next()), (Some(0), None, None));
    fn fused<I: std::iter::FusedIterator>(_: &I) {}
    fused(&iter);
    fused(&rx.into_iter());
}

#[test]
fn a_receiver_may_be_collected_zipped_and_chained() {
    let (tx_a, a) = holding(0..4);
    let (tx_b, b) = holding(10..14);
    drop((tx_a, tx_b));
    assert!(a.clone().into_iter().zip(&b).take(2).eq([(0, 10), (1, 11)]));
    assert!(a.iter().chain(b).eq([2, 3, 12, 13]));
}

#[test]
fn a_receiver_goes_where_an_iterable_is_wanted() {
    fn total(numbers: impl IntoIterator<Item = u32>) -> u32 {
        numbers.into_iter().sum()
    }
    let (tx, rx) = holding(1..5);
    drop(tx);
    assert_eq!(total(rx.clone().into_iter().take(2)), 3);
    assert_eq!(total(&rx), 7);
    assert_eq!(total(rx), 0);
}

#[test]
fn several_threads_iterate_one_channel() {
    in_time(|| {
        let (tx, rx) = bounded(2);
        let workers: Vec<_> = (0..3)
            .map(|n| {
                let rx = rx.clone();
                thread::spawn(move || if n == 0 { rx.into_iter().collect::<Vec<u32>>() } else { rx.iter().collect() })
            })
            .collect();
        drop(rx);
        (0..3000).for_each(|n| tx.send(n).unwrap());
        drop(tx);
        let mut all: Vec<u32> = workers.into_iter().flat_map(|t| t.join().unwrap()).collect();
        all.sort();
        assert!(all.into_iter().eq(0..3000));
    });
}

#[test]
fn rendezvous_messages_are_iterated() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        assert_eq!(rx.try_iter().next(), None);
        let sender = thread::spawn(move || (0..200).for_each(|n| tx.send(n).unwrap()));
        assert!(rx.into_iter().eq(0..200));
        sender.join().unwrap();
    });
}

#[test]
fn unread_messages_of_an_iterator_are_dropped_once() {
    let tally = Tally::default();
    let (tx, rx) = unbounded();
    (0..10).for_each(|_| tx.send(tally.token()).unwrap());
    let mut iter = rx.into_iter();
    drop(iter.next());
    assert_eq!(tally.dropped(), 1);
    drop(iter);
    assert_eq!(tally.dropped(), 10);
    drop(tx);
    tally.assert_each_dropped_once();
}

#[test]
fn clocks_are_iterated() {
    let timer = after(ms(5));
    assert!(timer.iter().next().is_some());
    assert_eq!(timer.try_iter().next(), None);
    assert_eq!(timer.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(never::<u8>().try_iter().next(), None);
}

#[test]
fn size_hints_promise_nothing_false() {
    let (_tx, rx) = holding(0..3);
    for (low, high) in [rx.iter().size_hint(), rx.try_iter().size_hint(), rx.clone().into_iter().size_hint()] {
        assert!(low <= 3 && high.is_none_or(|high| high >= 3));
    }
}
