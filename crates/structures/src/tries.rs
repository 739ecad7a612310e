//! Counts how often each lock-free loop has had to begin again: with the feature `count`; without it nothing is counted, at no cost.
//!
//! A loop of a priority-driven system begins again at most once for each activation of a task of higher priority that changes the
//! same data meanwhile (nonblocking-real-time, 2.3): the counts here can be compared with that bound.

/// A loop that may have to begin again.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Map: a list changed during a search of it.
    Find,
    /// Map: a value changed while it was read.
    Get,
    /// Map: another thread changed the entry first.
    Change,
    /// Map: an entry changed during a walk.
    Walk,
    /// Words: a word changed while it was read.
    Read,
    /// Words: another operation was in the way.
    Swap,
    /// Stack: another thread changed the top first.
    Stack,
    /// Counter: another thread changed it first.
    Counter,
}

/// Every loop, and its name.
pub const LOOPS: [(Loop, &str); 8] = [
    (Loop::Find, "map: search"),
    (Loop::Get, "map: get"),
    (Loop::Change, "map: change"),
    (Loop::Walk, "map: walk"),
    (Loop::Read, "words: load"),
    (Loop::Swap, "words: swap"),
    (Loop::Stack, "stack: push and pop"),
    (Loop::Counter, "counter: update"),
];

#[cfg(feature = "count")]
mod counted {
    use super::{LOOPS, Loop};
    use chappe_plat::atomic::{AtomicU64, Ordering};

    pub static COUNTS: [[AtomicU64; 2]; LOOPS.len()] = [const { [const { AtomicU64::new(0) }; 2] }; LOOPS.len()];

    pub fn retried(of: Loop, times: u32) {
        let [all, most] = &COUNTS[of as usize];
        all.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
        most.fetch_max(times.into(), Ordering::Relaxed); // Relaxed: a count.
    }
}

/// The counts of one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tries {
    /// Which.
    pub what: &'static str,
    /// How often it began again, in this process.
    pub retries: u64,
    /// The most times that one operation began again.
    pub most: u64,
}

/// The counts of this process's loops; empty without the feature `count`.
pub fn tries() -> Vec<Tries> {
    #[cfg(feature = "count")]
    {
        use chappe_plat::atomic::Ordering;
        let one = |(of, what): &(Loop, &'static str)| {
            let [all, most] = &counted::COUNTS[*of as usize];
            // Relaxed, both: counts.
            Tries { what, retries: all.load(Ordering::Relaxed), most: most.load(Ordering::Relaxed) }
        };
        LOOPS.iter().map(one).collect()
    }
    #[cfg(not(feature = "count"))]
    Vec::new()
}

/// An operation begins again, for the `times`-th time.
#[doc(hidden)]
#[inline(always)]
pub fn retried(of: Loop, times: u32) {
    #[cfg(feature = "count")]
    counted::retried(of, times);
    #[cfg(not(feature = "count"))]
    let _ = (of, times);
}
