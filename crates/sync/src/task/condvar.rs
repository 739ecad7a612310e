//! Tasks that wait to be notified.

use super::mutex::inherited;
use super::wait::{Failed, Wait};
use crate::awaited::Hears;
use crate::condition::Condvar;
use crate::error::LockError;
use crate::mutex::{OwnedLockResult, OwnedMutexGuard};
use chappe_wait::operation::{Refused, Site};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task's wait for a notification. It gives the mutex up when one would be heard.
struct Hear<'c, 'a, T> {
    condvar: &'c Condvar,
    guard: Option<OwnedMutexGuard<'a, T>>,
    wait: Wait,
}

fn site(condvar: &Condvar) -> Site {
    Site::of(condvar.0.map, condvar.0.place)
}

impl<T> Future for Hear<'_, '_, T> {
    type Output = Result<(), Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Hear { condvar, guard, wait } = self.get_mut();
        let over = wait.poll(&Hears(site(condvar)), cx, |_, _| ());
        // I1 of the condition variable: the member's bit is set by now. An error of the first poll keeps the guard: it is told with it.
        if !matches!(over, Poll::Ready(Err(_))) {
            *guard = None;
        }
        over
    }
}

impl<T> Drop for Hear<'_, '_, T> {
    fn drop(&mut self) {
        self.wait.end(&Hears(site(self.condvar)));
    }
}

impl Condvar {
    /// As [`Condvar::wait`], for a task: unlocks the mutex, waits to be notified without blocking the thread that polls, and locks the mutex
    /// again. The first two steps are one, at the first poll: until then the mutex stays locked.
    ///
    /// The task waits in one line with the threads of all processes. A future that is dropped before its first poll unlocks the mutex. One that is dropped
    /// later leaves the mutex alone, and a notification that it was handed and has not acted on goes to the next waiter, unless it was waiting for the
    /// mutex already. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// As [`Mutex::lock_async`](crate::Mutex::lock_async); `Arena` if the arena has no place for the task; `CondvarDead`, with the guard, if the condition variable is or gets removed.
    pub async fn wait_async<'a, T>(&self, guard: OwnedMutexGuard<'a, T>) -> OwnedLockResult<'a, T> {
        let mutex = guard.mutex();
        let mut hear = Hear { condvar: self, guard: Some(guard), wait: Wait::always_seated() };
        let heard = (&mut hear).await;
        let kept = hear.guard.take();
        drop(hear);
        match heard {
            Ok(()) => mutex.lock_async().await,
            Err(Failed::Arena(e)) => Err(LockError::Arena(e)),
            Err(Failed::Refused(Refused::Inherited(_))) => Err(inherited(mutex)),
            Err(Failed::Refused(_)) => {
                let guard = match kept {
                    Some(guard) => guard,
                    None => mutex.lock_async().await?,
                };
                Err(LockError::CondvarDead { condvar: self.name(), guard })
            }
        }
    }
}
