//! Where the object behind a `sem_t` lies, and what becomes of it when the `sem_t` does.
//!
//! | `sem_init` | the object is in | seen by |
//! |---|---|---|
//! | not shared, or in private memory | the process's own arena | its threads; a forked child has a copy, as of the memory |
//! | shared, in memory that is shared | the family's arena | the process and those that it forks; others that map the memory find it by its spot |
//! | the same, of a file that has a name | `posix` | every process that maps the file, at any time: see `memory` |
//!
//! If no object can be made (an arena is full, there is no room in /dev/shm) the C library's own semaphore takes its place: the program
//! gets what it would have without this library.
//!
//! The same holds for memory of a file that may be written by users without access to the arenas.
//!
//! Programs leave semaphores behind: on stacks, in memory that they free, since `sem_destroy` does nothing in the C library. So a table
//! records what was initialised where, and the next initialisation there removes it. For shared memory only if the memory still says so
//! itself: other memory may be mapped there by then. A `sem_t` that is moved with its memory is found by its check (`word`). An object that
//! was left behind cannot be told from one that was moved and not used since. So the process's own arena removes an object that was
//! replaced by another only behind [`KEPT`] others, or when it is full.
//!
//! After `sem_destroy` the C library's own semaphore of the same value stands there: the program's further operations on it are as without
//! this library. A semaphore on which a thread still waits stays, as with the C library. A waiter that was posted to does not wait any
//! more: it has what it was granted, though it has not woken and another object may stand there by then.

use crate::asked::{self, BARGING};
use crate::folder::Folder;
use crate::shield::{errno, set_errno, shielded, without_signals};
use crate::word::{self, OWNED, PLAIN, Said, is_private};
use crate::{ends, forks, heap, memory, named, rank, real};
use chappe::owned::RobustSemaphore;
use chappe::{Arena, ArenaError, Discipline, DownError, ObjectError, ObjectId, Semaphore, UpError};
use libc::{c_int, c_uint, sem_t};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many that another has taken the place of are kept, of 65,536.
const KEPT: usize = 8192;

/// What this process has initialised.
struct Table {
    /// What stands at which address.
    at: BTreeMap<usize, (u64, ObjectId)>,
    /// What stood where another stands now, and may have been moved: by the number of its replacement, the first first; and the other way
    /// round, by slot and generation.
    replaced: BTreeMap<u64, ObjectId>,
    numbers: BTreeMap<(u32, u32), u64>,
    /// The number of the next replacement.
    next: u64,
    /// How many are kept: none any more once the arena was full, where to look for room costs much.
    kept: usize,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { at: BTreeMap::new(), replaced: BTreeMap::new(), numbers: BTreeMap::new(), next: 0, kept: KEPT });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Notes that it is no longer of use, as far as can be told. Answers what is to be removed for it.
    fn replace(&mut self, spot: ObjectId) -> Option<ObjectId> {
        self.replaced.insert(self.next, spot);
        self.numbers.insert((spot.object, spot.generation), self.next);
        self.next += 1;
        if self.replaced.len() > self.kept { self.oldest() } else { None }
    }

    /// Takes out the first.
    fn oldest(&mut self) -> Option<ObjectId> {
        let (_, oldest) = self.replaced.pop_first()?;
        self.numbers.remove(&(oldest.object, oldest.generation));
        Some(oldest)
    }

    /// It was moved, perhaps over another. Answers as [`Table::replace`].
    fn moved(&mut self, from: usize, to: usize, kind: u64, spot: ObjectId) -> Option<ObjectId> {
        if self.at.get(&from) == Some(&(kind, spot)) {
            self.at.remove(&from);
        }
        if let Some(number) = self.numbers.remove(&(spot.object, spot.generation)) {
            self.replaced.remove(&number);
        }
        let (_, other) = self.at.insert(to, (kind, spot)).filter(|other| *other != (kind, spot))?;
        if is_private(other) { self.replace(other) } else { None }
    }
}

/// Held by a thread that forks.
pub fn quiet() -> impl Sized {
    table()
}

/// The object behind a `sem_t`.
pub enum Found {
    /// A semaphore.
    Plain(Semaphore),
    /// One that starts at 1, and returns when its holder dies.
    Owned(RobustSemaphore),
}

use Found::{Owned, Plain};

