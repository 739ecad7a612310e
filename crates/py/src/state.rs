//! A mutex, and eight words beside it: the state of locks, conditions, events and barriers' actions.
//!
//! The mutex is held for a few instructions of Rust, never while Python runs. Each change of state is one store of one
//! word, so a holder that is killed in the middle has made it, or has not. The next holder takes the mutex over and
//! goes on; it ignores `OwnerDied`.

use crate::failure::{Failure, failure};
use crate::had::Had;
use chappe::raw::{self, Called};
use chappe::{LockError, Mutex, MutexGuard, ObjectError};
use pyo3::prelude::*;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many there are.
pub const WORDS: usize = 8;

/// What they are called to other languages.
const CALLED: Called<'_> = Called { name: "py-words", size: WORDS * 8, align: 8 };

/// The words of an object, with their mutex.
pub struct State {
    mutex: Mutex<()>,
    words: NonNull<[AtomicU64; WORDS]>,
}

// SAFETY: the words lie in a mapping that is never undone, and are atomic; the mutex is shared by its nature.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl State {
    /// Those of this name.
    ///
    /// # Errors
    /// As the mutex'.
    pub fn had(name: &str, had: Had) -> Result<State, ObjectError> {
        let (mutex, at) = raw::mutex_of_bytes(name, had.raw(), CALLED, None)?;
        Ok(State { mutex, words: at.cast() })
    }

    /// One of them.
    #[inline(always)]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: so many words, aligned to 8, in a mapping that is never undone; all processes access them as atomics.
        unsafe { &self.words.as_ref()[at] }
    }

    /// What one of them says.
    pub fn get(&self, at: usize) -> u64 {
        // SeqCst: the words order nothing but each other.
        self.word(at).load(Ordering::SeqCst)
    }

    /// Writes one of them.
    pub fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::SeqCst); // SeqCst: as in `get`.
    }

    /// Reads one of them, Relaxed: the caller orders the access by other means.
    #[inline(always)]
    pub fn read(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed) // Relaxed: the caller's.
    }

    /// Writes one of them, Relaxed: the caller orders the access by other means.
    #[inline(always)]
    pub fn write(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed); // Relaxed: the caller's.
    }

    /// Takes the mutex, also if its last holder died with it.
    ///
    /// # Errors
    /// As the mutex', but for `OwnerDied`.
    pub fn lock(&self) -> Result<MutexGuard<'_, ()>, LockError<MutexGuard<'_, ()>>> {
        whole(self.mutex.lock())
    }

    /// Runs `act` under the mutex. The caller holds the GIL, which is released meanwhile.
    ///
    /// # Errors
    /// As an exception.
    pub fn locked<R>(&self, py: Python<'_>, act: impl FnOnce() -> R) -> PyResult<R> {
        crate::wait::detached(py, || self.lock().map(|_guard| act()).map_err(told)).map_err(|e| failure(py, e))
    }
}

/// A lock error without the guard.
pub struct Untaken(String, crate::failure::Kind);

impl std::fmt::Display for Untaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Failure for Untaken {
    fn kind(&self) -> crate::failure::Kind {
        self.1
    }
}

/// What is to be said of a lock that was not had.
pub fn told(e: LockError<MutexGuard<'_, ()>>) -> Untaken {
    Untaken(e.to_string(), e.kind())
}

/// A mutex whose holder died is taken over: see the head.
pub fn whole<'a>(
    taken: Result<MutexGuard<'a, ()>, LockError<MutexGuard<'a, ()>>>,
) -> Result<MutexGuard<'a, ()>, LockError<MutexGuard<'a, ()>>> {
    match taken {
        Err(LockError::OwnerDied(mut guard)) => {
            MutexGuard::make_consistent(&mut guard);
            Ok(guard)
        }
        other => other,
    }
}

/// The name of a part of an object.
pub fn part(name: &str, of: &str) -> String {
    format!("{name}+{of}")
}
