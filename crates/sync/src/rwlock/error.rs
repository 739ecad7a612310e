//! The errors of readers-writer locks.

use chappe_arena::ArenaError;
use std::io;

/// Why a readers-writer lock was not locked; or that it was, with a condition to handle. `G` is the guard.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RwLockError<G> {
    /// Locked; a writer died or panicked, and the data is as it left it. Make it whole and call
    /// [`WriteGuard::make_consistent`](crate::WriteGuard::make_consistent), or [`WriteGuard::condemn`](crate::WriteGuard::condemn).
    #[error(
        "locked, but an earlier writer died in the middle of its section: look at the data, then say that it is consistent, or condemn the lock"
    )]
    OwnerDied(G),
    /// A thread has it locked, or waits for it.
    #[error("the readers-writer lock is locked, or others wait for it")]
    WouldBlock,
    /// The time was up first.
    #[error("timed out waiting for the readers-writer lock")]
    Timeout,
    /// A signal was handled, or another thread asked for an interrupt: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for the readers-writer lock")]
    Interrupted,
    /// This very thread writes.
    #[error(
        "readers-writer lock `{lock}` is written by this very thread: it would wait for itself for ever; drop the guard, or downgrade it"
    )]
    Deadlock {
        /// Which.
        lock: String,
    },
    /// This very thread reads. A read lock cannot become a write lock, and a second one could wait behind a writer that waits for the first.
    #[error(
        "readers-writer lock `{lock}` is read by this very thread: it would wait for itself for ever; drop the read guard first (a write guard can be downgraded, a read guard cannot be upgraded)"
    )]
    Upgrade {
        /// Which.
        lock: String,
    },
    /// Its data was given up.
    #[error(
        "readers-writer lock `{lock}` was condemned: a writer died and its data could not be made whole; remove it and make it anew"
    )]
    Condemned {
        /// Which.
        lock: String,
    },
    /// A task's wait that a forked child inherited: its place in the line is the parent's.
    #[error(
        "the wait for readers-writer lock `{lock}` began before this process was forked, and is the parent's; wait anew"
    )]
    Inherited {
        /// Which.
        lock: String,
    },
    /// It was removed.
    #[error("readers-writer lock `{lock}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        lock: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(ArenaError),
    /// The system refused the thread that watches for deaths; without it no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {0}")]
    System(#[source] io::Error),
}

impl<G> std::fmt::Debug for RwLockError<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RwLockError({self})")
    }
}
