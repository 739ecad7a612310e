//! `select!` and `select_biased!` take one arm that can proceed, or wait for one, or take the default.

// The forms with 32 arms need more than the default.
use chappe::tube::{
    self, Receiver, RecvError, SendError, Sender, TryRecvError, bounded, never, select, select_biased, unbounded,
};

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_single_receive_arm_receives() {
    let (_tx, rx) = holding([5]);
    let got = select! { recv(rx) -> got => got };
    assert_eq!(got, Ok(5));
}

#[test]
fn a_single_receive_arm_waits() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let other = thread::spawn(move || select! { recv(rx) -> got => got });
        nap();
        assert!(!other.is_finished());
        tx.send(5).unwrap();
        assert_eq!(other.join().unwrap(), Ok(5));
    });
}

#[test]
fn a_single_send_arm_sends() {
    let (tx, rx) = bounded(1);
    let sent: Result<(), SendError<u8>> = select! { send(tx, 5) -> sent => sent };
    assert_eq!(sent, Ok(()));
    assert_eq!(rx.try_recv(), Ok(5));
}

#[test]
fn a_single_send_arm_waits() {
    in_time(|| {
        let (tx, rx) = full();
        let other = thread::spawn(move || select! { send(tx, 5) -> sent => sent });
        nap();
        assert!(!other.is_finished());
        assert_eq!((rx.recv(), rx.recv()), (Ok(0), Ok(5)));
        assert_eq!(other.join().unwrap(), Ok(()));
    });
}

#[test]
fn the_ready_arm_among_several_is_taken() {
    let (_tx, empty) = unbounded::<u8>();
    let (full, _rx) = full();
    let (_tx, rx) = holding(["it"]);
    select! {
        recv(empty) -> _ => panic!("the empty channel was chosen"),
        send(full, 1) -> _ => panic!("the full channel was chosen"),
        recv(rx) -> got => assert_eq!(got, Ok("it")),
    }
    assert!(rx.is_empty());
}

#[test]
fn default_is_taken_when_nothing_is_ready() {
    let (_tx, empty) = unbounded::<u8>();
    let (full, _rx) = full();
    let taken = select! {
        recv(empty) -> _ => "recv",
        send(full, 1) -> _ => "send",
        default => "default",
    };
    assert_eq!(taken, "default");
}

#[test]
fn default_is_not_taken_when_something_is_ready() {
    let (_tx, rx) = holding(0..50);
    for n in 0..50 {
        select! {
            recv(rx) -> got => assert_eq!(got, Ok(n)),
            recv(never::<u8>()) -> _ => unreachable!(),
            default => panic!("default"),
        }
    }
    for _ in 0..50 {
        let (tx, rx) = bounded(1);
        select! {
            send(tx, 1) -> sent => sent.unwrap(),
            default => panic!("default"),
        }
        assert_eq!(rx.len(), 1);
    }
}

#[test]
fn default_with_one_arm_of_each_kind() {
    let (_tx, empty) = bounded::<u8>(0);
    let (full, _rx) = full();
    assert!(select! { recv(empty) -> _ => false, default => true });
    assert!(select! { send(full, 1) -> _ => false, default => true });
    assert!(select_biased! { recv(empty) -> _ => false, default => true });
    assert!(select_biased! { send(full, 1) -> _ => false, default => true });
}

#[test]
fn default_may_stand_anywhere() {
    let (_tx, empty) = unbounded::<u8>();
    assert_eq!(select! { default => 1, recv(empty) -> _ => 2, recv(empty) -> _ => 3 }, 1);
    assert_eq!(select! { recv(empty) -> _ => 2, default => 1, recv(empty) -> _ => 3 }, 1);
    assert_eq!(select! { recv(empty) -> _ => 2, recv(empty) -> _ => 3, default => 1 }, 1);
    assert_eq!(select_biased! { default => 1, recv(empty) -> _ => 2 }, 1);
    // Even for the biased form its place gives it no precedence.
    let (_tx, rx) = holding([7]);
    assert_eq!(select_biased! { default => 1, recv(rx) -> _ => 2 }, 2);
}

