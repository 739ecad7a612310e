/*
 * Senders: where records go into a tube.
 *
 * A sender of a named tube is used by one thread at a time; chappe_sender_another gives each its own. When the last one of a
 * process is closed, or the process dies, the process has left; one that has not closed it has not ended well, and receivers are told
 * so (-ECONNRESET). A sender that dies before its record is sent has sent nothing. In a forked child it is the child's own from its
 * first use there, and so is no other end; one that there may be only one of stays the parent's (-EPERM).
 *
 * Generated from crates/ffi/src/sender.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_SENDER_H
#define CHAPPE_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of a sender.
 */
typedef struct chappe_sender chappe_sender;

/**
 * Closes a handle; a slot that is reserved is given up. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBUSY if a wait has it (chappe_send_async); -EBADF.
 */
int chappe_sender_close(struct chappe_sender *sender);

/**
 * Attaches another sender to the same tube, for another thread.
 *
 * Errors: -EBUSY if there may be only one; -ESHUTDOWN, -EIDRM, -EUSERS, -EMFILE, -EBADF, -EFAULT.
 */
int chappe_sender_another(struct chappe_sender *sender, struct chappe_sender **another);

/**
 * Sends len bytes as one record; waits while there is no room. A handled signal does not end the wait. The records
 * of one sender stay in order. Senders that wait for room are woken in the order of arrival, and a newcomer may be
 * faster. With room and without a waiter it makes no system call.
 *
 * Errors: -EPIPE if all receivers have gone, or died; -EMSGSIZE if a record of this tube cannot have so many bytes (with a schema: has not as many as that says); -EIDRM if the tube was
 * removed; -EBUSY if a slot is reserved at this sender; -EPERM if it is the parent process's; -EUSERS if the thread cannot become a
 * member of the arena; -ENOMEM if the tube is private, and there is no memory for the record (but one with CHAPPE_UNBOUNDED slots ends the
 * program when there is none for more slots); -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
 */
int chappe_send(struct chappe_sender *sender,
                const void *record,
                size_t len);

/**
 * Sends a record if there is room now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_send.
 */
int chappe_try_send(struct chappe_sender *sender, const void *record, size_t len);

/**
 * As chappe_send, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_send.
 */
int chappe_send_timeout(struct chappe_sender *sender, const void *record, size_t len, int64_t ns);

/**
 * As chappe_send, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_send_timeout.
 */
int chappe_send_deadline(struct chappe_sender *sender, const void *record, size_t len, int64_t at);

/**
 * Reserves a slot, and writes where it is: a record is written there in place, with as many bytes as the tube's records can have, and
 * sent by chappe_sender_commit. Waits while there is none. One slot at a time at each sender; it belongs to the thread. What it
 * holds at first is a record of before, or zeros. If the thread dies, nothing was sent.
 *
 * Errors: -EBUSY if one is reserved already; -EOPNOTSUPP if the tube is private; else as chappe_send.
 */
int chappe_sender_reserve(struct chappe_sender *sender,
                          void **data);

/**
 * Reserves a slot if there is one now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_sender_reserve.
 */
int chappe_sender_try_reserve(struct chappe_sender *sender, void **data);

/**
 * As chappe_sender_reserve, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_sender_reserve.
 */
int chappe_sender_reserve_timeout(struct chappe_sender *sender, void **data, int64_t ns);

/**
 * As chappe_sender_reserve, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_sender_reserve_timeout.
 */
int chappe_sender_reserve_deadline(struct chappe_sender *sender, void **data, int64_t at);

/**
 * Sends the first len bytes of the slot that is reserved. Waits only if others have passed the slot over because this took long,
 * and the tube has been full since.
 *
 * Errors: -EINVAL if no slot is reserved, or the thread has left the arena since; -EMSGSIZE, and it stays reserved; -EPERM if it is another
 * thread's, or the parent process's; -EPIPE, -EIDRM, -ESTALE if the thread was taken for dead: it is given up; -EBADF.
 */
int chappe_sender_commit(struct chappe_sender *sender,
                         size_t len);

/**
 * Gives up the slot that is reserved: nothing is sent.
 *
 * Errors: -EINVAL if none is, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's; -EBADF.
 */
int chappe_sender_give_up(struct chappe_sender *sender);

/**
 * How many bytes a record can have.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_sender_size(const struct chappe_sender *sender);

/**
 * How many records there are in the tube, without those that a receiver reads in place. Looks at all slots.
 *
 * Errors: -EBADF, -EBUSY.
 */
ptrdiff_t chappe_sender_len(const struct chappe_sender *sender);

/**
 * How many records there is room for; CHAPPE_UNBOUNDED: for any number.
 *
 * Errors: -EBADF, -EBUSY.
 */
ptrdiff_t chappe_sender_capacity(const struct chappe_sender *sender);

/**
 * 1 if there is no room, else 0. One that was removed is not full.
 *
 * Errors: -EBADF, -EBUSY.
 */
int chappe_sender_is_full(const struct chappe_sender *sender);

/**
 * A descriptor (an eventfd) that becomes readable when there is room to send, no receiver any more, or no tube. It belongs to the
 * handle, and is closed with it. See chappe_receiver_descriptor.
 *
 * Errors: as chappe_receiver_descriptor.
 */
int chappe_sender_descriptor(struct chappe_sender *sender);

/**
 * Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: chappe_try_send would not answer -EAGAIN now, and
 * it is readable. Waits for no other process.
 *
 * Errors: -EBADF, -EBUSY.
 */
int chappe_sender_rearm(struct chappe_sender *sender);

#ifdef __cplusplus
}
#endif

#endif
