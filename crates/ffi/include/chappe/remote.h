/*
 * Pools, mutexes, semaphores and tubes on an engine, etcd, that many machines share.
 *
 * Only in a library that was built with the feature remote: cargo build --profile dist -p chappe-ffi --features remote. See "Many machines" in the guide. This
 * header is not a part of <chappe.h>.
 *
 * What is held goes with a lease, which a thread of the library renews. It is lost when this process is stopped or cut off for longer than the lease's time to
 * live, when the engine ends the lease, and when somebody takes the permit away: then another may hold it, and no library can stop the caller. So the token is had by
 * chappe_remote_check alone, which says whether the permit is certainly held: hand it on with each write, to a store that refuses a smaller one than it has
 * seen. chappe_remote_lost is a descriptor that is readable from the loss on: an arm of a choice by chappe_arm_readable, or of poll(2).
 *
 * A permit or a connection may be used by any number of threads at once, until it is closed; an end of a tube by one at a time (-EBUSY for others). In a
 * forked child all of them are the parent's: -EPERM, and closing them there does nothing to the parent's. A process that ends without closing them gives
 * all back when its lease ends. Each call takes a round trip to the engine, some milliseconds, but for those that say otherwise. ns: how many nanoseconds to wait,
 * 0 for not at all, CHAPPE_FOREVER for as long as it takes.
 *
 * Errors of all: -EHOSTUNREACH: no endpoint answers; -EHOSTDOWN: the engine did not answer in time, and what it may have granted is given back when it does;
 * -EREMOTEIO: an answer was lost, and it is not known whether it was done: look before it is done again; -EPROTO: the engine refuses;
 * -EPROTONOSUPPORT: it is of a version that ends living leases, or what stands there is newer than this library; -ENOENT: there is no such object; -EPROTOTYPE:
 * the name is another kind of object's; -EIDRM: it was removed while it was waited for; -EINVAL: a name or a number that cannot be; -EPERM, -EBADF, -EFAULT, -EMFILE.
 *
 * Generated from crates/ffi/src/remote.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_REMOTE_H
#define CHAPPE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of a connection to a namespace of an engine.
 */
typedef struct chappe_remote chappe_remote;

/**
 * A handle of what is held there: permits of a pool, or a mutex.
 */
typedef struct chappe_remote_permit chappe_remote_permit;

/**
 * A handle of a receiver of a tube there.
 */
typedef struct chappe_remote_receiver chappe_remote_receiver;

/**
 * A handle of a sender of a tube there.
 */
typedef struct chappe_remote_sender chappe_remote_sender;

/**
 * A pool as it was at one moment.
 */
typedef struct chappe_remote_pool_info {
    /**
     * How many permits it has.
     */
    uint32_t permits;
    /**
     * How many of them are held.
     */
    uint32_t held;
    /**
     * How many wait.
     */
    uint32_t waiting;
    /**
     * 0.
     */
    uint32_t reserved;
} chappe_remote_pool_info;

/**
 * What is known of a record.
 */
typedef struct chappe_remote_record {
    /**
     * Its fencing token: larger each time that the record is given to a receiver.
     */
    uint64_t token;
    /**
     * Whether it was given to a receiver before, which did not finish with it.
     */
    bool again;
} chappe_remote_record;

/**
 * Connects. place: "@lab" for the engine lab of remotes.toml, "@" for that of CHAPPE_ON, or a URL, etcd://HOST[:PORT],.../NAMESPACE, with etcds:// for TLS;
 * certificates and users are in remotes.toml, or in CHAPPE_CA, CHAPPE_CERT, CHAPPE_KEY, CHAPPE_USER, CHAPPE_PASSWORD_FILE. label: what others see of this
 * process; NULL for its name. Blocks until one endpoint has answered, for 5 s at most.
 *
 * Errors: -EHOSTUNREACH, -EPROTONOSUPPORT, -EPROTO; -EINVAL: the place cannot be, or a file that it names cannot be read; -EFAULT, -EMFILE.
 */
int chappe_remote_open(const char *place,
                       const char *label,
                       struct chappe_remote **remote);

/**
 * Closes a connection. What is held by it stays held, until that is given back.
 *
 * Errors: -EBADF.
 */
int chappe_remote_close(struct chappe_remote *remote);

/**
 * Makes a pool of so many permits, 1 to 100,000.
 *
 * Errors: -EEXIST; and those of all.
 */
int chappe_remote_create_pool(struct chappe_remote *remote, const char *name, uint32_t permits);

/**
 * Gives a pool another size. Permits beyond a smaller one stay with their holders, and are not granted again.
 *
 * Errors: those of all.
 */
