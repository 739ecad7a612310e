//! Room for an object's waiters in the order of arrival, in private arenas: see `batch` of the wait queue, its only user.

use super::Map;
use crate::layout::Geometry;
use chappe_plat::atomic::AtomicU64;

/// How many there are: objects share them.
const BATCHES: usize = if cfg!(any(feature = "sim", feature = "loom")) { 2 } else { 8 };

/// Waiters of one object, in the order of arrival.
pub struct Batch {
    /// Of which object, and how far it is.
    pub tag: AtomicU64,
    /// It has all waiters of smaller tickets.
    pub before: AtomicU64,
    /// How many there are.
    pub count: AtomicU64,
    /// The first that may still wait.
    pub next: AtomicU64,
    /// As many as there are members.
    pub entries: Box<[AtomicU64]>,
}

/// All that a private arena has; none in a named one.
pub(super) struct Batches {
    all: Box<[Batch]>,
    enlisting: Box<[AtomicU64]>,
}

/// Zeros. Where they are what ships, they have no storage behind them before they are used.
fn words(n: usize) -> Box<[AtomicU64]> {
    #[cfg(any(feature = "sim", feature = "loom"))]
    return (0..n).map(|_| AtomicU64::new(0)).collect();
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    // SAFETY: zeros are atomics.
    unsafe {
        Box::new_zeroed_slice(n).assume_init()
    }
}

impl Batches {
    pub fn none() -> Batches {
        Batches { all: Box::default(), enlisting: Box::default() }
    }

    pub fn new(geometry: Geometry) -> Batches {
        let members = geometry.members as usize;
        let batch = |_| {
            let [tag, before, count, next] = [const { AtomicU64::new(0) }; 4];
            Batch { tag, before, count, next, entries: words(members) }
        };
        Batches { all: (0..BATCHES).map(batch).collect(), enlisting: words(members) }
    }
}

impl Map {
    /// Where waiters of the object may be in the order of arrival. None in a named arena.
    #[inline]
    pub fn batch(&self, object: u32) -> Option<&Batch> {
        self.batches.all.get(object as usize % BATCHES)
    }

    /// The ticket with which a member of a private arena is just getting in line; 0: it is not.
    #[inline]
    pub fn enlisting(&self, member: u32) -> Option<&AtomicU64> {
        self.batches.enlisting.get(member as usize)
    }
}
