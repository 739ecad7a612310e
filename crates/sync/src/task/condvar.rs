//! Tasks that wait to be notified.

use super::hear::Hear;
use super::mutex::inherited;
use super::wait::Failed;
use crate::condition::Condvar;
use crate::error::LockError;
use crate::mutex::{OwnedLockResult, OwnedMutexGuard};
use chappe_wait::operation::{Refused, Site};

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
        match self.hear(guard).await {
            Ok(()) => mutex.lock_async().await,
            Err((Failed::Arena(e), _)) => Err(LockError::Arena(e)),
            Err((Failed::Refused(Refused::Inherited(_)), _)) => Err(inherited(mutex)),
            Err((Failed::Refused(_), kept)) => {
                let guard = match kept {
                    Some(guard) => guard,
                    None => mutex.lock_async().await?,
                };
                Err(LockError::CondvarDead { condvar: self.name(), guard })
            }
        }
    }

    /// As [`Condvar::wait_async`], but the mutex stays unlocked: a future that is dropped passes its notification on at any time.
    ///
    /// # Errors
    /// As there; the mutex is unlocked in any case.
    #[doc(hidden)]
    pub async fn hear_async<T>(&self, guard: OwnedMutexGuard<'_, T>) -> Result<(), LockError<()>> {
        let mutex = guard.mutex();
        self.hear(guard).await.map_err(|(failed, _kept)| match failed {
            Failed::Arena(e) => LockError::Arena(e),
            Failed::Refused(Refused::Inherited(_)) => inherited(mutex),
            Failed::Refused(_) => LockError::CondvarDead { condvar: self.name(), guard: () },
        })
    }

    /// Unlocks the mutex, and waits to be notified. An error of the first poll comes with the guard.
    async fn hear<'a, T>(&self, guard: OwnedMutexGuard<'a, T>) -> Result<(), (Failed, Option<OwnedMutexGuard<'a, T>>)> {
        let mut hear = Hear::new(Site::of(self.0.map, self.0.place), guard, drop);
        let heard = (&mut hear).await;
        heard.map_err(|failed| (failed, hear.kept.take()))
    }
}
