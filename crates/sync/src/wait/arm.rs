//! What a choice waits for.

use super::parties::Party;
use super::state::Grant;
use crate::kinds;
use chappe_arena::{Map, Place};

/// An object, clock or descriptor that a choice waits for.
pub(crate) trait Arm {
    fn map(&self) -> &'static Map;
    fn place(&self) -> Place;
    /// Whether a member waits for it in a queue. A clock has none; every other arm has an object, at the latest when a wait on it
    /// begins.
    fn is_queued(&self) -> bool {
        true
    }
    /// The descriptor, if it waits for one: an event from outside the process, though no named object is involved.
    fn outside(&self) -> Option<std::os::fd::RawFd> {
        None
    }
    /// Before a member publishes a wait on it.
    fn before(&self) {
        kinds::before(self.map(), self.place().index);
    }
    /// A member's bit is about to be set.
    fn enlists(&self) {}
    /// A member's bit was set: the member looks at the object afterwards.
    fn enlisted(&self, _me: &Party) {
        kinds::enlisted(self.map(), self.place().index);
    }
    /// Whether the member looks only when all bits are set, and after a fence for all threads.
    fn is_fenced(&self) -> bool {
        self.is_fenced_between_processes()
    }
    /// Whether that fence is to be for those of other processes too.
    fn is_fenced_between_processes(&self) -> bool {
        false
    }
    /// Whether this thread's own fence is enough for that, since every thread that could miss the bit executes one as well.
    fn is_fenced_alone(&self) -> bool {
        false
    }
    /// A fence for all threads is about to be made for it. True: [`Arm::turn`] follows, and later waits need none (a tube's end, I5).
    fn turns(&self) -> bool {
        false
    }
    /// That fence was made, or could not be.
    fn turn(&self, _is_fenced: bool) {}
    /// That look. True: this member need not wait.
    fn look(&self, _me: &Party) -> bool {
        false
    }
    /// A member's wait is over; its bit still stands, and its word says how it ended. `grant`: if it was this arm.
    fn left(&self, member: u32, _grant: Option<Grant>) {
        kinds::left(self.map(), self.place().index, member);
    }
}
