/*
 * Tubes: bounded channels of records, between processes or between the threads of one.
 *
 * One sends at a chappe_sender, see chappe_sender(3), and receives at a chappe_receiver, see chappe_receiver(3). A
 * named tube outlives its users: whatever was sent is there until it is received, or the tube is removed, and any of
 * them may be killed at any instruction. When every sender has gone, or died, receivers get what is there and then
 * -EPIPE (before that, once, -ECONNRESET if one died, or exited without closing it); when every receiver has, senders
 * get -EPIPE. Both may be attached again, unless the tube is sealed: then no sender comes any more. Before the first
 * one has come, one waits.
 *
 * Records have as many bytes as were sent, up to the tube's size. A tube that was made with a type name carries records of exactly
 * its size: those of the tubes of plain data of Rust programs.
 *
 * Generated from crates/ffi/src/tube.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_TUBE_H
#define CHAPPE_TUBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "receiver.h"
#include "sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Many senders, many receivers.
 */
#define CHAPPE_MPMC 0

/**
 * Many senders, one receiver at a time.
 */
#define CHAPPE_MPSC 1

/**
 * One sender at a time, many receivers.
 */
#define CHAPPE_SPMC 2

/**
 * One sender, one receiver at a time.
 */
#define CHAPPE_SPSC 3

/**
 * A flag: a record whose receiver dies before it has released it is dropped, and counted, instead of being delivered once more.
 */
#define CHAPPE_DROPS 1

/**
 * As the slots of a private tube: any number.
 */
#define CHAPPE_UNBOUNDED INT64_C(-1)

/**
 * A handle of a named tube.
 */
typedef struct chappe_tube chappe_tube;

/**
 * What a tube is made as. Set it to zeros first: 0 stands for what is usual.
 */
typedef struct chappe_tube_options {
    /**
     * How many records it has room for (64; at most 524288).
     */
    uint32_t slots;
    /**
     * The most bytes of a record (256).
     */
    uint32_t size;
    /**
     * Where a record begins in memory: a multiple of this (8; a power of two, at most 64).
     */
    uint32_t align;
    /**
     * How many it has at each end at a time: CHAPPE_MPMC, CHAPPE_MPSC, CHAPPE_SPMC, CHAPPE_SPSC. With only one, that end is faster.
     */
    int kind;
    /**
     * 0 or CHAPPE_DROPS.
     */
    uint32_t flags;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * The type of the records, in a word: then each has exactly size bytes, and all programs that open the tube must
     * say the same type, size and alignment. What a Rust program made as a tube of a type has the type's name without
     * modules. NULL: bytes of any number.
     */
    const char *type_name;
    /**
     * Which fields the records have, see <chappe/schema.h>: each has exactly as many bytes as the schema says, the tube keeps it, and all
     * programs that open the tube with a schema must say the same. Not together with type_name. NULL: none.
     */
    const char *schema;
    /**
     * 0.
     */
    uint64_t reserved_too[3];
} chappe_tube_options;

/**
 * How a tube stands, put together from single looks while others go on.
 */
typedef struct chappe_tube_info {
    /**
     * How many it has at each end at a time: CHAPPE_MPMC ...
     */
    int kind;
    /**
     * How many records it has room for.
     */
    uint32_t slots;
    /**
     * The most bytes of a record.
     */
    uint32_t size;
    /**
     * 1: what a dead receiver had is dropped at once.
     */
    int drops;
    /**
     * 1: no sender may come any more.
     */
    int sealed;
    /**
     * How many processes have a sender.
     */
    uint32_t senders;
    /**
     * How many processes have a receiver.
     */
    uint32_t receivers;
    /**
     * How many wait for room.
     */
    uint32_t senders_waiting;
    /**
     * How many wait for a record.
     */
    uint32_t receivers_waiting;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * How many records are there.
     */
    uint64_t messages;
    /**
     * How many were sent since it was made; what was reserved and given up counts, too.
     */
    uint64_t sent;
    /**
     * How many of those have left it: received, released, or dropped.
     */
    uint64_t received;
    /**
     * How many were to be delivered once more, because their receiver had died.
     */
    uint64_t redelivered;
    /**
     * How many were dropped because their receivers had died.
     */
    uint64_t dropped;
    /**
     * Bytes of the arena's data that it takes.
     */
    uint64_t bytes;
} chappe_tube_info;

