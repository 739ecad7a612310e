//! In the table of kinds: mutexes and condition variables.

use crate::{bias, condvar, lock};
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Protocol, Visitor};
#[cfg(not(feature = "sim"))]
use chappe_wait::owner;

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
        if !bias::is_anothers(map, at.index, dead.member) {
            lock::recover(map, at.index, dead.member, dead.generation);
        }
        false
    }

    fn is_used(&self, map: &Map, object: u32, _head: Head) -> bool {
        lock::is_had(map, map.object(object))
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, _head: Head, member: u32, generation: u32) -> bool {
        if bias::is_anothers(map, object, member) {
            return false;
        }
        bias::settled_of(map, map.object(object), member, generation);
        lock::holder(map, map.object(object)) == Some((member, generation))
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, _me: &mut Visitor<'_>) {
        if !bias::is_anothers(map, at.index, leaver.member) {
            lock::abandon(map, at.index, owner::held_by(leaver.member, leaver.generation));
        }
    }
}

pub(super) struct Condvars;

impl Protocol for Condvars {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        condvar::drain(map, object, head);
    }

    fn take_back(&self, map: &Map, object: u32, _member: u32, _word: u64, _whose: Option<u32>) {
        condvar::pass_on(map, object);
    }
}
