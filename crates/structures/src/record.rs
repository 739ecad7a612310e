//! The ring of a named tube: records in memory that processes share. Any of them may be killed or stopped at any step.
//!
//! As in the private ring (`ring`), a tube's counts of messages and holes are the states of the slots themselves. A thread claims a slot by a
//! swap of the slot's word, and the two indices are hints, stored plainly, that may be behind (nix-semaphores-tubes, 3; synthesis,
//! 3.3.1 claims by the index, so a death between claim and message blocks the queue). Two things differ from the private ring: the word also
//! names the slot's owner, so that recovery can finish for a dead owner; and there is no fence for the threads of several processes, so
//! that a commit is a swap as well. With many senders and receivers a message costs three swaps; an end that is declared to have only one
//! member uses plain stores instead.
//!
//! A position is a lap and a slot; a slot's word is `lap:45 | owner:16 | state:3`, and zeroed
//! memory is an empty ring. A position is *over* once its record was received, borrowed or given
//! up, or its sender passed over. (Other terms: `book/src/glossary.md`.)
//!
//! | state | owner | |
//! |---|---|---|
//! | EMPTY | | position l may be claimed |
//! | WRITING | sender | position l is claimed |
//! | FULL | | a record is there |
//! | READING | receiver | a receiver looks at it in place; positions up to l are over |
//! | AGAIN | | its reader has died: it is to be received once more; positions up to l are over |
//! | REREADING | receiver | as READING, of what was AGAIN |
//! | SKIPPED | sender | positions up to l are over, but their sender still has its unsent record here |
//!
//! ```text
//!            claim           commit         borrow             release
//!  EMPTY l ---------> WRITING ------> FULL ---------> READING ----------------> EMPTY l+1
//!    ^                  |              |                 |                          ^  ^
//!    |                  |              +- copied out ----|--------------------------+  |
//!    |     passed over  |                   reader died: | (recovery)                  |
//!    |                  v                                v       borrow      release   |
//!    |               SKIPPED                           AGAIN --------> REREADING ------+
//!    |                  |                                +------- copied out ----------+
//!    +-- next lap ------+-- sent elsewhere, given up, sender died ------ reader died --+
//!
//!   passed by a sender of lap l+1: READING, AGAIN, REREADING, SKIPPED l -> the same l+1; WRITING l -> SKIPPED l+1
//!   its own slot once more:        SKIPPED l -> WRITING l+1
//!   its sender gives up, or dies:  WRITING, SKIPPED l -> EMPTY l+1
//!   its reader gives it back:      READING, REREADING l -> AGAIN l (a living receiver: `put_back`)
//! ```
//!
//! The owner of a slot keeps other members from this slot only. A receiver passes over a position that is being written if a record is
//! behind it; a sender passes over a position that is still in use if a hole is behind it. A sender that was passed over finds out when it
//! commits: its swap fails. It then claims another position, to which it copies its record, or its own slot once more. So the order
//! of records is that of their (last) claims, and what one sender sends stays in order.
//!
//! Invariants:
//! - I1: a word only grows: by lap, and within a lap along the arrows. So a swap from a word that was seen means that it
//!   had not changed; or that a living receiver has put back the same record meanwhile.
//! - I2: a sender walks on from a position only if it was claimed or passed over, a receiver only if it is over. So at
//!   a position that any member reaches, all before it are claimed, passed or over; a hint says how far a member had come.
//! - I3: no member claims p+1 unless p was claimed or is over. So if a receiver finds EMPTY, or an older lap, at its position, nothing is
//!   there, nor behind it. It must not walk on.
//! - I4: an older lap at a sender's position is the lap before, and not EMPTY. FULL: no member has received what is there, nor
//!   anything behind it: no hole. (Positions behind it that were given up are holes only when it has been received.)
//! - I5: a member marks a position before it passes it, by the lap: so no sender, led back by a hint, claims it later, and no receiver
//!   takes it for I3.
//! - I6: the first position that is not over is at most a lap behind the last that was claimed (its slot would have
//!   that lap, and so be over). So a word of a later lap says how far a hint is behind, and the walk is short.
//! - I7: only the owner of a slot writes its bytes. A receiver that copies out without claiming keeps the copy only if its swap then
//!   succeeds, from the word that it read before.
//! - I8: a record becomes AGAIN from READING by recovery, or from READING or REREADING by a living
//!   receiver that gives its loan back (`put_back`). The thread that moves it then adds one to
//!   `orphans`; a recoverer does so too if it only saw a record AGAIN. A thread that has looked at
//!   all slots and found none AGAIN stores in `settled` the value that `orphans` had before the
//!   look. So while a record is AGAIN the two differ, unless a thread is still between moving and
//!   adding. A receiver that finds them different looks at all slots. Besides, receivers find such
//!   a record in line, in the lap to which senders have passed it.
//! - I9: a receiver that answers "no message" has read, in this order, `settled`; the line to its end; and `orphans`, with the same
//!   value. So at the moment at which the line ended none was AGAIN. If both are 0, none has ever been.
//! - I10: a member number is reused only after a recovery of it has completed. So a thread that has read a word of a member, and
//!   then sees that its death is not yet recovered, read a word of the dead member.
//! - I11: `len` says beside the bytes in which lap the record was committed (a slot's own lap grows
//!   when it is passed). What was borrowed was first in line: what is still there was committed
//!   behind it. So a receiver looks for what is AGAIN before the line, and takes the record that
//!   was committed first. If receivers come one after the other, each after the recovery of the
//!   last, all is received in order.
//! - I12: a look for a record, or for a hole, may change words: it passes positions, and settles `orphans`. So only a member that keeps the
//!   memory from being another object's looks so. A thread that only tells waiters, since a member has died or an object was removed, may be
//!   late, and looks without changing anything (`looks.rs`).
//!
//! Races: R1 two members claim, or take, one slot: one swap. R2 a commit against being passed over: one swap. R3 a release, or a
//! recovery, against being passed: the swap fails, and is made again from the later lap. R4 two threads recover one member: each step is
//! a swap from what was seen. R5 a recoverer that was stopped, and a later owner of the number: I10. R6 a look that finds nothing, and
//! a record that comes while it goes from the line to what is AGAIN: I9.
//!
//! Ordering edges: E1 (release/acquire) message before FULL, reading before EMPTY, what became of a
//! position before the hint that leads past it, and before any later change behind it. E2
//! (release/acquire) AGAIN before `orphans`. E3 (SeqCst): what was sent, received or given back
//! before its sender looks for waiters. (An only sender or receiver stores plainly: the tube makes
//! a fence.)
//!
//! Progress: all operations are lock-free: a swap fails because another succeeded. A sender that is passed over has to begin again;
//! receivers look a few times before they pass it. With one slot, or when all others are full, a stopped owner keeps
//! its slot. A slot that comes back behind a full one is a hole only when that one was received (I4): then there are two at once.
//!
//! Deaths: between claim and commit, nothing was sent; recovery gives up the position. After the commit, all was. In a
//! `try_recv`, the record is there until the swap that takes it. Between borrow and release: AGAIN, or dropped and counted if it
//! was AGAIN, or if the tube is to drop. Until recovery, the slot of each reservation and loan is out of use, and one more if the
//! sender died when it moved its record elsewhere. Only recovery has more than one step: see `recovery`. A ring's only sender
//! marks nothing before the commit: there is nothing to recover. If a member leaves in good order and has leaked a reservation or
//! a loan, the slot's owner becomes `NOBODY`: the slot stays out of use for ever, since references to it may live.
//!
//! Figures: `docs/benchmarks.md`, Tubes. Copying out without claiming saves a swap, and a death in it
//! needs no recovery; but receivers that compete copy in vain. What one side alone writes moves twice
//! between processors, to be read and to be written again. Fetching the next slot ahead (prefetchw) gains
//! nothing there, and is left out.
//!
//! Explored: `tests/crash_record.rs`, `tests/crash_record_queue.rs`. Left out: a swap, or a hint, of a process that was
//! stopped for 2^44 laps; and weak memory, since loom's words cannot lie in memory that is given to them.

