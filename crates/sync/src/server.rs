//! Servers: data that is changed by requests. No thread is dedicated to serving; the callers carry the requests out.
//!
//! Synthesis, 5.1.4: a server thread serializes what is too complex for a CAS; "if there is no interference" the caller does it itself.
//! nonblocking-real-time, 4.4, shows that this is equivalent to a lock with helping. Here only callers serve.

pub mod combine;
pub mod desk;
#[cfg(not(feature = "sim"))]
mod made;

#[cfg(not(feature = "sim"))]
pub use made::{Serve, Server, Service, remove_service};

use crate::body::Body;
use crate::kinds::Dead;
use chappe_arena::Visit;
use desk::{Desk, Sizes};

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

/// Recovers what a dead member has left in a server.
pub(crate) fn recover(body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
    if let Some(desk) = in_body(body) {
        desk.recover(visit, dead.member as u16, || dead.is_unswept(body.map()));
    }
}
