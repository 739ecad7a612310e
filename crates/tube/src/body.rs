//! A tube, whatever it is made of: what is sent and received at once, and what a choice does with its two ends.
//!
//! | made of | `send` waits for | `recv` waits for |
//! |---|---|---|
//! | a ring of a fixed number of slots | a hole | a message |
//! | a line: the ring of one sender and one receiver | a hole | a message |
//! | a ring on a chain | nothing | a message |
//! | nothing: its sender meets its receiver | a thread at the other end | a thread at the other end |
//! | a clock | - | the moment |
//! | never | - | for ever |
//!
//! An end that has gone makes the other one ready: the operation completes, with the error that says so. A message that is there is
//! received before that error.
//!
//! What a choice takes of a tube is a claim (see the ring) or a thread met; [`Taken::position`] says which, and its word which slot or
//! packet:

pub mod arms;

use crate::left::Left;
use crate::rendezvous::{self, Opposite, Way};
use chappe_arena::Map;
use chappe_plat::atomic::Ordering;
use chappe_plat::{light, step};
use chappe_structures::ring::{Claim, Ring, Segmented, Spsc};
use chappe_wait::cell::Word;
use chappe_wait::clock::Clock;
use chappe_wait::end::End;
use chappe_wait::handoff::Handoff;
use chappe_wait::lights::waits::{MET_BY, met_by};
use chappe_wait::lights::{Lights, Side, Standing};
use chappe_wait::mark::Mark;
#[cfg(not(feature = "sim"))]
use chappe_wait::operation::Outlook;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Nature, Refused, Site, Taken, TryFast};
use chappe_wait::wait::{Grant, MET, Party};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::time::Instant;

/// A slot of the ring is ours.
const CLAIMED: u32 = 1;
/// We met a waiter: its packet.
const MEETING: u32 = 2;
// 3: MET_BY.
/// The other end has gone.
const GONE: u32 = 4;
/// The clock has struck.
const STRUCK: u32 = 5;
/// The line has a hole, or a message, and no other thread can take it.
const THERE: u32 = 6;

/// What a tube is made of. In boxes, so that a tube without slots is not as large as the largest.
pub enum Body<T> {
    /// A fixed number of slots.
    Ring(Box<Ring<T>>),
    /// The same, for one sender and one receiver.
    Spsc(Box<Spsc<T>>),
    /// As many slots as are wanted.
    Segmented(Box<Ring<T, Segmented<T>>>),
    /// No slot, but for what is left for a receiver that waits by a descriptor.
    Rendezvous(Left<T>),
    /// The message is a moment.
    Clock(Box<Strokes<T>>),
    /// Nothing ever comes.
    Never,
}

/// A clock, and what it tells.
pub struct Strokes<T> {
    pub clock: Clock,
    pub tell: fn(Instant) -> T,
}

impl<T> Deref for Strokes<T> {
    type Target = Clock;
    fn deref(&self) -> &Clock {
        &self.clock
    }
}

/// A tube.
pub struct Tube<T> {
    pub body: Body<T>,
    ends: Ends,
}

/// What of a tube does not depend on its messages' type.
pub struct Ends {
    /// Where senders wait.
    pub senders: End,
    /// Where receivers wait.
    pub receivers: End,
    /// Where light threads wait.
    pub lights: Lights,
}

impl Ends {
    #[inline(always)]
    pub fn end(&self, side: Side) -> &End {
        if side == Side::Send { &self.senders } else { &self.receivers }
    }

    #[inline(always)]
    pub(crate) fn opposite(&self, side: Side) -> Opposite<'_> {
        Opposite { end: self.end(side), lights: &self.lights, side }
    }
}

impl<T> Deref for Tube<T> {
    type Target = Ends;
    #[inline(always)]
    fn deref(&self) -> &Ends {
        &self.ends
    }
}

/// Why nothing was sent, or received, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Not {
    /// The operation would have to wait.
    Now,
    /// Never: the other end has gone.
    Ever,
}

const _: () = assert!(size_of::<Tube<[u64; 4]>>() <= 128 + 16);

