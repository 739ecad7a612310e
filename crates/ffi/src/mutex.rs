//! Mutexes: locks around data, that outlive their holders.
//!
//! The data is a number of bytes, in memory that all users of the mutex share (a named mutex), or in this process (a
//! private one). If a holder's process dies, the next thread that locks the mutex gets CHAPPE_OWNER_DIED: it holds the
//! lock, and finds the data as the dead holder left it. So does every later holder, until one calls
//! `chappe_mutex_make_consistent`, or gives the mutex up for ever with `chappe_mutex_condemn`. A thread that ends while
//! it holds the mutex leaves it condemned: another thread may still use the data.
//!
//! Newcomers may overtake waiters for half a millisecond; then the lock is handed to the waiter. The mutex is not
//! recursive. The thread and the handle that locked it must unlock it. In a forked child the lock is the parent's.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::process::bias;
use crate::thread::here;
use crate::uses::Uses;
use chappe::raw::{Called, Had, lock_now, mutex_of_bytes};
use chappe::{LockError, LockResult, Mutex, MutexGuard};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A handle of a mutex.
pub struct chappe_mutex(());

/// An answer: the mutex is locked, and an earlier holder died, or its data was not made whole since.
pub const CHAPPE_OWNER_DIED: c_int = 1;

/// What a mutex guards.
#[repr(C)]
pub struct chappe_mutex_options {
    /// How many bytes. All programs that open the mutex must say the same.
    pub size: usize,
    /// To how many bytes they are aligned: a power of two, at most 64; 0 stands for 8. All programs that open the mutex
    /// must say the same.
    pub align: usize,
    /// What the data is, in a word, as those that open it must say, too; NULL stands for "bytes". What a Rust program made as a
    /// `Mutex` of a type has the type's name without modules.
    pub type_name: *const c_char,
    /// What it is at first: `size` bytes. NULL: zeros.
    pub initial: *const c_void,
    /// Of a private one: 0 or CHAPPE_BIAS_OFF.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// 0.
    pub reserved_too: [u64; 3],
}

/// A mutex, and what its present holder has left here.
pub struct Locked {
    pub mutex: Mutex<()>,
    pub data: NonNull<u8>,
    size: usize,
    /// The memory is ours.
    own: bool,
    /// The guard, while it was locked by this handle. Written by the holder, before it unlocks and after it has locked.
    // Ordering: Relaxed: read again by its own thread alone; the caller sees to it that nobody else uses the handle.
    kept: AtomicU64,
    /// The thread that holds the guard. Only this thread reads `kept`.
    // Ordering: Relaxed: another thread that reads it finds that it is not itself.
    thread: AtomicUsize,
    /// By waits and guards of the process.
    pub uses: Uses,
}

impl Object for Locked {
    type Name = chappe_mutex;
    const KIND: u32 = 5;
    const REFUSAL: &'static CStr = c"this is no open handle of a mutex: NULL, closed already, or of something else";
}

/// Private data is as even as shared data.
pub(crate) const EVEN: usize = 64;

impl Drop for Locked {
    fn drop(&mut self) {
        if self.own
            && let Ok(layout) = Layout::from_size_align(self.size.max(1), EVEN)
        {
            // SAFETY: allocated with this layout, and freed once; nobody has it locked.
            unsafe { dealloc(self.data.as_ptr(), layout) };
        }
    }
}

impl Locked {
    fn new(mutex: Mutex<()>, data: NonNull<u8>, size: usize, own: bool) -> Locked {
        Locked { mutex, data, size, own, kept: AtomicU64::new(0), thread: AtomicUsize::new(0), uses: Uses::default() }
    }

    #[inline(always)]
    fn keep(&self, guard: MutexGuard<'_, ()>) {
        self.kept.store(MutexGuard::into_number(guard), Ordering::Relaxed);
        self.thread.store(here(), Ordering::Relaxed);
    }

