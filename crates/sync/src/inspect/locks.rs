//! What observers see of mutexes and condition variables.

use super::row::{Had, Inspected, ObjectState, is_over};
use crate::lock;
use chappe_arena::{Map, Place};
use chappe_wait::kinds;
use chappe_wait::waiters::bytes;

#[cfg(not(feature = "loom"))]
use super::row::Failure;

pub(super) struct Mutexes;

impl Inspected for Mutexes {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let o = map.object(place.index);
        Some(ObjectState::Mutex {
            holder: lock::holder(map, o).map(|(member, _)| map.who(member)),
            torn: lock::is_torn(o),
            condemned: lock::condemned(o),
            bytes: bytes(map, place) as u32,
        })
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        (!lock::is_word(map.object(place.index))).then_some("its word is none of a mutex")
    }

    fn had(&self, map: &Map, place: Place, member: u32, generation: u32) -> Vec<Had> {
        let has = lock::holder(map, map.object(place.index)) == Some((member, generation));
        has.then_some(Had::Lock).into_iter().collect()
    }

    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let held = lock::named(map.object(place.index));
        let Some((member, generation)) = held.filter(|(m, g)| is_over(map, *m, *g)) else { return Vec::new() };
        lock::recover(map, place.index, member, generation);
        kinds::drain(map, place.index);
        vec![Had::Lock]
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let o = map.object(place.index);
        let holder = lock::holder(map, o).filter(|_| lock::is_had(map, o));
        Some(holder.into_iter().map(|(member, _)| member).collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Mutex::<()>::remove(name, force)?)
    }
}

pub(super) struct Condvars;

impl Inspected for Condvars {
    fn look(&self, _map: &'static Map, _place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Condvar)
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Condvar::remove(name, force)?)
    }
}
