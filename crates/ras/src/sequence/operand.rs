//! What sections work on, and what they come to.

use chappe_plat::atomic::{AtomicU64, Ordering};

/// What a section came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is committed.
    Done(T),
    /// It found another value than it was told to, nothing to take, or no room. Nothing was changed.
    Differs,
    /// The slot is not this thread's any more, or is closed. Nothing was changed.
    Moved,
    /// The kernel has aborted it. Nothing was changed.
    Aborted,
}

/// What is at the beginning of a node: what follows it in its list, or 0.
#[repr(C, align(8))]
pub struct Link(pub(crate) AtomicU64);

impl Link {
    /// Of a node in no list.
    pub const fn new() -> Link {
        Link(AtomicU64::new(0))
    }

    /// The node's address, as lists have it.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// What follows, for a thread that has the list to itself.
    pub fn next(&self) -> u64 {
        // Relaxed: no other thread changes it.
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Link {
    fn default() -> Link {
        Link::new()
    }
}

/// The versions of a pair count by the size of a buffer: the bit that changes is the current buffer's offset.
const BUFFER: u64 = 16;

/// Two counters that change together. Only sections write to it, or the thread that has seized its slot.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Pair {
    pub(crate) version: AtomicU64,
    pub(crate) buffers: [[AtomicU64; 2]; 2],
}

impl Pair {
    /// Both, as they were at one moment. Never waits for a writer that is stopped; tries again while others write.
    pub fn read(&self) -> (u64, u64) {
        loop {
            // Acquire: E2, the buffer's words are not read before it.
            let version = self.version.load(Ordering::Acquire);
            let [x, y] = &self.buffers[(version & BUFFER != 0) as usize];
            // Acquire, both: E2, the version is not read again before them.
            let both = (x.load(Ordering::Acquire), y.load(Ordering::Acquire));
            // Relaxed: E2. It is written to only when the version has changed.
            if self.version.load(Ordering::Relaxed) == version {
                return both;
            }
        }
    }
}
