//! Looks at a ring that change nothing: for a thread that may be late, and for people. The labels I3, I4, I9, I12, E1 and E2 are of the
//! head of `record.rs`.

use super::place::{AGAIN, FULL, READING, REREADING, SKIPPED, lap, state};
use super::{Passed, Ring};
use chappe_plat::ROBUST;
use chappe_plat::atomic::Ordering;
use std::cell::Cell;

impl Ring<'_> {
    /// As [`Ring::has_hole`], and changes nothing (I12).
    pub fn shows_hole(&self) -> bool {
        let behind = Cell::new(false);
        let hole = self.sought(None, |position, seen| {
            behind.set(ROBUST && state(seen) != FULL && self.is_hole_behind(position, None));
            // I4. Acquire: E1. Unless it has changed meanwhile: then look again.
            let looks_again =
                !behind.get() && state(seen) != FULL && self.word(position).load(Ordering::Acquire) != seen;
            looks_again.then_some(position)
        });
        hole.is_ok() || behind.get()
    }

    /// As [`Ring::has_message`], and changes nothing (I12).
    pub fn shows_message(&self) -> bool {
        loop {
            // Acquire, both: E2; I9, before the line.
            let (settled, orphans) =
                (self.counts.settled.load(Ordering::Acquire), self.counts.orphans.load(Ordering::Acquire));
            // Acquire: E1.
            let is_again = |slot| state(self.at(slot).load(Ordering::Acquire)) == AGAIN;
            if orphans != settled && (0..self.slots()).any(is_again) {
                return true;
            }
            let behind = Cell::new(false);
            let line = self.walked(|position, seen| {
                behind.set(ROBUST && self.is_message_behind(position));
                // Acquire: I3, after those behind. Unless it has changed meanwhile: then look again.
                (!behind.get() && self.word(position).load(Ordering::Acquire) != seen).then_some(position)
            });
            if line.is_ok() || behind.get() {
                return true;
            }
            // Acquire: E2; I9, after the line.
            if self.counts.orphans.load(Ordering::Acquire) == orphans {
                return false;
            }
        }
    }

    /// How many records there are, without those that a receiver has borrowed. Looks at all slots.
    pub fn len(&self) -> usize {
        // Relaxed: a count that may be out of date when it is told.
        let there = |slot| matches!(state(self.at(slot).load(Ordering::Relaxed)), FULL | AGAIN);
        (0..self.slots()).filter(|slot| there(*slot)).count()
    }

    /// How many records were sent and how many received since the ring began, by the laps of its slots: so a reservation that
    /// was given up, and a position that was passed over, count as one record sent and received. Neither number decreases. Looks at all
    /// slots.
    pub fn passed(&self) -> Passed {
        let mut passed = Passed { sent: 0, received: 0 };
        for slot in 0..self.slots() {
            // Relaxed: for show.
            let seen = self.at(slot).load(Ordering::Relaxed);
            let (sent, received) = match state(seen) {
                FULL | READING | AGAIN | REREADING => (1, 0),
                SKIPPED => (1, 1),
                _ => (0, 0),
            };
            let laps = lap(seen);
            // Words that were overwritten by a wild write may have more laps than can be counted.
            passed.sent = passed.sent.wrapping_add(laps + sent);
            passed.received = passed.received.wrapping_add(laps + received);
        }
        passed
    }
}
