//! Maps of an arena, and mutexes with much data, for the explorer: made, entered, removed.

use super::{Actor, MutexAt};
use crate::body::Body;
use crate::lock;
use crate::map::atlas;
use chappe_arena::{ArenaError, Map, Place};

/// A map of an arena.
#[derive(Clone, Copy)]
pub struct MapAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl MapAt {
    /// Makes it.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str) -> Result<MapAt, ArenaError> {
        let shape = crate::table::Shape { entries: 2, key: 8, value: 8, spare: 2, ordered: false };
        let types = atlas::Types { keys: 1, values: 2 };
        let place = atlas::make(map, &map.admin(), name, Some((shape, types)))?;
        Ok(MapAt { map, place })
    }

    /// Removes it.
    pub fn remove(&self) {
        self.map.unmake(&self.map.admin(), self.place);
    }
}

impl Actor {
    /// Enters an object that is a body of the arena, as one that changes it. False: it was removed.
    pub fn enters(&self, map: &'static Map, place: Place) -> bool {
        let admin = map.admin();
        Body::of(map, place).is_some_and(|body| body.enter(&admin, self.who.main.member))
    }

    /// Leaves it.
    pub fn exits(&self, map: &'static Map, place: Place) {
        if let Some(body) = Body::of(map, place) {
            body.leave(self.who.main.member);
        }
    }
}

impl MutexAt {
    /// Makes a mutex with so many words of data, which `fill` gives; where they lie.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn of_words(
        map: &'static Map,
        name: &str,
        words: usize,
        fill: impl Fn(usize) -> u64,
    ) -> Result<(MutexAt, *const u64), ArenaError> {
        let mut data = std::ptr::null_mut();
        let place = lock::make(map, &map.admin(), name, words * 8, MutexAt::TYPE, |at| {
            data = at.cast::<u64>();
            // SAFETY: so many words, the mutex's, which no other thread knows of.
            (0..words).for_each(|i| unsafe { data.add(i).write(fill(i)) });
        })?;
        Ok((MutexAt { map, place }, data))
    }
}
