//! The layout of a field's words and of its parties' records, and the meaning of their bits.
//!
//! ```text
//!  words: value, stamp | value, stamp ..        parties: next, fresh | slot | slot | slot | slot
//! ```
//!
//! A stamp is `turn:44 | entry:3 | slot:3 | party:13 | led:1`; a record's state is `turn:44 | .. | helped:1 | state:2`.

use crate::stamp::Stamp as Number;
use chappe_plat::atomic::AtomicU64;
use chappe_plat::pair::Pair;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

/// The most words that can change at once.
pub const MOST: usize = 8;

/// The operation is in progress.
pub(super) const UNDECIDED: u64 = 1;
/// All words have changed.
pub(super) const DONE: u64 = 2;
/// No word has changed.
pub(super) const FAILED: u64 = 3;
const STATE: u64 = 3;
/// A helper may be about to lead a word to the record.
pub(super) const HELPED: u64 = 4;

type Turn = Number<20, 44>;
const LED: u64 = 1;

/// The most records that a party has.
pub(super) const RING: usize = 4;
/// In a stamp that leads nowhere, instead of the slot.
const NOWHERE: u64 = 7;

/// The most parties that a field can have.
pub const MOST_PARTIES: u32 = 1 << 13;
/// The most words that a field can have.
pub const MOST_WORDS: u32 = 1 << 24;

#[inline(always)]
pub(super) fn turn_of(status: u64) -> u64 {
    Turn::of(status)
}

#[inline(always)]
pub(super) fn state_of(status: u64) -> u64 {
    status & STATE
}

/// The first state of a turn.
#[inline(always)]
pub(super) fn status_of(turn: u64) -> u64 {
    Turn::word(turn) | UNDECIDED
}

/// Whether the record is of that turn, and undecided.
#[inline(always)]
pub(super) fn is_undecided(status: u64, stamp: Stamp) -> bool {
    status & !HELPED == status_of(stamp.turn())
}

/// Which operation a word's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub u64);

impl Stamp {
    #[inline(always)]
    pub fn new(party: u16, slot: usize, turn: u64) -> Stamp {
        Stamp(Turn::word(turn) | (slot as u64) << 14 | u64::from(party) << 1 | LED)
    }

    #[inline(always)]
    pub fn unled(party: u16, turn: u64) -> Stamp {
        Stamp(Turn::word(turn) | NOWHERE << 14 | u64::from(party) << 1)
    }

    #[inline(always)]
    pub fn of_entry(self, entry: usize) -> Stamp {
        Stamp(self.0 & !(7 << 17) | (entry as u64) << 17)
    }

    #[inline(always)]
    pub fn is_led(self) -> bool {
        self.0 & LED != 0
    }

    #[inline(always)]
    pub fn turn(self) -> u64 {
        Turn::of(self.0)
    }

    #[inline(always)]
    pub fn entry(self) -> usize {
        (self.0 >> 17 & 7) as usize
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.0 >> 14 & 7) as usize % RING
    }

    #[inline(always)]
    fn party(self) -> u16 {
        (self.0 >> 1 & 0x1fff) as u16
    }
}

/// A stamp as text, for traces.
#[cfg(feature = "sim")]
fn stamp_in_words(word: u64) -> String {
    let s = Stamp(word);
    let led =
        if s.is_led() { format!("led to {}.{} entry {}", s.party(), s.slot(), s.entry()) } else { "not led".into() };
    format!("{led}, turn {} ({})", s.turn(), s.party())
}

/// A state as text, for traces.
#[cfg(feature = "sim")]
fn status_in_words(word: u64) -> String {
    let name = ["unused", "undecided", "done", "failed"][state_of(word) as usize];
    format!("{name}{} ({})", if word & HELPED == 0 { "" } else { ", helped" }, turn_of(word))
}

/// A record's entry for one word.
#[derive(Default)]
#[repr(C)]
pub(super) struct Entry {
    pub word: AtomicU64,
    pub old: AtomicU64,
    pub new: AtomicU64,
}

