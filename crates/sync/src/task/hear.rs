//! A task's wait for a notification.

use super::wait::{Failed, Wait};
use crate::awaited::Hears;
use chappe_wait::operation::Site;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A wait for a notification of what is at this place, and what the task keeps until it would hear one.
pub struct Hear<K> {
    at: Hears,
    /// Once it waits: none.
    pub kept: Option<K>,
    then: fn(K),
    wait: Wait,
}

impl<K> Hear<K> {
    /// `then` follows once the member's bit is set, within the first poll.
    pub fn new(at: Site, kept: K, then: fn(K)) -> Hear<K> {
        Hear { at: Hears(at), kept: Some(kept), then, wait: Wait::always_seated() }
    }
}

impl<K: Unpin> Future for Hear<K> {
    type Output = Result<(), Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Hear { at, kept, then, wait } = self.get_mut();
        let over = wait.poll(at, cx, |_, _| ());
        // I1 of the condition variable: the member's bit is set by now. An error of the first poll leaves what was kept to the caller.
        if !matches!(over, Poll::Ready(Err(_))) {
            kept.take().into_iter().for_each(*then);
        }
        over
    }
}

impl<K> Drop for Hear<K> {
    fn drop(&mut self) {
        self.wait.end(&self.at);
    }
}
