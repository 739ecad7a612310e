//! There and back: two threads, or two processes, that wake each other in turns.
//!
//! Semaphores: one for each way. Mutexes and condition variables: one of each, and a number that says whose turn it is.
//!
//! *asleep*: both sides sleep at once. *spinning*: neither ever sleeps (ours, in the role of an application core); what
//! chooses for itself how long to spin stands beside it.

use crate::handoff::{Course, Sides, duel, flag, futex, semaphores};
use crate::machine::processors;
use crate::peers::{Lock, Semaphore};
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, times};
use crate::turns::{Ours, Parking, Pthread, Std, Turns};
use chappe::{Role, set_role};

/// A round trip of turns.
fn turns(course: Course, turns: &impl Turns, role: Role) -> f64 {
    turns.reset();
    let trips = u64::from(course.trips);
    duel(
        course,
        |start| {
            set_role(role);
            start();
            for trip in 0..trips {
                turns.pass(2 * trip + 1);
                turns.wait(2 * trip + 2);
            }
        },
        |start| {
            set_role(role);
            start();
            for trip in 0..trips {
                turns.wait(2 * trip + 1);
                turns.pass(2 * trip + 2);
            }
        },
    )
}

type Two<S> = [S; 2];

fn units<'a, S: Lock>(name: &str, course: Course, [there, back]: &'a Two<S>, role: Role) -> Case<'a> {
    Case::new(name, move || semaphores(course, there, back, role))
}

fn turn<'a, T: Turns>(name: &str, course: Course, by: &'a T, role: Role) -> Case<'a> {
    Case::new(name, move || turns(course, by, role))
}

/// What the tables are about, for one kind of sides.
struct Objects {
    sides: Sides,
    who: &'static str,
    scope: Scope,
    strong: Two<chappe::Semaphore>,
    barging: Two<chappe::Semaphore>,
    posix: Two<Semaphore>,
    ours: Ours,
}

impl Objects {
    fn private() -> Objects {
        let two = |make: fn(u32) -> _| [0, 1].map(|_| Result::expect(make(0), "a semaphore"));
        Objects {
            sides: Sides::Threads,
            who: "threads",
            scope: Scope::Private,
            strong: two(chappe::Semaphore::private),
            barging: two(chappe::Semaphore::private_barging),
            posix: [0, 1].map(|_| Semaphore::new(0, Scope::Private)),
            ours: Ours(
                chappe::Mutex::private(0).expect("a mutex"),
                chappe::Condvar::private().expect("a condition variable"),
            ),
        }
    }

    fn named() -> Objects {
        let strong = ["there", "back"].map(|n| chappe::Semaphore::create(n, 0).expect("a semaphore"));
        let barging = ["there-b", "back-b"].map(|n| chappe::Semaphore::create_barging(n, 0).expect("a semaphore"));
        Objects {
            sides: Sides::Processes,
            who: "processes",
            scope: Scope::Shared,
            strong,
            barging,
            posix: [0, 1].map(|_| Semaphore::new(0, Scope::Shared)),
            ours: Ours(
                chappe::Mutex::create("turn", 0).expect("a mutex"),
                chappe::Condvar::create("turned").expect("a condition variable"),
            ),
        }
    }
}

/// Measures and prints; the aims.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    let kinds = [Objects::private(), Objects::named()];
    let (std, parking, pthread) = (Std::default(), Parking::default(), Pthread::new());
    for (place, on, trips) in [("same processor", (0, 0), 1_000), ("two processors", (0, 1), 500)] {
        if on.1 >= processors() {
            println!("\n{place}: this machine has one");
            continue;
        }
        for o in &kinds {
            let course = Course { sides: o.sides, on, trips };
            let scope = o.scope;
            let mut cases = vec![
                Case::new("raw futex", move || futex(course, scope)),
                units("semaphore", course, &o.strong, Role::Sleeper),
                units("semaphore, barging", course, &o.barging, Role::Sleeper),
                units("sem_t", course, &o.posix, Role::Sleeper),
                turn("mutex and condition variable", course, &o.ours, Role::Sleeper),
            ];
            if o.sides == Sides::Threads {
                cases.push(turn("std, mutex and condition variable", course, &std, Role::Sleeper));
                cases.push(turn("parking_lot, mutex and condition variable", course, &parking, Role::Sleeper));
            } else {
                cases.push(turn("pthread, robust mutex and condition variable", course, &pthread, Role::Sleeper));
            }
            let table = Table::measure(format!("round trip asleep, {}, {place}", o.who), rounds, cases);
            print!("{}", table.report());
            let what = format!("round trip asleep, semaphore, {}, {place}, to raw futex", o.who);
            aims.push(Aim::at_most(what, 1.15, table.ratio("semaphore"), times));
        }
        if on.0 == on.1 {
            continue;
        }
        let [private, named] = &kinds;
        let threads = Course { sides: Sides::Threads, on, trips: 2_000 };
        let processes = Course { sides: Sides::Processes, ..threads };
        let cases = vec![
            Case::new("a cache line there and back", move || flag(processes)),
            units("semaphore, threads", threads, &private.strong, Role::Spin),
            units("semaphore, processes", processes, &named.strong, Role::Spin),
            turn("mutex and condition variable, threads", threads, &private.ours, Role::Spin),
            units("semaphore, threads, adaptive", threads, &private.strong, Role::TimeSharing),
            units("semaphore, processes, adaptive", processes, &named.strong, Role::TimeSharing),
            turn("mutex and condition variable, adaptive", threads, &private.ours, Role::TimeSharing),
        ];
        print!("{}", Table::measure(format!("round trip spinning, {place}"), rounds * 2, cases).report());
    }
    aims
}