#[test]
fn default_may_stand_alone() {
    assert_eq!(select! { default => 4 }, 4);
    assert_eq!(select_biased! { default => 4 }, 4);
    let start = Instant::now();
    assert_eq!(select! { default(ms(20)) => 5 }, 5);
    assert!(start.elapsed() >= ms(20));
    assert_eq!(select_biased! { default(ms(20)) => 5 }, 5);
    assert!(start.elapsed() >= ms(40));
}

#[test]
fn default_with_a_timeout_waits_its_time() {
    let (_tx, empty) = unbounded::<u8>();
    let (full, _rx) = full();
    for arms in 0..3 {
        let start = Instant::now();
        let taken = match arms {
            0 => select! { recv(empty) -> _ => false, default(ms(25)) => true },
            1 => select! { send(full, 1) -> _ => false, default(ms(25)) => true },
            _ => select! { recv(empty) -> _ => false, send(full, 1) -> _ => false, default(ms(25)) => true },
        };
        assert!(taken);
        assert!(start.elapsed() >= ms(25) && start.elapsed() < LONG);
    }
}

#[test]
fn default_with_a_timeout_gives_way_to_what_comes_in_time() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let other = thread::spawn(move || {
            nap();
            tx.send(1).unwrap();
            nap();
            tx.send(2).unwrap();
        });
        let start = Instant::now();
        assert_eq!(select! { recv(rx) -> got => got, default(LONG) => Err(RecvError) }, Ok(1));
        assert_eq!(
            select! {
                recv(rx) -> got => got,
                recv(never()) -> got => got,
                default(Duration::MAX) => Err(RecvError),
            },
            Ok(2)
        );
        assert!(start.elapsed() < LONG);
        other.join().unwrap();
    });
}

#[test]
fn the_timeout_is_any_expression() {
    let timeouts = [ms(1), ms(2)];
    let get = |i: usize| timeouts[i];
    let start = Instant::now();
    select! { recv(never::<u8>()) -> _ => unreachable!(), default(get(0) + get(1) * 2) => {} }
    select! { default({ assert!(start.elapsed() < LONG); ms(5) }) => {} }
    assert!(start.elapsed() >= ms(10));
}

#[test]
fn closed_channels_are_ready_with_their_errors() {
    let (gone, _) = bounded::<u8>(1);
    let (_, closed) = bounded::<u8>(1);
    assert_eq!(select! { recv(closed) -> got => got }, Err(RecvError));
    assert_eq!(select! { send(gone, 3) -> sent => sent }, Err(SendError(3)));
    assert_eq!(select! { recv(closed) -> got => got, default => Ok(1) }, Err(RecvError));
    assert_eq!(select! { send(gone, 3) -> sent => sent, default => Ok(()) }, Err(SendError(3)));
    assert_eq!(select! { recv(closed) -> got => got, default(LONG) => Ok(1) }, Err(RecvError));
    assert_eq!(select! { send(gone, 3) -> sent => sent, default(LONG) => Ok(()) }, Err(SendError(3)));
    select! {
        recv(closed) -> got => assert_eq!(got, Err(RecvError)),
        send(gone, 3) -> sent => assert_eq!(sent, Err(SendError(3))),
        default => panic!("default"),
    }
}

#[test]
fn the_results_have_the_documented_types() {
    let (tx, rx) = holding([1u8]);
    select! {
        recv(rx) -> got => { let got: Result<u8, RecvError> = got; assert!(got.is_ok()); }
        recv(never::<String>()) -> got => { let _: Result<String, RecvError> = got; }
        send(full().0, 1) -> sent => { let _: Result<(), SendError<u8>> = sent; }
    }
    drop(tx);
}