mod looks;
mod place;
mod recovery;
#[cfg(all(test, not(feature = "sim")))]
mod tests;

#[cfg(not(feature = "sim"))]
pub use place::NOBODY;
pub use place::bytes_wanted;
#[cfg(any(test, feature = "sim"))]
pub use place::in_words;
pub use place::{Head, MOST_SLOTS, Ring, Shape, bytes_needed};

use chappe_plat::atomic::{Ordering, pause};
use chappe_plat::{ROBUST, step};
use place::{AGAIN, EMPTY, FULL, READING, REREADING, SKIPPED, WRITING};
use place::{ahead, freed, is_held_by, is_round, lap, not_before, owner, restated, slot_of, state, word};
use std::mem::MaybeUninit;

/// How many times a receiver looks whether a sender that is just writing commits, before it passes it over.
const PATIENCE: u32 = if cfg!(feature = "sim") { 0 } else { 64 };

/// A slot to be written, by the member that has reserved it.
#[must_use = "a slot that is neither committed nor abandoned is out of use"]
#[derive(Debug)]
#[cfg_attr(feature = "sim", derive(Clone, Copy))]
pub struct Slot {
    position: u64,
    me: u16,
}

impl Slot {
    /// The slot as one word, without its member.
    #[inline]
    pub fn number(&self) -> u64 {
        self.position
    }

