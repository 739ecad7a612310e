//! A monitor in a body of an arena: its form, and what deaths and removals leave to do.

use chappe_arena::Dead;
use chappe_arena::Visit;
#[cfg(not(feature = "sim"))]
use chappe_arena::layout::Head;
#[cfg(not(feature = "sim"))]
use chappe_arena::{Map, Place};
use chappe_structures::room::{Member, Room, Shape};
use chappe_wait::body::{Body, Form};

/// What a monitor of an arena is made for, as its form says.
pub(crate) fn shape_of(form: Form) -> Shape {
    let [bytes, conditions, members, _] = form.numbers;
    Shape { members, conditions, bytes }
}

/// The same the other way round.
#[cfg_attr(
    any(feature = "loom", feature = "sim"),
    allow(dead_code, reason = "what needs an attachment is not explored")
)]
pub(crate) fn form_of(shape: Shape, data: u64) -> Form {
    Form { numbers: [shape.bytes, shape.conditions, shape.members, 0], types: [data, 0] }
}

/// The room in a body; `None` if its shape is impossible.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<Room<'m>> {
    let shape = shape_of(body.form);
    if !shape.is_possible() || shape.room() > body.room {
        return None;
    }
    // SAFETY: within the body, as checked above; it was zeroed when the monitor was made, and is accessed by atomic words only.
    Some(unsafe { Room::new(body.at, shape) })
}

/// Of which size it is, and what is in it: see [`Figures`](crate::bodied::Figures).
#[cfg(not(feature = "sim"))]
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    Some((0, 0, in_body(body)?.shape().bytes))
}

/// Recovers a monitor from a member's death.
pub(crate) fn recover(body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
    if let Some(room) = in_body(body) {
        let its = Member { index: dead.member as u16, generation: dead.generation };
        room.recover(visit, its, || dead.is_unswept(body.map()));
    }
}

/// Wakes all waiters of a removed monitor.
pub(crate) fn notify_dead(body: &Body<'_>, _: &Visit<'_>) {
    if let Some(room) = in_body(body) {
        room.call_all();
    }
}

/// Whether a member is inside.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_held(map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
    let room = Body::of(map, Place { index: object, head }).and_then(|body| in_body(&body));
    room.is_some_and(|room| room.is_inside(Member { index: member as u16, generation }))
}