#[test]
fn a_message_that_is_not_chosen_is_not_moved() {
    let (full, _rx) = full_of_strings();
    let (tx, rx) = bounded(1);
    let message = String::from("one message for two arms");
    select! {
        send(full, message) -> _ => unreachable!(),
        send(tx, message) -> sent => sent.unwrap(),
    }
    assert_eq!(rx.try_recv().unwrap(), "one message for two arms");
    let kept = String::from("kept");
    let kept = select! {
        send(full, kept) -> _ => None,
        default => Some(kept),
    };
    assert_eq!(kept.as_deref(), Some("kept"));
}

fn full_of_strings() -> (Sender<String>, Receiver<String>) {
    let (tx, rx) = bounded(1);
    tx.send(String::new()).unwrap();
    (tx, rx)
}

#[test]
fn a_message_handed_back_by_an_arm_can_be_used() {
    let (gone, _) = bounded(1);
    let back = select! {
        send(gone, vec![1, 2]) -> sent => sent.unwrap_err().into_inner(),
        recv(never::<()>()) -> _ => unreachable!(),
    };
    assert_eq!(back, [1, 2]);
}

#[test]
fn the_biased_form_takes_the_first_ready_arm() {
    let (_tx_a, a) = holding(0..50);
    let (_tx_b, b) = holding(0..50);
    let (out, collected) = unbounded();
    for n in 0..50 {
        let first = select_biased! {
            recv(never::<u8>()) -> _ => unreachable!(),
            recv(a) -> got => got == Ok(n),
            recv(b) -> _ => false,
            send(out, n) -> _ => false,
        };
        assert!(first);
    }
    for n in 0..50 {
        let second = select_biased! {
            recv(a) -> _ => false,
            recv(b) -> got => got == Ok(n),
            send(out, n) -> _ => false,
            default => false,
        };
        assert!(second);
    }
    select_biased! {
        recv(a) -> _ => unreachable!(),
        recv(b) -> _ => unreachable!(),
        send(out, 9) -> sent => sent.unwrap(),
        default(LONG) => unreachable!(),
    }
    assert_eq!(collected.try_recv(), Ok(9));
}

#[test]
fn the_biased_form_waits_times_out_and_sees_closing() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (_open, idle) = bounded::<u8>(0);
        let start = Instant::now();
        assert!(select_biased! { recv(rx) -> _ => false, recv(idle) -> _ => false, default(ms(20)) => true });
        assert!(start.elapsed() >= ms(20));
        let other = thread::spawn(move || {
            nap();
            tx.send(1).unwrap();
        });
        assert_eq!(select_biased! { recv(idle) -> got => got, recv(rx) -> got => got }, Ok(1));
        assert_eq!(select_biased! { recv(idle) -> got => got, recv(rx) -> got => got }, Err(RecvError));
        other.join().unwrap();
    });
}

#[test]
fn sixteen_arms_of_mixed_kinds() {
    let ends: Vec<_> = (0..16).map(|_| bounded::<usize>(1)).collect();
    let (txs, rxs): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    for tx in &txs[8..] {
        tx.send(99).unwrap();
    }
    // Receives from the empty first eight, sends to the full last eight: nothing is possible until one changes.
    let choose = || {
        select! {
            recv(rxs[0]) -> _ => 0, recv(rxs[1]) -> _ => 1, recv(rxs[2]) -> _ => 2, recv(rxs[3]) -> _ => 3,
            recv(rxs[4]) -> _ => 4, recv(rxs[5]) -> _ => 5, recv(rxs[6]) -> _ => 6, recv(rxs[7]) -> _ => 7,
            send(txs[8], 1) -> _ => 8, send(txs[9], 1) -> _ => 9, send(txs[10], 1) -> _ => 10,
            send(txs[11], 1) -> _ => 11, send(txs[12], 1) -> _ => 12, send(txs[13], 1) -> _ => 13,
            send(txs[14], 1) -> _ => 14, send(txs[15], 1) -> _ => 15,
            default => 16,
        }
    };
    assert_eq!(choose(), 16);
    for (n, tx) in txs.iter().enumerate().take(8) {
        tx.send(n).unwrap();
        assert_eq!(choose(), n);
    }
    for (n, rx) in rxs.iter().enumerate().skip(8) {
        rx.recv().unwrap();
        assert_eq!(choose(), n);
        assert_eq!(rx.len(), 1);
    }
    assert_eq!(choose(), 16);
}

