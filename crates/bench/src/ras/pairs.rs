//! Lock and unlock, by one thread without interference: with the bias, and without.

use crate::guarded::Guarded;
use crate::pair::guarded;
use crate::peers::Semaphore;
use crate::process::pin;
use crate::ras::again::{Again, NO_BIAS, tell_all};
use crate::ras::locks::{CPU, Locks, MUTEX, PLAIN, POOL, PTHREAD, of_each};
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, nanoseconds, times};
use std::sync::atomic::{AtomicU32, Ordering};

/// The name of this part, for [`Again`].
pub const PART: &str = "pairs";

const MANY: u32 = 10_000;
const MORE: u32 = 8;
const FLOOR: &str = "floor: lock cmpxchg, xchg";

fn floor(word: &AtomicU32) -> Case<'_> {
    Case::repeat(FLOOR, MANY, || {
        // SeqCst: as dear as any other in a locked operation.
        let taken = word.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        word.swap(0, Ordering::SeqCst);
        taken
    })
}

/// A lock and an unlock.
pub fn bare<'a>(name: &str, lock: &'a impl Guarded) -> Case<'a> {
    Case::repeat(name, MANY, || lock.with(|_| ()))
}

/// By one thread, on the first processor.
fn alone<'a>(title: &str, rounds: u32, make: impl FnOnce() -> Vec<Case<'a>> + Send) -> Table {
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            Table::measure(title, rounds * MORE, make())
        });
        measured.join().expect("the measuring thread")
    })
}

fn biased(rounds: u32) -> Vec<Aim> {
    let (l, word, posix) = (&Locks::new(), AtomicU32::new(0), Semaphore::new(1, Scope::Private));
    let table = alone("uncontended lock and unlock", rounds, || {
        let mut cases = of_each!(l, [pthread, std, parking, plain, mutex, pool, cpu], |name, lock| bare(name, lock));
        cases.push(guarded("sem_t, private", MANY, &posix));
        cases.push(floor(&word));
        cases
    });
    print!("{}", table.report());
    let mut aims = Vec::new();
    for name in [MUTEX, POOL, CPU] {
        let median = table.row(name).quantile(0.5);
        aims.push(Aim::at_most(format!("biased pair, {name}"), 1.5, median, nanoseconds));
        aims.push(Aim::at_most(format!("biased pair, {name}, to {PTHREAD}"), 0.1, table.ratio(name), times));
    }
    aims
}

/// The part that is a program of its own: the locks as they are there.
pub fn part(rounds: u32) {
    let (l, word) = (&Locks::new(), AtomicU32::new(0));
    tell_all(&alone("", rounds, || {
        let mut cases = of_each!(l, [plain, mutex, pool, cpu], |name, lock| bare(name, lock));
        cases.push(floor(&word));
        cases
    }));
}

fn fallen_back(again: &Again, rounds: u32) -> Vec<Aim> {
    let rows = match again.run(&[NO_BIAS], &[PART, &rounds.to_string()]) {
        Ok(rows) => rows,
        Err(why) => {
            println!("\nnot measured: uncontended lock and unlock, bias off: {why}");
            return Vec::new();
        }
    };
    let table = Table::of("uncontended lock and unlock, bias off", rows);
    print!("{}", table.report());
    let aim = |name: &str| Aim::at_most(format!("after fallback, {name}, to {PLAIN}"), 1.15, table.ratio(name), times);
    [MUTEX, POOL, CPU].iter().map(|name| aim(name)).collect()
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a lock cannot be made.
pub fn measure(again: &Again, rounds: u32) -> Vec<Aim> {
    let mut aims = biased(rounds);
    aims.extend(fallen_back(again, rounds));
    aims
}