    /// The slot of this number.
    #[inline]
    pub fn of(number: u64, me: u16) -> Slot {
        Slot { position: number, me }
    }
}

/// A record that a member looks at in place.
#[must_use = "a record that is not released is out of use, and comes again when its receiver dies"]
#[derive(Debug)]
#[cfg_attr(feature = "sim", derive(Clone, Copy))]
pub struct Borrowed {
    slot: u32,
    len: u32,
    /// The lap in which it was committed.
    lap: u32,
    /// The slot's word, unless it was passed since.
    word: u64,
}

impl Borrowed {
    /// As two words: the slot's number, and its word.
    #[inline]
    pub fn parts(&self) -> (u32, u64) {
        (self.slot, self.word)
    }

    /// The member that has it.
    #[inline]
    pub fn member(&self) -> u32 {
        owner(self.word).into()
    }

    /// Whether it is redelivered: a receiver that had it before has died.
    #[inline]
    pub fn again(&self) -> bool {
        state(self.word) == REREADING
    }
}

/// What was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes.
    pub len: u32,
    /// Whether it is redelivered: a receiver that had it before has died.
    pub again: bool,
}

/// What has gone through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Records that were sent.
    pub sent: u64,
    /// Sent records whose slots have come back.
    pub received: u64,
}

/// Why a record was not sent.
#[derive(Debug)]
pub enum Unsent {
    /// It was passed over, and now there is no hole. It is still in its slot, to be committed later or abandoned.
    Full(Slot),
    /// A recoverer has taken the member for dead, and its slot away.
    Revoked,
}

/// A record that may be taken.
struct Found {
    slot: u32,
    /// The word that says so.
    seen: u64,
    /// Where receivers are when it was taken.
    onward: u64,
}

