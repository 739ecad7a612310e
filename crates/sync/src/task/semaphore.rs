//! Tasks that wait for semaphores.

use super::wait::{Failed, Wait};
use crate::error::DownError;
use crate::semaphore::Semaphore;
use chappe_wait::operation::Refused;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Semaphore::down_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Down<'a> {
    semaphore: &'a Semaphore,
    wait: Wait,
}

impl Semaphore {
    /// As [`Semaphore::down`], for a task: consumes a saved wake-up, or waits for one without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on. A future that is dropped consumes nothing: a
    /// wake-up that it was handed in that moment goes to the next waiter. If the process dies, its tasks' places go with it, and a wake-up
    /// that one of them was handed goes to the next waiter. In a forked child, a future that it inherited is refused.
    ///
    /// On a private semaphore for which tasks wait, a signal handler must not call `up`: that calls the task's waker.
    ///
    /// # Errors
    /// As [`Semaphore::down`]. `Arena` if its arena has no place left, and no other task of the process has one at this object.
    pub fn down_async(&self) -> Down<'_> {
        Down { semaphore: self, wait: Wait::new(self.dies(), 1) }
    }
}

impl Future for Down<'_> {
    type Output = Result<(), DownError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Down { semaphore, wait } = self.get_mut();
        if wait.may_take(*semaphore) {
            match semaphore.down_or_wait() {
                Err(DownError::WouldBlock) => {}
                over => return Poll::Ready(over),
            }
        }
        wait.poll(*semaphore, cx, |_, _| ()).map_err(|failed| match failed {
            Failed::Arena(e) => DownError::Arena(e),
            Failed::Refused(Refused::Inherited(_)) => DownError::Inherited { semaphore: semaphore.name() },
            Failed::Refused(_) => semaphore.dead(),
        })
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        self.wait.end(self.semaphore);
    }
}
