//! Guards: locks of the process, for loops of events.
//!
//! `chappe_mutex_lock` and its like lock for the thread that calls. The calls here begin to wait and return, and `chappe_dispatch` calls back when the
//! lock is the process's: see chappe_dispatch(3). What is locked is a guard then, which any thread of the process may use, one at a time, and unlock.
//! A guard is a handle; a copy of its address is the same guard.
//!
//! A task's wait has its place in the line of the threads of all processes. A lock that is granted to a wait which is cancelled goes to the next waiter. When
//! the process dies, so does the guard: the next holder gets CHAPPE_OWNER_DIED, if it was to write. In a forked child a guard is the parent's
//! (-EPERM). At the end of the process a guard that is left counts as one of a process that has died.
//!
//! A lock's handle stays open while a wait or a guard of this process uses it: to close it is refused (-EBUSY).

use crate::condvar::{CHAPPE_CONDVAR_REMOVED, chappe_condvar};
use crate::dispatch::{Memory, begin, chappe_done, may_begin};
use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input;
use crate::mutex::{CHAPPE_OWNER_DIED, Locked, chappe_mutex};
use crate::rwlock::{Shared, chappe_rwlock};
use crate::uses::{Use, Uses};
use chappe::raw::incarnation;
use chappe::task::{OwnedReadGuard, OwnedWriteGuard};
use chappe::{Condvar, LockError, MutexGuard, OwnedMutexGuard, RwLockError, WriteGuard};
use std::ffi::{CStr, c_int, c_void};
use std::future::Future;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A lock that belongs to the process.
pub struct chappe_guard(());

/// What is locked.
enum Held {
    Mutex(OwnedMutexGuard<'static, ()>),
    Reads(#[expect(dead_code, reason = "it unlocks when it goes")] OwnedReadGuard<'static, ()>),
    Writes(OwnedWriteGuard<'static, ()>),
}

struct Guard {
    /// `None`: it was condemned. Before the use: while it is there, so is the lock.
    held: Option<Held>,
    data: NonNull<u8>,
    _by: Use,
}

/// A guard, and the process that it belongs to.
struct Guarded {
    incarnation: u64,
    /// Locked for one call, and not looked at in a forked child.
    guard: Box<Mutex<Guard>>,
}

impl Object for Guarded {
    type Name = chappe_guard;
    const KIND: u32 = 25;
    const REFUSAL: &'static CStr = c"this is no guard: NULL, unlocked already, or something else";
}

/// A lock's data, for the thread that calls back.
struct Data(NonNull<u8>);

// SAFETY: an address; the guard that it comes with says which process may use what is there.
unsafe impl Send for Data {}

/// The process's own.
fn ours<'a>(guard: *const chappe_guard) -> Answer<&'a Guarded> {
    let guarded = handle::get::<Guarded>(guard)?;
    if guarded.incarnation != incarnation() {
        return Err(Failure::new(libc::EPERM, c"the guard is the parent process's: lock again in the child"));
    }
    Ok(guarded)
}

/// Takes it out of its handle.
fn taken(guard: *mut chappe_guard) -> Answer<Guard> {
    ours(guard)?;
    let guarded = handle::close::<Guarded>(guard)?;
    Ok(guarded.guard.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn with<R>(guard: *const chappe_guard, act: impl FnOnce(&mut Guard) -> Answer<R>) -> Answer<R> {
    act(&mut ours(guard)?.guard.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cold]
fn reads<T>() -> Answer<T> {
    Err(Failure::new(libc::EPERM, c"the guard reads: only what is locked to write is declared whole, or given up"))
}

/// Puts a guard where the caller wants it.
fn put(place: &Memory<*mut chappe_guard>, held: Held, data: &Data, by: Use, answered: c_int) -> Answer<c_int> {
    let guard = Box::new(Mutex::new(Guard { held: Some(held), data: data.0, _by: by }));
    let place = input::place(place.get())?;
    place.write(handle::open(Guarded { incarnation: incarnation(), guard })?);
    Ok(answered)
}

/// Begins a wait for a lock. `died`: its guard, of an error that says that it is locked, and an earlier holder died.
fn lock<G: Send + 'static, E: Send + 'static>(
    (guard, call, data): (*mut *mut chappe_guard, chappe_done, *mut c_void),
    (uses, its): (&'static Uses, NonNull<u8>),
    wait: impl Future<Output = Result<G, E>> + Send + 'static,
    died: fn(E) -> Result<G, E>,
    held: fn(G) -> Held,
) -> Answer<i64>
where
    Failure: From<E>,
{
    input::place(guard)?;
    let (place, by, its) = (Memory::new(guard), uses.add(), Data(its));
    let wait = async move {
        match wait.await {
            Ok(guard) => Ok((guard, 0, by)),
            Err(e) => died(e).map(|guard| (guard, CHAPPE_OWNER_DIED, by)),
        }
    };
    begin(call, data, wait, move |(guard, answered, by)| put(&place, held(guard), &its, by, answered))
}

/// As `chappe_mutex_lock`, without waiting: begins a wait, and answers its number, above 0. `call` is called by `chappe_dispatch` when the mutex is locked for the
/// process, with 0 or CHAPPE_OWNER_DIED; its guard is at `guard` then, which must be there until then.
///
/// A task that locks the mutex twice waits for itself: of tasks -EDEADLK is not told.
///
/// Errors: -EBADF; -EFAULT if `guard` or `call` is NULL; the system's, if it has no descriptor left. The callback gets -ENOTRECOVERABLE if the mutex was
/// condemned, -EIDRM if it is or gets removed, -EMFILE if 65536 handles are open, -EUSERS if the arena has no place left and no other wait of this
/// process has one at this mutex, and the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_lock_async(
    mutex: *mut chappe_mutex,
    guard: *mut *mut chappe_guard,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let locked: &'static Locked = handle::get(mutex)?;
        let died = |e| if let LockError::OwnerDied(guard) = e { Ok(guard) } else { Err(e) };
        lock((guard, call, data), (&locked.uses, locked.data), locked.mutex.lock_async(), died, Held::Mutex)
    })
}

/// Of a readers-writer lock.
fn of_rwlock<G>(e: RwLockError<G>) -> Result<G, RwLockError<G>> {
    if let RwLockError::OwnerDied(guard) = e { Ok(guard) } else { Err(e) }
}

/// As `chappe_rwlock_read`, without waiting: as `chappe_mutex_lock_async`, of a readers-writer lock that is locked to read. Each guard has a place in the arena.
///
/// Errors: as `chappe_mutex_lock_async`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_read_async(
    lock: *mut chappe_rwlock,
    guard: *mut *mut chappe_guard,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let shared: &'static Shared = handle::get(lock)?;
        let its = (&shared.uses, shared.data);
        self::lock((guard, call, data), its, shared.lock.read_async(), of_rwlock, Held::Reads)
    })
}

/// The same of one that is locked to write.
///
/// Errors: as `chappe_mutex_lock_async`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_write_async(
    lock: *mut chappe_rwlock,
    guard: *mut *mut chappe_guard,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let shared: &'static Shared = handle::get(lock)?;
        let its = (&shared.uses, shared.data);
        self::lock((guard, call, data), its, shared.lock.write_async(), of_rwlock, Held::Writes)
    })
}

