//! What is done for each kind of object, where the wait queue and recovery do not care which it is.

use crate::body;
#[cfg(not(feature = "sim"))]
use crate::cell::{Tag, Word};
use crate::map::atlas;
use crate::tube::{broadcast, end, named};
use crate::wait::{State, queue};
use crate::{bias, condvar, drain as pool, lock, monitor, server, units};
use chappe_arena::Map;
use chappe_arena::layout::{Head, Kind};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

fn head(map: &Map, object: u32) -> Head {
    // Acquire: the object as its maker left it.
    Head(map.object(object).head.load(Ordering::Acquire))
}

/// What an object in service is.
fn kind(map: &Map, object: u32) -> Option<Kind> {
    Some(head(map, object)).filter(|h| h.in_service())?.kind()
}

/// Brings what an object has and who waits for it together.
pub(crate) fn drain(map: &Map, object: u32) {
    let head = head(map, object);
    match head.kind().filter(|_| head.in_service()) {
        Some(Kind::Pool) => pool::drain(map, object, head),
        Some(Kind::Semaphore) => units::drain(map, object, head),
        Some(Kind::Mutex) => lock::drain(map, object, head),
        Some(Kind::Condvar) => condvar::drain(map, object, head),
        Some(Kind::Tube) => named::drain(map, object, head),
        Some(Kind::Broadcast) => broadcast::drain(map, object, head),
        // What there is for who waits at a private tube only its users know: see `stir`.
        Some(Kind::End) => named::drain_end(map, object, head),
        Some(Kind::Map) => atlas::drain(map, object, head),
        // Nobody waits for them.
        Some(Kind::Stack | Kind::Counter | Kind::Words | Kind::Server | Kind::HelpLock | Kind::Monitor) | None => {}
    }
}

/// Before a member publishes a wait on the object.
pub(crate) fn before(map: &Map, object: u32) {
    if kind(map, object) == Some(Kind::Semaphore) {
        units::before(map, object);
    }
}

/// A member's bit was set: whoever sets it looks afterwards.
pub(crate) fn enlisted(map: &Map, object: u32) {
    announce(map, object);
    drain(map, object);
}

/// Whoever takes what the object has without a look at the bits finds out from here on that there are some.
fn announce(map: &Map, object: u32) {
    match kind(map, object) {
        Some(Kind::Mutex) => lock::mark(map, object),
        Some(Kind::Pool) => _ = bias::settled(map, map.object(object)),
        Some(Kind::Semaphore) => units::mark(map, object),
        _ => {}
    }
}

/// Everybody who waits on the object, by arrival. One whose bit stands and who has not announced it yet has not arrived, and might
/// be overtaken by somebody who knows of it from here: so whoever looks announces it.
pub(crate) fn arrived(map: &Map, object: u32) -> Vec<u32> {
    let all = queue(map, object);
    if !all.is_empty() {
        step!("sees who waits, not yet announced");
        announce(map, object);
    }
    all
}

/// A member's wait is over; its bit still stands, and its word says how it ended.
pub(crate) fn left(map: &Map, object: u32, member: u32) {
    if kind(map, object) == Some(Kind::Semaphore) {
        units::left(map, object, member);
    }
}

/// Who was told to try again will not.
pub(crate) fn untold(map: &Map, object: u32) {
    if kind(map, object) == Some(Kind::Mutex) {
        lock::untell(map.object(object));
    }
}

/// A dead member's word says `state`. What of that would be lost with the word goes back, or on. Idempotent. `whose`: its generation, if it is
/// not the caller itself: nothing is taken from a later one.
pub(crate) fn take_back(map: &Map, member: u32, state: State, whose: Option<u32>) {
    let Some(grant) = state.grant().filter(|g| !g.dead && !g.is_nudge()) else { return };
    if !grant.of(map, grant.object) || grant.object >= map.geometry().objects {
        return;
    }
    match kind(map, grant.object) {
        Some(Kind::Semaphore) => units::take_back(map, grant.object, member, state, whose),
        Some(Kind::Condvar) => condvar::pass_on(map, grant.object),
        // A pool's cell, and a mutex, say themselves for whom they are reserved.
        _ => {}
    }
}

/// Whether it is biased to another than this member: then that one has it, or nobody. (Of a pool of several that is its first
/// permit: of the others nothing is known.)
fn biased_to_another(map: &Map, object: u32, head: Head, member: u32) -> bool {
    let o = map.object(object);
    let one = match head.kind() {
        Some(Kind::Mutex) => true,
        Some(Kind::Pool) => pool::permits(map, object) == 1 && map.extents(object).next().is_none(),
        _ => false,
    };
    one && bias::owner_of(map, o).is_some_and(|owner| owner != member)
}

