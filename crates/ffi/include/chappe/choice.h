/*
 * Choice: exactly one of several operations, whichever can be done first.
 *
 * An arm consumes a wake-up, takes a permit, locks a readers-writer lock, sends a record, receives one, receives a message that a subscription
 * wants, waits for a barrier's turn, or waits until a descriptor can be read or written.
 * Exactly one arm happens; the others are as if they had not been there. In each object the choice waits in the order of arrival; of
 * several arms that are ready each is as likely, unless CHAPPE_BIASED. The same object may occur more than once, both ends of a tube
 * too; private and named objects may be mixed, those of two different arenas may not. The index that is answered is that of the
 * caller's array.
 *
 * A choice of up to 16 arms asks for no memory. An array of arms may be used again and again: only result and again are written,
 * and data of an arm that borrows.
 *
 * Generated from crates/ffi/src/choice.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_CHOICE_H
#define CHAPPE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "barrier.h"
#include "permit.h"
#include "pool.h"
#include "receiver.h"
#include "rwlock.h"
#include "semaphore.h"
#include "sender.h"
#include "subscription.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An arm that never happens: what is all zeros is one.
 */
#define CHAPPE_ARM_NOTHING 0

/**
 * Consumes a wake-up of a chappe_semaphore.
 */
#define CHAPPE_ARM_DOWN 1

/**
 * Takes a permit of a chappe_pool.
 */
#define CHAPPE_ARM_ACQUIRE 2

/**
 * Sends a record at a chappe_sender.
 */
#define CHAPPE_ARM_SEND 3

/**
 * Receives a record at a chappe_receiver.
 */
#define CHAPPE_ARM_RECV 4

/**
 * Waits until a descriptor can be read without waiting, or has an error or an end to tell. Nothing is read.
 */
#define CHAPPE_ARM_READABLE 5

/**
 * Waits until a descriptor can be written without waiting, or has an error to tell.
 */
#define CHAPPE_ARM_WRITABLE 6

/**
 * Borrows a record at a chappe_receiver, to look at it in place: see chappe_receiver_borrow.
 */
#define CHAPPE_ARM_BORROW 7

/**
 * Locks a chappe_rwlock to read.
 */
#define CHAPPE_ARM_READ 8

/**
 * Locks a chappe_rwlock to write.
 */
#define CHAPPE_ARM_WRITE 9

/**
 * Receives a message at a chappe_subscription: one that its filter wants.
 */
#define CHAPPE_ARM_SUBSCRIPTION 10

/**
 * Waits for the turn of a chappe_arrival's round.
 */
#define CHAPPE_ARM_TURN 11

/**
 * A flag: of several arms that are ready the first in the array happens.
 */
#define CHAPPE_BIASED 1

/**
 * A flag: nothing happens; the answer is an arm that is ready. A faster thread may take it first.
 */
#define CHAPPE_LOOK 2

/**
 * One of the things that a choice chooses among. chappe_arm_down and its like fill it in.
 */
typedef struct chappe_arm {
    /**
     * CHAPPE_ARM_DOWN, CHAPPE_ARM_ACQUIRE ...
     */
    int kind;
    /**
     * Of CHAPPE_ARM_READABLE and CHAPPE_ARM_WRITABLE: the descriptor.
     */
    int descriptor;
    /**
     * The handle of the semaphore, pool, lock, sender, receiver, subscription or arrival.
     */
    void *object;
    /**
     * The record to be sent, or where one that is received goes, or the turn, unless that is NULL. Written if the arm was chosen and has borrowed, or locked: where the record is, or
     * the data.
     */
    void *data;
    /**
     * How long the record is, or how much room there is.
     */
    size_t size;
    /**
     * Where the permit goes.
     */
    chappe_permit *permit;
    /**
     * Written if the arm was chosen: how it ended. Of one that received or borrowed, the record's length; of one that locked, 0 or
     * CHAPPE_OWNER_DIED; of a turn, 0 or CHAPPE_PARTY_DIED; else 0; or an error: -EPIPE, -EIDRM ...
     */
    ptrdiff_t result;
    /**
     * Written if the arm received or borrowed: whether a receiver has died that had the record before.
     */
    bool again;
    /**
     * 0.
     */
    uint64_t reserved[2];
} chappe_arm;

/**
 * An arm that consumes a wake-up.
 */
struct chappe_arm chappe_arm_down(chappe_semaphore *semaphore);

/**
 * An arm that takes a permit, and writes it to permit.
 */