#[test]
fn thirty_two_arms() {
    let (txs, r): (Vec<_>, Vec<_>) = (0..32).map(|_| bounded::<usize>(1)).unzip();
    for (n, tx) in txs.iter().enumerate() {
        tx.send(n).unwrap();
        let got = select! {
            recv(r[0]) -> m => m, recv(r[1]) -> m => m, recv(r[2]) -> m => m, recv(r[3]) -> m => m,
            recv(r[4]) -> m => m, recv(r[5]) -> m => m, recv(r[6]) -> m => m, recv(r[7]) -> m => m,
            recv(r[8]) -> m => m, recv(r[9]) -> m => m, recv(r[10]) -> m => m, recv(r[11]) -> m => m,
            recv(r[12]) -> m => m, recv(r[13]) -> m => m, recv(r[14]) -> m => m, recv(r[15]) -> m => m,
            recv(r[16]) -> m => m, recv(r[17]) -> m => m, recv(r[18]) -> m => m, recv(r[19]) -> m => m,
            recv(r[20]) -> m => m, recv(r[21]) -> m => m, recv(r[22]) -> m => m, recv(r[23]) -> m => m,
            recv(r[24]) -> m => m, recv(r[25]) -> m => m, recv(r[26]) -> m => m, recv(r[27]) -> m => m,
            recv(r[28]) -> m => m, recv(r[29]) -> m => m, recv(r[30]) -> m => m, recv(r[31]) -> m => m,
        };
        assert_eq!(got, Ok(n));
    }
    assert!(r.iter().all(Receiver::is_empty));
    // The biased form, and with a default besides.
    for tx in &txs {
        tx.send(0).unwrap();
    }
    for n in 0..32 {
        let taken = select_biased! {
            recv(r[0]) -> _ => 0, recv(r[1]) -> _ => 1, recv(r[2]) -> _ => 2, recv(r[3]) -> _ => 3,
            recv(r[4]) -> _ => 4, recv(r[5]) -> _ => 5, recv(r[6]) -> _ => 6, recv(r[7]) -> _ => 7,
            recv(r[8]) -> _ => 8, recv(r[9]) -> _ => 9, recv(r[10]) -> _ => 10, recv(r[11]) -> _ => 11,
            recv(r[12]) -> _ => 12, recv(r[13]) -> _ => 13, recv(r[14]) -> _ => 14, recv(r[15]) -> _ => 15,
            recv(r[16]) -> _ => 16, recv(r[17]) -> _ => 17, recv(r[18]) -> _ => 18, recv(r[19]) -> _ => 19,
            recv(r[20]) -> _ => 20, recv(r[21]) -> _ => 21, recv(r[22]) -> _ => 22, recv(r[23]) -> _ => 23,
            recv(r[24]) -> _ => 24, recv(r[25]) -> _ => 25, recv(r[26]) -> _ => 26, recv(r[27]) -> _ => 27,
            recv(r[28]) -> _ => 28, recv(r[29]) -> _ => 29, recv(r[30]) -> _ => 30, recv(r[31]) -> _ => 31,
            default => 32,
        };
        assert_eq!(taken, n);
    }
}

#[test]
fn one_select_only_touches_one_channel() {
    for _ in 0..100 {
        let (_tx_a, a) = holding([1]);
        let (_tx_b, b) = holding([2]);
        let (out, collected) = bounded(1);
        let left = select! {
            recv(a) -> got => { assert_eq!(got, Ok(1)); (0, 1, 0) }
            recv(b) -> got => { assert_eq!(got, Ok(2)); (1, 0, 0) }
            send(out, 3) -> sent => { sent.unwrap(); (1, 1, 1) }
        };
        assert_eq!((a.len(), b.len(), collected.len()), left);
    }
}

