//! The owner cell: one 64-bit word that names the holder of a permit.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | 0 FREE, 1 HELD, 2 RESERVED, 3 LEASED (4 to 7: a word of another kind of object) |
//! | 3 | KEEPS | HELD, of an owned semaphore: its holder is ending in good order, and the unit ends with it (see `owned`) |
//! | 4-27 | version | one more each time the cell becomes free |
//! | 28-43 | member | the member's slot, or [`NOBODY`]: see below |
//! | 44-63 | aux | low bits: HELD, LEASED: of m's generation; RESERVED: of the number of the wait |
//!
//! ```text
//!           take                  give back, or m died
//!   FREE v ------> HELD m,g,v ---------------------------------> FREE v+1
//!     |              ^     |                                      ^    ^
//!     | reserve      |     | lease       given back, job gone     |    |
//!     v              |     +--> LEASED m,g,v ---------------------+    |
//!   RESERVED m,seq,v-+ take        | given back, job goes on; m died   |
//!     |                            +--> LEASED nobody -- job gone -----+
//!     +---- undo ------------------------------------------------------+
//! ```
//!
//! The member m takes, leases and gives back. A drainer reserves, for the first waiter. *Undo*: any
//! thread that finds the reservation void frees the cell: the drainer whose grant failed, a later
//! one, a recoverer. If m died, a recoverer frees its cell. LEASED by NOBODY is an orphan: it
//! becomes free once the job is gone. HELD by NOBODY is retired (`owned`): that unit went with its
//! holder, and never comes back. Terms: `book/src/glossary.md`.
//!
//! Every change is a compare-and-swap from the exact word that was read, so whatever several helpers or
//! recoverers decide about one word happens once. The version distinguishes a word from an older word
//! for 2^24 uses of the cell. A helper that slept through exactly 2^24 uses can mistake a word
//! for an older one only if member, tag and aux agree too: then its action is right for the new word as
//! well (a FREE word is free), or it takes a permit from a hold of the same member by force.
//!
//! That aux has only low bits does no harm. A recoverer takes a word for the dead generation's only
//! while the member's slot says that this generation, all 24 bits of it, is not yet swept; before
//! that no other occupant has the slot. A reservation of an earlier wait of the same bits is taken
//! for one of this wait (wait queue, wrap-around): a drainer that was stopped for exactly 2^20
//! waits of the member, while the permit lay free, gives it a permit out of turn.

use chappe_arena::layout::MAX_MEMBERS;
use chappe_plat::ROBUST;
use chappe_structures::stamp::Stamp;

/// Where a cell has the member's number, also when it is biased.
pub const MEMBER_AT: u32 = 28;
/// Where it has aux.
pub const AUX_AT: u32 = 44;
/// The bits of aux.
const AUX: u32 = u32::MAX >> (AUX_AT - 32);
/// The member number that means: no member.
pub const NOBODY: u32 = 0xffff;
const _: () = assert!(MAX_MEMBERS <= NOBODY);

/// Version and biases aside: what a bias keeps of a word.
pub const KEPT: u64 = KEEPS | Version::MASK;
type Version = Stamp<4, 24>;
const KEEPS: u64 = 1 << 3;

/// The tag of a cell's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Free,
    Held,
    Reserved,
    Leased,
    /// A word of another kind of object: the slot is no pool's any more.
    Alien,
}

/// The word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(member {}, aux {}, version {})", self.tag(), self.member(), self.aux(), self.version())
    }
}

