/*
 * Semaphores: counters of saved wake-ups.
 *
 * up saves a wake-up, or hands it to the waiter that came first; down consumes one, or waits. Any thread may up:
 * a unit has no owner, and a death returns nothing. If a waiter dies after it was handed a wake-up and before it has
 * returned from down, the next waiter gets the wake-up. Waiters are served in the order of arrival, and no newcomer
 * overtakes them, unless the semaphore was made with CHAPPE_BARGING. An up and a down make no system call while no
 * thread waits.
 *
 * A handle may be used by any number of threads at once, until it is closed. In a forked child the handle of a named semaphore is
 * the same semaphore, that of a private one a copy.
 *
 * Generated from crates/ffi/src/semaphore.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_SEMAPHORE_H
#define CHAPPE_SEMAPHORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "look.h"
#include "process.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The greatest value of a semaphore.
 */
#define CHAPPE_SEMAPHORE_MAX INT64_C(2147483647)

/**
 * Newcomers may overtake waiters that are just waking up: more throughput, and no promise about order.
 */
#define CHAPPE_BARGING 1

/**
 * A handle of a semaphore.
 */
typedef struct chappe_semaphore chappe_semaphore;

/**
 * Makes a semaphore for the threads of this process, with value saved wake-ups. flags: 0, CHAPPE_BARGING or CHAPPE_PRIORITY. It
 * goes when the handle is closed.
 *
 * Errors: -EINVAL if the value is negative, or a flag is not known; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects;
 * -ENOMEM if there is no address space for what is private.
 */
int chappe_semaphore_private(int64_t value,
                             uint32_t flags,
                             struct chappe_semaphore **semaphore);

/**
 * Opens the semaphore of this name: "ready", or "lab/ready" for one in the arena "lab".
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_semaphore_open(const char *name, struct chappe_semaphore **semaphore);

/**
 * Makes the semaphore of this name, which must not be there, and its arena if need be. flags: 0, CHAPPE_BARGING
 * or CHAPPE_PRIORITY.
 *
 * Errors: -EEXIST; -EINVAL if the value is negative or above CHAPPE_SEMAPHORE_MAX, or a flag is not known; -ENOSPC or -EUSERS if
 * the arena is full; -EPROTOTYPE and else as chappe_semaphore_open.
 */
int chappe_semaphore_create(const char *name,
                            int64_t value,
                            uint32_t flags,
                            struct chappe_semaphore **semaphore);

/**
 * Opens the semaphore of this name, or makes it with value saved wake-ups.
 *
 * Errors: as chappe_semaphore_create, but for -EEXIST.
 */
int chappe_semaphore_open_or_create(const char *name, int64_t value, struct chappe_semaphore **semaphore);

/**
 * Closes a handle. A private semaphore goes with it, a named one stays. No other thread may be in a call with this handle, or call
 * with it later.
 *
 * Errors: -EBADF.
 */
int chappe_semaphore_close(struct chappe_semaphore *semaphore);

/**
 * Removes the semaphore of this name. One with a waiter is refused unless force: then waiters get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_semaphore_open.
 */
int chappe_semaphore_remove(const char *name, int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_semaphore_name(const struct chappe_semaphore *semaphore, char *to, size_t size);

/**
 * How many wake-ups are saved at this moment. A look, not a promise.
 *
 * Errors: -EBADF.
 */
int64_t chappe_semaphore_value(const struct chappe_semaphore *semaphore);

/**
 * Lists the waiters, in the order in which they will be served: writes as many as have room, answers how many there
 * are.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_semaphore_waiters(const struct chappe_semaphore *semaphore,
                                   chappe_waiter *to,
                                   size_t room);

/**
 * Consumes a saved wake-up; waits for one, in the order of arrival. A handled signal does not end the wait.
 *
 * Errors: -EIDRM if it is or gets removed; -EUSERS if the thread cannot become a member of its arena; -EBADF; the system's, if it
 * refuses the thread that watches for deaths.
 */
int chappe_semaphore_down(struct chappe_semaphore *semaphore);

/**
 * Consumes a saved wake-up if there is one and nobody waits for it. Never enters the kernel.
 *
 * Errors: -EAGAIN, -EIDRM, -EBADF.
 */
int chappe_semaphore_try_down(struct chappe_semaphore *semaphore);

/**
 * As chappe_semaphore_down, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_semaphore_down.
 */
int chappe_semaphore_down_timeout(struct chappe_semaphore *semaphore, int64_t ns);

/**
 * As chappe_semaphore_down, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_semaphore_down_timeout.
 */
int chappe_semaphore_down_deadline(struct chappe_semaphore *semaphore, int64_t at);

/**
 * Saves a wake-up, or hands it to the waiter that came first. Never waits. Once it has taken effect it does not touch the semaphore
 * any more: the waiter that was woken may remove it.
 *
 * A signal handler may call it: of a private semaphore always, of a named one in threads that have used its arena before, and in all
 * after chappe_semaphore_prepare_handlers. It may change errno, which a handler has to put back.
 *
 * Errors: -EOVERFLOW if its value is CHAPPE_SEMAPHORE_MAX already, and nothing is changed; -EIDRM; -EUSERS; -EBADF.
 */
int chappe_semaphore_up(struct chappe_semaphore *semaphore);

/**
 * As n times chappe_semaphore_up, at once: all of them, or none.
 *
 * Errors: -EINVAL if n is negative; else as chappe_semaphore_up.
 */
int chappe_semaphore_up_many(struct chappe_semaphore *semaphore, int64_t n);

/**
 * Makes ready for chappe_semaphore_up in signal handlers of any thread of this process, also of threads that have not used the
 * semaphore's arena before. Once a process; again in a forked child. Private semaphores need it not. It starts a thread that
 * sleeps, and takes one place in the arena.
 *
 * Errors: -EUSERS, -EBADF; the system's, if it refuses a thread.
 */
int chappe_semaphore_prepare_handlers(struct chappe_semaphore *semaphore);

#ifdef __cplusplus
}
#endif

#endif
