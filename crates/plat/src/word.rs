//! How to read a life word: the bits that the kernel keeps in the word of a robust futex.

/// The part of a life word that holds the thread id of its owner.
pub const TID_MASK: u32 = 0x3fff_ffff;
/// Set by the kernel when the owner died without releasing the word.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// Set by a thread that sleeps on the word; only then does the kernel wake at the owner's death.
pub const WATCHED: u32 = 0x8000_0000;

/// What a life word says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The word has no owner.
    Free,
    /// The thread with this id owns it and has not died (or not yet been marked).
    Alive(u32),
    /// Its owner died; the kernel has marked it.
    Dead,
}

impl Life {
    /// Reads the state out of the value of a life word.
    #[inline]
    pub fn of(word: u32) -> Life {
        if word & OWNER_DIED != 0 {
            Life::Dead
        } else if word & TID_MASK == 0 {
            Life::Free
        } else {
            Life::Alive(word & TID_MASK)
        }
    }
}