/// A record.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    pub status: AtomicU64,
    pub count: AtomicU64,
    pub entries: [Entry; MOST],
}

/// The state of a party, which changes words.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Party {
    /// The number of the next record.
    pub next: AtomicU64,
    /// The last turn of a stamp that leads nowhere.
    pub fresh: AtomicU64,
    /// Whether its thread is in the middle of an operation.
    pub inside: AtomicU64,
    pub slots: [Slot; RING],
}

/// The dimensions of a field. All its users give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many words, at most [`MOST_WORDS`].
    pub words: u32,
    /// How many parties may change them at once, at most [`MOST_PARTIES`].
    pub parties: u32,
    /// How many records each party has, 1, 2 or 4: a record is reused after so many operations.
    pub records: u32,
}

impl Shape {
    /// Whether a field can have this shape.
    pub fn is_possible(self) -> bool {
        (1..=MOST_WORDS).contains(&self.words)
            && (1..=MOST_PARTIES).contains(&self.parties)
            && matches!(self.records, 1 | 2 | 4)
    }

    fn parties_at(self) -> usize {
        (self.words as usize * size_of::<Pair>()).next_multiple_of(64)
    }

    /// Its size in bytes, from an address that is a multiple of 64.
    pub fn bytes(self) -> usize {
        self.parties_at() + self.parties as usize * size_of::<Party>()
    }
}

/// Words that change together, in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    cells: NonNull<Pair>,
    parties: NonNull<Party>,
    shape: Shape,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all shared memory is atomic words.
unsafe impl Send for Field<'_> {}
// SAFETY: as above.
unsafe impl Sync for Field<'_> {}

impl<'a> Field<'a> {
    /// The field at a place. In zeroed memory it is a field whose words are 0.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, there are as many bytes as the shape says, for as long as `'a`, and they are accessed as atomic words only.
    ///
    /// # Panics
    /// If no field can have this shape.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Field<'a> {
        assert!(shape.is_possible(), "a field of {shape:?}");
        assert!(place.addr().get().is_multiple_of(64), "a field that is not aligned");
        // SAFETY: within the bytes that the caller promises.
        let parties = unsafe { place.add(shape.parties_at()) }.cast();
        Field { cells: place.cast(), parties, shape, memory: PhantomData }
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A word. An index beyond the last was overwritten by a fault, or is a torn read: then the first word.
    #[inline(always)]
    pub(super) fn cell(&self, word: u32) -> &'a Pair {
        let word = if word < self.shape.words { word as usize } else { 0 };
        // SAFETY: one of as many as the shape says.
        unsafe { self.cells.add(word).as_ref() }
    }

    /// A party; an index beyond the last, as above.
    #[inline(always)]
    pub(super) fn party(&self, party: u16) -> &'a Party {
        let party = if u32::from(party) < self.shape.parties { usize::from(party) } else { 0 };
        // SAFETY: as above; any bytes are a party.
        unsafe { self.parties.add(party).as_ref() }
    }

    /// The index of a party's record of this number.
    #[inline(always)]
    pub(super) fn nth(&self, number: u64) -> usize {
        (number as u32 & (self.shape.records - 1)) as usize % RING
    }

    /// The record that a stamp leads to.
    #[inline(always)]
    pub(super) fn slot(&self, stamp: Stamp) -> &'a Slot {
        &self.party(stamp.party()).slots[stamp.slot()]
    }

    /// Names its words, for traces.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'a AtomicU64, String, fn(u64) -> String)) {
        for i in 0..self.shape.words {
            name(&self.cell(i).low, format!("value {i}"), |v| v.to_string());
            name(&self.cell(i).high, format!("stamp {i}"), stamp_in_words);
        }
        for p in 0..self.shape.parties as u16 {
            for (i, slot) in self.party(p).slots.iter().enumerate() {
                name(&slot.status, format!("state {p}.{i}"), status_in_words);
            }
        }
    }
}
