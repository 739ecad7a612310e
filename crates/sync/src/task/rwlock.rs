//! Tasks that lock readers-writer locks. A reader is a member of its own, so the guard keeps the task's seat.

use super::wait::{Failed, Wait};
use crate::rwlock::{ReadGuard, RwLock, RwLockError, WriteGuard};
use chappe_wait::operation::{Refused, Taken};
use chappe_wait::tasks::Seat;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Of a guard: it is a task's, and keeps the place of the process in the arena that the task waited in. It may go from thread to thread, and is shared
/// among them as its data may be.
pub struct BySeat {
    _seat: Seat,
    _not_sync: PhantomData<Cell<()>>,
}

impl BySeat {
    pub(super) fn new(seat: Seat) -> BySeat {
        let _needless = seat.forget();
        BySeat { _seat: seat, _not_sync: PhantomData }
    }
}

/// The data of a lock that a task has locked to read ([`RwLock::read_async`]); unlocked when dropped, and when the process dies. It may go from thread to
/// thread. One that is leaked keeps the lock read, and its place in the arena taken, until the process ends.
pub type OwnedReadGuard<'a, T> = ReadGuard<'a, T, BySeat>;

/// The data of a lock that a task has locked to write ([`RwLock::write_async`]); unlocked when dropped, and when the process dies, which the next holder
/// is told. It may go from thread to thread. One that is leaked keeps the lock written until the process ends.
pub type OwnedWriteGuard<'a, T> = WriteGuard<'a, T, BySeat>;

/// The result of [`RwLock::read_async`].
pub type OwnedReadResult<'a, T> = Result<OwnedReadGuard<'a, T>, RwLockError<OwnedReadGuard<'a, T>>>;

/// The result of [`RwLock::write_async`].
pub type OwnedWriteResult<'a, T> = Result<OwnedWriteGuard<'a, T>, RwLockError<OwnedWriteGuard<'a, T>>>;

/// The future of [`RwLock::read_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Read<'a, T>(Entering<'a, T>);

/// The future of [`RwLock::write_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Write<'a, T>(Entering<'a, T>);

struct Entering<'a, T> {
    lock: &'a RwLock<T>,
    writes: bool,
    wait: Wait,
}

/// What was taken, and in whose member; or that the lock is not in service.
type Entered = Result<(Taken, BySeat), Failed>;

impl<'a, T> Entering<'a, T> {
    fn new(lock: &'a RwLock<T>, writes: bool) -> Entering<'a, T> {
        Entering { lock, writes, wait: Wait::new(true, 1) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Entered> {
        let arm = self.lock.arm(self.writes);
        let seated = |taken, seat| (taken, BySeat::new(seat));
        if self.wait.stay.is_none() {
            match self.wait.attempt(arm) {
                Ok(Some((taken, seat))) => return Poll::Ready(Ok(seated(taken, seat))),
                Ok(None) => {}
                Err(failed) => return Poll::Ready(Err(failed)),
            }
        }
        self.wait.poll(arm, cx, seated)
    }
}

fn refused<T, G>(lock: &RwLock<T>, failed: Failed) -> RwLockError<G> {
    match failed {
        Failed::Arena(e) => RwLockError::Arena(e),
        Failed::Refused(Refused::Inherited(_)) => lock.inherited(),
        Failed::Refused(_) => lock.gone(),
    }
}

impl<T> Drop for Entering<'_, T> {
    fn drop(&mut self) {
        self.wait.end(self.lock.arm(self.writes));
    }
}

impl<T> RwLock<T> {
    /// As [`RwLock::read`], for a task: locks it to read, or waits until no thread writes, and those that came before have had their turn, without
    /// blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on. A future that is dropped locks nothing: what it was
    /// granted in that moment goes on to the next waiters. The guard may go from thread to thread, and over an `.await`. When the process dies, what its
    /// tasks had goes back. In a forked child, a future that it inherited is refused.
    ///
    /// A task that locks it twice may wait for itself: of tasks, `Deadlock` and `Upgrade` are not told.
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; `Condemned`, `Dead`, `Inherited`. Each task that reads or writes has a place in the arena besides those that wait;
    /// `Arena` if it has none left, and no other task of the process waits for this lock.
    pub fn read_async(&self) -> Read<'_, T> {
        Read(Entering::new(self, false))
    }

    /// As [`RwLock::write`], for a task: as [`RwLock::read_async`] is as [`RwLock::read`]. When the process dies while it writes, the next holder is told. A
    /// guard that is dropped while its thread panics leaves the data torn, as a thread's does.
    ///
    /// # Errors
    /// As [`RwLock::read_async`].
    pub fn write_async(&self) -> Write<'_, T> {
        Write(Entering::new(self, true))
    }
}

impl<'a, T> Future for Read<'a, T> {
    type Output = OwnedReadResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Read(entering) = self.get_mut();
        entering.poll(cx).map(|over| match over {
            Ok((taken, by)) => entering.lock.came_to_read(Some(taken), by),
            Err(failed) => Err(refused(entering.lock, failed)),
        })
    }
}

impl<'a, T> Future for Write<'a, T> {
    type Output = OwnedWriteResult<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Write(entering) = self.get_mut();
        entering.poll(cx).map(|over| match over {
            Ok((taken, by)) => entering.lock.came_to_write(Some(taken), by),
            Err(failed) => Err(refused(entering.lock, failed)),
        })
    }
}
