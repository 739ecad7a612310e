//! Monitors: data that one thread at a time may use, and named conditions to wait for there. `made` is the public API; `room` is where processes wait.

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod made;
pub mod room;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use made::{Inside, Monitor, MonitorError};

use crate::body::Body;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place};
use room::{Member, Room, Shape};

/// The room in a body; `None` if its shape is impossible.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<Room<'m>> {
    let [bytes, conditions, members, _] = body.form.numbers;
    let shape = Shape { members, conditions, bytes };
    if !shape.is_possible() || shape.room() > body.room {
        return None;
    }
    // SAFETY: within the body, as checked above; it was zeroed when the monitor was made, and is accessed by atomic words only.
    Some(unsafe { Room::new(body.at, shape) })
}

/// Recovers a monitor from a member's death.
pub(crate) fn recover(map: &Map, object: u32, head: Head, member: u32, generation: u32) {
    let Some(body) = Body::of(map, Place { index: object, head }) else { return };
    let (Some(room), Some(is_left)) = (in_body(&body), body.left_by(member, generation)) else { return };
    room.recover(Member { index: member as u16, generation }, is_left);
}

/// Wakes all waiters of a removed monitor.
pub(crate) fn notify_dead(map: &Map, object: u32, head: Head) {
    let Some(body) = Body::of(map, Place { index: object, head }) else { return };
    if let Some(room) = in_body(&body) {
        room.call_all_while(&|| body.is_its());
    }
}

/// Whether a member is inside.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_held(map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
    let room = Body::of(map, Place { index: object, head }).and_then(|body| in_body(&body));
    room.is_some_and(|room| room.is_inside(Member { index: member as u16, generation }))
}