    #[inline]
    fn locked(&self, result: LockResult<'_, ()>) -> Answer<c_int> {
        match result {
            Ok(guard) => {
                self.keep(guard);
                Ok(0)
            }
            Err(LockError::OwnerDied(guard)) => {
                self.keep(guard);
                Ok(CHAPPE_OWNER_DIED)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The guard, if this thread locked it by this handle.
    #[inline(always)]
    fn guard_if(&self) -> Option<MutexGuard<'_, ()>> {
        // Relaxed, all: as in `keep`. Before the guard goes, so that the next holder's are not taken away.
        if self.thread.load(Ordering::Relaxed) != here() {
            return None;
        }
        let number = self.kept.load(Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
        self.kept.store(0, Ordering::Relaxed);
        // SAFETY: this thread's, or its parent's, and forgotten just now.
        unsafe { MutexGuard::of_number(&self.mutex, number) }
    }

    /// The same, and why not.
    pub fn guard(&self) -> Answer<MutexGuard<'_, ()>> {
        self.guard_if().ok_or_else(|| {
            not_ours(c"the mutex is not locked by this thread with this handle (what the parent process locked is the parent's)")
        })
    }

    /// What a wait that gave up the guard came to: as `locked`, which also says if the condition variable is gone.
    pub fn again(&self, result: LockResult<'_, ()>) -> Answer<(c_int, bool)> {
        match result {
            Err(LockError::CondvarDead { guard, .. }) => {
                self.keep(guard);
                Ok((0, true))
            }
            other => self.locked(other).map(|answered| (answered, false)),
        }
    }
}

#[cold]
fn not_ours(text: &'static CStr) -> Failure {
    Failure::new(libc::EPERM, text)
}

pub fn bytes_of(options: &chappe_mutex_options) -> Answer<(Called<'_>, Option<&[u8]>)> {
    input::unused(&[options.reserved.into()])?;
    input::unused(&options.reserved_too)?;
    bias(options.flags)?;
    let align = if options.align == 0 { 8 } else { options.align };
    if !align.is_power_of_two() {
        return Err(Failure::new(libc::EINVAL, c"an alignment must be a power of two"));
    }
    let name = input::text_if(options.type_name)?.unwrap_or("bytes");
    let initial = if options.initial.is_null() { None } else { Some(input::bytes(options.initial, options.size)?) };
    Ok((Called { name, size: options.size, align }, initial))
}

fn named(name: *const c_char, options: *const chappe_mutex_options, had: Had, mutex: *mut *mut chappe_mutex) -> c_int {
    done(|| {
        let (place, name) = (input::place(mutex)?, input::name(name)?);
        let (of, initial) = bytes_of(input::given(options)?)?;
        place.write(handle::open_as(|| {
            let (mutex, data) = mutex_of_bytes(name, had, of, initial)?;
            Ok(Locked::new(mutex, data, of.size, false))
        })?);
        Ok(())
    })
}

/// Makes a mutex for the threads of this process. Its data is aligned to 64 bytes. It goes when the handle is closed.
///
/// Errors: -EINVAL for an alignment that is no power of two, or above 64, a flag that is not known, or a reserved field that is not 0;
/// -ENOMEM if there is no memory for the data, or no address space for what is private; -EFAULT; -EMFILE; -ENOSPC if there are 65536
/// private objects.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_private(options: *const chappe_mutex_options, mutex: *mut *mut chappe_mutex) -> c_int {
    done(|| {
        let place = input::place(mutex)?;
        let options = input::given(options)?;
        let (of, initial) = bytes_of(options)?;
        let bias = bias(options.flags)?;
        let layout = Layout::from_size_align(of.size.max(1), EVEN).ok().filter(|_| of.align <= EVEN);
        let layout =
            layout.ok_or_else(|| Failure::new(libc::EINVAL, c"data of this size or alignment cannot be had"))?;
        // SAFETY: at least a byte.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) });
        let data = data.ok_or_else(|| Failure::new(libc::ENOMEM, c"there is no memory for the mutex's data"))?;
        if let Some(initial) = initial {
            // SAFETY: as many as there were asked for, and nobody else's yet.
            unsafe { data.as_ptr().copy_from_nonoverlapping(initial.as_ptr(), initial.len()) };
        }
        let mutex =
            Mutex::private_with((), bias).map(|mutex| Locked::new(mutex, data, of.size, true)).inspect_err(|_| {
                // SAFETY: allocated just now, with this layout.
                unsafe { dealloc(data.as_ptr(), layout) };
            })?;
        place.write(handle::open(mutex)?);
        Ok(())
    })
}

/// Opens the mutex of this name: "counts", or "lab/counts" for one in the arena "lab". `initial` is not looked at.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the data has another size, alignment or type; -EINVAL for
/// an alignment that is none, a flag that is not known, or a reserved field that is not 0; -EFAULT also if `options` is NULL; else as
/// `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_open(
    name: *const c_char,
    options: *const chappe_mutex_options,
    mutex: *mut *mut chappe_mutex,
) -> c_int {
    named(name, options, Had::Opened, mutex)
}

