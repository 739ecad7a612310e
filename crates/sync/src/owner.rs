//! The owner word: which member has a lock, or whose turn it is. Mutexes (`lock`) and readers-writer locks (`rwlock`) have it in common; their heads say
//! when it changes, and what a flag means there.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | 5 FREE, 6 HELD, 7 RESERVED (0 to 4: a word of another kind of object) |
//! | 3 | WAITERS | a wait bit may be set: a thread that leaves must look |
//! | 4 | TORN | a holder died or panicked, and no later holder has made the data whole |
//! | 5 | TOLD | of a mutex: a waiter was told to try again, and has not tried yet |
//! | 6-27 | number | the low bits of the slot's generation: successive locks in one slot have different words |
//! | 28-39 | member | the holder, or the waiter it is reserved for; HELD by [`NOBODY`]: condemned, for ever |
//! | 40-63 | aux | HELD: the holder's generation; RESERVED: the number of the wait; condemned: 1 if abandoned |
//!
//! Every change is a swap from the exact word that was seen, by [`update`]: flags that another thread sets meanwhile are not lost.

use crate::cell::{self, NOBODY, aux_of, member_of};
use crate::stamp::Stamp;
use crate::wait::{State, grant, waits_on, wake_granted, word_of};
use chappe_arena::layout::{BLOCK, Head, Object};
use chappe_arena::{ArenaError, Map, Sort};
use chappe_plat::atomic::Ordering;

pub(crate) const FREE: u64 = 5;
pub(crate) const HELD: u64 = 6;
pub(crate) const RESERVED: u64 = 7;
pub(crate) const WAITERS: u64 = 1 << 3;
pub(crate) const TORN: u64 = 1 << 4;
pub(crate) const TOLD: u64 = 1 << 5;
const FLAGS: u64 = WAITERS | TORN | TOLD;
type Number = Stamp<6, 22>;
/// The bits that do not change when the lock changes hands.
pub(crate) const KEPT: u64 = FLAGS | Number::MASK;
pub(crate) const CONDEMNED: u64 = HELD | TORN | cell::owner(NOBODY, 0);
/// Condemned, and a borrow of the data may still be in use.
pub(crate) const ABANDONED: u64 = cell::owner(0, 1);

/// The word of a lock that this member holds, without flags and number.
#[inline(always)]
pub(crate) fn held_by(member: u32, generation: u32) -> u64 {
    HELD | cell::owner(member, generation)
}

pub(crate) fn reserved_for(member: u32, wait: u32) -> u64 {
    RESERVED | cell::owner(member, wait)
}

/// The number in the words of a lock.
#[inline(always)]
pub(crate) fn number(head: Head) -> u64 {
    Number::word(head.generation().into())
}

pub(crate) fn is_condemned(word: u64) -> bool {
    word & !(WAITERS | TOLD | ABANDONED | Number::MASK) == CONDEMNED
}

/// Whether a holder may still use the data.
pub(crate) fn is_had(word: u64) -> bool {
    word & 7 == HELD && (!is_condemned(word) || word & ABANDONED != 0)
}

/// The word of an object that has no use for it: RESERVED for no member, with the number of the slot's use. So a swap of it together with its
/// neighbour `since` changes that object, or nothing (until the number comes again).
pub(crate) fn unheld(generation: u32) -> u64 {
    reserved_for(NOBODY, 0) | Number::word(generation.into())
}

/// Stores the two words of a slot that becomes another object's.
pub(crate) fn store_words(o: &Object, word: u64, since: u64) {
    // Release: what its last user did with the slot comes before.
    o.slot.word.store(word, Ordering::Release);
    // Release: after the word. A late notifier of the last object (I5 of condition variables) raises `since` until it finds another word.
    o.slot.since.store(since, Ordering::Release);
}

