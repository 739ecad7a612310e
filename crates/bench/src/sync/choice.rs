//! Choice among k semaphores, or k/2 semaphores and k/2 pools, with one ready and with none.
//!
//! *Ready*: one thread; the others' values are 0, and their permits held. Beside it `futex_waitv` that finds a word
//! changed. *Blocked*: a round trip in which the left side waits by a choice over k, one of which comes; beside it the
//! same of futex words, the left side waiting by `futex_waitv` on k words. Both sides sleep at once. Choices are set up
//! once (`Select`), as the list of words is.

use crate::choice::{place, waitv};
use crate::handoff::{Course, Sides, duel};
use crate::process::pin;
use crate::raw::{self, Scope, Waitv};
use crate::table::{Aim, Case, Table, times};
use chappe::{Permit, Pool, Role, Select, Semaphore, set_role};
use std::sync::atomic::AtomicU32;

const WIDTHS: [usize; 3] = [1, 4, 16];
const WIDEST: usize = 16;
const MANY: u32 = 2_000;

/// Semaphores without a unit and pools without a permit, and the one that comes.
struct Arms {
    kind: &'static str,
    coming: Semaphore,
    semaphores: Vec<Semaphore>,
    pools: Vec<Pool>,
}

impl Arms {
    fn new(kind: &'static str) -> Arms {
        let semaphore = |n: usize| match kind {
            "private" => Semaphore::private(0),
            _ => Semaphore::create(&format!("arm{n}"), 0),
        };
        let pool = |n: usize| match kind {
            "private" => Pool::private(1),
            _ => Pool::create(&format!("arm-pool{n}"), 1),
        };
        Arms {
            kind,
            coming: semaphore(WIDEST).expect("a semaphore"),
            semaphores: (0..WIDEST).map(|n| semaphore(n).expect("a semaphore")).collect(),
            pools: (0..WIDEST).map(|n| pool(n).expect("a pool")).collect(),
        }
    }

    fn hold(&self) -> Vec<Permit<'_>> {
        self.pools.iter().map(|p| p.acquire().expect("it is free")).collect()
    }

    /// A choice of k, of which every other is a pool if mixed; the one that comes at its place.
    fn select(&self, k: usize, mixed: bool) -> Select<'_> {
        let mut select = Select::new();
        for n in 0..k {
            match n {
                _ if n == place(k) => select.down(&self.coming),
                _ if mixed && n % 2 == 1 => select.acquire(&self.pools[n]),
                _ => select.down(&self.semaphores[n]),
            };
        }
        select
    }
}

fn name(mixed: bool, kind: &str) -> String {
    format!("Select, {}, {kind}", if mixed { "semaphores and pools" } else { "semaphores" })
}

fn ready(kinds: &[Arms], rounds: u32) {
    let _held: Vec<_> = kinds.iter().map(Arms::hold).collect();
    let words: Vec<AtomicU32> = (0..WIDEST as u32).map(|n| AtomicU32::new(u32::from(n as usize != 0))).collect();
    for k in WIDTHS {
        let list: Vec<Waitv> = words[..k].iter().map(|w| Waitv::new(w, 1, Scope::Private)).collect();
        let mut cases = vec![Case::repeat("futex_waitv, one word changed", MANY, move || raw::wait_any(&list))];
        for arms in kinds {
            for mixed in [false, true] {
                let select = arms.select(k, mixed);
                cases.push(Case::repeat(format!("{} and up", name(mixed, arms.kind)), MANY, move || {
                    arms.coming.up().expect("it takes one");
                    select.wait().expect("one is ready").index()
                }));
            }
        }
        print!("{}", Table::measure(format!("choice, one ready, k = {k}"), rounds * 4, cases).report());
    }
}

fn any(course: Course, there: &Semaphore, arms: &Arms, k: usize, mixed: bool) -> f64 {
    let _held = arms.hold();
    duel(
        course,
        |start| {
            set_role(Role::Sleeper);
            let select = arms.select(k, mixed);
            start();
            for _ in 0..course.trips {
                there.up().expect("it takes one");
                assert_eq!(select.wait().expect("a unit").index(), place(k));
            }
        },
        |start| {
            set_role(Role::Sleeper);
            start();
            for _ in 0..course.trips {
                there.down().expect("a unit");
                arms.coming.up().expect("it takes one");
            }
        },
    )
}

fn blocked(kinds: &[Arms; 2], rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    let there = [Semaphore::private(0), Semaphore::create("arm-there", 0)].map(|s| s.expect("a semaphore"));
    for k in WIDTHS {
        for (sides, between, at, scope) in
            [(Sides::Threads, "threads", 0, Scope::Private), (Sides::Processes, "processes", 1, Scope::Shared)]
        {
            let course = Course { sides, on: (0, 0), trips: 500 };
            let (arms, there) = (&kinds[at], &there[at]);
            let mut cases = vec![Case::new("raw futex_waitv", move || waitv(course, k, scope))];
            for mixed in [false, true] {
                let row = name(mixed, arms.kind);
                cases.push(Case::new(row, move || any(course, there, arms, k, mixed)));
            }
            let title = format!("choice, blocked, round trip, {between}, k = {k}");
            let table = Table::measure(title, rounds * 2, cases);
            print!("{}", table.report());
            if k == WIDEST {
                aims.extend([false, true].map(|mixed| {
                    let what = if mixed { "semaphores and pools" } else { "semaphores" };
                    let what = format!("blocked choice over 16 {what}, {between}, to raw futex_waitv");
                    Aim::at_most(what, 1.0, table.ratio(&name(mixed, arms.kind)), times)
                }));
            }
        }
    }
    aims
}

/// Measures and prints; the aims.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let kinds = ["private", "named"].map(Arms::new);
    std::thread::scope(|s| {
        let ready = s.spawn(|| {
            pin(0);
            ready(&kinds, rounds);
        });
        ready.join().expect("the measuring thread");
    });
    blocked(&kinds, rounds)
}
