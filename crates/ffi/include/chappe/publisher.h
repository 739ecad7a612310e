/*
 * Publishers: where messages go into a broadcast tube.
 *
 * A publisher is used by one thread at a time; each takes its own by chappe_broadcast_publisher. When it is closed, or its process dies,
 * it has left; one that is left by death, or by exit without closing it, has not ended well, and subscribers are told so
 * (-ECONNRESET). A publisher that is killed before its message is sent has sent nothing, and after that it has sent to all. In a forked
 * child it is the parent's (-EPERM).
 *
 * Generated from crates/ffi/src/publisher.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_PUBLISHER_H
#define CHAPPE_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of a publisher.
 */
typedef struct chappe_publisher chappe_publisher;

/**
 * Closes a handle: the publisher has left, and ended well. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBADF.
 */
int chappe_publisher_close(struct chappe_publisher *publisher);

/**
 * Closes a handle, and says that what was published is not whole: subscribers get -ECONNRESET, once, as if the process had died.
 *
 * Errors: -EBADF.
 */
int chappe_publisher_break_off(struct chappe_publisher *publisher);

/**
 * Sends len bytes as one message to each subscription that wants it; waits while one that blocks has no room for it. A handled signal
 * does not end the wait. Among publishers that wait for room there is no order. A message that nobody wants is not even copied. With room
 * and nobody waiting it makes no system call.
 *
 * Errors: -EMSGSIZE if a message of this tube cannot have so many bytes (with a schema: has not as many as that says); -EIDRM if the tube
 * was removed; -EPERM if it is the parent process's; -EUSERS if the thread cannot become a member of the arena; -EBADF, -EFAULT; the
 * system's, if it refuses the thread that watches for deaths.
 */
int chappe_publisher_send(struct chappe_publisher *publisher,
                          const void *message,
                          size_t len);

/**
 * Sends a message if no subscription that blocks is in the way now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_publisher_send.
 */
int chappe_publisher_try_send(struct chappe_publisher *publisher, const void *message, size_t len);

/**
 * As chappe_publisher_send, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_publisher_send.
 */
int chappe_publisher_send_timeout(struct chappe_publisher *publisher,
                                  const void *message,
                                  size_t len,
                                  int64_t ns);

/**
 * As chappe_publisher_send, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_publisher_send_timeout.
 */
int chappe_publisher_send_deadline(struct chappe_publisher *publisher,
                                   const void *message,
                                   size_t len,
                                   int64_t at);

/**
 * How many subscribe now, the dead aside.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_publisher_subscribers(const struct chappe_publisher *publisher);

/**
 * How many bytes a message can have.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_publisher_size(const struct chappe_publisher *publisher);

#ifdef __cplusplus
}
#endif

#endif
