//! A choice takes its default, or says that its time is up, only if at some moment none of its arms was ready. (How that is found
//! out is explored in `crates/sync/tests/crash_lull.rs`; here two threads hand one thing past a third, as often as they can.)

use chappe::tube::{Receiver, Select, Sender, bounded, select, unbounded};
use chappe::{Pool, Semaphore};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const ROUNDS: usize = 20_000;

/// Each round this thread gives the first thing, and chooses between the two; the other gives the second, and takes the first if
/// it still can. At each moment there is one of the two.
fn handed_past(give: [&(dyn Fn() + Sync); 2], take: [&(dyn Fn() -> bool + Sync); 2], choose: impl Fn(usize) -> bool) {
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..ROUNDS {
                begin.wait();
                give[1]();
                take[0]();
                end.wait();
            }
        });
        for round in 0..ROUNDS {
            begin.wait();
            give[0]();
            let chosen = choose(round);
            end.wait();
            while take.iter().any(|take| take()) {}
            assert!(chosen, "round {round}: at each moment one was there");
        }
    });
}

fn of_tubes(make: fn() -> (Sender<u8>, Receiver<u8>)) {
    let [(s1, r1), (s2, r2)] = [(); 2].map(|()| make());
    handed_past(
        [&|| s1.send(1).unwrap(), &|| s2.send(2).unwrap()],
        [&|| r1.try_recv().is_ok(), &|| r2.try_recv().is_ok()],
        |round| match round % 4 {
            0 => select! { recv(r1) -> _ => true, recv(r2) -> _ => true, default => false },
            1 => select! { recv(r1) -> _ => true, recv(r2) -> _ => true, default(Duration::ZERO) => false },
            2 => select! { recv(r2) -> _ => true, recv(r1) -> _ => true, default(Duration::from_nanos(1)) => false },
            _ => {
                let mut choice = Select::new();
                choice.recv(&r1);
                choice.recv(&r2);
                match choice.try_select() {
                    Ok(chosen) if chosen.index() == 0 => chosen.recv(&r1).is_ok(),
                    Ok(chosen) => chosen.recv(&r2).is_ok(),
                    Err(_) => false,
                }
            }
        },
    );
}

#[test]
#[ignore = "storm: it needs a race"]
fn messages_are_not_handed_past_a_choice() {
    of_tubes(|| bounded(4));
    of_tubes(unbounded);
}

#[test]
#[ignore = "storm: it needs a race"]
fn units_and_permits_are_not_handed_past_a_choice() {
    for make in [Semaphore::private, Semaphore::private_barging] {
        let (a, b) = (make(0).unwrap(), make(0).unwrap());
        handed_past(
            [&|| a.up().unwrap(), &|| b.up().unwrap()],
            [&|| a.try_down().is_ok(), &|| b.try_down().is_ok()],
            |_| {
                select! { down(a) -> _ => true, down(b) -> _ => true, default => false }
            },
        );
        let ((tx, rx), unit) = (bounded(4), make(0).unwrap());
        handed_past(
            [&|| tx.send(1).unwrap(), &|| unit.up().unwrap()],
            [&|| rx.try_recv().is_ok(), &|| unit.try_down().is_ok()],
            |_| {
                select! { down(unit) -> _ => true, recv(rx) -> _ => true, default => false }
            },
        );
    }
    // A permit of one pool is taken before that of the other comes back: so at each moment one of the two is free.
    let (a, b) = (Pool::private(1).unwrap(), Pool::private(1).unwrap());
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..ROUNDS {
                let held = b.acquire().unwrap();
                begin.wait();
                drop(held);
                let held = a.try_acquire();
                end.wait();
                drop(held);
                end.wait();
            }
        });
        for round in 0..ROUNDS {
            begin.wait();
            let chosen = select! { acquire(a) -> p => p.is_ok(), acquire(b) -> p => p.is_ok(), default => false };
            end.wait();
            end.wait();
            assert!(chosen, "round {round}: at each moment one was free");
        }
    });
}