/// What a dead member's death leaves of an object itself.
pub(crate) fn recover(map: &Map, object: u32, member: u32, generation: u32) -> bool {
    let head = head(map, object);
    if biased_to_another(map, object, head, member) {
        return false;
    }
    match head.kind() {
        Some(Kind::Pool) if !head.is_free() => {
            bias::settled_of(map, map.object(object), member, generation);
            pool::recover(map, object, head, member, generation)
        }
        Some(Kind::Mutex) if !head.is_free() => {
            lock::recover(map, object, member, generation);
            false
        }
        Some(Kind::Tube) if !head.is_free() => {
            named::recover(map, object, head, member, generation);
            false
        }
        Some(Kind::Broadcast) if !head.is_free() => {
            broadcast::recover(map, object, head, member, generation);
            false
        }
        Some(Kind::Map) if !head.is_free() => {
            atlas::recover(map, object, head, member, generation);
            false
        }
        #[cfg(all(
            not(all(feature = "loom", not(feature = "sim"))),
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        Some(Kind::Stack) if !head.is_free() => {
            crate::stack::recover(map, object, head, member, generation);
            false
        }
        Some(Kind::Server) if !head.is_free() => {
            server::recover(map, object, head, member, generation);
            false
        }
        Some(Kind::Monitor) if !head.is_free() => {
            monitor::recover(map, object, head, member, generation);
            false
        }
        _ => false,
    }
}

/// Whether a member's generation holds the object, or a part of it.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_held(map: &Map, object: u32, member: u32, generation: u32) -> bool {
    let head = head(map, object);
    if biased_to_another(map, object, head, member) {
        return false;
    }
    match head.kind() {
        Some(Kind::Pool) if head.in_service() => {
            bias::settled_of(map, map.object(object), member, generation);
            let its =
                |w: Word| matches!(w.tag(), Tag::Held | Tag::Leased) && w.member() == member && w.aux() == generation;
            pool::cells(map, object).any(|(_, cell)| its(cell.load()))
        }
        // One that was removed under him, too.
        Some(Kind::Mutex) if !head.is_free() => {
            bias::settled_of(map, map.object(object), member, generation);
            lock::holder(map, map.object(object)) == Some((member, generation))
        }
        Some(Kind::Tube) if head.in_service() => named::is_used_by(map, object, head, member),
        Some(Kind::Monitor) if head.in_service() => monitor::is_held(map, object, head, member, generation),
        Some(Kind::Broadcast) if head.in_service() => broadcast::is_used_by(map, object, head, member),
        _ => false,
    }
}

/// Somebody died, and may have been about to tell those who wait at the ends of tubes.
pub(crate) fn stir(map: &Map) {
    for object in 0..map.objects_used() {
        let head = head(map, object);
        if head.is_live(Kind::End) && !named::is_named(map.object(object)) {
            end::stir(map, object, head);
        }
    }
}

/// Whether somebody still has what is in the slot of a removed object.
pub(crate) fn used(map: &Map, object: u32) -> bool {
    let head = head(map, object);
    match head.kind() {
        Some(Kind::Mutex) => lock::is_had(map, map.object(object)),
        Some(Kind::Tube) => named::is_attached(map, object, head),
        Some(Kind::Broadcast) => broadcast::is_attached(map, object, head),
        Some(Kind::Map | Kind::Stack | Kind::Counter | Kind::Words | Kind::Server | Kind::HelpLock | Kind::Monitor) => {
            body::is_used(map, object, head)
        }
        _ => false,
    }
}

/// With a dead member's life word ours: it is at no end of a tube, and changes nothing.
pub(crate) fn clear(map: &Map, member: u32) {
    for object in 0..map.objects_used() {
        let head = head(map, object);
        match head.kind().filter(|_| !head.is_free()) {
            Some(Kind::Tube) => named::clear(map, object, head, member),
            Some(
                Kind::Map | Kind::Stack | Kind::Counter | Kind::Words | Kind::Server | Kind::HelpLock | Kind::Monitor,
            ) => {
                body::clear(map, object, head, member);
            }
            _ => {}
        }
    }
}

/// A thread ends, or leaves, in good order, and has not unlocked what it holds: its guards were leaked, and so perhaps
/// references to the data: nobody else may have it.
#[cfg(not(feature = "sim"))]
pub(crate) fn abandon(map: &Map, member: u32, generation: u32) {
    for object in 0..map.objects_used() {
        let head = head(map, object);
        match head.kind() {
            _ if biased_to_another(map, object, head, member) => {}
            Some(Kind::Mutex) if !head.is_free() => lock::abandon(map, object, lock::held_by(member, generation)),
            Some(Kind::Tube) if !head.is_free() => named::keep_from_all(map, object, head, member),
            _ => {}
        }
    }
}
