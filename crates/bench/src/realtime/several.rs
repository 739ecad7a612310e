//! Several words at once, alone and contended, beside one compare-and-swap and beside a lock.

use crate::table::{Aim, Case, Table, times};
use chappe::Words;
use chappe::words::Change;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const COUNT: u32 = 20_000;

/// One that goes on from what it has written itself: what is measured is the swap.
fn swap<'a, const K: usize>(words: &'a Words, name: &str) -> Case<'a> {
    let mut now = 0u64;
    (0..K as u32).for_each(|i| words.store(i, 0).expect("a word"));
    // Another case may have changed them.
    Case::new(name.to_owned(), move || {
        let all: [u32; K] = std::array::from_fn(|i| i as u32);
        words.update(all, |w| w.fill(now)).expect("words");
        let start = Instant::now();
        for _ in 0..COUNT {
            let steps: [Change; K] = std::array::from_fn(|i| Change { word: i as u32, old: now, new: now + 1 });
            assert!(words.mcas(&steps).expect("words"), "nobody else is about");
            now += 1;
        }
        start.elapsed().as_nanos() as f64 / f64::from(COUNT)
    })
}

/// Two threads at once: nanoseconds an operation, of both together.
fn contended(work: impl Fn() + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| (0..COUNT).for_each(|_| work()));
        }
    });
    start.elapsed().as_nanos() as f64 / f64::from(2 * COUNT)
}

/// The tables, and what was wanted.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let word = AtomicU64::new(0);
    let sets: Vec<Words> = (0..6).map(|_| Words::private(8).expect("memory")).collect();
    let alone = Table::measure(
        "words at once, nobody else about",
        rounds,
        vec![
            Case::repeat("one compare-and-swap", COUNT, || {
                let seen = word.load(Ordering::Relaxed); // Relaxed: a count.
                word.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) // AcqRel: as the others.
            }),
            swap::<1>(&sets[0], "mcas of 1"),
            swap::<2>(&sets[1], "mcas of 2"),
            swap::<4>(&sets[2], "mcas of 4"),
            swap::<8>(&sets[3], "mcas of 8"),
            Case::repeat("update of 2 (read and mcas)", COUNT, || {
                sets[4].update([0, 1], |w| *w = [w[0] + 1, w[1] + 1]).expect("words")
            }),
        ],
    );
    println!("{}", alone.report());
    let locked = parking_lot::Mutex::new([0u64; 2]);
    let both = Table::measure(
        "two words at once, two threads",
        rounds,
        vec![
            Case::new("under parking_lot::Mutex", || {
                contended(|| {
                    let mut w = locked.lock();
                    *w = [w[0] + 1, w[1] + 1];
                })
            }),
            Case::new("Words::update", || {
                contended(|| {
                    sets[5].update([0, 1], |w| *w = [w[0] + 1, w[1] + 1]).expect("words");
                })
            }),
        ],
    );
    println!("{}", both.report());
    vec![
        Aim::at_most("mcas of 2 beside one compare-and-swap", 4.0, alone.ratio("mcas of 2"), times),
        Aim::at_most("mcas of 4 beside one compare-and-swap", 7.0, alone.ratio("mcas of 4"), times),
    ]
}
