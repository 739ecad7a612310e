//! What a message costs that comes alone: processor time a message at 10,000 messages a second.
//!
//! The sender sleeps until the next is due (`clock_nanosleep`, absolute), the receiver waits for each. The time is of the
//! whole process, both threads and what the kernel does for them. *pacing alone*: the sender sleeps and sends nothing;
//! *besides*: what a row takes more, median to median.

use crate::handoff::pass;
use crate::process::now;
use crate::raw::{self, Scope};
use crate::table::{Aim, Case, Column, Table, nanoseconds};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Std};
use crate::tube::clock::{punctual, sleep_until, used};
use crate::tube::ours::{Mpmc, Spsc};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nanoseconds from one message to the next.
const PERIOD: u64 = 100_000;
const MANY: u32 = 500;
const ALONE: &str = "pacing alone";

/// Sends at the pace while the other receives as many; nanoseconds of processor time a message.
fn pace(mut send: impl FnMut(u32) + Send, mut recv: impl FnMut(u32) + Send) -> f64 {
    let met = Barrier::new(2);
    std::thread::scope(|s| {
        let receiver = s.spawn(|| {
            met.wait();
            (0..MANY).for_each(&mut recv);
            used()
        });
        let sender = s.spawn(|| {
            punctual();
            met.wait();
            let (before, began) = (used(), now());
            for n in 0..MANY {
                sleep_until(began + u64::from(n + 1) * PERIOD);
                send(n);
            }
            (before, used())
        });
        let (before, sent) = sender.join().expect("the sender");
        let received = receiver.join().expect("the receiver");
        (sent.max(received) - before) as f64 / f64::from(MANY)
    })
}

fn row<C: Channel>() -> Case<'static> {
    Case::new(C::NAME, || {
        let (mut to, mut from) = C::make::<u64>(16);
        pace(|n| C::send(&mut to, n.into()), |n| assert_eq!(C::recv(&mut from), u64::from(n)))
    })
}

fn futex() -> f64 {
    let sent = &AtomicU32::new(0);
    pace(
        |n| pass(sent, n + 1, Scope::Private),
        |n| loop {
            // Acquire: pairs with the store in `pass`.
            let seen = sent.load(Ordering::Acquire);
            if seen > n {
                break;
            }
            raw::wait(sent, seen, Scope::Private);
        },
    )
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let cases = vec![
        Case::new(ALONE, || pace(|_| (), |_| ())),
        Case::new("raw futex", futex),
        row::<Crossbeam>(),
        row::<Flume>(),
        row::<Kanal>(),
        row::<Std>(),
        row::<Spsc>(),
        row::<Mpmc>(),
    ];
    let table = Table::measure("processor time a message, 10,000 a second", (rounds / 2).max(5), cases);
    let median = |row: &str| table.row(row).quantile(0.5);
    let besides = |row: &str| nanoseconds((median(row) - median(ALONE)).max(0.0));
    print!("{}", table.report_with(&[Column::new("besides", table.names().map(besides).collect())]));
    let aim = |row| {
        let what = format!("processor time a message, 10,000 a second, {row}");
        Aim::at_most(what, 12_000.0, median(row), nanoseconds)
    };
    vec![aim(Spsc::NAME), aim(Mpmc::NAME)]
}
