//! Tasks that wait for permits.

use super::wait::{Failed, Wait};
use crate::awaited::Several;
use crate::error::AcquireError;
use crate::guard::{OwnedPermit, OwnedPermits};
use crate::hold::Hold;
use crate::many::Many;
use crate::pool::Pool;
use chappe_wait::attachment::{here, process_attachment};
use chappe_wait::holds::Holds;
use chappe_wait::operation::{Arm, Refused, Taken};
use chappe_wait::wait::Party;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

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
    /// As [`Pool::acquire_owned`]. `Arena` if its arena has no place left, and no other task of the process has one at this object.
    pub fn acquire_async(&self) -> Acquire<'_> {
        Acquire { pool: self, wait: Wait::new(true, 1) }
    }
}

impl Future for Acquire<'_> {
    type Output = Result<OwnedPermit, AcquireError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Acquire { pool, wait } = self.get_mut();
        loop {
            if wait.may_take(*pool) {
                match pool.try_acquire_owned() {
                    Err(AcquireError::WouldBlock) => {}
                    over => return Poll::Ready(over),
                }
            }
            let Poll::Ready(over) = wait.poll(*pool, cx, |taken, _seat| owned(pool, taken)) else {
                return Poll::Pending;
            };
            match over {
                // Taken by force in these few instructions: it waits again.
                Ok(Err(AcquireError::WouldBlock)) => {}
                Ok(over) => return Poll::Ready(over),
                Err(failed) => return Poll::Ready(Err(refused(pool, 1, failed))),
            }
        }
    }
}

fn refused(pool: &Pool, wanted: u32, failed: Failed) -> AcquireError {
    match failed {
        Failed::Arena(e) => AcquireError::Arena(e),
        Failed::Refused(Refused::Inherited(_)) => AcquireError::Inherited { pool: pool.name() },
        Failed::Refused(Refused::TooMany) => pool.too_many(wanted),
        Failed::Refused(Refused::NoneFree) => AcquireError::WouldBlock,
        Failed::Refused(_) => pool.dead(),
    }
}

/// Makes the permit of a task's member the process's.
pub(super) fn owned(pool: &Pool, taken: Taken) -> Result<OwnedPermit, AcquireError> {
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

/// The future of [`Pool::acquire_many_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AcquireMany<'a> {
    pool: &'a Pool,
    /// The member that stands for the process, once the future was polled.
    holder: Option<Party>,
    wait: Wait,
}

impl Pool {
    /// As [`Pool::acquire_many`], for a task: takes `n` permits of the process at one moment, or waits for them without blocking the thread that
    /// polls.
    ///
    /// The task waits in one line with the threads of all processes, from the first poll on. Waiters behind it wait until it has got all of
    /// them. A future that is dropped takes nothing: what was set aside for it, or granted to it in that moment, goes to the next waiters. The
    /// permits may go from thread to thread. They return when they are dropped, or when the process dies. In a forked child, a future that it
    /// inherited is refused.
    ///
    /// # Errors
    /// As [`Pool::acquire_many`]. `Arena` if its arena has no place left, and no other task of the process has one at this object.
    pub fn acquire_many_async(&self, n: u32) -> AcquireMany<'_> {
        AcquireMany { pool: self, holder: None, wait: Wait::new(true, n) }
    }
}

impl AcquireMany<'_> {
    fn arm(&self, holder: Party) -> Several {
        Several { pool: self.pool.site(), need: self.wait.need, holder, into: RefCell::new(Many::new()) }
    }

    /// Takes them now, if so many are free and nobody waits.
    fn attempt(&self, holder: Party) -> Result<Many, Failed> {
        let arm = self.arm(holder);
        let attempt = || arm.attempt(&holder, false).map_err(Failed::Refused);
        match attempt() {
            Err(Failed::Refused(Refused::NoneFree)) if self.pool.revive() => attempt()?,
            tried => tried?,
        };
        Ok(arm.into.into_inner())
    }

    /// The member that stands for the process.
    fn holder(&mut self) -> Result<Party, Failed> {
        if let Some(holder) = self.holder {
            return Ok(holder);
        }
        let map = self.pool.site().map;
        let joined = process_attachment(map).map_err(Failed::Arena)?;
        Ok(*self.holder.insert(Party { map, member: joined.index, generation: joined.generation, holds: Holds::NONE }))
    }

    fn poll_many(&mut self, cx: &mut Context<'_>) -> Poll<Result<Many, Failed>> {
        let holder = match self.holder() {
            Ok(holder) => holder,
            Err(failed) => return Poll::Ready(Err(failed)),
        };
        if self.wait.may_take(self.pool) {
            match self.attempt(holder) {
                Err(Failed::Refused(Refused::NoneFree)) => {}
                over => return Poll::Ready(over),
            }
        }
        let arm = self.arm(holder);
        let over = self.wait.poll(&arm, cx, |_, _| ());
        over.map_ok(|()| arm.into.into_inner())
    }
}

impl Future for AcquireMany<'_> {
    type Output = Result<OwnedPermits, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let over = self.poll_many(cx);
        let (pool, n) = (self.pool, self.wait.need);
        over.map(|over| over.map(|many| OwnedPermits::new(pool, many)).map_err(|failed| refused(pool, n, failed)))
    }
}

impl Drop for AcquireMany<'_> {
    fn drop(&mut self) {
        if let Some(holder) = self.holder {
            let arm = self.arm(holder);
            self.wait.end(&arm);
        }
    }
}
