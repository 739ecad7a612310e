//! A message that is left at a tube without slots for a receiver that waits by its descriptor.
//!
//! A thread that waits by a descriptor (a task of a runtime, or in poll(2)) is not at the tube, so no other thread can meet
//! it. If it is the only one of the two that waits so, the other waits at the tube, and is met. If both wait so, neither
//! ever is: each time that one tries, the other is away. So the sender leaves the message, in a slot that is there for that:
//!
//! ```text
//!   receiver:  try_recv: nothing -- rearm: EVENT, COMES -- fence -- nothing still? -- signals the senders' descriptor
//!   sender:    try_send: nobody to meet -- takes COMES, signals the receivers' descriptor -- message into the slot -- tells
//!   receiver:  try_recv: takes the message
//! ```
//!
//! - F1: a sender leaves a message only if it has taken COMES: one message for each `rearm` of a receiver. So a tube without slots
//!   never holds a message that no receiver has said it will come for. Any signal clears COMES with EVENT: the receiver
//!   may have come for something else. A sender takes COMES only if it sees that the slot has a hole. If another sender or
//!   receiver is in the middle of the slot, a signal would wake the receiver for nothing, and the receiver's next `rearm`
//!   would wake this sender, and so on for ever.
//! - F2: a sender's `rearm` sets EVENT at its end, makes a fence, and looks for COMES at the receivers' end; a receiver's sets
//!   COMES there, makes a fence, and looks for EVENT at the senders' end. So one of the two sees the other. A sender that
//!   sees COMES and no hole waits too: the sender in the middle of the slot tells a receiver, which comes and takes the
//!   message, or arms again; the receiver in the middle of it tells a sender afterwards, as at a tube with slots.
//! - F3: the message that was left comes before the messages of senders that wait: every receiver looks for it first.
//! - F4: LEFT is set at the senders' end before the first message is left. From then on light threads that come to
//!   receive, or choose, take the long way, which looks here. After a message was left the sender makes a fence and tells
//!   one receiver that waits at the tube, if there is one: it came after the sender had found nobody to meet.
//! - F5: if the last receiver goes, the message is dropped; the sender that leaves it looks for that afterwards, and takes it
//!   back.
//!
//! A receiver that has rearmed its descriptor and never comes again leaves the message to the next receiver, as a tube
//! with one slot does. A sender that waits at the tube (`send`) leaves nothing: it is met, as ever.
//!
//! The slot is a ring with room for one message, made when it is first needed. Its invariants are the ring's.
//!
//! Explored: `tests/crash_left.rs`.

mod leave;

use chappe_plat::Made;
use chappe_structures::ring::{Claim, Ring};

/// The slot; not made: no message was ever left.
pub struct Left<T>(Made<Ring<T>>);

impl<T> Left<T> {
    pub const fn unmade() -> Left<T> {
        Left(Made::new())
    }

    pub fn take(&self) -> Option<T> {
        self.0.get()?.take()
    }

    pub fn claim(&self) -> Option<Claim<'_, T>> {
        self.0.get()?.claim_message()
    }

    pub fn has_message(&self) -> bool {
        self.0.get().is_some_and(Ring::has_message)
    }

    /// Whether a message could be left: nobody is in the middle of leaving or taking one.
    pub fn has_hole(&self) -> bool {
        self.0.get().is_none_or(Ring::has_hole)
    }

    pub fn count(&self) -> usize {
        self.0.get().map_or(0, |slot| slot.count().min(1))
    }

    /// If there is no message, a number that changes with each that is left: see `lull`.
    pub fn no_message(&self) -> Option<u64> {
        self.0.get().map_or(Some(0), Ring::no_message)
    }
}
