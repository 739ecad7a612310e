//! A light thread sends or receives at a tube without slots, and waits for nothing else.
//!
//! Power series, servers and pipelines do little else, so this way is the short one: under one lock the thread meets a waiter, or puts
//! its own node in. The result of the wait is stored in its packet alone, and the only other word is the token that it parks with. The
//! waiter makes two locked operations, and so does the thread that meets it.
//!
//! ```text
//!   lock -- kernel threads, or a descriptor to tell, at the other end?  -- the long way (`wait`)
//!        -- a waiter at the other end: the first node out -- unlock -- message -- packet DONE -- unpark
//!        -- nobody: node in -- unlock -- park until the packet says DONE, or TOLD: once more, in the old place
//! ```
//!
//! - D1: the thread that takes a node out, under the lock, has the waiter, and stores so in its packet. So a waiter that finds its time
//!   up and its node gone waits for that state, which takes the other thread some ns.
//! - D2: the packet and the node lie on the waiter's stack, which it does not leave before the packet's state is stored or it has taken
//!   its own node out. After that the other thread only unparks a record, which never goes away.
//!
//! The lists are those of `lights` (I1, I5, I7), in which choices wait as well.
//!
//! Paper: synthesis, 4.1.3 and 5.3.2 (threads that wait in the queue of what they wait for).
//!
//! Searched: `tests/loom_light.rs`.

use crate::body::{Ends, Not, Tube};
use crate::rendezvous::{self, Way};
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{back_by_jump, clock};
use chappe_wait::end::End;
use chappe_wait::handoff::{Handoff, Outcome};
use chappe_wait::interrupt::Interrupt;
use chappe_wait::lights::{Comes, Lights, Node, Side, note_one};
use std::mem::{ManuallyDrop, MaybeUninit};

/// How a wait ended.
enum Passed {
    /// The other thread has taken the message, or has brought one.
    Done,
    /// The caller has met a waiter, whose packet this is: the caller moves the message.
    Meets(u64),
    /// The other end has gone.
    Gone,
    Late,
    /// Kernel threads may wait at the other end.
    Attached,
}

/// Where a message is, or room for one: the waiter's, on its stack.
type Place = *mut u8;

/// What ends a wait early.
#[derive(Clone, Copy)]
struct Until {
    deadline: Option<u64>,
    /// The interrupting thread asks first and unparks the waiter then.
    by: Option<&'static Interrupt>,
}

impl Until {
    const NEVER: Until = Until { deadline: None, by: None };

    fn is_asked(self) -> bool {
        self.by.is_some_and(Interrupt::is_asked)
    }
}

/// The end that a light thread comes to, and the other.
#[inline(always)]
fn both(ends: &Ends, side: Side) -> (&End, &End) {
    match side {
        Side::Send => (&ends.senders, &ends.receivers),
        Side::Recv => (&ends.receivers, &ends.senders),
    }
}

/// Waits until a thread comes with the message, or room for one; the caller has met nobody. `told`: it has waited
/// before, and been told to try again.
#[cold]
#[inline(never)]
fn pass(ends: &Ends, side: Side, me: &'static Record, place: Place, until: Until, told: bool) -> Passed {
    let (own, other) = both(ends, side);
    own.admit_lights(false);
    let (mut packet, mut node) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut told = told;
    loop {
        let came = ends.lights.come(side, other, told, || {
            let packet = Handoff::direct(&mut packet, me, place.cast());
            node.write(Node::direct(me, packet))
        });
        match came {
            Comes::Meets(theirs) => return Passed::Meets(theirs),
            Comes::Gone => return Passed::Gone,
            Comes::Attached => return Passed::Attached,
            Comes::Waits => {}
        }
        note_one(me, side, &ends.lights);
        // SAFETY: the node and its packet were made when this thread came to wait.
        let (node, packet) = unsafe { (node.assume_init_ref(), packet.assume_init_ref()) };
        // If a thread asked before we came here, another wait may have taken the token.
        if !until.is_asked() {
            light::park(until.deadline);
        }
        let heard = hear((&ends.lights, side), node, packet, until);
        me.waits.set(Waits::Nothing);
        match heard {
            Heard::Ends(how) => return how,
            Heard::Told => told = true,
        }
    }
}

