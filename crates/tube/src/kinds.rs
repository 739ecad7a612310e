//! In the table of kinds: tubes of a named arena: plain ones, broadcast tubes, and the ends of either sort.

use crate::broadcast::cast;
use crate::named::pipe;
use crate::named::senders::{drain_end, is_named};
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Dead, Map, Place, Protocol, Visitor};
use chappe_wait::end;

pub struct Ends;

impl Protocol for Ends {
    // Only a private tube's users know what there is for its waiters: see `wake_after_death`.
    fn drain(&self, map: &Map, object: u32, head: Head) {
        drain_end(map, object, head);
    }
}

pub struct Tubes;

impl Protocol for Tubes {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        pipe::drain(map, object, head);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        pipe::recover(map, at, dead, me);
        false
    }

    fn clear(&self, map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
        pipe::clear(map, at, member, me);
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        pipe::is_attached(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, _generation: u32) -> bool {
        head.in_service() && pipe::is_used_by(map, object, head, member)
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, me: &mut Visitor<'_>) {
        pipe::keep_from_all(map, at, leaver.member, me);
    }
}

pub struct Broadcasts;

impl Protocol for Broadcasts {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        cast::drain(map, object, head);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        cast::recover(map, at, dead, me);
        false
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        cast::is_attached(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, _generation: u32) -> bool {
        head.in_service() && cast::is_used_by(map, object, head, member)
    }
}

/// A member died, and may have been about to tell the waiters at the ends of tubes.
pub fn wake_after_death(map: &'static Map) {
    for object in 0..map.objects_used() {
        let head = chappe_wait::kinds::looked_up(map, object);
        if head.is_live(Kind::End) && !is_named(map.object(object)) {
            end::wake_after_death(map, object, head);
        }
    }
}
