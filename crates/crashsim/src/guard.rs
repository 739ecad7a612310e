//! Foreign writes: a thread that came through an object writes into memory that is another object's by now.
//!
//! Where memory is used again, the worst fault leaves no trace of itself: a thread looks, checks, is stopped, and then writes into the next
//! object in the same memory. Whether anybody sees it depends on the values that happen to lie there. So the explorer itself looks at each
//! write, whatever its value.
//!
//! A world says where its objects are: a row of *slots*, each with a *head* whose value names the slot's present *use*, and rows of *pieces*
//! (blocks, cells), each with an owner word that names a slot and a use. For each thread the explorer knows, for each slot, the use that it
//! *came through*:
//!
//! - that of the head which it last named with [`through`]: where the source looks an object up, or is given a handle. Never where it checks
//!   whether an object is still there: then a write behind a check that came too early is seen;
//! - that of the head which it last wrote: a maker, or a remover;
//! - else the use that there was when the schedule began: a world's closures have their handles from its set-up.
//!
//! A store, a read-modify-write or a successful swap into a slot or piece of another use fails the schedule. A swap that failed only because
//! another word was there is listed ([`Report::late`](crate::Report::late)): only that word has kept it from being one. A store in a store
//! buffer is looked at when it arrives, by the use through which its thread had come when it made it.
//!
//! *Lines* belong to threads: each has a robust lock, and only threads of the process that the lock names, or whose thread it names, write there,
//! but for the words that others write by design. So a write of a thread that has left, and whose line is the next one's, is seen.
//!
//! Not seen: memory that is no atomic of the facade (the bytes of a user's data, while a thread writes *them*); a thread that comes through
//! two uses of one slot in turn, and writes by the handle of the first.

pub use crate::guarded::{Guard, Row, guard};

use crate::atomic::AtomicU64;
use crate::guarded::came;

/// From here on the running thread comes to a slot, and to what belongs to it, through the use that this head names. No step.
pub fn through(head: &AtomicU64, seen: u64) {
    came(head.as_ptr() as usize, seen);
}
