//! A slot's word: see the table in the ring's head.

pub(super) const EMPTY: u64 = 0;
pub(super) const WRITING: u64 = 1;
pub(super) const FULL: u64 = 2;
pub(super) const READING: u64 = 3;
pub(super) const STATE: u64 = 3;

/// Laps stand inverted in a word, so that zeroed memory is of a lap later than any: a thread that comes there goes on. (loom's words begin
/// as zeroes, and it has no zeroed memory.)
const FLIP: u64 = if cfg!(feature = "loom") { 0 } else { u64::MAX };

#[inline(always)]
pub(super) fn word(lap: u64, state: u64) -> u64 {
    (lap ^ FLIP) << 2 | state
}

#[inline(always)]
pub(super) fn lap_of(word: u64) -> u64 {
    (word ^ FLIP) >> 2
}

/// Whether it is of a later lap than this.
#[inline(always)]
pub(super) fn is_later(seen: u64, lap: u64) -> bool {
    if FLIP == 0 { lap_of(seen) > lap } else { seen < word(lap, EMPTY) }
}

/// Refuses a capacity whose memory is beyond what can be addressed.
pub(super) fn check<S>(capacity: usize) {
    let bytes = capacity.checked_mul(size_of::<S>().max(1)).filter(|bytes| *bytes <= isize::MAX as usize);
    assert!(bytes.is_some(), "bounded channel capacity is too large: {capacity} messages");
}
