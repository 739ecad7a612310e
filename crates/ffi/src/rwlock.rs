//! Readers-writer locks: locks around data that many threads read or one thread changes, that outlive their holders.
//!
//! The data is a number of bytes, as a mutex's. Readers and writers are served in the order of arrival: a reader that
//! comes after a waiting writer waits behind it; readers that stand next to each other in the queue enter together. A
//! reader that dies gives its share back at once. If a writer's process dies, the next thread that locks it gets
//! CHAPPE_OWNER_DIED: it holds the lock, and finds the data as the dead writer left it. So does every later holder,
//! until a writer calls `chappe_rwlock_make_consistent`, or gives the lock up for ever with `chappe_rwlock_condemn`. A
//! thread that ends while it holds the lock leaves it condemned: another thread may still use the data.
//!
//! The lock is not recursive, and a reader cannot become a writer; a writer can go on as a reader. The thread that
//! locked it must unlock it, by any handle of the lock. In a forked child the lock is the parent's.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::mutex::{CHAPPE_OWNER_DIED, EVEN, bytes_of, chappe_mutex_options};
use crate::uses::Uses;
use chappe::raw::{Had, Mine, rwlock_of_bytes, rwlock_of_mine};
use chappe::{ReadGuard, RwLock, RwLockError, WriteGuard};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// A handle of a readers-writer lock.
pub struct chappe_rwlock(());

/// A lock, and where its data is.
pub struct Shared {
    pub lock: Box<RwLock<()>>,
    pub data: NonNull<u8>,
    size: usize,
    /// The memory is ours.
    own: bool,
    /// By waits and guards of the process.
    pub uses: Uses,
}

impl Object for Shared {
    type Name = chappe_rwlock;
    const KIND: u32 = 15;
    const REFUSAL: &'static CStr =
        c"this is no open handle of a readers-writer lock: NULL, closed already, or of something else";
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.own
            && let Ok(layout) = Layout::from_size_align(self.size.max(1), EVEN)
        {
            // SAFETY: allocated with this layout, and freed once; nobody has it locked.
            unsafe { dealloc(self.data.as_ptr(), layout) };
        }
    }
}

impl Shared {
    /// What the calling thread has of it.
    fn mine(&self) -> Option<Mine<'_>> {
        // SAFETY: every guard of this lock that C has was forgotten here.
        unsafe { rwlock_of_mine(&self.lock) }
    }

    /// What the calling thread writes.
    fn writing(&self) -> Answer<WriteGuard<'_, ()>> {
        match self.mine() {
            Some(Mine::Writes(guard)) => Ok(guard),
            other => {
                std::mem::forget(other);
                Err(Failure::new(
                    libc::EPERM,
                    c"the readers-writer lock is not locked by this thread to write (what the parent process locked is the parent's)",
                ))
            }
        }
    }
}

/// Keeps the guard in the thread's name; the answer.
pub fn locked<G>(result: Result<G, RwLockError<G>>) -> Answer<c_int> {
    match result {
        Ok(guard) => {
            std::mem::forget(guard);
            Ok(0)
        }
        Err(RwLockError::OwnerDied(guard)) => {
            std::mem::forget(guard);
            Ok(CHAPPE_OWNER_DIED)
        }
        Err(e) => Err(e.into()),
    }
}

fn named(name: *const c_char, options: *const chappe_mutex_options, had: Had, lock: *mut *mut chappe_rwlock) -> c_int {
    done(|| {
        let (place, name) = (input::place(lock)?, input::name(name)?);
        let (of, initial) = bytes_of(input::given(options)?)?;
        place.write(handle::open_as(|| {
            let (lock, data) = rwlock_of_bytes(name, had, of, initial)?;
            Ok(Shared { lock: Box::new(lock), data, size: of.size, own: false, uses: Uses::default() })
        })?);
        Ok(())
    })
}

