/*
 * Pools: N permits, each of which belongs to its holder and returns when that holder dies.
 *
 * A pool of one permit is a robust lock. Waiters are served in the order of arrival; no newcomer takes a permit past a
 * waiter. Acquiring and giving back make no system call while no thread waits. See chappe_permit(3) for the permit
 * that a holder gets.
 *
 * A handle may be used by any number of threads at once, until it is closed. In a forked child the handle of a named pool is the
 * same pool, that of a private one a copy in which the parent holds nothing.
 *
 * Generated from crates/ffi/src/pool.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_POOL_H
#define CHAPPE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "look.h"
#include "permit.h"
#include "process.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The most permits that a pool can have.
 */
#define CHAPPE_POOL_MAX INT64_C(65536)

/**
 * A handle of a pool.
 */
typedef struct chappe_pool chappe_pool;

/**
 * Makes a pool for the threads of this process. It goes when the handle is closed; permits of it that are held then are void.
 *
 * Errors: -EINVAL if there are to be none, or more than CHAPPE_POOL_MAX; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private
 * objects; -ENOMEM if there is no address space for what is private.
 */
int chappe_pool_private(int64_t permits,
                        struct chappe_pool **pool);

/**
 * As chappe_pool_private, with flags: 0, or of CHAPPE_BIAS_OFF and CHAPPE_PRIORITY (which has no bias) any.
 *
 * Errors: -EINVAL also if a flag is not known; else as chappe_pool_private.
 */
int chappe_pool_private_with(int64_t permits,
                             uint32_t flags,
                             struct chappe_pool **pool);

/**
 * Opens the pool of this name: "gpu0", or "lab/gpu0" for one in the arena "lab".
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_pool_open(const char *name, struct chappe_pool **pool);

/**
 * Makes the pool of this name, which must not be there, and its arena if need be.
 *
 * Errors: -EEXIST; -EINVAL if there are to be none, or more than CHAPPE_POOL_MAX; -ENOSPC or -EUSERS if the arena is full;
 * -EPROTOTYPE and else as chappe_pool_open.
 */
int chappe_pool_create(const char *name,
                       int64_t permits,
                       struct chappe_pool **pool);

/**
 * As chappe_pool_create, with flags: 0 or CHAPPE_PRIORITY.
 *
 * Errors: -EINVAL also if a flag is not known; else as chappe_pool_create.
 */
int chappe_pool_create_with(const char *name, int64_t permits, uint32_t flags, struct chappe_pool **pool);

/**
 * Opens the pool of this name, or makes it.
 *
 * Errors: -EPROTOTYPE if it is there with another number of permits; else as chappe_pool_create, but for -EEXIST.
 */
int chappe_pool_open_or_create(const char *name,
                               int64_t permits,
                               struct chappe_pool **pool);

/**
 * Closes a handle. A private pool goes with it, a named one stays, and permits of it that are held stay held. No other thread may be
 * in a call with this handle, or call with it later.
 *
 * Errors: -EBADF.
 */
int chappe_pool_close(struct chappe_pool *pool);

/**
 * Removes the pool of this name. One with holders or waiters is refused unless force: then what is held ends without effect, and
 * waiters get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_pool_open.
 */
