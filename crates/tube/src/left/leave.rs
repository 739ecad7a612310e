//! Leaving a message, and arming the descriptors that ask for it. F1 to F5 are those of the parent's head.

use super::Left;
use crate::body::{Body, Not, Tube};
use chappe_plat::atomic::{Ordering, fence};
use chappe_plat::step;
use chappe_structures::ring::Ring;
use chappe_wait::lights::Side;

impl<T> Tube<T> {
    /// A `try_send` has failed: if for want of somebody to meet, the message may be left.
    #[inline(always)]
    pub fn or_leave(&self, (not, message): (Not, T)) -> Result<(), (Not, T)> {
        if not == Not::Now && self.has_meetings() { self.leave(message) } else { Err((not, message)) }
    }

    /// A sender has found nobody to meet: leaves the message, if a receiver waits by its descriptor (F1).
    #[cold]
    #[inline(never)]
    fn leave(&self, message: T) -> Result<(), (Not, T)> {
        let Some(left) = self.free_slot() else { return Err((Not::Now, message)) };
        let slot = left.0.get_or(|| Ring::new(1));
        self.senders.leaves();
        // The receiver comes as soon as it is told. If it comes before the message, it arms its descriptor again.
        if !self.receivers.signal() {
            return Err((Not::Now, message));
        }
        step!("signalled, nothing left yet");
        if let Err(message) = slot.push(message) {
            return Err((Not::Now, message));
        }
        step!("left, nobody told");
        self.tell_of_what_is_left();
        // F5.
        let back = if self.receivers.is_gone() { left.take() } else { None };
        back.map_or(Ok(()), |message| Err((Not::Ever, message)))
    }

    /// Tells one receiver that waits at the tube (F4), and one that has armed the descriptor again.
    pub(crate) fn tell_of_what_is_left(&self) {
        // SeqCst: F4, between the message and the look at the waiters.
        fence(Ordering::SeqCst);
        if self.receivers.has_lights() && self.lights.tell_one(Side::Recv) {
            self.receivers.signal();
        } else {
            self.receivers.tell_one();
        }
    }

    /// Whether a sender that waits by its descriptor would get rid of a message now.
    pub(crate) fn may_leave(&self) -> bool {
        self.free_slot().is_some()
    }

    /// The slot, if a receiver comes when it is told, and there is a hole (F1).
    fn free_slot(&self) -> Option<&Left<T>> {
        match &self.body {
            Body::Rendezvous(left) if self.receivers.comes() && left.has_hole() => Some(left),
            _ => None,
        }
    }

    /// Arms the descriptor of an end. False: it is readable, since there is something.
    pub fn rearm(&self, side: Side) -> bool {
        let comes = side == Side::Recv && self.has_meetings();
        let waits = self.arm(side, comes);
        if waits && comes {
            // F2.
            self.senders.signal();
        }
        waits
    }

    /// The same of a descriptor that was made just now: its receiver has not yet found that there is nothing.
    pub fn arm(&self, side: Side, comes: bool) -> bool {
        let end = self.end(side);
        end.arm(comes);
        let ready = if side == Side::Send { self.may_send_now() } else { self.may_recv_now() };
        if ready {
            end.signal();
        }
        !ready
    }
}
