/*
 * Mutexes: locks around data, that outlive their holders.
 *
 * The data is a number of bytes, in memory that all users of the mutex share (a named mutex), or in this process (a
 * private one). If a holder's process dies, the next thread that locks the mutex gets CHAPPE_OWNER_DIED: it holds the
 * lock, and finds the data as the dead holder left it. So does every later holder, until one calls
 * chappe_mutex_make_consistent, or gives the mutex up for ever with chappe_mutex_condemn. A thread that ends while
 * it holds the mutex leaves it condemned: another thread may still use the data.
 *
 * Newcomers may overtake waiters for half a millisecond; then the lock is handed to the waiter. The mutex is not
 * recursive. The thread and the handle that locked it must unlock it. In a forked child the lock is the parent's.
 *
 * Generated from crates/ffi/src/mutex.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_MUTEX_H
#define CHAPPE_MUTEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "process.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An answer: the mutex is locked, and an earlier holder died, or its data was not made whole since.
 */
#define CHAPPE_OWNER_DIED 1

/**
 * A handle of a mutex.
 */
typedef struct chappe_mutex chappe_mutex;

/**
 * What a mutex guards.
 */
typedef struct chappe_mutex_options {
    /**
     * How many bytes. All programs that open the mutex must say the same.
     */
    size_t size;
    /**
     * To how many bytes they are aligned: a power of two, at most 64; 0 stands for 8. All programs that open the mutex
     * must say the same.
     */
    size_t align;
    /**
     * What the data is, in a word, as those that open it must say, too; NULL stands for "bytes". What a Rust program made as a
     * Mutex of a type has the type's name without modules.
     */
    const char *type_name;
    /**
     * What it is at first: size bytes. NULL: zeros.
     */
    const void *initial;
    /**
     * Of a private one: 0 or CHAPPE_BIAS_OFF.
     */
    uint32_t flags;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * 0.
     */
    uint64_t reserved_too[3];
} chappe_mutex_options;

/**
 * Makes a mutex for the threads of this process. Its data is aligned to 64 bytes. It goes when the handle is closed.
 *
 * Errors: -EINVAL for an alignment that is no power of two, or above 64, a flag that is not known, or a reserved field that is not 0;
 * -ENOMEM if there is no memory for the data, or no address space for what is private; -EFAULT; -EMFILE; -ENOSPC if there are 65536
 * private objects.
 */
int chappe_mutex_private(const struct chappe_mutex_options *options,
                         struct chappe_mutex **mutex);

/**
 * Opens the mutex of this name: "counts", or "lab/counts" for one in the arena "lab". initial is not looked at.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the data has another size, alignment or type; -EINVAL for
 * an alignment that is none, a flag that is not known, or a reserved field that is not 0; -EFAULT also if options is NULL; else as
 * chappe_arena_open.
 */
int chappe_mutex_open(const char *name,
                      const struct chappe_mutex_options *options,
                      struct chappe_mutex **mutex);

/**
 * Makes the mutex of this name, which must not be there, and its arena if need be.
 *
 * Errors: -EEXIST; -ENOSPC or -EUSERS if the arena is full; else as chappe_mutex_open.
 */
int chappe_mutex_create(const char *name,
                        const struct chappe_mutex_options *options,
                        struct chappe_mutex **mutex);

/**
 * Opens the mutex of this name, or makes it.
 *
 * Errors: as chappe_mutex_open and chappe_mutex_create, but for -ENOENT and -EEXIST.
 */
int chappe_mutex_open_or_create(const char *name,
                                const struct chappe_mutex_options *options,
                                struct chappe_mutex **mutex);

/**
 * Closes a handle. A private mutex goes with it, and its data; a named one stays. No other thread may be in a call with this handle,
 * or call with it later.
 *
 * Errors: -EBUSY if it is locked by this handle, or a wait or guard of the process uses it: unlock it, or cancel the wait, first; -EBADF.
 */
int chappe_mutex_close(struct chappe_mutex *mutex);

/**
 * Removes the mutex of this name, whatever its data. One that is locked or awaited is refused unless force: then its holder's lock
 * ends without effect, and waiters get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_mutex_open.
 */
int chappe_mutex_remove(const char *name,
                        int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_mutex_name(const struct chappe_mutex *mutex, char *to, size_t size);

/**
 * How many bytes it guards.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_mutex_size(const struct chappe_mutex *mutex);

/**
 * 1 if it was condemned, else 0.
 *
 * Errors: -EBADF.
 */
int chappe_mutex_is_condemned(const struct chappe_mutex *mutex);

/**
 * 1 if a thread has its bias just now, else 0; see CHAPPE_BIAS_OFF.
 *
 * Errors: -EBADF.
 */
int chappe_mutex_is_biased(const struct chappe_mutex *mutex);

/**
 * Locks it; waits until it is free. A handled signal does not end the wait. Writes where the data is, unless data is NULL; it is
 * the caller's until the mutex is unlocked. Answers 0 or CHAPPE_OWNER_DIED: in both cases it is locked.
 *
 * Errors: -ENOTRECOVERABLE if it was condemned; -EIDRM if it is or gets removed; -EDEADLK if this very thread has it; -EUSERS if the
 * thread cannot become a member of its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
 */
int chappe_mutex_lock(struct chappe_mutex *mutex,
                      void **data);

/**
 * Locks it if it is free. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_mutex_lock.
 */
int chappe_mutex_try_lock(struct chappe_mutex *mutex, void **data);

/**
 * As chappe_mutex_lock, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_mutex_lock.
 */
int chappe_mutex_lock_timeout(struct chappe_mutex *mutex, void **data, int64_t ns);

/**
 * As chappe_mutex_lock, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_mutex_lock_timeout.
 */
int chappe_mutex_lock_deadline(struct chappe_mutex *mutex, void **data, int64_t at);

/**
 * Unlocks it. Never waits.
 *
 * Errors: -EPERM if this thread has not locked it by this handle, or its parent process has; -EBADF.
 */
int chappe_mutex_unlock(struct chappe_mutex *mutex);

/**
 * Declares the data whole again: the next holder does not get CHAPPE_OWNER_DIED. The mutex stays locked.
 *
 * Errors: as chappe_mutex_unlock.
 */
int chappe_mutex_make_consistent(struct chappe_mutex *mutex);

/**
 * Gives the mutex up for ever, and unlocks it: all present and later waiters get -ENOTRECOVERABLE.
 *
 * Errors: as chappe_mutex_unlock.
 */
int chappe_mutex_condemn(struct chappe_mutex *mutex);

#ifdef __cplusplus
}
#endif

#endif
