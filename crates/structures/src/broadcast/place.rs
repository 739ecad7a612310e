//! Where a broadcast tube's ring lies in memory: its parts, its words taken apart, and the bytes of records. See `ring`.

use crate::slot::{self, Lap, load, store};
pub(super) use crate::slot::{EMPTY, FULL, WRITING, lap, owner, state};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The most subscriptions of a tube.
pub const MOST_SUBSCRIPTIONS: u32 = 256;
/// The most slots.
pub const MOST_SLOTS: u32 = 1 << 16;
/// The most bytes of a filter and its parameters.
pub const MOST_TEXT: usize = if cfg!(feature = "sim") { 16 } else { 1024 };
/// Slots whose bits one word has.
pub(super) const GROUP: u32 = 32;
/// Bits of subscriptions.
pub type Mask = [u64; MOST_SUBSCRIPTIONS as usize / 64];

pub(super) const SKIPPED: u64 = 3;
pub(super) const VOID: u64 = 4;
pub(super) const KEPT: u64 = 5;

pub(super) fn word(lap: u64, owner: u16, state: u64) -> u64 {
    slot::word(Lap::word(lap), owner, state)
}

/// What a slot's word says, for people.
#[cfg(feature = "sim")]
pub fn in_words(of: u64) -> String {
    let states = ["EMPTY", "WRITING", "FULL", "SKIPPED", "VOID", "KEPT", "6", "7"];
    format!("lap {} {} of {}", lap(of), states[state(of) as usize], owner(of))
}

/// The numbers whose bits stand.
pub fn each(mask: &Mask) -> impl Iterator<Item = u32> + '_ {
    mask.iter().enumerate().flat_map(|(i, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(i as u32 * 64 + bit)
        })
    })
}

/// What becomes of records for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Publishers wait.
    Block,
    /// The oldest that was not taken goes.
    Oldest,
    /// At most so many are kept, the later ones go.
    Newest(u32),
}

impl Terms {
    pub(super) fn number(self) -> u64 {
        match self {
            Terms::Block => 0,
            Terms::Oldest => 1,
            Terms::Newest(most) => 2 | u64::from(most) << 32,
        }
    }
    pub(super) fn of(number: u64) -> Terms {
        match number & 3 {
            0 => Terms::Block,
            1 => Terms::Oldest,
            _ => Terms::Newest((number >> 32) as u32),
        }
    }
}

#[repr(C, align(64))]
pub struct Spsc(pub AtomicU64);

/// What the ring has once.
#[repr(C, align(64))]
pub struct Head {
    /// A position that is claimed next, or one before it.
    pub tail: Spsc,
    /// Before it, none is being written.
    pub settled: Spsc,
}

#[repr(C)]
pub(super) struct SlotHead {
    pub word: AtomicU64,
    /// The position of the record that is there.
    pub at: AtomicU64,
    pub len: AtomicU64,
    /// The subscriptions that got the record.
    pub mask: [AtomicU64; MOST_SUBSCRIPTIONS as usize / 64],
}

/// A subscription.
#[repr(C, align(64))]
pub struct SubHead {
    /// Whose it is: `generation:32 | member + 1:32`; 0: nobody's.
    pub owner: AtomicU64,
    /// See [`Terms`].
    pub terms: AtomicU64,
    /// The first position that it has not seen.
    pub next: AtomicU64,
    /// How many it has taken.
    pub taken: AtomicU64,
    /// How many were not given to it: those that it drops as the newest.
    pub dropped: AtomicU64,
    /// The waiter for its records: member + 1; 0: none.
    pub waiter: AtomicU32,
    /// Odd while its text is written.
    pub version: AtomicU32,
    /// Bytes of its text.
    pub len: AtomicU32,
    pad: u32,
    /// Its filter.
    pub text: [AtomicU64; MOST_TEXT / 8],
}

/// How large each part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A power of two.
    pub slots: u32,
    pub size: u32,
    pub align: u32,
    pub subscriptions: u32,
}

impl Shape {
    fn offset(self) -> usize {
        size_of::<SlotHead>().next_multiple_of(self.align as usize)
    }
    fn stride(self) -> usize {
        (self.offset() + self.size as usize).next_multiple_of(self.align.max(64) as usize)
    }
    fn words(self) -> usize {
        self.slots.div_ceil(GROUP) as usize
    }
    fn sub_stride(self) -> usize {
        (size_of::<SubHead>() + self.words() * 8).next_multiple_of(64)
    }
    /// Whether there can be such a ring.
    pub fn is_possible(self) -> bool {
        (2..=MOST_SLOTS).contains(&self.slots)
            && self.slots.is_power_of_two()
            && self.align.is_power_of_two()
            && self.align <= 64
            && (1..=MOST_SUBSCRIPTIONS).contains(&self.subscriptions)
            && self.size <= 1 << 30
    }
    /// Bytes of the whole.
    pub fn bytes(self) -> usize {
        size_of::<Head>() + self.subscriptions as usize * self.sub_stride() + self.slots as usize * self.stride()
    }
}

