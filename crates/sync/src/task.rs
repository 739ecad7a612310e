//! Waits of tasks: futures that any runtime can poll. They name none: a waker is all that they need of it.
//!
//! A task waits in the same line as the threads of all processes, from the first poll of its future on, and is served in its turn. A future
//! that is dropped before it was ready takes nothing: what it was granted in that moment goes to the next waiter. So each future here can
//! be a branch of a choice of the runtime's, or be given up at a time-out.
//!
//! When the object is private, the thread that gives calls the task's waker, perhaps more than once. When it is named, one thread of this process,
//! which sleeps meanwhile, calls the wakers of all of them: with all signals blocked, which is what a thread that a waker starts inherits, and on
//! a stack of 256 KiB. A waker that blocks there keeps all tasks that wait in that arena from being woken. While a process has that thread, its
//! light threads' deadlocks are not reported: their wakes could come from there.
//!
//! A future that was granted something has it from then on, as a thread has that was woken: until it is polled, or dropped, no other gets it. So
//! poll it soon: a future that is kept for a later poll (as a branch of a choice that goes on with another one) may keep all others waiting.
//! One that is leaked (`mem::forget`), or that belongs to a light thread which dies, keeps its place in the line until the process ends, and what it
//! is granted with it.
//!
//! Where waiters are served by priority, a task has that of the thread which polls it first.
//!
//! How a task waits: see the head of `chappe_wait::tasks`.

use crate::error::{AcquireError, DownError};
use crate::guard::OwnedPermit;
use crate::hold::Hold;
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use chappe_arena::{ArenaError, Map};
use chappe_wait::attachment::{here, priority};
use chappe_wait::operation::{Arm, Refused, Taken};
use chappe_wait::tasks::{Seat, Step, Waiting};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task's stay in the queues of some arms.
struct Stay {
    seat: Seat,
    waiting: Waiting,
}

/// Why a stay gave nothing.
enum Failed {
    Arena(ArenaError),
    Refused(Refused),
}

impl Stay {
    fn begin(map: &'static Map, dies: bool) -> Result<Stay, ArenaError> {
        let seat = Seat::take(map, dies)?;
        let waiting = Waiting::new(&seat.party(), priority());
        Ok(Stay { seat, waiting })
    }

    fn poll<A: Arm + ?Sized>(&mut self, arm: &A, cx: &mut Context<'_>) -> Poll<Result<Taken, Refused>> {
        if let Err(refused) = self.seat.note(cx.waker()) {
            return Poll::Ready(Err(refused));
        }
        match self.waiting.poll(&self.seat.party(), &[arm], false, self.seat.bell()) {
            Step::Waits => Poll::Pending,
            Step::Soon => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Over(over) => Poll::Ready(over.map(|(_, taken)| taken)),
        }
    }
}

/// A wait for one arm: nothing yet, then a stay, then nothing again.
struct Wait {
    stay: Option<Stay>,
    /// Whether what it waits for may return at the death of a thread.
    dies: bool,
}

impl Wait {
    /// Ready: with what was taken, which `then` makes the process's while the stay still has its member.
    fn poll<A: Arm + ?Sized, R>(
        &mut self,
        arm: &A,
        cx: &mut Context<'_>,
        then: impl FnOnce(Taken) -> R,
    ) -> Poll<Result<R, Failed>> {
        let stay = match &mut self.stay {
            Some(stay) => stay,
            none => match Stay::begin(arm.site().map, self.dies) {
                Ok(stay) => none.insert(stay),
                Err(e) => return Poll::Ready(Err(Failed::Arena(e))),
            },
        };
        let Poll::Ready(over) = stay.poll(arm, cx) else { return Poll::Pending };
        let over = over.map(then).map_err(Failed::Refused);
        self.stay = None;
        Poll::Ready(over)
    }

    /// The future is dropped.
    fn end<A: Arm + ?Sized>(&mut self, arm: &A) {
        if let Some(mut stay) = self.stay.take()
            && stay.seat.is_here()
        {
            stay.waiting.leave(&stay.seat.party(), &[arm]);
        }
    }
}

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
    /// As [`Semaphore::down`]. A process has one place in an arena for each task that waits there at once; `Arena` if it has no more.
    pub fn down_async(&self) -> Down<'_> {
        Down { semaphore: self, wait: Wait { stay: None, dies: self.dies() } }
    }
}

impl Future for Down<'_> {
    type Output = Result<(), DownError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Down { semaphore, wait } = self.get_mut();
        if wait.stay.is_none() {
            match semaphore.try_down() {
                Err(DownError::WouldBlock) => {}
                over => return Poll::Ready(over),
            }
        }
        wait.poll(*semaphore, cx, |_| ()).map_err(|failed| match failed {
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

/// The future of [`Pool::acquire_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Acquire<'a> {
    pool: &'a Pool,
    wait: Wait,
}

impl Pool {
    /// As [`Pool::acquire_owned`], for a task: takes a permit of the process, or waits for one without blocking the thread that polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on. A future that is dropped takes nothing: a
    /// permit that it was granted in that moment goes to the next waiter. The permit may go from thread to thread, and returns when it is
    /// dropped, or when the process dies. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// As [`Pool::acquire_owned`]. A process has one place in an arena for each task that waits there at once; `Arena` if it has no more.
    pub fn acquire_async(&self) -> Acquire<'_> {
        Acquire { pool: self, wait: Wait { stay: None, dies: true } }
    }
}

impl Future for Acquire<'_> {
    type Output = Result<OwnedPermit, AcquireError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Acquire { pool, wait } = self.get_mut();
        loop {
            if wait.stay.is_none() {
                match pool.try_acquire_owned() {
                    Err(AcquireError::WouldBlock) => {}
                    over => return Poll::Ready(over),
                }
            }
            let Poll::Ready(over) = wait.poll(*pool, cx, |taken| owned(pool, taken)) else { return Poll::Pending };
            match over {
                // Taken by force in these few instructions: it waits again.
                Ok(Err(AcquireError::WouldBlock)) => {}
                Ok(over) => return Poll::Ready(over),
                Err(Failed::Arena(e)) => return Poll::Ready(Err(AcquireError::Arena(e))),
                Err(Failed::Refused(Refused::Inherited(_))) => {
                    return Poll::Ready(Err(AcquireError::Inherited { pool: pool.name() }));
                }
                Err(Failed::Refused(_)) => return Poll::Ready(Err(pool.dead())),
            }
        }
    }
}

/// Makes the permit of a task's member the process's.
fn owned(pool: &Pool, taken: Taken) -> Result<OwnedPermit, AcquireError> {
    // SAFETY: it is this wait's member that has it, and it has no bias.
    match unsafe { Hold::new(pool, taken, here()).into_process() } {
        Ok(hold) => Ok(OwnedPermit::of(pool, hold)),
        Err(failed) => {
            pool.back(failed.0.parts().0);
            Err(failed.1)
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        self.wait.end(self.pool);
    }
}
