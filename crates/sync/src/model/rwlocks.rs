//! Readers-writer locks, as members use them under the explorer.

use super::{Actor, Refusal};
#[cfg(feature = "sim")]
use super::{Dropped, TaskEnd};
use crate::rwlock::row;
use crate::rwlock::word::{Entry, Reading, Slots, Writing};
use chappe_arena::{ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_wait::claim::wait_for;
use chappe_wait::operation::{Arm, WaitSpec};
use chappe_wait::owner;
use chappe_wait::owner::{held_by, member_of};
use chappe_wait::wait::{Parties, Patience};
use std::cell::Cell;

/// A readers-writer lock in an arena.
#[derive(Clone, Copy)]
pub struct RwLockAt(Slots);

/// A turn at a lock, as its member holds it.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// To write.
    pub writes: bool,
    /// An earlier writer left the data as it was.
    pub torn: bool,
    word: u64,
}

impl RwLockAt {
    /// Makes one with 8 bytes of data.
    ///
    /// # Errors
    /// As [`Map::make`].
    ///
    /// # Panics
    /// If what was just made is not there.
    pub fn make(map: &'static Map, name: &str) -> Result<RwLockAt, ArenaError> {
        let place = row::make(map, &map.admin(), name, (8, 1), |_| ())?;
        Ok(RwLockAt(Slots::of(map, place).expect("just made")))
    }

    /// Where the lock is, its line, and its inside.
    pub fn places(self) -> (Place, Place, u32) {
        self.0.places()
    }

    /// Locks, sleeping at most until the deadline. `Dead`: the lock was removed, or condemned.
    ///
    /// # Errors
    /// Why the lock was not taken.
    pub fn enter(self, me: &Actor, writes: bool, deadline: Option<u64>) -> Result<Turn, Refusal> {
        let (reading, writing) = (Reading(self.0), Writing(self.0));
        let arm: &dyn Arm = if writes { &writing } else { &reading };
        let who = Parties { private: None, ..me.who };
        let found = match arm.attempt(&who.main, false) {
            Ok(taken) => Ok(taken),
            Err(chappe_wait::operation::Refused::NoneFree) => {
                let budget = Cell::new(0);
                let patience =
                    Patience { budget: &budget, forever: false, none: true, interrupt: None, priority: 0, bell: None };
                wait_for(&who, &[arm], WaitSpec::to_take(deadline, &patience)).map(|(_, taken)| taken)
            }
            Err(refused) => Err(refused),
        };
        found.map(|taken| Turn { writes, torn: taken.position != 0, word: taken.word.0 }).map_err(Refusal::from)
    }

    /// As [`RwLockAt::enter`], as a task, in the actor's own name.
    ///
    /// # Panics
    /// If the actor has no bell.
    #[cfg(feature = "sim")]
    pub fn enter_as_task(self, me: &Actor, writes: bool, dropped: Dropped) -> (TaskEnd, Option<Turn>) {
        let (reading, writing) = (Reading(self.0), Writing(self.0));
        let arm: &dyn Arm = if writes { &writing } else { &reading };
        let (end, taken) = match arm.attempt(&me.who.main, false) {
            Ok(taken) => (TaskEnd::Over(Ok(())), Some(taken)),
            Err(chappe_wait::operation::Refused::NoneFree) => me.wait_as_task(arm, || 1, 0, || (), dropped),
            Err(refused) => (TaskEnd::Over(Err(Refusal::from(refused))), None),
        };
        (end, taken.map(|taken| Turn { writes, torn: taken.position != 0, word: taken.word.0 }))
    }

    /// Locks if no member has the lock or waits.
    pub fn try_enter(self, me: &Actor, writes: bool) -> Option<Turn> {
        let party = &me.who.main;
        let word = held_by(party.member, party.generation);
        let entry = match writes {
            true => Writing(self.0).try_enter(party.member, word),
            false => Reading(self.0).try_enter(party.member),
        };
        matches!(entry, Entry::Whole | Entry::Torn).then_some(Turn { writes, torn: entry == Entry::Torn, word })
    }

    /// Unlocks it.
    pub fn leave(self, turn: Turn) -> bool {
        if turn.writes {
            return self.0.leave_alone(turn.word);
        }
        self.0.leave(member_of(turn.word));
        true
    }

    /// The writer goes on as a reader.
    pub fn downgrade(self, turn: Turn) -> Turn {
        self.0.downgrade(turn.word);
        Turn { writes: false, ..turn }
    }

    /// The writer declares that the data is whole.
    pub fn mend(self, turn: Turn) {
        self.0.tear(turn.word, false);
    }

    /// The writer gives the lock up for ever.
    pub fn condemn(self, turn: Turn) {
        self.0.condemn(turn.word);
    }

    /// Marks that a member may wait, as a waiter that has given up leaves it.
    pub fn mark(self) {
        chappe_wait::kinds::enlisted(self.0.map, self.0.lock.index);
    }

    /// Removes the lock.
    pub fn remove(self) {
        self.0.unmake(&self.0.map.admin());
    }

    /// Removes what is left of locks that were half made, or half removed. Returns how many parts.
    pub fn sweep(map: &'static Map) -> u32 {
        row::sweep(map, &map.admin())
    }

    /// The lock's word, as text.
    pub fn word(self) -> String {
        // SeqCst: for stories.
        owner::in_words(self.0.map.object(self.0.lock.index).slot.word.load(Ordering::SeqCst))
    }
}

/// Such a word as text, for stories.
pub fn rwlock_in_words(value: u64) -> String {
    owner::in_words(value)
}
