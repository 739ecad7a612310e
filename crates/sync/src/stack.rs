//! Stacks: the element that was pushed last is popped first.

#[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod linked;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod made;
pub mod pile;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use made::{PushError, Stack};

use crate::body::{self, Body, Form};
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place};
use pile::{Pile, Shape};
use std::ptr::NonNull;

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

/// What a stack of an arena is made for.
#[cfg_attr(
    any(feature = "loom", feature = "sim"),
    allow(dead_code, reason = "what needs an attachment is not explored")
)]
pub(crate) fn form_of(shape: Shape, elements: u64) -> Form {
    Form { numbers: [shape.capacity, shape.size, shape.spare, 0], types: [elements, 0] }
}

/// Fills zeroed bytes that no other thread knows of with an empty stack of an arena: I9 of the pile.
#[cfg_attr(feature = "loom", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub(crate) fn fill(at: NonNull<u8>, shape: Shape) {
    // SAFETY: so many zeroed bytes, from a multiple of 64.
    unsafe { Pile::new(at, shape) }.begin_at(body::first());
}

/// What a dead member's death leaves of a stack.
pub(crate) fn recover(map: &Map, object: u32, head: Head, member: u32, generation: u32) {
    let Some(body) = Body::of(map, Place { index: object, head }) else { return };
    let (Some(pile), Some(is_left)) = (in_body(&body), body.left_by(member, generation)) else { return };
    pile.recover(member as u16, is_left);
}
