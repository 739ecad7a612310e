//! A channel closes when all of one end are gone. What it still holds is received or dropped, each message once.

use chappe::tube::{
    self, Receiver, RecvError, RecvTimeoutError, Select, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, select, unbounded,
};

use crate::support::*;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// A channel of each kind: a rendezvous, a short and a longer bounded one, and an unbounded one.
fn each_kind<T>() -> Vec<(&'static str, Sender<T>, Receiver<T>)> {
    let named = |name, (tx, rx)| (name, tx, rx);
    vec![
        named("rendezvous", bounded(0)),
        named("bounded(1)", bounded(1)),
        named("bounded(4)", bounded(4)),
        named("unbounded", unbounded()),
    ]
}

#[test]
fn every_receive_tells_that_the_senders_are_gone() {
    for (kind, tx, rx) in each_kind::<u8>() {
        drop(tx);
        assert_eq!(rx.recv(), Err(RecvError), "{kind}");
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected), "{kind}");
        assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected), "{kind}");
        assert_eq!(rx.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected), "{kind}");
        assert_eq!(rx.recv_deadline(Instant::now()), Err(RecvTimeoutError::Disconnected), "{kind}");
        assert_eq!(rx.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected), "{kind}");
        // And again: it stays so.
        assert_eq!(rx.recv(), Err(RecvError), "{kind}");
    }
}

#[test]
fn every_send_tells_that_the_receivers_are_gone_and_hands_back() {
    for (kind, tx, rx) in each_kind() {
        drop(rx);
        assert_eq!(tx.send(1), Err(SendError(1)), "{kind}");
        assert_eq!(tx.try_send(2), Err(TrySendError::Disconnected(2)), "{kind}");
        assert_eq!(tx.send_timeout(3, LONG), Err(SendTimeoutError::Disconnected(3)), "{kind}");
        assert_eq!(tx.send_timeout(4, Duration::ZERO), Err(SendTimeoutError::Disconnected(4)), "{kind}");
        assert_eq!(tx.send_deadline(5, Instant::now()), Err(SendTimeoutError::Disconnected(5)), "{kind}");
        assert_eq!(tx.send_timeout(6, Duration::MAX), Err(SendTimeoutError::Disconnected(6)), "{kind}");
        assert_eq!(tx.send(7), Err(SendError(7)), "{kind}");
    }
}

#[test]
fn queued_messages_outlive_their_senders() {
    for (kind, tx, rx) in each_kind() {
        let mut queued = 0;
        while queued < 4 && tx.try_send(queued).is_ok() {
            queued += 1;
        }
        drop(tx);
        assert_eq!(rx.len(), queued, "{kind}");
        for n in 0..queued {
            // The three ways in turn, each of which must prefer the message to the news.
            match n % 3 {
                0 => assert_eq!(rx.try_recv(), Ok(n), "{kind}"),
                1 => assert_eq!(rx.recv(), Ok(n), "{kind}"),
                _ => assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(n), "{kind}"),
            }
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected), "{kind}");
    }
}

#[test]
fn a_full_channel_without_receivers_is_disconnected_and_not_full() {
    let (tx, rx) = bounded(1);
    tx.send(1).unwrap();
    assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    drop(rx);
    assert_eq!(tx.try_send(2), Err(TrySendError::Disconnected(2)));
    assert_eq!(tx.send_timeout(2, ms(1)), Err(SendTimeoutError::Disconnected(2)));
    assert_eq!(tx.send(2), Err(SendError(2)));
}

#[test]
fn only_the_last_sender_closes() {
    for (kind, tx, rx) in each_kind::<u8>() {
        let clones: Vec<_> = (0..5).map(|_| tx.clone()).collect();
        drop(tx);
        for clone in clones {
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{kind}");
            drop(clone);
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected), "{kind}");
    }
}

#[test]
fn only_the_last_receiver_closes() {
    for (kind, tx, rx) in each_kind() {
        let clones: Vec<_> = (0..5).map(|_| rx.clone()).collect();
        drop(rx);
        for clone in clones {
            assert!(!matches!(tx.try_send(0), Err(TrySendError::Disconnected(_))), "{kind}");
            drop(clone);
        }
        assert_eq!(tx.try_send(1), Err(TrySendError::Disconnected(1)), "{kind}");
    }
}

