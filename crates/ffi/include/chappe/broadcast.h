/*
 * Broadcast tubes: each subscriber gets each message that it wants, between processes or between the threads of one.
 *
 * One sends at a chappe_publisher, see chappe_publisher(3), and receives at a chappe_subscription, see chappe_subscription(3). A message
 * is copied once, however many get it; it becomes visible to all at one instant, or, if its publisher is killed before that, to
 * nobody. All subscriptions see all messages in one order. A subscription sees every message whose send begins after
 * chappe_broadcast_subscribe has returned; what is sent while nobody subscribes is nobody's.
 *
 * A tube with a schema (<chappe/schema.h>) takes filters, such as "price > $limit && sym == 'X'": a subset of CEL, see "Queries over
 * records" in the guide. A filter travels to the publishers: for a message that it does not want nothing is copied, and its subscriber is not
 * woken. What is wrong with one, and in which column, chappe_last_error() says.
 *
 * Each subscription says what becomes of messages that it is too slow for: publishers wait, or it loses the oldest, or the
 * newest. What it loses is counted. When all publishers have gone, or died, subscribers get what is there and then -EPIPE (before that,
 * once, -ECONNRESET if one of them did not end well). Before the first one has come, one waits.
 *
 * Generated from crates/ffi/src/broadcast.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_BROADCAST_H
#define CHAPPE_BROADCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "publisher.h"
#include "subscription.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Publishers wait for a subscription that is too slow.
 */
#define CHAPPE_SLOW_BLOCK 0

/**
 * A subscription that is too slow loses the oldest messages that it has not received.
 */
#define CHAPPE_SLOW_DROP_OLDEST 1

/**
 * A subscription keeps at most most messages that it has not received, and loses later ones.
 */
#define CHAPPE_SLOW_DROP_NEWEST 2

/**
 * A handle of a broadcast tube.
 */
typedef struct chappe_broadcast chappe_broadcast;

/**
 * What a broadcast tube is made as. Set it to zeros first: 0 stands for what is usual.
 */
typedef struct chappe_broadcast_options {
    /**
     * How many messages it has room for (64; at most 65536), rounded up to a power of two.
     */
    uint32_t slots;
    /**
     * The most bytes of a message (256). With a schema it is the schema's.
     */
    uint32_t size;
    /**
     * Where a message begins in memory: a multiple of this (8; a power of two, at most 64).
     */
    uint32_t align;
    /**
     * How many may subscribe at a time (16; at most 256).
     */
    uint32_t subscribers;
    /**
     * Which fields the messages have, see <chappe/schema.h>. NULL: none, and no filters.
     */
    const char *schema;
    /**
     * 0.
     */
    uint64_t reserved[3];
} chappe_broadcast_options;

/**
 * How a broadcast tube stands, put together from single looks while others go on.
 */
typedef struct chappe_broadcast_info {
    /**
     * How many messages it has room for.
     */
    uint32_t slots;
    /**
     * The most bytes of a message.
     */
    uint32_t size;
    /**
     * How many may subscribe.
     */
    uint32_t capacity;
    /**
     * How many publishers there are.
     */
    uint32_t publishers;
    /**
     * How many publishers have died, or broken off, since it was made, modulo 2^19.
     */
    uint32_t publishers_died;
    /**
     * How many subscribe.
     */
    uint32_t subscribers;
    /**
     * How many wait: for a message, or for room.
     */
    uint32_t waiting;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * How many messages a subscriber wanted, since it was made.
     */
    uint64_t sent;
    /**
     * Bytes of the arena's data that it takes.
     */
    uint64_t bytes;
} chappe_broadcast_info;

/**
 * A subscription, as it stands.
 */
typedef struct chappe_subscriber {
    /**
     * Its process.
     */
    int32_t pid;
    /**
     * CHAPPE_SLOW_BLOCK ...
     */
    int slow;
    /**
     * Of CHAPPE_SLOW_DROP_NEWEST: how many messages it keeps.
     */
    uint32_t most;
    /**
     * How many messages are there for it.
     */
    uint32_t messages;
    /**
     * How many it has received.
     */
    uint64_t received;
    /**
     * How many it has lost because it was too slow.
     */
    uint64_t lost;
    /**
     * What its process calls itself, ended by a 0.
     */
    char label[64];
    /**
     * Its filter with its parameters, as much as has room, ended by a 0; empty for all.
     */
    char filter[256];
} chappe_subscriber;

/**
 * What a subscription is to be. Set it to zeros first: then it gets all messages, and publishers wait for it.
 */
