//! A light thread sends or receives at a tube without slots, and waits for nothing else.
//!
//! Power series, servers and pipelines do little else, so this way is the short one: one lock, under which it meets who waits, or takes its
//! place. What becomes of it is said in its packet alone, and the only other word is the token that it parks with. Two locked operations for who
//! waits, and two for who comes.
//!
//! ```text
//!   lock -- kernel threads, or a descriptor to tell, at the other end?  -- the long way (`wait`)
//!        -- who waits first at the other end: node out -- unlock -- message -- packet DONE -- unpark
//!        -- nobody: node in -- unlock -- park until the packet says DONE, or TOLD: once more, in the old place
//! ```
//!
//! - D1: whoever takes a node out, under the lock, has it, and says so in its packet; so who finds its time up and its node gone waits for that,
//!   which takes the other some ns.
//! - D2: the packet and the node lie on the waiter's stack, which it does not leave before one of the two is said; what the other does after that
//!   is to unpark a record, which never goes away.
//!
//! The lists are those of `lights` (I1, I5, I7), in which choices wait as well.
//!
//! Paper: synthesis, 4.1.3 and 5.3.2 (threads that wait in the queue of what they wait for).
//!
//! Searched: `tests/loom_light.rs`.

use super::body::{Not, Tube};
use super::lights::{Comes, Node, Side, note_one};
use super::meet::{self, Outcome, Packet, Way};
use chappe_plat::clock;
use chappe_plat::light::{self, Record, Waits};
use std::mem::{ManuallyDrop, MaybeUninit};

/// What it came to.
enum Passed {
    Done,
    /// There is nobody at the other end any more.
    Gone,
    Late,
    /// Kernel threads may wait there.
    Seated,
}

/// Moves one message, from `place` or to it.
#[inline(always)]
fn pass<T>(tube: &Tube<T>, side: Side, me: &'static Record, place: *mut T, deadline: Option<u64>) -> Passed {
    let (way, other) = match side {
        Side::Send => (Way::Out, &tube.receivers),
        Side::Recv => (Way::In, &tube.senders),
    };
    tube.end(side).admit_lights(false);
    let packet = Packet::new(place.cast());
    let mut told = false;
    loop {
        let node = Node::direct(me, &packet);
        match tube.lights.come(side, other, &node, told) {
            Comes::Meets(theirs) => {
                // SAFETY: we met it, and it is this tube's; the message is moved.
                unsafe { meet::act::<T>(theirs, place, way) };
                return Passed::Done;
            }
            Comes::Gone => return Passed::Gone,
            Comes::Seated => return Passed::Seated,
            Comes::Waits => {}
        }
        note_one(me, side, &tube.lights);
        let heard = hear(tube, side, &node, &packet, deadline);
        me.waits.set(Waits::Nothing);
        match heard {
            Outcome::Done => return Passed::Done,
            Outcome::Open => return Passed::Late,
            Outcome::Told => {}
        }
        told = true;
        packet.open_again();
    }
}

/// Waits until something is said. `Open`: the time was up, and the node is out.
#[inline(always)]
fn hear<T>(tube: &Tube<T>, side: Side, node: &Node, packet: &Packet, deadline: Option<u64>) -> Outcome {
    let mut until = deadline;
    loop {
        light::park(until);
        match packet.outcome() {
            Outcome::Open => {}
            said => return said,
        }
        if until.is_some_and(|at| clock::now() >= at) {
            if tube.lights.withdraw(side, node) {
                return Outcome::Open;
            }
            // D1.
            until = None;
        }
    }
}

/// Sends. The message comes back with what stood in the way; `None`: it is not known yet, since kernel threads may wait there.
#[inline(never)]
pub(crate) fn send<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    deadline: Option<u64>,
) -> Result<(), (Option<Not>, T)> {
    let mut message = ManuallyDrop::new(message);
    let why = match pass(tube, Side::Send, me, &raw mut *message, deadline) {
        Passed::Done => return Ok(()),
        Passed::Gone => Some(Not::Ever),
        Passed::Late => Some(Not::Now),
        Passed::Seated => None,
    };
    Err((why, ManuallyDrop::into_inner(message)))
}

/// Receives.
#[inline(never)]
pub(crate) fn recv<T>(tube: &Tube<T>, me: &'static Record, deadline: Option<u64>) -> Result<T, Option<Not>> {
    let mut message = MaybeUninit::uninit();
    match pass(tube, Side::Recv, me, message.as_mut_ptr(), deadline) {
        // SAFETY: it is there.
        Passed::Done => Ok(unsafe { message.assume_init() }),
        Passed::Gone => Err(Some(Not::Ever)),
        Passed::Late => Err(Some(Not::Now)),
        Passed::Seated => Err(None),
    }
}