#[test]
fn a_forgotten_sender_keeps_the_channel_open() {
    for (kind, tx, rx) in each_kind::<u8>() {
        std::mem::forget(tx.clone());
        drop(tx);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{kind}");
    }
}

#[test]
fn all_waiting_receivers_wake_when_the_last_sender_leaves() {
    in_time(|| {
        for (kind, tx, rx) in each_kind::<u8>() {
            let waiting: Vec<_> = (0..4)
                .map(|n| {
                    let rx = rx.clone();
                    thread::spawn(move || match n {
                        0 => rx.recv().is_err(),
                        1 => rx.recv_timeout(LONG * 2) == Err(RecvTimeoutError::Disconnected),
                        2 => rx.iter().next().is_none(),
                        _ => select! { recv(rx) -> got => got.is_err() },
                    })
                })
                .collect();
            nap();
            drop(tx);
            for t in waiting {
                assert!(t.join().unwrap(), "{kind}");
            }
        }
    });
}

#[test]
fn all_waiting_senders_wake_when_the_last_receiver_leaves() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1)] {
            let _ = tx.try_send(100);
            let waiting: Vec<_> = (0..3)
                .map(|n| {
                    let tx = tx.clone();
                    thread::spawn(move || match n {
                        0 => tx.send(n).unwrap_err().into_inner(),
                        1 => match tx.send_timeout(n, LONG * 2) {
                            Err(SendTimeoutError::Disconnected(n)) => n,
                            other => panic!("{other:?}"),
                        },
                        _ => select! {
                            send(tx, n) -> sent => sent.unwrap_err().0,
                            recv(tube::never::<()>()) -> _ => unreachable!(),
                        },
                    })
                })
                .collect();
            nap();
            drop(rx);
            for (n, t) in waiting.into_iter().enumerate() {
                assert_eq!(t.join().unwrap(), n);
            }
        }
    });
}

#[test]
fn a_waiting_select_wakes_at_the_end_that_closed() {
    in_time(|| {
        for (kind, tx, rx) in each_kind::<u8>() {
            let (_open_tx, open_rx) = unbounded::<u8>();
            let chooser = thread::spawn(move || {
                let mut choice = Select::new();
                choice.recv(&open_rx);
                choice.recv(&rx);
                let ready = choice.select();
                (ready.index(), ready.recv(&rx))
            });
            nap();
            drop(tx);
            assert_eq!(chooser.join().unwrap(), (1, Err(RecvError)), "{kind}");
        }
    });
}

#[test]
fn a_waiting_ready_wakes_at_the_end_that_closed() {
    in_time(|| {
        for (tx, rx) in [bounded(0), bounded(1)] {
            let _ = tx.try_send(0);
            let (open_tx, _open_rx) = bounded::<u8>(0);
            let watcher = thread::spawn(move || {
                let mut choice = Select::new();
                choice.send(&open_tx);
                choice.send(&tx);
                (choice.ready(), tx.try_send(1))
            });
            nap();
            drop(rx);
            assert_eq!(watcher.join().unwrap(), (1, Err(TrySendError::Disconnected(1))));
        }
    });
}

