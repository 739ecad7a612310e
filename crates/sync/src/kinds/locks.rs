//! In the table of kinds: mutexes and condition variables.

use super::{Dead, Protocol, biased_to_another};
use crate::wait::State;
use crate::{condvar, lock};
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visitor};

#[cfg(not(any(feature = "sim", feature = "loom")))]
use super::Failure;
#[cfg(not(feature = "sim"))]
use crate::bias;
#[cfg(not(feature = "sim"))]
use crate::examine::{Had, is_over};
#[cfg(not(feature = "sim"))]
use crate::inspect::{ObjectState, bytes};

pub(super) struct Mutexes;

impl Protocol for Mutexes {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        lock::drain(map, object, head);
    }

    fn announce(&self, map: &Map, object: u32) {
        lock::mark(map, object);
    }

    fn untold(&self, map: &Map, object: u32) {
        lock::untell(map.object(object));
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, _me: &mut Visitor<'_>) -> bool {
        if !biased_to_another(map, at.index, dead.member) {
            lock::recover(map, at.index, dead.member, dead.generation);
        }
        false
    }

    fn is_used(&self, map: &Map, object: u32, _head: Head) -> bool {
        lock::is_had(map, map.object(object))
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, _head: Head, member: u32, generation: u32) -> bool {
        if biased_to_another(map, object, member) {
            return false;
        }
        bias::settled_of(map, map.object(object), member, generation);
        lock::holder(map, map.object(object)) == Some((member, generation))
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, _me: &mut Visitor<'_>) {
        if !biased_to_another(map, at.index, leaver.member) {
            lock::abandon(map, at.index, lock::held_by(leaver.member, leaver.generation));
        }
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let o = map.object(place.index);
        Some(ObjectState::Mutex {
            holder: lock::holder(map, o).map(|(member, _)| map.who(member)),
            torn: lock::is_torn(o),
            condemned: lock::condemned(o),
            bytes: bytes(map, place) as u32,
        })
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        (!lock::is_word(map.object(place.index))).then_some("its word is none of a mutex")
    }

    #[cfg(not(feature = "sim"))]
    fn had(&self, map: &Map, place: Place, member: u32, generation: u32) -> Vec<Had> {
        let has = lock::holder(map, map.object(place.index)) == Some((member, generation));
        has.then_some(Had::Lock).into_iter().collect()
    }

    #[cfg(not(feature = "sim"))]
    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let held = lock::named(map.object(place.index));
        let Some((member, generation)) = held.filter(|(m, g)| is_over(map, *m, *g)) else { return Vec::new() };
        lock::recover(map, place.index, member, generation);
        super::drain(map, place.index);
        vec![Had::Lock]
    }

    #[cfg(not(feature = "sim"))]
    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let o = map.object(place.index);
        let holder = lock::holder(map, o).filter(|_| lock::is_had(map, o));
        Some(holder.into_iter().map(|(member, _)| member).collect())
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Mutex::<()>::remove(name, force)?)
    }
}

pub(super) struct Condvars;

impl Protocol for Condvars {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        condvar::drain(map, object, head);
    }

    fn take_back(&self, map: &Map, object: u32, _member: u32, _state: State, _whose: Option<u32>) {
        condvar::pass_on(map, object);
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, _map: &'static Map, _place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Condvar)
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Condvar::remove(name, force)?)
    }
}
