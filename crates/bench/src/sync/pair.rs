//! Uncontended pairs, one after the other, by one thread: down and up; lock, add one, unlock.
//!
//! The floor of each table is what any protocol pays that works between threads: a look at the word and two locked
//! operations, with nothing around them.

use crate::guarded::Guarded;
use crate::pair::guarded;
use crate::peers::{Flavour, Lock, PthreadMutex, Semaphore};
use crate::process::pin;
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, times};
use std::sync::atomic::{AtomicU64, Ordering};

const MANY: u32 = 10_000;
const MORE: u32 = 8;

fn floor(word: &AtomicU64) -> Case<'_> {
    Case::repeat("floor: load, two compare-and-swaps", MANY, || {
        // SeqCst: as dear as any other in a locked operation.
        let seen = word.load(Ordering::SeqCst);
        let taken = word.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::SeqCst);
        taken.and_then(|_| word.compare_exchange(seen + 1, seen, Ordering::SeqCst, Ordering::SeqCst))
    })
}

/// A down and an up.
fn units<'a, L: Lock>(name: impl Into<String>, semaphore: &'a L) -> Case<'a> {
    guarded(&name.into(), MANY, semaphore)
}

fn adds<'a, L: Guarded>(name: impl Into<String>, lock: &'a L) -> Case<'a> {
    Case::repeat(name, MANY, || lock.with(|n| *n += 1))
}

fn semaphores(kind: &str, scope: Scope, rounds: u32) -> Vec<Aim> {
    use chappe::Semaphore as Ours;
    let (strong, barging) = match scope {
        Scope::Private => (Ours::private(1), Ours::private_barging(1)),
        Scope::Shared => (Ours::create("pair-strong", 1), Ours::create_barging("pair-barging", 1)),
    };
    let (strong, barging) = (strong.expect("a semaphore"), barging.expect("a semaphore"));
    let (posix, word) = (Semaphore::new(1, scope), AtomicU64::new(0));
    let cases =
        vec![units("sem_t", &posix), units("semaphore", &strong), units("semaphore, barging", &barging), floor(&word)];
    let table = Table::measure(format!("uncontended down and up, {kind}"), rounds * MORE, cases);
    print!("{}", table.report());
    let aim = |row: &str| Aim::at_most(format!("pair, {row}, {kind}, to sem_t"), 0.85, table.ratio(row), times);
    vec![aim("semaphore"), aim("semaphore, barging")]
}

fn mutexes(kind: &str, scope: Scope, rounds: u32) -> Vec<Aim> {
    use chappe::Mutex as Ours;
    let ours = match scope {
        Scope::Private => Ours::private(0u64),
        Scope::Shared => Ours::create("pair-mutex", 0u64),
    };
    let (ours, word) = (ours.expect("a mutex"), AtomicU64::new(0));
    let (parking, std) = (parking_lot::Mutex::new(0), std::sync::Mutex::new(0));
    let pthread = [Flavour::Normal, Flavour::Robust, Flavour::Inheriting].map(|f| PthreadMutex::new(f, scope));
    let [normal, robust, inheriting] = &pthread;
    let mut cases = vec![adds("parking_lot::Mutex", &parking)];
    if scope == Scope::Private {
        cases.push(adds("std::sync::Mutex", &std));
    }
    cases.extend([
        adds("pthread mutex", normal),
        adds("pthread mutex, robust", robust),
        adds("pthread mutex, priority inheritance", inheriting),
        adds("mutex", &ours),
        floor(&word),
    ]);
    let table = Table::measure(format!("uncontended lock, add one, unlock, {kind}"), rounds * MORE, cases);
    print!("{}", table.report());
    if scope == Scope::Shared {
        println!("  mutex to robust pthread mutex: {}", times(table.ratio_to("mutex", "pthread mutex, robust")));
    }
    vec![Aim::at_most(format!("pair, mutex, {kind}, to parking_lot"), 1.0, table.ratio("mutex"), times)]
}

/// Measures and prints; the aims.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            let kinds = [("private", Scope::Private), ("named", Scope::Shared)];
            let mut aims: Vec<Aim> = kinds.iter().flat_map(|(kind, scope)| semaphores(kind, *scope, rounds)).collect();
            aims.extend(kinds.iter().flat_map(|(kind, scope)| mutexes(kind, *scope, rounds)));
            aims
        });
        measured.join().expect("the measuring thread")
    })
}
