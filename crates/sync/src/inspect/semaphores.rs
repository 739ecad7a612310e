//! What observers see of semaphores. The count of an owned semaphore is shown with the other part, which is a pool.

use super::row::{Inspected, ObjectState};
use crate::{owned, semaphore_word};
use chappe_arena::{Map, Place};
use chappe_wait::wait;
use chappe_wait::wait::Discipline;

#[cfg(not(feature = "loom"))]
use super::row::Failure;

pub(super) struct Semaphores;

impl Inspected for Semaphores {
    fn is_part(&self, map: &Map, place: Place) -> bool {
        owned::is_part(map, map.object(place.index))
    }

    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let o = map.object(place.index);
        // A part of an owned semaphore is not shown by itself.
        owned::name_of(map, place).is_none().then(|| ObjectState::Semaphore {
            value: semaphore_word::value(o),
            barging: wait::is_barging(o),
            discipline: Discipline::of(o),
        })
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        semaphore_word::is_broken(map, map.object(place.index)).then_some("its word is none of a semaphore")
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Semaphore::remove(name, force)?)
    }
}
