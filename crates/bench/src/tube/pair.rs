//! Uncontended pairs, one after the other, by one thread: send and receive a number.

use crate::process::pin;
use crate::table::{Aim, Case, Table, nanoseconds, times};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Rtrb, Std};
use crate::tube::ours::{Mpmc, Mpsc, Spsc};
use crate::tube::stream::CAPACITY;

const MANY: u32 = 10_000;
const MORE: u32 = 8;

fn pair<C: Channel>() -> Case<'static> {
    let (mut to, mut from) = C::make::<u64>(CAPACITY);
    Case::repeat(C::NAME, MANY, move || {
        C::send(&mut to, 1);
        C::recv(&mut from)
    })
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a channel does not work.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let table = std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            let cases = vec![
                pair::<Rtrb>(),
                pair::<Crossbeam>(),
                pair::<Flume>(),
                pair::<Kanal>(),
                pair::<Std>(),
                pair::<Spsc>(),
                pair::<Mpsc>(),
                pair::<Mpmc>(),
            ];
            Table::measure("uncontended send and receive, u64", rounds * MORE, cases)
        });
        measured.join().expect("the measuring thread")
    });
    print!("{}", table.report());
    vec![
        Aim::at_most(format!("pair, {}, to rtrb", Spsc::NAME), 1.3, table.ratio(Spsc::NAME), times),
        Aim::at_most(format!("pair, {}", Mpmc::NAME), 20.0, table.row(Mpmc::NAME).quantile(0.5), nanoseconds),
    ]
}
