//! In the table of kinds: objects whose whole state is a body of the arena (see `body`): maps, which have waiters, and the kinds without
//! waiters.

use super::{Dead, Protocol};
use crate::body::{self, Body};
use crate::map::atlas;
use crate::{monitor, server};
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visit, Visitor};

#[cfg(not(any(feature = "sim", feature = "loom")))]
use super::Failure;
#[cfg(not(feature = "sim"))]
use crate::{counter, inspect::ObjectState, map::atlas::Atlas, named as shared};
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;

/// What is particular to a kind without waiters.
pub(super) trait Bare: Sync {
    /// Whether threads wait in it, in its own way.
    const IS_AWAITED: bool = false;

    /// What a dead member has left in the middle of a change.
    fn recover(&self, _body: &Body<'_>, _visit: &Visit<'_>, _dead: Dead) {}

    /// See [`Protocol::notify_dead`].
    fn notify_dead(&self, _body: &Body<'_>, _visit: &Visit<'_>) {}

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, _map: &Map, _object: u32, _head: Head, _member: u32, _generation: u32) -> bool {
        false
    }

    /// See [`Protocol::figures`].
    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)>;

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure>;
}

/// An object that is a body and nothing else.
pub(super) struct Bodied<B: Bare>(pub B);

impl<B: Bare> Protocol for Bodied<B> {
    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        if let Some((body, visit)) = body::unfinished_by(map, at, dead.member, me) {
            self.0.recover(&body, &visit, dead);
        }
        false
    }

    fn clear(&self, map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
        body::clear(map, at, member, me);
    }

    fn notify_dead(&self, map: &Map, at: Place, me: &mut Visitor<'_>) {
        if B::IS_AWAITED
            && let Some(visit) = me.visit(at)
            && let Some(body) = Body::of(map, at)
        {
            self.0.notify_dead(&body, &visit);
        }
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        body::is_used(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
        head.in_service() && self.0.is_held(map, object, head, member, generation)
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Shared(shared::look(map, place)?))
    }

    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        self.0.figures(body)
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        shared::look(map, place).is_none().then_some("its shape cannot be")
    }

    #[cfg(not(feature = "sim"))]
    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        Some(Body::of(map, place)?.users().collect())
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        self.0.remove(name, force)
    }
}

/// The error for a kind that this machine, or this build, does not support.
#[cfg(not(any(feature = "sim", feature = "loom", target_arch = "x86_64", target_arch = "aarch64")))]
fn no_such(name: &str) -> Result<(), Failure> {
    Err(format!("`{name}` is of a kind that there is not on this machine").into())
}

/// Calls `$remove` where the kind is supported.
#[cfg(not(any(feature = "sim", feature = "loom")))]
macro_rules! where_there_is {
    ($name:ident, $remove:expr) => {{
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        return Ok($remove?);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return no_such($name);
    }};
}

pub(super) struct Stacks;

impl Bare for Stacks {
    #[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn recover(&self, body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
        crate::stack::recover(body, visit, dead);
    }

    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        #[cfg(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64")))]
        return crate::stack::in_body(body).map(|s| (s.len().into(), s.shape().capacity, s.shape().size));
        #[cfg(not(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64"))))]
        return Some(body).and(None);
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        where_there_is!(name, crate::Stack::unmake(name, force))
    }
}

pub(super) struct Counters;

impl Bare for Counters {
    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        Some((counter::in_body(body)?.load(Ordering::Relaxed) as i64, 0, 8)) // Relaxed: for show.
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::Counter::unmake(name, force)?)
    }
}

pub(super) struct WordSets;

impl Bare for WordSets {
    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        #[cfg(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64")))]
        return crate::words::in_body(body).map(|words| (words.shape().words.into(), 0, 8));
        #[cfg(not(all(not(feature = "loom"), any(target_arch = "x86_64", target_arch = "aarch64"))))]
        return Some(body).and(None);
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        where_there_is!(name, crate::words::Words::unmake(name, force))
    }
}

pub(super) struct Servers;

impl Bare for Servers {
    fn recover(&self, body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
        server::recover(body, visit, dead);
    }

    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        Some((0, 0, server::in_body(body)?.sizes().state))
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::remove_service(name, force)?)
    }
}

pub(super) struct HelpLocks;

impl Bare for HelpLocks {
    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        Some((0, 0, body.form.numbers[0]))
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        where_there_is!(name, crate::HelpLock::<()>::unmake(name, force))
    }
}

pub(super) struct Monitors;

impl Bare for Monitors {
    const IS_AWAITED: bool = true;

    fn recover(&self, body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
        monitor::recover(body, visit, dead);
    }

    fn notify_dead(&self, body: &Body<'_>, visit: &Visit<'_>) {
        monitor::notify_dead(body, visit);
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
        monitor::is_held(map, object, head, member, generation)
    }

    #[cfg(not(feature = "sim"))]
    fn figures(&self, body: &Body<'static>) -> Option<(i64, u32, u32)> {
        Some((0, 0, monitor::in_body(body)?.shape().bytes))
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        where_there_is!(name, crate::Monitor::<()>::unmake(name, force))
    }
}

pub(super) struct Maps;

impl Protocol for Maps {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        atlas::drain(map, object, head);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        if let Some((body, visit)) = body::unfinished_by(map, at, dead.member, me) {
            atlas::recover(&body, &visit, dead);
        }
        false
    }

    fn clear(&self, map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
        body::clear(map, at, member, me);
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        body::is_used(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        Some(ObjectState::Map(crate::map::info(map, place)?))
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        Atlas::of(map, place).is_none().then_some("its shape cannot be")
    }

    #[cfg(not(feature = "sim"))]
    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        Some(Body::of(map, place)?.users().collect())
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::map::Map::<[u8], [u8]>::unmake(name, force)?)
    }
}