/// As `chappe_condvar_wait`, without waiting: unlocks the mutex of `guard`, which is no guard any more, begins a wait for a notification, and answers its number.
/// The first two steps are one. When it was notified, and the mutex is locked again for the process, `call` is called, with the sum of what is true of
/// CHAPPE_OWNER_DIED and CHAPPE_CONDVAR_REMOVED; the new guard is at `again` then. Test the condition again.
///
/// A wait that is cancelled leaves the mutex unlocked; a notification that it had goes to the next waiter, unless it waited for the mutex already.
///
/// Errors: -EPERM if the guard is not that of a mutex, or is the parent process's; -EBADF; -EFAULT if `again` or `call` is NULL; the system's, if it has no
/// descriptor left: then nothing was done. The callback gets what that of `chappe_mutex_lock_async` gets: then the mutex is not locked.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_condvar_wait_async(
    condvar: *mut chappe_condvar,
    guard: *mut chappe_guard,
    again: *mut *mut chappe_guard,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let condvar = handle::get::<Condvar>(condvar)?.clone();
        input::place(again)?;
        may_begin(call)?;
        with(guard, |guard| match guard.held {
            Some(Held::Mutex(_)) => Ok(()),
            _ => Err(Failure::new(libc::EPERM, c"the guard is not that of a mutex")),
        })?;
        let Guard { held, data: its, _by: by } = taken(guard)?;
        let Some(Held::Mutex(held)) = held else { unreachable!("one thread at a time uses a guard") };
        let (place, its) = (Memory::new(again), Data(its));
        let wait = async move {
            match condvar.wait_async(held).await {
                Ok(guard) => Ok((guard, 0, by)),
                Err(LockError::OwnerDied(guard)) => Ok((guard, CHAPPE_OWNER_DIED, by)),
                Err(LockError::CondvarDead { guard, .. }) => Ok((guard, CHAPPE_CONDVAR_REMOVED, by)),
                Err(e) => Err(e),
            }
        };
        let finish = move |(guard, answered, by)| put(&place, Held::Mutex(guard), &its, by, answered);
        begin(call, data, wait, finish)
    })
}

/// Where the data is that the lock guards: to be read, and, unless the guard reads, written, until it is unlocked. NULL if this is no guard of this
/// process; `chappe_last_error` says which.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_guard_data(guard: *const chappe_guard) -> *mut c_void {
    let mut data = std::ptr::null_mut();
    done(|| {
        data = with(guard, |guard| Ok(guard.data.as_ptr().cast()))?;
        Ok(())
    });
    data
}

/// Unlocks it. It is no guard any more. Any thread of the process may. Never waits.
///
/// Errors: -EBADF if it was unlocked already; -EPERM if it is the parent process's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_guard_unlock(guard: *mut chappe_guard) -> c_int {
    done(|| taken(guard).map(drop))
}

/// Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. It stays locked.
///
/// Errors: -EPERM also if the guard reads; else as `chappe_guard_unlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_guard_make_consistent(guard: *mut chappe_guard) -> c_int {
    done(|| {
        with(guard, |guard| {
            match &mut guard.held {
                Some(Held::Mutex(held)) => MutexGuard::make_consistent(held),
                Some(Held::Writes(held)) => WriteGuard::make_consistent(held),
                _ => return reads(),
            }
            Ok(())
        })
    })
}

/// Gives the lock up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE. It is no guard any more.
///
/// Errors: as `chappe_guard_make_consistent`, and then it stays a guard.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_guard_condemn(guard: *mut chappe_guard) -> c_int {
    done(|| {
        with(guard, |guard| {
            match guard.held.take() {
                Some(Held::Mutex(held)) => MutexGuard::condemn(held),
                Some(Held::Writes(held)) => WriteGuard::condemn(held),
                other => {
                    guard.held = other;
                    return reads();
                }
            }
            Ok(())
        })?;
        taken(guard).map(drop)
    })
}