impl<T> Tube<T> {
    /// A tube with a handle at each end.
    pub fn new(map: &'static Map, body: Body<T>) -> Tube<T> {
        let lights = Lights::new(matches!(body, Body::Rendezvous(_)));
        Tube { body, ends: Ends { senders: End::new(map), receivers: End::new(map), lights } }
    }

    /// # Safety
    /// The tube lives for as long as the answer.
    #[inline(always)]
    unsafe fn standing<'t>(&self, side: Side) -> Standing<'t> {
        let other = if side == Side::Send { &self.receivers } else { &self.senders };
        let (lights, own, other) =
            (&raw const self.lights, std::ptr::from_ref(self.end(side)), std::ptr::from_ref(other));
        // SAFETY: the caller's promise.
        unsafe { Standing { lights: &*lights, side, own: &*own, other: &*other, meets: self.has_meetings() } }
    }

    /// Tells one waiter at an end that there is something for it, if a thread waits there. The message or hole is there
    /// already.
    #[inline(always)]
    pub fn announce(&self, side: Side) {
        let end = if side == Side::Send { &self.senders } else { &self.receivers };
        if end.is_awaited() {
            self.tell_one(side);
        }
    }

    /// Sends a message now.
    #[inline(always)]
    pub fn try_send(&self, message: T) -> Result<(), (Not, T)> {
        if self.receivers.is_gone() {
            return Err((Not::Ever, message));
        }
        let sent = match &self.body {
            Body::Ring(ring) => ring.push(message),
            other => return self.try_send_other(other, &mut Some(message)),
        };
        match sent {
            Ok(()) => self.announce(Side::Recv),
            Err(message) => return Err((self.why_not(&self.receivers), message)),
        }
        Ok(())
    }

    /// The same, called by the only sender there can be.
    #[inline(always)]
    pub fn try_send_alone(&self, message: T) -> Result<(), (Not, T)> {
        if let Body::Spsc(line) = &self.body
            && !self.receivers.is_gone()
            // SAFETY: a line's sender is one, and not used by two threads at once.
            && unsafe { line.has_hole() }
        {
            // SAFETY: as above; there is a hole.
            unsafe { line.put(message) };
            self.announce(Side::Recv);
            return Ok(());
        }
        self.try_send_alone_other(&mut Some(message))
    }

    /// By reference to a copy: else a message that is sent at once would have to be written to memory first, for this
    /// function's sake.
    #[inline(never)]
    fn try_send_alone_other(&self, message: &mut Option<T>) -> Result<(), (Not, T)> {
        let message = message.take().expect("the caller has put it there");
        if self.receivers.is_gone() {
            return Err((Not::Ever, message));
        }
        let sent = match &self.body {
            Body::Spsc(_) => Err(message),
            Body::Ring(ring) => ring.push_alone(message),
            _ => return self.try_send(message),
        };
        match sent {
            Ok(()) => self.announce(Side::Recv),
            Err(message) => return Err((self.why_not(&self.receivers), message)),
        }
        Ok(())
    }

    /// Sends a message where there is always room.
    ///
    /// # Errors
    /// The message, if there is no receiver any more.
    #[inline(never)]
    pub fn send_chained(&self, ring: &Ring<T, Segmented<T>>, message: T) -> Result<(), T> {
        if self.receivers.is_gone() {
            return Err(message);
        }
        ring.push(message)?;
        self.announce(Side::Recv);
        self.forget();
        Ok(())
    }

    #[cold]
    fn why_not(&self, other: &End) -> Not {
        if other.is_gone() { Not::Ever } else { Not::Now }
    }

    /// As [`Tube::try_send_alone_other`].
    #[inline(never)]
    fn try_send_other(&self, body: &Body<T>, message: &mut Option<T>) -> Result<(), (Not, T)> {
        let message = message.take().expect("the caller has put it there");
        match body {
            Body::Segmented(ring) => self.send_chained(ring, message).map_err(|message| (Not::Ever, message)),
            Body::Spsc(_) => self.try_send_alone(message),
            _ => match rendezvous::meet(self.opposite(Side::Recv), &Party::nobody(self.receivers.map())) {
                Some(packet) => {
                    let mut message = ManuallyDrop::new(message);
                    // SAFETY: we met it, and this is its tube's message; it is ours no more.
                    unsafe { rendezvous::act::<T>(packet, &raw mut *message, Way::Out) };
                    Ok(())
                }
                None => Err((self.why_not(&self.receivers), message)),
            },
        }
    }

