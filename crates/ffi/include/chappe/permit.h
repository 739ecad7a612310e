/*
 * Permits: what one has of a pool.
 *
 * A permit lies where its holder wants it, in a chappe_permit, which every acquiring call fills and chappe_permit_release
 * empties. It belongs to the thread that acquired it, and only that thread gives it back; when the thread ends, or its process dies
 * in whatever way, it goes to the next in line. An owned permit belongs to the process: any of its threads may give it back, and it
 * returns when the whole process has ended. In a forked child a permit is the parent's: giving it back there is refused.
 *
 * Generated from crates/ffi/src/permit.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_PERMIT_H
#define CHAPPE_PERMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A permit. What is inside is the library's; the memory is the caller's, and may be moved and copied. A copy is the same
 * permit: once one of them is given back, or made a lease, the others may not be used any more.
 */
typedef struct chappe_permit {
    /**
     * The library's.
     */
    uint64_t opaque[8];
} chappe_permit;

/**
 * Gives a permit back. A permit that was taken away by force ends without effect. It never waits, unless the permit is
 * a lease: then it reads all of /proc once or more to find the processes that bear the lease's mark, and waits up to a
 * tenth of a second for processes that are just ending.
 *
 * Errors: -EINVAL if it is not held; -EPERM if it is another thread's, or the parent process's; -EFAULT.
 */
int chappe_permit_release(struct chappe_permit *permit);

/**
 * Gives n permits back, the last one first; those of several pools, too. If one cannot be, the others are all the same. Leases come
 * last; those of one pool take as long together as one does by itself.
 *
 * Errors: as chappe_permit_release, of the first that could not be given back.
 */
int chappe_permit_release_many(struct chappe_permit *permits,
                               size_t n);

/**
 * Which of its pool's permits it is, counted from 0.
 *
 * Errors: -EINVAL if it is not held; -EFAULT.
 */
int64_t chappe_permit_index(const struct chappe_permit *permit);

/**
 * 1: it is held, and still the caller's. 0: it was taken away by force, or its pool was removed; or it is another thread's or
 * process's.
 *
 * Errors: -EINVAL if it is not held; -EFAULT.
 */
int chappe_permit_is_valid(const struct chappe_permit *permit);

/**
 * Makes a permit a lease, too: it is free only when it was given back (or its holder died) *and* the job that inherits the lease is
 * gone. To be called before the job starts; named pools only.
 *
 * Answers an open file, close-on-exec, which the job must inherit: clear the flag after the fork. It is the caller's to close at
 * any time. Writes into mark, with a 0 behind it, what the environment variable CHAPPE_LEASE must be in the job.
 *
 * Errors: -ERANGE if the mark has no room in size bytes (512 are enough unless jobs nest deeply): then there is no lease; -ESTALE
 * if the permit was taken away by force; -EBUSY if it is a lease already, and that one's file is open; -EOPNOTSUPP if its pool is
 * private; -EINVAL, -EPERM, -EFAULT as chappe_permit_release; the system's.
 */
int chappe_permit_lease(struct chappe_permit *permit,
                        char *mark,
                        size_t size);

/**
 * As chappe_permit_lease, of n permits of one pool at once: one open file and one mark for all of them.
 *
 * Errors: -EINVAL also if n is 0, or they are of several pools, or two are copies of one; -ERANGE (each permit needs some 32 bytes more); else as
 * chappe_permit_lease, and then none is a lease that was none before.
 */
int chappe_permit_lease_many(struct chappe_permit *permits,
                             size_t n,
                             char *mark,
                             size_t size);

#ifdef __cplusplus
}
#endif

#endif
