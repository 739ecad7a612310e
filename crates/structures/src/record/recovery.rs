//! Recovery of a dead member's slots, and what happens to records that it had received and not released.
//!
//! Recovery is a look at all slots. Any thread may do it, any number of times, concurrently with others, and may be killed or stopped at
//! every step. What the dead member was sending is given up; what it had borrowed goes to AGAIN, or is dropped.
//!
//! A drop changes both the slot and the count, and must be counted once. So it is announced in the count's own word, which
//! is `count:29 | member + 1:16 | slot:19`:
//!
//! ```text
//!   count, nobody -------> count + 1, member, slot -------> slot: EMPTY -------> count + 1, nobody
//! ```
//!
//! A thread that finds a drop announced makes the other two steps for the announcer.
//!
//! - I1: a recoverer announces a drop, by a swap of the word, only if it has seen the word without an announcement, then the record owned
//!   by the dead member, then the member not yet recovered. So the record was still there.
//! - I2: a recovery ends only when nothing of its member is announced. So as long as something is, the number is not reused
//!   (I10 of the ring), and the slot's word still refers to the dead member.
//! - I3: a thread that recovers a member, or a member that leaves, looks at all rings, also at those that the member has never used. Where it finds
//!   something to do, it visits the tube first (arena, visit.rs), and the memory stays the ring's until it is through.

use super::Found;
use super::place::{AGAIN, NOBODY, READING, REREADING, Ring, freed, is_held_by, owner, state, word};
use chappe_arena::Visit;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;

const MEMBER: u64 = 0xffff << 19;
const ONE: u64 = 1 << 35;

/// Makes an announcement.
fn announced(count: u64, member: u16, slot: u32) -> u64 {
    count.wrapping_add(ONE) | (u64::from(member) + 1) << 19 | u64::from(slot)
}

/// What is announced: member and slot.
fn announcement(count: u64) -> Option<(u16, u32)> {
    let member = (count & MEMBER) >> 19;
    (member > 0).then(|| (member as u16 - 1, super::slot_of(count)))
}