impl Word {
    fn new(tag: u64, version: u64, member: u32, aux: u32) -> Word {
        Word(tag | Version::word(version) | u64::from(member) << MEMBER_AT | u64::from(aux) << AUX_AT)
    }
    #[inline]
    pub fn tag(self) -> Tag {
        match self.0 & 7 {
            1 => Tag::Held,
            2 => Tag::Reserved,
            3 => Tag::Leased,
            0 => Tag::Free,
            _ => Tag::Alien,
        }
    }
    #[inline]
    pub fn version(self) -> u64 {
        Version::of(self.0)
    }
    #[inline]
    pub fn member(self) -> u32 {
        (self.0 >> MEMBER_AT) as u32 & NOBODY
    }
    fn aux(self) -> u32 {
        (self.0 >> AUX_AT) as u32
    }
    /// Whether it may be this generation's of its member, or for this wait of it: as far as the word says.
    #[inline]
    pub fn is_of(self, number: u32) -> bool {
        self.aux() == number & AUX
    }
    /// Free again, and never the same word as before.
    #[inline]
    pub fn freed(self) -> Word {
        if ROBUST { Word(Version::next(Version::alone(self.0))) } else { Word(0) }
    }
    #[inline]
    pub fn held(self, member: u32, generation: u32) -> Word {
        if ROBUST { Word::new(1, self.version(), member, generation) } else { Word(1) }
    }
    #[inline]
    pub fn reserved(self, member: u32, wait: u32) -> Word {
        Word::new(2, self.version(), member, wait)
    }
    #[inline]
    pub fn leased(self) -> Word {
        Word::new(3, self.version(), self.member(), self.aux())
    }
    /// The job goes on; the holder no longer has it.
    #[inline]
    pub fn orphaned(self) -> Word {
        Word::new(3, self.version(), NOBODY, 0)
    }
    /// Held as before; if the holder ends before it gives the unit back, the unit ends with it.
    #[inline]
    pub fn kept(self) -> Word {
        Word(self.0 | KEEPS)
    }
    /// Held as before, without that mark.
    #[inline]
    pub fn unkept(self) -> Word {
        Word(self.0 & !KEEPS)
    }
    /// Whether the unit ends with its holder.
    #[inline]
    pub fn is_kept(self) -> bool {
        self.0 & KEEPS != 0
    }
    /// Its holder is gone, and the unit never comes back.
    #[inline]
    pub fn retired(self) -> Word {
        Word::new(1, self.version(), NOBODY, 0)
    }
    /// Whether no member has it, and none gets it any more.
    #[inline]
    pub fn is_retired(self) -> bool {
        self.tag() == Tag::Held && self.member() == NOBODY
    }
    /// Whether it is reserved for this wait of a member.
    #[inline]
    pub fn is_reserved(self, member: u32, wait: u32) -> bool {
        self.tag() == Tag::Reserved && self.member() == member && self.is_of(wait)
    }
    /// Whether only a job keeps it.
    #[inline]
    pub fn is_orphan(self) -> bool {
        self.tag() == Tag::Leased && self.member() == NOBODY
    }
    #[inline]
    pub fn is_free(self) -> bool {
        self.0 & 7 == 0
    }
    /// Whether it is a cell's word, and not that of another kind of object in the same slot.
    #[inline]
    pub fn is_ours(self) -> bool {
        self.tag() != Tag::Alien
    }
    /// A word that is no cell's.
    #[inline]
    pub fn alien() -> Word {
        Word(7)
    }
    /// Free, in a slot that was of another kind before; the slot's generation replaces the version, which is lost.
    #[inline]
    pub fn first(generation: u32) -> Word {
        Word::new(0, u64::from(generation) << 12, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_every_member_and_keeps_its_version() {
        for member in [0, 4_095, 4_096, MAX_MEMBERS - 1] {
            let mut free = Word::first(7);
            for _ in 0..3 {
                free = free.freed();
            }
            let held = free.held(member, 0xff_ffff);
            for word in [held, held.kept(), held.leased(), free.reserved(member, 0x7f_ffff)] {
                assert_eq!((word.member(), word.version()), (member, free.version()), "{word:?}");
                assert!(word.is_of(u32::MAX) && !word.is_of(u32::MAX - 1) && !word.is_free(), "{word:?}");
                assert_eq!(word.freed(), free.freed());
            }
            assert!(
                held.kept().is_kept()
                    && held.kept().unkept() == held
                    && !held.is_retired()
                    && !held.leased().is_orphan()
            );
        }
        let gone = Word::first(1).held(1, 2);
        assert!(gone.retired().is_retired() && gone.orphaned().is_orphan());
        assert_eq!(Word(Version::MASK).freed(), Word(0), "it wraps around");
        assert_eq!(NOBODY >> (AUX_AT - MEMBER_AT), 0);
    }
}
