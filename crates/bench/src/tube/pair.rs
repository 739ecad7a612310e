//! Uncontended pairs, one after the other, by one thread: send and receive a number, or eight.

use crate::process::pin;
use crate::table::{Aim, Case, Row, Table, nanoseconds, times};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Message, Rtrb, Std};
use crate::tube::named::{KINDS, Own};
use crate::tube::ours::{Mpmc, Mpsc, Spsc};
use crate::tube::stream::CAPACITY;

const MANY: u32 = 10_000;
const MORE: u32 = 8;

fn pair<C: Channel, T: Message>() -> Case<'static> {
    let (mut to, mut from) = C::make::<T>(CAPACITY);
    Case::repeat(C::NAME, MANY, move || {
        C::send(&mut to, T::of(1));
        C::recv(&mut from)
    })
}

fn named<T: Message>(kind: &str, tube: &Own<T>) -> Case<'static> {
    let (to, from) = tube.ends();
    Case::repeat(called(kind), MANY, move || {
        to.send(T::of(1)).expect("the receiver is there");
        from.recv().expect("the sender is there")
    })
}

fn called(kind: &str) -> String {
    format!("named tube, {kind}")
}

fn table<T: Message>(rounds: u32) -> Table {
    let tubes = KINDS.map(|(name, kind)| (name, Own::<T>::plain(kind, CAPACITY as u32)));
    let mut cases = vec![
        pair::<Rtrb, T>(),
        pair::<Crossbeam, T>(),
        pair::<Flume, T>(),
        pair::<Kanal, T>(),
        pair::<Std, T>(),
        pair::<Spsc, T>(),
        pair::<Mpsc, T>(),
        pair::<Mpmc, T>(),
    ];
    cases.extend(tubes.iter().map(|(name, tube)| named(name, tube)));
    let table = Table::measure(format!("uncontended send and receive, {}", T::NAME), rounds * MORE, cases);
    print!("{}", table.report());
    table
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a channel does not work.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let [table, wide] = std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            [table::<u64>(rounds), table::<[u64; 8]>(rounds)]
        });
        measured.join().expect("the measuring thread")
    });
    let named = called("mpmc");
    let within = |what: &str, most, row: &Row| Aim::at_most(what, most, row.quantile(0.5), nanoseconds);
    vec![
        Aim::at_most(format!("pair, {}, to rtrb", Spsc::NAME), 1.3, table.ratio(Spsc::NAME), times),
        within(&format!("pair, {}", Mpmc::NAME), 20.0, table.row(Mpmc::NAME)),
        within(&format!("pair, {named}"), 45.0, table.row(&named)),
        within(&format!("pair, {named}, 64 bytes"), 45.0, wide.row(&named)),
    ]
}
