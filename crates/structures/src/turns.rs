//! The ownership of a piece of type-stable memory: a word beside it, `turn:44 | member + 1:16 | state:4`.
//!
//! | state | |
//! |---|---|
//! | FREE | any member may take it, by a swap |
//! | OWNED by a member | it is being prepared; or was put in place just now; or will be given back |
//! | USED | it was put in place |
//!
//! The turn rises when the piece becomes free. A member that frees a piece swaps the word from the state
//! that it has read, turn included. So of several members that free one piece only the first succeeds, and
//! none frees a piece that has been taken again since.
//!
//! Lock-free: a swap fails because another member took or freed the piece.

use crate::stamp::Stamp;
use chappe_arena::layout::MAX_MEMBERS;
use chappe_plat::atomic::{AtomicU64, Ordering};
use std::ops::Range;

const _: () = assert!(MAX_MEMBERS <= 0xffff);

/// It has no owner, and is in no list.
pub const FREE: u64 = 0;
/// A member prepares it, or has just put it in place.
pub const OWNED: u64 = 1;
/// It was put in place.
pub const USED: u64 = 2;

type Turn = Stamp<20, 44>;

#[inline(always)]
pub fn turn(state: u64) -> u64 {
    Turn::alone(state)
}

#[inline(always)]
pub fn kind(state: u64) -> u64 {
    state & 15
}

#[inline(always)]
pub fn owned_by(state: u64, me: u16) -> u64 {
    turn(state) | (u64::from(me) + 1) << 4 | OWNED
}

#[inline(always)]
pub fn is_owned_by(state: u64, me: u16) -> bool {
    state & !Turn::MASK == owned_by(0, me)
}

#[inline(always)]
pub fn used(state: u64) -> u64 {
    turn(state) | USED
}

#[inline(always)]
pub fn freed(state: u64) -> u64 {
    Turn::next(turn(state))
}

/// A state as text, for the explorer's reports.
#[cfg(feature = "sim")]
pub fn state_in_words(state: u64) -> String {
    let name = ["free", "owned", "used"].get(kind(state) as usize).unwrap_or(&"no state");
    let who = (state >> 4 & 0xffff).checked_sub(1).map_or(String::new(), |m| format!(" by {m}"));
    format!("{name}{who} ({})", Turn::of(state))
}

/// Frees a piece, if it still is in that turn.
pub fn free(state: &AtomicU64, its: u64) {
    // Acquire: the turn was read before the piece was taken out of its place.
    let mut seen = state.load(Ordering::Acquire);
    while turn(seen) == its && kind(seen) != FREE {
        // AcqRel: its next owner comes after its last. Acquire: its owner has just said that it is in place.
        match state.compare_exchange(seen, freed(seen), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Marks it as in place. If its owner dies before this, recovery finds out.
#[inline(always)]
pub fn settle(state: &AtomicU64, mine: u64) {
    // AcqRel, and Relaxed for a failure: the member that took it out again has freed it.
    let _ = state.compare_exchange(mine, used(mine), Ordering::AcqRel, Ordering::Relaxed);
}

/// Takes a piece that is free, of those in a range. Answers which, and its state.
#[inline(always)]
pub fn take<'a>(
    me: u16,
    range: Range<u32>,
    hint: &AtomicU64,
    state: impl Fn(u32) -> &'a AtomicU64,
) -> Option<(u32, u64)> {
    // Relaxed: a hint.
    let hinted = hint.load(Ordering::Relaxed) as u32;
    let mut at = if range.contains(&hinted) { hinted } else { range.start };
    for _ in range.clone() {
        let there = state(at);
        // Relaxed: the swap looks again.
        let seen = there.load(Ordering::Relaxed);
        let mine = owned_by(seen, me);
        // AcqRel: its last owner has done with it. Relaxed, a failure: it is another's.
        if kind(seen) == FREE && there.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            hint.store(u64::from(at) + 1, Ordering::Relaxed); // Relaxed: a hint.
            return Some((at, mine));
        }
        at = if at + 1 < range.end { at + 1 } else { range.start };
    }
    None
}

/// Writes bytes to words of which this member is the owner.
#[inline(always)]
pub fn write(words: &[AtomicU64], bytes: &[u8]) {
    let parts = bytes.chunks_exact(8);
    let rest = parts.remainder();
    for (word, part) in words.iter().zip(parts) {
        // Release: E2.
        word.store(u64::from_le_bytes(part.try_into().expect("eight bytes")), Ordering::Release);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Release: E2.
        words[bytes.len() / 8].store(u64::from_le_bytes(last), Ordering::Release);
    }
}

/// Copies what is in words, or a mixture of old and new bytes: the caller finds out which.
#[inline(always)]
pub fn read(words: &[AtomicU64], to: &mut [u8]) {
    let mut parts = to.chunks_exact_mut(8);
    let mut at = words.iter();
    for (part, word) in parts.by_ref().zip(at.by_ref()) {
        // Acquire: E2, before the second look at what leads here.
        part.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
    }
    let rest = parts.into_remainder();
    if let Some(word) = at.next().filter(|_| !rest.is_empty()) {
        // Acquire: as above.
        let bytes = word.load(Ordering::Acquire).to_le_bytes();
        rest.copy_from_slice(&bytes[..rest.len()]);
    }
}
