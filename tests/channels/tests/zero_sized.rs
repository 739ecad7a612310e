//! Messages of no size are counted, ordered and dropped as others are.

use chappe::tube::{
    Receiver, RecvError, Select, SendError, Sender, TryRecvError, TrySendError, bounded, never, select, unbounded,
};

use crate::support::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn each_kind<T>() -> Vec<(Sender<T>, Receiver<T>)> {
    vec![bounded(0), bounded(1), bounded(5), unbounded()]
}

/// Defines a unit type that counts its drops in a static of its own, so that tests do not mix.
macro_rules! counted_unit {
    ($drops:ident) => {
        static $drops: AtomicUsize = AtomicUsize::new(0);
        #[derive(Debug)]
        struct Unit;
        impl Drop for Unit {
            fn drop(&mut self) {
                $drops.fetch_add(1, Ordering::SeqCst);
            }
        }
        assert_eq!(size_of::<Unit>(), 0);
    };
}

#[test]
fn units_are_counted_by_a_bounded_channel() {
    let (tx, rx) = bounded(3);
    for n in 0..3 {
        assert_eq!((tx.len(), tx.is_full()), (n, false));
        tx.try_send(()).unwrap();
    }
    assert_eq!((rx.len(), rx.is_full(), rx.capacity()), (3, true, Some(3)));
    assert_eq!(tx.try_send(()), Err(TrySendError::Full(())));
    for n in (0..3).rev() {
        assert_eq!(rx.try_recv(), Ok(()));
        assert_eq!(rx.len(), n);
    }
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn units_are_counted_by_an_unbounded_channel() {
    let (tx, rx) = unbounded();
    for _ in 0..1000 {
        tx.send(()).unwrap();
    }
    assert_eq!((rx.len(), rx.capacity()), (1000, None));
    drop(tx);
    assert_eq!(rx.len(), 1000);
    assert_eq!(rx.iter().count(), 1000);
    assert_eq!(rx.recv(), Err(RecvError));
}

#[test]
fn units_meet_in_a_rendezvous() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        assert_eq!(tx.try_send(()), Err(TrySendError::Full(())));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        let sender = thread::spawn(move || (0..500).filter(|_| tx.send(()).is_ok()).count());
        assert_eq!(rx.iter().count(), 500);
        assert_eq!(sender.join().unwrap(), 500);
    });
}

#[test]
fn a_huge_channel_of_units_is_possible() {
    let (tx, rx) = bounded(1 << 20);
    assert_eq!(tx.capacity(), Some(1 << 20));
    for _ in 0..1000 {
        tx.send(()).unwrap();
    }
    assert_eq!(rx.try_iter().count(), 1000);
}

#[test]
#[ignore = "storm: threads that race"]
fn threads_pass_units_without_losing_count() {
    in_time(|| {
        for (tx, rx) in each_kind() {
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let tx = tx.clone();
                    thread::spawn(move || (0..500).for_each(|_| tx.send(()).unwrap()))
                })
                .collect();
            drop(tx);
            let twin = rx.clone();
            let helper = thread::spawn(move || twin.iter().count());
            assert_eq!(rx.iter().count() + helper.join().unwrap(), 1500);
            for t in senders {
                t.join().unwrap();
            }
        }
    });
}

#[test]
fn units_are_dropped_once_when_received() {
    counted_unit!(DROPS);
    let (tx, rx) = unbounded();
    for n in 0..100 {
        tx.send(Unit).unwrap();
        assert_eq!(DROPS.load(Ordering::SeqCst), n);
        drop(rx.recv().unwrap());
        assert_eq!(DROPS.load(Ordering::SeqCst), n + 1);
    }
    drop((tx, rx));
    assert_eq!(DROPS.load(Ordering::SeqCst), 100);
}

#[test]
fn units_are_dropped_once_when_not_received() {
    counted_unit!(DROPS);
    let mut made = 0;
    for (n, (tx, rx)) in each_kind().into_iter().enumerate() {
        for _ in 0..10 {
            made += 1;
            // Handed back by a full channel, which drops it here.
            let _ = tx.try_send(Unit);
        }
        if n % 2 == 0 {
            drop(tx);
            drop(rx);
        } else {
            drop(rx);
            drop(tx);
        }
        assert_eq!(DROPS.load(Ordering::SeqCst), made);
    }
}