/// Makes the mutex of this name, which must not be there, and its arena if need be.
///
/// Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as `chappe_mutex_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_create(
    name: *const c_char,
    options: *const chappe_mutex_options,
    mutex: *mut *mut chappe_mutex,
) -> c_int {
    named(name, options, Had::Created, mutex)
}

/// Opens the mutex of this name, or makes it.
///
/// Errors: as `chappe_mutex_open` and `chappe_mutex_create`, but for -ENOENT and -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_open_or_create(
    name: *const c_char,
    options: *const chappe_mutex_options,
    mutex: *mut *mut chappe_mutex,
) -> c_int {
    named(name, options, Had::Either, mutex)
}

/// Closes a handle. A private mutex goes with it, and its data; a named one stays. No other thread may be in a call with this handle,
/// or call with it later.
///
/// Errors: -EBUSY if it is locked by this handle, or a wait or guard of the process uses it: unlock it, or cancel the wait, first; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_close(mutex: *mut chappe_mutex) -> c_int {
    done(|| {
        let locked = handle::get::<Locked>(mutex)?;
        let number = locked.kept.load(Ordering::Relaxed);
        // SAFETY: only asked whose it is; the guard is forgotten at once.
        let ours = number != 0
            && unsafe { MutexGuard::of_number(&locked.mutex, number) }.map(MutexGuard::into_number).is_some();
        if ours && !locked.mutex.is_condemned() {
            return Err(Failure::new(
                libc::EBUSY,
                c"the mutex is locked by this handle: unlock it before it is closed",
            ));
        }
        locked.uses.end()?;
        handle::close::<Locked>(mutex).map(drop)
    })
}

/// Removes the mutex of this name, whatever its data. One that is locked or awaited is refused unless `force`: then its holder's lock
/// ends without effect, and waiters get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_mutex_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Mutex::<()>::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_name(mutex: *const chappe_mutex, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Locked>(mutex)?.mutex.name()))
}

/// How many bytes it guards.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_size(mutex: *const chappe_mutex) -> isize {
    answer(|| Ok(handle::get::<Locked>(mutex)?.size as isize))
}

/// 1 if it was condemned, else 0.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_is_condemned(mutex: *const chappe_mutex) -> c_int {
    answer(|| Ok(handle::get::<Locked>(mutex)?.mutex.is_condemned().into()))
}

/// 1 if a thread has its bias just now, else 0; see CHAPPE_BIAS_OFF.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_is_biased(mutex: *const chappe_mutex) -> c_int {
    answer(|| Ok(handle::get::<Locked>(mutex)?.mutex.is_biased().into()))
}

/// The part that waits for nobody and cannot fail.
#[inline(always)]
fn quickly(mutex: *mut chappe_mutex, data: *mut *mut c_void) -> bool {
    let place = input::quick(data);
    let Some(locked) = handle::quick::<Locked>(mutex).filter(|_| data.is_null() || place.is_some()) else {
        return false;
    };
    let Some(guard) = lock_now(&locked.mutex) else { return false };
    locked.keep(guard);
    if let Some(place) = place {
        place.write(locked.data.as_ptr().cast());
    }
    true
}

