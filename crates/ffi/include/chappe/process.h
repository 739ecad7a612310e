/*
 * The library as a whole, and this thread and process.
 *
 * Generated from crates/ffi/src/process.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_PROCESS_H
#define CHAPPE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * As a time limit: for ever.
 */
#define CHAPPE_FOREVER INT64_C(9223372036854775807)

/**
 * A second, in the unit of time limits.
 */
#define CHAPPE_SECOND INT64_C(1000000000)

/**
 * A millisecond, in the unit of time limits.
 */
#define CHAPPE_MILLISECOND INT64_C(1000000)

/**
 * A role: spins for as long as spinning has paid lately, at most some microseconds, then sleeps.
 */
#define CHAPPE_TIME_SHARING 0

/**
 * A role: has a core of its own, spins and never sleeps. Waiting makes no system call.
 */
#define CHAPPE_SPIN 1

/**
 * A role: sleeps at once.
 */
#define CHAPPE_SLEEPER 2

/**
 * A flag of private mutexes and pools of one permit: none is ever biased to a thread that uses it alone. Else one may be, where that
 * pays: its thread then locks and unlocks it with plain stores, and the first other one waits some microseconds. The same for
 * all of a process: CHAPPE_BIAS=off in its environment.
 */
#define CHAPPE_BIAS_OFF 1

/**
 * Waiters are served by priority (chappe_set_priority), and in the order of arrival within one. A waiter that has waited for a second is
 * overtaken by no later one.
 */
#define CHAPPE_PRIORITY 4

/**
 * The version of the library, as "0.1.0". Never NULL.
 */
const char *chappe_version(void);

/**
 * What the thread's last error was: what happened, to which object, and what to do. Never NULL; "" if there was none. Valid until
 * the next call of this thread that fails. A call that succeeds leaves it as it is.
 */
const char *chappe_last_error(void);

/**
 * What CLOCK_MONOTONIC says, in nanoseconds: chappe_now() + 5 * CHAPPE_SECOND is a deadline.
 */
int64_t chappe_now(void);

/**
 * What this process calls itself in listings from now on; its first 63 bytes are kept. Without it, it is the program's name.
 *
 * Errors: -EFAULT, -EINVAL if it is not UTF-8, -ENAMETOOLONG if it has no end within 255 bytes.
 */
int chappe_set_label(const char *label);

/**
 * How the calling thread spends its time before it sleeps: CHAPPE_TIME_SHARING (as every thread at first), CHAPPE_SPIN or
 * CHAPPE_SLEEPER.
 *
 * Errors: -EINVAL for another number.
 */
int chappe_set_role(int role);

/**
 * The calling thread's place where waiters are served by priority: before all whose number is smaller. 0, as every thread
 * has at first, to 255. It counts from the thread's next wait on.
 *
 * Errors: -EINVAL for another number.
 */
int chappe_set_priority(int priority);

#ifdef __cplusplus
}
#endif

#endif
