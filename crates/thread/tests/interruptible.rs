//! Waits at one end of a private tube that are ended from outside, and tubes that are closed while both ends are in use.

use chappe_sync::tube::{Ended, Sender, bounded};
use chappe_sync::{Interrupt, interruptible};
use chappe_thread::{Runtime, spawn, yield_now};
use std::sync::Arc;

/// On one proc: a thread that was begun runs, until it waits, when the caller yields.
fn alone(body: impl FnOnce() + Send) {
    Runtime::new(1).unwrap().run(body);
}

#[test]
fn an_interrupt_ends_the_wait_and_nothing_is_lost() {
    for slots in [0, 1] {
        alone(|| {
            let (tx, rx) = bounded(slots);
            let stop = Arc::new(Interrupt::new());
            let by = Arc::clone(&stop);
            let to = tx.clone();
            let sends = spawn(move || {
                interruptible(&by, || {
                    (0..slots).for_each(|n| to.send_interruptible(n).unwrap());
                    to.send_interruptible(7)
                })
            });
            yield_now();
            assert!(!sends.is_finished());
            stop.interrupt();
            sends.thread().unpark();
            assert_eq!(sends.join().unwrap(), Err((Ended::Interrupted, 7)));
            assert_eq!(rx.try_iter().count(), slots);

            stop.clear();
            let (by, from) = (Arc::clone(&stop), rx.clone());
            let receives = spawn(move || interruptible(&by, || (from.recv_interruptible(), from.recv_interruptible())));
            yield_now();
            tx.send(8).unwrap();
            stop.interrupt();
            receives.thread().unpark();
            assert_eq!(receives.join().unwrap(), (Ok(8), Err(Ended::Interrupted)), "a message that was faster wins");
        });
    }
}

#[test]
fn a_tube_is_closed_for_both_sides() {
    for slots in [0, 2] {
        alone(|| {
            let (tx, rx) = bounded(slots);
            (0..slots).for_each(|n| tx.send(n).unwrap());
            let to: Sender<usize> = tx.clone();
            let sends = spawn(move || to.send_interruptible(9));
            yield_now();
            tx.close();
            assert_eq!(sends.join().unwrap(), Err((Ended::Disconnected, 9)));
            assert!(tx.send(9).is_err() && tx.try_send(9).is_err());
            for n in 0..slots {
                assert_eq!(rx.recv_interruptible(), Ok(n), "what is there is received");
            }
            assert_eq!(rx.recv_interruptible(), Err(Ended::Disconnected));

            let (tx, rx) = bounded::<usize>(slots);
            let receives = spawn(move || rx.recv_interruptible());
            yield_now();
            tx.close();
            assert_eq!(receives.join().unwrap(), Err(Ended::Disconnected));
        });
    }
}
