/*
 * Subscriptions: where messages come out of a broadcast tube, for one subscriber.
 *
 * A subscription gets each message that its filter wants, and so does each other one: see chappe_broadcast(3). It is used by one thread at a
 * time, and in a forked child it is the parent's (-EPERM). It goes when its handle is closed, and when its process is killed at any
 * instruction: then no publisher waits for it. It is an arm of a choice: chappe_arm_subscription, see chappe_choice(3).
 *
 * Generated from crates/ffi/src/subscription.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_SUBSCRIPTION_H
#define CHAPPE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A parameter is a signed integer: value.i.
 */
#define CHAPPE_PARAM_INT 1

/**
 * A parameter is an unsigned integer: value.u.
 */
#define CHAPPE_PARAM_UINT 2

/**
 * A parameter is a double: value.d.
 */
#define CHAPPE_PARAM_DOUBLE 3

/**
 * A parameter is a truth value: value.b, 0 or not.
 */
#define CHAPPE_PARAM_BOOL 4

/**
 * A parameter is a text: value.text.
 */
#define CHAPPE_PARAM_TEXT 5

/**
 * A handle of a subscription.
 */
typedef struct chappe_subscription chappe_subscription;

/**
 * The value of a parameter.
 */
typedef union chappe_value {
    /**
     * Of CHAPPE_PARAM_INT.
     */
    int64_t i;
    /**
     * Of CHAPPE_PARAM_UINT.
     */
    uint64_t u;
    /**
     * Of CHAPPE_PARAM_DOUBLE.
     */
    double d;
    /**
     * Of CHAPPE_PARAM_BOOL.
     */
    int b;
    /**
     * Of CHAPPE_PARAM_TEXT: ended by a 0, UTF-8.
     */
    const char *text;
} chappe_value;

/**
 * A parameter of a filter, $limit in price > $limit. chappe_param_int and its like fill it in.
 */
typedef struct chappe_param {
    /**
     * Its name, without the $.
     */
    const char *name;
    /**
     * CHAPPE_PARAM_INT ...
     */
    int kind;
    /**
     * Its value, by the kind.
     */
    union chappe_value value;
} chappe_param;

/**
 * A parameter that is a signed integer.
 */
struct chappe_param chappe_param_int(const char *name, int64_t value);

/**
 * A parameter that is an unsigned integer.
 */
struct chappe_param chappe_param_uint(const char *name, uint64_t value);

/**
 * A parameter that is a double.
 */
struct chappe_param chappe_param_double(const char *name, double value);

/**
 * A parameter that is true or false.
 */
struct chappe_param chappe_param_bool(const char *name, int value);

/**
 * A parameter that is a text, which stays the caller's.
 */
struct chappe_param chappe_param_text(const char *name, const char *value);

/**
 * Closes a handle: the subscription goes. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBUSY if a wait has it (chappe_subscription_recv_async), here and in each call with the handle; -EBADF.
 */
int chappe_subscription_close(struct chappe_subscription *subscription);

/**
 * Receives the next message that the subscription wants, by copying it into to, which must have room for the longest (room bytes,
 * chappe_subscription_size or more); answers its length. Waits while there is none. A handled signal does not end the wait. With a
 * message there it makes no system call.
 *
 * Errors: -EPIPE if there is none and all publishers have gone, -ECONNRESET, once, if one of them died, exited without closing it, or broke
 * off; -EMSGSIZE if there is too little room, and nothing is received; -EIDRM if the tube was removed; -EPERM if it is the parent
 * process's; -EUSERS if the thread cannot become a member of the arena; -EBADF, -EFAULT; the system's, if it refuses the thread that
 * watches for deaths.
 */
ptrdiff_t chappe_subscription_recv(struct chappe_subscription *subscription,
                                   void *to,
                                   size_t room);

/**
 * Receives the next message if there is one now. Never waits.
 *
 * Errors: -EAGAIN; else as chappe_subscription_recv.
 */
ptrdiff_t chappe_subscription_try_recv(struct chappe_subscription *subscription, void *to, size_t room);

/**
 * As chappe_subscription_recv, waiting at most for ns nanoseconds.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_subscription_recv.
 */
ptrdiff_t chappe_subscription_recv_timeout(struct chappe_subscription *subscription,
                                           void *to,
                                           size_t room,
                                           int64_t ns);

/**
 * As chappe_subscription_recv, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_subscription_recv_timeout.
 */
ptrdiff_t chappe_subscription_recv_deadline(struct chappe_subscription *subscription,
                                            void *to,
                                            size_t room,
                                            int64_t at);

/**
 * Gives count parameters of its filter other values, for what is sent from here on and for what is there already; all of them, or
 * none. Those that are not named keep theirs. Waits for nobody.
 *
 * Errors: -EINVAL: there is no such parameter, no filter, or the values do not fit (the text says which); -EFAULT, -EBADF.
 */
int chappe_subscription_set(struct chappe_subscription *subscription,
                            const struct chappe_param *params,
                            size_t count);

/**
 * How many messages it has lost because it was too slow, since it subscribed.
 *
 * Errors: -EBADF.
 */
int64_t chappe_subscription_lost(const struct chappe_subscription *subscription);

/**
 * How many messages are there for it, those that are just being written too.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_subscription_len(const struct chappe_subscription *subscription);

/**
 * 1 if there is no message for it, else 0.
 *
 * Errors: -EBADF.
 */
int chappe_subscription_is_empty(const struct chappe_subscription *subscription);

/**
 * How many bytes the longest message can have.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_subscription_size(const struct chappe_subscription *subscription);

/**
 * A descriptor (an eventfd) that becomes readable when there is a message that the subscription wants, no publisher any more (gone or
 * dead), or no tube: for poll(2) and epoll(7). This handle's own, made when it is first asked for, and closed with the handle. Only poll
 * it: do not read it. It becomes readable once, and is made ready for the next time by chappe_subscription_rearm. A message that the
 * filter does not want makes nothing readable once the publishers have taken the filter in; until then chappe_subscription_rearm drops
 * it.
 *
 * The first one in an arena starts a thread of this process, which takes a place among the arena's members; the call waits until that
 * thread has started. A receive that waits, and a choice, take that thread's place: the descriptor becomes readable then, and is made
 * ready again as ever.
 *
 * Errors: the system's, when it refuses a descriptor or a thread; the arena's, when that thread cannot join it: -EUSERS if there is no
 * place for another member; -EPERM if the subscription is the parent process's; -EBADF.
 */
int chappe_subscription_descriptor(struct chappe_subscription *subscription);

/**
 * Makes the descriptor unreadable, and ready to become readable again: 1. Or 0: something has come, and it is readable; or this is a
 * forked child, whose parent has the subscription: then nothing becomes readable. Waits for no other process.
 *
 * Errors: -EBADF.
 */
int chappe_subscription_rearm(struct chappe_subscription *subscription);

#ifdef __cplusplus
}
#endif

#endif