int chappe_remote_resize_pool(struct chappe_remote *remote, const char *name, uint32_t permits);

/**
 * What a pool is now.
 *
 * Errors: those of all.
 */
int chappe_remote_look_at_pool(struct chappe_remote *remote,
                               const char *name,
                               struct chappe_remote_pool_info *info);

/**
 * Makes a mutex.
 *
 * Errors: -EEXIST; and those of all.
 */
int chappe_remote_create_mutex(struct chappe_remote *remote, const char *name);

/**
 * Makes a semaphore of so many units.
 *
 * Errors: -EEXIST; and those of all.
 */
int chappe_remote_create_semaphore(struct chappe_remote *remote, const char *name, uint32_t units);

/**
 * Makes a tube with room for so many pages, each of up to 64 KiB or one record, and records of size bytes at most, up to 1 MiB; together 512 MiB.
 *
 * Errors: -EEXIST; and those of all.
 */
int chappe_remote_create_tube(struct chappe_remote *remote,
                              const char *name,
                              uint64_t pages,
                              uint64_t size);

/**
 * Removes an object of any kind, with all that is in it; with force also one that is in use: its holders lose what they hold.
 *
 * Errors: -EBUSY: it is in use; and those of all.
 */
int chappe_remote_remove(struct chappe_remote *remote,
                         const char *name,
                         bool force);

/**
 * Waits for permits of one pool, all at once or none; or, where several pools are named, for one permit of whichever has one first: the first in their
 * order of those that have one now. At most 32 pools. Waiters are served in the order of arrival. Answers which pool it is of, from 0; the permit is to be given back
 * by chappe_remote_release.
 *
 * Errors: -EAGAIN with ns 0: nothing is free; -ETIMEDOUT; -ERANGE: the pool never has so many; and those of all.
 */
int chappe_remote_acquire(struct chappe_remote *remote,
                          const char *const *pools,
                          size_t n,
                          uint32_t permits,
                          int64_t ns,
                          struct chappe_remote_permit **permit);

/**
 * Waits for a mutex, in the order of arrival. -EOWNERDEAD: it is locked, its last holder died, and what it guards may be half done: see
 * chappe_remote_consistent. It is to be unlocked by chappe_remote_release.
 *
 * Errors: -EAGAIN with ns 0: it is locked; -ETIMEDOUT; and those of all.
 */
int chappe_remote_lock(struct chappe_remote *remote,
                       const char *name,
                       int64_t ns,
                       struct chappe_remote_permit **permit);

/**
 * What the mutex guards is whole again: the next holder is not warned. Without this one that was locked with -EOWNERDEAD hands the warning on. Makes no
 * call to the engine.
 *
 * Errors: -EINVAL: it is of a pool; -EBADF.
 */
int chappe_remote_consistent(struct chappe_remote_permit *permit);

/**
 * Whether it is certainly still held, by this machine's clock: the token to hand on, which is larger with each grant. Makes no call, to the system or to the
 * engine, but to read a clock.
 *
 * Errors: -ESTALE: it is lost; -EPERM: it is the parent's; -EFAULT: there is no place for the token; -EBADF.
 */
int chappe_remote_check(const struct chappe_remote_permit *permit,
                        uint64_t *token);

/**
 * A descriptor that is readable from when it is lost on. It is the permit's: poll it, and neither read nor close it.
 *
 * Errors: -EBADF.
 */
int chappe_remote_lost(const struct chappe_remote_permit *permit);

/**
 * For how many nanoseconds it is certain if no renewal is answered from now on, and nobody takes it away; 0 if it is lost. Makes no call, as
 * chappe_remote_check.
 *
 * Errors: -EBADF.
 */
int64_t chappe_remote_left(const struct chappe_remote_permit *permit);

/**
 * Writes which permits of the pool these are, in ascending order, as many as have room; answers how many there are. Of a mutex 0.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_remote_indices(const struct chappe_remote_permit *permit,
                                uint32_t *to,
                                size_t n);

/**
 * Gives it back, and closes the handle in any case.
 *
 * Errors: -ESTALE: it was lost before, and what was done since was done without it; -EHOSTDOWN: it comes back as soon as the engine answers, or with the lease;
 * -EPROTO, -EPERM, -EBADF.
 */
int chappe_remote_release(struct chappe_remote_permit *permit);

/**
 * Gives a mutex back without having finished: its next holder is told, as after a death. A permit of a pool is given back. Closes the handle in any case.
 *
 * Errors: -EPERM, -EBADF.
 */
int chappe_remote_abandon(struct chappe_remote_permit *permit);

