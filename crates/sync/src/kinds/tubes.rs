//! In the table of kinds: tubes of a named arena: plain ones, broadcast tubes, and the ends of either sort.
//!
//! - I1: the slots of a tube name members without generations: what is in the name of a member slot without an occupant is taken back
//!   only while no new member can occupy that slot.

use super::{Dead, Protocol};
use crate::tube::{broadcast, named};
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visitor};

#[cfg(not(any(feature = "sim", feature = "loom")))]
use super::Failure;
#[cfg(not(feature = "sim"))]
use crate::{
    examine::{Had, is_over},
    inspect::ObjectState,
    record::NOBODY,
    tube::{
        broadcast::cast::Cast,
        named::pipe::{Pipe, Side},
    },
};
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;

pub(super) struct Ends;

impl Protocol for Ends {
    // Only a private tube's users know what there is for its waiters: see `wake_after_death`.
    fn drain(&self, map: &Map, object: u32, head: Head) {
        named::drain_end(map, object, head);
    }

    #[cfg(not(feature = "sim"))]
    fn is_part(&self, _map: &Map, _place: Place) -> bool {
        true
    }

    #[cfg(not(feature = "sim"))]
    fn whole(&self, map: &Map, place: Place) -> Option<(u32, &'static str)> {
        // Acquire: written before the object was in service.
        let tube = map.object(place.index).hint.load(Ordering::Acquire).wrapping_sub(1);
        (tube < map.geometry().objects).then_some((tube, " (for room)"))
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, _map: &'static Map, _place: Place, _name: &str) -> Option<ObjectState> {
        None
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, _name: &str, _force: bool) -> Result<(), Failure> {
        Err("an end of a tube goes with its tube".into())
    }
}

pub(super) struct Tubes;

impl Protocol for Tubes {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        named::drain(map, object, head);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        named::recover(map, at, dead, me);
        false
    }

    fn clear(&self, map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
        named::clear(map, at, member, me);
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        named::is_attached(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, _generation: u32) -> bool {
        head.in_service() && named::is_used_by(map, object, head, member)
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, me: &mut Visitor<'_>) {
        named::keep_from_all(map, at, leaver.member, me);
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Tube(named::info(map, place)?))
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Pipe::of(map, place).is_none().then_some("its shape cannot be")
    }

    #[cfg(not(feature = "sim"))]
    fn had(&self, map: &Map, place: Place, member: u32, _generation: u32) -> Vec<Had> {
        Pipe::of(map, place).map_or_else(Vec::new, |pipe| of_tube(&pipe, member))
    }

    #[cfg(not(feature = "sim"))]
    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let mut me = map.visitor();
        let Some(pipe) = Pipe::of(map, place) else { return Vec::new() };
        let had = of_nobody(map, &pipe, &mut me);
        super::drain(map, place.index);
        super::drain(map, pipe.end.index);
        had
    }

    #[cfg(not(feature = "sim"))]
    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let pipe = Pipe::of(map, place)?;
        Some(pipe.attached(Side::Senders).chain(pipe.attached(Side::Receivers)).collect())
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(named::Tube::remove(name, force)?)
    }
}

#[cfg(not(feature = "sim"))]
fn of_tube(pipe: &Pipe<'_>, member: u32) -> Vec<Had> {
    let count = |read| pipe.ring.held().filter(|(owner, r)| u32::from(*owner) == member && *r == read).count() as u32;
    let at = |side| pipe.all(side).any(|m| m == member);
    let some = |is: bool, had| is.then_some(had);
    let (writing, looking) = (count(false), count(true));
    [
        some(writing > 0, Had::Writing(writing)),
        some(looking > 0, Had::Looking(looking)),
        some(at(Side::Senders), Had::Sends),
        some(at(Side::Receivers), Had::Receives),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// I1: gives back what is in the name of vacant member slots.
#[cfg(not(feature = "sim"))]
fn of_nobody(map: &'static Map, pipe: &Pipe<'static>, me: &mut Visitor<'_>) -> Vec<Had> {
    let mut had = Vec::new();
    let ends = [Side::Senders, Side::Receivers];
    let slots = pipe.ring.held().map(|(owner, _)| owner).filter(|owner| *owner != NOBODY).map(u32::from);
    let mut members: Vec<u32> = slots.chain(ends.into_iter().flat_map(|side| pipe.all(side))).collect();
    members.sort_unstable();
    members.dedup();
    for member in members.into_iter().filter(|member| *member < map.geometry().members) {
        if map.occupant(member).is_none()
            && let Some(_vacant) = map.vacant(member)
        {
            had.extend(of_tube(pipe, member));
            if let Some(visit) = me.visit(pipe.place) {
                pipe.ring.recover(&visit, member as u16, || true, |_| ());
            }
            super::clear(map, member, me);
        }
    }
    let Some(_visit) = me.visit(pipe.place) else { return had };
    for side in ends {
        if pipe.free_over(side, |member, generation| is_over(map, member, generation)) {
            had.push(if side == Side::Senders { Had::Sends } else { Had::Receives });
        }
    }
    had
}

pub(super) struct Broadcasts;

impl Protocol for Broadcasts {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        broadcast::drain(map, object, head);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        broadcast::recover(map, at, dead, me);
        false
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        broadcast::is_attached(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, _generation: u32) -> bool {
        head.in_service() && broadcast::is_used_by(map, object, head, member)
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Broadcast(broadcast::info(map, place)?))
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Cast::of(map, place).is_none().then_some("its shape cannot be")
    }

    #[cfg(not(feature = "sim"))]
    fn had(&self, map: &Map, place: Place, member: u32, _generation: u32) -> Vec<Had> {
        let Some(cast) = Cast::of(map, place) else { return Vec::new() };
        let publishes = cast.publishers().any(|m| m == member).then_some(Had::Sends);
        let subscribes = cast.subscriptions().any(|(_, m)| m == member).then_some(Had::Receives);
        let writes = cast.ring.is_used_by(member as u16).then_some(Had::Writing(1));
        [writes, publishes, subscribes].into_iter().flatten().collect()
    }

    #[cfg(not(feature = "sim"))]
    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let cast = Cast::of(map, place)?;
        Some(cast.publishers().chain(cast.subscriptions().map(|(_, member)| member)).collect())
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(broadcast::Broadcast::remove(name, force)?)
    }
}
