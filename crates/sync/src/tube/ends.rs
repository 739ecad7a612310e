//! The two ends of a tube as users have them: many senders, many receivers.

use super::block;
use super::body::arms::{In, Out};
use super::body::{Body, Not, Tube};
use super::error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::lights::Side;
use super::refused::{recv_timeout_error, send_error, send_timeout_error, try_recv_error, try_send_error};
use crate::ring::Ring;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
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

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
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

    /// Sends a message if there is room for it now; in a tube without slots, if a receiver waits. It never waits for
    /// room. In a tube without slots it may wait for another thread: if it meets a choice, until the choosing thread
    /// has taken the message (not if the message is small); and for the lock of its light threads, if the holder is
    /// descheduled.
    ///
    /// # Errors
    /// `Full`, `Disconnected`, both with the message.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.out.0.try_send(message).or_else(|why| self.out.0.or_leave(why)).map_err(try_send_error)
    }

    crate::timed::timed! {
        /// As [`Sender::send`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`, `Disconnected`, both with the message.
        pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), SendTimeoutError<T>> { |until|
            match self.out.0.try_send(message) {
                Ok(()) => Ok(()),
                Err((Not::Now, message)) => {
                    block::send(&self.out, message, until()).map_err(send_timeout_error)
                }
                Err(e) => Err(send_timeout_error(e)),
            }
        }
    }

    /// Whether there is no message in the tube.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room: always, in a tube without slots.
    pub fn is_full(&self) -> bool {
        is_full(&self.out.0)
    }

    /// How many messages there are in the tube.
    pub fn len(&self) -> usize {
        self.out.0.len()
    }

    /// How many messages there is room for; `None`: for any number.
    pub fn capacity(&self) -> Option<usize> {
        self.out.0.capacity()
    }

    /// A descriptor (an eventfd) that becomes readable when there is room to send, or no receiver any more: see
    /// [`Receiver::descriptor`](super::Receiver::descriptor).
    ///
    /// # Errors
    /// The system's, when it refuses a descriptor.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        block::descriptor(&self.out.0, Side::Send)
    }

    /// Makes the descriptor unreadable, and ready to become readable again. False: there is room now, or no receiver any more, and
    /// it stays readable.
    pub fn rearm(&self) -> bool {
        self.out.0.rearm(Side::Send)
    }

    /// Whether both are ends of the same tube.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.out.0, &other.out.0)
    }
}

pub(super) fn is_full<T>(tube: &Tube<T>) -> bool {
    tube.capacity().is_some_and(|capacity| tube.len() >= capacity)
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

    /// Receives the next message if there is one now; in a tube without slots, if a sender waits. It never waits for a
    /// message to be sent.
    /// In a tube without slots it may wait for another thread: if it meets a choice, until the choosing thread has handed the message over;
    /// and for the lock of its light threads, if the holder is descheduled.
    ///
    /// # Errors
    /// `Empty`, `Disconnected`.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.into.0.try_recv().map_err(try_recv_error)
    }

    crate::timed::timed! {
        /// As [`Receiver::recv`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`, `Disconnected`.
        pub fn recv_timeout, recv_deadline(&self) -> Result<T, RecvTimeoutError> { |until|
            match self.into.0.try_recv() {
                Err(Not::Now) => block::recv(&self.into, until()),
                other => other,
            }
            .map_err(recv_timeout_error)
        }
    }

    /// Whether there is no message in the tube.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room: always, in a tube without slots.
    pub fn is_full(&self) -> bool {
        is_full(&self.into.0)
    }

    /// How many messages there are in the tube.
    pub fn len(&self) -> usize {
        self.into.0.len()
    }

    /// How many messages there is room for; `None`: for any number.
    pub fn capacity(&self) -> Option<usize> {
        self.into.0.capacity()
    }

    /// A descriptor (an eventfd) that becomes readable when there is something to receive, or no sender any more: for
    /// epoll and runtimes. All receivers of the tube in this process share it. It is made on the first call; a tube
    /// without it costs nothing more. Only poll it: do not read it. It becomes readable once, and
    /// [`rearm`](Self::rearm) makes it ready for the next time.
    ///
    /// At a tube without slots a thread that waits so is not there to be met. If both sides wait so, `try_send` succeeds once for each
    /// `rearm` of the receivers, and leaves the message, which the next `try_recv`, `recv` or choice of any receiver gets. If all
    /// receivers go before that, it is dropped with the last.
    ///
    /// # Errors
    /// The system's, when it refuses a descriptor; `Unsupported` for clocks and [`never`](super::never()).
    ///
    /// ```
    /// let (tx, rx) = chappe_sync::tube::bounded(1);
    /// let descriptor = rx.descriptor()?; // register it
    /// while let Ok(message) = rx.try_recv() {
    ///     println!("{message}");
    /// }
    /// assert!(rx.rearm(), "nothing has come meanwhile: wait until the descriptor is readable");
    /// # tx.send(1u8).unwrap();
    /// # assert!(!rx.rearm());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        block::descriptor(&self.into.0, Side::Recv)
    }

    /// Makes the descriptor unreadable, and ready to become readable again. False: there is something to receive now, or no sender
    /// any more, and it stays readable.
    pub fn rearm(&self) -> bool {
        self.into.0.rearm(Side::Recv)
    }

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

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}

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
