//! Why a section of a helping lock was not run, or not as usual.

use crate::bodied::SharedError;
use crate::words::WordsError;
use std::io;
use std::sync::Arc;

/// Why a section was not run, or not as usual.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HelpError<G = ()> {
    /// Locked; a holder died or panicked, and the data is as that holder left it. See
    /// [`HelpGuard::make_consistent`](super::HelpGuard::make_consistent) and [`HelpGuard::condemn`](super::HelpGuard::condemn). From
    /// [`HelpLock::with`](super::HelpLock::with): not locked, and nothing was run; lock it, and look.
    #[error(
        "an earlier holder of `{name}` died in the middle of its section: lock it, look at the data, and say that it is consistent, or condemn it"
    )]
    OwnerDied {
        /// Which.
        name: Arc<str>,
        /// The lock.
        guard: G,
    },
    /// Another thread has it.
    #[error("`{name}` is locked")]
    WouldBlock {
        /// Which.
        name: Arc<str>,
    },
    /// This thread has it, or its holder waits for a lock that this thread has.
    #[error("`{name}` would be waited for by its own holder: sections of one lock do not nest")]
    Deadlock {
        /// Which.
        name: Arc<str>,
    },
    /// Its data was given up.
    #[error("`{name}` was condemned: a holder died, and its data could not be made whole; make it anew")]
    Condemned {
        /// Which.
        name: Arc<str>,
    },
    /// A lock whose sections are steps has no guard.
    #[error("sections of `{name}` are steps, which anybody finishes, so nobody holds it: use `with`")]
    Steps {
        /// Which.
        name: Arc<str>,
    },
    /// The lock is for light threads, and the caller is none.
    #[error(
        "`{name}` is a lock among light threads: lock it in one (chappe::thread::spawn), or use HelpLock::inherited"
    )]
    NotLight {
        /// Which.
        name: Arc<str>,
    },
    /// The words refused.
    #[error(transparent)]
    Words(WordsError),
    /// A named lock was not made or opened, or was removed.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The system refused.
    #[error("the system refuses: {0}")]
    System(io::Error),
}

impl<G> std::fmt::Debug for HelpError<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HelpError({self})")
    }
}

impl<G> HelpError<G> {
    /// The same error for another kind of guard: the guard of a dead owner's lock is dropped.
    pub(crate) fn without<H>(self) -> HelpError<H> {
        match self {
            HelpError::OwnerDied { name, .. } | HelpError::Condemned { name } => HelpError::Condemned { name },
            HelpError::WouldBlock { name } => HelpError::WouldBlock { name },
            HelpError::Deadlock { name } => HelpError::Deadlock { name },
            HelpError::Steps { name } => HelpError::Steps { name },
            HelpError::NotLight { name } => HelpError::NotLight { name },
            HelpError::Words(e) => HelpError::Words(e),
            HelpError::Shared(e) => HelpError::Shared(e),
            HelpError::System(e) => HelpError::System(e),
        }
    }
}
