//! Pools: N permits, each of which belongs to its holder and returns when that holder dies.
//!
//! A pool of one permit is a robust lock. Waiters are served in the order of arrival; no newcomer takes a permit past a
//! waiter. Acquiring and giving back make no system call while no thread waits. See chappe_permit(3) for the permit
//! that a holder gets.
//!
//! A handle may be used by any number of threads at once, until it is closed. In a forked child the handle of a named pool is the
//! same pool, that of a private one a copy in which the parent holds nothing.

use crate::failure::{Answer, Failure, answer, done};
use crate::few::gathered;
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use crate::look::{chappe_holder, chappe_member, chappe_waiter, listed};
use crate::permit::{Place, chappe_permit};
use crate::process::{CHAPPE_PRIORITY, bias, discipline};
use chappe::raw::{self, Hold};
use chappe::{AcquireError, Discipline, Permits, Pool, acquire_any, acquire_any_timeout, try_acquire_any};
use std::ffi::{CStr, c_char, c_int};

/// A handle of a pool.
pub struct chappe_pool(());

/// The most permits that a pool can have.
pub const CHAPPE_POOL_MAX: i64 = 65536;

impl Object for Pool {
    type Name = chappe_pool;
    const KIND: u32 = 4;
    const REFUSAL: &'static CStr = c"this is no open handle of a pool: NULL, closed already, or of something else";
}

fn opened(pool: *mut *mut chappe_pool, make: impl FnOnce() -> Answer<Pool>) -> c_int {
    done(|| {
        let place = input::place(pool)?;
        place.write(handle::open_as(make)?);
        Ok(())
    })
}

/// Makes a pool for the threads of this process. It goes when the handle is closed; permits of it that are held then are void.
///
/// Errors: -EINVAL if there are to be none, or more than CHAPPE_POOL_MAX; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private
/// objects; -ENOMEM if there is no address space for what is private.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_private(permits: i64, pool: *mut *mut chappe_pool) -> c_int {
    opened(pool, || Ok(Pool::private(input::count(permits)?)?))
}

/// As `chappe_pool_private`, with `flags`: 0, or of CHAPPE_BIAS_OFF and CHAPPE_PRIORITY (which has no bias) any.
///
/// Errors: -EINVAL also if a flag is not known; else as `chappe_pool_private`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_private_with(permits: i64, flags: u32, pool: *mut *mut chappe_pool) -> c_int {
    opened(pool, || {
        let permits = input::count(permits)?;
        Ok(match discipline(flags) {
            Discipline::Fifo => Pool::private_with(permits, bias(flags)?)?,
            by_priority => {
                bias(flags & !CHAPPE_PRIORITY)?;
                Pool::private_by(permits, by_priority)?
            }
        })
    })
}

/// Opens the pool of this name: "gpu0", or "lab/gpu0" for one in the arena "lab".
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_open(name: *const c_char, pool: *mut *mut chappe_pool) -> c_int {
    opened(pool, || Ok(Pool::open(input::name(name)?)?))
}

/// Makes the pool of this name, which must not be there, and its arena if need be.
///
/// Errors: -EEXIST; -EINVAL if there are to be none, or more than CHAPPE_POOL_MAX; -ENOSPC or -EUSERS if the arena is full;
/// -EPROTOTYPE and else as `chappe_pool_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_create(name: *const c_char, permits: i64, pool: *mut *mut chappe_pool) -> c_int {
    opened(pool, || Ok(Pool::create(input::name(name)?, input::count(permits)?)?))
}

/// As `chappe_pool_create`, with `flags`: 0 or CHAPPE_PRIORITY.
///
/// Errors: -EINVAL also if a flag is not known; else as `chappe_pool_create`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_create_with(
    name: *const c_char,
    permits: i64,
    flags: u32,
    pool: *mut *mut chappe_pool,
) -> c_int {
    opened(pool, || {
        input::flags(flags, CHAPPE_PRIORITY)?;
        Ok(Pool::create_by(input::name(name)?, input::count(permits)?, discipline(flags))?)
    })
}