/**
 * Adds units to a semaphore: those that the head of the line waits for are its own at once. Answers how many are left, as far as an int has room.
 *
 * Errors: -EOVERFLOW: it would have too many; and those of all.
 */
int chappe_remote_up(struct chappe_remote *remote,
                     const char *name,
                     uint32_t units);

/**
 * Waits for a unit of a semaphore, in the order of arrival, and takes it. One that was given to a waiter that dies before it returns is spent.
 *
 * Errors: -EAGAIN with ns 0: there is none; -ETIMEDOUT; -EREMOTEIO: one may have been spent; and those of all.
 */
int chappe_remote_down(struct chappe_remote *remote,
                       const char *name,
                       int64_t ns);

/**
 * How many units a semaphore has, as far as an int has room.
 *
 * Errors: those of all.
 */
int chappe_remote_value(struct chappe_remote *remote, const char *name);

/**
 * A sender of a tube. While it is there, receivers wait for more.
 *
 * Errors: -EPIPE: the tube is sealed; and those of all.
 */
int chappe_remote_open_sender(struct chappe_remote *remote,
                              const char *tube,
                              struct chappe_remote_sender **sender);

/**
 * Sends n records in their order, many in one transaction: the record at records[i] has lengths[i] bytes. Waits while the tube is full. They are there,
 * each whole and once, when this returns. Answers how many are certainly there: fewer than n where something went wrong behind them, which the next call is
 * told.
 *
 * Errors, if none is there: -EAGAIN with ns 0, -ETIMEDOUT: the tube is full; -EPIPE: it is sealed; -ENOSPC: four fifths of the engine's room are used;
 * -EREMOTEIO: some may be there; -ESTALE, -EHOSTDOWN: this sender is at its end, open another; -EBUSY: another thread uses it; and those of all.
 */
ptrdiff_t chappe_remote_send(struct chappe_remote_sender *sender,
                             const void *const *records,
                             const size_t *lengths,
                             size_t n,
                             int64_t ns);

/**
 * Closes a sender: it has finished, and receivers are told the end when no other is there.
 *
 * Errors: -EBADF.
 */
int chappe_remote_close_sender(struct chappe_remote_sender *sender);

/**
 * Closes a sender that has not finished: receivers are told that a sender died.
 *
 * Errors: -EBADF.
 */
int chappe_remote_abandon_sender(struct chappe_remote_sender *sender);

/**
 * Lets nothing more be sent into a tube: receivers end when they have had what is there.
 *
 * Errors: those of all.
 */
int chappe_remote_seal(struct chappe_remote *remote, const char *tube);

/**
 * A receiver of a tube. Its stream ends when all was received, and of the senders that there were none is left; with follows when the tube is sealed.
 *
 * Errors: those of all.
 */
int chappe_remote_open_receiver(struct chappe_remote *remote,
                                const char *tube,
                                bool follows,
                                struct chappe_remote_receiver **receiver);

/**
 * Waits for a record, and answers its length. It counts as done when the caller asks for what comes after those that came with it, or closes the receiver; if its
 * process dies before, it comes to another, with again. record: what is known of it, or NULL.
 *
 * Errors: -EMSGSIZE: it is longer than size, and comes again with the next call; -EPIPE: the stream is at its end; -ECONNRESET, once: a sender died
 * before it was done; -EAGAIN with ns 0, -ETIMEDOUT: none came; -EBADMSG: a page cannot be read, and is passed over; -ESTALE: the lease is lost, and what came with it
 * comes to another; -EBUSY: another thread uses it; and those of all.
 */
ptrdiff_t chappe_remote_recv(struct chappe_remote_receiver *receiver,
                             void *to,
                             size_t size,
                             int64_t ns,
                             struct chappe_remote_record *record);

/**
 * Whether what it was given last certainly comes to no other receiver, by this machine's clock. Makes no call, to the system or to the engine, but to read a
 * clock.
 *
 * Errors: -ESTALE: the lease is lost, and it comes to another; -EPERM: it is the parent's; -EBUSY: another thread uses it; -EBADF.
 */
int chappe_remote_check_receiver(const struct chappe_remote_receiver *receiver);

/**
 * Closes a receiver: it has finished with what it was given, and the rest of what came with that goes to another, and so does a record for which there was
 * too little room.
 *
 * Errors: -EBADF.
 */
int chappe_remote_close_receiver(struct chappe_remote_receiver *receiver);

/**
 * Closes a receiver that has not finished with what it was given last: that comes to another, too.
 *
 * Errors: -EBADF.
 */
int chappe_remote_abandon_receiver(struct chappe_remote_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
