//! What observers see of tubes of a named arena: plain ones, broadcast tubes, and the ends of either sort.
//!
//! - I1: the slots of a tube name members without generations: what is in the name of a member slot without an occupant is taken back
//!   only while no new member can occupy that slot.

use super::row::{Had, Inspected, ObjectState, is_over};
use crate::tube::broadcast;
use crate::tube::named;
use chappe_arena::{Map, Place, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_structures::record::NOBODY;
use chappe_tube::broadcast::cast::Cast;
use chappe_tube::named::pipe::{Pipe, Side};
use chappe_wait::kinds;

#[cfg(not(feature = "loom"))]
use super::row::Failure;

pub(super) struct Ends;

impl Inspected for Ends {
    fn is_part(&self, _map: &Map, _place: Place) -> bool {
        true
    }

    fn whole(&self, map: &Map, place: Place) -> Option<(u32, &'static str)> {
        // Acquire: written before the object was in service.
        let tube = map.object(place.index).hint.load(Ordering::Acquire).wrapping_sub(1);
        (tube < map.geometry().objects).then_some((tube, " (for room)"))
    }

    fn look(&self, _map: &'static Map, _place: Place, _name: &str) -> Option<ObjectState> {
        None
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, _name: &str, _force: bool) -> Result<(), Failure> {
        Err("an end of a tube goes with its tube".into())
    }
}

pub(super) struct Tubes;

impl Inspected for Tubes {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Tube(named::info(map, place)?))
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Pipe::of(map, place).is_none().then_some("its shape cannot be")
    }

    fn had(&self, map: &Map, place: Place, member: u32, _generation: u32) -> Vec<Had> {
        Pipe::of(map, place).map_or_else(Vec::new, |pipe| of_tube(&pipe, member))
    }

    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let mut me = map.visitor();
        let Some(pipe) = Pipe::of(map, place) else { return Vec::new() };
        let had = of_nobody(map, &pipe, &mut me);
        kinds::drain(map, place.index);
        kinds::drain(map, pipe.end.index);
        had
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let pipe = Pipe::of(map, place)?;
        Some(pipe.attached(Side::Senders).chain(pipe.attached(Side::Receivers)).collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(named::Tube::remove(name, force)?)
    }
}

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
            kinds::clear(map, member, me);
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

impl Inspected for Broadcasts {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Broadcast(broadcast::info(map, place)?))
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Cast::of(map, place).is_none().then_some("its shape cannot be")
    }

    fn had(&self, map: &Map, place: Place, member: u32, _generation: u32) -> Vec<Had> {
        let Some(cast) = Cast::of(map, place) else { return Vec::new() };
        let publishes = cast.publishers().any(|m| m == member).then_some(Had::Sends);
        let subscribes = cast.subscriptions().any(|(_, m)| m == member).then_some(Had::Receives);
        let writes = cast.ring.is_used_by(member as u16).then_some(Had::Writing(1));
        [writes, publishes, subscribes].into_iter().flatten().collect()
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let cast = Cast::of(map, place)?;
        Some(cast.publishers().chain(cast.subscriptions().map(|(_, member)| member)).collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(broadcast::Broadcast::remove(name, force)?)
    }
}
