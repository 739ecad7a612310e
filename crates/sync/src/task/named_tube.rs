//! Tasks that send and receive through named tubes.
//!
//! An end is used by one thread at a time, and so by one task: these take it by an exclusive reference, and the future may go from thread to thread.
//! What the task waited for it takes in the name of its seat, and completes before it gives that up.

use super::wait::{Failed, Wait};
use crate::tube::named::{Fault, as_unwritten, fits, not_received, not_sent, number};
use crate::tube::named::{NotReceived, NotSent, Receiver, Sender};
use bytemuck::Pod;
use chappe_structures::record::Received;
use chappe_tube::named::arms::{Not, recv_taken, send_taken};
use chappe_wait::operation::Refused;
use chappe_wait::patience::Until;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task that sends a record.
struct Putting<'a, T: ?Sized> {
    sender: &'a mut Sender<T>,
    record: &'a [u8],
    wait: Wait,
}

/// A task that receives one, into a buffer that has room for it.
struct Getting<'a, T: ?Sized> {
    receiver: &'a mut Receiver<T>,
    buffer: &'a mut [u8],
    wait: Wait,
}

/// Why a wait gave nothing.
pub(super) fn fault(failed: Failed) -> Fault {
    match failed {
        Failed::Arena(e) => Fault::Arena(e),
        Failed::Refused(Refused::Inherited(_)) => Fault::Not(Not::Inherited),
        Failed::Refused(Refused::Dead(_)) => Fault::Not(Not::Dead),
        Failed::Refused(_) => Fault::Not(Not::Lost),
    }
}

/// What was done, if it was, or cannot be.
fn over<R>(done: Result<R, Fault>) -> Option<Poll<Result<R, Fault>>> {
    if let Err(Fault::Not(Not::Now)) = done { None } else { Some(Poll::Ready(done)) }
}

impl<T: ?Sized> Future for Putting<'_, T> {
    type Output = Result<(), Fault>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Putting { sender, record, wait } = self.get_mut();
        sender.poll_put(record, wait, cx)
    }
}

impl<T: ?Sized> Sender<T> {
    pub(super) fn poll_put(&mut self, record: &[u8], wait: &mut Wait, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let pipe = self.out.0;
        loop {
            if wait.may_take(&self.out)
                && let Some(ready) = over(self.put_now(record))
            {
                return ready;
            }
            let sent =
                wait.poll(&self.out, cx, |taken, seat| send_taken(&pipe, number(&seat.party().main), taken, record));
            let Poll::Ready(sent) = sent else { return Poll::Pending };
            // Now: its slot was passed over, and there is no other.
            if let Some(ready) = over(sent.map_err(fault).and_then(|sent| sent.map_err(Fault::Not))) {
                return ready;
            }
        }
    }
}

impl<T: ?Sized> Drop for Putting<'_, T> {
    fn drop(&mut self) {
        self.wait.end(&self.sender.out);
    }
}

impl<T: ?Sized> Future for Getting<'_, T> {
    type Output = Result<Received, Fault>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Getting { receiver, buffer, wait } = self.get_mut();
        receiver.poll_get(buffer, wait, cx)
    }
}

impl<T: ?Sized> Receiver<T> {
    pub(super) fn poll_get(
        &mut self,
        buffer: &mut [u8],
        wait: &mut Wait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, Fault>> {
        let pipe = self.into.0;
        loop {
            if wait.may_take(&self.into)
                && let Some(ready) = over(self.get_now(as_unwritten(buffer)))
            {
                return ready;
            }
            let received = wait.poll(&self.into, cx, |taken, _seat| recv_taken(&pipe, taken, as_unwritten(buffer)));
            let Poll::Ready(received) = received else { return Poll::Pending };
            if let Some(ready) = over(received.map_err(fault).and_then(|got| got.map_err(Fault::Not))) {
                return ready;
            }
        }
    }
}

impl<T: ?Sized> Drop for Getting<'_, T> {
    fn drop(&mut self) {
        self.wait.end(&self.receiver.into);
    }
}

impl<T: ?Sized> Sender<T> {
    pub(super) async fn put_as_task<M>(
        &mut self,
        record: &[u8],
        message: impl FnOnce() -> M,
    ) -> Result<(), NotSent<M>> {
        let pipe = self.out.0;
        let sent = Putting { sender: self, record, wait: Wait::new(true, 1) }.await;
        sent.map_err(|fault| not_sent(&pipe, fault, Until::Forever, message()))
    }
}

impl<T: ?Sized> Receiver<T> {
    async fn get_as_task(&mut self, buffer: &mut [u8]) -> Result<Received, NotReceived> {
        let received = Getting { receiver: self, buffer, wait: Wait::new(true, 1) }.await;
        received.map_err(|fault| not_received(&self.into.at, fault, Until::Forever))
    }
}

impl<T: Pod + Send> Sender<T> {
    /// As [`Sender::send`], for a task: sends a message, or waits for room without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on; a sender that comes just then may overtake it, as there. A
    /// future that is dropped before it was ready has sent nothing, and room that it was told of in that moment goes to the next sender. If the process
    /// dies, so does the wait. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// As [`Sender::send`]. `Arena` if the arena has no place left, and no other task of the process has one at this end.
    pub async fn send_async(&mut self, message: T) -> Result<(), NotSent<T>> {
        self.put_as_task(bytemuck::bytes_of(&message), || message).await
    }
}

impl Sender<[u8]> {
    /// Sends these bytes as one record: like the `send_async` of a tube of plain data.
    ///
    /// # Errors
    /// As `send`; `Arena` as there.
    pub async fn send_async(&mut self, record: &[u8]) -> Result<(), NotSent> {
        fits(&self.out.0, record.len())?;
        self.put_as_task(record, || ()).await
    }
}

impl<T: Pod + Send> Receiver<T> {
    /// As [`Receiver::recv`], for a task: receives the next message, or waits for one without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on; a receiver that comes just then may overtake it, as there. A
    /// future that is dropped before it was ready has received nothing, and a message that it was told of in that moment goes to the next receiver. If
    /// the process dies, so does the wait. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// As [`Receiver::recv`]. `Arena` if the arena has no place left, and no other task of the process has one at this end.
    pub async fn recv_async(&mut self) -> Result<T, NotReceived> {
        let mut message = T::zeroed();
        self.get_as_task(bytemuck::bytes_of_mut(&mut message)).await?;
        Ok(message)
    }
}

impl Receiver<[u8]> {
    /// Receives the next record: like the `recv_async` of a tube of plain data.
    ///
    /// # Errors
    /// As `recv`; `Arena` as there.
    pub async fn recv_async(&mut self) -> Result<Vec<u8>, NotReceived> {
        self.recv_redelivered_async().await.map(|(record, _)| record)
    }

    /// As [`Receiver::recv_async`], with whether a receiver died that had the record before: it may have been done already.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_redelivered_async(&mut self) -> Result<(Vec<u8>, bool), NotReceived> {
        let mut record = vec![0; self.into.0.ring.size() as usize];
        let Received { len, again } = self.get_as_task(&mut record).await?;
        record.truncate(len as usize);
        Ok((record, again))
    }
}