int chappe_pool_remove(const char *name,
                       int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_pool_name(const struct chappe_pool *pool, char *to, size_t size);

/**
 * How many permits it has.
 *
 * Errors: -EBADF.
 */
int64_t chappe_pool_permits(const struct chappe_pool *pool);

/**
 * How many of its permits were free a moment ago.
 *
 * Errors: -EBADF.
 */
int64_t chappe_pool_available(const struct chappe_pool *pool);

/**
 * 1 if a thread has its bias just now, else 0; see CHAPPE_BIAS_OFF.
 *
 * Errors: -EBADF.
 */
int chappe_pool_is_biased(const struct chappe_pool *pool);

/**
 * Lists the holders of its permits, and since when they hold them: writes as many as have room, answers how many there
 * are.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_pool_holders(const struct chappe_pool *pool,
                              chappe_holder *to,
                              size_t room);

/**
 * Lists the waiters, in the order in which they will be served; as chappe_pool_holders.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_pool_waiters(const struct chappe_pool *pool, chappe_waiter *to, size_t room);

/**
 * Gives the pool another number of permits. With fewer, those in use beyond the number end as they come back. The call
 * does not wait for those; it waits for a thread that is making or removing an object of the arena: see chappe(3), of
 * stopped processes.
 *
 * Errors: -EINVAL, -EIDRM, -ENOSPC, -EUSERS, -EBADF.
 */
int chappe_pool_resize(struct chappe_pool *pool,
                       int64_t permits);

/**
 * Takes permit index from its holder, and hands it on: for holders that are stuck. Their work under the permit goes
 * on. Writes the former holder to holder, unless that is NULL. Waits neither for the holder nor for a waiter.
 *
 * Errors: -ESRCH if nobody has it; -EINVAL if the index is negative; -EIDRM, -EUSERS, -EBADF, -EFAULT.
 */
int chappe_pool_force_release(struct chappe_pool *pool,
                              int64_t index,
                              chappe_member *holder);

/**
 * Gives back permits that jobs kept which have ended since; answers how many. Waiters' processes do so by themselves. If jobs keep any, it
 * reads all of /proc, and waits up to a tenth of a second for processes that are just ending.
 *
 * Errors: -EBADF.
 */
int64_t chappe_pool_reclaim(struct chappe_pool *pool);

/**
 * Takes a permit; waits for one, in the order of arrival. A handled signal does not end the wait.
 *
 * Errors: -EIDRM if the pool is or gets removed; -EUSERS if the thread cannot become a member of its arena; -EBADF, -EFAULT; the
 * system's, if it refuses the thread that watches for deaths.
 */
int chappe_pool_acquire(struct chappe_pool *pool,
                        chappe_permit *permit);

/**
 * Takes a permit if one is free and nobody waits for it. Permits of the dead are recovered first.
 *
 * Errors: -EAGAIN; else as chappe_pool_acquire.
 */
int chappe_pool_try_acquire(struct chappe_pool *pool, chappe_permit *permit);

/**
 * As chappe_pool_acquire, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_pool_acquire.
 */
int chappe_pool_acquire_timeout(struct chappe_pool *pool, chappe_permit *permit, int64_t ns);

/**
 * As chappe_pool_acquire, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_pool_acquire_timeout.
 */
int chappe_pool_acquire_deadline(struct chappe_pool *pool, chappe_permit *permit, int64_t at);

/**
 * As chappe_pool_acquire, for a permit that belongs to the process: any of its threads may give it back.
 *
 * Errors: as chappe_pool_acquire.
 */
int chappe_pool_acquire_owned(struct chappe_pool *pool, chappe_permit *permit);

/**
 * As chappe_pool_try_acquire, for a permit that belongs to the process.
 *
 * Errors: as chappe_pool_try_acquire.
 */
int chappe_pool_try_acquire_owned(struct chappe_pool *pool, chappe_permit *permit);

/**
 * As chappe_pool_acquire_timeout, for a permit that belongs to the process.
 *
 * Errors: as chappe_pool_acquire_timeout.
 */
int chappe_pool_acquire_owned_timeout(struct chappe_pool *pool, chappe_permit *permit, int64_t ns);

/**
 * As chappe_pool_acquire_deadline, for a permit that belongs to the process.
 *
 * Errors: as chappe_pool_acquire_deadline.
 */
int chappe_pool_acquire_owned_deadline(struct chappe_pool *pool, chappe_permit *permit, int64_t at);

/**
 * Takes n permits at one moment, or waits until so many are there, and writes them to permits[0] to permits[n -
 * 1]. Waiters are served in the order of arrival: a waiter for several permits is not overtaken, and those behind it
 * wait until it has got all of them. Each permit may be given back alone.
 *
 * Errors: -ERANGE if the pool has fewer than n, or gets fewer while it waits; -EINVAL if n is negative; else as
 * chappe_pool_acquire.
 */
int chappe_pool_acquire_many(struct chappe_pool *pool,
                             int64_t n,
                             chappe_permit *permits);

/**
 * Takes n permits if so many are free and nobody waits.
 *
 * Errors: -EAGAIN; else as chappe_pool_acquire_many.
 */
int chappe_pool_try_acquire_many(struct chappe_pool *pool, int64_t n, chappe_permit *permits);

/**
 * As chappe_pool_acquire_many, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; else as chappe_pool_acquire_many.
 */
int chappe_pool_acquire_many_timeout(struct chappe_pool *pool, int64_t n, chappe_permit *permits, int64_t ns);

/**
 * As chappe_pool_acquire_many, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_pool_acquire_many_timeout.
 */
int chappe_pool_acquire_many_deadline(struct chappe_pool *pool,
                                      int64_t n,
                                      chappe_permit *permits,
                                      int64_t at);

/**
 * Takes one permit of whichever of n pools has one first; answers which, as an index into pools. Waits in the order of arrival
 * in each of them; of several with a free permit each is as likely. A pool may occur more than once; private and named ones may be
 * mixed, those of two different arenas may not.
 *
 * Errors: -EIDRM if one of them is or gets removed; -EXDEV if they are in two different arenas; -EINVAL if n is 0; else as
 * chappe_pool_acquire.
 */
ptrdiff_t chappe_acquire_any(struct chappe_pool *const *pools,
                             size_t n,
                             chappe_permit *permit);

/**
 * Takes one permit of any of the pools if one is free.
 *
 * Errors: -EAGAIN; else as chappe_acquire_any.
 */
ptrdiff_t chappe_try_acquire_any(struct chappe_pool *const *pools, size_t n, chappe_permit *permit);

/**
 * As chappe_acquire_any, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_acquire_any.
 */
ptrdiff_t chappe_acquire_any_timeout(struct chappe_pool *const *pools,
                                     size_t n,
                                     chappe_permit *permit,
                                     int64_t ns);

/**
 * As chappe_acquire_any, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_acquire_any_timeout.
 */
ptrdiff_t chappe_acquire_any_deadline(struct chappe_pool *const *pools,
                                      size_t n,
                                      chappe_permit *permit,
                                      int64_t at);

#ifdef __cplusplus
}
#endif

#endif
