//! There and back: two threads that send each other a number in turns, by two channels with room for one.
//!
//! *free*: both run wherever the scheduler likes. *same processor*: both on one.

use crate::handoff::{ANYWHERE, Course, Sides, duel, futex};
use crate::raw::Scope;
use crate::table::{Aim, Case, Table};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Std};
use crate::tube::ours::{Mpmc, Spsc};

fn trip<C: Channel>(course: Course) -> Case<'static> {
    Case::new(C::NAME, move || {
        let (mut there, mut arrived) = C::make::<u64>(1);
        let (mut back, mut returned) = C::make::<u64>(1);
        let trips = u64::from(course.trips);
        duel(
            course,
            |start| {
                start();
                for trip in 0..trips {
                    C::send(&mut there, trip);
                    assert_eq!(C::recv(&mut returned), trip);
                }
            },
            |start| {
                start();
                for _ in 0..trips {
                    let trip = C::recv(&mut arrived);
                    C::send(&mut back, trip);
                }
            },
        )
    })
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    for (place, on, trips) in [("free", (ANYWHERE, ANYWHERE), 500), ("same processor", (0, 0), 1_000)] {
        let course = Course { sides: Sides::Threads, on, trips };
        let cases = vec![
            Case::new("raw futex", move || futex(course, Scope::Private)),
            trip::<Crossbeam>(course),
            trip::<Flume>(course),
            trip::<Kanal>(course),
            trip::<Std>(course),
            trip::<Spsc>(course),
            trip::<Mpmc>(course),
        ];
        let title = format!("round trip, threads, {place}");
        let table = Table::measure(&title, rounds * 2, cases);
        print!("{}", table.report());
        let peers = [Crossbeam::NAME, Flume::NAME, Kanal::NAME, Std::NAME];
        aims.extend([Spsc::NAME, Mpmc::NAME].map(|row| Aim::to_best(&table, &title, row, &peers)));
    }
    aims
}
