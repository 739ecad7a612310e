//! How soon a sender goes on that a full channel has stopped: from when the receiver takes one to the sender's return.
//!
//! The receiver sleeps for a random time between takes, so that the sender has waited for a while, short or long. Both
//! run wherever the scheduler likes.

use crate::handoff::{ANYWHERE, Course, Sides, await_turn, duel, pass};
use crate::process::{now, shared};
use crate::raw::Scope;
use crate::table::{Aim, Table, nanoseconds};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Std};
use crate::tube::clock::{punctual, sleep_until};
use crate::tube::named::{Moved, Own, Way};
use crate::tube::ours::{Mpmc, Spsc};
use crate::tube::wire::Wire;
use chappe::Role;
use chappe::tube::named::Kind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const CAPACITY: usize = 16;
/// Takes, each time that a row has its turn.
const TAKES: u32 = 100;
/// Nanoseconds for which the receiver sleeps at most.
const LONGEST: u64 = 200_000;

static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

/// A number below `most`, by xorshift: the same ones in every run. One asks at a time.
fn random(most: u64) -> u64 {
    let mut x = SEED.load(Ordering::SeqCst);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    SEED.store(x, Ordering::SeqCst);
    x % most
}

/// Nanoseconds from each take to the end of the wait for it. Each side makes what it does where it does it.
fn waits<W: FnMut(u32), T: FnMut(u32)>(
    sides: Sides,
    sender: impl FnOnce() -> W + Send,
    receiver: impl FnOnce() -> T + Send,
) -> Vec<f64> {
    let (begun, taken) = (shared::<AtomicU32>(), shared::<AtomicU64>());
    // Before a fork, after which the numbers go on in the child only.
    let naps = [(); TAKES as usize].map(|()| random(LONGEST));
    let mut waited = Vec::new();
    duel(
        Course { sides, on: (ANYWHERE, ANYWHERE), trips: TAKES },
        |start| {
            let mut wait = sender();
            start();
            waited.extend((0..TAKES).map(|n| {
                begun.store(n + 1, Ordering::SeqCst);
                wait(n);
                (now() - taken.load(Ordering::SeqCst)) as f64
            }));
            begun.store(TAKES + 1, Ordering::SeqCst);
        },
        |start| {
            let mut take = receiver();
            punctual();
            let until_begun = |n| {
                while begun.load(Ordering::SeqCst) <= n {
                    std::thread::sleep(Duration::from_micros(10));
                }
            };
            start();
            for (n, nap) in (0..).zip(naps) {
                until_begun(n);
                sleep_until(now() + nap);
                taken.store(now(), Ordering::SeqCst);
                take(n);
            }
            // The last wait, too, has a receiver until it ends.
            until_begun(TAKES);
        },
    );
    waited
}

fn resume<C: Channel>() -> Vec<f64> {
    let (mut to, mut from) = C::make::<u64>(CAPACITY);
    (0..CAPACITY).for_each(|_| C::send(&mut to, 0));
    waits(
        Sides::Threads,
        || move |_| C::send(&mut to, 0),
        || {
            move |_| {
                C::recv(&mut from);
            }
        },
    )
}

/// By a tube that is full whenever a round begins.
fn named(wire: &impl Wire) -> Vec<f64> {
    waits(
        Sides::Processes,
        || {
            let mut send = wire.sender();
            move |_| send(&[0; 8])
        },
        || {
            let mut receive = wire.receiver();
            move |_| receive(&mut [0; 8])
        },
    )
}

fn full(kind: Kind) -> Own<[u8]> {
    let tube = Own::bytes(kind, CAPACITY as u32, 8);
    let sender = tube.sender().expect("a sender");
    (0..CAPACITY).for_each(|_| sender.send(&[0; 8]).expect("there is room"));
    drop(sender);
    tube
}

fn futex(sides: Sides, scope: Scope) -> Vec<f64> {
    let turn = shared::<AtomicU32>();
    waits(sides, || move |n| await_turn(turn, n + 1, scope), || move |n| pass(turn, n + 1, scope))
}

type Run<'a> = (&'a str, Box<dyn FnMut() -> Vec<f64> + 'a>);

/// Measures these in turns and prints; the aims of some.
fn table(who: &str, rounds: u32, mut runs: Vec<Run<'_>>, aimed: &[&str]) -> Vec<Aim> {
    let mut rows: Vec<_> = runs.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    for _ in 0..rounds {
        for ((_, samples), (_, run)) in rows.iter_mut().zip(&mut runs) {
            samples.extend(run());
        }
    }
    let title = format!("from a take to the sender's return, {who}");
    let table = Table::of(&title, rows);
    print!("{}", table.report());
    println!("  ({} takes each)", rounds * TAKES);
    let aim = |row: &&str| {
        let is = table.row(row).quantile(0.99);
        Aim::at_most(format!("{title}, 99th percentile, {row}"), 50_000.0, is, nanoseconds)
    };
    aimed.iter().map(aim).collect()
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a named tube cannot be made.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let threads: Vec<Run<'_>> = vec![
        ("raw futex", Box::new(|| futex(Sides::Threads, Scope::Private))),
        (Crossbeam::NAME, Box::new(resume::<Crossbeam>)),
        (Flume::NAME, Box::new(resume::<Flume>)),
        (Kanal::NAME, Box::new(resume::<Kanal>)),
        (Std::NAME, Box::new(resume::<Std>)),
        (Spsc::NAME, Box::new(resume::<Spsc>)),
        (Mpmc::NAME, Box::new(resume::<Mpmc>)),
    ];
    let mut aims = table("threads", rounds, threads, &[Spsc::NAME, Mpmc::NAME]);
    let (spsc, mpmc) = (full(Kind::Spsc), full(Kind::Mpmc));
    let way = |tube| Way { tube, moved: Moved::Copied, role: Role::TimeSharing };
    let processes: Vec<Run<'_>> = vec![
        ("raw futex", Box::new(|| futex(Sides::Processes, Scope::Shared))),
        ("named tube, spsc", Box::new(|| named(&way(&spsc)))),
        ("named tube, mpmc", Box::new(|| named(&way(&mpmc)))),
    ];
    aims.extend(table("processes", rounds, processes, &["named tube, spsc", "named tube, mpmc"]));
    aims
}
