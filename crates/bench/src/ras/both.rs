//! The same operation by one thread, and by one on each of two processors.

use crate::process::pin;
use crate::table::Case;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

const MANY: u32 = 10_000;

/// By one thread, wherever it is.
pub fn one<'a, R>(name: &str, operation: impl Fn() -> R + 'a) -> Case<'a> {
    Case::repeat(name, MANY, operation)
}

/// By two threads at once, each on a processor; nanoseconds an operation of the slower one.
pub fn two<'a, R>(name: &str, operation: impl Fn() -> R + Sync + 'a) -> Case<'a> {
    Case::new(name, move || {
        // Longer than it takes the second to start.
        let (count, start) = (MANY * 20, &Barrier::new(2));
        let work = |me: usize| {
            pin(me);
            // What a thread's first use costs is not the question.
            black_box(operation());
            start.wait();
            let began = Instant::now();
            for _ in 0..count {
                black_box(operation());
            }
            began.elapsed().as_nanos() as f64 / f64::from(count)
        };
        std::thread::scope(|s| {
            let sides = [0, 1].map(|me| s.spawn(move || work(me)));
            sides.into_iter().map(|side| side.join().expect("a side")).fold(0.0, f64::max)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn two_threads_do_it_as_often_each() {
        let count = AtomicU32::new(0);
        let both = two("both", || count.fetch_add(1, Ordering::SeqCst));
        Table::measure("t", 1, vec![both]);
        // Two rounds, the first of which warms up, of two threads, each with one that is not timed.
        assert_eq!(count.into_inner(), 2 * 2 * (MANY * 20 + 1));
    }
}
