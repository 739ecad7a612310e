//! The ends of tubes as streams and sinks of the `futures` crates: each is a wait of a task, one after the other.

use super::subscription::Hearing;
use super::tube::{Receiving, Sending, sending};
use super::wait::Wait;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{self, NotReceived, NotSent, Record, not_received, not_sent};
use crate::tube::{Receiver, SendError, Sender, SingleReceiver, SingleSender};
use chappe_tube::body::Tube;
use chappe_tube::body::arms::Out;
use chappe_wait::patience::Until;
use futures_core::Stream;
use futures_sink::Sink;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The messages of a tube of this process: see [`Receiver::stream`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct Messages<'a, T>(Receiving<'a, T>);

/// Where messages go into a tube of this process: see [`Sender::sink`].
#[must_use = "a sink does nothing unless it is polled"]
pub struct Sends<'a, T> {
    out: &'a Out<Arc<Tube<T>>>,
    sending: Option<Sending<'a, T>>,
}

/// The messages of a tube that processes share: see [`named::Receiver::stream`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct Records<'a, T: Record + ?Sized> {
    receiver: &'a mut named::Receiver<T>,
    room: Vec<u8>,
    wait: Wait,
    is_over: bool,
}

/// Where messages go into a tube that processes share: see [`named::Sender::sink`].
#[must_use = "a sink does nothing unless it is polled"]
pub struct Puts<'a, T: Record + ?Sized> {
    sender: &'a mut named::Sender<T>,
    message: Option<T::Owned>,
    wait: Wait,
}

/// The messages of a broadcast: see [`Subscription::stream`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct Heard<'a, T: Record + ?Sized> {
    hearing: Hearing<'a, T>,
    is_over: bool,
}

/// A message is moved, never pinned.
impl<T> Unpin for Sends<'_, T> {}
/// As above.
impl<T: Record + ?Sized> Unpin for Puts<'_, T> {}

impl<T> Receiver<T> {
    /// The messages, as a stream: each as by [`Receiver::recv_async`]. It ends when all senders have gone and nothing is left. A stream that is dropped
    /// has taken no message that it did not give.
    pub fn stream(&self) -> Messages<'_, T> {
        Messages(self.recv_async())
    }
}

impl<T> SingleReceiver<T> {
    /// As [`Receiver::stream`].
    pub fn stream(&mut self) -> Messages<'_, T> {
        Messages(self.recv_async())
    }
}

impl<T> Sender<T> {
    /// Where messages go in, as a sink: each as by [`Sender::send_async`]. It keeps one message until there is room for it, or, in a tube without slots, until
    /// it is received: a flush waits for that. A sink that is dropped drops this message.
    pub fn sink(&self) -> Sends<'_, T> {
        Sends { out: &self.out, sending: None }
    }
}

impl<T> SingleSender<T> {
    /// As [`Sender::sink`].
    pub fn sink(&mut self) -> Sends<'_, T> {
        Sends { out: &self.out, sending: None }
    }
}

impl<T: Record + ?Sized> named::Receiver<T> {
    /// The messages, as a stream: each as by `recv_async`. It ends when all senders have gone and nothing is left; an error, also that one of them died,
    /// is its last item. A stream that is dropped has taken no message that it did not give.
    pub fn stream(&mut self) -> Records<'_, T> {
        let room = vec![0; self.into.0.ring.size() as usize];
        Records { receiver: self, room, wait: Wait::new(true, 1), is_over: false }
    }
}

impl<T: Record + ?Sized> named::Sender<T> {
    /// Where messages go in, as a sink: each as by `send_async`. It keeps one message until there is room for it; a flush waits for that. A sink that is
    /// dropped drops this message.
    pub fn sink(&mut self) -> Puts<'_, T> {
        Puts { sender: self, message: None, wait: Wait::new(true, 1) }
    }
}

