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

use super::body::{Ends, Not, Tube};
use super::lights::{Comes, Lights, Node, Side, note_one};
use super::meet::{self, Outcome, Packet, Way};
use crate::interrupt::Interrupt;
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{clock, step};
use std::mem::{ManuallyDrop, MaybeUninit};

/// What it came to.
enum Passed {
    /// Somebody has taken the message, or has brought one.
    Done,
    /// A choice waited, whose packet this is, and which says only now where its message is, or is to go: the caller moves the message.
    Meets(u64),
    /// There is nobody at the other end any more.
    Gone,
    Late,
    /// Kernel threads may wait there.
    Seated,
}

/// Where a message is, or room for one, and how many bytes it has.
#[derive(Clone, Copy)]
struct Message {
    place: *mut u8,
    size: usize,
}

impl Message {
    #[inline(always)]
    fn at<T>(place: *mut T) -> Message {
        Message { place: place.cast(), size: size_of::<T>() }
    }

    /// Hands it over, or takes it. False: somebody met a choice, which has not said where.
    ///
    /// # Safety
    /// As for [`meet::act`].
    #[inline(always)]
    unsafe fn moves(self, theirs: u64, way: Way) -> bool {
        // SAFETY: the caller's promise: its owner waits until the last word is said in it.
        let packet = unsafe { &*(theirs as *const Packet) };
        let Some(there) = packet.place() else { return false };
        let (from, to) = if way == Way::In { (there, self.place) } else { (self.place, there) };
        /// Of the commonest sizes: a move or two.
        ///
        /// # Safety
        /// From one place to another, of so many bytes each, which nobody else has.
        unsafe fn whole<const SIZE: usize>(from: *const u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<MaybeUninit<[u8; SIZE]>>().write(from.cast::<MaybeUninit<[u8; SIZE]>>().read()) };
        }
        // SAFETY: one is the message, the other a place for it, and nobody else has either.
        unsafe {
            match self.size {
                0 => {}
                4 => whole::<4>(from, to),
                8 => whole::<8>(from, to),
                16 => whole::<16>(from, to),
                size => to.copy_from_nonoverlapping(from, size),
            }
        }
        step!("handed over, not yet said");
        packet.is_done();
        true
    }
}

/// Meets somebody, or waits until somebody comes, with the message, or room for one. `by`: what ends the wait early; whoever interrupts asks first and unparks
/// the waiter then.
#[inline(always)]
fn pass(
    ends: &Ends,
    side: Side,
    me: &'static Record,
    message: Message,
    deadline: Option<u64>,
    by: Option<&'static Interrupt>,
) -> Passed {
    let (own, other, way) = match side {
        Side::Send => (&ends.senders, &ends.receivers, Way::Out),
        Side::Recv => (&ends.receivers, &ends.senders, Way::In),
    };
    own.admit_lights(false);
    let (mut packet, mut node) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut told = false;
    loop {
        let came = ends.lights.come(side, other, told, || {
            let packet: &Packet = packet.write(Packet::of(me));
            packet.says(message.place.cast());
            node.write(Node::direct(me, packet))
        });
        match came {
            // SAFETY: we met it, and it is this tube's; the message is moved.
            Comes::Meets(theirs) if unsafe { message.moves(theirs, way) } => return Passed::Done,
            Comes::Meets(theirs) => return Passed::Meets(theirs),
            Comes::Gone => return Passed::Gone,
            Comes::Seated => return Passed::Seated,
            Comes::Waits => {}
        }
        note_one(me, side, &ends.lights);
        // SAFETY: the node and its packet were made when this thread came to wait.
        let (node, packet) = unsafe { (node.assume_init_ref(), packet.assume_init_ref()) };
        let heard = hear((&ends.lights, side), node, packet, deadline, by);
        me.waits.set(Waits::Nothing);
        match heard {
            Outcome::Done => return Passed::Done,
            Outcome::Open => return Passed::Late,
            // It is to end, and has perhaps taken the token that said so already.
            Outcome::Told if light::is_destroyed() => return Passed::Late,
            Outcome::Told => told = true,
        }
    }
}

/// Waits until something is said. `Open`: the time was up, it was interrupted, or the thread is to end, and the node is out.
#[inline(always)]
fn hear(
    (lights, side): (&Lights, Side),
    node: &Node,
    packet: &Packet,
    deadline: Option<u64>,
    by: Option<&'static Interrupt>,
) -> Outcome {
    let (mut until, mut by, mut may_end) = (deadline, by, true);
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
            if lights.withdraw(side, node) {
                return Outcome::Open;
            }
            // D1.
            (until, by, may_end) = (None, None, false);
        }
    }
}

