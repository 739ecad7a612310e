//! Which cases of a table are chappe's, which a peer's, and which are floors that nobody can pass.
//!
//! A case is told by its name: peers and floors are listed here, everything else is ours. A row of a benchmark that measures a new peer adds the
//! peer's name.

use serde::{Deserialize, Serialize};

/// Whose a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Of chappe.
    Ours,
    /// What people would use in its place.
    Peer,
    /// What the machine takes at the least, without any promise.
    Floor,
}

/// What the names of floors begin with.
const FLOORS: &[&str] = &[
    "floor",
    "raw ",
    "flag",
    "a flag",
    "the loop",
    "null",
    "kernel:",
    "unsynchronised",
    "hand-written",
    "interlocked",
    "system call",
    "illegal instruction",
    "no area",
    "cache line",
    "memcpy",
    "locked increment",
    "load",
    "compare-and-swap",
    "one compare-and-swap",
    "fetch-and-add",
    "no lock",
];

/// What stands in the names of peers.
const PEERS: &[&str] = &[
    "sem_t",
    "pthread",
    "parking_lot",
    "std::",
    "semop",
    "System V",
    "flock",
    "crossbeam",
    "flume",
    "kanal",
    "rtrb",
    "iceoryx2",
    "pipe",
    "socket",
    "message queue",
    "boost",
    "futex_waitv",
    "spin lock",
    "Treiber",
    "dashmap",
    "lmdb",
    "Redis",
    "cel, ",
    "fasteval",
    "NumPy",
    "glibc",
    "putc",
    "ryu",
    "BufWriter",
    "kernel",
    "pseudo-terminal",
    "eventfd",
    "io_uring",
    "cyclictest",
    "multiprocessing",
    "SegQueue",
    "ArrayQueue",
    "sched_yield",
    "RwLock<HashMap>",
    "hand-written, in Rust",
];

/// Peers whose names are words that stand elsewhere, too: what a case's name is, or begins with before a comma.
const WHOLE: &[&str] = &["go", "tokio", "may", "corosensei (no scheduler)", "kernel threads"];

/// Whose the case of this name is.
pub fn side(name: &str) -> Side {
    if FLOORS.iter().any(|f| name.starts_with(f)) {
        Side::Floor
    } else if PEERS.iter().any(|p| name.contains(p)) || WHOLE.iter().any(|w| name.split(',').next() == Some(w)) {
        Side::Peer
    } else {
        Side::Ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_a_case_is() {
        assert_eq!(side("floor: load, two compare-and-swaps"), Side::Floor);
        assert_eq!(side("raw futex_waitv"), Side::Floor);
        assert_eq!(side("kernel: free a page"), Side::Floor);
        assert_eq!(side("pthread mutex, robust"), Side::Peer);
        assert_eq!(side("semop, System V"), Side::Peer);
        assert_eq!(side("mutex, private"), Side::Ours);
        assert_eq!(side("semaphore, barging"), Side::Ours);
        assert_eq!(side("go, two processors"), Side::Peer);
        assert_eq!(side("tokio, one slot"), Side::Peer);
        assert_eq!(side("light threads of two procs"), Side::Ours);
    }
}
