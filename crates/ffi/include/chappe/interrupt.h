/*
 * Waits that can be ended from outside: by a handled signal, or by another thread that raises an interrupt.
 *
 * Waits of this library go on after a handled signal. chappe_semaphore_down_interruptible ends with -EINTR instead, as
 * sem_wait(3) does; it also ends when another thread raises the interrupt with which it waits. A wake-up that was
 * faster is never lost: then the wait answers 0.
 *
 * An interrupt serves one thread at a time. It lies in this process; in a forked child the handle is a copy. An
 * interrupt that was raised stays raised, and ends every later wait at once: make another one for the next use.
 *
 * Generated from crates/ffi/src/interrupt.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_INTERRUPT_H
#define CHAPPE_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "semaphore.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A handle of an interrupt.
 */
typedef struct chappe_interrupt chappe_interrupt;

/**
 * Makes an interrupt, which nobody has raised.
 *
 * Errors: -EFAULT, -EMFILE.
 */
int chappe_interrupt_make(struct chappe_interrupt **interrupt);

/**
 * Closes a handle. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBUSY if a thread waits with it; -EBADF.
 */
int chappe_interrupt_close(struct chappe_interrupt *interrupt);

/**
 * Ends the wait that goes on with this interrupt, and every later one. When it returns, the waiter has left its sleep: it waits for
 * that, and so for a waiter that is stopped, and for a handler that runs in the waiter on top of its wait. It asks for no memory, and a
 * signal handler may call it, also one that runs in the waiting thread itself: then it is raised, and returns at once, and it is the
 * handled signal that ends the wait.
 *
 * Errors: -EBADF.
 */
int chappe_interrupt_raise(struct chappe_interrupt *interrupt);

/**
 * 1 if it was raised, else 0.
 *
 * Errors: -EBADF.
 */
int chappe_interrupt_is_raised(const struct chappe_interrupt *interrupt);

/**
 * As chappe_semaphore_down_timeout (ns may be CHAPPE_FOREVER), but a handled signal ends the wait, and so does
 * chappe_interrupt_raise. interrupt may be NULL: then only a signal does. A saved wake-up is consumed even if the
 * interrupt is raised. A signal that is handled just before the wait sleeps does not end it: a program that must not
 * miss it lets another thread raise an interrupt. SA_RESTART makes no difference. Under CHAPPE_SPIN, where a wait does
 * not sleep, no signal ends it, and a raised interrupt does.
 *
 * Errors: -EINTR; -ETIMEDOUT; -EBUSY if another thread waits with this interrupt; else as chappe_semaphore_down_timeout.
 */
int chappe_semaphore_down_interruptible(chappe_semaphore *semaphore,
                                        struct chappe_interrupt *interrupt,
                                        int64_t ns);

#ifdef __cplusplus
}
#endif

#endif
