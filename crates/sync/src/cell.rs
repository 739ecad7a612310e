//! The owner cell: one 64-bit word that names the holder of a permit.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | 0 FREE, 1 HELD, 2 RESERVED, 3 LEASED (4 to 7: a word of another kind of object) |
//! | 3-26 | version | one more each time the cell becomes free |
//! | 27 | KEEPS | HELD, of an owned semaphore: its holder is ending in good order, and the unit ends with it (see `owned`) |
//! | 28-39 | member | the holder's slot, or [`NOBODY`]: LEASED, its job goes on; HELD, retired (see `owned`) |
//! | 40-63 | aux | HELD, LEASED: the holder's generation; RESERVED: the number of the wait it is reserved for |
//!
//! ```text
//!           take                 give back
//!   FREE v ------> HELD m,g,v ------------> FREE v+1
//!     |              |  ^                      ^
//!     | reserve      |  +--- take -------+     | undo, sweep
//!     v              v lease             |     |
//!   RESERVED m,seq,v ----------------- (m) ----+
//!                    LEASED m,g,v ----> FREE v+1, once the job is gone too
//! ```
//!
//! Every change is a compare-and-swap from the exact word that was read, so whatever several helpers or
//! recoverers decide about one word happens once. The version distinguishes a word from an older word
//! for 2^24 uses of the cell. A helper that slept through exactly 2^24 uses can mistake a word
//! for an older one only if member, tag and aux agree too: then its action is right for the new word as
//! well (a FREE word is free), or it takes a permit from a hold of the same member by force.

use crate::stamp::Stamp;
use chappe_arena::layout::MAX_MEMBERS;
use chappe_plat::ROBUST;

/// Where a word that names an owner has the member's number: a permit's cell, a lock's word (`owner`), a biased one.
pub(crate) const MEMBER_AT: u32 = 28;
/// Where it has the rest (aux): the owner's generation, or the number of the wait that it is reserved for.
pub(crate) const AUX_AT: u32 = 40;
/// The member number that means: no member.
pub(crate) const NOBODY: u32 = (1 << (AUX_AT - MEMBER_AT)) - 1;
const _: () = assert!(MAX_MEMBERS <= NOBODY);

/// The fields of a word that names an owner.
#[inline(always)]
pub(crate) const fn owner(member: u32, aux: u32) -> u64 {
    (member as u64) << MEMBER_AT | (aux as u64) << AUX_AT
}

/// The member that a word names.
#[inline(always)]
pub(crate) const fn member_of(word: u64) -> u32 {
    (word >> MEMBER_AT) as u32 & NOBODY
}

#[inline(always)]
pub(crate) const fn aux_of(word: u64) -> u32 {
    (word >> AUX_AT) as u32
}

type Version = Stamp<3, 24>;
const KEEPS: u64 = 1 << 27;

/// The tag of a cell's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Free,
    Held,
    Reserved,
    Leased,
    /// A word of another kind of object: the slot is no pool's any more.
    Alien,
}

/// The word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub u64);

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(member {}, aux {}, version {})", self.tag(), self.member(), self.aux(), self.version())
    }
}

impl Word {
    fn new(tag: u64, version: u64, member: u32, aux: u32) -> Word {
        Word(tag | Version::word(version) | owner(member, aux))
    }
    pub fn tag(self) -> Tag {
        match self.0 & 7 {
            1 => Tag::Held,
            2 => Tag::Reserved,
            3 => Tag::Leased,
            0 => Tag::Free,
            _ => Tag::Alien,
        }
    }
    pub fn version(self) -> u64 {
        Version::of(self.0)
    }
    pub fn member(self) -> u32 {
        member_of(self.0)
    }
    pub fn aux(self) -> u32 {
        aux_of(self.0)
    }
    /// Free again, and never the same word as before.
    pub fn freed(self) -> Word {
        if ROBUST { Word(Version::next(Version::alone(self.0))) } else { Word(0) }
    }
    pub fn held(self, member: u32, generation: u32) -> Word {
        if ROBUST { Word::new(1, self.version(), member, generation) } else { Word(1) }
    }
    pub fn reserved(self, member: u32, wait: u32) -> Word {
        Word::new(2, self.version(), member, wait)
    }
    pub fn leased(self) -> Word {
        Word::new(3, self.version(), self.member(), self.aux())
    }
    /// The job goes on; the holder no longer has it.
    pub fn orphaned(self) -> Word {
        Word::new(3, self.version(), NOBODY, 0)
    }
    /// Held as before; if the holder ends before it gives the unit back, the unit ends with it.
    pub fn kept(self) -> Word {
        Word(self.0 | KEEPS)
    }
    /// Held as before, without that mark.
    pub fn unkept(self) -> Word {
        Word(self.0 & !KEEPS)
    }
    /// Whether the unit ends with its holder.
    pub fn is_kept(self) -> bool {
        self.0 & KEEPS != 0
    }
    /// Its holder is gone, and the unit never comes back.
    pub fn retired(self) -> Word {
        Word::new(1, self.version(), NOBODY, 0)
    }
    /// Whether no member has it, and none gets it any more.
    pub fn is_retired(self) -> bool {
        self.tag() == Tag::Held && self.member() == NOBODY
    }
    /// Whether it is reserved for this wait of a member.
    pub fn is_reserved(self, member: u32, wait: u32) -> bool {
        self.tag() == Tag::Reserved && self.member() == member && self.aux() == wait
    }
    /// Whether only a job keeps it.
    pub fn is_orphan(self) -> bool {
        self.tag() == Tag::Leased && self.member() == NOBODY
    }
    pub fn is_free(self) -> bool {
        self.0 & 7 == 0
    }
    /// Whether it is a cell's word, and not that of another kind of object in the same slot.
    pub fn is_ours(self) -> bool {
        self.tag() != Tag::Alien
    }
    /// A word that is no cell's.
    pub fn alien() -> Word {
        Word(7)
    }
    /// Free, in a slot that was of another kind before; the slot's generation replaces the version, which is lost.
    pub fn first(generation: u32) -> Word {
        Word::new(0, u64::from(generation) << 12, 0, 0)
    }
}
