//! Objects that serve by priority, and their waiters, for the explorer.

use super::{Actor, PoolAt, SemaphoreAt};
use crate::permit;
use chappe_arena::{ArenaError, Map};
use chappe_wait::wait::Discipline;

impl Actor {
    /// The actor with this priority from now on.
    pub fn of_priority(self, priority: u8) -> Actor {
        Actor { priority, ..self }
    }
}

impl SemaphoreAt {
    /// The same of one that serves by priority; see [`Discipline`].
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make_by(
        map: &'static Map,
        name: &str,
        value: u32,
        discipline: Discipline,
    ) -> Result<SemaphoreAt, ArenaError> {
        SemaphoreAt::make_as(map, name, value, discipline.code())
    }
}

impl PoolAt {
    /// Makes a pool that serves by priority, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make_by(map: &'static Map, name: &str, count: u32, discipline: Discipline) -> Result<PoolAt, ArenaError> {
        let admin = map.admin();
        if let Some(place) = map.find(name) {
            return Ok(PoolAt { map, place });
        }
        let place = permit::make_pool(map, &admin, name, count, discipline)?;
        Ok(PoolAt { map, place })
    }
}