impl<T: Record + ?Sized> Subscription<T> {
    /// The messages that it wants, as a stream: each as by [`Subscription::recv_async`]. It ends when all publishers have gone; an error, also that one of
    /// them died, is its last item.
    pub fn stream(&mut self) -> Heard<'_, T> {
        Heard { hearing: Hearing::new(self), is_over: false }
    }
}

impl<T> Stream for Messages<'_, T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // Ready, it begins anew.
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// What an end of a tube that processes share has received, as an item.
fn item<M>(received: Result<M, NotReceived>, is_over: &mut bool) -> Option<Result<M, NotReceived>> {
    *is_over = received.is_err();
    if let Err(NotReceived::Disconnected { .. }) = received { None } else { Some(received) }
}

impl<T: Record + ?Sized> Stream for Records<'_, T> {
    type Item = Result<T::Owned, NotReceived>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Records { receiver, room, wait, is_over } = self.get_mut();
        if *is_over {
            return Poll::Ready(None);
        }
        let received = ready!(receiver.poll_get(room, wait, cx));
        let received = received.map_err(|fault| not_received(&receiver.into.at, fault, Until::Forever));
        Poll::Ready(item(received.map(|got| named::as_owned::<T>(&room[..got.len as usize])), is_over))
    }
}

impl<T: Record + ?Sized> Drop for Records<'_, T> {
    fn drop(&mut self) {
        self.wait.end(&self.receiver.into);
    }
}

impl<T: Record + ?Sized> Stream for Heard<'_, T> {
    type Item = Result<T::Owned, NotReceived>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Heard { hearing, is_over } = self.get_mut();
        if *is_over {
            return Poll::Ready(None);
        }
        let received = ready!(Pin::new(hearing).poll(cx));
        Poll::Ready(item(received, is_over))
    }
}

impl<T> Sink<T> for Sends<'_, T> {
    type Error = SendError<T>;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        self.poll_flush(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: T) -> Result<(), SendError<T>> {
        assert!(self.sending.is_none(), "a sink takes a message only after it was found ready");
        let me = self.get_mut();
        me.sending = Some(sending(me.out, message));
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let me = self.get_mut();
        let Some(sending) = &mut me.sending else { return Poll::Ready(Ok(())) };
        let sent = ready!(Pin::new(sending).poll(cx));
        me.sending = None;
        Poll::Ready(sent)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        self.poll_flush(cx)
    }
}

impl<T: Record + ?Sized> Sink<T::Owned> for Puts<'_, T> {
    type Error = NotSent<T::Owned>;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), NotSent<T::Owned>>> {
        self.poll_flush(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: T::Owned) -> Result<(), NotSent<T::Owned>> {
        assert!(self.message.is_none(), "a sink takes a message only after it was found ready");
        let me = self.get_mut();
        match named::fits(&me.sender.out.0, T::__bytes(&message).len()) {
            Ok(()) => me.message = Some(message),
            Err(NotSent::TooLong { tube, len, most, .. }) => return Err(NotSent::TooLong { tube, len, most, message }),
            Err(NotSent::TooShort { tube, len, wanted, .. }) => {
                return Err(NotSent::TooShort { tube, len, wanted, message });
            }
            Err(_) => unreachable!("a length fits, or is too long or too short"),
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), NotSent<T::Owned>>> {
        let Puts { sender, message, wait } = self.get_mut();
        let Some(record) = &message else { return Poll::Ready(Ok(())) };
        let sent = ready!(sender.poll_put(T::__bytes(record), wait, cx));
        let record = message.take().expect("seen above");
        Poll::Ready(sent.map_err(|fault| not_sent(&sender.out.0, fault, Until::Forever, record)))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), NotSent<T::Owned>>> {
        self.poll_flush(cx)
    }
}

impl<T: Record + ?Sized> Drop for Puts<'_, T> {
    fn drop(&mut self) {
        self.wait.end(&self.sender.out);
    }
}
