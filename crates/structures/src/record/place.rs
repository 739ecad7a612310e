//! The layout of a ring of records, and its words.
//!
//! ```text
//!  Head                                          slots
//!  tail . . | head . . | orphans settled .. | . | word, len | payload | word, len | payload | ..
//! ```
//!
//! Each slot has cache lines of its own: otherwise two members at neighbouring slots would take a line from each other. Only between
//! one sender and one receiver, which are seldom at neighbouring slots for long, small slots lie close together. (A message of 8 bytes from
//! processor to processor, many members at both ends: 44 ns, and 104 where slots share lines; 27 and 22 with only one at each end. Of 64
//! bytes: 54 and 120; 51 and 79.)
//!
//! A position has the lap where a slot's word has it (`slot`).

pub(super) use crate::slot::{EMPTY, FULL, WRITING, lap, owner, state, word};
use crate::slot::{Lap, STATE, load, store};
use chappe_plat::atomic::{AtomicU64, Ordering};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A number that no member has.
pub const NOBODY: u16 = u16::MAX;
const _: () = assert!(chappe_arena::layout::MAX_MEMBERS <= NOBODY as u32);

pub(super) const READING: u64 = 3;
pub(super) const AGAIN: u64 = 4;
pub(super) const REREADING: u64 = 5;
pub(super) const SKIPPED: u64 = 6;

const SLOT: u64 = !Lap::MASK;
const ONE_LAP: u64 = MOST_SLOTS as u64;
/// The size of a cache line.
const LINE: usize = 64;

/// How many slots a ring can have.
pub const MOST_SLOTS: u32 = 1 << 19;

#[inline(always)]
pub(super) fn slot_of(position: u64) -> u32 {
    (position & SLOT) as u32
}

/// By how much the word's lap is ahead of the position's: only the sign is of interest.
#[inline(always)]
pub(super) fn ahead(word: u64, position: u64) -> i64 {
    Lap::ahead(word, position)
}

/// The same word in another state.
pub(super) fn restated(word: u64, state: u64) -> u64 {
    word & !STATE | state
}

/// EMPTY, in the lap after.
#[inline(always)]
pub(super) fn freed(word: u64) -> u64 {
    Lap::next(Lap::alone(word))
}

/// Whether a member has the slot.
#[inline(always)]
pub(super) fn is_held_by(word: u64, member: u16) -> bool {
    matches!(state(word), WRITING | READING | REREADING | SKIPPED) && owner(word) == member
}

/// The position, or the same slot's so many laps before the word's, if that is later.
pub(super) fn not_before(position: u64, word: u64, laps: u64) -> u64 {
    let other = Lap::alone(word).wrapping_sub(laps * ONE_LAP) | position & SLOT;
    if other.wrapping_sub(position) as i64 > 0 { other } else { position }
}

/// Whether a member that walked on from a position has come half round all laps. Only words overwritten by a wild write lead there:
/// each ahead of the one before, in a ring, for ever.
#[inline(always)]
pub(super) fn is_round(start: u64, position: u64) -> bool {
    ahead(position, start) < 0
}

/// A word as text, for the explorer's reports.
#[cfg(any(test, feature = "sim"))]
pub fn in_words(word: u64) -> String {
    let (lap, of) = (Lap::of(word), format!("({})", owner(word)));
    let (name, of) = match state(word) {
        EMPTY => ("empty", String::new()),
        WRITING => ("writing", of),
        FULL => ("full", String::new()),
        READING => ("reading", of),
        AGAIN => ("again", String::new()),
        REREADING => ("rereading", of),
        SKIPPED => ("skipped", of),
        _ => ("no word", String::new()),
    };
    format!("{name}{of} {lap}")
}

/// What a ring is made for. All its users pass the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many slots, [`MOST_SLOTS`] at most.
    pub slots: u32,
    /// The most bytes of a record.
    pub size: u32,
    /// Where a record may begin: a power of two, 64 at most.
    pub align: u32,
    /// Only one member at a time sends. After its death its successor sends once recovery is complete.
    pub one_sender: bool,
    /// Only one member at a time receives.
    pub one_receiver: bool,
    /// A record whose receiver dies before it has released it is dropped, not delivered again.
    pub drops: bool,
}