#[test]
fn units_are_handed_back_undropped_by_errors() {
    counted_unit!(DROPS);
    let (tx, rx) = bounded(0);
    let full = tx.try_send(Unit).unwrap_err();
    let late = tx.send_timeout(Unit, ms(1)).unwrap_err();
    drop(rx);
    let gone = tx.send(Unit).unwrap_err();
    assert_eq!(DROPS.load(Ordering::SeqCst), 0);
    let back = (full.into_inner(), late.into_inner(), gone.into_inner());
    assert_eq!(DROPS.load(Ordering::SeqCst), 0);
    drop(back);
    assert_eq!(DROPS.load(Ordering::SeqCst), 3);
}

#[test]
fn units_are_chosen_and_dropped_once() {
    counted_unit!(DROPS);
    in_time(|| {
        for (tx, rx) in each_kind() {
            DROPS.store(0, Ordering::SeqCst);
            let sender = thread::spawn(move || {
                let mut choice = Select::new();
                choice.send(&tx);
                choice.send(&tx);
                for _ in 0..50 {
                    choice.select().send(&tx, Unit).unwrap();
                }
            });
            for _ in 0..50 {
                select! {
                    recv(rx) -> got => drop(got.unwrap()),
                    recv(never::<Unit>()) -> _ => unreachable!(),
                }
            }
            sender.join().unwrap();
            assert_eq!(DROPS.load(Ordering::SeqCst), 50);
        }
    });
}

#[test]
fn an_aligned_unit_travels() {
    #[repr(align(64))]
    #[derive(Debug, PartialEq)]
    struct Wide;
    assert_eq!((size_of::<Wide>(), align_of::<Wide>()), (0, 64));
    for (tx, rx) in [bounded(2), unbounded()] {
        tx.send(Wide).unwrap();
        tx.send(Wide).unwrap();
        let received = rx.recv().unwrap();
        assert_eq!(std::hint::black_box(&raw const received as usize) % 64, 0);
        assert_eq!(rx.recv(), Ok(Wide));
        assert!(rx.is_empty());
    }
}

#[test]
fn empty_arrays_and_empty_tuples_travel() {
    let (tx, rx) = bounded::<[String; 0]>(1);
    tx.send([]).unwrap();
    assert_eq!(tx.try_send([]), Err(TrySendError::Full([])));
    assert_eq!(rx.recv(), Ok([]));
    let (tx, rx) = unbounded::<((), [u64; 0])>();
    tx.send(((), [])).unwrap();
    assert_eq!(rx.recv(), Ok(((), [])));
}

#[test]
fn a_channel_of_a_type_without_values_only_opens_and_closes() {
    #[derive(Debug, PartialEq)]
    enum Nothing {}
    for (tx, rx) in each_kind::<Nothing>() {
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert!(select! { recv(rx) -> _ => false, default => true });
        drop(tx);
        assert_eq!(rx.recv(), Err(RecvError));
    }
}

#[test]
fn a_closed_channel_of_units_is_told_from_one_that_holds_some() {
    let (tx, rx) = bounded(2);
    tx.send(()).unwrap();
    drop(tx);
    assert_eq!(rx.recv(), Ok(()));
    assert_eq!(rx.recv(), Err(RecvError));
    let (tx, _) = bounded(2);
    assert_eq!(tx.send(()), Err(SendError(())));
}

#[test]
fn a_channel_of_units_is_a_semaphore() {
    in_time(|| {
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        let (enter, leave) = bounded(3);
        let threads: Vec<_> = (0..6)
            .map(|_| {
                let (enter, leave) = (enter.clone(), leave.clone());
                thread::spawn(move || {
                    for _ in 0..100 {
                        enter.send(()).unwrap();
                        assert!(INSIDE.fetch_add(1, Ordering::SeqCst) < 3, "more than three are inside");
                        thread::yield_now();
                        INSIDE.fetch_sub(1, Ordering::SeqCst);
                        leave.recv().unwrap();
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        assert!(leave.is_empty());
    });
}
