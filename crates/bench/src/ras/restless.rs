//! Locks that do not stay with one thread on one processor: hammered from two, moved with a thread from one to the other, and
//! handed to and fro.

use crate::contend::{Board, Contest};
use crate::guarded::Guarded;
use crate::handoff::{Course, Sides, duel};
use crate::process::pin;
use crate::ras::locks::{CPU, Locks, MUTEX, PARKING, PLAIN, of_each};
use crate::sync::contended::{Contender, pit};
use crate::table::{Aim, Case, Column, Table, nanoseconds, times};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn hammered(locks: &Locks, rounds: u32) -> Vec<Aim> {
    let board = Board::make();
    let contenders = of_each!(locks, [parking, std, pthread, plain, mutex, pool, cpu], |name, lock| Contender::new(
        name, lock, board
    ));
    let time = Duration::from_millis(25);
    let contest =
        Contest { sides: Sides::Threads, workers: 2, inside: |_| 0, outside: 0, pinned: true, time, timed: false };
    let table = pit("one lock, hammered from two processors".into(), rounds, contest, &contenders);
    let aim = |name: &str| Aim::at_most(format!("hammered, {name}, to {PARKING}"), 1.0, table.ratio(name), times);
    // Not of the pool: it serves in the order of arrival.
    [MUTEX, CPU].iter().map(|name| aim(name)).collect()
}

/// So many pairs between two moves.
const BETWEEN: u32 = 1000;
const MOVES: usize = 40;

/// Nanoseconds a pair: without the moves, and with them.
fn move_about(lock: &impl Guarded) -> (f64, f64) {
    let (began, mut pairs) = (Instant::now(), Duration::ZERO);
    for n in 0..MOVES {
        pin(n);
        let began = Instant::now();
        (0..BETWEEN).for_each(|_| lock.with(|_| ()));
        pairs += began.elapsed();
    }
    let each = |d: Duration| d.as_nanos() as f64 / (MOVES as f64 * f64::from(BETWEEN));
    (each(pairs), each(began.elapsed()))
}

fn moved(locks: &Locks, rounds: u32) -> Vec<Aim> {
    let (table, with_moves) = std::thread::scope(|s| {
        let measured = s.spawn(|| {
            let with_moves: RefCell<Vec<(&str, f64)>> = RefCell::default();
            let cases = of_each!(locks, [plain, pthread, std, parking, mutex, pool, cpu], |name, lock| {
                let with_moves = &with_moves;
                Case::new(name, move || {
                    let (without, with) = move_about(lock);
                    with_moves.borrow_mut().push((name, with));
                    without
                })
            });
            let table = Table::measure(format!("a thread that moves every {BETWEEN} pairs"), rounds * 2, cases);
            (table, with_moves.into_inner())
        });
        measured.join().expect("the measuring thread")
    });
    let least = |name: &str| with_moves.iter().filter(|(n, _)| *n == name).map(|(_, ns)| *ns).fold(f64::MAX, f64::min);
    let cells = table.names().map(|n| nanoseconds(least(n))).collect();
    print!("{}", table.report_with(&[Column::new("+ move", cells)]));
    println!("  the moves themselves are not counted, what they do to the locks is; `+ move`: with them, the least");
    let aim = |name: &str| {
        Aim::at_most(format!("moved every 1,000 pairs, {name}, to {PLAIN}"), 0.7, table.ratio(name), times)
    };
    vec![aim(CPU), aim(MUTEX)]
}

/// Pairs of a run, both sides together.
const ALL: u32 = 200_000;

/// Looks, and lets others run if that takes long: on a busy machine the other one may not.
fn await_turn(turn: &AtomicU32, me: u32) {
    let mut looks = 0u32;
    // Acquire: pairs with the other side's release store of the turn.
    while turn.load(Ordering::Acquire) != me {
        looks += 1;
        if looks.is_multiple_of(1000) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Two threads on two processors in turns, so many pairs each time; nanoseconds a pair.
fn turns(lock: &impl Guarded, pairs: u32) -> f64 {
    let turn = &AtomicU32::new(0);
    let course = Course { sides: Sides::Threads, on: (0, 1), trips: (ALL / pairs / 2).max(1) };
    let side = |me: u32| {
        move |meet: &dyn Fn()| {
            meet();
            for _ in 0..course.trips {
                await_turn(turn, me);
                (0..pairs).for_each(|_| lock.with(|n| *n += 1));
                // Release: pairs with the other's acquire in `await_turn`.
                turn.store(1 - me, Ordering::Release);
            }
        }
    };
    duel(course, side(0), side(1)) / f64::from(2 * pairs)
}

fn in_turns(rounds: u32) {
    for pairs in [100, 1000, 10_000] {
        let locks = Locks::new();
        let cases =
            of_each!(locks, [plain, pthread, std, parking, mutex, pool, cpu], |name, lock| Case::new(name, || {
                turns(lock, pairs)
            }));
        print!("{}", Table::measure(format!("two threads in turns, {pairs} pairs each time"), rounds, cases).report());
    }
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a lock lets two in at once.
pub fn measure(rounds: u32) -> Vec<Aim> {
    // Each with fresh ones: ours learn from what is done to them.
    let mut aims = hammered(&Locks::new(), (rounds / 2).max(3));
    aims.extend(moved(&Locks::new(), rounds));
    in_turns(rounds);
    aims
}
