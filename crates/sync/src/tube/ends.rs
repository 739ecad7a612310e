//! The two ends of a tube as users have them: many senders, many receivers.

use super::parts::{opaque, receiving, sending};
use chappe_structures::ring::Ring;
use chappe_tube::block;
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Body, Tube};
use chappe_tube::error::{RecvError, SendError};
use chappe_tube::refused::send_error;
use chappe_wait::lights::Side;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The end of a tube where messages go in. Any number of threads may have clones of it, or references to it.
///
/// When the last one is dropped, receivers get what is still there, and then an error.
pub struct Sender<T> {
    pub(crate) out: Out<Arc<Tube<T>>>,
}

/// The end of a tube where messages come out. Any number of threads may have clones of it, or references to it: each message
/// goes to one of them.
///
/// When the last one is dropped, senders get an error.
pub struct Receiver<T> {
    pub(crate) into: In<Arc<Tube<T>>>,
}

// SAFETY: what goes through is sent from one thread to another, and is nowhere else meanwhile.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Receiver<T> {}
// A message is in the tube, or it is not: a panic leaves nothing half-done.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.out.0.senders.enter();
        Sender { out: Out(Arc::clone(&self.out.0)) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.into.0.receivers.enter();
        Receiver { into: In(Arc::clone(&self.into.0)) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.out.0.senders.leave() {
            self.out.0.no_sender();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.into.0.receivers.leave() {
            self.into.0.no_receiver();
        }
    }
}

impl<T> Sender<T> {
    /// Sends a message; blocks while there is no room for it. In a tube without slots it blocks until a receiver takes
    /// the message.
    ///
    /// Waiting senders are told of holes in the order in which they came; a sender that comes just then may overtake
    /// them.
    ///
    /// # Errors
    /// The message, if there is no receiver any more, or the last one goes meanwhile.
    // Unoptimised, all copies that the parts make of a message would lie in the caller's frame.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match &self.out.0.body {
            Body::Ring(ring) => self.send_in_ring(ring, message),
            // Within the caller: see `back_by_jump`.
            Body::Rendezvous(_) => block::send_meeting(&self.out, message),
            Body::Segmented(ring) => self.out.0.send_chained(ring, message).map_err(SendError),
            _ => block::send_any(&self.out, message).map_err(send_error),
        }
    }

    #[inline]
    fn send_in_ring(&self, ring: &Ring<T>, message: T) -> Result<(), SendError<T>> {
        let tube = &*self.out.0;
        if tube.receivers.is_gone() {
            return block::send_any(&self.out, message).map_err(send_error);
        }
        match ring.push(message) {
            Ok(()) => {
                tube.announce(Side::Recv);
                Ok(())
            }
            Err(message) => block::send_later(&self.out, message),
        }
    }

    sending!(try_send);

    /// Whether both are ends of the same tube.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.out.0, &other.out.0)
    }
}

impl<T> Receiver<T> {
    /// Receives the next message; blocks while there is none.
    ///
    /// Waiting receivers are told of messages in the order in which they came; a receiver that comes just then may
    /// overtake them.
    ///
    /// # Errors
    /// If there is no message and no sender any more, or the last one goes meanwhile.
    // Unoptimised, all copies that the parts make of a message would lie in the caller's frame.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn recv(&self) -> Result<T, RecvError> {
        match &self.into.0.body {
            Body::Ring(ring) => self.recv_from_ring(ring),
            // Within the caller: see `back_by_jump`.
            Body::Rendezvous(_) => block::recv_meeting(&self.into),
            _ => block::recv_beside(&self.into),
        }
    }

    #[inline]
    fn recv_from_ring(&self, ring: &Ring<T>) -> Result<T, RecvError> {
        if let Some(message) = ring.take() {
            self.into.0.announce(Side::Send);
            return Ok(message);
        }
        block::recv_beside(&self.into)
    }

    receiving!(try_recv);

    /// Whether both are ends of the same tube.
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        let never = |end: &Receiver<T>| matches!(end.into.0.body, Body::Never);
        Arc::ptr_eq(&self.into.0, &other.into.0) || (never(self) && never(other))
    }

    /// The messages, blocking for each, until there is no sender any more.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The messages that are there now, and those that come meanwhile.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

/// The messages of a tube, blocking for each: see [`Receiver::iter`].
pub struct Iter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// The messages of a tube that are there: see [`Receiver::try_iter`].
pub struct TryIter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// The messages of a tube, blocking for each, with its receiver.
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

opaque!(Sender<T>: "Sender", Receiver<T>: "Receiver");
opaque!(Iter<'_, T>: "Iter", TryIter<'_, T>: "TryIter", IntoIter<T>: "IntoIter");

impl<T> Iterator for Iter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> std::iter::FusedIterator for Iter<'_, T> {}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> std::iter::FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
