//! The ends of a tube that has one sender, or one receiver: they cannot be cloned, nor used by two threads at once. A single sender at a
//! tube with slots needs no locked operation; a single receiver needs none if the sender is single as well.

use super::block;
use super::body::arms::{In, Out};
use super::body::{Not, Tube};
use super::ends::is_full;
use super::error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::lights::Side;
use super::refused::{recv_timeout_error, send_error, send_timeout_error, try_recv_error, try_send_error};
use crate::patience::Until;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
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

impl<T> fmt::Debug for SingleSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SingleSender { .. }")
    }
}

impl<T> fmt::Debug for SingleReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SingleReceiver { .. }")
    }
}

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

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// `Full`, `Disconnected`, both with the message.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.out.0.try_send_alone(message).or_else(|why| self.out.0.or_leave(why)).map_err(try_send_error)
    }

    crate::timed::timed! {
        /// As [`SingleSender::send`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`, `Disconnected`, both with the message.
        pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), SendTimeoutError<T>> { |until|
            match self.out.0.try_send_alone(message) {
                Ok(()) => Ok(()),
                Err((Not::Now, message)) => {
                    block::send(&self.out, message, until()).map_err(send_timeout_error)
                }
                Err(e) => Err(send_timeout_error(e)),
            }
        }
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

    /// Whether there is no message in the tube.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        is_full(&self.out.0)
    }

    /// How many messages there are in the tube.
    pub fn len(&self) -> usize {
        self.out.0.len()
    }

    /// How many messages there is room for.
    pub fn capacity(&self) -> Option<usize> {
        self.out.0.capacity()
    }
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

    /// Receives the next message if there is one now.
    ///
    /// # Errors
    /// `Empty`, `Disconnected`.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.into.0.try_recv_alone().map_err(try_recv_error)
    }

    crate::timed::timed! {
        /// As [`SingleReceiver::recv`], blocking at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`, `Disconnected`.
        pub fn recv_timeout, recv_deadline(&self) -> Result<T, RecvTimeoutError> { |until|
            match self.into.0.try_recv_alone() {
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

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        is_full(&self.into.0)
    }

    /// How many messages there are in the tube.
    pub fn len(&self) -> usize {
        self.into.0.len()
    }

    /// How many messages there is room for.
    pub fn capacity(&self) -> Option<usize> {
        self.into.0.capacity()
    }

    /// A descriptor (an eventfd) that becomes readable when there is something to receive, or no sender any more: for
    /// epoll and runtimes. All receivers of the tube in this process share it. It is made on the first call; a tube
    /// without it costs nothing more. Only poll it: do not read it. It becomes readable once, and
    /// [`rearm`](Self::rearm) makes it ready for the next time.
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

    /// The messages, blocking for each, until there is no sender any more.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// The messages that are there now, and those that come meanwhile.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}
