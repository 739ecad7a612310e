//! Condition variables, for the explorer: made, waited for, notified, removed.

use super::{Actor, Locking, MutexAt};
use crate::condvar::{self, Heard};
use chappe_arena::{ArenaError, Map, Place};
use chappe_wait::operation::Site;
use chappe_wait::wait::Parties;
use std::cell::Cell;

/// A condition variable in an arena.
#[derive(Clone, Copy)]
pub struct CondvarAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl CondvarAt {
    /// Makes a condition variable, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str) -> Result<CondvarAt, ArenaError> {
        let admin = map.admin();
        if let Some(place) = map.find(name) {
            return Ok(CondvarAt { map, place });
        }
        let place = condvar::make(map, &admin, name)?;
        Ok(CondvarAt { map, place })
    }

    /// Wakes the first waiter. False: there is none.
    pub fn notify_one(self) -> bool {
        condvar::notify(self.map, self.place)
    }

    /// Wakes all waiters.
    pub fn notify_all(self) {
        condvar::notify_all(self.map, self.place);
    }

    /// Removes the condition variable.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }
}

impl Actor {
    /// Unlocks the mutex, waits for a notification, and locks again. True: notified, not timed out.
    pub fn wait(&self, condvar: CondvarAt, mutex: MutexAt, deadline: Option<u64>) -> (bool, Locking) {
        let budget = Cell::new(0);
        let patience = self.patience(&budget);
        let who = Parties { private: None, ..self.who };
        let unlock = || assert!(self.unlock(mutex));
        let heard = condvar::wait(&who, &Site::of(condvar.map, condvar.place), deadline, &patience, unlock);
        (heard == Heard::Notified, self.lock(mutex, None))
    }
}
