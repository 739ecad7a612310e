//! The owner word: which member has a lock, or whose turn it is. Mutexes (`lock`) and readers-writer locks (`rwlock`) have it in common; their heads say
//! when it changes, and what a flag means there.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | 5 FREE, 6 HELD, 7 RESERVED (0 to 4: a word of another kind of object) |
//! | 3 | WAITERS | a wait bit may be set: a thread that leaves must look |
//! | 4 | TORN | a holder died or panicked, and no later holder has made the data whole |
//! | 5 | TOLD | of a mutex: a waiter was told to try again, and has not tried yet |
//! | 6-23 | number | the low bits of the slot's generation: successive locks in one slot have different words |
//! | 24-39 | member | the holder, or the waiter it is reserved for; HELD by [`NOBODY`]: condemned, for ever |
//! | 40-63 | aux | HELD: the holder's generation; RESERVED: the number of the wait; condemned: 1 if abandoned |
//! | 40-53 | high | FREE: the other bits of the slot's generation |
//!
//! So a FREE word is one lock's alone, and a late locker fails. A word that says HELD has only the number's low bits; but while it says so the slot is no
//! other lock's, and of a dead generation it never says so again. Of a living one it may, in a later lock of the slot: a thread that is late for 2^18 locks
//! there sets or takes away WAITERS or TOLD, which costs a look. A word that says RESERVED is for one wait, and in that wait for one lock.
//!
//! Every change of a lock that others may use is a swap from the exact word that was seen: flags that another thread sets meanwhile are not lost.
//! [`update`] tries again with the word that it finds; a thread that has seen a word and goes by it swaps once.
//!
//! The cell of a pool's permit (`cell`) has the same fields in other places, and stays a word of its
//! own. It spends 24 bits on a version that rises with each use; a lock spends 18 on a number that
//! stays, and three on flags. One layout for both takes bits from one of them:
//! - The cell's layout leaves a mutex's epoch (`bias`) 19 bits, not 23. A revoker that slept through
//!   2^19 biases would then free a lock that its owner is inside of.
//! - The lock's layout leaves a cell's version 20 bits, not 24. Two looks at a pool would count its
//!   turnover up to 2^20 uses only, which is less than a tenth of a second of a busy pool; and a
//!   recoverer that slept through so many would free the permit of another job.
//!
//! They share no change of the word either. A permit that is given back gets another version, and
//! the drainer gives it to a waiter with its position in the pool. A lock keeps its number, and its
//! flags tell the thread that leaves whether to look for a waiter.

use crate::cell::NOBODY;
use crate::wait::{State, grant, waits_on, wake_granted, word_of};
use chappe_arena::layout::{BLOCK, Head, Object};
use chappe_arena::{ArenaError, Map, Sort};
use chappe_plat::atomic::Ordering;
use chappe_structures::stamp::Stamp;

pub const FREE: u64 = 5;
pub const HELD: u64 = 6;
pub const RESERVED: u64 = 7;
pub const WAITERS: u64 = 1 << 3;
pub const TORN: u64 = 1 << 4;
pub const TOLD: u64 = 1 << 5;
const FLAGS: u64 = WAITERS | TORN | TOLD;
type Number = Stamp<6, NUMBER>;
const NUMBER: u32 = 18;
type High = Stamp<AUX_AT, { u32::BITS - NUMBER }>;
/// Where a lock's word has the member's number, also when it is biased.
pub const MEMBER_AT: u32 = 24;
/// Where it has aux.
pub const AUX_AT: u32 = 40;
/// The bits that do not change when the lock changes hands.
pub const KEPT: u64 = FLAGS | Number::MASK;
pub const CONDEMNED: u64 = HELD | TORN | owner(NOBODY, 0);
/// Condemned, and a borrow of the data may still be in use.
pub const ABANDONED: u64 = owner(0, 1);

/// The fields of a word that names an owner.
#[inline(always)]
pub const fn owner(member: u32, aux: u32) -> u64 {
    (member as u64) << MEMBER_AT | (aux as u64) << AUX_AT
}

/// The member that a word names.
#[inline(always)]
pub const fn member_of(word: u64) -> u32 {
    (word >> MEMBER_AT) as u32 & NOBODY
}

#[inline(always)]
pub const fn aux_of(word: u64) -> u32 {
    (word >> AUX_AT) as u32
}

/// The word of a lock that this member holds, without flags and number.
#[inline(always)]
pub fn held_by(member: u32, generation: u32) -> u64 {
    HELD | owner(member, generation)
}

#[inline]
pub fn reserved_for(member: u32, wait: u32) -> u64 {
    RESERVED | owner(member, wait)
}

/// The number in the words of a lock.
#[inline(always)]
pub fn number(head: Head) -> u64 {
    Number::word(head.generation().into())
}

/// The word of a lock when it is free, without flags.
#[inline(always)]
pub fn free_word(head: Head) -> u64 {
    high(head) | number(head)
}

/// The same without the number that all words of the lock have.
#[inline(always)]
pub fn high(head: Head) -> u64 {
    FREE | High::word((head.generation() >> NUMBER).into())
}

/// The word of a free lock, with the flags of one that was seen, which names an owner.
#[inline]
pub fn freed(o: &Object, seen: u64) -> u64 {
    // Acquire: after the word: with the head of a later lock in the slot, the swap of the word fails.
    high(Head(o.head.load(Ordering::Acquire))) | seen & KEPT
}

#[inline]
pub fn is_condemned(word: u64) -> bool {
    word & !(WAITERS | TOLD | ABANDONED | Number::MASK) == CONDEMNED
}

