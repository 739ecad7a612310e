//! The ring of one sender and one receiver: two indices, each written by one of them, and no locked operation.
//!
//! The sender owns `tail`, the receiver owns `head`. Each keeps the last value that it saw of the other's index in a cache line of its own, and
//! reads the index again only when that value says full, or empty. So as long as the two are apart, only the messages' cache lines move between
//! the processors. And an end that polls takes only the line of the other's index, and nothing that the other end reads
//! to go on (a stream of 64 bytes: 24 ns a message instead of 30).
//!
//! ```text
//!        head                 tail
//!         v                    v
//!    .....mmmmmmmmmmmmmmmmmmmmm......        tail - head messages, never more than there are slots
//! ```
//!
//! Invariants:
//! - I1: only the receiver reads slots from head to tail, only the sender writes the others.
//! - I2: an index is stored after what it says is done: E1 (release/acquire), message before tail; copy before head. So one store
//!   sends a message, and one receives it: an end that stops before its store has not sent or received.
//!
//! Progress: wait-free.
//!
//! Paper: synthesis, 3.3.1 (the queue of one producer and one consumer).
//!
//! Measured (pair, one thread, 8 bytes): see `docs/benchmarks.md`. A word a slot instead of the two indices, as evidence (section 6) has it,
//! came to twice as many cache lines a message.

use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// One end: what it has done, on a line of its own, and behind that what only it knows.
#[derive(Default)]
#[repr(C, align(128))]
struct Index {
    mine: AtomicU64,
    rest_of_line: [u64; 7],
    /// As `mine`.
    own: Cell<u64>,
    /// The last value seen of the other end's index.
    seen: Cell<u64>,
    /// The slot of the next message.
    place: Cell<usize>,
}

impl Index {
    #[inline(always)]
    fn at(&self) -> u64 {
        // In loom's scenes only atomics begin anew with each execution. Relaxed: it is ours.
        if cfg!(feature = "loom") { self.mine.load(Ordering::Relaxed) } else { self.own.get() }
    }
}

/// A ring of slots between one thread that sends and one that receives.
pub struct Spsc<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    head: Index,
    tail: Index,
}

// SAFETY: see `send` and `take`: each end is one thread's at a time.
unsafe impl<T: Send> Send for Spsc<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Spsc<T> {}

impl<T> Spsc<T> {
    /// A line with room for so many messages.
    ///
    /// # Panics
    /// If the memory for so many is beyond what can be addressed.
    pub fn new(capacity: usize) -> Spsc<T> {
        super::word::check::<T>(capacity);
        // SAFETY: places of messages may be anything.
        let slots = unsafe { Box::<[UnsafeCell<MaybeUninit<T>>]>::new_uninit_slice(capacity).assume_init() };
        Spsc { slots, head: Index::default(), tail: Index::default() }
    }

    /// As if so many messages had gone by.
    #[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
    pub(super) fn begin_at(capacity: usize, messages: u64) -> Spsc<T> {
        let line = Spsc::new(capacity);
        for index in [&line.head, &line.tail] {
            index.mine.store(messages, Ordering::Relaxed); // Relaxed: no other thread has it yet.
            index.seen.set(messages);
            index.own.set(messages);
        }
        line
    }

    /// How many slots there are.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn go_on(&self, index: &Index, at: u64, place: usize) {
        index.place.set(if place + 1 < self.slots.len() { place + 1 } else { 0 });
        index.own.set(at + 1);
        // Release: E1.
        index.mine.store(at + 1, Ordering::Release);
    }

    /// Whether there is a hole.
    ///
    /// # Safety
    /// No other thread sends meanwhile.
    #[inline(always)]
    pub unsafe fn has_hole(&self) -> bool {
        let tail = self.tail.at();
        if tail - self.tail.seen.get() < self.slots.len() as u64 {
            return true;
        }
        // Acquire: E1.
        self.tail.seen.set(self.head.mine.load(Ordering::Acquire));
        tail - self.tail.seen.get() < self.slots.len() as u64
    }

    /// Sends a message.
    ///
    /// # Safety
    /// There is a hole, and no other thread sends meanwhile.
    #[inline(always)]
    pub unsafe fn put(&self, message: T) {
        let place = self.tail.place.get();
        // SAFETY: I1; a place is below the number of slots.
        unsafe { (*self.slots.get_unchecked(place).get()).write(message) };
        step!("written, not yet there");
        self.go_on(&self.tail, self.tail.at(), place);
    }

    /// Whether there is a message.
    ///
    /// # Safety
    /// No other thread receives meanwhile.
    #[inline(always)]
    pub unsafe fn has_message(&self) -> bool {
        let head = self.head.at();
        if head != self.head.seen.get() {
            return true;
        }
        // Acquire: E1.
        self.head.seen.set(self.tail.mine.load(Ordering::Acquire));
        head != self.head.seen.get()
    }

    /// Takes the next message.
    ///
    /// # Safety
    /// There is a message, and no other thread receives meanwhile.
    #[inline(always)]
    pub unsafe fn get(&self) -> T {
        let place = self.head.place.get();
        // SAFETY: I1: it was written, and is read once.
        let message = unsafe { (*self.slots.get_unchecked(place).get()).assume_init_read() };
        step!("read, not yet given up");
        self.go_on(&self.head, self.head.at(), place);
        message
    }

    /// Takes the next message, if there is one.
    ///
    /// # Safety
    /// No other thread receives meanwhile.
    pub unsafe fn take(&self) -> Option<T> {
        // SAFETY: by the caller's promise.
        unsafe { self.has_message().then(|| self.get()) }
    }

    /// How many messages have gone in.
    pub fn gone_in(&self) -> u64 {
        self.tail.mine.load(Ordering::Relaxed) // Relaxed: a hint.
    }

    /// How many messages there are. Any thread may call it.
    pub fn count(&self) -> usize {
        // Acquire, both: E1. The head first: it does not overtake the tail.
        let head = self.head.mine.load(Ordering::Acquire);
        (self.tail.mine.load(Ordering::Acquire) - head) as usize // Acquire: as above.
    }
}

impl<T> Drop for Spsc<T> {
    fn drop(&mut self) {
        // If a message panics when it is dropped, those behind it leak: a second panic would end the process.
        // SAFETY: we are alone.
        while unsafe { self.take() }.is_some() {}
    }
}
