//! What it costs to take a lock that is biased to another thread, the first time.
//!
//! Each time a fresh lock is used by one thread until it must be biased to it, or to its processor; then another thread takes it,
//! once, and that is timed. Where the first thread is meanwhile decides what the fence costs: asleep, so that none of ours is on
//! its processor; at work there, so that the processor is interrupted; or on the same processor as the second.

use crate::guarded::Guarded;
use crate::process::pin;
use crate::ras::locks::{CPU, MUTEX, PLAIN};
use crate::ras::plain::PlainLock;
use crate::table::{Case, Table};
use crate::ticks::{tick, ticks};
use chappe::ras::lock::CpuLock;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// More than any lock needs to be biased.
const USES: u32 = 2000;
const LOCKS: usize = 20;

/// Where the first thread is when the second comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Asleep,
    AtWork,
    Beside,
}

/// Nanoseconds of the first lock and unlock by another thread; the median of some.
fn first_taken<L: Guarded>(make: impl Fn() -> L + Send, first: First) -> f64 {
    let locks: Vec<L> = (0..LOCKS).map(|_| make()).collect();
    let (locks, meet, done) = (&locks, &Barrier::new(2), &AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(move || {
            pin(0);
            for lock in locks {
                (0..USES).for_each(|_| lock.with(|_| ()));
                meet.wait();
                // Relaxed: it only has to be seen some time.
                while first == First::AtWork && !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                meet.wait();
                // Relaxed: the barriers order it.
                done.store(false, Ordering::Relaxed);
            }
        });
        let second = s.spawn(move || {
            pin(if first == First::Beside { 0 } else { 1 });
            let mut taken: Vec<f64> = locks
                .iter()
                .map(|lock| {
                    // What a thread's first use of a lock of this kind costs is not the question.
                    make().with(|_| ());
                    meet.wait();
                    // Until the first is where it should be.
                    std::thread::sleep(Duration::from_micros(200));
                    let began = ticks();
                    lock.with(|_| ());
                    let taken = ticks() - began;
                    // Relaxed: as above.
                    done.store(true, Ordering::Relaxed);
                    meet.wait();
                    taken as f64 * tick()
                })
                .collect();
            taken.sort_by(f64::total_cmp);
            taken[LOCKS / 2]
        });
        second.join().expect("the second thread")
    })
}

/// Measures and prints.
///
/// # Panics
/// When a lock cannot be made.
pub fn measure(rounds: u32) {
    // Before anything is timed.
    tick();
    let places =
        [("none of ours there", First::Asleep), ("interrupted", First::AtWork), ("same processor", First::Beside)];
    let mut cases = Vec::new();
    for (place, first) in places {
        cases.push(Case::new(format!("{PLAIN}, {place}"), move || first_taken(PlainLock::default, first)));
        let mutex = || chappe::Mutex::private(0u64).expect("a mutex");
        cases.push(Case::new(format!("{MUTEX}, {place}"), move || first_taken(mutex, first)));
        cases.push(Case::new(format!("{CPU}, {place}"), move || first_taken(|| CpuLock::new(0u64), first)));
    }
    print!("{}", Table::measure("first taken by another thread", (rounds / 2).max(3), cases).report());
    println!("  each with two looks at the clock");
}