typedef struct chappe_subscribe_options {
    /**
     * Only messages for which this expression over the schema holds. NULL: all.
     */
    const char *filter;
    /**
     * The values of the filter's parameters, which chappe_subscription_set can change later.
     */
    const chappe_param *params;
    /**
     * How many those are.
     */
    size_t param_count;
    /**
     * CHAPPE_SLOW_BLOCK, CHAPPE_SLOW_DROP_OLDEST or CHAPPE_SLOW_DROP_NEWEST.
     */
    int slow;
    /**
     * Of CHAPPE_SLOW_DROP_NEWEST: how many messages it keeps, 1 at least. All subscriptions of this kind together may keep half of the
     * tube's slots.
     */
    uint32_t most;
    /**
     * 0.
     */
    uint64_t reserved[3];
} chappe_subscribe_options;

/**
 * Opens the broadcast tube of this name: "ticks", or "lab/ticks" for one in the arena "lab". Of the options, which may be NULL, only the
 * schema is looked at.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, the messages are of a type, or have other fields; -EINVAL for
 * options that make no sense; else as chappe_arena_open.
 */
int chappe_broadcast_open(const char *name,
                          const struct chappe_broadcast_options *options,
                          struct chappe_broadcast **broadcast);

/**
 * Makes the broadcast tube of this name, which must not be there, and its arena, with room for it, if need be. options may be NULL.
 *
 * Errors: -EEXIST; -EINVAL if there can be no such tube; -ENOSPC or -EUSERS if the arena is full; else as chappe_broadcast_open.
 */
int chappe_broadcast_create(const char *name,
                            const struct chappe_broadcast_options *options,
                            struct chappe_broadcast **broadcast);

/**
 * Opens the broadcast tube of this name, or makes it. options may be NULL.
 *
 * Errors: -EPROTOTYPE also if it is there and was made with other options; else as chappe_broadcast_create, but for -EEXIST.
 */
int chappe_broadcast_open_or_create(const char *name,
                                    const struct chappe_broadcast_options *options,
                                    struct chappe_broadcast **broadcast);

/**
 * Makes a broadcast tube for the threads of this process, which goes with its last handle and end. options may be NULL. In a forked
 * child it is a copy.
 *
 * Errors: -EINVAL if there can be no such tube; -ENOSPC if the process's own arena (64 MiB) has no room; -ENOMEM, -EFAULT, -EMFILE.
 */
int chappe_broadcast_private(const struct chappe_broadcast_options *options,
                             struct chappe_broadcast **broadcast);

/**
 * Closes a handle. The tube stays, and so do its publishers and subscriptions.
 *
 * Errors: -EBADF.
 */
int chappe_broadcast_close(struct chappe_broadcast *broadcast);

/**
 * Removes the broadcast tube of this name. One with a publisher or a subscriber is refused unless force: then its users get
 * -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_broadcast_open.
 */
int chappe_broadcast_remove(const char *name,
                            int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length. That of a private one is empty.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_broadcast_name(const struct chappe_broadcast *broadcast,
                                char *to,
                                size_t size);

/**
 * Writes its schema in canonical form, as much as has room, with a 0 behind it; answers its length, 0 if it has none.
 *
 * Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
 */
ptrdiff_t chappe_broadcast_schema(const struct chappe_broadcast *broadcast,
                                  char *to,
                                  size_t size);

/**
 * Says how the tube stands.
 *
 * Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
 */
int chappe_broadcast_look(const struct chappe_broadcast *broadcast, struct chappe_broadcast_info *info);

/**
 * Lists its subscriptions: writes as many as there is room for, answers how many there are.
 *
 * Errors: -EIDRM if it was removed; -EBADF, -EFAULT.
 */
ptrdiff_t chappe_broadcast_subscribers(const struct chappe_broadcast *broadcast,
                                       struct chappe_subscriber *to,
                                       size_t room);

/**
 * Attaches a publisher. The first of a process starts a thread that stands for it, once for each arena.
 *
 * Errors: -EINVAL if 128 publish already; -EIDRM; -EUSERS if the arena cannot take another member; -EMFILE, -EBADF, -EFAULT.
 */
int chappe_broadcast_publisher(struct chappe_broadcast *broadcast,
                               chappe_publisher **publisher);

/**
 * Subscribes, from now on: what is sent from here on is there for it until its handle is closed or its process dies. options may be
 * NULL: all messages, and publishers wait. Waits for nobody but a living process that is just coming or going.
 *
 * Errors: -EINVAL: the filter makes no sense for this tube (the text says where), has more than 1,024 bytes with its parameters, as many
 * subscribe as may, or the slots that may be kept for those that drop the newest are taken; -EIDRM; -EUSERS if the arena cannot take
 * another member; -EMFILE, -EBADF, -EFAULT.
 */
int chappe_broadcast_subscribe(struct chappe_broadcast *broadcast,
                               const struct chappe_subscribe_options *options,
                               chappe_subscription **subscription);

#ifdef __cplusplus
}
#endif

#endif