impl Ring<'_> {
    /// Recovers a dead member. `is_dead` says that this is not yet done: the number is still the dead member's. When this has completed,
    /// the number may be reused.
    ///
    /// `tell` is called for each slot that is to be delivered once more.
    pub fn recover(&self, _: &Visit<'_>, member: u16, is_dead: impl Fn() -> bool, tell: impl Fn(u32)) {
        let mut again = false;
        for slot in 0..self.slots() {
            again |= self.recover_slot(slot, member, &is_dead, &tell);
        }
        // Acquire: I2. It may be the announcement of another recoverer that died.
        self.finish(self.counts.dropped.load(Ordering::Acquire));
        if again {
            step!("some are again, not yet said");
            add(&self.counts.orphans);
        }
    }

    /// Whether [`Ring::recover`] has anything to do. A look that changes nothing: the memory may be another's (I3).
    pub fn is_left_by(&self, member: u16) -> bool {
        // Acquire, both: as in `recover`.
        let is_to_do = |seen| is_held_by(seen, member) || state(seen) == AGAIN;
        announcement(self.counts.dropped.load(Ordering::Acquire)).is_some()
            || (0..self.slots()).any(|slot| is_to_do(self.at(slot).load(Ordering::Acquire)))
    }

    /// Whether a record is there to be delivered once more.
    fn recover_slot(&self, slot: u32, member: u16, is_dead: &impl Fn() -> bool, tell: &impl Fn(u32)) -> bool {
        loop {
            // Acquire: I1, before the slot's word.
            let count = self.counts.dropped.load(Ordering::Acquire);
            // Acquire: I9 of the ring, before the look at the member.
            let seen = self.at(slot).load(Ordering::Acquire);
            if state(seen) == AGAIN {
                return true;
            }
            if !is_held_by(seen, member) || !is_dead() {
                return false;
            }
            let read = matches!(state(seen), READING | REREADING);
            if read && (self.drops() || state(seen) == REREADING) {
                self.drop(count, member, slot);
                continue;
            }
            let next = if read { word(seen, 0, AGAIN) } else { freed(seen) };
            // AcqRel: E1 of the ring. Relaxed, a failure: it was passed, or another recovers: look again.
            let done = self.at(slot).compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if done && read {
                add(&self.counts.redelivered);
                tell(slot);
            }
        }
    }

    /// Gives a borrowed record back: as if its receiver, the caller, had died; or so that it comes once
    /// more, however often it has come. (The second way takes the slot's word from REREADING back to
    /// AGAIN, against the arrows: I1 of the ring. A receiver that saw the word at AGAIN before, and swaps
    /// it now, has read the same record, so its swap is right.)
    pub fn put_back(&self, borrowed: &super::Borrowed, died: bool, tell: impl Fn(u32)) {
        let (slot, mine) = borrowed.parts();
        let member = owner(mine);
        if died || self.drops() {
            let again = self.recover_slot(slot, member, &|| true, &tell);
            // Acquire: I2, as in `recover`.
            self.finish(self.counts.dropped.load(Ordering::Acquire));
            if again {
                add(&self.counts.orphans);
            }
            return;
        }
        let mut seen = mine;
        loop {
            let again = word(seen, 0, AGAIN);
            // AcqRel: E1 of the ring. Acquire: it was passed, or it is not ours any more.
            match self.at(slot).compare_exchange(seen, again, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) if is_held_by(now, member) => seen = now,
                Err(_) => return,
            }
        }
        step!("it is again, not yet said");
        if state(seen) == READING {
            add(&self.counts.redelivered);
            tell(slot);
        }
        add(&self.counts.orphans);
    }

    /// Whether a member has a slot.
    #[cfg(not(feature = "sim"))]
    pub fn is_used_by(&self, member: u16) -> bool {
        self.held().any(|(owner, _)| owner == member)
    }

    /// The owners of slots, in the order of slots, and whether each reads (else it writes).
    #[cfg(not(feature = "sim"))]
    pub fn held(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        // Acquire: as it stood at some moment.
        let words = (0..self.slots()).map(|slot| self.at(slot).load(Ordering::Acquire));
        words
            .filter(|word| is_held_by(*word, owner(*word)))
            .map(|word| (owner(word), matches!(state(word), READING | REREADING)))
    }

    /// A member leaves, and has leaked slots of its own: references to them may be in use for ever. So the slots stay out of use.
    pub fn keep_from_all(&self, _: &Visit<'_>, member: u16) {
        for slot in 0..self.slots() {
            loop {
                // Acquire: only the member itself, and a sender that passes it, changes this.
                let seen = self.at(slot).load(Ordering::Acquire);
                let kept = word(seen, NOBODY, state(seen));
                // AcqRel: E1 of the ring. Relaxed, a failure: it was passed, look again.
                if !is_held_by(seen, member)
                    || self.at(slot).compare_exchange(seen, kept, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    break;
                }
            }
        }
    }

    /// Drops what a dead member has borrowed, or completes a drop that another recoverer announced.
    fn drop(&self, count: u64, member: u16, slot: u32) {
        if announcement(count).is_some() {
            return self.finish(count);
        }
        let mine = announced(count, member, slot);
        // AcqRel: I1. Relaxed: the caller looks again.
        if self.counts.dropped.compare_exchange(count, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            step!("drop announced");
            self.finish(mine);
        }
    }

    /// Makes the rest of an announced drop.
    fn finish(&self, count: u64) {
        let Some((member, slot)) = announcement(count) else { return };
        // A word that names no slot was overwritten by a wild write, and there is nothing to drop.
        while slot < self.slots() {
            // Acquire: I2, before the look at the count.
            let seen = self.at(slot).load(Ordering::Acquire);
            // Acquire: as above.
            if self.counts.dropped.load(Ordering::Acquire) != count {
                return;
            }
            let there = is_held_by(seen, member) && matches!(state(seen), READING | REREADING);
            // AcqRel: E1 of the ring. Relaxed, a failure: it was passed, or another drops it.
            if !there || self.at(slot).compare_exchange(seen, freed(seen), Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        // AcqRel: I2, after the slot's word. Relaxed, a failure: another thread has done it.
        let _ = self.counts.dropped.compare_exchange(count, count & !(ONE - 1), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Some records may be AGAIN: the one of them that was committed first; else what is in line, or its end (see the ring).
    #[cold]
    pub(super) fn orphan_or_later(&self) -> Result<Found, u64> {
        loop {
            // Acquire: E2 of the ring, before the look.
            let orphans = self.counts.orphans.load(Ordering::Acquire);
            if let Some(found) = self.first_again() {
                return Ok(found);
            }
            step!("none is again, not yet said");
            // Relaxed: I8 of the ring; it publishes nothing.
            self.counts.settled.store(orphans, Ordering::Relaxed);
            match self.in_line() {
                // Acquire: E2 of the ring, after the line.
                Err(_) if self.counts.orphans.load(Ordering::Acquire) != orphans => {}
                other => return other,
            }
        }
    }

    /// Among the records that are AGAIN, the one that was committed first.
    fn first_again(&self) -> Option<Found> {
        let mut first: Option<(u32, Found)> = None;
        for slot in 0..self.slots() {
            // Acquire: E1 of the ring.
            let seen = self.at(slot).load(Ordering::Acquire);
            if state(seen) != AGAIN {
                continue;
            }
            // Relaxed: written before the slot's word.
            let lap = (self.len_of(slot).load(Ordering::Relaxed) >> 32) as u32;
            // Of one lap the first slot is the earliest.
            if first.as_ref().is_none_or(|(than, _)| (lap.wrapping_sub(*than) as i32) < 0) {
                // Acquire: E1 of the ring, as it is to be stored again.
                let onward = self.head().load(Ordering::Acquire);
                first = Some((lap, Found { slot, seen, onward }));
            }
        }
        first.map(|(_, found)| found)
    }

    /// How many records were dropped because their receivers died.
    pub fn dropped(&self) -> u64 {
        // Relaxed: for show.
        self.counts.dropped.load(Ordering::Relaxed) / ONE
    }

    /// How many were to be delivered once more because their receiver died; less one for each recoverer that died after
    /// moving a record to AGAIN, before counting it.
    pub fn redelivered(&self) -> u64 {
        // Relaxed: for show.
        self.counts.redelivered.load(Ordering::Relaxed)
    }
}

/// Adds one to a count.
fn add(count: &AtomicU64) {
    // Release: E2 of the ring.
    count.fetch_add(1, Ordering::Release);
}