#[test]
fn both_ends_of_one_channel_in_one_select() {
    let (tx, rx) = bounded(1);
    for n in 0..20 {
        assert!(select! { send(tx, n) -> sent => sent.is_ok(), recv(rx) -> _ => false });
        assert_eq!(select! { send(tx, 99) -> _ => Err(RecvError), recv(rx) -> got => got }, Ok(n));
    }
    let (tx, rx) = bounded(0);
    assert!(select! { send(tx, 1) -> _ => false, recv(rx) -> _ => false, default => true });
    assert!(select! { send(tx, 1) -> _ => false, recv(rx) -> _ => false, default(ms(10)) => true });
}

#[test]
fn a_send_is_switched_off_by_a_choice_of_channel() {
    // As a nil channel does in Go: nothing to send, so the arm gets a sender that can never send.
    let (never_tx, _keep) = bounded(0);
    let (tx, rx) = bounded(1);
    let mut queue = vec![3, 2, 1];
    let mut sent = Vec::new();
    for _ in 0..10 {
        select! {
            send(if queue.is_empty() { &never_tx } else { &tx }, *queue.last().unwrap()) -> ok => {
                ok.unwrap();
                queue.pop();
            }
            recv(rx) -> got => sent.push(got.unwrap()),
            default => break,
        }
    }
    assert_eq!(sent, [1, 2, 3]);
}

#[test]
fn an_optional_receiver_is_switched_off_by_never() {
    let (_tx, rx) = holding([1, 2]);
    for (on, expected) in [(true, Some(1)), (false, None), (true, Some(2)), (true, None)] {
        let maybe = on.then_some(&rx);
        let got = select! {
            recv(maybe.unwrap_or(&never())) -> got => got.ok(),
            default => None,
        };
        assert_eq!(got, expected);
    }
}

#[test]
fn a_select_runs_in_a_closure_and_in_another_thread() {
    in_time(|| {
        let (tx, rx) = bounded(0);
        let (stop, stopped) = bounded::<()>(0);
        let worker = thread::spawn(move || {
            let mut sum = 0;
            let mut step = || {
                select! {
                    recv(rx) -> got => { sum += got.unwrap_or(0); true }
                    recv(stopped) -> _ => false,
                }
            };
            while step() {}
            sum
        });
        for n in 1..=100 {
            tx.send(n).unwrap();
        }
        drop(stop);
        assert_eq!(worker.join().unwrap(), 5050);
    });
}

#[test]
fn a_select_that_timed_out_waits_on_nothing() {
    let (tx, rx) = bounded(0);
    let (tx_b, rx_b) = bounded(0);
    select! { recv(rx) -> _ => panic!(), send(tx_b, 1) -> _ => panic!(), default(ms(10)) => {} }
    select! { recv(rx) -> _ => panic!(), default(ms(10)) => {} }
    select! { send(tx_b, 1) -> _ => panic!(), default(ms(10)) => {} }
    assert_eq!(tx.try_send(1), Err(tube::TrySendError::Full(1)));
    assert_eq!(rx_b.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn messages_are_dropped_once_whichever_arm_is_taken() {
    let tally = Tally::default();
    for n in 0..30 {
        let (tx, rx) = bounded(1);
        let (gone, _) = bounded(1);
        if n % 3 == 0 {
            tx.send(tally.token()).unwrap();
        }
        select! {
            send(tx, tally.token()) -> sent => drop(sent),
            send(gone, tally.token()) -> sent => drop(sent),
            recv(rx) -> got => drop(got),
        }
    }
    assert!(tally.made() >= 30);
    tally.assert_each_dropped_once();
}
