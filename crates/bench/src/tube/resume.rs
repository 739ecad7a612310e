//! How soon a sender goes on that a full channel has stopped: from when the receiver takes one to the sender's return.
//!
//! The receiver sleeps for a random time between takes, so that the sender has waited for a while, short or long. Both
//! run wherever the scheduler likes.

use crate::handoff::{await_turn, pass};
use crate::process::now;
use crate::raw::Scope;
use crate::table::{Aim, Table, nanoseconds};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Std};
use crate::tube::clock::{punctual, sleep_until};
use crate::tube::ours::{Mpmc, Spsc};
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

/// Nanoseconds from each take to the end of the wait for it.
fn waits(mut wait: impl FnMut(u32) + Send, mut take: impl FnMut(u32) + Send) -> Vec<f64> {
    let (begun, taken) = (AtomicU32::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        let sender = s.spawn(|| {
            let one = |n| {
                begun.store(n + 1, Ordering::SeqCst);
                wait(n);
                (now() - taken.load(Ordering::SeqCst)) as f64
            };
            (0..TAKES).map(one).collect()
        });
        s.spawn(|| {
            punctual();
            for n in 0..TAKES {
                while begun.load(Ordering::SeqCst) <= n {
                    std::thread::sleep(Duration::from_micros(10));
                }
                sleep_until(now() + random(LONGEST));
                taken.store(now(), Ordering::SeqCst);
                take(n);
            }
        });
        sender.join().expect("the sender")
    })
}

fn resume<C: Channel>() -> Vec<f64> {
    let (mut to, mut from) = C::make::<u64>(CAPACITY);
    (0..CAPACITY).for_each(|_| C::send(&mut to, 0));
    waits(
        |_| C::send(&mut to, 0),
        |_| {
            C::recv(&mut from);
        },
    )
}

fn futex() -> Vec<f64> {
    let turn = AtomicU32::new(0);
    waits(|n| await_turn(&turn, n + 1, Scope::Private), |n| pass(&turn, n + 1, Scope::Private))
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    type Run = fn() -> Vec<f64>;
    let kinds: [(&str, Run); 7] = [
        ("raw futex", futex),
        (Crossbeam::NAME, resume::<Crossbeam>),
        (Flume::NAME, resume::<Flume>),
        (Kanal::NAME, resume::<Kanal>),
        (Std::NAME, resume::<Std>),
        (Spsc::NAME, resume::<Spsc>),
        (Mpmc::NAME, resume::<Mpmc>),
    ];
    let mut rows = kinds.map(|(name, _)| (name.to_owned(), Vec::new()));
    for _ in 0..rounds {
        for ((_, samples), (_, run)) in rows.iter_mut().zip(&kinds) {
            samples.extend(run());
        }
    }
    let table = Table::of(format!("from a take to the sender's return, {} each", rounds * TAKES), rows.into());
    print!("{}", table.report());
    let aim = |row| {
        let what = format!("from a take to the sender's return, 99th percentile, {row}");
        Aim::at_most(what, 50_000.0, table.row(row).quantile(0.99), nanoseconds)
    };
    vec![aim(Spsc::NAME), aim(Mpmc::NAME)]
}
