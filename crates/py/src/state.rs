//! A mutex, and eight words beside it: the state of locks, conditions, events and barriers' actions.
//!
//! The mutex is held for a few instructions of Rust, never while Python runs. Each change of state is one store of one
//! word, so a holder that is killed in the middle has made it, or has not. The next holder takes the mutex over and
//! goes on; it ignores `OwnerDied`.
//!
//! The words lie beside an object, which may be removed without them (by a command, or another language), and made anew. So the last word, OF,
//! says which of all objects of that name they are of ([`Identity`]). A process that opens a newer one sets all to zero first, and OF last, under the mutex
//! ([`State::beside`]). A handle of an older one writes under the mutex, if OF is still its own ([`State::change`]); where that would cost too much
//! it looks at OF before.

use crate::failure::{Failure, Kind, failure, raised};
use crate::had::Had;
use crate::wait::detached;
use chappe::raw::{self, Called, Identity};
use chappe::{LockError, Mutex, MutexGuard, ObjectError, OwnedMutexGuard};
use pyo3::prelude::*;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many there are.
pub const WORDS: usize = 8;

/// Which object they are beside.
const OF: usize = WORDS - 1;

/// What they are called to other languages.
const CALLED: Called<'_> = Called { name: "py-words", size: WORDS * 8, align: 8 };

/// The words of an object, with their mutex.
pub struct State {
    mutex: Mutex<()>,
    words: NonNull<[AtomicU64; WORDS]>,
    /// What OF says while they are of the handle's object; 0: they are beside none.
    of: u64,
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
        Ok(State { mutex, words: at.cast(), of: 0 })
    }

    /// Those beside an object of this name, which the caller has opened. If they were of one before it, they are zeros, after `renew`, which does away
    /// with what else was beside that one.
    ///
    /// # Errors
    /// As the mutex', as an exception.
    pub fn beside(py: Python<'_>, name: &str, object: &impl Identity, renew: impl Fn()) -> PyResult<State> {
        let words = part(name, "words");
        loop {
            let mut state = State::had(&words, Had::Either).map_err(|e| failure(py, e))?;
            state.of = object.identity();
            if state.is_current() {
                return Ok(state);
            }
            let renewed = detached(py, || {
                let _guard = state.lock().map_err(told)?;
                // An object that is there is the newest of its name; one that was removed may be older than the words.
                if !state.is_current() && !object.is_removed() {
                    renew();
                    (0..OF).for_each(|at| state.set(at, 0));
                    state.set(OF, state.of);
                }
                Ok::<(), Untaken>(())
            });
            match renewed {
                Ok(()) => return Ok(state),
                // They were removed in between.
                Err(e) if e.kind() == Kind::Removed => {}
                Err(e) => return Err(failure(py, e)),
            }
        }
    }

    /// Whether they are of the handle's object: no other of its name was made since, and used.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.get(OF) == self.of
    }

    /// Changes them, if they are of the handle's object.
    ///
    /// # Errors
    /// `Removed`, of this name; as [`State::locked`].
    pub fn change(&self, py: Python<'_>, shown: &str, act: impl FnOnce()) -> PyResult<()> {
        if self.locked(py, || self.is_current().then(act))?.is_some() {
            return Ok(());
        }
        Err(raised(py, Kind::Removed, format!("`{shown}` was removed, and there is another of its name: open that")))
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

    /// As [`State::lock`], for a task.
    ///
    /// # Errors
    /// As [`State::lock`].
    pub async fn lock_async(&self) -> Result<OwnedMutexGuard<'_, ()>, Untaken> {
        whole(self.mutex.lock_async().await).map_err(told)
    }

    /// Runs `act` under the mutex. The caller holds the GIL, which is released meanwhile.
    ///
    /// # Errors
    /// As an exception.
    pub fn locked<R>(&self, py: Python<'_>, act: impl FnOnce() -> R) -> PyResult<R> {
        detached(py, || self.lock().map(|_guard| act()).map_err(told)).map_err(|e| failure(py, e))
    }
}

/// A lock error without the guard.
pub struct Untaken(String, Kind);

impl std::fmt::Display for Untaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Failure for Untaken {
    fn kind(&self) -> Kind {
        self.1
    }
}

/// What is to be said of a lock that was not had.
pub fn told<G>(e: LockError<G>) -> Untaken {
    Untaken(e.to_string(), e.kind())
}

/// A mutex whose holder died is taken over: see the head.
pub fn whole<'a, By>(
    taken: Result<MutexGuard<'a, (), By>, LockError<MutexGuard<'a, (), By>>>,
) -> Result<MutexGuard<'a, (), By>, LockError<MutexGuard<'a, (), By>>> {
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
