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
use super::end::End;
use super::lights::{Comes, Lights, Node, Side, note_one};
use super::meet::{self, Outcome, Packet, Way};
use crate::interrupt::Interrupt;
use chappe_plat::clock;
use chappe_plat::light::{self, Record, Waits};
use std::mem::{ManuallyDrop, MaybeUninit};

/// What it came to.
enum Passed {
    /// Somebody has taken the message, or has brought one.
    Done,
    /// Somebody waited, whose packet this is: the caller moves the message.
    Meets(u64),
    /// There is nobody at the other end any more.
    Gone,
    Late,
    /// Kernel threads may wait there.
    Seated,
}

/// What of a tube this is about.
struct Place<'t> {
    lights: &'t Lights,
    side: Side,
    own: &'t End,
    other: &'t End,
    /// What ends the wait early. Whoever interrupts asks first and unparks the waiter then.
    by: Option<&'static Interrupt>,
}

/// Meets somebody, or waits until somebody comes, with the message at `place`, or room for one.
#[inline(always)]
fn pass(at: &Place<'_>, me: &'static Record, place: *mut (), deadline: Option<u64>) -> Passed {
    at.own.admit_lights(false);
    let packet = Packet::of(me);
    packet.says(place);
    let mut told = false;
    loop {
        let node = Node::direct(me, &packet);
        match at.lights.come(at.side, at.other, &node, told) {
            Comes::Meets(theirs) => return Passed::Meets(theirs),
            Comes::Gone => return Passed::Gone,
            Comes::Seated => return Passed::Seated,
            Comes::Waits => {}
        }
        note_one(me, at.side, at.lights);
        let heard = hear(at, &node, &packet, deadline);
        me.waits.set(Waits::Nothing);
        match heard {
            Outcome::Done => return Passed::Done,
            Outcome::Open => return Passed::Late,
            // It is to end, and has perhaps taken the token that said so already.
            Outcome::Told if light::is_destroyed() => return Passed::Late,
            Outcome::Told => {}
        }
        told = true;
        packet.open_again();
    }
}

/// Waits until something is said. `Open`: the time was up, it was interrupted, or the thread is to end, and the node is out.
#[inline(always)]
fn hear(at: &Place<'_>, node: &Node, packet: &Packet, deadline: Option<u64>) -> Outcome {
    let (mut until, mut by, mut may_end) = (deadline, at.by, true);
    loop {
        // The token of who asked before we came here may have been taken by another wait.
        if !by.is_some_and(Interrupt::is_asked) {
            light::park(until);
        }
        match packet.outcome() {
            Outcome::Open => {}
            said => return said,
        }
        let asked = by.is_some_and(Interrupt::is_asked) || (may_end && light::is_destroyed());
        if asked || until.is_some_and(|moment| clock::now() >= moment) {
            if at.lights.withdraw(at.side, node) {
                return Outcome::Open;
            }
            // D1.
            (until, by, may_end) = (None, None, false);
        }
    }
}

/// Not of the message's kind, so that it is compiled once and whole.
#[inline(never)]
fn pass_out(
    lights: &Lights,
    (own, other): (&End, &End),
    me: &'static Record,
    place: *mut (),
    deadline: Option<u64>,
) -> Passed {
    pass(&Place { lights, side: Side::Send, own, other, by: None }, me, place, deadline)
}

#[inline(never)]
fn pass_in(
    lights: &Lights,
    (own, other): (&End, &End),
    me: &'static Record,
    place: *mut (),
    deadline: Option<u64>,
) -> Passed {
    pass(&Place { lights, side: Side::Recv, own, other, by: None }, me, place, deadline)
}

/// The same, to either side, for a wait that can be ended.
#[inline(never)]
fn pass_ended_by(at: &Place<'_>, me: &'static Record, place: *mut ()) -> Passed {
    pass(at, me, place, None)
}

/// Sends. The message comes back with what stood in the way; `None`: it is not known yet, since kernel threads may wait there.
#[inline(always)]
pub(crate) fn send<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    deadline: Option<u64>,
) -> Result<(), (Option<Not>, T)> {
    send_by(tube, me, message, |place| pass_out(&tube.lights, (&tube.senders, &tube.receivers), me, place, deadline))
}