impl Found {
    /// The object at a spot. None: there is none.
    #[inline]
    pub fn at(kind: u64, spot: ObjectId) -> Option<Found> {
        forks::prepare();
        let at = || match kind {
            PLAIN => Semaphore::at(spot).ok().map(Plain),
            _ => {
                ends::concern();
                RobustSemaphore::at(spot).ok().map(Owned)
            }
        };
        // Else this takes a lock, and a handler that posts would find it taken by what it has interrupted.
        if spot.is_met() { at() } else { without_signals(at) }
    }

    /// Makes the calling thread ready to wait.
    pub fn prepare(&self) -> Result<(), DownError> {
        match self {
            Plain(s) => s.prepare(),
            Owned(s) => s.prepare_to_wait(),
        }
    }

    /// Waits; at most for so long.
    pub fn wait(&self, most: Option<Duration>) -> Result<(), DownError> {
        // Uncontended, an owned one comes here too, and asks the kernel nothing.
        if let Owned(s) = self
            && s.try_wait().is_ok()
        {
            return Ok(());
        }
        rank::note();
        match (self, most) {
            (Plain(s), None) => s.down(),
            (Plain(s), Some(most)) => s.down_timeout(most),
            (Owned(s), None) => s.wait(),
            (Owned(s), Some(most)) => s.wait_timeout(most),
        }
    }

    /// Takes a unit if one is free for the caller. If this process can have no member in the arena, it takes it all the same, and no death
    /// returns it.
    pub fn take(&self) -> Result<(), DownError> {
        let take = || match self {
            Plain(s) => s.try_down(),
            Owned(s) => match s.try_wait() {
                Err(DownError::Arena(_)) => s.try_wait_unseen(),
                other => other,
            },
        };
        // As in `at`: a thread that becomes a member here takes locks.
        if self.is_met() { take() } else { without_signals(take) }
    }

    /// Gives up what the calling thread has left half-way.
    pub fn leave(&self) {
        match self {
            Plain(s) => s.leave(),
            Owned(s) => s.leave(),
        }
    }

    /// Whether this thread can add a unit without further ado.
    pub fn is_met(&self) -> bool {
        match self {
            Plain(s) => s.is_met(),
            Owned(s) => s.is_met(),
        }
    }

    /// Adds a unit.
    pub fn give(&self) -> Result<(), UpError> {
        match self {
            Plain(s) => s.up(),
            Owned(s) => s.post(),
        }
    }

    /// The same for a thread that can be no member.
    pub fn give_unseen(&self) -> Result<(), UpError> {
        match self {
            Plain(s) => s.up_unseen(),
            Owned(s) => s.post_unseen(),
        }
    }

    /// How many units there are.
    pub fn value(&self) -> u32 {
        match self {
            Plain(s) => s.value(),
            Owned(s) => s.value(),
        }
    }

    /// Whether it is in service.
    pub fn is_there(&self) -> bool {
        match self {
            Plain(s) => s.is_there(),
            Owned(s) => s.is_there(),
        }
    }

    /// Whether a thread waits.
    fn is_awaited(&self) -> bool {
        match self {
            Plain(s) => !s.waiters().is_empty(),
            Owned(s) => !s.waiters().is_empty(),
        }
    }
}

/// Removes what is at a spot. What cannot be removed is not there, or stays until its arena goes.
pub fn remove(kind: u64, spot: ObjectId) {
    let _ = match kind {
        PLAIN => Semaphore::remove_at(spot),
        _ => RobustSemaphore::remove_at(spot),
    };
}

/// Real-time threads first, and however long others wait: POSIX'. With `--barging` they are so told to try again, and may be overtaken.
const BY_RANK: Discipline = Discipline::Priority { aging: None };

/// Makes an object in an arena that processes share, with a given name or an invented one. What starts at 1 may be a lock.
pub fn make_shared(arena: &Arena, name: Option<&str>, value: u32) -> Result<(u64, ObjectId), ObjectError> {
    if value == 1 && asked::OWNED.is_on() {
        return Ok((OWNED, RobustSemaphore::create_in(arena, name)?.object_id()));
    }
    let made = match name {
        Some(name) => Semaphore::create_in_by(arena, name, value, BY_RANK, BARGING.is_on())?,
        None => Semaphore::unnamed_by(arena, value, BY_RANK, BARGING.is_on())?,
    };
    Ok((PLAIN, made.object_id()))
}

