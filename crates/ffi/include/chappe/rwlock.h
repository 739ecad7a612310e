/*
 * Readers-writer locks: locks around data that many threads read or one thread changes, that outlive their holders.
 *
 * The data is a number of bytes, as a mutex's. Readers and writers are served in the order of arrival: a reader that
 * comes after a waiting writer waits behind it; readers that stand next to each other in the queue enter together. A
 * reader that dies gives its share back at once. If a writer's process dies, the next thread that locks it gets
 * CHAPPE_OWNER_DIED: it holds the lock, and finds the data as the dead writer left it. So does every later holder,
 * until a writer calls chappe_rwlock_make_consistent, or gives the lock up for ever with chappe_rwlock_condemn. A
 * thread that ends while it holds the lock leaves it condemned: another thread may still use the data.
 *
 * The lock is not recursive, and a reader cannot become a writer; a writer can go on as a reader. The thread that
 * locked it must unlock it, by any handle of the lock. In a forked child the lock is the parent's.
 *
 * Generated from crates/ffi/src/rwlock.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_RWLOCK_H
#define CHAPPE_RWLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mutex.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of a readers-writer lock.
 */
typedef struct chappe_rwlock chappe_rwlock;

/**
 * Makes a readers-writer lock for the threads of this process. Its data is aligned to 64 bytes. It goes when the handle is closed.
 *
 * Errors: -EINVAL for an alignment that is no power of two, or above 64, a flag that is not known, or a reserved field that is not 0;
 * -ENOMEM if there is no memory for the data, or no address space for what is private; -EFAULT; -EMFILE; -ENOSPC if there are 65536
 * private objects, of which a lock is three.
 */
int chappe_rwlock_private(const chappe_mutex_options *options,
                          struct chappe_rwlock **lock);

/**
 * Opens the readers-writer lock of this name: "table", or "lab/table" for one in the arena "lab". initial is not looked at.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the data has another size, alignment or type; -EINVAL for
 * an alignment that is none, a flag that is not known, or a reserved field that is not 0; -EFAULT also if options is NULL; else as
 * chappe_arena_open.
 */
int chappe_rwlock_open(const char *name,
                       const chappe_mutex_options *options,
                       struct chappe_rwlock **lock);

/**
 * Makes the readers-writer lock of this name, which must not be there, and its arena if need be.
 *
 * Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as chappe_rwlock_open.
 */
int chappe_rwlock_create(const char *name, const chappe_mutex_options *options, struct chappe_rwlock **lock);

/**
 * Opens the readers-writer lock of this name, or makes it.
 *
 * Errors: as chappe_rwlock_open and chappe_rwlock_create, but for -ENOENT and -EEXIST.
 */
int chappe_rwlock_open_or_create(const char *name,
                                 const chappe_mutex_options *options,
                                 struct chappe_rwlock **lock);

/**
 * Closes a handle. A private lock goes with it, and its data; a named one stays. No other thread may be in a call with this handle, call with it
 * later, or have a private one locked.
 *
 * Errors: -EBUSY if this thread has it locked, or a wait or guard of the process uses it: unlock it, or cancel the wait, first; -EBADF.
 */
int chappe_rwlock_close(struct chappe_rwlock *lock);

/**
 * Removes the readers-writer lock of this name, whatever its data. One that is locked or awaited is refused unless force: then its holders' locks
 * end without effect, and waiters get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_rwlock_open.
 */
int chappe_rwlock_remove(const char *name,
                         int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_rwlock_name(const struct chappe_rwlock *lock, char *to, size_t size);

/**
 * How many bytes it guards.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_rwlock_size(const struct chappe_rwlock *lock);

/**
 * 1 if it was condemned, else 0.
 *
 * Errors: -EBADF.
 */
int chappe_rwlock_is_condemned(const struct chappe_rwlock *lock);

/**
 * Locks it to read; waits until no writer holds it, and earlier waiters have had their turn. A handled signal does not
 * end the wait. Writes the address of the data to data, unless that is NULL; the caller may read there until it
 * unlocks. Answers 0 or CHAPPE_OWNER_DIED: in both cases it is locked.
 *
 * Errors: -ENOTRECOVERABLE if it was condemned; -EIDRM if it is or gets removed; -EDEADLK if this very thread has it, to read or to
 * write; -EUSERS if the thread cannot become a member of its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for
 * deaths.
 */
int chappe_rwlock_read(struct chappe_rwlock *lock,
                       const void **data);

/**
 * Locks it to read if nobody writes or waits. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_rwlock_read.
 */
int chappe_rwlock_try_read(struct chappe_rwlock *lock, const void **data);

/**
 * As chappe_rwlock_read, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_rwlock_read.
 */
int chappe_rwlock_read_timeout(struct chappe_rwlock *lock, const void **data, int64_t ns);

/**
 * As chappe_rwlock_read, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_rwlock_read_timeout.
 */
int chappe_rwlock_read_deadline(struct chappe_rwlock *lock, const void **data, int64_t at);

/**
 * Locks it to write; waits until no thread holds it, and earlier waiters have had their turn. Otherwise as
 * chappe_rwlock_read; the caller may change the data.
 *
 * Errors: as chappe_rwlock_read.
 */
int chappe_rwlock_write(struct chappe_rwlock *lock, void **data);

/**
 * Locks it to write if nobody has it or waits. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_rwlock_read.
 */
int chappe_rwlock_try_write(struct chappe_rwlock *lock, void **data);

/**
 * As chappe_rwlock_write, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_rwlock_read.
 */
int chappe_rwlock_write_timeout(struct chappe_rwlock *lock, void **data, int64_t ns);

/**
 * As chappe_rwlock_write, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_rwlock_write_timeout.
 */
int chappe_rwlock_write_deadline(struct chappe_rwlock *lock, void **data, int64_t at);

/**
 * Unlocks it, whether this thread reads or writes. Never waits.
 *
 * Errors: -EPERM if this thread has not locked it, or its parent process has; -EBADF.
 */
int chappe_rwlock_unlock(struct chappe_rwlock *lock);

/**
 * The writer goes on as a reader, with nobody in between.
 *
 * Errors: -EPERM if this thread does not write; -EBADF.
 */
int chappe_rwlock_downgrade(struct chappe_rwlock *lock);

/**
 * Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. The lock stays locked.
 *
 * Errors: as chappe_rwlock_downgrade.
 */
int chappe_rwlock_make_consistent(struct chappe_rwlock *lock);

/**
 * Gives the lock up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE.
 *
 * Errors: as chappe_rwlock_downgrade.
 */
int chappe_rwlock_condemn(struct chappe_rwlock *lock);

#ifdef __cplusplus
}
#endif

#endif
