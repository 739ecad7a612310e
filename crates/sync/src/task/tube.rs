//! Tasks that send and receive through the tubes of this process.
//!
//! At a tube without slots, a task that sends is met, as a thread is: its message lies in a letter, where the thread that meets it takes it. Once it is
//! met it has sent, and waits for nothing more. A task that receives is never met (I5 of the meetings).

use super::wait::{Failed, Wait};
use crate::tube::{Receiver, RecvError, SendError, Sender, SingleReceiver, SingleSender};
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Body, Not, Tube};
use chappe_tube::letter::Letter;
use chappe_wait::operation::{Refused, Taken};
use chappe_wait::tasks::timer::Alarm;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The future of [`Sender::send_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Sending<'a, T> {
    out: &'a Out<Arc<Tube<T>>>,
    message: Message<T>,
    wait: Wait,
}

/// The future of [`Receiver::recv_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Receiving<'a, T> {
    into: &'a In<Arc<Tube<T>>>,
    wait: Wait,
    /// Of a clock.
    alarm: Option<Box<Alarm>>,
}

// SAFETY: the end is one that threads share, or is this future's alone meanwhile; the message goes from thread to thread.
unsafe impl<T: Send> Send for Sending<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Receiving<'_, T> {}
/// A message is moved, never pinned.
impl<T> Unpin for Sending<'_, T> {}

/// Where the message of a task that sends is.
enum Message<T> {
    Here(T),
    /// Where a thread finds it that meets the task.
    Posted(Letter<T>),
    Sent,
}

impl<T> Message<T> {
    /// The message, from wherever it is: nobody has met it.
    fn take(&mut self) -> T {
        match std::mem::replace(self, Message::Sent) {
            Message::Here(message) => message,
            Message::Posted(letter) => letter.open(),
            Message::Sent => unreachable!("it was sent"),
        }
    }

    /// The packet in which it was posted.
    fn packet(&self) -> u64 {
        if let Message::Posted(letter) = self { letter.address() } else { 0 }
    }

    /// Whether the task was met: then it has sent.
    fn is_met(&mut self, taken: Taken) -> bool {
        let packet = self.packet();
        let is = packet != 0 && taken.word.0 == packet;
        if is && let Message::Posted(letter) = std::mem::replace(self, Message::Sent) {
            letter.leave();
        }
        is
    }
}

/// Nobody will call: the task is to be polled again.
pub(super) fn soon<R>(cx: &Context<'_>) -> Poll<R> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

impl<T> Sender<T> {
    /// As [`Sender::send`], for a task: sends a message, or waits for room without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads, from the first poll on; a sender that comes just then may overtake it, as there. A future that is
    /// dropped before it was ready has sent nothing, and drops the message; room that it was told of in that moment goes to the next sender. In a tube
    /// without slots it may have been met in that moment: then the message was received, as one whose sender went on; [`Sending::cancel`] tells the two
    /// apart. In a forked child, which has its own copy of the tube, an inherited future begins anew.
    ///
    /// If the private arena has no place left for the task, and no other task waits there, it is woken at once to try again.
    ///
    /// # Errors
    /// The message, if there is no receiver any more, or the last one goes meanwhile.
    pub fn send_async(&self, message: T) -> Sending<'_, T> {
        sending(&self.out, message)
    }
}

impl<T> SingleSender<T> {
    /// As [`Sender::send_async`].
    ///
    /// # Errors
    /// As there.
    pub fn send_async(&mut self, message: T) -> Sending<'_, T> {
        sending(&self.out, message)
    }
}

impl<T> Receiver<T> {
    /// As [`Receiver::recv`], for a task: receives the next message, or waits for one without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads, from the first poll on; a receiver that comes just then may overtake it, as there. A future that is
    /// dropped has received nothing, and a message that it was told of in that moment goes to the next receiver. In a tube without slots, a thread that
    /// waits to receive is met before a task, and `try_send` finds no task: a sender that waits does. In a forked child, which has its own copy of the
    /// tube, an inherited future begins anew. Of a clock ([`after`](crate::tube::after) and its kin), one thread of the process wakes all tasks.
    ///
    /// If the private arena has no place left for the task, and no other task waits there, it is woken at once to try again.
    ///
    /// # Errors
    /// If there is no message and no sender any more, or the last one goes meanwhile.
    pub fn recv_async(&self) -> Receiving<'_, T> {
        receiving(&self.into)
    }
}

