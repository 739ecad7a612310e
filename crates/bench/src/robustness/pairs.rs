//! The pairs: two operations that undo each other, one after the other.

use crate::guarded::Guarded;
use crate::peers::{Flavour, Lock, PthreadMutex, Semaphore};
use crate::raw::Scope;
use crate::robustness::plain::{Counter, Vyukov};
use crate::steps::{Counts, stepped};
use crate::tube::channel::{Channel, Rtrb};
use crate::tube::named::Own;
use crate::tube::ours::{Mpmc, Spsc};
use chappe::tube::named::Kind;
use std::hint::black_box;
use std::time::Instant;

/// What ships; also in the other program, where it is the same code with deaths left out.
pub const OURS: &str = "what ships";

/// The groups, and the rows that each has besides ours.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("pool", &["sem_t, process-shared", "parking_lot::Mutex"]),
    ("semaphore", &["counter: compare-and-swap, add", "sem_t, process-shared"]),
    ("mutex", &["std::sync::Mutex", "parking_lot::Mutex", "pthread mutex", "pthread mutex, robust"]),
    ("tube 1:1", &["private tube, spsc", "rtrb"]),
    ("tube m:n", &["private tube, mpmc", "Vyukov's ring, with sleepers", "Vyukov's ring"]),
];

/// Slots of a ring.
const SLOTS: u32 = 64;

/// A pair that can be timed, and counted.
pub trait Pair {
    /// Nanoseconds of one, of so many.
    fn time(&mut self, count: u32) -> f64;
    /// What one executes.
    fn count(&mut self) -> Counts;
}

impl<F: FnMut()> Pair for F {
    fn time(&mut self, count: u32) -> f64 {
        // A thread that was asleep just now is not as fast at first.
        (0..count / 4).for_each(|_| self());
        let start = Instant::now();
        (0..count).for_each(|_| self());
        start.elapsed().as_nanos() as f64 / f64::from(count)
    }
    fn count(&mut self) -> Counts {
        (0..100).for_each(|_| self());
        stepped(self)
    }
}

fn pair(operations: impl FnMut() + 'static) -> Box<dyn Pair> {
    Box::new(operations)
}

fn lock(lock: impl Lock + 'static) -> Box<dyn Pair> {
    pair(move || {
        lock.lock();
        lock.unlock();
    })
}

fn add(lock: impl Guarded + 'static) -> Box<dyn Pair> {
    pair(move || lock.with(|n| *n += 1))
}

fn channel<C: Channel>() -> Box<dyn Pair> {
    let (mut to, mut from) = C::make::<u64>(SLOTS as usize);
    pair(move || {
        C::send(&mut to, 1);
        black_box(C::recv::<u64>(&mut from));
    })
}

fn tube(kind: Kind) -> Box<dyn Pair> {
    let tube = Own::<u64>::plain(kind, SLOTS);
    let (to, from) = tube.ends();
    pair(move || {
        let _keep = &tube;
        to.send(1).expect("the receiver is there");
        black_box(from.recv().expect("the sender is there"));
    })
}

fn vyukov(sleepers: bool) -> Box<dyn Pair> {
    let ring = Vyukov::new(SLOTS as usize, sleepers);
    pair(move || {
        assert!(ring.push(1), "there is room");
        black_box(ring.pop());
    })
}

/// Makes the objects of a row; none if there is no such row.
///
/// # Panics
/// When an object cannot be made.
pub fn make(group: &str, row: &str) -> Option<Box<dyn Pair>> {
    let semaphore = || lock(Semaphore::new(1, Scope::Shared));
    Some(match (group, row) {
        ("pool", OURS) => {
            let pool = chappe::Pool::create("pool", 1).expect("a pool");
            pair(move || pool.acquire().expect("it is free").release())
        }
        ("semaphore", OURS) => lock(chappe::Semaphore::create("semaphore", 1).expect("a semaphore")),
        ("mutex", OURS) => add(chappe::Mutex::create("mutex", 0u64).expect("a mutex")),
        ("tube 1:1", OURS) => tube(Kind::Spsc),
        ("tube m:n", OURS) => tube(Kind::Mpmc),
        ("pool" | "semaphore", "sem_t, process-shared") => semaphore(),
        ("pool", "parking_lot::Mutex") => {
            let mutex = parking_lot::Mutex::new(());
            pair(move || drop(black_box(mutex.lock())))
        }
        ("semaphore", "counter: compare-and-swap, add") => lock(Counter::new(1)),
        ("mutex", "std::sync::Mutex") => add(std::sync::Mutex::new(0)),
        ("mutex", "parking_lot::Mutex") => add(parking_lot::Mutex::new(0)),
        ("mutex", "pthread mutex") => add(PthreadMutex::new(Flavour::Normal, Scope::Shared)),
        ("mutex", "pthread mutex, robust") => add(PthreadMutex::new(Flavour::Robust, Scope::Shared)),
        ("tube 1:1", "private tube, spsc") => channel::<Spsc>(),
        ("tube 1:1", "rtrb") => channel::<Rtrb>(),
        ("tube m:n", "private tube, mpmc") => channel::<Mpmc>(),
        ("tube m:n", "Vyukov's ring, with sleepers") => vyukov(true),
        ("tube m:n", "Vyukov's ring") => vyukov(false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::House;

    #[test]
    fn every_row_can_be_made_and_does_its_pair() {
        let _house = House::new("pairs");
        for (group, rows) in GROUPS {
            for row in rows.iter().chain(&[OURS]) {
                let mut pair = make(group, row).expect("a row that is named");
                assert!(pair.time(100) > 0.0, "{group}: {row}");
            }
        }
        assert!(make("pool", "no such row").is_none());
    }
}
