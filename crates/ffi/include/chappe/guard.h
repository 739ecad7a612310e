/*
 * Guards: locks of the process, for loops of events.
 *
 * chappe_mutex_lock and its like lock for the thread that calls. The calls here begin to wait and return, and chappe_dispatch calls back when the
 * lock is the process's: see chappe_dispatch(3). What is locked is a guard then, which any thread of the process may use, one at a time, and unlock.
 * A guard is a handle; a copy of its address is the same guard.
 *
 * A task's wait has its place in the line of the threads of all processes. A lock that is granted to a wait which is cancelled goes to the next waiter. When
 * the process dies, so does the guard: the next holder gets CHAPPE_OWNER_DIED, if it was to write. In a forked child a guard is the parent's
 * (-EPERM). At the end of the process a guard that is left counts as one of a process that has died.
 *
 * A lock's handle stays open while a wait or a guard of this process uses it: to close it is refused (-EBUSY).
 *
 * Generated from crates/ffi/src/guard.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_GUARD_H
#define CHAPPE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "condvar.h"
#include "dispatch.h"
#include "mutex.h"
#include "rwlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A lock that belongs to the process.
 */
typedef struct chappe_guard chappe_guard;

/**
 * As chappe_mutex_lock, without waiting: begins a wait, and answers its number, above 0. call is called by chappe_dispatch when the mutex is locked for the
 * process, with 0 or CHAPPE_OWNER_DIED; its guard is at guard then, which must be there until then.
 *
 * A task that locks the mutex twice waits for itself: of tasks -EDEADLK is not told.
 *
 * Errors: -EBADF; -EFAULT if guard or call is NULL; the system's, if it has no descriptor left. The callback gets -ENOTRECOVERABLE if the mutex was
 * condemned, -EIDRM if it is or gets removed, -EMFILE if 65536 handles are open, -EUSERS if the arena has no place left and no other wait of this
 * process has one at this mutex, and the system's.
 */
int64_t chappe_mutex_lock_async(chappe_mutex *mutex,
                                struct chappe_guard **guard,
                                chappe_done call,
                                void *data);

/**
 * As chappe_rwlock_read, without waiting: as chappe_mutex_lock_async, of a readers-writer lock that is locked to read. Each guard has a place in the arena.
 *
 * Errors: as chappe_mutex_lock_async.
 */
int64_t chappe_rwlock_read_async(chappe_rwlock *lock,
                                 struct chappe_guard **guard,
                                 chappe_done call,
                                 void *data);

/**
 * The same of one that is locked to write.
 *
 * Errors: as chappe_mutex_lock_async.
 */
int64_t chappe_rwlock_write_async(chappe_rwlock *lock,
                                  struct chappe_guard **guard,
                                  chappe_done call,
                                  void *data);

/**
 * As chappe_condvar_wait, without waiting: unlocks the mutex of guard, which is no guard any more, begins a wait for a notification, and answers its number.
 * The first two steps are one. When it was notified, and the mutex is locked again for the process, call is called, with the sum of what is true of
 * CHAPPE_OWNER_DIED and CHAPPE_CONDVAR_REMOVED; the new guard is at again then. Test the condition again.
 *
 * A wait that is cancelled leaves the mutex unlocked; a notification that it had goes to the next waiter, unless it waited for the mutex already.
 *
 * Errors: -EPERM if the guard is not that of a mutex, or is the parent process's; -EBADF; -EFAULT if again or call is NULL; the system's, if it has no
 * descriptor left: then nothing was done. The callback gets what that of chappe_mutex_lock_async gets: then the mutex is not locked.
 */
int64_t chappe_condvar_wait_async(chappe_condvar *condvar,
                                  struct chappe_guard *guard,
                                  struct chappe_guard **again,
                                  chappe_done call,
                                  void *data);

/**
 * Where the data is that the lock guards: to be read, and, unless the guard reads, written, until it is unlocked. NULL if this is no guard of this
 * process; chappe_last_error says which.
 */
void *chappe_guard_data(const struct chappe_guard *guard);

/**
 * Unlocks it. It is no guard any more. Any thread of the process may. Never waits.
 *
 * Errors: -EBADF if it was unlocked already; -EPERM if it is the parent process's.
 */
int chappe_guard_unlock(struct chappe_guard *guard);

/**
 * Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. It stays locked.
 *
 * Errors: -EPERM also if the guard reads; else as chappe_guard_unlock.
 */
int chappe_guard_make_consistent(struct chappe_guard *guard);

/**
 * Gives the lock up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE. It is no guard any more.
 *
 * Errors: as chappe_guard_make_consistent, and then it stays a guard.
 */
int chappe_guard_condemn(struct chappe_guard *guard);

#ifdef __cplusplus
}
#endif

#endif
