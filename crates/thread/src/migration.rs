//! Two procs in simulation: how many blocks are late if an idle proc takes threads by age, or first those that would be late (synthesis, 6.5).
//!
//! The queues and the rule are those of the scheduler: [`Queue::share`] and [`due`]. Time, blocks and procs are not.

use crate::due;
use crate::queue::Queue;
use crate::record::{self, Thread};

/// Nanoseconds of a step.
const MS: u64 = 1_000_000;
/// Threads, and with them blocks that may wait at once.
const THREADS: usize = 200;

/// A block: milliseconds that it takes, and when it is due.
#[derive(Clone, Copy)]
struct Block {
    takes: u64,
    due: u64,
}

/// What became of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// So many were late.
    pub late: u64,
    /// Of so many.
    pub of: u64,
    /// Milliseconds until the last one was done.
    pub ms: u64,
}

/// Two procs, in steps of a millisecond. Blocks come to the first, each a thread of its own that goes on until its
/// block is done; now and then another thread has that proc for long. Once in ten milliseconds the second, if it
/// idles, takes half of the threads that wait behind that one.
fn simulated(seed: u64, threads: &[&'static Thread], says: bool) -> Late {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) % n
    };
    let queues = [Queue::new(), Queue::new()];
    let place = |thread: &Thread| threads.iter().position(|t| std::ptr::eq(*t, thread)).expect("one of these");
    let mut blocks: Vec<Option<Block>> = vec![None; threads.len()];
    let mut runs: [Option<usize>; 2] = [None; 2];
    let (mut came, mut late, mut now, mut long) = (0, 0, 0u64, 0u64);
    while now < 20_000 || blocks.iter().any(Option::is_some) {
        // The same for both policies, whatever they have done so far.
        let dice = [below(100), 1 + below(3), 4 + below(40), below(60), 20 + below(60)];
        if now < 20_000 && dice[0] < 40 {
            let at = blocks.iter().position(Option::is_none).expect("a thread for each block that waits");
            let block = Block { takes: dice[1], due: now + dice[2] };
            blocks[at] = Some(block);
            threads[at].latest.set(if says { (block.due - block.takes) * MS } else { 0 });
            queues[0].push(threads[at]);
            came += 1;
        }
        if long == 0 && runs[0].is_none() && dice[3] == 0 {
            long = dice[4];
        }
        if now.is_multiple_of(10) && long > 0 && runs[1].is_none() && queues[1].is_empty() {
            let first = |thread: &Thread| due::is_about_to_be_late(thread, now * MS, 10 * MS);
            queues[0].share(first, |_| true, |thread| queues[1].push(thread));
        }
        now += 1;
        for proc in 0..2 {
            if proc == 0 && long > 0 {
                long -= 1;
                continue;
            }
            let Some(at) = runs[proc].or_else(|| queues[proc].pop().map(place)) else { continue };
            let block = blocks[at].as_mut().expect("a thread that runs has a block");
            block.takes -= 1;
            runs[proc] = Some(at);
            if block.takes == 0 {
                late += u64::from(now > block.due);
                (blocks[at], runs[proc]) = (None, None);
            }
        }
    }
    Late { late, of: came, ms: now }
}

/// So many runs of 20 s, by age and by need.
///
/// # Panics
/// If there is no room for the threads' records.
pub fn both(runs: u64) -> [Late; 2] {
    record::prepare().expect("room for the records");
    let threads: Vec<_> = (0..THREADS).map(|_| record::take().expect("a record")).collect();
    threads.iter().for_each(|t| t.level.set(0));
    let sum = |says| {
        (1..=runs).map(|seed| simulated(seed, &threads, says)).fold(Late::default(), |sum, one| Late {
            late: sum.late + one.late,
            of: sum.of + one.of,
            ms: sum.ms + one.ms,
        })
    };
    let both = [sum(false), sum(true)];
    threads.iter().for_each(|t| t.latest.set(0));
    record::put(threads.into_iter());
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_would_be_late_go_first_and_fewer_are_late_than_by_age() {
        let [by_age, by_need] = both(if cfg!(miri) { 1 } else { 20 });
        assert!(by_need.late * 10 <= by_age.late * 9, "{by_age:?} {by_need:?}");
        // As many blocks, in no more time.
        assert!(by_need.of == by_age.of && by_need.ms <= by_age.ms + by_age.ms / 1000, "{by_age:?} {by_need:?}");
    }
}