/**
 * Opens the tube of this name: "jobs", or "lab/jobs" for one in the arena "lab". Of the options, which may be NULL, only the type,
 * and with it the size and alignment, or the schema, are looked at.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or the records are of another type; -EINVAL for options that
 * make no sense; else as chappe_arena_open.
 */
int chappe_tube_open(const char *name,
                     const struct chappe_tube_options *options,
                     struct chappe_tube **tube);

/**
 * Makes the tube of this name, which must not be there, and its arena, with room for it, if need be. options may be NULL.
 *
 * Errors: -EEXIST; -EINVAL if there can be no such tube; -ENOSPC or -EUSERS if the arena is full; else as chappe_tube_open.
 */
int chappe_tube_create(const char *name,
                       const struct chappe_tube_options *options,
                       struct chappe_tube **tube);

/**
 * Opens the tube of this name, or makes it. options may be NULL.
 *
 * Errors: -EPROTOTYPE also if it is there and was made with other options; else as chappe_tube_create, but for -EEXIST.
 */
int chappe_tube_open_or_create(const char *name,
                               const struct chappe_tube_options *options,
                               struct chappe_tube **tube);

/**
 * Closes a handle. The tube stays, and so do its senders and receivers.
 *
 * Errors: -EBADF.
 */
int chappe_tube_close(struct chappe_tube *tube);

/**
 * Removes the tube of this name, whatever it carries. One with records or an attached end is refused unless
 * force: then the records are lost, and its users get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_tube_open.
 */
int chappe_tube_remove(const char *name, int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_tube_name(const struct chappe_tube *tube, char *to, size_t size);

/**
 * Says how the tube stands.
 *
 * Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
 */
int chappe_tube_look(const struct chappe_tube *tube, struct chappe_tube_info *info);

/**
 * Says that no sender comes any more: those that are there may go on, and what is in it is still received; when they have gone,
 * receivers get -EPIPE, also if there never was one. For ever.
 *
 * Errors: -EIDRM, -EUSERS, -EBADF.
 */
int chappe_tube_seal(struct chappe_tube *tube);

/**
 * Attaches a sender. The first of a process makes the process one of the tube's senders, and starts a thread for that, once for each
 * arena.
 *
 * Errors: -EBUSY if there may be only one, and there is; -ESHUTDOWN if the tube is sealed; -EIDRM; -EUSERS if the arena cannot take
 * another member; -EMFILE, -EBADF, -EFAULT.
 */
int chappe_tube_sender(struct chappe_tube *tube,
                       chappe_sender **sender);

/**
 * Attaches a receiver. The first of a process makes the process one of the tube's receivers, and starts a thread for that, once for
 * each arena.
 *
 * Errors: -EBUSY if there may be only one, and there is; -EIDRM; -EUSERS if the arena cannot take another member; -EMFILE, -EBADF,
 * -EFAULT.
 */
int chappe_tube_receiver(struct chappe_tube *tube,
                         chappe_receiver **receiver);

/**
 * Makes a tube for the threads of this process, and both its ends. It has many senders and receivers, and carries
 * records of up to size bytes, which are copied in and out; records of more than 56 bytes allocate memory. slots:
 * how many records it has room for; 0: none, a sender waits for a receiver; CHAPPE_UNBOUNDED: any number, and when
 * there is no memory for more, the program ends, as one in Rust does (abort(3)). In a forked child it is a copy.
 *
 * Its ends work as those of a named tube, but for reserve and borrow and what goes with them (-EOPNOTSUPP), and may be used by
 * any number of threads at once.
 *
 * Errors: -EINVAL if slots is below CHAPPE_UNBOUNDED or above 524288, or size above 4294967295; -ENOMEM, -EFAULT, -EMFILE.
 */
int chappe_tube_private(int64_t slots,
                        size_t size,
                        chappe_sender **sender,
                        chappe_receiver **receiver);

#ifdef __cplusplus
}
#endif

#endif
