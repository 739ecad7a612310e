//! What a long queue costs: an `up` that hands its unit to one of so many waiters, and the end of a thread beside so many objects.
//!
//! `chappe-bench queue [N...]`, for each N (10, 100, 1,000 and 3,000 unless told), in a private and in a named arena: N threads wait on one
//! semaphore; each `up` wakes one, which waits again before the next `up`. *up*: its time, all of it, the wake included. *counted*: the
//! instructions that it executes outside of the kernel, counted one by one, with as many waiters. Then: the end of a thread that has waited
//! once, where the arena had 10 objects, where it had 50,000 that were removed, and where it has 50,000 that the thread never touched.

use crate::house::House;
use crate::steps::stepped;
use crate::table::nanoseconds;
use chappe::{Arena, ArenaOptions, Semaphore};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How many times `up` is timed, and how many times it is counted.
const TIMED: usize = 200;
const COUNTED: usize = 8;
/// How many ends of threads.
const ENDS: usize = 40;

/// The median of `up` in nanoseconds, and in instructions.
fn ups(n: usize, semaphore: &Semaphore) -> (u64, u64) {
    let (rounds, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let in_line = |n: usize| {
        let begun = Instant::now();
        while semaphore.waiters().len() < n {
            assert!(begun.elapsed() < Duration::from_secs(120), "not all wait");
            std::thread::sleep(Duration::from_micros(100 + n as u64));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..n {
            let wait = || {
                while !over.load(SeqCst) {
                    semaphore.down().expect("a wake-up");
                    rounds.fetch_add(1, SeqCst);
                }
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, wait).expect("a thread");
        }
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for turn in 0..TIMED + COUNTED {
            in_line(n);
            let before = rounds.load(SeqCst);
            if turn < TIMED {
                let begun = Instant::now();
                semaphore.up().expect("it is there");
                times.push(begun.elapsed().as_nanos() as u64);
            } else {
                counts.push(stepped(&mut || semaphore.up().expect("it is there")).instructions);
            }
            while rounds.load(SeqCst) == before {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        over.store(true, SeqCst);
        in_line(n);
        semaphore.up_many(n as u32).expect("it is there");
        times.sort_unstable();
        counts.sort_unstable();
        (times[TIMED / 2], counts[COUNTED / 2])
    })
}

/// The median time, in nanoseconds, from a thread's last statement to its end, of one that has waited once, and of one that has not.
fn ends(semaphore: &Semaphore) -> (u64, u64) {
    let epoch = Instant::now();
    let end = |waits: bool| {
        let thread = std::thread::spawn({
            let semaphore = semaphore.clone();
            move || {
                if waits {
                    semaphore.down().expect("a wake-up");
                }
                epoch.elapsed()
            }
        });
        if waits {
            while semaphore.waiters().is_empty() {
                std::thread::sleep(Duration::from_micros(50));
            }
            semaphore.up().expect("it is there");
        }
        let last = thread.join().expect("no panic");
        (epoch.elapsed() - last).as_nanos() as u64
    };
    let median = |waits| {
        let mut all: Vec<u64> = (0..ENDS).map(|_| end(waits)).collect();
        all.sort_unstable();
        all[ENDS / 2]
    };
    (median(true), median(false))
}

/// Measures and prints.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(_house: &House, numbers: &[usize]) {
    println!("\n{:<28}{:>12}{:>8}{:>12}{:>8}", "up() to one of N waiters", "up", "ratio", "counted", "ratio");
    for named in [false, true] {
        let mut first = None;
        for n in numbers {
            let semaphore = if named {
                let options = ArenaOptions { members: Some(65_535), ..ArenaOptions::default() };
                let name = format!("queue{n}");
                Arena::create(&name, &options).expect("an arena");
                Semaphore::create(&format!("{name}/s"), 0)
            } else {
                Semaphore::private(0)
            };
            let (time, count) = ups(*n, &semaphore.expect("a semaphore"));
            let (t, c) = *first.get_or_insert((time, count));
            println!(
                "  {:<26}{:>12}{:>8.2}{count:>12}{:>8.2}",
                format!("{} {n}", if named { "named" } else { "private" }),
                nanoseconds(time as f64),
                time as f64 / t as f64,
                count as f64 / c as f64
            );
        }
    }
    println!("\n{:<28}{:>12}{:>12}", "end of a thread", "has waited", "has not");
    let semaphore = Semaphore::private(0).expect("a semaphore");
    for (objects, stay) in [(10, false), (50_000, false), (50_000, true)] {
        let mut others: Vec<Semaphore> = (0..objects).map(|_| Semaphore::private(0).expect("a semaphore")).collect();
        if !stay {
            others.clear();
        }
        let (waited, not) = ends(&semaphore);
        println!(
            "  {:<26}{:>12}{:>12}",
            format!("{objects} objects{}", if stay { "" } else { ", removed" }),
            nanoseconds(waited as f64),
            nanoseconds(not as f64)
        );
    }
}
