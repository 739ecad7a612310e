//! The ends of a tube that has one sender, or one receiver: they cannot be cloned, nor used by two threads at once. A single sender at a
//! tube with slots needs no locked operation; a single receiver needs none if the sender is single as well.

use super::parts::{opaque, receiving, sending};
use chappe_tube::block;
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Not, Tube};
use chappe_tube::error::{RecvError, SendError};
use chappe_tube::refused::send_error;
use chappe_wait::patience::Until;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A marker: used by one thread at a time.
type Single = PhantomData<std::cell::Cell<()>>;

/// The only sender of a tube: see [`Sender`](super::Sender).
pub struct SingleSender<T> {
    pub(crate) out: Out<Arc<Tube<T>>>,
    single: Single,
}

/// The only receiver of a tube: see [`Receiver`](super::Receiver).
pub struct SingleReceiver<T> {
    pub(crate) into: In<Arc<Tube<T>>>,
    single: Single,
}

// SAFETY: what goes through is sent from one thread to another, and is nowhere else meanwhile.
unsafe impl<T: Send> Send for SingleSender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SingleReceiver<T> {}
// A message is in the tube, or it is not: a panic leaves nothing half-done.
impl<T> UnwindSafe for SingleSender<T> {}
impl<T> RefUnwindSafe for SingleSender<T> {}
impl<T> UnwindSafe for SingleReceiver<T> {}
impl<T> RefUnwindSafe for SingleReceiver<T> {}

opaque!(SingleSender<T>: "SingleSender", SingleReceiver<T>: "SingleReceiver");

impl<T> Drop for SingleSender<T> {
    fn drop(&mut self) {
        self.out.0.senders.leave();
        self.out.0.no_sender();
    }
}

impl<T> Drop for SingleReceiver<T> {
    fn drop(&mut self) {
        self.into.0.receivers.leave();
        self.into.0.no_receiver();
    }
}

impl<T> SingleSender<T> {
    pub(super) fn new(tube: Arc<Tube<T>>) -> SingleSender<T> {
        SingleSender { out: Out(tube), single: PhantomData }
    }

    /// Sends a message; blocks while there is no room for it: see [`Sender::send`](super::Sender::send).
    ///
    /// # Errors
    /// The message, if there is no receiver any more.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.out.0.try_send_alone(message) {
            Ok(()) => Ok(()),
            Err((Not::Now, message)) => block::send(&self.out, message, Until::Forever).map_err(send_error),
            Err(e) => Err(send_error(e)),
        }
    }

    sending!(try_send_alone);
}

impl<T> SingleReceiver<T> {
    pub(super) fn new(tube: Arc<Tube<T>>) -> SingleReceiver<T> {
        SingleReceiver { into: In(tube), single: PhantomData }
    }

    /// Receives the next message; blocks while there is none: see [`Receiver::recv`](super::Receiver::recv).
    ///
    /// # Errors
    /// If there is no message and no sender any more.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.into.0.try_recv_alone() {
            Ok(message) => Ok(message),
            Err(Not::Now) => block::recv(&self.into, Until::Forever).map_err(|_| RecvError),
            Err(Not::Ever) => Err(RecvError),
        }
    }

    receiving!(try_recv_alone);

    /// The messages, blocking for each, until there is no sender any more.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// The messages that are there now, and those that come meanwhile.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}