    /// Receives a message now.
    #[inline(always)]
    pub fn try_recv(&self) -> Result<T, Not> {
        let taken = match &self.body {
            Body::Ring(ring) => ring.take(),
            other => return self.try_recv_other(other),
        };
        match taken {
            Some(message) => {
                self.announce(Side::Send);
                Ok(message)
            }
            None => self.try_recv_last(),
        }
    }

    /// The same, called by the only receiver there can be.
    #[inline(always)]
    pub fn try_recv_alone(&self) -> Result<T, Not> {
        if let Body::Spsc(line) = &self.body
            // SAFETY: a line's receiver is one, and not used by two threads at once.
            && unsafe { line.has_message() }
        {
            // SAFETY: as above; there is a message.
            let message = unsafe { line.get() };
            self.announce(Side::Send);
            return Ok(message);
        }
        self.try_recv_alone_other()
    }

    #[inline(never)]
    fn try_recv_alone_other(&self) -> Result<T, Not> {
        if let Body::Spsc(_) = &self.body { self.try_recv_last() } else { self.try_recv() }
    }

    /// There was no message. If there is no sender, this is the end, unless a message came in between.
    #[cold]
    fn try_recv_last(&self) -> Result<T, Not> {
        if !self.senders.is_gone() {
            return Err(Not::Now);
        }
        match &self.body {
            Body::Ring(ring) => ring.take(),
            Body::Segmented(ring) => ring.take(),
            // SAFETY: as in `try_recv_alone`.
            Body::Spsc(line) => unsafe { line.take() },
            Body::Rendezvous(left) => left.take(),
            _ => None,
        }
        .ok_or(Not::Ever)
    }

    #[inline(never)]
    fn try_recv_other(&self, body: &Body<T>) -> Result<T, Not> {
        match body {
            Body::Segmented(ring) => match ring.take() {
                Some(message) => Ok(message),
                None => self.try_recv_last(),
            },
            Body::Clock(clock) => clock.take().map(|due| (clock.tell)(Clock::stroke(due))).ok_or(Not::Now),
            Body::Never => Err(Not::Now),
            Body::Spsc(_) => self.try_recv_alone(),
            Body::Ring(_) => self.try_recv(),
            Body::Rendezvous(left) => {
                if let Some(message) = left.take() {
                    return Ok(message);
                }
                match rendezvous::meet(self.opposite(Side::Send), &Party::nobody(self.senders.map())) {
                    Some(packet) => {
                        let mut message = MaybeUninit::uninit();
                        // SAFETY: we met it, and this is a place for its tube's message, which is there afterwards.
                        unsafe {
                            rendezvous::act::<T>(packet, message.as_mut_ptr(), Way::In);
                            Ok(message.assume_init())
                        }
                    }
                    None => self.try_recv_last(),
                }
            }
        }
    }

    /// Whether `recv` would complete now, with a message or with the error that all senders have gone.
    pub fn may_recv(&self, me: &Party) -> bool {
        match &self.body {
            Body::Ring(ring) => ring.has_message() || self.senders.is_gone(),
            // SAFETY: as in `try_recv_alone`.
            Body::Spsc(line) => self.senders.is_gone() || unsafe { line.has_message() },
            Body::Segmented(ring) => ring.has_message() || self.senders.is_gone(),
            Body::Rendezvous(left) => {
                left.has_message() || rendezvous::is_awaited(self.opposite(Side::Send), me) || self.senders.is_gone()
            }
            Body::Clock(clock) => clock.is_due(),
            Body::Never => false,
        }
    }

    /// Whether `send` would complete now, or fail since all receivers have gone.
    pub fn may_send(&self, me: &Party) -> bool {
        let now = match &self.body {
            Body::Ring(ring) => ring.has_hole(),
            // SAFETY: as in `try_send_alone`.
            Body::Spsc(line) => unsafe { line.has_hole() },
            Body::Rendezvous(_) => rendezvous::is_awaited(self.opposite(Side::Recv), me),
            _ => true,
        };
        now || self.receivers.is_gone()
    }