impl Shape {
    /// A ring with many senders and receivers, where records that a dead receiver had are delivered again.
    pub fn many(slots: u32, size: u32, align: u32) -> Shape {
        Shape { slots, size, align, one_sender: false, one_receiver: false, drops: false }
    }

    fn offset(self) -> usize {
        size_of::<SlotHead>().next_multiple_of(self.align as usize)
    }

    /// How many bytes a slot takes, if that can be told.
    fn stride(self) -> Option<usize> {
        let all = self.offset().checked_add(self.size as usize)?;
        let is_close = self.one_sender && self.one_receiver && all <= LINE;
        all.checked_next_multiple_of(if is_close { 8.max(self.align as usize) } else { LINE })
    }
}

/// How many bytes a ring takes, from an address that is a multiple of 64; none if it has more than can be told.
pub fn bytes_wanted(shape: Shape) -> Option<usize> {
    shape.stride()?.checked_mul(shape.slots as usize)?.checked_add(size_of::<Head>())
}

/// How many bytes a ring takes, whatever its kind, from an address that is a multiple of 64.
///
/// # Panics
/// If there can be no such ring.
pub fn bytes_needed(slots: u32, size: u32, align: u32) -> usize {
    bytes_wanted(Shape::many(slots, size, align)).expect("a ring that can be")
}

/// On a line of its own, and the line that processors fetch with it.
#[derive(Default)]
#[repr(C, align(64))]
struct Apart(AtomicU64, [u64; 15]);

/// What a ring has besides its slots.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Head {
    /// Where the next record is to be sent, or behind that.
    tail: Apart,
    /// Where the next one is to be received, or behind that.
    head: Apart,
    /// One more whenever there may be a new AGAIN.
    pub(super) orphans: AtomicU64,
    /// What `orphans` was before a look that found none.
    pub(super) settled: AtomicU64,
    /// How many went to AGAIN.
    pub(super) redelivered: AtomicU64,
    /// How many were dropped, and which is being dropped now: see `recovery`.
    pub(super) dropped: AtomicU64,
}

/// What a slot has besides its payload.
#[repr(C)]
struct SlotHead {
    word: AtomicU64,
    len: AtomicU64,
}

/// A ring in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    pub(super) counts: &'a Head,
    first: NonNull<u8>,
    stride: usize,
    offset: usize,
    shape: Shape,
    memory: PhantomData<&'a [SlotHead]>,
}

// SAFETY: all that is shared is atomic words, but for payloads that the user touches in place, which only their owner does.
unsafe impl Send for Ring<'_> {}
// SAFETY: as above.
unsafe impl Sync for Ring<'_> {}

