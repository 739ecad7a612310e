//! Where the object behind a `sem_t` lies, and what becomes of it when the `sem_t` does.
//!
//! | `sem_init` | the object is in | seen by |
//! |---|---|---|
//! | not shared, or in private memory | the process's own arena | its threads; a forked child has a copy, as of the memory |
//! | shared, in memory that is shared | the family's arena | the process and those that it forks; others that map the memory find it by its spot |
//!
//! Where no object can be had (an arena is full, there is no room in /dev/shm) the C library's own semaphore takes its place: the
//! program gets what it would have without us.
//!
//! Programs leave semaphores behind: on stacks, in memory that they free, since `sem_destroy` does nothing in the C
//! library. So a table keeps what was initialised where, and what is initialised there next removes it. Of shared memory only if it
//! still says so itself: other memory may be mapped there by then. What is moved with its memory is found by the check of its
//! `sem_t` (`word`).
//!
//! After `sem_destroy` the C library's own semaphore of the same value stands there: what a program does with it then, it does
//! as if we were not here. One that somebody still waits on stays, as it does with the C library.

use crate::shield::{errno, set_errno, shielded};
use crate::word::{self, PLAIN, Said, is_private};
use crate::{named, real};
use chappe::{Arena, DownError, ObjectError, Semaphore, Spot, UpError};
use libc::{c_int, c_uint, sem_t};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What stands at which address of this process, among that which it has initialised.
static TABLE: Mutex<BTreeMap<usize, (u64, Spot)>> = Mutex::new(BTreeMap::new());

fn table() -> MutexGuard<'static, BTreeMap<usize, (u64, Spot)>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by who forks.
pub fn quiet() -> impl Sized {
    table()
}

/// The object behind a `sem_t`.
pub enum Found {
    /// A semaphore.
    Plain(Semaphore),
}

impl Found {
    /// The object at a spot. None: there is none.
    #[inline]
    pub fn at(kind: u64, spot: Spot) -> Option<Found> {
        match kind {
            PLAIN => Semaphore::at(spot).ok().map(Found::Plain),
            _ => None,
        }
    }

    /// See [`Semaphore::prepare`].
    pub fn prepare(&self) -> Result<(), DownError> {
        match self {
            Found::Plain(s) => s.prepare(),
        }
    }

    /// Waits; at most for so long.
    pub fn wait(&self, most: Option<Duration>) -> Result<(), DownError> {
        match (self, most) {
            (Found::Plain(s), None) => s.down(),
            (Found::Plain(s), Some(most)) => s.down_timeout(most),
        }
    }

    /// Takes a unit if one is there for us.
    pub fn take(&self) -> Result<(), DownError> {
        match self {
            Found::Plain(s) => s.try_down(),
        }
    }

    /// Adds a unit.
    pub fn give(&self) -> Result<(), UpError> {
        match self {
            Found::Plain(s) => s.up(),
        }
    }

    /// The same by who can be no member.
    pub fn give_unseen(&self) -> Result<(), UpError> {
        match self {
            Found::Plain(s) => s.up_unseen(),
        }
    }

    /// How many units there are.
    pub fn value(&self) -> u32 {
        match self {
            Found::Plain(s) => s.value(),
        }
    }

    /// Whether it is in service.
    pub fn is_there(&self) -> bool {
        match self {
            Found::Plain(s) => s.is_there(),
        }
    }

    /// Whether somebody waits.
    fn is_awaited(&self) -> bool {
        match self {
            Found::Plain(s) => !s.waiters().is_empty(),
        }
    }
}

/// Removes what is at a spot. What cannot be removed is not there, or stays until its arena goes.
pub fn remove(kind: u64, spot: Spot) {
    if kind == PLAIN {
        let _ = Semaphore::remove_at(spot);
    }
}

/// Removes a semaphore by its name, which nobody can have in use.
pub fn remove_named(name: &str) {
    let _ = Semaphore::remove(name, true);
}