/// Makes a readers-writer lock for the threads of this process. Its data is aligned to 64 bytes. It goes when the handle is closed.
///
/// Errors: -EINVAL for an alignment that is no power of two, or above 64, a flag that is not known, or a reserved field that is not 0;
/// -ENOMEM if there is no memory for the data, or no address space for what is private; -EFAULT; -EMFILE; -ENOSPC if there are 65536
/// private objects, of which a lock is three.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_private(options: *const chappe_mutex_options, lock: *mut *mut chappe_rwlock) -> c_int {
    done(|| {
        let place = input::place(lock)?;
        let (of, initial) = bytes_of(input::given(options)?)?;
        let layout = Layout::from_size_align(of.size.max(1), EVEN).ok().filter(|_| of.align <= EVEN);
        let layout =
            layout.ok_or_else(|| Failure::new(libc::EINVAL, c"data of this size or alignment cannot be had"))?;
        // SAFETY: at least a byte.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) });
        let data = data.ok_or_else(|| Failure::new(libc::ENOMEM, c"there is no memory for the lock's data"))?;
        if let Some(initial) = initial {
            // SAFETY: as many as there were asked for, and nobody else's yet.
            unsafe { data.as_ptr().copy_from_nonoverlapping(initial.as_ptr(), initial.len()) };
        }
        let lock = RwLock::private(()).inspect_err(|_| {
            // SAFETY: allocated just now, with this layout.
            unsafe { dealloc(data.as_ptr(), layout) };
        })?;
        place.write(handle::open(Shared {
            lock: Box::new(lock),
            data,
            size: of.size,
            own: true,
            uses: Uses::default(),
        })?);
        Ok(())
    })
}

/// Opens the readers-writer lock of this name: "table", or "lab/table" for one in the arena "lab". `initial` is not looked at.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the data has another size, alignment or type; -EINVAL for
/// an alignment that is none, a flag that is not known, or a reserved field that is not 0; -EFAULT also if `options` is NULL; else as
/// `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_open(
    name: *const c_char,
    options: *const chappe_mutex_options,
    lock: *mut *mut chappe_rwlock,
) -> c_int {
    named(name, options, Had::Opened, lock)
}

/// Makes the readers-writer lock of this name, which must not be there, and its arena if need be.
///
/// Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as `chappe_rwlock_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_create(
    name: *const c_char,
    options: *const chappe_mutex_options,
    lock: *mut *mut chappe_rwlock,
) -> c_int {
    named(name, options, Had::Created, lock)
}

/// Opens the readers-writer lock of this name, or makes it.
///
/// Errors: as `chappe_rwlock_open` and `chappe_rwlock_create`, but for -ENOENT and -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_open_or_create(
    name: *const c_char,
    options: *const chappe_mutex_options,
    lock: *mut *mut chappe_rwlock,
) -> c_int {
    named(name, options, Had::Either, lock)
}

/// Closes a handle. A private lock goes with it, and its data; a named one stays. No other thread may be in a call with this handle, call with it
/// later, or have a private one locked.
///
/// Errors: -EBUSY if this thread has it locked, or a wait or guard of the process uses it: unlock it, or cancel the wait, first; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_close(lock: *mut chappe_rwlock) -> c_int {
    done(|| {
        let shared = handle::get::<Shared>(lock)?;
        let mine = shared.mine();
        let has = mine.is_some();
        std::mem::forget(mine);
        if has && !shared.lock.is_condemned() {
            let text = c"the readers-writer lock is locked by this thread: unlock it before it is closed";
            return Err(Failure::new(libc::EBUSY, text));
        }
        shared.uses.end()?;
        handle::close::<Shared>(lock).map(drop)
    })
}

/// Removes the readers-writer lock of this name, whatever its data. One that is locked or awaited is refused unless `force`: then its holders' locks
/// end without effect, and waiters get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_rwlock_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(RwLock::<()>::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_name(lock: *const chappe_rwlock, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Shared>(lock)?.lock.name()))
}

/// How many bytes it guards.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_size(lock: *const chappe_rwlock) -> isize {
    answer(|| Ok(handle::get::<Shared>(lock)?.size as isize))
}

/// 1 if it was condemned, else 0.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_is_condemned(lock: *const chappe_rwlock) -> c_int {
    answer(|| Ok(handle::get::<Shared>(lock)?.lock.is_condemned().into()))
}

fn read(lock: *mut chappe_rwlock, data: *mut *const c_void, limit: Answer<Limit>) -> c_int {
    answer(|| {
        let (shared, place) = (handle::get::<Shared>(lock)?, input::place_if(data)?);
        let answered = locked(match limit? {
            Limit::Forever => shared.lock.read(),
            Limit::Now => shared.lock.try_read(),
            Limit::Within(duration) => shared.lock.read_timeout(duration),
        })?;
        if let Some(place) = place {
            place.write(shared.data.as_ptr().cast_const().cast());
        }
        Ok(answered)
    })
}

