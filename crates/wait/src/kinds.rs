//! What an object does, whatever its kind: for the wait queue and recovery, which do not depend on the kind.
//!
//! Each kind's protocol is registered with the arena: see [`Protocol`]. This file finds an object's protocol and calls it. The protocols lie in
//! the crates above, in chappe-sync's `kinds`.

use crate::wait::{State, queue};
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Protocol, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

fn head(map: &Map, object: u32) -> Head {
    // Acquire: the object as its maker left it.
    Head(map.object(object).head.load(Ordering::Acquire))
}

/// Looks an object up, to act on it.
#[inline]
pub fn looked_up(map: &Map, object: u32) -> Head {
    let head = head(map, object);
    map.through(Place { index: object, head });
    head
}

/// The protocol of an object in service.
fn live(map: &Map, object: u32) -> Option<&'static dyn Protocol> {
    Some(looked_up(map, object)).filter(|h| h.in_service())?.kind().map(|kind| map.protocol(kind))
}

/// The place and protocol of an object in service, or removed and not yet closed.
fn there(map: &Map, index: u32) -> Option<(Place, &'static dyn Protocol)> {
    let head = looked_up(map, index);
    Some((Place { index, head }, map.protocol(head.kind().filter(|_| head.stands())?)))
}

/// Matches what an object has with its waiters.
#[inline]
pub fn drain(map: &Map, object: u32) {
    let head = looked_up(map, object);
    if let Some(kind) = head.kind().filter(|_| head.in_service()) {
        map.protocol(kind).drain(map, object, head);
    }
}

/// Called before a member publishes a wait on the object.
#[inline]
pub fn before(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.before(map, object);
    }
}

/// A member's bit was set: its setter looks afterwards.
#[inline]
pub fn enlisted(map: &Map, object: u32) {
    announce(map, object);
    drain(map, object);
}

fn announce(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.announce(map, object);
    }
}

/// All waiters of the object, by arrival. Listing the waiters first sets WAITERS (or revokes the bias), so the observer cannot overtake a
/// waiter it has listed, though that waiter has set its bit and has not announced it yet.
#[inline]
pub fn arrived(map: &Map, object: u32) -> Vec<u32> {
    let all = queue(map, Place { index: object, head: head(map, object) });
    if !all.is_empty() {
        step!("sees the waiters, not yet announced");
        announce(map, object);
    }
    all
}

/// A member's wait is over; its bit is still set, and its word says how the wait ended.
#[inline]
pub fn left(map: &Map, object: u32, member: u32) {
    if let Some(its) = live(map, object) {
        its.left(map, object, member);
    }
}

/// A waiter that was told to try again will not do so.
#[inline]
pub fn untold(map: &Map, object: u32) {
    if let Some(its) = live(map, object) {
        its.untold(map, object);
    }
}

/// A dead member's word is `state`. Gives what would be lost with the word back, or to the next. Idempotent. `whose`: the member's generation,
/// unless the member itself calls: nothing is taken from a later generation.
#[inline]
pub fn take_back(map: &Map, member: u32, state: State, whose: Option<u32>) {
    let Some(grant) = state.grant().filter(|g| !g.dead && !g.is_retry()) else { return };
    if !grant.of(map, grant.object) || grant.object >= map.geometry().objects {
        return;
    }
    if let Some(its) = live(map, grant.object) {
        its.take_back(map, grant.object, member, state.0, whose);
    }
}

/// Recovers an object from a member's death.
#[inline]
pub fn recover(map: &Map, object: u32, dead: Dead, me: &mut Visitor<'_>) -> bool {
    there(map, object).is_some_and(|(at, its)| its.recover(map, at, dead, me))
}

/// Called before the waiters of a removed object are told. False: this kind has no waiters.
#[inline]
pub fn notify_dead(map: &Map, object: u32, head: Head, me: &mut Visitor<'_>) -> bool {
    let Some(its) = head.kind().map(|kind| map.protocol(kind)) else { return true };
    its.notify_dead(map, Place { index: object, head }, me);
    its.is_queue()
}

/// Whether a member's generation holds the object, or a part of it.
#[cfg(not(feature = "sim"))]
#[inline]
pub fn is_held(map: &Map, object: u32, member: u32, generation: u32) -> bool {
    there(map, object).is_some_and(|(at, its)| its.is_held(map, object, at.head, member, generation))
}

/// Whether the contents of a removed object's slot are still in use.
#[inline]
pub fn used(map: &Map, object: u32) -> bool {
    let head = head(map, object);
    head.kind().is_some_and(|kind| map.protocol(kind).is_used(map, object, head))
}

/// Removes a dead member from the ends of tubes and from the changers of bodies. The caller owns the member's life word.
#[inline]
pub fn clear(map: &Map, member: u32, me: &mut Visitor<'_>) {
    for object in 0..map.objects_used() {
        if let Some((at, its)) = there(map, object) {
            its.clear(map, at, member, me);
        }
    }
}

/// A thread ends, or leaves, normally, without unlocking what it holds: its guards were leaked, and so perhaps
/// references to the data: no other thread may have it.
#[cfg(not(feature = "sim"))]
#[inline]
pub fn abandon(map: &Map, leaver: Dead, me: &mut Visitor<'_>) {
    for object in 0..map.objects_used() {
        if let Some((at, its)) = there(map, object) {
            its.abandon(map, at, leaver, me);
        }
    }
}

/// As [`abandon`], at one object, in service or removed.
#[cfg(not(feature = "sim"))]
pub(crate) fn abandon_one(map: &Map, at: Place, leaver: Dead, me: &mut Visitor<'_>) {
    if let Some(kind) = at.head.kind() {
        map.protocol(kind).abandon(map, at, leaver, me);
    }
}

/// An object's waiters, in the order in which they will be served: at which object, which member.
#[cfg(not(feature = "sim"))]
#[inline]
pub fn line(map: &'static Map, at: Place) -> Vec<(u32, u32)> {
    let Some(kind) = at.head.kind() else { return Vec::new() };
    let here = || arrived(map, at.index).into_iter().map(|member| (at.index, member)).collect();
    map.protocol(kind).line(map, at).unwrap_or_else(here)
}
