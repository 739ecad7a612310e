//! As fast as it goes: one thread sends, another receives, on two processors, through room for 1024 messages.
//!
//! Time a message, from the common start until the receiver has the last.

use crate::handoff::{Course, Sides, duel};
use crate::machine::processors;
use crate::table::{Aim, Case, Table, times};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Message, Rtrb, Std};
use crate::tube::ours::{Mpmc, Spsc};

/// Room for so many messages.
pub const CAPACITY: usize = 1024;
const MANY: u32 = 300_000;
const MORE: u32 = 4;

fn stream<C: Channel, T: Message>() -> f64 {
    let (mut to, mut from) = C::make::<T>(CAPACITY);
    let course = Course { sides: Sides::Threads, on: (0, 1), trips: MANY };
    duel(
        course,
        |start| {
            start();
            let sum: u64 = (0..MANY).map(|_| C::recv(&mut from).number()).sum();
            assert_eq!(sum, (0..u64::from(MANY)).sum::<u64>(), "a message was lost");
        },
        |start| {
            start();
            (0..u64::from(MANY)).for_each(|n| C::send(&mut to, T::of(n)));
        },
    )
}

fn row<C: Channel, T: Message>() -> Case<'static> {
    Case::new(C::NAME, stream::<C, T>)
}

fn table<T: Message>(rounds: u32) -> Aim {
    let cases = vec![
        row::<Rtrb, T>(),
        row::<Crossbeam, T>(),
        row::<Flume, T>(),
        row::<Kanal, T>(),
        row::<Std, T>(),
        row::<Spsc, T>(),
        row::<Mpmc, T>(),
    ];
    let table = Table::measure(format!("streaming, {}, a message", T::NAME), rounds * MORE, cases);
    print!("{}", table.report());
    Aim::at_most(format!("streaming, {}, {}, to rtrb", T::NAME, Spsc::NAME), 0.5, table.ratio(Spsc::NAME), times)
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    if processors() < 2 {
        println!("\nstreaming on two processors: this machine has one");
        return Vec::new();
    }
    vec![table::<u64>(rounds), table::<[u64; 8]>(rounds)]
}
