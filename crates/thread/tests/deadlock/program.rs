//! For the tests: programs whose threads wait for each other, in a process each.
//!
//! - no argument: three light threads that wait for each other, and for nobody else;
//! - `elsewhere`: one that waits for ever while the process's first kernel thread is busy with something else;
//! - `begun`, `computing`, `other`: the first light thread waits for a thread without a name that it has begun and that
//!   sleeps or computes, or for a light thread of another runtime that sleeps;
//! - `joined`: it waits for kernel threads that wait for each other;
//! - `random SEED`: a random program with threads of all kinds, which ends; `random SEED short`: the same, but one thread
//!   keeps for itself what another waits for.

mod random;

use chappe_sync::tube::{Receiver, Sender, bounded};
use chappe_thread::{Builder, Runtime, block_in_place, run_main, spawn};
use std::time::{Duration, Instant};

/// Longer than all must idle before it is looked at.
const LONG: Duration = Duration::from_millis(300);

fn busy_elsewhere() {
    let runtime = Runtime::new(1).expect("a runtime");
    runtime.report_deadlocks();
    let (tx, rx): (Sender<u8>, Receiver<u8>) = bounded(0);
    runtime.run(move || drop(spawn(move || rx.recv())));
    std::thread::sleep(LONG);
    drop(tx);
}

/// The first light thread waits for one that does this and then sends.
fn waits_for(what: impl FnOnce(Box<dyn FnOnce() + Send>) + Send) {
    run_main(|| {
        let (tx, rx) = bounded::<u8>(0);
        what(Box::new(move || tx.send(1).expect("it is waited for")));
        assert_eq!(rx.recv(), Ok(1));
    });
}

fn kernel_threads_wait_for_each_other() {
    run_main(|| {
        let (a, b) = (bounded::<u8>(0), bounded::<u8>(0));
        let (to_b, of_a) = (b.0.clone(), a.1.clone());
        let first = std::thread::spawn(move || (of_a.recv().is_ok(), to_b.send(1).is_ok()));
        let second = std::thread::spawn(move || block_in_place(|| first.join()).is_ok());
        let third = spawn(move || (b.1.recv().is_ok(), a.0.send(1).is_ok()));
        assert_eq!(third.join().ok(), Some((true, true)));
        assert!(second.join().is_ok());
    });
}

fn three_light_threads() {
    run_main(|| {
        let (a, b) = (bounded::<u8>(0), bounded::<u8>(0));
        let (tx, rx) = (a.0.clone(), b.1.clone());
        let left = Builder::new().name("left").spawn(move || (tx.send(1).is_ok(), rx.recv().is_ok()));
        let (tx, rx) = (b.0.clone(), b.1.clone());
        let right = Builder::new().name("right").spawn(move || (rx.recv().is_ok(), tx.send(1).is_ok()));
        let both = (left.unwrap().join().is_ok(), right.unwrap().join().is_ok());
        drop((a, b));
        assert_eq!(both, (true, true));
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let begin = |body: Box<dyn FnOnce() + Send>| drop(std::thread::spawn(body));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => three_light_threads(),
        ["elsewhere"] => busy_elsewhere(),
        ["begun"] => waits_for(|send| {
            begin(Box::new(|| {
                std::thread::sleep(LONG);
                send();
            }));
        }),
        ["computing"] => waits_for(|send| {
            begin(Box::new(|| {
                let begun = Instant::now();
                while begun.elapsed() < LONG {
                    std::hint::black_box(0);
                }
                send();
            }));
        }),
        ["other"] => waits_for(|send| {
            let other = Runtime::new(1).expect("a runtime");
            drop(other.spawn(|| {
                chappe_thread::sleep(LONG);
                send();
            }));
        }),
        ["joined"] => kernel_threads_wait_for_each_other(),
        ["random", seed] => random::run(seed.parse().expect("a number"), false),
        ["random", seed, "short"] => random::run(seed.parse().expect("a number"), true),
        _ => panic!("what?"),
    }
}