impl<T> SingleReceiver<T> {
    /// As [`Receiver::recv_async`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_async(&mut self) -> Receiving<'_, T> {
        receiving(&self.into)
    }
}

pub(super) fn sending<T>(out: &Out<Arc<Tube<T>>>, message: T) -> Sending<'_, T> {
    Sending { out, message: Message::Here(message), wait: Wait::new(false, 1) }
}

fn receiving<T>(into: &In<Arc<Tube<T>>>) -> Receiving<'_, T> {
    Receiving { into, wait: Wait::new(false, 1), alarm: None }
}

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Sending { out, message, wait } = self.get_mut();
        let tube = &*out.0;
        loop {
            if wait.may_take(*out) {
                match tube.try_send(message.take()) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err((Not::Ever, back)) => return Poll::Ready(Err(SendError(back))),
                    Err((Not::Now, back)) => *message = Message::Here(back),
                }
            }
            if wait.stay.is_none() {
                if tube.senders.prepare().is_err() {
                    return soon(cx);
                }
                if tube.has_meetings() && message.packet() == 0 {
                    *message = Message::Posted(Letter::new(message.take()));
                }
                wait.packet = message.packet();
            }
            let Poll::Ready(over) = wait.poll(*out, cx, |taken, _| taken) else { return Poll::Pending };
            match over {
                Ok(taken) if message.is_met(taken) => return Poll::Ready(Ok(())),
                Ok(taken) => match tube.send_taken(taken, message.take()) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err((Not::Ever, back)) => return Poll::Ready(Err(SendError(back))),
                    // Its slot was passed over, and there is no other now.
                    Err((Not::Now, back)) => *message = Message::Here(back),
                },
                // A copy of the parent's wait.
                Err(Failed::Refused(Refused::Inherited(_))) => {}
                Err(_) => return soon(cx),
            }
        }
    }
}

impl<T> Sending<'_, T> {
    /// Ends the wait: gives the message back, unless it was sent. In a tube without slots that may have been a moment ago, since the last poll. `None`, too,
    /// once the future was ready.
    #[must_use = "the message, if it was not sent"]
    pub fn cancel(mut self) -> Option<T> {
        self.end()
    }

    fn end(&mut self) -> Option<T> {
        if let Some(taken) = self.wait.end(self.out) {
            self.message.is_met(taken);
        }
        match std::mem::replace(&mut self.message, Message::Sent) {
            Message::Here(message) => Some(message),
            Message::Posted(letter) => Some(letter.open()),
            Message::Sent => None,
        }
    }
}

impl<T> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl<T> Future for Receiving<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Receiving { into, wait, alarm } = self.get_mut();
        let tube = &*into.0;
        let over = |received: Result<T, Not>| match received {
            Err(Not::Now) => None,
            other => Some(Poll::Ready(other.map_err(|_| RecvError))),
        };
        loop {
            if wait.may_take(*into)
                && let Some(ready) = over(tube.try_recv())
            {
                return ready;
            }
            match &tube.body {
                Body::Never => return Poll::Pending,
                Body::Clock(clock) => {
                    let Some(due) = clock.due() else { return Poll::Pending };
                    if !alarm.as_ref().is_some_and(|alarm| alarm.is_for(due, cx.waker())) {
                        *alarm = match Alarm::set(due, cx.waker()) {
                            Ok(alarm) => Some(Box::new(alarm)),
                            Err(_) => return soon(cx),
                        };
                    }
                    // It may have struck before the waker was noted, for this receiver or another.
                    match over(tube.try_recv()) {
                        None if clock.due() == Some(due) => return Poll::Pending,
                        None => continue,
                        Some(ready) => return ready,
                    }
                }
                _ if wait.stay.is_none() && tube.receivers.prepare().is_err() => return soon(cx),
                _ => {}
            }
            let Poll::Ready(ended) = wait.poll(*into, cx, |taken, _| taken) else { return Poll::Pending };
            match ended {
                Ok(taken) => {
                    if let Some(ready) = over(tube.recv_taken(taken)) {
                        return ready;
                    }
                }
                // A copy of the parent's wait.
                Err(Failed::Refused(Refused::Inherited(_))) => {}
                Err(_) => return soon(cx),
            }
        }
    }
}

impl<T> Drop for Receiving<'_, T> {
    fn drop(&mut self) {
        self.wait.end(self.into);
    }
}