/// The same, if a light thread is seen to wait there, and none that is not; else the message comes back.
#[cfg(not(feature = "sim"))]
#[inline]
pub(crate) fn send_at_once<T>(tube: &Tube<T>, message: T) -> Result<(), T> {
    let Some(theirs) = tube.lights.meet_first(Side::Recv, &tube.receivers) else { return Err(message) };
    let mut message = ManuallyDrop::new(message);
    // SAFETY: we met it, and it is this tube's; the message is moved.
    unsafe { meet::act::<T>(theirs, &raw mut *message, Way::Out) };
    Ok(())
}

/// The same of one who receives.
#[cfg(not(feature = "sim"))]
#[inline]
pub(crate) fn recv_at_once<T>(tube: &Tube<T>) -> Option<T> {
    let theirs = tube.lights.meet_first(Side::Send, &tube.senders)?;
    let mut message = MaybeUninit::<T>::uninit();
    // SAFETY: we met it, and this is a place for its tube's message, which is there afterwards.
    unsafe {
        meet::act::<T>(theirs, message.as_mut_ptr(), Way::In);
        Some(message.assume_init())
    }
}

/// The same, until somebody asks: `Not::Now`.
#[cfg(not(feature = "sim"))]
pub(crate) fn send_ended_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    by: Option<&'static Interrupt>,
) -> Result<(), (Option<Not>, T)> {
    let at = Place { lights: &tube.lights, side: Side::Send, own: &tube.senders, other: &tube.receivers, by };
    send_by(tube, me, message, |place| pass_ended_by(&at, me, place))
}

#[inline(always)]
fn send_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    pass: impl FnOnce(*mut ()) -> Passed,
) -> Result<(), (Option<Not>, T)> {
    light::safe_point(me);
    let mut message = ManuallyDrop::new(message);
    let place = &raw mut *message;
    let theirs = match tube.lights.meet_first(Side::Recv, &tube.receivers) {
        Some(theirs) => theirs,
        None => match pass(place.cast()) {
            Passed::Done => return Ok(()),
            Passed::Meets(theirs) => theirs,
            Passed::Gone => return Err((Some(Not::Ever), ManuallyDrop::into_inner(message))),
            Passed::Late => {
                let message = ManuallyDrop::into_inner(message);
                light::safe_point(me);
                return Err((Some(Not::Now), message));
            }
            Passed::Seated => return Err((None, ManuallyDrop::into_inner(message))),
        },
    };
    // SAFETY: we met it, and it is this tube's; the message is moved.
    unsafe { meet::act::<T>(theirs, place, Way::Out) };
    Ok(())
}

/// Receives.
#[inline(always)]
pub(crate) fn recv<T>(tube: &Tube<T>, me: &'static Record, deadline: Option<u64>) -> Result<T, Option<Not>> {
    recv_by(tube, me, |place| pass_in(&tube.lights, (&tube.receivers, &tube.senders), me, place, deadline))
}

/// The same, until somebody asks: `Not::Now`.
#[cfg(not(feature = "sim"))]
pub(crate) fn recv_ended_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    by: Option<&'static Interrupt>,
) -> Result<T, Option<Not>> {
    let at = Place { lights: &tube.lights, side: Side::Recv, own: &tube.receivers, other: &tube.senders, by };
    recv_by(tube, me, |place| pass_ended_by(&at, me, place))
}

#[inline(always)]
fn recv_by<T>(tube: &Tube<T>, me: &'static Record, pass: impl FnOnce(*mut ()) -> Passed) -> Result<T, Option<Not>> {
    light::safe_point(me);
    let mut message = MaybeUninit::<T>::uninit();
    let place = message.as_mut_ptr();
    let theirs = match tube.lights.meet_first(Side::Send, &tube.senders) {
        Some(theirs) => theirs,
        None => match pass(place.cast()) {
            // SAFETY: who met us has put it there.
            Passed::Done => return Ok(unsafe { message.assume_init() }),
            Passed::Meets(theirs) => theirs,
            Passed::Gone => return Err(Some(Not::Ever)),
            Passed::Late => {
                light::safe_point(me);
                return Err(Some(Not::Now));
            }
            Passed::Seated => return Err(None),
        },
    };
    // SAFETY: we met it, and this is a place for its tube's message, which is there afterwards.
    unsafe {
        meet::act::<T>(theirs, place, Way::In);
        Ok(message.assume_init())
    }
}
