//! Passing a permit to and fro between two threads, or two processes, on one processor or two.
//!
//! A permit belongs to its holder, so two sides cannot pass one back and forth as they could a semaphore's. Instead
//! three pools of one permit go round, and each side always holds one or two of them:
//!
//! ```text
//!   left   holds 0 1     gives 0, waits for 2     gives 1, waits for 0    ...
//!   right  holds 2       has 0, gives 2, waits for 1 ...
//! ```
//!
//! A side that waits for a pool waits for one that the other side holds until it has been given the one before: neither can overtake, each
//! give is one hand-off, and a round trip is two, as in the futex ping-pong beside it.
//!
//! *asleep*: both sides sleep at once. *spinning*: neither ever sleeps; the baseline then is a flag that two
//! processors write in turns, which is the round trip of a cache line.

use crate::house::House;
use crate::machine::processors;
use crate::peers::{Lock, Semaphore};
use crate::process::{Child, now, pin, shared};
use crate::raw::{self, Scope};
use crate::table::{Aim, Case, Table, times};
use chappe::{Permit, Pool, Role, set_role};
use std::sync::atomic::{AtomicU32, Ordering};

/// What we take for "close to" the round trip of a cache line.
const CLOSE: f64 = 2.0;

/// What the two sides are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Threads of this process.
    Threads,
    /// This process and a forked one.
    Processes,
}

/// Both sides wait here for each other.
struct Start(&'static AtomicU32);

impl Start {
    fn new() -> Start {
        Start(shared::<AtomicU32>())
    }

    fn meet(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        while self.0.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    }
}

/// In place of a processor: wherever the scheduler likes.
pub const ANYWHERE: usize = usize::MAX;

fn settle(on: usize) {
    if on != ANYWHERE {
        pin(on);
    }
}

/// Where each side runs, and how it waits.
#[derive(Clone, Copy)]
pub struct Course {
    /// Threads or processes.
    pub sides: Sides,
    /// The processor of the left side, and that of the right; or [`ANYWHERE`].
    pub on: (usize, usize),
    /// Round trips a run.
    pub trips: u32,
}

/// Runs both sides at once, from a common start; nanoseconds a round trip, as the left side sees it.
///
/// Each side gets a function that waits for the other.
///
/// # Panics
/// When a side panics.
pub fn duel(course: Course, left: impl FnOnce(&dyn Fn()) + Send, right: impl FnOnce(&dyn Fn()) + Send) -> f64 {
    let start = Start::new();
    let timed = || {
        settle(course.on.0);
        let began = std::cell::Cell::new(0);
        left(&|| {
            start.meet();
            began.set(now());
        });
        (now() - began.get()) as f64 / f64::from(course.trips)
    };
    let other = || {
        settle(course.on.1);
        right(&|| start.meet());
    };
    match course.sides {
        Sides::Threads => std::thread::scope(|s| {
            s.spawn(other);
            s.spawn(timed).join().expect("the left side")
        }),
        Sides::Processes => {
            let child = Child::fork(other);
            let ns = std::thread::scope(|s| s.spawn(timed).join().expect("the left side"));
            assert_eq!(child.end(), 0, "the right side");
            ns
        }
    }
}

/// The least: words and futexes, both sides asleep.
pub fn futex(course: Course, scope: Scope) -> f64 {
    let turn = shared::<AtomicU32>();
    duel(
        course,
        |start| {
            start();
            for trip in 0..course.trips {
                pass(turn, 2 * trip + 1, scope);
                await_turn(turn, 2 * trip + 2, scope);
            }
        },
        |start| {
            start();
            for trip in 0..course.trips {
                await_turn(turn, 2 * trip + 1, scope);
                pass(turn, 2 * trip + 2, scope);
            }
        },
    )
}

/// Says that it is the other side's turn.
pub fn pass(turn: &AtomicU32, next: u32, scope: Scope) {
    // Release: the other side sees what we did in our turn.
    turn.store(next, Ordering::Release);
    raw::wake(turn, scope);
}

/// Sleeps until it is ours.
pub fn await_turn(turn: &AtomicU32, ours: u32, scope: Scope) {
    // Acquire: pairs with the store in `pass`.
    while turn.load(Ordering::Acquire) != ours {
        raw::wait(turn, ours.wrapping_sub(1), scope);
    }
}

/// The least for sides that spin: a cache line there and back.
pub fn flag(course: Course) -> f64 {
    let turn = shared::<AtomicU32>();
    // Release: pairs with the load in `raw::spin`.
    let say = |value| turn.store(value, Ordering::Release);
    duel(
        course,
        |start| {
            start();
            for trip in 0..course.trips {
                say(2 * trip + 1);
                raw::spin(turn, 2 * trip + 2);
            }
        },
        |start| {
            start();
            for trip in 0..course.trips {
                raw::spin(turn, 2 * trip + 1);
                say(2 * trip + 2);
            }
        },
    )
}

/// Two semaphores, one for each way.
pub fn semaphores(course: Course, there: &impl Lock, back: &impl Lock, role: Role) -> f64 {
    duel(
        course,
        |start| {
            set_role(role);
            start();
            for _ in 0..course.trips {
                there.unlock();
                back.lock();
            }
        },
        |start| {
            set_role(role);
            start();
            for _ in 0..course.trips {
                there.lock();
                back.unlock();
            }
        },
    )
}

/// The left side of the round of pools. `acquire` takes the pool of this number, however it likes.
pub fn left<'a>(pools: &'a [Pool], trips: u32, start: &dyn Fn(), acquire: impl Fn(usize) -> Permit<'a>) {
    let mut held = [Some(acquire(0)), Some(acquire(1)), None];
    start();
    for trip in 0..trips as usize {
        held[trip % pools.len()] = None;
        let next = (trip + 2) % pools.len();
        held[next] = Some(acquire(next));
    }
}

