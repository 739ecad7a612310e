/*
 * Waits for a loop of events: a call that begins to wait and returns, and a callback when what was waited for is the process's.
 *
 * chappe_dispatch_fd answers one descriptor for the process. It is readable when a wait may be over; the loop (libuv's, GLib's, libevent's, one of
 * poll(2)) watches it and calls chappe_dispatch, which calls the callbacks. However many waits there are, no thread waits for each, and
 * nothing is looked at while nothing is given.
 *
 * A wait has its place in the line of the threads of all processes from the call on. It is granted what it waits for when that is given, and the
 * callback follows in the next chappe_dispatch: a loop that does not run keeps it from the others.
 *
 * Threads. The thread that calls chappe_dispatch calls back, with none of the library's locks held: a callback may call everything, also
 * begin and cancel waits, close handles, and dispatch. It returns; it leaves by no longjmp(3), exception or pthread_exit(3). Several threads may
 * dispatch at once: each callback is called once. While one callback runs, the descriptor is readable for the others that are to be called: a
 * loop within it, or another thread, calls them. For named objects one thread of the library's sleeps, by arena.
 *
 * Ends. The handle of a semaphore, pool, condition variable or map may be closed while waits for its object go on: close ends none of them. Of an object that is removed the callbacks get
 * -EIDRM. When the process dies, its waits leave the line, and what they were granted goes to the next waiter; a permit returns, as any other.
 * But a wake-up that was saved is consumed by chappe_semaphore_down_async itself: if the process ends before the callback, by a kill
 * or by exit(3), it is gone, as one that a thread consumed. chappe_async_cancel gives it on. A forked child
 * has no waits of its parent, and a descriptor of its own. exec ends them. At the end of the process no callback is called.
 *
 * Generated from crates/ffi/src/dispatch.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_DISPATCH_H
#define CHAPPE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "permit.h"
#include "pool.h"
#include "semaphore.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What is called when a wait is over: result is 0 or more, as the call says that began it, or the negative number of errno(3), of which
 * chappe_last_error says more within the callback.
 * data is what was given when the wait began.
 */
typedef void (*chappe_done)(void *data, int result);

/**
 * The descriptor that is readable when chappe_dispatch has something to do: for poll(2), epoll(7) and loops of events. It is the library's: do
 * not read or close it. In a forked child it is the parent's; ask again there.
 *
 * Errors: the system's, if it has no descriptor left.
 */
int chappe_dispatch_fd(void);

/**
 * Calls the callbacks of the waits that are over; answers how many. Never waits.
 *
 * Errors: as chappe_dispatch_fd.
 */
int chappe_dispatch(void);

/**
 * Ends a wait: its callback is not called any more, and what it was granted, or had already, goes to the next waiter.
 *
 * Errors: -ESRCH if there is no such wait of this process: it was cancelled, or called back, or another thread is about to call it back; or it has sent or
 * received its record, and is called back by the next chappe_dispatch.
 */
int chappe_async_cancel(int64_t wait);

/**
 * As chappe_semaphore_down, without waiting: begins a wait, and answers its number, above 0. call is called by chappe_dispatch when a wake-up was
 * consumed for it, also if one was saved already. That one is consumed by this call, not by chappe_dispatch: it is gone if the process ends between
 * them, while one that comes later goes to the next waiter then. Where that matters, use a pool.
 *
 * Errors: -EBADF; -EFAULT if call is NULL; the system's, if it has no descriptor left. The callback gets -EIDRM if the semaphore is or gets
 * removed, -EUSERS if the arena has no place left and no other wait of this process has one at this semaphore, and the system's.
 */
int64_t chappe_semaphore_down_async(chappe_semaphore *semaphore,
                                    chappe_done call,
                                    void *data);

/**
 * As chappe_pool_acquire_owned, without waiting: begins a wait, and answers its number, above 0. call is called by chappe_dispatch when a permit was
 * taken for it, and lies at permit, which must be there until then; it belongs to the process, and any thread may give it back.
 *
 * Errors: -EBADF; -EFAULT if permit or call is NULL; the system's, if it has no descriptor left. The callback gets what
 * chappe_pool_acquire_owned answers; -EUSERS only if no other wait of this process has a place at this pool.
 */
int64_t chappe_pool_acquire_async(chappe_pool *pool,
                                  chappe_permit *permit,
                                  chappe_done call,
                                  void *data);

/**
 * As chappe_pool_acquire_many, without waiting: as chappe_pool_acquire_async, of n permits, which lie at permits[0] to permits[n - 1]. Waiters behind
 * it wait until it has got all of them.
 *
 * Errors: as chappe_pool_acquire_async; -ERANGE if the pool has fewer than n, and the callback gets it if it gets fewer; -EINVAL if n is negative.
 */
int64_t chappe_pool_acquire_many_async(chappe_pool *pool,
                                       int64_t n,
                                       chappe_permit *permits,
                                       chappe_done call,
                                       void *data);

#ifdef __cplusplus
}
#endif

#endif