/// A ring, as one process sees it.
#[derive(Clone, Copy)]
pub struct Ring<'m> {
    pub(super) head: &'m Head,
    subs: NonNull<u8>,
    slots: NonNull<u8>,
    pub(super) shape: Shape,
    memory: PhantomData<&'m [AtomicU64]>,
}

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Ring<'_> {}
// SAFETY: as above.
unsafe impl Sync for Ring<'_> {}

impl<'m> Ring<'m> {
    /// The ring at a place.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as [`Shape::bytes`] says, for as long as `'m`; they were zero at first,
    /// and nothing but rings of this shape has touched them since.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Ring<'m> {
        debug_assert!(shape.is_possible());
        // SAFETY: as the caller promises; any bytes are a `Head`.
        let head = unsafe { place.cast::<Head>().as_ref() };
        // SAFETY: the parts come one after the other.
        let subs = unsafe { place.add(size_of::<Head>()) };
        // SAFETY: as above.
        let slots = unsafe { subs.add(shape.subscriptions as usize * shape.sub_stride()) };
        Ring { head, subs, slots, shape, memory: PhantomData }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A subscription's record.
    #[inline(always)]
    pub fn sub(&self, who: u32) -> &'m SubHead {
        assert!(who < self.shape.subscriptions, "subscription {who}");
        // SAFETY: within the ring, as was just seen; any bytes are a `SubHead`.
        unsafe { self.subs.add(who as usize * self.shape.sub_stride()).cast::<SubHead>().as_ref() }
    }

    /// A subscription's bits.
    #[inline(always)]
    pub(super) fn wanted(&self, who: u32) -> &'m [AtomicU64] {
        let at = std::ptr::from_ref(self.sub(who)).cast::<u8>();
        // SAFETY: they come after its record, within its stride.
        unsafe { std::slice::from_raw_parts(at.add(size_of::<SubHead>()).cast(), self.shape.words()) }
    }

    #[inline(always)]
    pub(super) fn slot(&self, slot: u32) -> &'m SlotHead {
        debug_assert!(slot < self.shape.slots);
        // SAFETY: a slot of this ring: numbers are positions modulo the slots.
        unsafe { self.slots.add(slot as usize * self.shape.stride()).cast::<SlotHead>().as_ref() }
    }

    /// The slot's word, for onlookers.
    #[cfg(feature = "sim")]
    pub fn word_of(&self, slot: u32) -> &'m AtomicU64 {
        &self.slot(slot).word
    }

    fn payload(&self, slot: u32) -> &'m [AtomicU64] {
        let at = std::ptr::from_ref(self.slot(slot)).cast::<u8>();
        // SAFETY: within the slot, whose stride is a multiple of 64, as is its place; the offset is one of eight.
        unsafe {
            let first = at.add(self.shape.offset());
            std::slice::from_raw_parts(first.cast(), (self.shape.size as usize).div_ceil(8))
        }
    }

    #[inline(always)]
    pub(super) fn slot_of(&self, position: u64) -> u32 {
        position as u32 & (self.shape.slots - 1)
    }
    #[inline(always)]
    pub(super) fn lap_of(&self, position: u64) -> u64 {
        (position >> self.shape.slots.trailing_zeros()) + 1
    }
    pub(super) fn position(&self, lap: u64, slot: u32) -> u64 {
        (lap - 1) << self.shape.slots.trailing_zeros() | u64::from(slot)
    }

    #[inline(always)]
    pub(super) fn write(&self, slot: u32, record: &[u8]) {
        store(self.payload(slot), record);
    }

    /// Copies what is in a slot, or a mixture of what is and was there: the caller finds out.
    #[inline(always)]
    pub(super) fn read(&self, slot: u32, buffer: &mut [MaybeUninit<u8>]) -> usize {
        // Relaxed: E2.
        let len = (self.slot(slot).len.load(Ordering::Relaxed) as usize).min(self.shape.size as usize);
        load(self.payload(slot), &mut buffer[..len]);
        len
    }
}