/// What a waiter heard.
enum Heard {
    Ends(Passed),
    /// The waiter is to try again.
    Told,
}

/// Waits until a state is stored; the caller has parked once. `Late`: the time was up, or it was interrupted or is to
/// end, and the node is out.
#[cold]
#[inline(never)]
fn hear((lights, side): (&Lights, Side), node: &Node, packet: &Handoff, until: Until) -> Heard {
    let (mut until, mut may_end) = (until, true);
    loop {
        match packet.outcome() {
            Outcome::Open => {}
            Outcome::Done => return Heard::Ends(Passed::Done),
            // The thread is to end, and has perhaps taken the token that said so already. If a kernel thread told it, that one stays, and has told
            // nobody else: the next of this end is to try.
            Outcome::Told if light::is_destroyed() => {
                lights.tell_one(side);
                return Heard::Ends(Passed::Late);
            }
            Outcome::Told => return Heard::Told,
        }
        let asked = until.is_asked() || (may_end && light::is_destroyed());
        if asked || until.deadline.is_some_and(|moment| clock::now() >= moment) {
            if lights.withdraw(side, node) {
                return Heard::Ends(Passed::Late);
            }
            // D1.
            (until, may_end) = (Until::NEVER, false);
        }
        light::park(until.deadline);
    }
}

impl Passed {
    /// As one word: an address, or a small number.
    #[inline(always)]
    fn word(self) -> u64 {
        match self {
            Passed::Done => 0,
            Passed::Gone => 1,
            Passed::Late => 2,
            Passed::Attached => 3,
            Passed::Meets(packet) => packet,
        }
    }

    #[inline(always)]
    fn of(word: u64) -> Passed {
        match word {
            0 => Passed::Done,
            1 => Passed::Gone,
            2 => Passed::Late,
            3 => Passed::Attached,
            packet => Passed::Meets(packet),
        }
    }
}

/// The same for a wait that nothing ends early, which is the usual one: a straight line where nobody is there, and the
/// partner that comes moves the message. Generic neither over the message nor over the side, so that it is compiled
/// once, and threads that wait for each other are in the same function.
#[allow(improper_ctypes_definitions, reason = "called by Rust alone")]
extern "C-unwind" fn pass_for_ever(ends: &Ends, side: Side, me: &'static Record, place: Place) -> u64 {
    let (own, other) = both(ends, side);
    let (mut packet, mut node) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let waits = own.admits_lights() && {
        ends.lights.wait_alone(side, other, || {
            let packet = Handoff::direct(&mut packet, me, place.cast());
            node.write(Node::direct(me, packet))
        })
    };
    if !waits {
        return pass(ends, side, me, place, Until::NEVER, false).word();
    }
    note_one(me, side, &ends.lights);
    light::park(None);
    // SAFETY: they were made when this thread came to wait.
    let (node, packet) = unsafe { (node.assume_init_ref(), packet.assume_init_ref()) };
    let heard = match packet.outcome() {
        Outcome::Done => Heard::Ends(Passed::Done),
        _ => hear((&ends.lights, side), node, packet, Until::NEVER),
    };
    me.waits.set(Waits::Nothing);
    match heard {
        Heard::Ends(how) => how.word(),
        Heard::Told => pass(ends, side, me, place, Until::NEVER, true).word(),
    }
}

