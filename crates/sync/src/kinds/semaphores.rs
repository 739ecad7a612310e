//! In the table of kinds: semaphores. The count of an owned semaphore is shown with the other part, which is a pool.

use super::Protocol;
use crate::semaphore_word;
#[cfg(not(feature = "sim"))]
use crate::wait::Discipline;
use crate::wait::State;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visitor};

#[cfg(not(any(feature = "sim", feature = "loom")))]
use super::Failure;
#[cfg(not(feature = "sim"))]
use crate::{inspect::ObjectState, owned};

pub(super) struct Semaphores;

impl Protocol for Semaphores {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        semaphore_word::drain(map, object, head);
    }

    fn before(&self, map: &Map, object: u32) {
        semaphore_word::before(map, object);
    }

    fn announce(&self, map: &Map, object: u32) {
        semaphore_word::mark(map, object);
    }

    fn left(&self, map: &Map, object: u32, member: u32) {
        semaphore_word::left(map, object, member);
    }

    fn take_back(&self, map: &Map, object: u32, member: u32, state: State, whose: Option<u32>) {
        semaphore_word::take_back(map, object, member, state, whose);
    }

    fn notify_dead(&self, map: &Map, at: Place, me: &mut Visitor<'_>) {
        if let Some(_visit) = me.visit(at) {
            semaphore_word::settle(map, at.index);
        }
    }

    #[cfg(not(feature = "sim"))]
    fn is_part(&self, map: &Map, place: Place) -> bool {
        owned::is_part(map, map.object(place.index))
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let o = map.object(place.index);
        // A part of an owned semaphore is not shown by itself.
        owned::name_of(map, place).is_none().then(|| ObjectState::Semaphore {
            value: semaphore_word::value(o),
            barging: semaphore_word::is_barging(o),
            discipline: Discipline::of(o),
        })
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        semaphore_word::is_broken(map, map.object(place.index)).then_some("its word is none of a semaphore")
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Semaphore::remove(name, force)?)
    }
}