/// Sending.
impl Ring<'_> {
    /// Reserves a slot, if there is a hole. A ring's only sender has one reservation at a time.
    #[inline]
    pub fn reserve(&self, me: u16) -> Option<Slot> {
        self.claim(me, None)
    }

    #[inline(always)]
    fn claim(&self, me: u16, own: Option<&Slot>) -> Option<Slot> {
        loop {
            let (position, seen) = self.hole(own).ok()?;
            if self.one_sender() {
                // No other member changes EMPTY.
                return Some(Slot { position, me });
            }
            let mine = word(position, me, WRITING);
            // AcqRel: E1, both ways. Relaxed: look again.
            if self.word(position).compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // Release: E1.
                self.tail().store(self.next(position), Ordering::Release);
                return Some(Slot { position, me });
            }
        }
    }

    /// The next position to be claimed and its word, or where the first hole will be. A sender whose record was passed over (`own`) may
    /// claim its own slot once more.
    #[inline(always)]
    fn hole(&self, own: Option<&Slot>) -> Result<(u64, u64), u64> {
        self.sought(own, |position, seen| self.past_one_in_use(position, seen, own))
    }

    /// The same. `past` says where to go on from a position whose slot is still in use from the lap before; `None`: there is no hole.
    #[inline(always)]
    fn sought(&self, own: Option<&Slot>, past: impl Fn(u64, u64) -> Option<u64>) -> Result<(u64, u64), u64> {
        // Acquire: E1.
        let mut position = self.led(self.tail().load(Ordering::Acquire));
        let start = position;
        loop {
            // Acquire: E1.
            let seen = self.word(position).load(Ordering::Acquire);
            if is_hole(position, seen, own) {
                return Ok((position, seen));
            }
            position = if ahead(seen, position) >= 0 {
                // I6: claimed, and so was its slot in the lap before that which the word has.
                self.next(not_before(position, seen, 1))
            } else {
                past(position, seen).ok_or(position)?
            };
            if is_round(start, position) {
                return Err(start);
            }
        }
    }

    /// The slot is still in use from the lap before. If a member has it (not FULL), and there is a hole behind, passes
    /// over the position.
    #[cold]
    fn past_one_in_use(&self, position: u64, seen: u64, own: Option<&Slot>) -> Option<u64> {
        if state(seen) == FULL {
            // I4.
            return None;
        }
        if ROBUST && self.is_hole_behind(position, own) {
            let passed = if state(seen) == WRITING { SKIPPED } else { state(seen) };
            let passed = word(position, owner(seen), passed);
            // AcqRel: E1; I5. Relaxed, a failure: it has changed, the caller looks again.
            let _ = self.word(position).compare_exchange(seen, passed, Ordering::AcqRel, Ordering::Relaxed);
            return Some(position);
        }
        // Acquire: E1. Unless it has changed meanwhile: then look again.
        (self.word(position).load(Ordering::Acquire) != seen).then_some(position)
    }

    fn is_hole_behind(&self, position: u64, own: Option<&Slot>) -> bool {
        let mut behind = position;
        for _ in 1..self.slots() {
            behind = self.next(behind);
            // Acquire: E1.
            let seen = self.word(behind).load(Ordering::Acquire);
            if is_hole(behind, seen, own) {
                return true;
            }
            if state(seen) == FULL && ahead(seen, behind) < 0 {
                // I4.
                return false;
            }
        }
        false
    }

    /// Sends what was written to the slot: the first `len` bytes.
    ///
    /// # Errors
    /// If it was passed over and there is no hole now.
    ///
    /// # Panics
    /// If `len` is more than the slot has.
    #[inline]
    pub fn commit(&self, slot: Slot, len: u32) -> Result<(), Unsent> {
        let mut slot = slot;
        while !self.is_sent(&slot, len)? {
            let Some(other) = self.claim(slot.me, Some(&slot)) else { return Err(Unsent::Full(slot)) };
            if slot_of(other.position) != slot_of(slot.position) {
                self.copy(slot_of(slot.position), slot_of(other.position), len);
                step!("copied, in both slots");
                self.abandon(slot);
            }
            slot = other;
        }
        Ok(())
    }

    /// Makes the record visible. False: its position was passed over.
    #[inline(always)]
    fn is_sent(&self, slot: &Slot, len: u32) -> Result<bool, Unsent> {
        assert!(len <= self.size(), "a record of {len} bytes, where {} are the most", self.size());
        // Relaxed: published by the word.
        self.len_of(slot_of(slot.position)).store(measured(len, slot.position), Ordering::Relaxed);
        let there = self.word(slot.position);
        let full = word(slot.position, 0, FULL);
        if self.one_sender() {
            // Release, both: E1.
            there.store(full, Ordering::Release);
            self.tail().store(self.next(slot.position), Ordering::Release);
            return Ok(true);
        }
        if !ROBUST {
            // SeqCst: E1, E3.
            there.swap(full, Ordering::SeqCst);
            return Ok(true);
        }
        let mine = word(slot.position, slot.me, WRITING);
        // SeqCst: E1, E3. Acquire: the member that passed over it has seen why.
        match there.compare_exchange(mine, full, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(true),
            Err(now) if is_held_by(now, slot.me) && state(now) == SKIPPED => Ok(false),
            Err(_) => Err(Unsent::Revoked),
        }
    }

    /// Gives up a reservation.
    pub fn abandon(&self, slot: Slot) {
        if !self.one_sender() {
            self.give_up(slot_of(slot.position), word(slot.position, slot.me, WRITING));
        }
    }

    /// Ends a reservation or a loan. The word is as it was, or was passed since. False: it is not ours any more.
    #[inline(always)]
    fn give_up(&self, slot: u32, mine: u64) -> bool {
        let mut seen = mine;
        loop {
            // SeqCst: E1, reading before EMPTY, and E3. Acquire: R3, the member that passed has seen why.
            match self.at(slot).compare_exchange(seen, freed(seen), Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) if is_held_by(now, owner(mine)) => seen = now,
                Err(_) => return false,
            }
        }
    }

    /// Sends a record. False: there is no hole.
    ///
    /// # Panics
    /// If the record has more bytes than a slot.
    #[inline]
    pub fn try_send(&self, me: u16, record: &[u8]) -> bool {
        while let Some(slot) = self.reserve(me) {
            self.write(slot_of(slot.position), record);
            match self.is_sent(&slot, record.len() as u32) {
                Ok(true) => return true,
                // Its own slot may be the only hole.
                Ok(false) => self.abandon(slot),
                Err(_) => {}
            }
        }
        false
    }

    /// Writes a record to a slot that was reserved.
    ///
    /// # Panics
    /// If the record has more bytes than the slot.
    pub fn fill(&self, slot: &Slot, record: &[u8]) {
        self.write(slot_of(slot.position), record);
    }

    /// Whether there is a hole.
    pub fn has_hole(&self) -> bool {
        self.hole(None).is_ok()
    }

    /// If there is no hole, where the first will be; and 0.
    pub fn no_hole(&self) -> Option<(u64, u64)> {
        self.hole(None).err().map(|end| (end, 0))
    }

    /// If there is no record, where the next will be; and the count of redelivered records up to now, or more.
    pub fn no_message(&self) -> Option<(u64, u64)> {
        // Acquire: E2, before the look.
        let again = self.counts.orphans.load(Ordering::Acquire);
        self.next_one().err().map(|end| (end, again))
    }

    /// Whether a record that was passed over can be committed now.
    pub fn has_hole_for(&self, slot: &Slot) -> bool {
        self.hole(Some(slot)).is_ok()
    }

    /// Where the record is to be written: as many bytes as a slot has.
    #[inline]
    pub fn place(&self, slot: &Slot) -> *mut u8 {
        self.bytes(slot_of(slot.position))
    }
}

