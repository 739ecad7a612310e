//! Where the members at an end have their bits.

/// So many members have their bits in one word; the other half counts (I8 of the tube).
pub(super) const PER_WORD: usize = 32;

/// Words of a side, for so many members.
pub(super) fn words(members: u32) -> usize {
    (members as usize).div_ceil(PER_WORD)
}

pub(super) fn bit(member: u32) -> u64 {
    1 << (member as usize % PER_WORD)
}

/// The members whose bits are set in word `at`.
pub(super) fn members_in(at: usize, word: u64) -> impl Iterator<Item = u32> {
    (0..PER_WORD).filter(move |bit| word >> bit & 1 != 0).map(move |bit| (at * PER_WORD + bit) as u32)
}
