//! Programs in the manner of Go's channel tests, with threads for goroutines.

use chappe::tube::{Receiver, Sender, TryRecvError, after, bounded, never, select, unbounded};

use crate::support::*;
use std::thread;
use std::time::Instant;

#[test]
fn a_prime_sieve_of_chained_filters() {
    in_time(|| {
        for capacity in [0, 1, 3] {
            let (tx, mut numbers) = bounded::<u32>(capacity);
            // Ends when the far end of the chain is dropped.
            thread::spawn(move || (2..).try_for_each(|n| tx.send(n)));
            let mut primes = Vec::new();
            for _ in 0..25 {
                let prime = numbers.recv().unwrap();
                primes.push(prime);
                let (tx, filtered) = bounded(capacity);
                thread::spawn(move || numbers.iter().filter(|n| n % prime != 0).try_for_each(|n| tx.send(n)));
                numbers = filtered;
            }
            assert_eq!(primes[..10], [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
            assert_eq!(primes[24], 97);
        }
    });
}

#[test]
fn a_doubly_selecting_pump_delivers_each_number_once() {
    in_time(|| {
        const COUNT: usize = 3000;
        let (txs, rxs): (Vec<_>, Vec<_>) = (0..4).map(|_| bounded::<usize>(0)).unzip();
        let (merged, all) = bounded(0);
        thread::spawn(move || {
            for n in 0..COUNT {
                // Both the pump and the muxers below choose, so each side is woken through a choice.
                select! {
                    send(txs[0], n) -> sent => sent.unwrap(),
                    send(txs[1], n) -> sent => sent.unwrap(),
                    send(txs[2], n) -> sent => sent.unwrap(),
                    send(txs[3], n) -> sent => sent.unwrap(),
                }
            }
        });
        for pair in rxs.chunks(2) {
            let (a, b, merged) = (pair[0].clone(), pair[1].clone(), merged.clone());
            thread::spawn(move || {
                let idle = never();
                let (mut a_open, mut b_open) = (true, true);
                while a_open || b_open {
                    select! {
                        recv(if a_open { &a } else { &idle }) -> got => match got {
                            Ok(n) => merged.send(n).unwrap(),
                            Err(_) => a_open = false,
                        },
                        recv(if b_open { &b } else { &idle }) -> got => match got {
                            Ok(n) => merged.send(n).unwrap(),
                            Err(_) => b_open = false,
                        },
                    }
                }
            });
        }
        drop((rxs, merged));
        let mut seen = vec![0; COUNT];
        for n in all {
            seen[n] += 1;
        }
        assert!(seen.iter().all(|&times| times == 1));
    });
}

/// Speaks only when told to and then tells the next, which forces an order on threads that run freely.
fn link(value: usize, out: Sender<usize>, wait: Receiver<()>, signal: Sender<()>) {
    wait.recv().unwrap();
    out.send(value).unwrap();
    // The last link signals to nobody.
    let _ = signal.send(());
}

#[test]
fn a_fifo_chain_of_threads_speaks_in_turn() {
    in_time(|| {
        for capacity in [0, 1, 10] {
            let (out, heard) = bounded(capacity);
            let (start, mut wait) = bounded(0);
            for n in 0..60 {
                let (signal, next) = bounded(0);
                let out = out.clone();
                thread::spawn(move || link(n, out, wait, signal));
                wait = next;
            }
            drop(out);
            start.send(()).unwrap();
            let keep = wait;
            let mut order = Vec::new();
            for _ in 0..60 {
                order.push(heard.recv().unwrap());
            }
            assert!(order.into_iter().eq(0..60));
            keep.recv().unwrap();
        }
    });
}

#[test]
fn a_fifo_tree_merges_sorted_streams() {
    /// The numbers `from..to` merged out of two halves, each from a subtree of its own threads.
    fn tree(from: u32, to: u32, step: u32) -> Receiver<u32> {
        let (tx, rx) = bounded((to % 3) as usize);
        if to - from <= 16 {
            thread::spawn(move || (from..to).for_each(|n| tx.send(n * step).unwrap()));
            return rx;
        }
        let middle = from.midpoint(to);
        let (left, right) = (tree(from, middle, step), tree(middle, to, step));
        thread::spawn(move || {
            let (mut l, mut r) = (left.recv().ok(), right.recv().ok());
            loop {
                match (l, r) {
                    (Some(a), Some(b)) if a <= b => {
                        tx.send(a).unwrap();
                        l = left.recv().ok();
                    }
                    (Some(_), Some(b)) | (None, Some(b)) => {
                        tx.send(b).unwrap();
                        r = right.recv().ok();
                    }
                    (Some(a), None) => {
                        tx.send(a).unwrap();
                        l = left.recv().ok();
                    }
                    (None, None) => return,
                }
            }
        });
        rx
    }
    in_time(|| assert!(tree(0, 256, 3).iter().eq((0..256).map(|n| n * 3))));
}

#[test]
fn a_select_over_everything() {
    // What can and what cannot proceed, for each kind of channel and each operation, alone and beside a default.
    let (open, open_rx) = bounded::<u8>(0);
    let (gone, _) = bounded::<u8>(0);
    let (_, closed) = bounded::<u8>(0);
    let (roomy, roomy_rx) = bounded::<u8>(2);
    roomy.send(1).unwrap();
    let (full, full_rx) = bounded::<u8>(1);
    full.send(1).unwrap();
    let (_keep, empty) = bounded::<u8>(1);
    let (endless, endless_rx) = unbounded::<u8>();
    let nothing = never::<u8>();
    let can_send = |tx: &Sender<u8>| select! { send(tx, 9) -> _ => true, default => false };
    let can_recv = |rx: &Receiver<u8>| select! { recv(rx) -> _ => true, default => false };
    assert!(!can_send(&open) && can_send(&gone) && can_send(&roomy) && !can_send(&full) && can_send(&endless));
    assert!(!can_recv(&open_rx) && can_recv(&closed) && can_recv(&roomy_rx) && can_recv(&full_rx));
    assert!(!can_recv(&empty) && can_recv(&endless_rx) && !can_recv(&nothing));
    assert!(!can_recv(&endless_rx) && !can_recv(&full_rx) && can_recv(&roomy_rx) && !can_recv(&roomy_rx));
    // Everything that cannot, in one: only the clock is left.
    full.send(1).unwrap();
    let start = Instant::now();
    let taken = select! {
        send(open, 1) -> _ => "send to nobody",
        recv(open_rx) -> _ => "receive from nobody",
        send(full, 1) -> _ => "send into a full channel",
        recv(empty) -> _ => "receive from an empty channel",
        recv(endless_rx) -> _ => "receive from an empty unbounded channel",
        recv(nothing) -> _ => "never",
        recv(after(LONG)) -> _ => "the late clock",
        recv(after(ms(20))) -> _ => "the clock",
    };
    assert_eq!(taken, "the clock");
    assert!(start.elapsed() >= ms(20));
    // And one that can among all those that cannot.
    let taken = select! {
        send(open, 1) -> _ => false,
        send(full, 1) -> _ => false,
        recv(empty) -> _ => false,
        recv(nothing) -> _ => false,
        send(roomy, 4) -> sent => sent.is_ok(),
        recv(after(LONG)) -> _ => false,
        default(LONG) => false,
    };
    assert!(taken);
    assert_eq!(roomy_rx.try_recv(), Ok(4));
}

#[test]
fn a_chain_of_many_threads_adds_one_each() {
    in_time(|| {
        let (first, mut from) = bounded(0);
        for _ in 0..200 {
            let (to, next) = bounded(0);
            thread::spawn(move || {
                let n: u32 = from.recv().unwrap();
                to.send(n + 1).unwrap();
            });
            from = next;
        }
        first.send(0).unwrap();
        assert_eq!(from.recv(), Ok(200));
    });
}

#[test]
fn a_multiplexed_server_answers_each_client() {
    struct Request {
        a: i64,
        b: i64,
        reply: Sender<i64>,
    }
    in_time(|| {
        let (requests, incoming) = bounded::<Request>(0);
        let (quit, quitting) = bounded::<()>(0);
        let server = thread::spawn(move || {
            loop {
                select! {
                    recv(incoming) -> request => {
                        let Ok(Request { a, b, reply }) = request else { break "no client is left" };
                        thread::spawn(move || reply.send(a + b).unwrap());
                    }
                    recv(quitting) -> _ => break "told to",
                }
            }
        });
        let waiting: Vec<_> = (0..50)
            .map(|n| {
                let (reply, answer) = bounded(0);
                requests.send(Request { a: n, b: n + 50, reply }).unwrap();
                answer
            })
            .collect();
        for (n, answer) in waiting.iter().enumerate().rev() {
            assert_eq!(answer.recv(), Ok(2 * n as i64 + 50));
        }
        quit.send(()).unwrap();
        assert_eq!(server.join().unwrap(), "told to");
        assert!(requests.send(Request { a: 0, b: 0, reply: bounded(0).0 }).is_err());
    });
}

#[test]
fn two_tree_walks_are_compared_in_step() {
    fn walk(from: u32, to: u32, by_halves: bool, out: &Sender<u32>) {
        if from >= to {
            return;
        }
        // The same numbers from trees of different shapes.
        let root = if by_halves { from.midpoint(to) } else { from };
        walk(from, root, by_halves, out);
        if out.send(root).is_ok() {
            walk(root + 1, to, by_halves, out);
        }
    }
    let walker = |to, by_halves| {
        let (tx, rx) = bounded(0);
        thread::spawn(move || walk(0, to, by_halves, &tx));
        rx
    };
    in_time(move || {
        assert!(walker(200, true).iter().eq(walker(200, false)));
        assert!(!walker(200, true).iter().eq(walker(201, false)));
    });
}

#[test]
fn power_series_are_multiplied_by_demand() {
    // Each coefficient is asked for before it is made, as in a lazy stream.
    type Series = (Sender<()>, Receiver<i64>);
    fn series(mut coefficient: impl FnMut() -> i64 + Send + 'static) -> Series {
        let (ask, asked) = bounded(0);
        let (give, given) = bounded(0);
        thread::spawn(move || {
            for () in asked {
                if give.send(coefficient()).is_err() {
                    return;
                }
            }
        });
        (ask, given)
    }
    fn next(series: &Series) -> i64 {
        series.0.send(()).unwrap();
        series.1.recv().unwrap()
    }
    in_time(|| {
        let ones = series(|| 1);
        let mut n = 0;
        let naturals = series(move || {
            n += 1;
            n
        });
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let product = series(move || {
            a.push(next(&ones));
            b.push(next(&naturals));
            a.iter().zip(b.iter().rev()).map(|(x, y)| x * y).sum()
        });
        let triangular: Vec<_> = (0..10).map(|_| next(&product)).collect();
        assert_eq!(triangular, [1, 3, 6, 10, 15, 21, 28, 36, 45, 55]);
    });
}

#[test]
fn a_semaphore_and_a_quit_channel_stop_all_workers() {
    in_time(|| {
        let (quit, quitting) = bounded::<()>(0);
        let (out, results) = bounded(0);
        let workers: Vec<_> = (0..6)
            .map(|n| {
                let (quitting, out) = (quitting.clone(), out.clone());
                thread::spawn(move || {
                    let mut made = 0;
                    loop {
                        select! {
                            send(out, n) -> sent => { sent.unwrap(); made += 1 }
                            recv(quitting) -> closed => { assert!(closed.is_err()); return made }
                        }
                    }
                })
            })
            .collect();
        drop(out);
        let taken = results.iter().take(500).count();
        // Closing reaches them all at once.
        drop(quit);
        let made: usize = workers.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!((made, taken), (500, 500));
        assert_eq!(results.try_recv(), Err(TryRecvError::Disconnected));
    });
}

#[test]
#[ignore = "storm: threads that race"]
fn a_choice_that_lost_a_race_does_not_swallow_the_message() {
    in_time(|| {
        // Two choosers wait on the same two channels; each message must go to the one that is really there.
        for _ in 0..300 {
            let (tx_a, a) = bounded(0);
            let (tx_b, b) = bounded(0);
            let (tell, told) = unbounded();
            for _ in 0..2 {
                let (a, b, tell) = (a.clone(), b.clone(), tell.clone());
                thread::spawn(move || {
                    select! {
                        recv(a) -> got => tell.send(got.unwrap()).unwrap(),
                        recv(b) -> got => tell.send(got.unwrap()).unwrap(),
                    }
                });
            }
            // Both channels stay open to the end, lest a chooser see one close.
            let sender = thread::spawn({
                let tx_a = tx_a.clone();
                move || tx_a.send(1).unwrap()
            });
            tx_b.send(2).unwrap();
            sender.join().unwrap();
            assert_eq!(told.recv().unwrap() + told.recv().unwrap(), 3);
        }
    });
}