fn write(lock: *mut chappe_rwlock, data: *mut *mut c_void, limit: Answer<Limit>) -> c_int {
    answer(|| {
        let (shared, place) = (handle::get::<Shared>(lock)?, input::place_if(data)?);
        let answered = locked(match limit? {
            Limit::Forever => shared.lock.write(),
            Limit::Now => shared.lock.try_write(),
            Limit::Within(duration) => shared.lock.write_timeout(duration),
        })?;
        if let Some(place) = place {
            place.write(shared.data.as_ptr().cast());
        }
        Ok(answered)
    })
}

/// Locks it to read; waits until no writer holds it, and earlier waiters have had their turn. A handled signal does not
/// end the wait. Writes the address of the data to `data`, unless that is NULL; the caller may read there until it
/// unlocks. Answers 0 or CHAPPE_OWNER_DIED: in both cases it is locked.
///
/// Errors: -ENOTRECOVERABLE if it was condemned; -EIDRM if it is or gets removed; -EDEADLK if this very thread has it, to read or to
/// write; -EUSERS if the thread cannot become a member of its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for
/// deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_read(lock: *mut chappe_rwlock, data: *mut *const c_void) -> c_int {
    read(lock, data, Ok(Limit::Forever))
}

/// Locks it to read if nobody writes or waits. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_rwlock_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_try_read(lock: *mut chappe_rwlock, data: *mut *const c_void) -> c_int {
    read(lock, data, Ok(Limit::Now))
}

/// As `chappe_rwlock_read`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_rwlock_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_read_timeout(lock: *mut chappe_rwlock, data: *mut *const c_void, ns: i64) -> c_int {
    read(lock, data, input::within(ns))
}

/// As `chappe_rwlock_read`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_rwlock_read_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_read_deadline(lock: *mut chappe_rwlock, data: *mut *const c_void, at: i64) -> c_int {
    read(lock, data, input::until(at))
}

/// Locks it to write; waits until no thread holds it, and earlier waiters have had their turn. Otherwise as
/// `chappe_rwlock_read`; the caller may change the data.
///
/// Errors: as `chappe_rwlock_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_write(lock: *mut chappe_rwlock, data: *mut *mut c_void) -> c_int {
    write(lock, data, Ok(Limit::Forever))
}

/// Locks it to write if nobody has it or waits. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_rwlock_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_try_write(lock: *mut chappe_rwlock, data: *mut *mut c_void) -> c_int {
    write(lock, data, Ok(Limit::Now))
}

/// As `chappe_rwlock_write`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_rwlock_read`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_write_timeout(lock: *mut chappe_rwlock, data: *mut *mut c_void, ns: i64) -> c_int {
    write(lock, data, input::within(ns))
}

/// As `chappe_rwlock_write`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_rwlock_write_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_write_deadline(lock: *mut chappe_rwlock, data: *mut *mut c_void, at: i64) -> c_int {
    write(lock, data, input::until(at))
}

/// Unlocks it, whether this thread reads or writes. Never waits.
///
/// Errors: -EPERM if this thread has not locked it, or its parent process has; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_unlock(lock: *mut chappe_rwlock) -> c_int {
    done(|| match handle::get::<Shared>(lock)?.mine() {
        Some(mine) => {
            drop(mine);
            Ok(())
        }
        None => Err(Failure::new(
            libc::EPERM,
            c"the readers-writer lock is not locked by this thread (what the parent process locked is the parent's)",
        )),
    })
}

/// The writer goes on as a reader, with nobody in between.
///
/// Errors: -EPERM if this thread does not write; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_downgrade(lock: *mut chappe_rwlock) -> c_int {
    done(|| {
        let reading: ReadGuard<'_, ()> = WriteGuard::downgrade(handle::get::<Shared>(lock)?.writing()?);
        std::mem::forget(reading);
        Ok(())
    })
}

/// Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. The lock stays locked.
///
/// Errors: as `chappe_rwlock_downgrade`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_make_consistent(lock: *mut chappe_rwlock) -> c_int {
    done(|| {
        let mut guard = handle::get::<Shared>(lock)?.writing()?;
        WriteGuard::make_consistent(&mut guard);
        std::mem::forget(guard);
        Ok(())
    })
}

/// Gives the lock up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE.
///
/// Errors: as `chappe_rwlock_downgrade`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwlock_condemn(lock: *mut chappe_rwlock) -> c_int {
    done(|| {
        WriteGuard::condemn(handle::get::<Shared>(lock)?.writing()?);
        Ok(())
    })
}