impl<'a> Ring<'a> {
    /// The ring at a place. Zeroed memory is an empty one.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as [`bytes_needed`] says, for as long as `'a`. They were zero
    /// at first, and nothing but rings of this shape has touched them since, or payloads in place, by their owners.
    ///
    /// # Panics
    /// If there can be no such ring.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Ring<'a> {
        let Shape { slots, align, .. } = shape;
        assert!((1..=MOST_SLOTS).contains(&slots), "a ring of {slots} slots");
        assert!(align.is_power_of_two() && align <= 64, "records aligned to {align}");
        assert!(place.addr().get().is_multiple_of(64), "a ring that is not aligned");
        // SAFETY: as the caller promises; any bytes are a `Head`.
        let counts = unsafe { place.cast::<Head>().as_ref() };
        // SAFETY: the slots come after it.
        let first = unsafe { place.add(size_of::<Head>()) };
        let stride = shape.stride().expect("a ring that can be");
        Ring { counts, first, stride, offset: shape.offset(), shape, memory: PhantomData }
    }

    /// As if that many laps had gone by. No other thread uses it yet.
    #[cfg(any(test, feature = "sim"))]
    pub fn begin_at(&self, lap: u64) {
        let lap = lap.wrapping_mul(ONE_LAP);
        for slot in 0..self.slots() {
            self.at(slot).store(word(lap, 0, EMPTY), Ordering::Relaxed); // Relaxed: no other thread uses it yet.
        }
        self.tail().store(lap, Ordering::Relaxed); // Relaxed: as above.
        self.head().store(lap, Ordering::Relaxed); // Relaxed: as above.
    }

    /// A slot's word, for onlookers.
    #[cfg(feature = "sim")]
    pub fn word_of(&self, slot: u32) -> &'a AtomicU64 {
        // SAFETY: as in `at`.
        unsafe { &self.slot(slot).as_ref().word }
    }

    /// Where the next is to be sent, and where to be received, for onlookers.
    #[cfg(feature = "sim")]
    pub fn hints(&self) -> (&'a AtomicU64, &'a AtomicU64) {
        (&self.counts.tail.0, &self.counts.head.0)
    }

    pub fn slots(&self) -> u32 {
        self.shape.slots
    }

    pub fn size(&self) -> u32 {
        self.shape.size
    }

    pub fn one_sender(&self) -> bool {
        self.shape.one_sender
    }

    pub fn one_receiver(&self) -> bool {
        self.shape.one_receiver
    }

    pub(super) fn drops(&self) -> bool {
        self.shape.drops
    }

    #[inline(always)]
    pub(super) fn tail(&self) -> &AtomicU64 {
        &self.counts.tail.0
    }

    #[inline(always)]
    pub(super) fn head(&self) -> &AtomicU64 {
        &self.counts.head.0
    }

    /// Where a hint leads. A hint that names no slot was overwritten by a wild write: it leads to the first slot of its lap.
    #[inline(always)]
    pub(super) fn led(&self, hint: u64) -> u64 {
        if slot_of(hint) < self.shape.slots { hint } else { Lap::alone(hint) }
    }

    /// The position after this one.
    #[inline(always)]
    pub(super) fn next(&self, position: u64) -> u64 {
        if slot_of(position) + 1 < self.shape.slots { position + 1 } else { freed(position) }
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> NonNull<SlotHead> {
        debug_assert!(slot < self.shape.slots);
        // SAFETY: a slot of this ring; positions come from hints by `led`, and what an announced drop names is looked at.
        unsafe { self.first.add(slot as usize * self.stride) }.cast()
    }

    /// A slot's word.
    #[inline(always)]
    pub(super) fn at(&self, slot: u32) -> &AtomicU64 {
        // SAFETY: it is there, for as long as the ring is.
        unsafe { &self.slot(slot).as_ref().word }
    }

    /// The word of a position's slot.
    #[inline(always)]
    pub(super) fn word(&self, position: u64) -> &AtomicU64 {
        self.at(slot_of(position))
    }

    /// The length of what is in a slot.
    #[inline(always)]
    pub(super) fn len_of(&self, slot: u32) -> &AtomicU64 {
        // SAFETY: as in `at`.
        unsafe { &self.slot(slot).as_ref().len }
    }

    /// A slot's payload.
    #[inline(always)]
    pub(super) fn bytes(&self, slot: u32) -> *mut u8 {
        // SAFETY: within the slot.
        unsafe { self.slot(slot).cast::<u8>().add(self.offset) }.as_ptr()
    }

    /// The same, by words: the last one's rest is there as well.
    #[inline(always)]
    fn payload(&self, slot: u32) -> &[AtomicU64] {
        let words = (self.shape.size as usize).div_ceil(8);
        // SAFETY: within the slot, whose length and alignment are multiples of eight.
        unsafe { std::slice::from_raw_parts(self.bytes(slot).cast(), words) }
    }

    /// Writes a record to a slot that is ours.
    #[inline(always)]
    pub(super) fn write(&self, slot: u32, record: &[u8]) {
        assert!(record.len() <= self.size() as usize, "a record of {} bytes", record.len());
        store(self.payload(slot), record);
    }

    /// Copies what is in a slot, or a mixture of old and new bytes: the caller finds out which.
    #[inline(always)]
    pub(super) fn read(&self, slot: u32, buffer: &mut [MaybeUninit<u8>]) -> u32 {
        assert!(buffer.len() >= self.size() as usize, "a buffer of {} bytes", buffer.len());
        // Relaxed: seen with the slot's word, which the caller read before, and swaps afterwards.
        let len = (self.len_of(slot).load(Ordering::Relaxed) as u32).min(self.size());
        load(self.payload(slot), &mut buffer[..len as usize]);
        len
    }

    /// Copies a record from one slot that is ours to another.
    pub(super) fn copy(&self, from: u32, to: u32, len: u32) {
        let words = self.payload(from).iter().zip(self.payload(to));
        for (from, to) in words.take((len as usize).div_ceil(8)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed); // Relaxed: both are ours.
        }
    }
}
