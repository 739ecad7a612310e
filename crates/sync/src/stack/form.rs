//! A stack in a body of an arena: its form, and what deaths leave to do.

use chappe_arena::Dead;
use chappe_arena::Visit;
use chappe_structures::pile::{Pile, Shape};
use chappe_wait::body::{Body, Form};

/// What a stack of an arena is made for, as its form says.
pub(crate) fn shape_of(form: Form) -> Shape {
    let [capacity, size, spare, _] = form.numbers;
    Shape { capacity, size, spare }
}

/// The stack in a body; none if its shape cannot be.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<Pile<'m>> {
    let shape = shape_of(body.form);
    if !shape.is_possible() || shape.bytes() > body.room {
        return None;
    }
    // SAFETY: within the body, as was just seen; it was zeroed when the stack was made, and is touched by atomic words only.
    Some(unsafe { Pile::new(body.at, shape) })
}

/// Of which size it is, and what is in it: see [`Figures`](crate::bodied::Figures).
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    in_body(body).map(|s| (s.len().into(), s.shape().capacity, s.shape().size))
}

/// What a stack of an arena is made for.
#[cfg_attr(
    any(feature = "loom", feature = "sim"),
    allow(dead_code, reason = "what needs an attachment is not explored")
)]
pub(crate) fn form_of(shape: Shape, elements: u64) -> Form {
    Form { numbers: [shape.capacity, shape.size, shape.spare, 0], types: [elements, 0] }
}

/// What a dead member's death leaves of a stack.
pub(crate) fn recover(body: &Body<'_>, visit: &Visit<'_>, dead: Dead) {
    if let Some(pile) = in_body(body) {
        pile.recover(visit, dead.member as u16, || dead.is_unswept(body.map()));
    }
}
