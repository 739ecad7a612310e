//! Room for an object's waiters in the order of arrival: see `batch` of the wait queue, its only user.

use crate::layout::{self, Geometry};
use chappe_plat::atomic::AtomicU64;

/// How many a process has: objects share them.
pub(crate) const BATCHES: usize = if cfg!(any(feature = "sim", feature = "loom")) { 2 } else { layout::BATCHES };

/// Waiters of one object, in the order of arrival.
pub struct Batch {
    /// Of which object, and how far it is.
    pub tag: AtomicU64,
    /// How often a waiter had come late before it was built.
    pub late: AtomicU64,
    /// How many there are.
    pub count: AtomicU64,
    /// The ticket before which all of theirs are.
    pub before: AtomicU64,
    /// The first that may still wait.
    pub next: AtomicU64,
    /// As many as there are members; where it is explored, as many as wait in any world.
    pub entries: Box<[AtomicU64]>,
}

/// All that this process has for an arena. They lie in its own memory, also if the arena is named.
pub(crate) struct Batches {
    pub all: Box<[Batch]>,
    /// A private arena's; in a named one the members' slots have room for it.
    pub enlisting: Box<[AtomicU64]>,
    /// The process whose they are.
    #[cfg(not(feature = "sim"))]
    pub incarnation: AtomicU64,
    /// Whether a named arena has batches in this world: only if the world asks for it.
    #[cfg(feature = "sim")]
    pub named: std::cell::Cell<bool>,
}

/// The explorer's processes share a map: each has batches of its own.
#[cfg(feature = "sim")]
pub(crate) const PROCESSES: usize = 4;

/// The most entries of a batch in the explorer, whose worlds have few members.
const EXPLORED: usize = 64;

/// Zeros. Where they are what ships, they have no storage behind them before they are used.
pub(crate) fn words(n: usize) -> Box<[AtomicU64]> {
    #[cfg(any(feature = "sim", feature = "loom"))]
    return (0..n).map(|_| AtomicU64::new(0)).collect();
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    // SAFETY: zeros are atomics.
    unsafe {
        Box::new_zeroed_slice(n).assume_init()
    }
}

fn batches(n: usize, members: usize) -> Box<[Batch]> {
    let most = if cfg!(any(feature = "sim", feature = "loom")) { members.min(EXPLORED) } else { members };
    let batch = |_| {
        let [tag, late, count, before, next] = [const { AtomicU64::new(0) }; 5];
        Batch { tag, late, count, before, next, entries: words(most) }
    };
    (0..n).map(batch).collect()
}

impl Batches {
    /// Those of a private arena.
    pub fn private(geometry: Geometry) -> Batches {
        let members = geometry.members as usize;
        Batches {
            all: batches(BATCHES, members),
            enlisting: words(members),
            #[cfg(not(feature = "sim"))]
            incarnation: AtomicU64::new(chappe_plat::process::incarnation()),
            #[cfg(feature = "sim")]
            named: false.into(),
        }
    }

    /// Those of a process for a named arena.
    pub fn named(geometry: Geometry) -> Batches {
        #[cfg(feature = "sim")]
        let n = BATCHES * PROCESSES;
        #[cfg(not(feature = "sim"))]
        let n = BATCHES;
        Batches {
            all: batches(n, geometry.members as usize),
            enlisting: Box::default(),
            #[cfg(not(feature = "sim"))]
            incarnation: AtomicU64::new(chappe_plat::process::incarnation()),
            #[cfg(feature = "sim")]
            named: false.into(),
        }
    }
}