    /// As [`Tube::may_recv`], for a caller that is no member.
    pub fn may_recv_now(&self) -> bool {
        self.may_recv(&Party::nobody(self.receivers.map()))
    }

    /// As [`Tube::may_send`], for a caller that is no member.
    pub(crate) fn may_send_now(&self) -> bool {
        self.may_send(&Party::nobody(self.senders.map())) || self.may_leave()
    }

    /// A sender that was told of a hole may not have used it, or not the only one: the next sender is told.
    pub(crate) fn pass_on_hole(&self) {
        step!("told, nobody else told yet");
        if self.has_meetings() {
            rendezvous::rematch(&self.senders, &self.receivers);
        } else if self.may_send(&Party::nobody(self.senders.map())) {
            self.announce(Side::Send);
        }
    }

    /// The same for a message, and the receivers.
    pub(crate) fn pass_on_message(&self) {
        step!("told, nobody else told yet");
        if let Body::Rendezvous(left) = &self.body {
            if self.senders.has_lights()
                && self.receivers.has_waiters()
                && self.lights.is_awaited(Side::Send)
                && rendezvous::first_is_met(&self.receivers)
            {
                // It came when the light thread had not begun to wait, and told nobody: I6 of the light threads.
                self.lights.tell_one(Side::Send);
            }
            rendezvous::rematch(&self.senders, &self.receivers);
            if left.has_message() {
                self.tell_of_what_is_left();
            }
        } else if self.may_recv(&Party::nobody(self.receivers.map())) {
            self.announce(Side::Recv);
        }
    }

    /// The last sender has gone: tells the receivers.
    #[inline(always)]
    pub fn no_sender(&self) {
        if self.receivers.may_have_lights() {
            self.lights.tell_all(Side::Recv);
        }
        self.receivers.tell_all();
    }

    /// The last receiver has gone: nobody will receive what is in a tube without a bound, or was left.
    #[inline(always)]
    pub fn no_receiver(&self) {
        if self.senders.may_have_lights() {
            self.lights.tell_all(Side::Send);
        }
        self.senders.tell_all();
        if let Body::Rendezvous(left) = &self.body {
            drop(left.take());
        }
        if let Body::Segmented(_) = self.body {
            // Either a sender sees that we have gone, or we see its message.
            chappe_plat::fence::heavy();
            self.forget();
        }
    }

    /// Drops the messages that nobody will receive.
    fn forget(&self) {
        if let Body::Segmented(ring) = &self.body
            && self.receivers.is_gone()
        {
            ring.drain();
        }
    }

    /// How many messages there are.
    pub fn count(&self) -> usize {
        match &self.body {
            // A message that is being sent and one that is being received may both be counted.
            Body::Spsc(line) => line.count(),
            Body::Ring(ring) => ring.count().min(ring.capacity().unwrap_or(usize::MAX)),
            Body::Segmented(ring) => ring.count(),
            Body::Clock(clock) => clock.is_due().into(),
            Body::Rendezvous(left) => left.count(),
            Body::Never => 0,
        }
    }

    /// How many messages there is room for; `None`: any number.
    pub fn capacity(&self) -> Option<usize> {
        match &self.body {
            Body::Ring(ring) => ring.capacity(),
            Body::Spsc(line) => Some(line.capacity()),
            Body::Segmented(_) => None,
            Body::Rendezvous(_) | Body::Never => Some(0),
            Body::Clock(..) => Some(1),
        }
    }

    /// Sends a message by what a choice, or a wait, has taken.
    pub fn send_taken(&self, taken: Taken, message: T) -> Result<(), (Not, T)> {
        match taken.position {
            CLAIMED => {
                // SAFETY: an attempt of this tube returned it, and no other thread has it.
                let claim = unsafe { Claim::of(taken.word.0) };
                match claim.fill(message) {
                    Ok(()) => self.announce(Side::Recv),
                    Err(message) => return self.try_send(message),
                }
                self.forget();
            }
            MEETING | MET_BY => {
                let mut message = ManuallyDrop::new(message);
                // SAFETY: as above; the message is ours no more.
                unsafe { met::<T>(taken, &raw mut *message, Way::Out) };
            }
            THERE => return self.try_send_alone(message),
            _ => return Err((Not::Ever, message)),
        }
        Ok(())
    }

