//! In the table of kinds: objects whose whole state is a body of the arena (see `body`): maps, which have waiters, and the kinds without
//! waiters.

use crate::map::atlas;
use crate::monitor::form as monitor;
use crate::server::form as server;
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Protocol, Visit, Visitor};
use chappe_wait::body;
use chappe_wait::body::Body;
use std::panic::RefUnwindSafe;

/// What is particular to a kind without waiters.
pub(super) trait Bare: Sync + RefUnwindSafe {
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
}

pub(super) struct Stacks;

impl Bare for Stacks {
    #[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn recover(&self, body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
        crate::stack::form::recover(body, visit, dead);
    }
}

/// Of which no death leaves anything in the middle of a change.
pub(super) struct Still;

impl Bare for Still {}

pub(super) struct Servers;

impl Bare for Servers {
    fn recover(&self, body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
        server::recover(body, visit, dead);
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
}
