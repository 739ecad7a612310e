/*
 * Condition variables: a thread waits at one until the data under a mutex changes.
 *
 * Waiters are woken in the order of arrival. A waiter must test its condition again after waking: it may wake without
 * a cause. If a waiter dies before it has received its notification, the next waiter gets it. Any condition variable
 * goes with any mutex, of the same arena or not.
 *
 * A handle may be used by any number of threads at once, until it is closed.
 *
 * Generated from crates/ffi/src/condvar.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_CONDVAR_H
#define CHAPPE_CONDVAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mutex.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An answer of a wait, beside CHAPPE_OWNER_DIED: the time was up.
 */
#define CHAPPE_TIMED_OUT 2

/**
 * An answer of a wait: the condition variable was removed.
 */
#define CHAPPE_CONDVAR_REMOVED 4

/**
 * A handle of a condition variable.
 */
typedef struct chappe_condvar chappe_condvar;

/**
 * Makes a condition variable for the threads of this process. It goes when the handle is closed.
 *
 * Errors: -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects; -ENOMEM if there is no address space for what is
 * private.
 */
int chappe_condvar_private(struct chappe_condvar **condvar);

/**
 * Opens the condition variable of this name.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_condvar_open(const char *name, struct chappe_condvar **condvar);

/**
 * Makes the condition variable of this name, which must not be there, and its arena if need be.
 *
 * Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as chappe_condvar_open.
 */
int chappe_condvar_create(const char *name, struct chappe_condvar **condvar);

/**
 * Opens the condition variable of this name, or makes it.
 *
 * Errors: as chappe_condvar_create, but for -EEXIST.
 */
int chappe_condvar_open_or_create(const char *name, struct chappe_condvar **condvar);

/**
 * Closes a handle. A private condition variable goes with it, a named one stays. No other thread may be in a call with this handle,
 * or call with it later.
 *
 * Errors: -EBADF.
 */
int chappe_condvar_close(struct chappe_condvar *condvar);

/**
 * Removes the condition variable of this name. One with a waiter is refused unless force: then waiters get
 * CHAPPE_CONDVAR_REMOVED.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_condvar_open.
 */
int chappe_condvar_remove(const char *name, int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_condvar_name(const struct chappe_condvar *condvar, char *to, size_t size);

/**
 * Unlocks the mutex, waits to be notified, and locks it again. The first two steps are atomic: the waiter misses no
 * notification of a thread that locks the mutex in between. The mutex must have been locked by this thread with this
 * handle.
 *
 * Answers 0 or more if the mutex is locked again: the sum of what is true of CHAPPE_OWNER_DIED (which see) and
 * CHAPPE_CONDVAR_REMOVED.
 *
 * Errors: -EPERM if the mutex is not locked by this thread with this handle, and -EBADF: nothing was done. All others, which are
 * those of chappe_mutex_lock: the mutex is not locked any more.
 */
int chappe_condvar_wait(struct chappe_condvar *condvar,
                        chappe_mutex *mutex);

/**
 * As chappe_condvar_wait, waiting at most for ns nanoseconds to be notified; then CHAPPE_TIMED_OUT is in the answer.
 *
 * Errors: -EINVAL if ns is negative, and nothing was done; else as chappe_condvar_wait.
 */
int chappe_condvar_wait_timeout(struct chappe_condvar *condvar,
                                chappe_mutex *mutex,
                                int64_t ns);

/**
 * As chappe_condvar_wait_timeout, until at (see chappe_now).
 *
 * Errors: as chappe_condvar_wait_timeout.
 */
int chappe_condvar_wait_deadline(struct chappe_condvar *condvar, chappe_mutex *mutex, int64_t at);

/**
 * Wakes the waiter that came first, if there is one. Never waits.
 *
 * Errors: -EBADF.
 */
int chappe_condvar_notify_one(struct chappe_condvar *condvar);

/**
 * Wakes all present waiters. Never waits.
 *
 * Errors: -EBADF.
 */
int chappe_condvar_notify_all(struct chappe_condvar *condvar);

#ifdef __cplusplus
}
#endif

#endif
