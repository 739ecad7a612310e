//! A mutex that many machines share. What it guards is elsewhere; it says whether the last holder left that half done.

use crate::acquire::{Of, Want};
use crate::error::RemoteError;
use crate::grant::End;
use crate::permit::{Permit, Token};
use crate::pulse::Loss;
use crate::session::{Interrupt, Patience, Session};
use chappe_plat::atomic::{AtomicU32, Ordering};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// A mutex on an engine. Its waiters are served in the order of arrival.
///
/// After a holder has died, lost its lease, panicked or had the mutex taken away, locking it is [`LockError::OwnerDied`] with the guard: what the mutex
/// guards may be half done. So it is for each later holder, until one says [`Guard::make_consistent`].
#[derive(Clone)]
pub struct Mutex {
    session: Arc<Session>,
    name: String,
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mutex({:?})", self.name)
    }
}

/// Why a mutex was not locked, or is locked with a warning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// It is locked. Its last holder died, and may have left what it guards half done.
    #[error("the last holder of mutex `{}` died, and may have left what it guards half done", .0.name())]
    OwnerDied(Guard),
    /// It is not locked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl LockError {
    /// The guard, if it is locked: the caller looks after what may be half done.
    ///
    /// # Errors
    /// Why it is not locked.
    pub fn into_guard(self) -> Result<Guard, RemoteError> {
        match self {
            LockError::OwnerDied(guard) => Ok(guard),
            LockError::Remote(e) => Err(e),
        }
    }
}

impl Mutex {
    pub(crate) fn new(session: Arc<Session>, name: String) -> Mutex {
        Mutex { session, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for it, in the order of arrival. A process that locks it twice waits for itself.
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; otherwise as [`Pool::acquire`](crate::Pool::acquire).
    pub fn lock(&self) -> Result<Guard, LockError> {
        self.lock_until(Patience::Forever, None)
    }

    /// Locks it if it is free and nobody waits for it.
    ///
    /// # Errors
    /// `WouldBlock`; and as [`Mutex::lock`].
    pub fn try_lock(&self) -> Result<Guard, LockError> {
        self.lock_until(Patience::Now, None)
    }

    /// Waits at most so long; one that is free is locked however short that is.
    ///
    /// # Errors
    /// `Timeout`; and as [`Mutex::lock`].
    pub fn lock_timeout(&self, timeout: Duration) -> Result<Guard, LockError> {
        self.lock_until(Patience::For(timeout), None)
    }

    /// The same, until somebody wants it to end.
    #[doc(hidden)]
    pub fn lock_until(&self, patience: Patience, interrupt: Interrupt<'_>) -> Result<Guard, LockError> {
        let wait = patience != Patience::Now;
        let want = Want { of: Of::Mutexes, pools: vec![self.name.clone()], n: 1, wait };
        let won = self.session.acquire(&want, patience, interrupt)?;
        let died = won.grant.owner_died;
        let permit = Permit::new(&self.session, won, self.name.clone())?;
        let (permit, panicking) = (Some(Box::new(permit)), std::thread::panicking());
        let guard = Guard { permit, consistent: u32::from(!died).into(), panicking };
        if died { Err(LockError::OwnerDied(guard)) } else { Ok(guard) }
    }
}

/// A mutex that is locked, until this is dropped, or it is lost: as a [`Permit`].
#[must_use = "a guard that is dropped at once unlocks at once"]
#[derive(Debug)]
pub struct Guard {
    /// There until it is unlocked.
    permit: Option<Box<Permit>>,
    /// 1 if the next holder need not be warned.
    consistent: AtomicU32,
    /// The thread that locked it panicked already: what it does then is a destructor's.
    panicking: bool,
}

impl Guard {
    fn permit(&self) -> &Permit {
        // Taken by what consumes or drops the guard alone.
        self.permit.as_deref().unwrap_or_else(|| unreachable!("a guard that was unlocked is gone"))
    }

    /// The mutex.
    pub fn name(&self) -> &str {
        self.permit().pool()
    }

    /// Whether it is certainly still locked by this guard: as [`Permit::check`].
    ///
    /// # Errors
    /// Why it is lost.
    pub fn check(&self) -> Result<Token, Loss> {
        self.permit().check()
    }

    /// A descriptor that can be read from when it is lost on: as [`Permit::lost`].
    pub fn lost(&self) -> BorrowedFd<'_> {
        self.permit().lost()
    }

    /// How long it is certain: as [`Permit::left`].
    pub fn left(&self) -> Duration {
        self.permit().left()
    }

    /// Whether the last holder died.
    pub fn owner_died(&self) -> bool {
        self.permit().owner_died()
    }

    /// What the mutex guards is whole again: the next holder is not warned. Without this a guard that was had with `OwnerDied` hands the warning on.
    pub fn make_consistent(&self) {
        // Relaxed: it is read by the thread that has the guard as its own, behind whatever brought it there.
        self.consistent.store(1, Ordering::Relaxed);
    }

    /// Unlocks it, and says whether it was locked until now, as far as the engine's answers tell.
    ///
    /// # Errors
    /// As [`Permit::release`].
    pub fn unlock(mut self) -> Result<(), RemoteError> {
        self.end().map_or(Ok(()), |permit| permit.release())
    }

    /// Unlocks it without having finished: the next holder is told, as after a panic.
    pub fn abandon(mut self) {
        *self.consistent.get_mut() = 0;
    }

    fn end(&mut self) -> Option<Box<Permit>> {
        let mut permit = self.permit.take()?;
        // A panic is a death: what it left is as it happened to be.
        let panics = std::thread::panicking() && !self.panicking;
        permit.ends_as(if *self.consistent.get_mut() == 1 && !panics { End::Finished } else { End::Left });
        Some(permit)
    }
}

impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lost()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.end());
    }
}
