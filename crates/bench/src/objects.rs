//! Synthesis, table 5.1: one operation and its opposite on a counter, a stack, a queue and a table of keys, no other thread about: not synchronised, under a
//! lock, and without one.
//!
//! The thesis' *one retry* is not here: on today's processors a retry is another compare-and-swap, which `words at once` has.

use crate::process::pin;
use crate::ras::treiber::Treiber;
use crate::table::{Case, Table};
use crate::tube::channel::{Channel, Crossbeam, Kanal};
use crate::tube::ours::{Mpmc, Spsc};
use chappe::ras::{FreeList, Index};
use chappe::{Map, MapOptions, Mutex, Words};
use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: u32 = 10_000;
const PLACES: u32 = 64;

fn counter(rounds: u32) -> Table {
    let mut plain = 0u64;
    let word = AtomicU64::new(0);
    let words = Words::private(1).expect("memory");
    let (theirs, ours) = (parking_lot::Mutex::new(0u64), Mutex::private(0u64).expect("room"));
    let cases = vec![
        Case::repeat("unsynchronised", COUNT, || plain = black_box(plain) + 1),
        Case::repeat("parking_lot::Mutex", COUNT, || *theirs.lock() += 1),
        Case::repeat("mutex, private", COUNT, || *ours.lock().expect("whole") += 1),
        Case::repeat("floor: fetch-and-add", COUNT, || word.fetch_add(1, Ordering::Relaxed)), // Relaxed: a count.
        Case::repeat("Words::update of one", COUNT, || words.update([0], |w| w[0] += 1).expect("a word")),
    ];
    Table::measure("increment", rounds, cases)
}

fn stack(rounds: u32) -> Table {
    let mut plain: Vec<u64> = (0..PLACES.into()).collect();
    let theirs = parking_lot::Mutex::new(plain.clone());
    let treiber = Treiber::new(PLACES);
    let list = FreeList::new(Index::Cpu, PLACES as usize, || 0u64);
    let cases = vec![
        Case::repeat("unsynchronised Vec", COUNT, || {
            let top = plain.pop().expect("never empty");
            plain.push(black_box(top));
        }),
        Case::repeat("parking_lot::Mutex of a Vec", COUNT, || {
            let top = theirs.lock().pop().expect("never empty");
            theirs.lock().push(black_box(top));
        }),
        Case::repeat("Treiber's stack", COUNT, || {
            let top = treiber.pop().expect("never empty");
            treiber.push(black_box(top));
        }),
        Case::repeat("FreeList, of each processor", COUNT, || list.take().is_some()),
    ];
    Table::measure("pop and push of a stack", rounds, cases)
}

fn queue(rounds: u32) -> Table {
    let mut plain: VecDeque<u64> = VecDeque::with_capacity(64);
    let theirs = parking_lot::Mutex::new(VecDeque::with_capacity(64));
    fn of<C: Channel>() -> Case<'static> {
        let (mut to, mut from) = C::make::<u64>(64);
        Case::repeat(C::NAME, COUNT, move || {
            C::send(&mut to, 1);
            C::recv(&mut from)
        })
    }
    let cases = vec![
        Case::repeat("unsynchronised VecDeque", COUNT, || {
            plain.push_back(black_box(1u64));
            plain.pop_front()
        }),
        Case::repeat("parking_lot::Mutex of a VecDeque", COUNT, || {
            theirs.lock().push_back(black_box(1u64));
            theirs.lock().pop_front()
        }),
        of::<Crossbeam>(),
        of::<Kanal>(),
        of::<Spsc>(),
        of::<Mpmc>(),
    ];
    Table::measure("insert into a queue, and delete", rounds, cases)
}

fn keys(rounds: u32) -> Table {
    let mut plain = HashMap::new();
    let theirs = parking_lot::Mutex::new(HashMap::new());
    let sharded = dashmap::DashMap::new();
    let options = MapOptions { entries: 256, ..MapOptions::default() };
    let ours = Map::<u64, u64>::private(&options).expect("room");
    for key in 0..64u64 {
        plain.insert(key, key);
        theirs.lock().insert(key, key);
        sharded.insert(key, key);
        ours.insert(&key, &key).expect("room");
    }
    let key = 1_000u64;
    let cases = vec![
        Case::repeat("unsynchronised HashMap", COUNT, || {
            plain.insert(black_box(key), 1);
            plain.remove(&key)
        }),
        Case::repeat("parking_lot::Mutex of a HashMap", COUNT, || {
            theirs.lock().insert(black_box(key), 1);
            theirs.lock().remove(&key)
        }),
        Case::repeat("dashmap (locks for shards)", COUNT, || {
            sharded.insert(black_box(key), 1);
            sharded.remove(&key)
        }),
        Case::repeat("Map, private", COUNT, || {
            ours.insert(&black_box(key), &1).expect("room");
            ours.remove(&key).expect("alive")
        }),
    ];
    Table::measure("insert into a table of keys, and delete", rounds, cases)
}

/// Measures and prints.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(rounds: u32) {
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            for table in [counter, stack, queue, keys] {
                print!("{}", table(rounds * 4).report());
            }
        });
        measured.join().expect("the measuring thread");
    });
}
