//! What the loom models share.

use chappe_plat::explore::{FOUND, SOUND, TWO_THREADS, search};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Searches all that two threads can do, and demands that what was reached is what should be: no more, and no less, lest a
/// model that explores nothing passes.
pub fn two_reach<S, O, const N: usize>(preemptions: usize, set_up: fn() -> S, execution: fn(S) -> O, expected: [O; N])
where
    S: Copy + Send + Sync + 'static,
    O: Ord + Send + Debug + 'static,
{
    reached(search(TWO_THREADS, preemptions, set_up, execution), expected);
}

/// As [`two_reach`], of three.
pub fn three_reach<S, O, const N: usize>(preemptions: usize, set_up: fn() -> S, execution: fn(S) -> O, expected: [O; N])
where
    S: Copy + Send + Sync + 'static,
    O: Ord + Send + Debug + 'static,
{
    reached(search(SOUND, preemptions, set_up, execution), expected);
}

fn reached<O: Ord + Debug, const N: usize>((reached, executions): (BTreeSet<O>, u64), expected: [O; N]) {
    println!("{executions} executions");
    assert_eq!(reached, BTreeSet::from(expected), "{FOUND}: what can happen, and what should");
}
