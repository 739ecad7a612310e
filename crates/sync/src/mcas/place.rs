//! Where the words of a field and the records of its parties lie, and what their bits say.
//!
//! ```text
//!  words: value, stamp | value, stamp ..        parties: next, fresh | slot | slot | slot | slot
//! ```
//!
//! A stamp is `turn:44 | entry:3 | slot:3 | party:13 | led:1`; a record's state is `turn:44 | .. | helped:1 | state:2`.

use super::MOST;
use chappe_plat::atomic::AtomicU64;
use chappe_plat::pair::Pair;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

/// The operation is under way.
pub(super) const UNDECIDED: u64 = 1;
/// All words have changed.
pub(super) const DONE: u64 = 2;
/// None has.
pub(super) const FAILED: u64 = 3;
const STATE: u64 = 3;
/// Somebody may be about to lead a word to the record.
pub(super) const HELPED: u64 = 4;

const TURN_AT: u32 = 20;
const TURN: u64 = (1 << 44) - 1;
const LED: u64 = 1;

/// How many records a party has at most.
pub(super) const RING: usize = 4;
/// What stands for the slot in a stamp that leads nowhere.
const NOWHERE: u64 = 7;

/// How many parties a field can have.
pub const MOST_PARTIES: u32 = 1 << 13;
/// How many words a field can have.
pub const MOST_WORDS: u32 = 1 << 24;

#[inline(always)]
pub(super) fn turn_of(status: u64) -> u64 {
    status >> TURN_AT
}

#[inline(always)]
pub(super) fn state_of(status: u64) -> u64 {
    status & STATE
}

/// A turn's first state.
#[inline(always)]
pub(super) fn status_of(turn: u64) -> u64 {
    turn << TURN_AT | UNDECIDED
}

/// Whether the record is of that turn, and undecided.
#[inline(always)]
pub(super) fn is_undecided(status: u64, stamp: Stamp) -> bool {
    status & !HELPED == status_of(stamp.turn())
}

/// Whose a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub u64);

impl Stamp {
    #[inline(always)]
    pub fn new(party: u16, slot: usize, turn: u64) -> Stamp {
        Stamp((turn & TURN) << TURN_AT | (slot as u64) << 14 | u64::from(party) << 1 | LED)
    }

    #[inline(always)]
    pub fn unled(party: u16, turn: u64) -> Stamp {
        Stamp((turn & TURN) << TURN_AT | NOWHERE << 14 | u64::from(party) << 1)
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
        self.0 >> TURN_AT
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

/// A word, for stories.
#[cfg(feature = "sim")]
fn stamp_in_words(word: u64) -> String {
    let s = Stamp(word);
    let led =
        if s.is_led() { format!("led to {}.{} entry {}", s.party(), s.slot(), s.entry()) } else { "not led".into() };
    format!("{led}, turn {} ({})", s.turn(), s.party())
}

/// A state, for stories.
#[cfg(feature = "sim")]
fn status_in_words(word: u64) -> String {
    let name = ["unused", "undecided", "done", "failed"][state_of(word) as usize];
    format!("{name}{} ({})", if word & HELPED == 0 { "" } else { ", helped" }, turn_of(word))
}

/// What a record says of one word.
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

/// What one of those who change words has.
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

/// What a field is made for. All who use it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many words, [`MOST_WORDS`] at most.
    pub words: u32,
    /// How many may change them at once, [`MOST_PARTIES`] at most.
    pub parties: u32,
    /// How many records each has, 1, 2 or 4: so many operations later, one is used again.
    pub records: u32,
}

impl Shape {
    /// Whether there can be such a field.
    pub fn is_possible(self) -> bool {
        (1..=MOST_WORDS).contains(&self.words)
            && (1..=MOST_PARTIES).contains(&self.parties)
            && matches!(self.records, 1 | 2 | 4)
    }

    fn parties_at(self) -> usize {
        (self.words as usize * size_of::<Pair>()).next_multiple_of(64)
    }

    /// How many bytes it takes, from an address that is a multiple of 64.
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

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Field<'_> {}
// SAFETY: as above.
unsafe impl Sync for Field<'_> {}

impl<'a> Field<'a> {
    /// The field at a place. Zeroed memory is one whose words are 0.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as the shape says, for as long as `'a`, which nothing touches but by atomic words.
    ///
    /// # Panics
    /// If there can be no such field.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Field<'a> {
        assert!(shape.is_possible(), "a field of {shape:?}");
        assert!(place.addr().get().is_multiple_of(64), "a field that is not aligned");
        // SAFETY: within the bytes that the caller promises.
        let parties = unsafe { place.add(shape.parties_at()) }.cast();
        Field { cells: place.cast(), parties, shape, memory: PhantomData }
    }

    /// What it is made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A word. One that is beyond the last was written over by somebody, or is not read in one piece yet: the first.
    #[inline(always)]
    pub(super) fn cell(&self, word: u32) -> &'a Pair {
        let word = if word < self.shape.words { word as usize } else { 0 };
        // SAFETY: one of as many as the shape says.
        unsafe { self.cells.add(word).as_ref() }
    }

    /// A party; one that is beyond the last as above.
    #[inline(always)]
    pub(super) fn party(&self, party: u16) -> &'a Party {
        let party = if u32::from(party) < self.shape.parties { usize::from(party) } else { 0 };
        // SAFETY: as above; any bytes are a party.
        unsafe { self.parties.add(party).as_ref() }
    }

    /// Which record is a party's so-manieth.
    #[inline(always)]
    pub(super) fn nth(&self, number: u64) -> usize {
        (number as u32 & (self.shape.records - 1)) as usize % RING
    }

    /// The record to which a stamp leads.
    #[inline(always)]
    pub(super) fn slot(&self, stamp: Stamp) -> &'a Slot {
        &self.party(stamp.party()).slots[stamp.slot()]
    }

    /// Names its words, for stories.
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