back_by_jump! {
    /// The same: other threads have run when it returns.
    fn pass_and_back(ends: &Ends, side: Side, me: &'static Record, place: Place) -> u64 = pass_for_ever;
}

/// Sends. On failure the message comes back with the reason; `None`: not known yet, since kernel threads may wait
/// there.
#[inline(always)]
pub fn send<T>(tube: &Tube<T>, me: &'static Record, message: T, deadline: Option<u64>) -> Result<(), (Option<Not>, T)> {
    send_by(tube, me, message, |message| match deadline {
        None => Passed::of(pass_and_back(tube, Side::Send, me, message)),
        _ => pass(tube, Side::Send, me, message, Until { deadline, by: None }, false),
    })
}

/// Sends if a light thread waits there, and certainly no kernel thread does; else the message comes back.
#[inline]
pub fn send_at_once<T>(tube: &Tube<T>, message: T) -> Result<(), T> {
    let Some(theirs) = tube.lights.meet_first(Side::Recv, &tube.receivers) else { return Err(message) };
    let mut message = ManuallyDrop::new(message);
    // SAFETY: we met it, and it is this tube's; the message is moved.
    unsafe { rendezvous::act::<T>(theirs, &raw mut *message, Way::Out) };
    Ok(())
}

/// The same for a receiver.
#[inline]
pub fn recv_at_once<T>(tube: &Tube<T>) -> Option<T> {
    let theirs = tube.lights.meet_first(Side::Send, &tube.senders)?;
    let mut message = MaybeUninit::<T>::uninit();
    // SAFETY: we met it, and this is a place for its tube's message, which is there afterwards.
    unsafe {
        rendezvous::act::<T>(theirs, message.as_mut_ptr(), Way::In);
        Some(message.assume_init())
    }
}

/// As [`send`], until an interrupt comes: `Not::Now`.
#[cfg(not(feature = "sim"))]
pub fn send_ended_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    by: Option<&'static Interrupt>,
) -> Result<(), (Option<Not>, T)> {
    send_by(tube, me, message, |message| pass(tube, Side::Send, me, message, Until { deadline: None, by }, false))
}

#[inline(always)]
fn send_by<T>(
    tube: &Tube<T>,
    me: &'static Record,
    message: T,
    pass: impl FnOnce(Place) -> Passed,
) -> Result<(), (Option<Not>, T)> {
    light::safe_point(me);
    let mut message = if tube.lights.is_empty(Side::Recv) {
        ManuallyDrop::new(message)
    } else {
        match send_at_once(tube, message) {
            Ok(()) => return Ok(()),
            Err(message) => ManuallyDrop::new(message),
        }
    };
    match pass((&raw mut *message).cast()) {
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
            unsafe { rendezvous::act::<T>(theirs, &raw mut *message, Way::Out) };
            Ok(())
        }
        Passed::Gone => Err((Some(Not::Ever), message)),
        Passed::Late => {
            light::safe_point(me);
            Err((Some(Not::Now), message))
        }
        Passed::Attached => Err((None, message)),
    }
}

/// Receives.
#[inline(always)]
pub fn recv<T>(tube: &Tube<T>, me: &'static Record, deadline: Option<u64>) -> Result<T, Option<Not>> {
    recv_by(tube, me, |room| match deadline {
        None => Passed::of(pass_and_back(tube, Side::Recv, me, room)),
        _ => pass(tube, Side::Recv, me, room, Until { deadline, by: None }, false),
    })
}

/// The same, until an interrupt comes: `Not::Now`.
#[cfg(not(feature = "sim"))]
pub fn recv_ended_by<T>(tube: &Tube<T>, me: &'static Record, by: Option<&'static Interrupt>) -> Result<T, Option<Not>> {
    recv_by(tube, me, |room| pass(tube, Side::Recv, me, room, Until { deadline: None, by }, false))
}

#[inline(always)]
fn recv_by<T>(tube: &Tube<T>, me: &'static Record, pass: impl FnOnce(Place) -> Passed) -> Result<T, Option<Not>> {
    light::safe_point(me);
    if !tube.lights.is_empty(Side::Send)
        && let Some(message) = recv_at_once(tube)
    {
        return Ok(message);
    }
    let mut message = MaybeUninit::<T>::uninit();
    match pass(message.as_mut_ptr().cast()) {
        // SAFETY: the partner has put it there.
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
                rendezvous::act::<T>(theirs, message.as_mut_ptr(), Way::In);
                Ok(message.assume_init())
            }
        }
        Passed::Gone => Err(Some(Not::Ever)),
        Passed::Late => {
            light::safe_point(me);
            Err(Some(Not::Now))
        }
        Passed::Done => unreachable!("the message is there"),
        Passed::Attached => Err(None),
    }
}
