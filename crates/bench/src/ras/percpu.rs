//! What is kept for each processor, beside what all processors share: by one thread, and by one on each of two processors.

use crate::peers::{self, Lock};
use crate::process::pin;
use crate::ras::both::{one, two};
use crate::ras::treiber::Treiber;
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, times};
use chappe::ras::sharded::ShardedSemaphore;
use chappe::ras::{Counter, FreeList, Index, PairCounter};
use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: u32 = 1024;
/// Many more than processors: what sharding is for.
const PERMITS: u32 = 1024;
const MORE: u32 = 4;

/// A line of its own: it has no neighbours.
#[repr(align(128))]
struct Shared(AtomicU64);

const XADD: &str = "lock xadd";
const COUNTER: &str = "Counter";
const TREIBER: &str = "Treiber's stack, tagged";
const FREE_LIST: &str = "FreeList";

/// An operation, by one thread or by two.
fn by<'a, R>(threads: usize, name: &str, operation: impl Fn() -> R + Sync + 'a) -> Case<'a> {
    if threads == 1 { one(name, operation) } else { two(name, operation) }
}

/// By what the processors' places are chosen, and what its rows are called.
const INDICES: [(Index, &str); 2] = [(Index::Cpu, ""), (Index::ConcurrencyId, ", by concurrency id")];

fn counters(threads: usize) -> Vec<Case<'static>> {
    let shared: &Shared = kept(Shared(AtomicU64::new(0)));
    // Relaxed: a count.
    let mut cases = vec![by(threads, XADD, || shared.0.fetch_add(1, Ordering::Relaxed))];
    for (index, what) in INDICES {
        let (one, two): (&Counter, &PairCounter) = (kept(Counter::new(index)), kept(PairCounter::new(index)));
        cases.push(by(threads, &format!("{COUNTER}{what}"), || one.add(1)));
        cases.push(by(threads, &format!("PairCounter{what}, both"), || two.add(1, 2)));
    }
    cases
}

fn lists(threads: usize) -> Vec<Case<'static>> {
    let treiber: &Treiber = kept(Treiber::new(PLACES));
    let take = || treiber.push(treiber.pop().expect("there are more than threads"));
    let mut cases = vec![by(threads, TREIBER, take)];
    for (index, what) in INDICES {
        let list: &FreeList<u64> = kept(FreeList::new(index, PLACES as usize, || 0));
        cases.push(by(threads, &format!("{FREE_LIST}{what}"), || {
            // Given back where it ends.
            list.take().expect("there are more than threads");
        }));
    }
    cases
}

fn semaphores(threads: usize) -> Vec<Case<'static>> {
    let (posix, strong): (&peers::Semaphore, &chappe::Semaphore) = (
        kept(peers::Semaphore::new(PERMITS, Scope::Private)),
        kept(chappe::Semaphore::private(PERMITS).expect("a semaphore")),
    );
    let sharded: &ShardedSemaphore = kept(ShardedSemaphore::private(PERMITS).expect("a semaphore"));
    vec![
        by(threads, "sem_t, private", || {
            posix.lock();
            posix.unlock();
        }),
        by(threads, "semaphore, private", || {
            strong.lock();
            strong.unlock();
        }),
        by(threads, "ShardedSemaphore", || {
            sharded.down().expect("it is not removed");
            sharded.up().expect("nobody raises it past its most");
        }),
    ]
}

/// As long as the program: a few, for each run of it.
fn kept<T>(object: T) -> &'static T {
    Box::leak(Box::new(object))
}

fn table(title: &str, rounds: u32, threads: usize, cases: fn(usize) -> Vec<Case<'static>>) -> Table {
    let (rounds, who) = match threads {
        1 => (rounds * MORE, "one thread"),
        _ => (rounds, "two processors"),
    };
    let title = format!("{title}: {who}");
    let measured = std::thread::spawn(move || {
        pin(0);
        Table::measure(title, rounds, cases(threads))
    });
    let table = measured.join().expect("the measuring thread");
    print!("{}", table.report());
    table
}

/// Measures and prints; the aims.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    for threads in [1, 2] {
        let who = if threads == 1 { "" } else { ", two processors" };
        let of = |what: &str, most, table: &Table, row: &str| {
            Aim::at_most(format!("per-processor {what}{who}"), most, table.ratio(row), times)
        };
        let counters = table("add 1 to a counter", rounds, threads, counters);
        aims.push(of("counter, to lock xadd", 0.5, &counters, COUNTER));
        let lists = table("pop and push of a free list", rounds, threads, lists);
        aims.push(of("free list, to Treiber's stack", 0.15, &lists, FREE_LIST));
        table("down and up, 1024 permits", rounds, threads, semaphores);
    }
    aims
}
