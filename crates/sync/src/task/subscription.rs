//! Tasks that receive from broadcasts.

use super::named_tube::fault;
use super::wait::Wait;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{NotReceived, Record};
use chappe_wait::patience::Until;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task that receives the next message which its subscription wants. It may be polled again for the one after that.
pub(super) struct Hearing<'a, T: Record + ?Sized> {
    subscription: &'a mut Subscription<T>,
    /// It never stands: what comes passes its own filter, not that of the task before it, and is for both.
    wait: Wait,
}

impl<'a, T: Record + ?Sized> Hearing<'a, T> {
    pub fn new(subscription: &'a mut Subscription<T>) -> Hearing<'a, T> {
        Hearing { subscription, wait: Wait::always_seated() }
    }
}

impl<T: Record + ?Sized> Future for Hearing<'_, T> {
    type Output = Result<T::Owned, NotReceived>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Hearing { subscription, wait } = self.get_mut();
        loop {
            if wait.stay.is_none() {
                match subscription.try_recv() {
                    Err(NotReceived::Empty) => {}
                    over => return Poll::Ready(over),
                }
            }
            match wait.poll(&subscription.heard, cx, |_, _| ()) {
                Poll::Pending => return Poll::Pending,
                // The subscription holds the message, or all publishers have gone.
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failed)) => {
                    return Poll::Ready(Err(subscription.not_heard(fault(failed), Until::Forever)));
                }
            }
        }
    }
}

impl<T: Record + ?Sized> Drop for Hearing<'_, T> {
    fn drop(&mut self) {
        self.wait.end(&self.subscription.heard);
    }
}

impl<T: Record + ?Sized> Subscription<T> {
    /// As [`Subscription::recv`], for a task: receives the next message that it wants, or waits for one without blocking the thread that polls.
    ///
    /// A future that is dropped has received nothing: the message that it was told of in that moment is the subscription's next. The process's
    /// subscriptions each have a place of the arena while a task waits. If the process dies, so does the wait. In a forked child, a future that it
    /// inherited is refused.
    ///
    /// # Errors
    /// As [`Subscription::recv`]. `Arena` if the arena has no place left.
    pub async fn recv_async(&mut self) -> Result<T::Owned, NotReceived> {
        Hearing::new(self).await
    }
}