/// Whether a holder may still use the data.
#[inline]
pub fn is_had(word: u64) -> bool {
    word & 7 == HELD && (!is_condemned(word) || word & ABANDONED != 0)
}

/// The word of an object that has no use for it: RESERVED for no member, with the number of the slot's use. So a swap of it together with its
/// neighbour `since` changes that object, or nothing (until the number comes again).
#[inline]
pub fn unheld(generation: u32) -> u64 {
    reserved_for(NOBODY, generation >> NUMBER) | Number::word(generation.into())
}

/// Stores the two words of a slot that becomes another object's.
#[inline]
pub fn store_words(o: &Object, word: u64, since: u64) {
    // Release: what its last user did with the slot comes before.
    o.slot.word.store(word, Ordering::Release);
    // Release: after the word. A late notifier of the last object (I5 of condition variables) raises `since` until it finds another word.
    o.slot.since.store(since, Ordering::Release);
}

/// Claims the place of a lock's data, which `fill` writes, and notes it in the lock's object, with the hash of its type.
pub fn lay_data(
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
pub fn load(o: &Object) -> u64 {
    // SeqCst: E1 of the wait queue, after the caller's bit; E1 of readers-writer locks.
    o.slot.word.load(Ordering::SeqCst)
}

#[inline(always)]
pub fn swap(o: &Object, from: u64, to: u64) -> bool {
    // SeqCst: E1 of the wait queue, before the caller's look at the bits; E1 of readers-writer locks.
    o.slot.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Changes the word, which `read` reads, to what `to` makes of it; `None`: not at all. Answers the word that was changed, or that needs no change.
#[inline]
pub fn update(o: &Object, read: impl Fn() -> u64, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    loop {
        let seen = read();
        let next = to(seen)?;
        if next == seen || swap(o, seen, next) {
            return Some(seen);
        }
    }
}

/// Passes the lock on: from one word, which names an owner, to another, flags and number aside, which stay. (If that is free, it comes with the lock's
/// [`high`].) Answers the word that was changed; `None`: it said otherwise.
#[inline]
pub fn pass(o: &Object, from: u64, to: u64) -> Option<u64> {
    update(o, || load(o), |seen| (seen & !KEPT == from).then_some(to | seen & KEPT))
}

/// Frees the lock, if its word still is this one, flags aside, which stay. Answers the word that was changed.
#[inline]
pub fn free(o: &Object, word: u64) -> Option<u64> {
    update(o, || load(o), |seen| ((seen ^ word) & !FLAGS == 0).then(|| freed(o, seen)))
}

/// Declares the data whole (`false`) or torn (`true`). The caller, whose word is `mine`, holds the lock.
pub fn tear(o: &Object, read: impl Fn() -> u64, mine: u64, torn: bool) {
    let next = |seen: u64| if torn { seen | TORN } else { seen & !TORN };
    update(o, read, |seen| (seen & !KEPT == mine).then_some(next(seen)));
}

/// Finishes or undoes a reservation; does neither while its waiter's turn has not come. False: the word has changed, look again.
pub fn resolve(map: &Map, object: u32, o: &Object, seen: u64, has_come: impl FnOnce() -> bool) -> bool {
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
#[inline]
pub fn in_words(word: u64) -> String {
    let who = match word & 7 {
        HELD if is_condemned(word) => "condemned".into(),
        HELD => format!("held by member {}", member_of(word)),
        RESERVED => format!("reserved for member {} in wait {}", member_of(word), aux_of(word)),
        _ => "free".to_owned(),
    };
    let flag = |bit, what| if word & bit != 0 { what } else { "" };
    format!("{who}{}{}", flag(WAITERS, ", waiters"), flag(TORN, ", torn"))
}

/// As many of the bits of a process's incarnation as a guard has: so many successive forks.
#[cfg(not(feature = "sim"))]
pub const INCARNATION: u32 = 0x7f_ffff;

/// What a guard keeps of a held word: with the process's incarnation in the place of the word's tag, flags and number.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub fn kept(word: u64, incarnation: u32) -> u64 {
    word & !(7 | KEPT) | u64::from(incarnation & INCARNATION) << 1
}

/// What is added to the free word of a mutex for a bias to this member.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub fn addition(member: u32) -> u64 {
    owner(member.wrapping_add(1), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_arena::layout::{Kind, MAX_MEMBERS};

    #[test]
    fn a_word_names_every_member_beside_the_number_of_its_lock() {
        let heads = [1, 0x3_ffff, 0x4_0001, 0xffff_ffff].map(|generation| Head::live(generation, Kind::Mutex));
        for head in heads {
            let free = free_word(head);
            assert_eq!((free & 7, member_of(free)), (FREE, 0), "no bias");
            for member in [0, 4_095, 4_096, MAX_MEMBERS - 1] {
                for word in [held_by(member, 0xff_ffff), reserved_for(member, 0xff_ffff)] {
                    let word = word | free & KEPT | WAITERS | TORN | TOLD;
                    assert_eq!((member_of(word), aux_of(word)), (member, 0xff_ffff));
                    assert_eq!(Number::alone(word), number(head));
                    assert!(!is_condemned(word));
                }
            }
        }
        // All of them differ, whatever the flags.
        let free = heads.map(free_word);
        assert!((0..free.len()).all(|i| (0..i).all(|j| (free[i] ^ free[j]) & !FLAGS != 0)));
        assert_eq!(NOBODY >> (AUX_AT - MEMBER_AT), 0);
    }
}
