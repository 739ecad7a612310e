//! A server in a body of an arena: its form, and what deaths leave to do.

use chappe_arena::Dead;
use chappe_arena::Visit;
use chappe_structures::desk::{Desk, Sizes};
use chappe_wait::body::Body;

/// The desk in a body; none if its sizes cannot be.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<Desk<'m>> {
    let [state, request, answer, spare] = body.form.numbers;
    let sizes = Sizes { state, request, answer, spare };
    if !sizes.is_possible() || sizes.bytes() > body.room {
        return None;
    }
    // SAFETY: within the body, as was just seen; it was zeroed when the server was made, and is touched by atomic words only.
    Some(unsafe { Desk::new(body.at, sizes) })
}

/// Of which size it is, and what is in it: see [`Figures`](crate::bodied::Figures).
#[cfg(not(feature = "sim"))]
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    Some((0, 0, in_body(body)?.sizes().state))
}

/// Recovers what a dead member has left in a server.
pub(crate) fn recover(body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
    if let Some(desk) = in_body(body) {
        desk.recover(visit, dead.member as u16, || dead.is_unswept(body.map()));
    }
}
