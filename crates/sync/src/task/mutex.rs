//! Tasks that lock mutexes.

use super::wait::{Failed, Wait};
use crate::awaited::Locks;
use crate::contend::need;
use crate::error::LockError;
use crate::mutex::{Mutex, OwnedLockResult};
use chappe_arena::Joined;
use chappe_plat::clock;
use chappe_wait::attachment::process_attachment;
use chappe_wait::operation::{Arm, Refused, Site};
use chappe_wait::owner::held_by;
use chappe_wait::wait::Party;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Mutex::lock_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Lock<'a, T> {
    mutex: &'a Mutex<T>,
    /// Once it waits: the member that stands for the process, and since when.
    begun: Option<(Joined, u64)>,
    wait: Wait,
}

impl<T> Mutex<T> {
    /// As [`Mutex::lock`], for a task: locks it for the process, or waits until it is free without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on; as there, threads and tasks that arrive may overtake it, until
    /// it has waited for half a millisecond. A task that has no place yet (see [`task`](crate::task)) is overtaken until the first of those that have one
    /// has waited so long; its own time counts from its first poll. A future that is dropped locks nothing: a lock that it was given in that moment goes to
    /// the next waiter. The guard may go from thread to thread, and over an `.await`. The lock belongs to the process: when that dies, the next
    /// holder is told ([`LockError::OwnerDied`]).
    /// A guard that is dropped while its thread panics leaves the data torn, as a thread's does. In a forked child, a future that it inherited is
    /// refused.
    ///
    /// A task that locks it twice waits for itself: of tasks, [`LockError::Deadlock`] is not told.
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; `Condemned`, `Dead`, `Inherited`; `Arena` if its arena has no place left, and no other task of the process has
    /// one at this mutex.
    pub fn lock_async(&self) -> Lock<'_, T> {
        Lock { mutex: self, begun: None, wait: Wait::new(true, 0) }
    }
}

/// As what its task waits for.
fn locks<T>(mutex: &Mutex<T>, process: Joined) -> Locks {
    Locks::new(Site::of(mutex.handle.map, mutex.handle.place), held_by(process.index, process.generation))
}

/// The error of a task's wait that a forked child inherited.
pub(super) fn inherited<T, G>(mutex: &Mutex<T>) -> LockError<G> {
    LockError::Inherited { mutex: mutex.handle.shown() }
}

impl<'a, T> Future for Lock<'a, T> {
    type Output = OwnedLockResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Lock { mutex, begun, wait } = self.get_mut();
        let (process, since) = match (*begun, &wait.stay) {
            (Some((process, since)), Some(_)) => (process, Some(since)),
            _ => match process_attachment(mutex.handle.map) {
                Ok(process) => (process, None),
                Err(e) => return Poll::Ready(Err(LockError::Arena(e))),
            },
        };
        let locks = locks(mutex, process);
        if wait.stay.is_none()
            && !matches!(locks.attempt(&Party::nobody(mutex.handle.map), false), Err(Refused::NoneFree))
        {
            return Poll::Ready(mutex.awaited(locks.outcome(), locks.mine));
        }
        let since = since.unwrap_or_else(clock::now);
        *begun = Some((process, since));
        wait.need = need(since);
        let Poll::Ready(over) = wait.poll(&locks, cx, |_, _| ()) else { return Poll::Pending };
        Poll::Ready(match over {
            Ok(()) => mutex.awaited(locks.outcome(), locks.mine),
            Err(Failed::Arena(e)) => Err(LockError::Arena(e)),
            Err(Failed::Refused(Refused::Inherited(_))) => Err(inherited(mutex)),
            Err(Failed::Refused(_)) => {
                locks.refused();
                mutex.awaited(locks.outcome(), locks.mine)
            }
        })
    }
}

impl<T> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        if let Some((process, _)) = self.begun {
            let locks = locks(self.mutex, process);
            self.wait.end(&locks);
        }
    }
}