struct chappe_arm chappe_arm_acquire(chappe_pool *pool, chappe_permit *permit);

/**
 * An arm that sends len bytes as one record.
 */
struct chappe_arm chappe_arm_send(chappe_sender *sender, const void *record, size_t len);

/**
 * An arm that receives a record into to, which must have room for the longest.
 */
struct chappe_arm chappe_arm_recv(chappe_receiver *receiver, void *to, size_t room);

/**
 * An arm that receives a message that a subscription wants into to, which must have room for the longest. It is ready when such a
 * message is there, and when all publishers have gone: then result is -EPIPE, or -ECONNRESET, once, if one of them did not end well.
 * What the filter does not want is dropped on the way. With CHAPPE_LOOK a message may be set aside, for the next receive.
 */
struct chappe_arm chappe_arm_subscription(chappe_subscription *subscription,
                                          void *to,
                                          size_t room);

/**
 * An arm that borrows a record, to look at it in place: data says where it is, result how long it is, and
 * chappe_receiver_release that it is received. Named tubes only.
 */
struct chappe_arm chappe_arm_borrow(chappe_receiver *receiver);

/**
 * An arm that locks a readers-writer lock to read; data says where its data is, and result is 0 or CHAPPE_OWNER_DIED.
 */
struct chappe_arm chappe_arm_read(chappe_rwlock *lock);

/**
 * An arm that locks a readers-writer lock to write; as chappe_arm_read.
 */
struct chappe_arm chappe_arm_write(chappe_rwlock *lock);

/**
 * An arm that waits for the turn of the calling thread's arrival, and writes it to turn, unless that is NULL. result is 0 or
 * CHAPPE_PARTY_DIED, or an error as of chappe_arrival_wait: a barrier that is broken is ready to say so. If another arm is chosen, the
 * arrival stands.
 */
struct chappe_arm chappe_arm_turn(chappe_arrival *arrival,
                                  chappe_turn *turn);

/**
 * An arm that waits until a descriptor can be read.
 */
struct chappe_arm chappe_arm_readable(int descriptor);

/**
 * An arm that waits until a descriptor can be written.
 */
struct chappe_arm chappe_arm_writable(int descriptor);

/**
 * Waits until one of the n arms can happen, and does it. Answers the arm's index; arms[index].result says how it ended. An object
 * that was removed, or a tube whose other end has gone, is ready to say so. A handled signal does not end the wait. flags: 0, or the
 * sum of CHAPPE_BIASED and CHAPPE_LOOK.
 *
 * Errors, and then nothing has happened: -EINVAL if there is no arm (none but CHAPPE_ARM_NOTHING), or an arm or flag
 * is not known; -EXDEV if there are objects of two arenas; -EBADF, -EFAULT, -EMSGSIZE if an arm's object, memory or
 * record cannot be; -EBUSY if an arm's sender has a slot reserved, or a record is borrowed at the receiver of one that
 * borrows; -EPERM if an arm's arrival is another thread's, or the parent process's; -EOPNOTSUPP if that is of a private tube; -ENOMEM if there is no memory for the record of a private tube,
 * or no address space for the waiters for a descriptor; -EUSERS if the thread cannot become a member of an arena, or
 * -EIDRM since that was removed before; the system's, if it refuses a thread.
 */
ptrdiff_t chappe_select(struct chappe_arm *arms,
                        size_t n,
                        uint32_t flags);

/**
 * Does one of the arms if one can happen now. That none can is said only if there was a moment at which none could, however fast
 * others hand a thing from one object to another; of several descriptors, each at a moment of its own.
 *
 * Errors: -EAGAIN, also if there is no arm; else as chappe_select.
 */
ptrdiff_t chappe_try_select(struct chappe_arm *arms,
                            size_t n,
                            uint32_t flags);

/**
 * As chappe_select, waiting at most for ns nanoseconds. That the time is up is said only if there was a moment as for
 * chappe_try_select.
 *
 * Errors: -ETIMEDOUT, also if there is no arm; -EINVAL if ns is negative; else as chappe_select.
 */
ptrdiff_t chappe_select_timeout(struct chappe_arm *arms,
                                size_t n,
                                uint32_t flags,
                                int64_t ns);

/**
 * As chappe_select, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_select_timeout.
 */
ptrdiff_t chappe_select_deadline(struct chappe_arm *arms, size_t n, uint32_t flags, int64_t at);

#ifdef __cplusplus
}
#endif

#endif