    /// Gives back the slot that a choice has taken to send, for which there is no message.
    #[cold]
    pub fn give_up(&self, taken: Taken) {
        if taken.position != CLAIMED {
            // A line's hole, which was only seen; or that the receivers have gone.
            return;
        }
        // SAFETY: as in `send_taken`.
        let claim = unsafe { Claim::of(taken.word.0) };
        match &self.body {
            Body::Ring(ring) => ring.give_up(claim),
            Body::Segmented(ring) => ring.give_up(claim),
            _ => unreachable!("only a ring has slots to be claimed"),
        }
        self.announce(Side::Send);
    }

    /// Receives the message that a choice, or a wait, has taken.
    pub fn recv_taken(&self, taken: Taken) -> Result<T, Not> {
        match taken.position {
            CLAIMED => {
                // SAFETY: an attempt of this tube returned it, and no other thread has it.
                let message = unsafe { Claim::of(taken.word.0) }.read();
                self.announce(Side::Send);
                Ok(message)
            }
            MEETING | MET_BY => {
                let mut message = MaybeUninit::uninit();
                // SAFETY: as above; the message is there afterwards.
                unsafe {
                    met::<T>(taken, message.as_mut_ptr(), Way::In);
                    Ok(message.assume_init())
                }
            }
            STRUCK => match &self.body {
                Body::Clock(clock) => Ok((clock.tell)(Clock::stroke(taken.word.0))),
                _ => Err(Not::Ever),
            },
            THERE => self.try_recv_alone(),
            _ => Err(Not::Ever),
        }
    }

    /// Whether a waiter must publish a packet, for its message's place.
    pub fn has_meetings(&self) -> bool {
        matches!(self.body, Body::Rendezvous(_))
    }
}

/// Hands a message to the thread that a choice has met, or takes one from it.
///
/// # Safety
/// The two met, and this is done once; see `meet`.
unsafe fn met<T>(taken: Taken, place: *mut T, way: Way) {
    if taken.position == MEETING {
        // SAFETY: by the caller's promise.
        unsafe { rendezvous::act(taken.word.0, place, way) };
        return;
    }
    // SAFETY: our own packet, which we keep until this is done.
    let packet = unsafe { &*(taken.word.0 as *const Handoff) };
    // SAFETY: by the caller's promise.
    unsafe { rendezvous::answer(packet, place, way) };
}

fn taken(how: u32, what: u64) -> Taken {
    Taken { position: how, word: Word(what) }
}

/// What was granted at an end.
fn collect(me: &Party, grant: Option<Grant>) -> Collected {
    if !grant.is_some_and(|grant| grant.says(MET)) {
        return Collected::Nudged;
    }
    // Relaxed: our own.
    let packet = me.map.member(me.member).packet.load(Ordering::Relaxed);
    Collected::Taken(met_by(packet))
}

/// A kernel thread needs its attachment, so that it does not meet itself; a light thread waits nowhere while it looks.
#[inline(always)]
fn glance_to_meet<T>(tube: &Tube<T>, other: Side) -> TryFast {
    if light::current().is_none() {
        return TryFast::Ask;
    }
    // The usual case: no kernel thread waits there.
    match tube.lights.meet_first(other, tube.end(other)) {
        Some(packet) => TryFast::Taken(taken(MEETING, packet)),
        None => glance_at_all(tube, other),
    }
}

/// The same where kernel threads may wait, or nobody waits any more.
#[inline(never)]
fn glance_at_all(ends: &Ends, other: Side) -> TryFast {
    let end = ends.end(other);
    match rendezvous::meet(ends.opposite(other), &Party::nobody(end.map())) {
        Some(packet) => TryFast::Taken(taken(MEETING, packet)),
        None if end.is_gone() => TryFast::Taken(taken(GONE, 0)),
        None => TryFast::Nothing,
    }
}
