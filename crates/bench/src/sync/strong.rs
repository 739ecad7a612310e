//! Strong semantics shown: three threads on one semaphore of value 1, one of which keeps it for 100 us, two for 5 us.
//!
//! Each wants it again at once. Where a newcomer may overtake a waiter (`sem_t`, barging), the running thread takes it again and again, and
//! a sleeper hardly ever gets it. Where an `up` hands the unit to the first in line, no thread is passed more than twice, and none waits
//! for longer than the other two keep it (and the scheduler keeps them waiting for a processor).
//!
//! For each thread: how often it got the semaphore, its longest wait, and *passed*, how often at most others got it
//! meanwhile. A thread that loses its processor after it has begun to count and before it stands in line is passed by
//! rights; that is rare, and small beside what overtaking does. So is a thread that loses its processor before it asks
//! again: it gets the semaphore less often, without waiting for it.

use crate::contend::{Board, Contest, contend};
use crate::guarded::{Apart, Guarded};
use crate::handoff::Sides;
use crate::peers::Semaphore;
use crate::raw::Scope;
use crate::table::nanoseconds;
use std::time::Duration;

fn show(name: &str, lock: &impl Guarded, contest: Contest, board: &'static Board) {
    let outcome = contend(lock, contest, board);
    print!("  {name:<46}");
    for (at, count) in outcome.counts.iter().enumerate() {
        print!("{count:>10}{:>10}{:>8}", nanoseconds(outcome.worst[at]), outcome.passed[at]);
    }
    println!("{:>8.2}", outcome.jain());
}

/// Measures and prints.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn measure(rounds: u32) {
    let contest = Contest {
        sides: Sides::Threads,
        workers: 3,
        inside: |me| if me == 0 { 100_000 } else { 5_000 },
        outside: 0,
        pinned: false,
        time: Duration::from_millis(u64::from(rounds) * 100),
        timed: true,
    };
    let title = format!("three threads, one semaphore, {:.1} s each", contest.time.as_secs_f64());
    print!("\n{title:<48}");
    for who in ["100 us", "5 us", "5 us"] {
        print!("{who:>10}{:>10}{:>8}", "worst", "passed");
    }
    println!("{:>8}", "Jain");
    let board = Board::make();
    show("sem_t", &Semaphore::new(1, Scope::Private), contest, board);
    let strong = chappe::Semaphore::private(1).expect("a semaphore");
    show("semaphore", &Apart::new(strong), contest, board);
    let barging = chappe::Semaphore::private_barging(1).expect("a semaphore");
    show("semaphore, barging", &Apart::new(barging), contest, board);
    show("mutex (eventually fair)", &chappe::Mutex::private(0u64).expect("a mutex"), contest, board);
    show("parking_lot::Mutex (eventually fair)", &parking_lot::Mutex::new(0), contest, board);
}
