//! Tasks that lock mutexes.

use super::wait::{Failed, Wait};
use crate::awaited::Locks;
use crate::contend::need;
use crate::error::LockError;
use crate::mutex::{Mutex, OwnedLockResult};
use chappe_arena::ArenaError;
use chappe_plat::clock;
use chappe_wait::attachment::{process_attachment, process_member};
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
    /// Since when it waits.
    since: u64,
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
        Lock { mutex: self, since: 0, wait: Wait::new(true, 0) }
    }
}

/// As what its task waits for, in the name of the process. `None`: this process has not begun to.
fn begun<T>(mutex: &Mutex<T>) -> Option<Locks> {
    let process = process_member(mutex.handle.map)?;
    Some(Locks::new(Site::of(mutex.handle.map, mutex.handle.place), held_by(process.member, process.generation)))
}

/// The same, begun if it is not.
fn locks<T>(mutex: &Mutex<T>) -> Result<Locks, ArenaError> {
    if let Some(locks) = begun(mutex) {
        return Ok(locks);
    }
    let process = process_attachment(mutex.handle.map)?;
    Ok(Locks::new(Site::of(mutex.handle.map, mutex.handle.place), held_by(process.index, process.generation)))
}

/// The error of a task's wait that a forked child inherited.
pub(super) fn inherited<T, G>(mutex: &Mutex<T>) -> LockError<G> {
    LockError::Inherited { mutex: mutex.handle.shown() }
}

impl<'a, T> Future for Lock<'a, T> {
    type Output = OwnedLockResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Lock { mutex, since, wait } = self.get_mut();
        let locks = match locks(mutex) {
            Ok(locks) => locks,
            Err(e) => return Poll::Ready(Err(LockError::Arena(e))),
        };
        if wait.stay.is_none() {
            if !matches!(locks.attempt(&Party::nobody(mutex.handle.map), false), Err(Refused::NoneFree)) {
                return Poll::Ready(mutex.awaited(locks.outcome(), locks.mine));
            }
            *since = clock::now();
        }
        wait.need = need(*since);
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
        if self.wait.stay.is_some()
            && let Some(locks) = begun(self.mutex)
        {
            self.wait.end(&locks);
        }
    }
}
