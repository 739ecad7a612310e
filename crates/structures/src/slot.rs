//! The blocks of the rings that lie in a named arena, of records (`record`) and of broadcast tubes
//! (`broadcast`): the word of a slot, and its payload.
//!
//! | bits of the word | field |
//! |---|---|
//! | 0-2 | state: EMPTY, WRITING, FULL, or another that the ring names |
//! | 3-18 | the member that has the slot |
//! | 19-63 | lap |
//!
//! The lap is the upper 45 bits of words, so that it is compared, and wraps, without being taken out.
//!
//! A private ring has other blocks (`ring`): its threads die together, so no word names an owner, and a
//! sender commits by a store and a look at a second word, where a swap would cost it 24 ns instead of 15.

use crate::stamp::Stamp;
use chappe_plat::atomic::{AtomicU64, Ordering};
use std::mem::MaybeUninit;

pub const EMPTY: u64 = 0;
pub const WRITING: u64 = 1;
pub const FULL: u64 = 2;
pub const STATE: u64 = 7;

/// The lap of a word.
pub type Lap = Stamp<19, 45>;

/// A word in the lap of another word.
#[inline(always)]
pub fn word(lap: u64, owner: u16, state: u64) -> u64 {
    Lap::alone(lap) | u64::from(owner) << 3 | state
}

#[inline(always)]
pub fn state(word: u64) -> u64 {
    word & STATE
}

#[inline(always)]
pub fn owner(word: u64) -> u16 {
    (word >> 3) as u16
}

/// How many laps were before the word's.
#[inline(always)]
pub fn lap(word: u64) -> u64 {
    Lap::of(word)
}

/// Stores a record in a slot that is the caller's, whose word publishes it.
#[inline(always)]
pub fn store(words: &[AtomicU64], record: &[u8]) {
    let parts = record.chunks_exact(8);
    let rest = parts.remainder();
    for (word, part) in words.iter().zip(parts) {
        let bytes = part.try_into().expect("eight bytes");
        // Relaxed: published by the slot's word.
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        words[record.len() / 8].store(u64::from_ne_bytes(bytes), Ordering::Relaxed); // Relaxed: as above.
    }
}

/// Copies as many bytes of a slot as the buffer has, or a mixture of old and new ones: the caller finds
/// out, by the word that it read before and swaps afterwards.
#[inline(always)]
pub fn load(words: &[AtomicU64], buffer: &mut [MaybeUninit<u8>]) {
    let len = buffer.len();
    // Relaxed: see above.
    let bytes = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes().map(MaybeUninit::new);
    let mut parts = buffer.chunks_exact_mut(8);
    for (word, part) in words.iter().zip(parts.by_ref()) {
        part.copy_from_slice(&bytes(word));
    }
    let rest = parts.into_remainder();
    if !rest.is_empty() {
        rest.copy_from_slice(&bytes(&words[len / 8])[..rest.len()]);
    }
}
