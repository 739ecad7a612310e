//! Room for an object's waiters in the order of arrival: see `batch` of the wait queue, its only user.

use super::Map;
use crate::layout::{self, Geometry};
use chappe_plat::atomic::AtomicU64;
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;

/// How many a process has: objects share them.
const BATCHES: usize = if cfg!(any(feature = "sim", feature = "loom")) { 2 } else { layout::BATCHES };

/// Waiters of one object, in the order of arrival.
pub struct Batch {
    /// Of which object, and how far it is.
    pub tag: AtomicU64,
    /// How often a waiter had come late before it was built.
    pub late: AtomicU64,
    /// How many there are.
    pub count: AtomicU64,
    /// The first that may still wait.
    pub next: AtomicU64,
    /// As many as there are members.
    pub entries: Box<[AtomicU64]>,
}

/// All that this process has for an arena. They lie in its own memory, also if the arena is named.
pub(super) struct Batches {
    all: Box<[Batch]>,
    /// A private arena's; in a named one the members' slots have room for it.
    enlisting: Box<[AtomicU64]>,
    /// The process whose they are.
    #[cfg(not(feature = "sim"))]
    incarnation: AtomicU64,
    /// Whether a named arena has batches in this world: only if the world asks for it.
    #[cfg(feature = "sim")]
    named: std::cell::Cell<bool>,
}

/// The explorer's processes share a map: each has batches of its own.
#[cfg(feature = "sim")]
const PROCESSES: usize = 4;

/// Zeros. Where they are what ships, they have no storage behind them before they are used.
pub(super) fn words(n: usize) -> Box<[AtomicU64]> {
    #[cfg(any(feature = "sim", feature = "loom"))]
    return (0..n).map(|_| AtomicU64::new(0)).collect();
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    // SAFETY: zeros are atomics.
    unsafe {
        Box::new_zeroed_slice(n).assume_init()
    }
}

fn batches(n: usize, members: usize) -> Box<[Batch]> {
    let batch = |_| {
        let [tag, late, count, next] = [const { AtomicU64::new(0) }; 4];
        Batch { tag, late, count, next, entries: words(members) }
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

impl Map {
    /// Where this process may have the object's waiters in the order of arrival.
    #[inline]
    pub fn batch(&self, object: u32) -> Option<&Batch> {
        let at = object as usize % BATCHES;
        #[cfg(feature = "sim")]
        if self.batches.enlisting.is_empty() {
            let process = chappe_plat::process::pid() as usize % PROCESSES;
            return self.batches.named.get().then(|| &self.batches.all[process * BATCHES + at]);
        }
        self.batches.all.get(at)
    }

    /// In a world whose processes have batches of a named arena.
    #[cfg(feature = "sim")]
    pub fn keep_batches(&self) {
        self.batches.named.set(true);
    }

    /// In a forked child, which has one thread: nobody there goes on with what the parent's threads were at. In the parent this does nothing.
    #[cfg(not(feature = "sim"))]
    pub fn forget_parents_batches(&self) {
        let now = chappe_plat::process::incarnation();
        // Relaxed, these: only the child's one thread finds another number.
        if self.batches.incarnation.swap(now, Ordering::Relaxed) == now {
            return;
        }
        // Relaxed: as above.
        self.batches.enlisting.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.batches.all.iter().for_each(|batch| batch.tag.store(0, Ordering::Relaxed)); // Relaxed: as above.
    }

    /// The ticket with which a member is just setting its bits; 0: it is not.
    #[inline]
    pub fn enlisting(&self, member: u32) -> Option<&AtomicU64> {
        #[cfg(feature = "sim")]
        if self.batches.enlisting.is_empty() && !self.batches.named.get() {
            return None;
        }
        let own = self.batches.enlisting.get(member as usize);
        Some(own.unwrap_or_else(|| &self.member(member).alias))
    }

    /// All waiters of smaller tickets may be in a batch that some process has of the object.
    #[inline]
    pub fn batched(&self, object: u32) -> &AtomicU64 {
        &self.header().batched[object as usize % BATCHES]
    }

    /// How often a waiter came late, so that a batch of the object may lack it.
    #[inline]
    pub fn late(&self, object: u32) -> &AtomicU64 {
        &self.header().late[object as usize % BATCHES]
    }
}