/// Removes an object, which cannot be in use, by its name.
pub fn remove_named(arena: &Arena, name: &str) {
    let _ = match RobustSemaphore::in_arena(arena, name) {
        Ok(owned) => RobustSemaphore::remove_at(owned.object_id()),
        Err(_) => {
            Semaphore::open(&format!("{}/{name}", arena.name())).and_then(|s| Semaphore::remove_at(s.object_id()))
        }
    };
}

/// What stands there; none if it is not this library's, or broken. One that was moved is corrected.
///
/// # Safety
/// `at` must point to a `sem_t`. The caller's frame must own nothing.
#[inline]
pub unsafe fn find(at: *mut sem_t) -> Option<(u64, ObjectId)> {
    // SAFETY: the caller's.
    match unsafe { word::read(at) } {
        Said::Ours(kind, spot) => Some((kind, spot)),
        Said::Moved(kind, spot, from) => {
            shielded(|| {
                let oldest = table().moved(from, at as usize, kind, spot);
                give_up(oldest);
                // SAFETY: the caller's; a thread that reads it meanwhile finds one of the two.
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

/// Removes what others have taken the place of.
fn give_up(replaced: impl IntoIterator<Item = ObjectId>) {
    replaced.into_iter().for_each(|spot| remove(PLAIN, spot));
}

/// Forgets what was initialised there before, and removes it.
fn forget(at: *const sem_t) {
    let Some((kind, spot)) = table().at.remove(&(at as usize)) else { return };
    if is_private(spot) {
        let oldest = table().replace(spot);
        return give_up(oldest);
    }
    // SAFETY: the caller initialises a `sem_t` there: it can be read.
    if unsafe { word::read(at) } == Said::Ours(kind, spot) {
        remove(kind, spot);
    }
}

/// The access rights of the arenas' directory. The usual one is the user's alone.
fn directory_rights() -> u32 {
    let facts = chappe::directory().ok().and_then(|path| std::fs::metadata(path).ok());
    facts.map_or(0o700, |facts| facts.mode())
}

/// Makes an object for a `sem_t` at an address. What others could not find is refused.
fn make(at: *const sem_t, for_processes: bool, value: u32) -> Result<(u64, ObjectId), ObjectError> {
    if for_processes && is_shared(at) {
        let place = memory::Place::of(at as usize);
        if place.as_ref().is_some_and(|place| place.is_for_others(directory_rights())) {
            let what = "others may use the memory, and not the arena".into();
            return Err(ArenaError::Io { what, source: io::ErrorKind::PermissionDenied.into() }.into());
        }
        let kept = place.and_then(|place| {
            let folder = Folder::make().ok()?;
            let lock = folder.lock().ok()?;
            folder.keep(&lock, &place, value).ok()?
        });
        return kept.map_or_else(|| make_shared(&Arena::family()?, None, value), Ok);
    }
    // Of this one's users none outlives another: there is no survivor to return to.
    let arena = Arena::try_private()?;
    let made = match Semaphore::unnamed_by(&arena, value, BY_RANK, BARGING.is_on()) {
        Err(ObjectError::Arena(ArenaError::ObjectsFull { .. })) => {
            table().kept = 0;
            // One at a time: nothing is removed under the table's lock.
            let oldest = || table().oldest();
            give_up(std::iter::from_fn(oldest));
            Semaphore::unnamed_by(&arena, value, BY_RANK, BARGING.is_on())?
        }
        made => made?,
    };
    Ok((PLAIN, made.object_id()))
}

/// `sem_init`, but for a value that cannot be.
///
/// # Safety
/// `at` must point to memory for a `sem_t`. The caller's frame must own nothing.
pub unsafe fn init(at: *mut sem_t, for_processes: c_int, value: c_uint) -> c_int {
    let mut is_ours = false;
    let answer = shielded(|| {
        forget(at);
        if heap::has_room()
            && let Ok((kind, spot)) = make(at, for_processes != 0, value)
        {
            // SAFETY: the caller's.
            unsafe { word::write(at, kind, spot) };
            table().at.insert(at as usize, (kind, spot));
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
        table().at.remove(&(at as usize));
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
