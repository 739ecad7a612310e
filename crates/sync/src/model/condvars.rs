//! Condition variables, for the explorer: made, notified, removed.

use super::CondvarAt;
use crate::condvar;
use chappe_arena::{ArenaError, Map};

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

    /// Wakes the first. False: nobody waits.
    pub fn notify_one(self) -> bool {
        condvar::notify(self.map, self.place)
    }

    /// Wakes all.
    pub fn notify_all(self) {
        condvar::notify_all(self.map, self.place.index);
    }

    /// Removes it.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }
}
