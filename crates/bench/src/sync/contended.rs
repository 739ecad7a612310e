//! Two, four and eight that want the same lock: how fast it goes round, how fairly, and how long one waits.
//!
//! Each of them is kept on one processor, in turns; it keeps the lock for some 20 ns or for a microsecond, and wants it
//! again after as long. The time an acquisition is taken in runs in which no thread looks at a clock; all else in runs
//! of their own.
//!
//! *Jain*: 1 if all got the same, 1/n if one got all. *most* and *least*: what the luckiest and the unluckiest got, as shares
//! of a fair one. *p99*: of all waits. These are medians over the rounds; *worst* is the worst wait of all rounds.

use crate::contend::{Board, Contest, Outcome, contend};
use crate::guarded::{Apart, Guarded};
use crate::handoff::Sides;
use crate::peers::{Flavour, PthreadMutex, Semaphore};
use crate::raw::Scope;
use crate::table::{Aim, Case, Column, Table, nanoseconds, times};
use std::cell::RefCell;
use std::time::Duration;

/// A contender: a name, and a contest held with its lock.
pub struct Contender<'a> {
    name: String,
    hold: Box<dyn Fn(Contest) -> Outcome + 'a>,
}

impl<'a> Contender<'a> {
    /// This lock.
    pub fn new(name: &str, lock: &'a impl Guarded, board: &'static Board) -> Contender<'a> {
        Contender { name: name.into(), hold: Box::new(move |contest| contend(lock, contest, board)) }
    }
}

fn median(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    let mut all: Vec<f64> = outcomes.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Holds the contest with each of them in turns, `rounds` times, and prints. Of several rounds also how long each waits: in contests of their
/// own, since the look at the clock takes time.
pub fn pit(title: String, rounds: u32, contest: Contest, contenders: &[Contender<'_>]) -> Table {
    let outcomes: Vec<RefCell<Vec<Outcome>>> = contenders.iter().map(|_| RefCell::default()).collect();
    let cases = contenders.iter().zip(&outcomes).map(|(one, outcomes)| {
        Case::new(one.name.clone(), || {
            let each = (one.hold)(contest).each;
            if rounds > 1 {
                outcomes.borrow_mut().push((one.hold)(Contest { timed: true, time: contest.time * 2, ..contest }));
            }
            each
        })
    });
    let table = Table::measure(title, rounds, cases.collect());
    if rounds <= 1 {
        print!("{}", table.report());
        return table;
    }
    // The first is the warm-up's.
    let outcomes: Vec<Vec<Outcome>> = outcomes.into_iter().map(|o| o.into_inner().split_off(1)).collect();
    let column =
        |head, cell: &dyn Fn(&[Outcome]) -> String| Column::new(head, outcomes.iter().map(|o| cell(o)).collect());
    let share = |of: fn(&Outcome) -> f64| move |o: &[Outcome]| format!("{:.2}", median(o, of));
    let worst = |o: &[Outcome]| o.iter().flat_map(|o| o.worst.iter().copied()).fold(0.0, f64::max);
    let columns = [
        column("Jain", &share(Outcome::jain)),
        column("most", &share(|o| o.luck().0)),
        column("least", &share(|o| o.luck().1)),
        column("p99", &|o| nanoseconds(median(o, |o| o.wait(0.99)))),
        column("worst", &|o| nanoseconds(worst(o))),
    ];
    print!("{}", table.report_with(&columns));
    table
}

/// How long each keeps the lock.
struct Length {
    name: &'static str,
    inside: fn(usize) -> u64,
    outside: u64,
}

const LENGTHS: [Length; 2] =
    [Length { name: "20 ns", inside: |_| 20, outside: 20 }, Length { name: "1 us", inside: |_| 1000, outside: 1000 }];
const WORKERS: [usize; 3] = [2, 4, 8];

fn contests(sides: Sides) -> impl Iterator<Item = (String, Contest)> {
    let who = if sides == Sides::Threads { "threads" } else { "processes" };
    WORKERS.into_iter().flat_map(move |workers| {
        LENGTHS.into_iter().map(move |Length { name, inside, outside }| {
            let time = Duration::from_millis(25);
            let contest = Contest { sides, workers, inside, outside, pinned: true, time, timed: false };
            (format!("{workers} {who}, {name}"), contest)
        })
    })
}

/// Measures and prints; the aims.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn measure(rounds: u32) -> Vec<Aim> {
    use chappe::{Mutex as OurMutex, Semaphore as OurSemaphore};
    let (board, rounds) = (Board::make(), (rounds / 3).max(3));
    let private = OurMutex::private(0u64).expect("a mutex");
    let named = OurMutex::create("contended", 0u64).expect("a mutex");
    let apart = |semaphore: Result<OurSemaphore, _>| Apart::new(semaphore.expect("a semaphore"));
    let (strong, barging) = (apart(OurSemaphore::private(1)), apart(OurSemaphore::private_barging(1)));
    let strong_named = apart(OurSemaphore::create("contended-strong", 1));
    let barging_named = apart(OurSemaphore::create_barging("contended-barging", 1));
    let (parking, std) = (parking_lot::Mutex::new(0), std::sync::Mutex::new(0));
    let normal = PthreadMutex::new(Flavour::Normal, Scope::Private);
    let robust = PthreadMutex::new(Flavour::Robust, Scope::Shared);
    let (own, all) = (Semaphore::new(1, Scope::Private), Semaphore::new(1, Scope::Shared));

    let mut aims = Vec::new();
    for (title, contest) in contests(Sides::Threads) {
        let contenders = [
            Contender::new("parking_lot::Mutex", &parking, board),
            Contender::new("std::sync::Mutex", &std, board),
            Contender::new("pthread mutex", &normal, board),
            Contender::new("mutex, private", &private, board),
            Contender::new("mutex, named", &named, board),
        ];
        let table = pit(format!("contended mutex, {title}"), rounds, contest, &contenders);
        for row in ["mutex, private", "mutex, named"] {
            let what = format!("contended {row}, {title}, to parking_lot");
            aims.push(Aim::at_most(what, 1.0, table.ratio(row), times));
        }
    }
    for (title, contest) in contests(Sides::Threads) {
        let contenders = [
            Contender::new("sem_t", &own, board),
            Contender::new("semaphore", &strong, board),
            Contender::new("semaphore, barging", &barging, board),
        ];
        pit(format!("contended semaphore of 1, {title}"), rounds, contest, &contenders);
    }
    for (title, contest) in contests(Sides::Processes) {
        let contenders = [
            Contender::new("pthread mutex, robust", &robust, board),
            Contender::new("mutex, named", &named, board),
            Contender::new("sem_t, process-shared", &all, board),
            Contender::new("semaphore, named", &strong_named, board),
            Contender::new("semaphore, named, barging", &barging_named, board),
        ];
        pit(format!("contended, {title}"), rounds, contest, &contenders);
    }
    aims
}