/// Opens the pool of this name, or makes it.
///
/// Errors: -EPROTOTYPE if it is there with another number of permits; else as `chappe_pool_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_open_or_create(name: *const c_char, permits: i64, pool: *mut *mut chappe_pool) -> c_int {
    opened(pool, || Ok(Pool::open_or_create(input::name(name)?, input::count(permits)?)?))
}

/// Closes a handle. A private pool goes with it, a named one stays, and permits of it that are held stay held. No other thread may be
/// in a call with this handle, or call with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_close(pool: *mut chappe_pool) -> c_int {
    done(|| handle::close::<Pool>(pool).map(drop))
}

/// Removes the pool of this name. One with holders or waiters is refused unless `force`: then what is held ends without effect, and
/// waiters get -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_pool_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Pool::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_name(pool: *const chappe_pool, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Pool>(pool)?.name()))
}

/// How many permits it has.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_permits(pool: *const chappe_pool) -> i64 {
    answer(|| Ok(handle::get::<Pool>(pool)?.permits().into()))
}

/// How many of its permits were free a moment ago.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_available(pool: *const chappe_pool) -> i64 {
    answer(|| Ok(handle::get::<Pool>(pool)?.available().into()))
}

/// 1 if a thread has its bias just now, else 0; see CHAPPE_BIAS_OFF.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_is_biased(pool: *const chappe_pool) -> c_int {
    answer(|| Ok(handle::get::<Pool>(pool)?.is_biased().into()))
}

/// Lists the holders of its permits, and since when they hold them: writes as many as have room, answers how many there
/// are.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_holders(pool: *const chappe_pool, to: *mut chappe_holder, room: usize) -> isize {
    answer(|| listed(&handle::get::<Pool>(pool)?.holders(), to, room, |holder| holder.into()))
}

/// Lists the waiters, in the order in which they will be served; as `chappe_pool_holders`.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_waiters(pool: *const chappe_pool, to: *mut chappe_waiter, room: usize) -> isize {
    answer(|| listed(&handle::get::<Pool>(pool)?.waiters(), to, room, |waiter| waiter.into()))
}

/// Gives the pool another number of permits. With fewer, those in use beyond the number end as they come back. The call
/// does not wait for those; it waits for a thread that is making or removing an object of the arena: see chappe(3), of
/// stopped processes.
///
/// Errors: -EINVAL, -EIDRM, -ENOSPC, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_resize(pool: *mut chappe_pool, permits: i64) -> c_int {
    done(|| Ok(handle::get::<Pool>(pool)?.resize(input::count(permits)?)?))
}

/// Takes permit `index` from its holder, and hands it on: for holders that are stuck. Their work under the permit goes
/// on. Writes the former holder to `holder`, unless that is NULL. Waits neither for the holder nor for a waiter.
///
/// Errors: -ESRCH if nobody has it; -EINVAL if the index is negative; -EIDRM, -EUSERS, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_force_release(pool: *mut chappe_pool, index: i64, holder: *mut chappe_member) -> c_int {
    done(|| {
        let (pool, place) = (handle::get::<Pool>(pool)?, input::place_if(holder)?);
        let who = pool.force_release(input::count_or_most(index)?)?;
        if let Some(place) = place {
            place.write((&who).into());
        }
        Ok(())
    })
}

/// Gives back permits that jobs kept which have ended since; answers how many. Waiters' processes do so by themselves. If jobs keep any, it
/// reads all of /proc, and waits up to a tenth of a second for processes that are just ending.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_reclaim(pool: *mut chappe_pool) -> i64 {
    answer(|| Ok(handle::get::<Pool>(pool)?.reclaim() as i64))
}

/// The part that waits for nobody and cannot fail.
#[inline(always)]
fn quickly(pool: *mut chappe_pool, permit: *mut chappe_permit) -> bool {
    let Some(place) = Place::quick(permit) else { return false };
    let taken = handle::quick::<Pool>(pool).and_then(raw::acquire_now);
    taken.map(|hold| place.of_thread(hold)).is_some()
}

// Out of line, with C's calling convention: the fast path saves no register for these two, and reaches them by a jump.
#[inline(never)]
extern "C" fn waited(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    one(pool, permit, || Ok(Limit::Forever))
}

#[inline(never)]
extern "C" fn tried(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    one(pool, permit, || Ok(Limit::Now))
}

