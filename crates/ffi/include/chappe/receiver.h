/*
 * Receivers: where records come out of a tube.
 *
 * A receiver of a named tube is used by one thread at a time; chappe_receiver_another gives each its own. Several share the
 * records: each goes to one. When the last one of a process is closed, or the process dies, the process has left. A receiver that
 * dies while it copies a record out has it, or another receives it. One that dies while it looks at it in place leaves it to be
 * delivered once more, marked, before all that was sent later; after a second death it is dropped, and counted. A thread that ends, or
 * leaves the arena, gives it back. In a forked child a receiver is the child's own from
 * its first use there; one that there may be only one of stays the parent's (-EPERM).
 *
 * Generated from crates/ffi/src/receiver.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_RECEIVER_H
#define CHAPPE_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of a receiver.
 */
typedef struct chappe_receiver chappe_receiver;

/**
 * Closes a handle; a record that is borrowed is put back. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBUSY if a wait has it (chappe_recv_async); -EBADF.
 */
int chappe_receiver_close(struct chappe_receiver *receiver);

/**
 * Attaches another receiver to the same tube, for another thread.
 *
 * Errors: -EBUSY if there may be only one; -EIDRM, -EUSERS, -EMFILE, -EBADF, -EFAULT.
 */
int chappe_receiver_another(struct chappe_receiver *receiver, struct chappe_receiver **another);

/**
 * Receives the next record, by copying it into to, which must have room for the longest (room bytes, chappe_receiver_size or
 * more); answers its length. Waits while there is none. A handled signal does not end the wait. Writes into again, unless it is
 * NULL, whether a receiver has died that had the record before: it may have been done already. With a record there it makes no
 * system call.
 *
 * Errors: -EPIPE if there is none and all senders have gone, -ECONNRESET, once, if one of them died or exited without
 * closing it; -EMSGSIZE if there is too little room, and nothing is received; -EIDRM if the tube was removed; -ESTALE
 * if the thread has left the arena meanwhile; -EPERM if it is the parent process's; -EUSERS if the thread cannot
 * become a member of the arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
 */
ptrdiff_t chappe_recv(struct chappe_receiver *receiver,
                      void *to,
                      size_t room,
                      bool *again);

/**
 * Receives the next record if there is one now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_recv.
 */
ptrdiff_t chappe_try_recv(struct chappe_receiver *receiver, void *to, size_t room, bool *again);

/**
 * As chappe_recv, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_recv.
 */
ptrdiff_t chappe_recv_timeout(struct chappe_receiver *receiver,
                              void *to,
                              size_t room,
                              bool *again,
                              int64_t ns);

/**
 * As chappe_recv, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_recv_timeout.
 */
ptrdiff_t chappe_recv_deadline(struct chappe_receiver *receiver,
                               void *to,
                               size_t room,
                               bool *again,
                               int64_t at);

/**
 * Borrows the next record, to look at it in place: writes where it is, answers its length. It is received when
 * chappe_receiver_release says so. Waits while there is none. One record at a time at each receiver; it belongs to the thread.
 *
 * Errors: -EBUSY if one is borrowed already; -EOPNOTSUPP if the tube is private; else as chappe_recv.
 */
ptrdiff_t chappe_receiver_borrow(struct chappe_receiver *receiver,
                                 const void **data,
                                 bool *again);

/**
 * Borrows the next record if there is one now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_receiver_borrow.
 */
ptrdiff_t chappe_receiver_try_borrow(struct chappe_receiver *receiver, const void **data, bool *again);

/**
 * As chappe_receiver_borrow, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_receiver_borrow.
 */
ptrdiff_t chappe_receiver_borrow_timeout(struct chappe_receiver *receiver,
                                         const void **data,
                                         bool *again,
                                         int64_t ns);

/**
 * As chappe_receiver_borrow, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_receiver_borrow_timeout.
 */
ptrdiff_t chappe_receiver_borrow_deadline(struct chappe_receiver *receiver,
                                          const void **data,
                                          bool *again,
                                          int64_t at);

/**
 * Says that the record that is borrowed is received: its slot is free.
 *
 * Errors: -EINVAL if none is borrowed, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's;
 * -ESTALE if the thread was taken for dead, and it may come again; -EBADF.
 */
int chappe_receiver_release(struct chappe_receiver *receiver);

/**
 * Gives the record that is borrowed back, unreceived: it comes once more, marked, before all that was sent later, however often it
 * has come. (Of a tube that was made to drop, it is dropped, and counted.)
 *
 * Errors: -EINVAL if none is borrowed, or the thread has left the arena since; -EPERM if it is another thread's, or the parent process's;
 * -EBADF.
 */
int chappe_receiver_put_back(struct chappe_receiver *receiver);

/**
 * How many bytes the longest record can have.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_receiver_size(const struct chappe_receiver *receiver);

/**
 * How many records there are in the tube, without those that a receiver reads in place. Looks at all slots.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_receiver_len(const struct chappe_receiver *receiver);

/**
 * How many records there is room for; CHAPPE_UNBOUNDED: for any number.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_receiver_capacity(const struct chappe_receiver *receiver);

/**
 * 1 if there is no record in the tube, else 0.
 *
 * Errors: -EBADF.
 */
int chappe_receiver_is_empty(const struct chappe_receiver *receiver);

/**
 * A descriptor (an eventfd) that becomes readable when there is something to receive, no sender any more (gone or dead), or no tube:
 * for poll(2) and epoll(7). This handle's own, made when it is first asked for, and closed with the handle. Only poll it: do not read
 * it. It becomes readable once, and is made ready for the next time by chappe_receiver_rearm. Others may be faster: then
 * chappe_try_recv finds nothing.
 *
 * The first one in an arena starts a thread of this process, which takes a place among the arena's members; the call waits until that
 * thread has started. In a forked child the parent's descriptor means nothing: the child asks again, and gets one of its own.
 *
 * Errors: the system's, when it refuses a descriptor or a thread; the arena's, when that thread cannot join it: -EUSERS if there is no
 * place for another member; -EPERM if the end is the parent process's; -EBADF.
 */
int chappe_receiver_descriptor(struct chappe_receiver *receiver);

/**
 * Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: chappe_try_recv would not answer -EAGAIN now, and
 * it is readable. Waits for no other process.
 *
 * Errors: -EBADF.
 */
int chappe_receiver_rearm(struct chappe_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
