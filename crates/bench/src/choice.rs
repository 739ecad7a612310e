//! Choice among k pools, with one ready and with none.
//!
//! *Ready*: one thread, all others of the k held by another thread. Beside it a scan of k plain words that takes the
//! free one by compare-and-swap (the floor: no order, no deaths, no permits), and a `futex_waitv` that finds a word
//! changed (what a program pays that asks the kernel).
//!
//! *Blocked*: the round of the hand-off table, in which the left side waits by a choice over k pools of which one is
//! the round's and the others never come free. Beside it the same round of futex words, in which the left side waits
//! by `futex_waitv` on k words, set up once, as fast as it can be used. Both sides sleep at once.

use crate::handoff::{Course, Sides, await_turn, duel, left, pass, right, ring};
use crate::house::House;
use crate::process::shared;
use crate::raw::{self, Scope, Waitv};
use crate::table::{Aim, Case, Table, times};
use chappe::{Permit, Pool, Role, acquire_any, set_role};
use std::sync::atomic::{AtomicU32, Ordering};

const WIDTHS: [usize; 4] = [1, 4, 16, 64];
const MANY: u32 = 2_000;
/// As many arms as the widest choice has.
pub const MOST: usize = 64;

/// The one that counts, among k arms or words: any place, and the same for all.
pub fn place(k: usize) -> usize {
    k * 2 / 3
}

fn pools(kind: &str, count: usize) -> Vec<Pool> {
    let make = |n: usize| match kind {
        "private" => Pool::private(1),
        _ => Pool::create(&format!("choice{n}"), 1),
    };
    (0..count).map(|n| make(n).expect("a pool")).collect()
}

fn ready(kinds: &[(&str, Vec<Pool>)], rounds: u32) {
    let words: Vec<AtomicU32> = (0..MOST).map(|_| AtomicU32::new(1)).collect();
    let words = &words[..];
    let hold = kinds.iter().flat_map(|(_, pools)| pools.iter().map(|p| p.acquire().expect("it is free")));
    let mut held: Vec<Option<Permit<'_>>> = hold.map(Some).collect();
    for k in WIDTHS {
        let at = place(k);
        // SeqCst on the words here and below: no other thread touches them.
        words[at].store(0, Ordering::SeqCst);
        let mut cases = vec![Case::repeat("scan of k words, compare-and-swap", MANY, move || {
            let free = |w: &&AtomicU32| w.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if let Some(word) = words[..k].iter().find(free) {
                word.store(0, Ordering::SeqCst);
            }
        })];
        let list: Vec<Waitv> = words[..k].iter().map(|w| Waitv::new(w, 1, Scope::Private)).collect();
        cases.push(Case::repeat("futex_waitv, one word changed", MANY, move || raw::wait_any(&list)));
        for (n, (kind, pools)) in kinds.iter().enumerate() {
            held[n * MOST + at] = None;
            let arms: Vec<&Pool> = pools[..k].iter().collect();
            cases.push(Case::repeat(format!("acquire_any and release, {kind}"), MANY, move || {
                acquire_any(&arms).expect("one is free").1.release();
            }));
        }
        print!("{}", Table::measure(format!("choice, one ready, k = {k}"), rounds * 4, cases).report());
        words[at].store(1, Ordering::SeqCst);
        for (n, (_, pools)) in kinds.iter().enumerate() {
            held[n * MOST + at] = Some(pools[at].acquire().expect("it is free"));
        }
    }
}

/// A round trip in which the left side waits by `futex_waitv` on k words.
pub fn waitv(course: Course, k: usize, scope: Scope) -> f64 {
    let words = shared::<[AtomicU32; MOST]>();
    let turn = &words[place(k)];
    duel(
        course,
        |start| {
            let mut list: Vec<Waitv> = words[..k].iter().map(|w| Waitv::new(w, 0, scope)).collect();
            start();
            for trip in 0..course.trips {
                pass(turn, 2 * trip + 1, scope);
                list[place(k)].expect(2 * trip + 1);
                // Acquire: pairs with the other side's `pass`.
                while turn.load(Ordering::Acquire) != 2 * trip + 2 {
                    raw::wait_any(&list);
                }
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

fn any(course: Course, k: usize, round: &[Pool], others: &[Pool]) -> f64 {
    let _held: Vec<_> = others.iter().map(|p| p.acquire().expect("it is free")).collect();
    duel(
        course,
        |start| {
            set_role(Role::Sleeper);
            let arms: Vec<Vec<&Pool>> = round
                .iter()
                .map(|pool| {
                    let mut arms: Vec<&Pool> = others[..k - 1].iter().collect();
                    arms.insert(place(k), pool);
                    arms
                })
                .collect();
            left(round, course.trips, start, |n| acquire_any(&arms[n]).expect("a permit").1);
        },
        |start| {
            set_role(Role::Sleeper);
            right(round, course.trips, start);
        },
    )
}

fn blocked(kinds: &[(&str, Vec<Pool>)], rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    let round = [("private", ring(None)), ("named", ring(Some("round")))];
    for k in WIDTHS {
        for (sides, who, scope) in [(Sides::Threads, 0, Scope::Private), (Sides::Processes, 1, Scope::Shared)] {
            let course = Course { sides, on: (0, 0), trips: 500 };
            let (kind, round) = (round[who].0, &round[who].1[..]);
            let others = &kinds[who].1[..];
            let between = if who == 0 { "threads" } else { "processes" };
            let table = Table::measure(
                format!("choice, blocked, round trip, {between}, k = {k}"),
                rounds * 2,
                vec![
                    Case::new("raw futex_waitv", move || waitv(course, k, scope)),
                    Case::new(format!("acquire_any, {kind}"), move || any(course, k, round, others)),
                ],
            );
            print!("{}", table.report());
            if k == 16 {
                let ratio = table.ratio(&format!("acquire_any, {kind}"));
                aims.push(Aim::at_most(
                    format!("blocked choice over 16, {between}, to raw futex_waitv"),
                    1.0,
                    ratio,
                    times,
                ));
            }
        }
    }
    aims
}

/// Measures and prints; the aims.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    let kinds = ["private", "named"].map(|kind| (kind, pools(kind, MOST)));
    std::thread::scope(|s| {
        let ready = s.spawn(|| {
            crate::process::pin(0);
            ready(&kinds, rounds);
        });
        ready.join().expect("the measuring thread");
    });
    blocked(&kinds, rounds)
}