fn one(pool: *mut chappe_pool, permit: *mut chappe_permit, limit: impl FnOnce() -> Answer<Limit>) -> c_int {
    done(|| {
        let (pool, place) = (handle::get::<Pool>(pool)?, Place::new(permit)?);
        place.of_thread(Hold::of(match limit()? {
            Limit::Forever => pool.acquire()?,
            Limit::Now => pool.try_acquire()?,
            Limit::Within(duration) => pool.acquire_timeout(duration)?,
        }));
        Ok(())
    })
}

/// Takes a permit; waits for one, in the order of arrival. A handled signal does not end the wait.
///
/// Errors: -EIDRM if the pool is or gets removed; -EUSERS if the thread cannot become a member of its arena; -EBADF, -EFAULT; the
/// system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    if quickly(pool, permit) { 0 } else { waited(pool, permit) }
}

/// Takes a permit if one is free and nobody waits for it. Permits of the dead are recovered first.
///
/// Errors: -EAGAIN; else as `chappe_pool_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_try_acquire(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    if quickly(pool, permit) { 0 } else { tried(pool, permit) }
}

/// As `chappe_pool_acquire`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_pool_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_timeout(pool: *mut chappe_pool, permit: *mut chappe_permit, ns: i64) -> c_int {
    one(pool, permit, || input::within(ns))
}

/// As `chappe_pool_acquire`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_pool_acquire_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_deadline(pool: *mut chappe_pool, permit: *mut chappe_permit, at: i64) -> c_int {
    one(pool, permit, || input::until(at))
}

fn owned(pool: *mut chappe_pool, permit: *mut chappe_permit, limit: Answer<Limit>) -> c_int {
    done(|| {
        let (pool, place) = (handle::get::<Pool>(pool)?, Place::new(permit)?);
        place.of_process(Hold::of_owned(match limit? {
            Limit::Forever => pool.acquire_owned()?,
            Limit::Now => pool.try_acquire_owned()?,
            Limit::Within(duration) => pool.acquire_owned_timeout(duration)?,
        }));
        Ok(())
    })
}

/// As `chappe_pool_acquire`, for a permit that belongs to the process: any of its threads may give it back.
///
/// Errors: as `chappe_pool_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_owned(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    owned(pool, permit, Ok(Limit::Forever))
}

/// As `chappe_pool_try_acquire`, for a permit that belongs to the process.
///
/// Errors: as `chappe_pool_try_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_try_acquire_owned(pool: *mut chappe_pool, permit: *mut chappe_permit) -> c_int {
    owned(pool, permit, Ok(Limit::Now))
}

/// As `chappe_pool_acquire_timeout`, for a permit that belongs to the process.
///
/// Errors: as `chappe_pool_acquire_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_owned_timeout(
    pool: *mut chappe_pool,
    permit: *mut chappe_permit,
    ns: i64,
) -> c_int {
    owned(pool, permit, input::within(ns))
}

/// As `chappe_pool_acquire_deadline`, for a permit that belongs to the process.
///
/// Errors: as `chappe_pool_acquire_deadline`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_owned_deadline(
    pool: *mut chappe_pool,
    permit: *mut chappe_permit,
    at: i64,
) -> c_int {
    owned(pool, permit, input::until(at))
}

/// Refuses more permits than the pool has, before so much room is looked for.
pub fn is_not_too_many(pool: &Pool, n: u32) -> Answer<()> {
    if i64::from(n) <= CHAPPE_POOL_MAX.min(pool.permits().into()) {
        return Ok(());
    }
    // What a pool that was removed had is no matter.
    Err(Failure::from(if raw::is_there(pool) {
        AcquireError::TooMany { pool: pool.name(), wanted: n, permits: pool.permits() }
    } else {
        AcquireError::Dead { pool: pool.name() }
    }))
}