/// The right side.
///
/// # Panics
/// When a pool is gone.
pub fn right(pools: &[Pool], trips: u32, start: &dyn Fn()) {
    let acquire = |n: usize| pools[n].acquire().expect("a permit");
    let mut held = [None, None, Some(acquire(2))];
    start();
    for trip in 0..trips as usize {
        held[trip % 3] = Some(acquire(trip % 3));
        held[(trip + 2) % 3] = None;
    }
}

fn pool(course: Course, pools: &[Pool], role: Role) -> f64 {
    duel(
        course,
        |start| {
            set_role(role);
            left(pools, course.trips, start, |n| pools[n].acquire().expect("a permit"));
        },
        |start| {
            set_role(role);
            right(pools, course.trips, start);
        },
    )
}

/// Three pools of one permit: private, or named after `name`.
///
/// # Panics
/// When a pool cannot be made.
pub fn ring(name: Option<&str>) -> Vec<Pool> {
    let make = |n: usize| match name {
        Some(name) => Pool::create(&format!("{name}{n}"), 1),
        None => Pool::private(1),
    };
    (0..3).map(|n| make(n).expect("a pool")).collect()
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a pool cannot be made.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    let (private, named) = (ring(None), ring(Some("handoff")));
    let (private, named) = (&private[..], &named[..]);
    let posix = [Semaphore::new(0, Scope::Shared), Semaphore::new(0, Scope::Shared)];
    let [there, back] = &posix;
    for (place, on, trips) in [("same processor", (0, 0), 1_000), ("two processors", (0, 1), 500)] {
        if on.1 >= processors() {
            println!("\n{place}: this machine has one");
            continue;
        }
        for (sides, who, scope, pools) in [
            (Sides::Threads, "threads", Scope::Private, private),
            (Sides::Processes, "processes", Scope::Shared, named),
        ] {
            let course = Course { sides, on, trips };
            let mut cases = vec![
                Case::new("raw futex", move || futex(course, scope)),
                Case::new("pool", move || pool(course, pools, Role::Sleeper)),
            ];
            if sides == Sides::Processes {
                cases.push(Case::new("sem_t", move || semaphores(course, there, back, Role::Sleeper)));
            }
            let table = Table::measure(format!("round trip asleep, {who}, {place}"), rounds * 2, cases);
            print!("{}", table.report());
            let what = format!("round trip asleep, {who}, {place}, to raw futex");
            aims.push(Aim::at_most(what, 1.15, table.ratio("pool"), times));
        }
        if on.0 == on.1 {
            continue;
        }
        let threads = Course { sides: Sides::Threads, on, trips: 2_000 };
        let processes = Course { sides: Sides::Processes, ..threads };
        let spinning = Table::measure(
            format!("round trip spinning, {place}"),
            rounds * 4,
            vec![
                Case::new("a cache line there and back", move || flag(processes)),
                Case::new("pool, threads, private", move || pool(threads, private, Role::Spin)),
                Case::new("pool, processes, named", move || pool(processes, named, Role::Spin)),
                Case::new("pool, threads, private, adaptive", move || pool(threads, private, Role::TimeSharing)),
            ],
        );
        print!("{}", spinning.report());
        for row in ["pool, threads, private", "pool, processes, named"] {
            let what = format!("round trip spinning, {row}, to a cache line's");
            aims.push(Aim::at_most(what, CLOSE, spinning.ratio(row), times));
        }
    }
    aims
}