/// Not of the message's kind, so that it is compiled once and whole.
#[inline(never)]
fn pass_out(ends: &Ends, me: &'static Record, message: Message, deadline: Option<u64>) -> Passed {
    pass(ends, Side::Send, me, message, deadline, None)
}

#[inline(never)]
fn pass_in(ends: &Ends, me: &'static Record, message: Message, deadline: Option<u64>) -> Passed {
    pass(ends, Side::Recv, me, message, deadline, None)
}

/// The same, to either side, for a wait that can be ended.
#[inline(never)]
fn pass_ended_by(
    ends: &Ends,
    side: Side,
    me: &'static Record,
    message: Message,
    by: Option<&'static Interrupt>,
) -> Passed {
    pass(ends, side, me, message, None, by)
}

/// Sends. The message comes back with what stood in the way; `None`: it is not known yet, since kernel threads may wait there.
#[inline(always)]
pub(crate) fn send<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    deadline: Option<u64>,
) -> Result<(), (Option<Not>, T)> {
    send_by(me, message, |message| pass_out(tube, me, message, deadline))
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
    send_by(me, message, |message| pass_ended_by(tube, Side::Send, me, message, by))
}

#[inline(always)]
fn send_by<T>(me: &'static Record, message: T, pass: impl FnOnce(Message) -> Passed) -> Result<(), (Option<Not>, T)> {
    light::safe_point(me);
    let mut message = ManuallyDrop::new(message);
    match pass(Message::at(&raw mut *message)) {
        Passed::Done => Ok(()),
        other => sent_otherwise(me, ManuallyDrop::into_inner(message), other),
    }
}

#[cold]
#[inline(never)]
fn sent_otherwise<T>(me: &'static Record, message: T, how: Passed) -> Result<(), (Option<Not>, T)> {
    match how {
        Passed::Done => unreachable!("the message has gone"),
        Passed::Meets(theirs) => {
            let mut message = ManuallyDrop::new(message);
            // SAFETY: we met it, and it is this tube's; the message is moved.
            unsafe { meet::act::<T>(theirs, &raw mut *message, Way::Out) };
            Ok(())
        }
        Passed::Gone => Err((Some(Not::Ever), message)),
        Passed::Late => {
            light::safe_point(me);
            Err((Some(Not::Now), message))
        }
        Passed::Seated => Err((None, message)),
    }
}

/// Receives.
#[inline(always)]
pub(crate) fn recv<T>(tube: &Tube<T>, me: &'static Record, deadline: Option<u64>) -> Result<T, Option<Not>> {
    recv_by(me, |room| pass_in(tube, me, room, deadline))
}

/// The same, until somebody asks: `Not::Now`.
#[cfg(not(feature = "sim"))]
pub(crate) fn recv_ended_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    by: Option<&'static Interrupt>,
) -> Result<T, Option<Not>> {
    recv_by(me, |room| pass_ended_by(tube, Side::Recv, me, room, by))
}

#[inline(always)]
fn recv_by<T>(me: &'static Record, pass: impl FnOnce(Message) -> Passed) -> Result<T, Option<Not>> {
    light::safe_point(me);
    let mut message = MaybeUninit::<T>::uninit();
    match pass(Message::at(message.as_mut_ptr())) {
        // SAFETY: who met us has put it there, or we have taken it from there.
        Passed::Done => Ok(unsafe { message.assume_init() }),
        other => received_otherwise(me, other),
    }
}

#[cold]
#[inline(never)]
fn received_otherwise<T>(me: &'static Record, how: Passed) -> Result<T, Option<Not>> {
    match how {
        Passed::Meets(theirs) => {
            let mut message = MaybeUninit::<T>::uninit();
            // SAFETY: we met it, and this is a place for its tube's message, which is there afterwards.
            unsafe {
                meet::act::<T>(theirs, message.as_mut_ptr(), Way::In);
                Ok(message.assume_init())
            }
        }
        Passed::Gone => Err(Some(Not::Ever)),
        Passed::Late => {
            light::safe_point(me);
            Err(Some(Not::Now))
        }
        Passed::Done => unreachable!("the message is there"),
        Passed::Seated => Err(None),
    }
}