fn many(pool: *mut chappe_pool, n: i64, permits: *mut chappe_permit, limit: Answer<Limit>) -> c_int {
    done(|| {
        let (pool, n, limit) = (handle::get::<Pool>(pool)?, input::count_or_most(n)?, limit?);
        is_not_too_many(pool, n)?;
        let mut places = Place::many(permits, n as usize)?;
        let taken: Permits<'_> = match limit {
            Limit::Forever => pool.acquire_many(n)?,
            Limit::Now => pool.try_acquire_many(n)?,
            Limit::Within(duration) => pool.acquire_many_timeout(n, duration)?,
        };
        Hold::of_many(taken, |hold| places.next().into_iter().for_each(|place| place.of_thread(hold)));
        Ok(())
    })
}

/// Takes `n` permits at one moment, or waits until so many are there, and writes them to `permits[0]` to `permits[n -
/// 1]`. Waiters are served in the order of arrival: a waiter for several permits is not overtaken, and those behind it
/// wait until it has got all of them. Each permit may be given back alone.
///
/// Errors: -ERANGE if the pool has fewer than `n`, or gets fewer while it waits; -EINVAL if `n` is negative; else as
/// `chappe_pool_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_many(pool: *mut chappe_pool, n: i64, permits: *mut chappe_permit) -> c_int {
    many(pool, n, permits, Ok(Limit::Forever))
}

/// Takes `n` permits if so many are free and nobody waits.
///
/// Errors: -EAGAIN; else as `chappe_pool_acquire_many`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_try_acquire_many(pool: *mut chappe_pool, n: i64, permits: *mut chappe_permit) -> c_int {
    many(pool, n, permits, Ok(Limit::Now))
}

/// As `chappe_pool_acquire_many`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; else as `chappe_pool_acquire_many`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_many_timeout(
    pool: *mut chappe_pool,
    n: i64,
    permits: *mut chappe_permit,
    ns: i64,
) -> c_int {
    many(pool, n, permits, input::within(ns))
}

/// As `chappe_pool_acquire_many`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_pool_acquire_many_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_many_deadline(
    pool: *mut chappe_pool,
    n: i64,
    permits: *mut chappe_permit,
    at: i64,
) -> c_int {
    many(pool, n, permits, input::until(at))
}

fn any(pools: *const *mut chappe_pool, n: usize, permit: *mut chappe_permit, limit: Answer<Limit>) -> isize {
    answer(|| {
        let (handles, place, limit) = (input::array(pools, n)?, Place::new(permit)?, limit?);
        gathered(
            n,
            |at| handle::get::<Pool>(handles[at]),
            |pools| {
                let (at, permit) = match limit {
                    Limit::Forever => acquire_any(pools)?,
                    Limit::Now => try_acquire_any(pools)?,
                    Limit::Within(duration) => acquire_any_timeout(pools, duration)?,
                };
                place.of_thread(Hold::of(permit));
                Ok(at as isize)
            },
        )
    })
}

/// Takes one permit of whichever of `n` pools has one first; answers which, as an index into `pools`. Waits in the order of arrival
/// in each of them; of several with a free permit each is as likely. A pool may occur more than once; private and named ones may be
/// mixed, those of two different arenas may not.
///
/// Errors: -EIDRM if one of them is or gets removed; -EXDEV if they are in two different arenas; -EINVAL if `n` is 0; else as
/// `chappe_pool_acquire`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_acquire_any(pools: *const *mut chappe_pool, n: usize, permit: *mut chappe_permit) -> isize {
    any(pools, n, permit, Ok(Limit::Forever))
}

/// Takes one permit of any of the pools if one is free.
///
/// Errors: -EAGAIN; else as `chappe_acquire_any`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_try_acquire_any(
    pools: *const *mut chappe_pool,
    n: usize,
    permit: *mut chappe_permit,
) -> isize {
    any(pools, n, permit, Ok(Limit::Now))
}

/// As `chappe_acquire_any`, waiting at most for `ns` nanoseconds.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_acquire_any`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_acquire_any_timeout(
    pools: *const *mut chappe_pool,
    n: usize,
    permit: *mut chappe_permit,
    ns: i64,
) -> isize {
    any(pools, n, permit, input::within(ns))
}

/// As `chappe_acquire_any`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_acquire_any_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_acquire_any_deadline(
    pools: *const *mut chappe_pool,
    n: usize,
    permit: *mut chappe_permit,
    at: i64,
) -> isize {
    any(pools, n, permit, input::until(at))
}