/// What stands there; none if it is not ours, or broken. One that was moved is put right.
///
/// # Safety
/// `at` must point to a `sem_t`. The caller's frame must own nothing.
#[inline]
pub unsafe fn find(at: *mut sem_t) -> Option<(u64, Spot)> {
    // SAFETY: the caller's.
    match unsafe { word::read(at) } {
        Said::Ours(kind, spot) => Some((kind, spot)),
        Said::Moved(kind, spot, from) => {
            shielded(|| {
                let mut table = table();
                if table.get(&from) == Some(&(kind, spot)) {
                    table.remove(&from);
                    table.insert(at as usize, (kind, spot));
                }
                // SAFETY: the caller's; whoever reads it meanwhile finds one of the two.
                unsafe { word::write(at, kind, spot) };
                0
            });
            Some((kind, spot))
        }
        Said::Broken | Said::Foreign => None,
    }
}

/// Whether the memory there is shared. What cannot be seen is taken for shared: that works either way, but that a child has no copy.
fn is_shared(at: *const sem_t) -> bool {
    chappe::memory::is_shared(at as usize).unwrap_or(true)
}

/// Forgets what was initialised there before, and removes it.
fn forget(at: *const sem_t) {
    let Some((kind, spot)) = table().remove(&(at as usize)) else { return };
    // SAFETY: the caller initialises a `sem_t` there: it can be read.
    if is_private(spot) || unsafe { word::read(at) } == Said::Ours(kind, spot) {
        remove(kind, spot);
    }
}

/// Makes an object for a `sem_t` at an address.
fn make(at: *const sem_t, for_processes: bool, value: u32) -> Result<(u64, Spot), ObjectError> {
    let arena = if for_processes && is_shared(at) { Arena::family()? } else { Arena::private() };
    Ok((PLAIN, Semaphore::unnamed(&arena, value)?.spot()))
}

/// `sem_init`, but for a value that cannot be.
///
/// # Safety
/// `at` must point to memory for a `sem_t`. The caller's frame must own nothing.
pub unsafe fn init(at: *mut sem_t, for_processes: c_int, value: c_uint) -> c_int {
    let mut is_ours = false;
    let answer = shielded(|| {
        forget(at);
        if let Ok((kind, spot)) = make(at, for_processes != 0, value) {
            // SAFETY: the caller's.
            unsafe { word::write(at, kind, spot) };
            table().insert(at as usize, (kind, spot));
            is_ours = true;
        }
        0
    });
    // SAFETY: the caller's.
    if is_ours { answer } else { unsafe { theirs(at, for_processes, value) } }
}

/// Makes it the C library's.
///
/// # Safety
/// As [`init`].
pub unsafe fn theirs(at: *mut sem_t, for_processes: c_int, value: c_uint) -> c_int {
    let kept = errno();
    // SAFETY: the caller's.
    let answer = unsafe { real::sem_init(at, for_processes, value) };
    if answer == 0 {
        set_errno(kept);
    }
    answer
}

/// `sem_destroy`.
///
/// # Safety
/// `at` must point to a `sem_t`. The caller's frame must own nothing.
pub unsafe fn destroy(at: *mut sem_t) -> c_int {
    // SAFETY: the caller's.
    let Some((kind, spot)) = (unsafe { find(at) }) else {
        // SAFETY: the caller's.
        return match unsafe { word::read(at) } {
            // SAFETY: as above.
            Said::Foreign => unsafe { real::sem_destroy(at) },
            _ => crate::shield::fail(libc::EINVAL),
        };
    };
    let mut left = None;
    let answer = shielded(|| {
        // A named one is not of memory that is given up: with the C library nothing happens to it.
        let Some(found) = Found::at(kind, spot).filter(|found| !named::is_open(at) && !found.is_awaited()) else {
            return 0;
        };
        table().remove(&(at as usize));
        left = Some(found.value());
        remove(kind, spot);
        0
    });
    match left {
        // SAFETY: the caller's.
        Some(value) => unsafe { theirs(at, c_int::from(!is_private(spot)), value) },
        None => answer,
    }
}