/// Claims the place of a lock's data, which `fill` writes, and notes it in the lock's object, with the hash of its type.
pub(crate) fn lay_data(
    map: &'static Map,
    (index, generation): (u32, u32),
    bytes: usize,
    hash: u32,
    fill: impl FnOnce(*mut u8),
) -> Result<(), ArenaError> {
    let o = map.object(index);
    let blocks = u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX);
    let more = if blocks > 0 { map.claim_blocks(index, generation, Sort::Data, blocks)? + 1 } else { 0 };
    if blocks > 0 {
        fill(map.blocks(more - 1, blocks));
    }
    o.more.store(more, Ordering::Relaxed); // Relaxed: published by the head.
    o.permits.store(bytes as u32, Ordering::Relaxed); // Relaxed: as above.
    o.hint.store(hash, Ordering::Relaxed); // Relaxed: as above.
    Ok(())
}

#[inline(always)]
pub(crate) fn load(o: &Object) -> u64 {
    // SeqCst: E1 of the wait queue, after the caller's bit; E1 of readers-writer locks.
    o.slot.word.load(Ordering::SeqCst)
}

#[inline(always)]
pub(crate) fn swap(o: &Object, from: u64, to: u64) -> bool {
    // SeqCst: E1 of the wait queue, before the caller's look at the bits; E1 of readers-writer locks.
    o.slot.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Changes the word, which `read` reads, to what `to` makes of it; `None`: not at all. Answers the word that was changed, or that needs no change.
#[inline]
pub(crate) fn update(o: &Object, read: impl Fn() -> u64, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    loop {
        let seen = read();
        let next = to(seen)?;
        if next == seen || swap(o, seen, next) {
            return Some(seen);
        }
    }
}

/// Passes the lock on: from one word to another, flags and number aside, which stay. Answers the word that was changed; `None`: it said otherwise.
#[inline]
pub(crate) fn pass(o: &Object, from: u64, to: u64) -> Option<u64> {
    update(o, || load(o), |seen| (seen & !KEPT == from).then_some(to | seen & KEPT))
}

/// Frees the lock, if its word still is this one, flags aside, which stay. Answers the word that was changed.
#[inline]
pub(crate) fn free(o: &Object, word: u64) -> Option<u64> {
    update(o, || load(o), |seen| ((seen ^ word) & !FLAGS == 0).then_some(FREE | seen & KEPT))
}

/// Declares the data whole (`false`) or torn (`true`). The caller, whose word is `mine`, holds the lock.
pub(crate) fn tear(o: &Object, read: impl Fn() -> u64, mine: u64, torn: bool) {
    let next = |seen: u64| if torn { seen | TORN } else { seen & !TORN };
    update(o, read, |seen| (seen & !KEPT == mine).then_some(next(seen)));
}

/// Finishes or undoes a reservation; does neither while its waiter's turn has not come. False: the word has changed, look again.
pub(crate) fn resolve(map: &Map, object: u32, o: &Object, seen: u64, has_come: impl FnOnce() -> bool) -> bool {
    let (member, wait) = (member_of(seen), aux_of(seen));
    if member < map.geometry().members {
        let (word, _) = word_of(map, member);
        // SeqCst: I2 of the wait queue, after the object's word.
        let state = State(word.load(Ordering::SeqCst));
        if state.wait() == wait {
            if state.is_waiting() && waits_on(map, object, member) {
                return !has_come() || grant(map, member, state, object, 0, false);
            }
            if state.grant().is_some_and(|g| g.is(map, object, 0)) {
                wake_granted(map, member);
                return (load(o) ^ seen) & !FLAGS == 0;
            }
        }
    }
    if member == NOBODY {
        // Not a lock's word: the slot is another kind's by now.
        return true;
    }
    free(o, seen);
    false
}

/// A word as text, for the explorer's reports.
#[cfg(any(feature = "sim", feature = "loom"))]
pub(crate) fn in_words(word: u64) -> String {
    let who = match word & 7 {
        HELD if is_condemned(word) => "condemned".into(),
        HELD => format!("held by member {}", member_of(word)),
        RESERVED => format!("reserved for member {} in wait {}", member_of(word), aux_of(word)),
        _ => "free".to_owned(),
    };
    let flag = |bit, what| if word & bit != 0 { what } else { "" };
    format!("{who}{}{}", flag(WAITERS, ", waiters"), flag(TORN, ", torn"))
}
