//! Choice among 4 and 16 channels, with a message there and with none.
//!
//! *Ready*: one thread sends into one of them, the next each time, and receives by a choice over all. *Blocked*: a round
//! trip in which the left side waits by a choice over all, one of which the echo comes by; beside it the same of futex
//! words, the left side waiting by `futex_waitv`.

use crate::choice::{place, waitv};
use crate::handoff::{Course, Sides, duel};
use crate::machine::processors;
use crate::process::pin;
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, times};
use crate::tube::channel::Channel;
use crate::tube::chooser::{Choice, CrossbeamInPlace, CrossbeamSelect, FlumeSelector, Receiver};
use crate::tube::ours;
use std::time::Instant;

const WIDTHS: [usize; 2] = [4, 16];
/// As many arms as a choice has that is written where it is made.
const IN_PLACE: usize = 4;
const MANY: u32 = 2_000;
const MORE: u32 = 4;
const ROOM: usize = 16;

type Sender<C> = <<C as Choice>::Channel as Channel>::Sender<u64>;

fn channels<C: Choice>(k: usize) -> (Vec<Sender<C>>, Vec<Receiver<C>>) {
    (0..k).map(|_| C::Channel::make::<u64>(ROOM)).unzip()
}

fn ready<C: Choice>(k: usize) -> Case<'static> {
    let (mut to, from) = channels::<C>(k);
    Case::new(C::NAME, move || {
        let mut chooser = C::over(&from);
        let mut next = 0;
        let start = Instant::now();
        for n in 0..MANY {
            C::Channel::send(&mut to[next], n.into());
            assert_eq!(C::choose(&mut chooser), (next, n.into()));
            next = if next + 1 == k { 0 } else { next + 1 };
        }
        start.elapsed().as_nanos() as f64 / f64::from(MANY)
    })
}

fn blocked<C: Choice>(course: Course, k: usize) -> Case<'static> {
    Case::new(C::NAME, move || {
        let (mut there, mut echo) = C::Channel::make::<u64>(1);
        let (mut to, from) = channels::<C>(k);
        let trips = u64::from(course.trips);
        duel(
            course,
            |start| {
                // Moved: what waits may be bound to its thread.
                let from = from;
                let mut chooser = C::over(&from);
                start();
                for trip in 0..trips {
                    C::Channel::send(&mut there, trip);
                    assert_eq!(C::choose(&mut chooser), (place(k), trip));
                }
            },
            |start| {
                start();
                for _ in 0..trips {
                    let trip = C::Channel::recv(&mut echo);
                    C::Channel::send(&mut to[place(k)], trip);
                }
            },
        )
    })
}

fn all_ready(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    for k in WIDTHS {
        let mut cases = vec![ready::<CrossbeamSelect>(k), ready::<FlumeSelector>(k), ready::<ours::Choice>(k)];
        let mut pairs = vec![(ours::Choice::NAME, CrossbeamSelect::NAME)];
        if k == IN_PLACE {
            cases.extend([ready::<CrossbeamInPlace>(k), ready::<ours::ChoiceInPlace>(k)]);
            pairs.push((ours::ChoiceInPlace::NAME, CrossbeamInPlace::NAME));
        }
        let table = Table::measure(format!("send and choice, one ready, k = {k}"), rounds * MORE, cases);
        print!("{}", table.report());
        if k == 4 {
            aims.extend(pairs.iter().map(|(row, peer)| {
                Aim::at_most(format!("choice over {k}, ready, {row}, to {peer}"), 0.6, table.ratio_to(row, peer), times)
            }));
        }
    }
    aims
}

fn all_blocked(rounds: u32) {
    for (site, on, trips) in [("same processor", (0, 0), 500), ("two processors", (0, 1), 200)] {
        if on.1 >= processors() {
            println!("\nchoice, {site}: this machine has one");
            continue;
        }
        for k in WIDTHS {
            let course = Course { sides: Sides::Threads, on, trips };
            let mut cases = vec![
                Case::new("raw futex_waitv", move || waitv(course, k, Scope::Private)),
                blocked::<CrossbeamSelect>(course, k),
                blocked::<FlumeSelector>(course, k),
                blocked::<ours::Choice>(course, k),
            ];
            if k == IN_PLACE {
                cases.extend([blocked::<CrossbeamInPlace>(course, k), blocked::<ours::ChoiceInPlace>(course, k)]);
            }
            let title = format!("choice, blocked, {site}, k = {k}");
            print!("{}", Table::measure(title, rounds * 2, cases).report());
        }
    }
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a choice does not work.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let aims = std::thread::scope(|s| {
        let ready = s.spawn(|| {
            pin(0);
            all_ready(rounds)
        });
        ready.join().expect("the measuring thread")
    });
    all_blocked(rounds);
    aims
}