// Out of line, with C's calling convention: the fast path saves no register for these two, and reaches them by a jump.
#[inline(never)]
extern "C" fn waited(mutex: *mut chappe_mutex, data: *mut *mut c_void) -> c_int {
    lock(mutex, data, || Ok(Limit::Forever))
}

#[inline(never)]
extern "C" fn tried(mutex: *mut chappe_mutex, data: *mut *mut c_void) -> c_int {
    lock(mutex, data, || Ok(Limit::Now))
}

fn lock(mutex: *mut chappe_mutex, data: *mut *mut c_void, limit: impl FnOnce() -> Answer<Limit>) -> c_int {
    answer(|| {
        let (locked, place) = (handle::get::<Locked>(mutex)?, input::place_if(data)?);
        let answered = locked.locked(match limit()? {
            Limit::Forever => locked.mutex.lock(),
            Limit::Now => locked.mutex.try_lock(),
            Limit::Within(duration) => locked.mutex.lock_timeout(duration),
        })?;
        if let Some(place) = place {
            place.write(locked.data.as_ptr().cast());
        }
        Ok(answered)
    })
}

/// Locks it; waits until it is free. A handled signal does not end the wait. Writes where the data is, unless `data` is NULL; it is
/// the caller's until the mutex is unlocked. Answers 0 or CHAPPE_OWNER_DIED: in both cases it is locked.
///
/// Errors: -ENOTRECOVERABLE if it was condemned; -EIDRM if it is or gets removed; -EDEADLK if this very thread has it; -EUSERS if the
/// thread cannot become a member of its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_lock(mutex: *mut chappe_mutex, data: *mut *mut c_void) -> c_int {
    if quickly(mutex, data) { 0 } else { waited(mutex, data) }
}

/// Locks it if it is free. Never waits.
///
/// Errors: -EAGAIN; else as `chappe_mutex_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_try_lock(mutex: *mut chappe_mutex, data: *mut *mut c_void) -> c_int {
    if quickly(mutex, data) { 0 } else { tried(mutex, data) }
}

/// As `chappe_mutex_lock`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_mutex_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_lock_timeout(mutex: *mut chappe_mutex, data: *mut *mut c_void, ns: i64) -> c_int {
    lock(mutex, data, || input::within(ns))
}

/// As `chappe_mutex_lock`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_mutex_lock_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_lock_deadline(mutex: *mut chappe_mutex, data: *mut *mut c_void, at: i64) -> c_int {
    lock(mutex, data, || input::until(at))
}

/// Unlocks it. Never waits.
///
/// Errors: -EPERM if this thread has not locked it by this handle, or its parent process has; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_unlock(mutex: *mut chappe_mutex) -> c_int {
    match handle::quick::<Locked>(mutex).and_then(Locked::guard_if) {
        // Behind the border: with a waiter there is much to do that may find memory written over.
        Some(guard) => done(|| {
            drop(guard);
            Ok(())
        }),
        None => done(|| handle::get::<Locked>(mutex)?.guard().map(drop)),
    }
}

/// Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. The mutex stays locked.
///
/// Errors: as `chappe_mutex_unlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_make_consistent(mutex: *mut chappe_mutex) -> c_int {
    done(|| {
        let locked = handle::get::<Locked>(mutex)?;
        let mut guard = locked.guard()?;
        MutexGuard::make_consistent(&mut guard);
        locked.keep(guard);
        Ok(())
    })
}

/// Gives the mutex up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE.
///
/// Errors: as `chappe_mutex_unlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_mutex_condemn(mutex: *mut chappe_mutex) -> c_int {
    done(|| {
        MutexGuard::condemn(handle::get::<Locked>(mutex)?.guard()?);
        Ok(())
    })
}