/// Receiving.
impl Ring<'_> {
    /// The next record, if there is one. Passes over what is being written, if a record is behind it.
    #[inline(always)]
    fn message(&self) -> Option<Found> {
        self.next_one().ok()
    }

    /// The next record, or where the line ends. Redelivered records come before those in line (I11).
    #[inline(always)]
    fn next_one(&self) -> Result<Found, u64> {
        // Acquire, both: E2; I9, before the line.
        let settled = self.counts.settled.load(Ordering::Acquire);
        if self.counts.orphans.load(Ordering::Acquire) != settled {
            return self.orphan_or_later();
        }
        match self.in_line() {
            // Acquire: E2; I9, after the line.
            Err(_) if self.counts.orphans.load(Ordering::Acquire) != settled => self.orphan_or_later(),
            other => other,
        }
    }

    /// The next record in line, or where the line ends.
    #[inline(always)]
    fn in_line(&self) -> Result<Found, u64> {
        self.walked(|position, seen| self.past_an_unwritten_one(position, seen))
    }

    /// The same. `past` says where to go on from a position whose record is not there yet; `None`: the line ends there.
    #[inline(always)]
    fn walked(&self, past: impl Fn(u64, u64) -> Option<u64>) -> Result<Found, u64> {
        // Acquire: E1.
        let mut position = self.led(self.head().load(Ordering::Acquire));
        let start = position;
        loop {
            // Acquire: E1, the message.
            let seen = self.word(position).load(Ordering::Acquire);
            let ahead = ahead(seen, position);
            position = match state(seen) {
                FULL | AGAIN if ahead == 0 => {
                    return Ok(Found { slot: slot_of(position), seen, onward: self.next(position) });
                }
                WRITING if ahead == 0 => match past(position, seen) {
                    Some(position) => position,
                    None => return Err(position),
                },
                // I2: it is over, and I6.
                _ if ahead > 0 || (ahead == 0 && state(seen) != EMPTY) => self.next(not_before(position, seen, 2)),
                // I3.
                AGAIN => return Ok(Found { slot: slot_of(position), seen, onward: position }),
                _ => return Err(position),
            };
            if is_round(start, position) {
                return Err(start);
            }
        }
    }

    /// The record at a receiver's position is not there yet. If one is behind it, passes over the position.
    #[cold]
    fn past_an_unwritten_one(&self, position: u64, seen: u64) -> Option<u64> {
        let there = self.word(position);
        if !ROBUST || !self.is_message_behind(position) {
            // Acquire: I3, after those behind. Unless it has changed meanwhile: then look again.
            return (there.load(Ordering::Acquire) != seen).then_some(position);
        }
        let mut left = PATIENCE;
        while left > 0 {
            left -= 1;
            pause();
            // Relaxed: the caller looks again.
            if there.load(Ordering::Relaxed) != seen {
                return Some(position);
            }
        }
        // AcqRel: E1; I5. Relaxed, a failure: it has changed, the caller looks again.
        let _ = there.compare_exchange(seen, restated(seen, SKIPPED), Ordering::AcqRel, Ordering::Relaxed);
        Some(position)
    }

    fn is_message_behind(&self, position: u64) -> bool {
        let mut behind = position;
        for _ in 1..self.slots() {
            behind = self.next(behind);
            // Acquire: E1.
            let seen = self.word(behind).load(Ordering::Acquire);
            let ahead = ahead(seen, behind);
            if ahead == 0 && state(seen) == FULL {
                return true;
            }
            if ahead < 0 || (ahead == 0 && state(seen) == EMPTY) {
                // I3.
                return false;
            }
        }
        false
    }

    /// Takes what was found, if it is still there.
    #[inline(always)]
    fn take(&self, found: &Found, taken: u64) -> bool {
        let there = self.at(found.slot);
        if self.one_receiver() && state(found.seen) == FULL {
            // Release: E1, reading before EMPTY. Only receivers change FULL.
            there.store(taken, Ordering::Release);
        // SeqCst: E1, I7, E3. Relaxed: the caller looks again.
        } else if there.compare_exchange(found.seen, taken, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // Release: E1.
        self.head().store(found.onward, Ordering::Release);
        true
    }

    /// Copies the next record out, if there is one.
    ///
    /// # Panics
    /// If `buffer` has fewer bytes than a slot.
    #[inline]
    pub fn try_recv(&self, buffer: &mut [MaybeUninit<u8>]) -> Option<Received> {
        loop {
            let found = self.message()?;
            let len = self.read(found.slot, buffer);
            if self.take(&found, freed(found.seen)) {
                return Some(Received { len, again: state(found.seen) == AGAIN });
            }
        }
    }

    /// Borrows the next record, if there is one, to look at it in place.
    #[inline]
    pub fn borrow(&self, me: u16) -> Option<Borrowed> {
        loop {
            let found = self.message()?;
            let reading = if state(found.seen) == AGAIN { REREADING } else { READING };
            let word = word(found.seen, me, reading);
            if self.take(&found, word) {
                return Some(self.borrowed(found.slot, word));
            }
        }
    }

    /// The record that was borrowed: the slot, and what it said.
    #[inline]
    pub fn borrowed(&self, slot: u32, word: u64) -> Borrowed {
        // Relaxed: ours.
        let measure = self.len_of(slot).load(Ordering::Relaxed);
        Borrowed { slot, len: measure as u32, lap: (measure >> 32) as u32, word }
    }

    /// Where in line a borrowed record was committed, from 0 on: the next record's number is one more, except where a sender gave a
    /// position up. The number wraps with the lap's 32 bits.
    #[inline]
    pub fn order(&self, borrowed: &Borrowed) -> u64 {
        u64::from(borrowed.lap) * u64::from(self.slots()) + u64::from(borrowed.slot)
    }

    /// Where a borrowed record is, and how many bytes it has.
    #[inline]
    pub fn record(&self, borrowed: &Borrowed) -> (*const u8, u32) {
        (self.bytes(borrowed.slot), borrowed.len.min(self.size()))
    }

    /// Copies a borrowed record out. Answers how many bytes it has.
    ///
    /// # Panics
    /// If `buffer` has fewer bytes than a slot.
    pub fn copy_out(&self, borrowed: &Borrowed, buffer: &mut [MaybeUninit<u8>]) -> u32 {
        self.read(borrowed.slot, buffer)
    }

    /// Gives back the slot of a borrowed record: it is received. False: a recoverer has taken the member for dead, and the record
    /// may be delivered again.
    #[inline]
    pub fn release(&self, borrowed: Borrowed) -> bool {
        self.give_up(borrowed.slot, borrowed.word)
    }

    /// Whether there is a record. Passes over what is being written, if a record is behind it.
    pub fn has_message(&self) -> bool {
        self.message().is_some()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What stands beside a record: how many bytes it has, and the lap in which it is committed (I11).
#[inline(always)]
fn measured(len: u32, position: u64) -> u64 {
    lap(position) << 32 | u64::from(len)
}

/// Whether a sender may claim this position.
#[inline(always)]
fn is_hole(position: u64, seen: u64, own: Option<&Slot>) -> bool {
    let is_own = |own: &Slot| {
        slot_of(own.position) == slot_of(position) && is_held_by(seen, own.me) && ahead(seen, position) < 0
    };
    seen == word(position, 0, EMPTY) || own.is_some_and(is_own)
}