#[test]
fn a_panicking_thread_leaves_the_channel() {
    in_time(|| {
        for (kind, tx, rx) in each_kind::<u8>() {
            let thread = thread::spawn(move || {
                let _held = tx;
                // Without the hook, so that no message about this wanted panic is printed.
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert_eq!(rx.recv(), Err(RecvError), "{kind}");
            assert!(thread.join().is_err());
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn nothing_is_lost_when_receivers_leave_at_any_time() {
    in_time(|| {
        for round in 0..20 {
            for (kind, tx, rx) in each_kind() {
                let tally = Tally::default();
                let senders: Vec<_> = (0..2)
                    .map(|_| {
                        let (tx, tally) = (tx.clone(), tally.clone());
                        thread::spawn(move || {
                            let mut delivered = 0;
                            // Bounded, for an unbounded channel would not slow the sender down.
                            while delivered < 2000 {
                                match tx.send(tally.token()) {
                                    Ok(()) => delivered += 1,
                                    Err(SendError(token)) => {
                                        drop(token);
                                        break;
                                    }
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
                        thread::spawn(move || rx.iter().take(round * (r + 1)).count())
                    })
                    .collect();
                drop(rx);
                let received: usize = receivers.into_iter().map(|t| t.join().unwrap()).sum();
                let delivered: usize = senders.into_iter().map(|t| t.join().unwrap()).sum();
                assert!(received <= delivered, "{kind}: {received} of {delivered}");
                assert_eq!(received, round * 3, "{kind}");
                tally.assert_each_dropped_once();
            }
        }
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn nothing_is_lost_when_senders_leave_at_any_time() {
    in_time(|| {
        for round in 0..20 {
            for (kind, tx, rx) in each_kind() {
                let tally = Tally::default();
                let counts: Vec<usize> = (0..3).map(|s| (round * 7 + s * 13) % 40).collect();
                for &count in &counts {
                    let (tx, tally) = (tx.clone(), tally.clone());
                    thread::spawn(move || (0..count).for_each(|_| tx.send(tally.token()).unwrap()));
                }
                drop(tx);
                let twin = rx.clone();
                let helper = thread::spawn(move || twin.iter().count());
                let received = rx.iter().count() + helper.join().unwrap();
                assert_eq!(received, counts.iter().sum::<usize>(), "{kind}");
                assert_eq!(tally.made(), received);
                tally.assert_each_dropped_once();
            }
        }
    });
}

#[test]
fn both_ends_leaving_at_once_drop_the_rest_once() {
    in_time(|| {
        for _ in 0..60 {
            for (_, tx, rx) in each_kind() {
                let tally = Tally::default();
                for _ in 0..4 {
                    // A full or rendezvous channel gives it back, which drops it here.
                    let _ = tx.try_send(tally.token());
                }
                let start = Arc::new(Barrier::new(2));
                let other = thread::spawn({
                    let start = start.clone();
                    move || {
                        start.wait();
                        drop(rx);
                    }
                });
                start.wait();
                drop(tx);
                other.join().unwrap();
                assert_eq!(tally.made(), 4);
                tally.assert_each_dropped_once();
            }
        }
    });
}

#[test]
fn a_send_racing_with_the_last_receiver_is_either_kept_or_handed_back() {
    in_time(|| {
        for _ in 0..60 {
            for (_, tx, rx) in each_kind() {
                let tally = Tally::default();
                let start = Arc::new(Barrier::new(2));
                let other = thread::spawn({
                    let start = start.clone();
                    move || {
                        start.wait();
                        drop(rx);
                    }
                });
                let token = tally.token();
                start.wait();
                let result = tx.send(token);
                if result.is_err() {
                    assert_eq!(tally.dropped(), 0, "handed back and dropped");
                }
                drop(result);
                other.join().unwrap();
                drop(tx);
                tally.assert_each_dropped_once();
            }
        }
    });
}

#[test]
fn unreceived_messages_are_dropped_once_whoever_leaves_first() {
    for receiver_first in [false, true] {
        for (kind, tx, rx) in each_kind() {
            let tally = Tally::default();
            let mut kept = 0;
            for _ in 0..4 {
                kept += usize::from(tx.try_send(tally.token()).is_ok());
            }
            assert_eq!(tally.dropped(), 4 - kept, "{kind}: the channel dropped what it accepted");
            if receiver_first {
                drop(rx);
                drop(tx);
            } else {
                drop(tx);
                assert_eq!(tally.dropped(), 4 - kept, "{kind}: dropped while it could still be received");
                drop(rx);
            }
            tally.assert_each_dropped_once();
        }
    }
}

#[test]
fn an_unbounded_channel_drops_its_messages_with_the_last_receiver() {
    let tally = Tally::default();
    let (tx, rx) = unbounded();
    for _ in 0..100 {
        tx.send(tally.token()).unwrap();
    }
    let twin = rx.clone();
    drop(rx);
    assert_eq!(tally.dropped(), 0);
    drop(twin);
    assert_eq!(tally.dropped(), 100);
    assert_eq!((tx.len(), tx.is_empty()), (0, true));
    drop(tx);
    tally.assert_each_dropped_once();
}

#[test]
fn a_bounded_channel_keeps_its_messages_until_the_last_sender_has_left_too() {
    let tally = Tally::default();
    let (tx, rx) = bounded(3);
    for _ in 0..3 {
        tx.send(tally.token()).unwrap();
    }
    drop(rx);
    assert_eq!(tally.dropped(), 0);
    assert_eq!((tx.len(), tx.is_full()), (3, true));
    let twin = tx.clone();
    drop(tx);
    assert_eq!(tally.dropped(), 0);
    drop(twin);
    assert_eq!(tally.dropped(), 3);
    tally.assert_each_dropped_once();
}

#[test]
fn each_error_owns_the_message_it_hands_back() {
    let tally = Tally::default();
    let (tx, _rx) = bounded(0);
    let full = tx.try_send(tally.token()).unwrap_err();
    let late = tx.send_timeout(tally.token(), ms(1)).unwrap_err();
    let (gone, _) = bounded(0);
    let refused = gone.send(tally.token()).unwrap_err();
    let tried = gone.try_send(tally.token()).unwrap_err();
    let waited = gone.send_timeout(tally.token(), ms(1)).unwrap_err();
    assert_eq!(tally.dropped(), 0);
    drop((full, late, refused, tried, waited));
    assert_eq!(tally.dropped(), 5);
    tally.assert_each_dropped_once();
}

#[test]
fn into_inner_takes_the_message_out_undropped() {
    let tally = Tally::default();
    let (tx, _rx) = bounded(0);
    let (gone, _) = bounded(0);
    let back = [
        tx.try_send(tally.token()).unwrap_err().into_inner(),
        tx.send_timeout(tally.token(), ms(1)).unwrap_err().into_inner(),
        gone.send(tally.token()).unwrap_err().into_inner(),
        gone.try_send(tally.token()).unwrap_err().into_inner(),
        gone.send_timeout(tally.token(), ms(1)).unwrap_err().into_inner(),
    ];
    assert_eq!(back.iter().map(|token| token.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(tally.dropped(), 0);
    drop(back);
    tally.assert_each_dropped_once();
}

#[test]
fn dropping_a_channel_closes_the_channels_inside_it() {
    for (kind, tx, rx) in each_kind() {
        let (inner_tx, inner_rx) = unbounded::<u8>();
        if tx.try_send(inner_tx).is_ok() {
            assert_eq!(inner_rx.try_recv(), Err(TryRecvError::Empty), "{kind}");
            drop((tx, rx));
        }
        assert_eq!(inner_rx.try_recv(), Err(TryRecvError::Disconnected), "{kind}");
    }
}

struct Farewell(Sender<&'static str>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.send("farewell").unwrap();
    }
}

#[test]
fn a_message_may_use_channels_while_it_is_dropped() {
    in_time(|| {
        for (kind, tx, rx) in each_kind() {
            let (last_tx, last_rx) = unbounded();
            // Accepted or handed back and dropped at once: it says farewell either way.
            let _ = tx.try_send(Farewell(last_tx.clone()));
            drop((tx, rx));
            assert_eq!(last_rx.try_recv(), Ok("farewell"), "{kind}");
            assert_eq!(last_rx.try_recv(), Err(TryRecvError::Empty), "{kind}");
        }
    });
}

#[test]
fn a_long_chain_of_channels_in_channels_is_dropped_whole() {
    let tally = Tally::default();
    #[allow(dead_code, reason = "held to be dropped, never read")]
    struct Link(Option<Receiver<Link>>, Token);
    let mut last = None;
    for n in 0..100 {
        let (tx, rx) = if n % 2 == 0 { unbounded() } else { bounded(1) };
        tx.send(Link(last.take(), tally.token())).unwrap_or_else(|_| panic!("closed"));
        last = Some(rx);
    }
    assert_eq!(tally.dropped(), 0);
    drop(last);
    tally.assert_each_dropped_once();
    assert_eq!(tally.made(), 100);
}

#[test]
fn clocks_and_never_do_not_close() {
    let rx = tube::after(ms(1));
    assert!(rx.recv().is_ok());
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(tube::never::<u8>().try_recv(), Err(TryRecvError::Empty));
    assert_eq!(tube::never::<u8>().recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_cloned_end_made_during_the_race_to_close_still_counts() {
    in_time(|| {
        for _ in 0..100 {
            let (tx, rx) = bounded(0);
            let maker = thread::spawn(move || {
                let twin = tx.clone();
                drop(tx);
                let third = twin.clone();
                drop(twin);
                third.send(1)
            });
            assert_eq!(rx.recv(), Ok(1));
            assert_eq!(maker.join().unwrap(), Ok(()));
            assert_eq!(rx.recv(), Err(RecvError));
        }
    });
}
