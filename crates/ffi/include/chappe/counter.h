/*
 * Counters: numbers that threads and processes add to, without waiting for each other.
 *
 * An addition is one step: a killed thread has made it, or not; a death takes nothing back. Only a thread's first addition to a named
 * counter waits for a thread that makes or removes an object at that moment.
 *
 * A handle may be used by any number of threads at once, until it is closed.
 *
 * Generated from crates/ffi/src/counter.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_COUNTER_H
#define CHAPPE_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An answer: nothing was added.
 */
#define CHAPPE_COUNTER_NO 0

/**
 * An answer: it was added.
 */
#define CHAPPE_COUNTER_YES 1

/**
 * A handle of a counter.
 */
typedef struct chappe_counter chappe_counter;

/**
 * Makes a counter for the threads of this process, that begins with this value. It goes when the handle is closed.
 *
 * Errors: -EFAULT; -EMFILE.
 */
int chappe_counter_private(int64_t value,
                           struct chappe_counter **counter);

/**
 * Opens the counter of this name.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_counter_open(const char *name, struct chappe_counter **counter);

/**
 * Makes the counter of this name, which must not be there, and its arena if need be.
 *
 * Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as chappe_counter_open.
 */
int chappe_counter_create(const char *name, int64_t value, struct chappe_counter **counter);

/**
 * Opens the counter of this name, whatever its value, or makes it.
 *
 * Errors: as chappe_counter_create, but for -EEXIST.
 */
int chappe_counter_open_or_create(const char *name, int64_t value, struct chappe_counter **counter);

/**
 * Closes a handle. A private counter goes with it, a named one stays. No other thread may be in a call with this handle, or call with it
 * later.
 *
 * Errors: -EBADF.
 */
int chappe_counter_close(struct chappe_counter *counter);

/**
 * Removes the counter of this name. One that another process has changed and may again is refused unless force: then its users get
 * -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_counter_open.
 */
int chappe_counter_remove(const char *name,
                          int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_counter_name(const struct chappe_counter *counter, char *to, size_t size);

/**
 * Its value.
 *
 * Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
 */
int chappe_counter_get(const struct chappe_counter *counter, int64_t *value);

/**
 * Adds; a negative number takes away. What it was before is in before, unless that is NULL. Wait-free.
 *
 * Errors: -EIDRM if it was removed; -EUSERS if the arena cannot take another member; -EBADF, -EFAULT.
 */
int chappe_counter_add(struct chappe_counter *counter, int64_t n, int64_t *before);

/**
 * Adds, if the sum is between least and most. Answers CHAPPE_COUNTER_YES, with what it was before in before, unless that is NULL; or
 * CHAPPE_COUNTER_NO. Lock-free.
 *
 * Errors: -EINVAL if least is above most; else as chappe_counter_add.
 */
int chappe_counter_add_within(struct chappe_counter *counter,
                              int64_t n,
                              int64_t least,
                              int64_t most,
                              int64_t *before);

#ifdef __cplusplus
}
#endif

#endif
