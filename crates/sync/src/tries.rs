//! How often each lock-free loop has had to begin again: with the feature `count`; else nothing is counted, and nothing costs.
//!
//! A loop of a priority-driven system begins again at most once for each activation of somebody of higher priority that changes the
//! same thing meanwhile (nonblocking-real-time, 2.3): what is counted here can be held against that.

/// A loop that may have to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loop {
    /// Map: a list changed under who searched it.
    Find,
    /// Map: a value changed under who read it.
    Get,
    /// Map: another changed the entry first.
    Change,
    /// Map: an entry changed under who walked.
    Walk,
    /// Words: one changed under who read it.
    Read,
    /// Words: another operation was in the way.
    Swap,
    /// Stack: another changed the top first.
    Stack,
    /// Counter: another changed it first.
    Counter,
}

/// Every loop, and what it is called.
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

/// What one loop has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tries {
    /// Which.
    pub what: &'static str,
    /// How often it began again, in this process.
    pub retries: u64,
    /// The most times that one operation did.
    pub most: u64,
}

/// What the loops of this process have come to; nothing without the feature `count`.
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

/// An operation begins again, for the so-manieth time.
#[inline(always)]
pub(crate) fn retried(of: Loop, times: u32) {
    #[cfg(feature = "count")]
    counted::retried(of, times);
    #[cfg(not(feature = "count"))]
    let _ = (of, times);
}
