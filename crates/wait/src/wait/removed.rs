//! What the waiters of a removed object are told. Invariants and edges: the wait queue's.

use super::line::each;
use super::word::{grant, make_up_now};
use crate::kinds;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visitor};

/// Tells all waiters of a dead object that it is dead, as long as its head is this. Idempotent.
pub fn notify_dead(map: &Map, object: u32, head: Head, me: &mut Visitor<'_>) {
    if !kinds::notify_dead(map, object, head, me) {
        return;
    }
    each(map, Place { index: object, head }, |c| {
        if !c.state.is_waiting() || !grant(map, c.member, c.state, object, 0, true) {
            // I9. Also for this object's own grants: after the removal no drainer repeats their wakes.
            make_up_now(map, c.member);
        }
    });
}
