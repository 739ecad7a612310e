//! Where the positions of a ring lie: in a fixed number of slots, lap after lap.

use super::word::{EMPTY, word};
use chappe_plat::atomic::{AtomicU64, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The reason for asking where a position lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A receiver that has walked to it: everything before is done with.
    Head,
    /// A sender that has walked to it: everything before is claimed or passed over.
    Tail,
    /// A thread that only looks ahead.
    Ahead,
}

/// Why a position lies nowhere.
pub enum Off {
    /// It is done with, like everything before this one.
    Gone(u64),
    /// There is no slot for it yet.
    Beyond,
}

/// A run of positions, `lap << SHIFT | slot`.
pub trait Slots<T> {
    /// The position's slot, and its lap.
    ///
    /// # Errors
    /// Where it is instead.
    fn at(&self, position: u64, end: End) -> Result<(&Slot<T>, u64), Off>;
    /// The position after this one.
    fn next(&self, position: u64) -> u64;
    /// Makes a slot for a position that lay beyond.
    fn grow(&self);
    /// How many slots there are; `None`: unbounded.
    fn capacity(&self) -> Option<usize>;
    /// How many positions there are before this one.
    fn rank(&self, position: u64) -> u64;
}

/// A message's place, and the words that say which thread owns it.
pub struct Slot<T> {
    pub(super) word: AtomicU64,
    pub(super) passed: AtomicU64,
    pub(super) message: Place<T>,
}

impl<T> Slot<T> {
    /// Makes a slot with this word in place; the message's place need not be written.
    ///
    /// # Safety
    /// There is room for one, and no other thread uses it yet.
    pub(super) unsafe fn lay(slot: *mut Slot<T>, word: u64) {
        // SAFETY: as the caller says.
        unsafe {
            (&raw mut (*slot).word).write(AtomicU64::new(word));
            (&raw mut (*slot).passed).write(AtomicU64::new(0));
        }
    }

    /// As zeroed memory.
    #[cfg(feature = "sim")]
    pub(super) fn wipe(&self) {
        self.word.store(0, Ordering::Release); // Release: as what the kernel does is seen.
        self.passed.store(0, Ordering::Release); // Release: as above.
    }

    /// Whether positions of this lap were passed over, or are about to be.
    #[inline(always)]
    pub(super) fn is_passed(&self, lap: u64) -> bool {
        // Acquire: the thread that marked has seen why.
        self.passed.load(Ordering::Acquire) >> 1 > lap
    }
}

/// A message, so that it can be copied by words.
#[repr(C, align(8))]
pub(super) struct Whole<T>(pub T);

/// Where a message lies.
pub(super) struct Place<T>(UnsafeCell<MaybeUninit<Whole<T>>>);

impl<T> Place<T> {
    /// What lies there, or a mixture of old and new bytes: the caller finds out which.
    #[inline(always)]
    pub fn copied(&self) -> MaybeUninit<Whole<T>> {
        let mut copy = MaybeUninit::<Whole<T>>::uninit();
        let (from, to) = (self.0.get().cast::<MaybeUninit<u64>>(), copy.as_mut_ptr().cast::<MaybeUninit<u64>>());
        for i in 0..size_of::<Whole<T>>() / 8 {
            // SAFETY: both are so many words, aligned; a word of any bytes may be copied. Volatile: others may write there.
            unsafe { to.add(i).write(from.add(i).read_volatile()) };
        }
        copy
    }

    /// Where to write one.
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        self.0.get().cast()
    }
}

/// A fixed number of slots.
pub struct Fixed<T> {
    slots: Box<[Slot<T>]>,
    shift: u32,
}

impl<T> Fixed<T> {
    /// Room for so many messages.
    pub(super) fn new(capacity: usize) -> Fixed<T> {
        let mut slots = Box::<[Slot<T>]>::new_uninit_slice(capacity);
        for slot in &mut slots {
            // SAFETY: it is ours.
            unsafe { Slot::lay(slot.as_mut_ptr(), word(0, EMPTY)) };
        }
        // SAFETY: each was made, and places of messages may be anything.
        let slots = unsafe { slots.assume_init() };
        Fixed { slots, shift: capacity.next_power_of_two().trailing_zeros() }
    }
}

#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
impl<T> Fixed<T> {
    /// All slots say so.
    pub(super) fn begin_at(&self, word: u64) {
        (0..self.slots.len()).for_each(|slot| self.set(slot, word));
    }

    /// A slot says so.
    pub(super) fn set(&self, slot: usize, word: u64) {
        self.slots[slot].word.store(word, Ordering::Relaxed); // Relaxed: no other thread has it.
    }
}

impl<T> Slots<T> for Fixed<T> {
    #[inline(always)]
    fn at(&self, position: u64, _end: End) -> Result<(&Slot<T>, u64), Off> {
        Ok((&self.slots[(position & ((1 << self.shift) - 1)) as usize], position >> self.shift))
    }

    #[inline(always)]
    fn next(&self, position: u64) -> u64 {
        let slot = position & ((1 << self.shift) - 1);
        if slot + 1 < self.slots.len() as u64 { position + 1 } else { ((position >> self.shift) + 1) << self.shift }
    }

    fn grow(&self) {}

    fn capacity(&self) -> Option<usize> {
        Some(self.slots.len())
    }

    fn rank(&self, position: u64) -> u64 {
        (position >> self.shift) * self.slots.len() as u64 + (position & ((1 << self.shift) - 1))
    }
}
