/*
 * chappe: semaphores, pools, locks and channels for the threads and processes of one Linux machine, that stay out of the kernel
 * until there is something to wait for, that one call chooses among, and that lose nothing when a process is killed.
 *
 * Results. What is 0 or more is good. What is below 0 is an error: the negative number of errno(3), as -EAGAIN. chappe_last_error
 * says in words what happened, to which object, and what to do. errno says nothing, and may change.
 *
 *     -EFAULT           a pointer is NULL, or is misaligned
 *     -EBADF            no open handle of this kind: NULL, closed already, or of something else
 *     -EINVAL           a number, flag, name or option that cannot be; also a permit that is not held
 *     -ENAMETOOLONG     a text has no end where the longest one ends
 *     -EAGAIN           of what does not wait: not now
 *     -ETIMEDOUT        of what waits only so long: not in time
 *     -EINTR            a signal was handled, or the wait was interrupted: of what says so alone
 *     -EIDRM            the object was removed, or its arena was
 *     -EPIPE            a tube's other end has gone, or died; all publishers of a broadcast tube have
 *     -ECONNRESET       all senders of a tube have gone, and one died, or did not close its sender: told once, then -EPIPE
 *     -ECANCELED        a barrier is broken, or was while the thread waited
 *     -EALREADY         the thread has arrived at the barrier, or joined it, or was told of this arrival, already
 *     -ENOTRECOVERABLE  a mutex or readers-writer lock was condemned
 *     -EDEADLK          the thread has the mutex or readers-writer lock already
 *     -EPERM            it is another thread's, or the parent process's
 *     -ENOENT, -EEXIST  there is no object of this name; there is one already
 *     -EPROTOTYPE       the name is that of something else, or it was made otherwise than is asked for
 *     -EBUSY            it is in use; or its arena is being removed by a process that is stopped
 *     -ENOSPC, -EUSERS  the arena is full: of objects or data; of threads and processes. -ENOSPC also: a barrier has its parties
 *     -EMFILE           65536 handles are open
 *     -ENOMEM           there is no memory; also for the system's -EAGAIN, when it refuses a thread
 *     -ESRCH            nobody holds the permit that is to be taken away
 *     -EOPNOTSUPP       a private tube has no slots or records in place, a private pool no leases
 *     -EXDEV            one choice over two arenas
 *     -EMSGSIZE         a record or buffer of the wrong length
 *     -EOVERFLOW, -ERANGE  more than a semaphore can hold; more permits than a pool has
 *     -ESHUTDOWN        a sealed tube takes no more senders
 *     -ESTALE           it was taken away meanwhile
 *     -EUCLEAN          the arena's file is none, or damaged
 *     -EPROTONOSUPPORT  another version of chappe, or a program with another C library, made the arena
 *     -EACCES, -ELOOP   the arena's directory or file is not safe to use
 *     -EIO              a fault within chappe, or memory that was written over; chappe_last_error has the details
 *
 * Handles. What is opened is closed by the function whose name ends in _close. A handle that was closed, or is none, is refused
 * (-EBADF), unless it has been given out anew for an object of the same kind.
 *
 * Memory. It is the caller's, but for a lock's data, a slot that is reserved, a record that is borrowed, and the texts that are answered:
 * those are the library's, and the caller's to use for as long as it has them. Structs of options are set to zeros before they are filled in.
 *
 * Time. Nanoseconds, in an int64_t: how long (..._timeout), or until when on CLOCK_MONOTONIC (..._deadline, see chappe_now).
 * CHAPPE_FOREVER is for ever. A call that is to wait 0 nanoseconds tries, and answers -ETIMEDOUT.
 *
 * Threads. Everything may be called by any thread. A handle of a semaphore, pool, lock, barrier or condition variable, and an end of a private
 * tube, may be used by any number of threads at once; an end of a named tube, a publisher and a subscription by one at a time; an arrival by
 * the thread that arrived. One thread at a time waits with an interrupt, which any other may raise.
 *
 * Ends of threads. A thread's last functions (destructors of pthread_key_create(3)) and those of the process (atexit(3)) may find that
 * what the library keeps for the thread is gone: a call that needs it answers -EIO, or does without. Give back and close before that.
 * A thread may be cancelled only outside of these functions: set PTHREAD_CANCEL_DISABLE around them. A wait does not notice a
 * cancellation, and one of the asynchronous kind within a call leaves what it was at half done.
 *
 * Signals. A handled signal ends no wait but those of chappe_semaphore_down_interruptible. Of all this only chappe_semaphore_up and
 * chappe_interrupt_raise may be called in a signal handler, which has to put errno back. In a forked child chappe_semaphore_up of a named
 * semaphore needs chappe_semaphore_prepare_handlers once more. With a library that was loaded by dlopen(3) a thread's first call may ask
 * for memory: let each thread that may run the handler call chappe_last_error once before.
 *
 * Fork. A child may use every handle of its parent: those of named objects are the same objects, those of private ones are copies. What
 * the parent holds it still holds, and the child does not: -EPERM says so. A child of a process with several threads may call
 * everything. exec ends whatever its process held.
 *
 * Death. A process may be killed at any instruction. What it held goes to the first waiter. The next user of the object finishes or undoes an
 * operation that was cut short, and no thread waits for the dead process.
 *
 * Stopped processes. Arenas are made and removed under a lock of their directory; objects under one of their arena, as pools are resized,
 * tubes sealed, and their ends attached (also by another thread of this process that closes one meanwhile, and by a forked child's first
 * use of what it inherited). A process that is stopped, not killed, in the middle of that delays all other callers of such an operation
 * until it goes on. To open what is there waits for nobody. A thread's first use of an arena that is just being removed waits a second at most
 * (-EBUSY). Else nobody waits for a stopped process, but for what it has: a permit, a lock, a record, a place at the head of a queue.
 *
 * Generated by `cargo xtask header`.
 */
#ifndef CHAPPE_H
#define CHAPPE_H

#define CHAPPE_VERSION_MAJOR 0
#define CHAPPE_VERSION_MINOR 1
#define CHAPPE_VERSION_PATCH 0

#include "chappe/process.h"
#include "chappe/look.h"
#include "chappe/arena.h"
#include "chappe/semaphore.h"
#include "chappe/interrupt.h"
#include "chappe/permit.h"
#include "chappe/pool.h"
#include "chappe/mutex.h"
#include "chappe/condvar.h"
#include "chappe/rwlock.h"
#include "chappe/barrier.h"
#include "chappe/map.h"
#include "chappe/counter.h"
#include "chappe/words.h"
#include "chappe/sender.h"
#include "chappe/receiver.h"
#include "chappe/publisher.h"
#include "chappe/subscription.h"
#include "chappe/choice.h"
#include "chappe/dispatch.h"
#include "chappe/guard.h"
#include "chappe/waits.h"
#include "chappe/tube.h"
#include "chappe/broadcast.h"

#endif
