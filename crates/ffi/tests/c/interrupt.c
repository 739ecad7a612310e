/* Waits that end early: by a handled signal, by another thread, by a handler in another thread; and what was faster is kept. */
#include "check.h"

#include <signal.h>
#include <stdatomic.h>

static chappe_semaphore *s;
static chappe_interrupt *it;
static atomic_int handled, answered, within;

static void counts(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

/* A handler, perhaps in the waiter itself: then it raises, and does not wait for itself to leave its sleep. */
static void raises(int signal)
{
    (void)signal;
    atomic_store(&within, chappe_interrupt_raise(it));
    atomic_fetch_add(&handled, 1);
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    OK(sigaction(number, &action, NULL));
}

static void alone(void)
{
    chappe_interrupt *other;
    FAILS(chappe_interrupt_make(NULL), EFAULT);
    FAILS(chappe_interrupt_raise(NULL), EBADF);
    FAILS(chappe_interrupt_is_raised((chappe_interrupt *)s), EBADF);
    FAILS(chappe_interrupt_close(NULL), EBADF);
    OK(chappe_interrupt_make(&other));
    IS(chappe_interrupt_is_raised(other), 0);
    FAILS(chappe_semaphore_down_interruptible(NULL, other, 0), EBADF);
    FAILS(chappe_semaphore_down_interruptible(s, (chappe_interrupt *)s, 0), EBADF);
    FAILS(chappe_semaphore_down_interruptible(s, other, -1), EINVAL);
    FAILS(chappe_semaphore_down_interruptible(s, other, 0), ETIMEDOUT);
    FAILS(chappe_semaphore_down_interruptible(s, NULL, CHAPPE_MILLISECOND), ETIMEDOUT);
    OK(chappe_interrupt_raise(other));
    OK(chappe_interrupt_raise(other));
    IS(chappe_interrupt_is_raised(other), 1);
    FAILS(chappe_semaphore_down_interruptible(s, other, CHAPPE_FOREVER), EINTR);
    FAILS(chappe_semaphore_down_interruptible(s, other, 3600 * CHAPPE_SECOND), EINTR);
    /* What is there is had, and no other wait knows of it. */
    OK(chappe_semaphore_up(s));
    OK(chappe_semaphore_down_interruptible(s, other, CHAPPE_FOREVER));
    FAILS(chappe_semaphore_down_timeout(s, CHAPPE_MILLISECOND), ETIMEDOUT);
    OK(chappe_interrupt_close(other));
    FAILS(chappe_interrupt_raise(other), EBADF);
}

static void *waits(void *with)
{
    atomic_store(&answered, chappe_semaphore_down_interruptible(s, with, CHAPPE_FOREVER));
    return NULL;
}

static pthread_t a_waiter(chappe_interrupt *with)
{
    atomic_store(&answered, 1);
    pthread_t waiter = thread(waits, with);
    EVENTUALLY(chappe_semaphore_waiters(s, NULL, 0) == 1);
    return waiter;
}

static void *is_there(void *unused)
{
    (void)unused;
    while (atomic_load(&handled) == 0)
        usleep(200);
    return NULL;
}

static void from_outside(void)
{
    /* By another thread; only one may wait with it meanwhile. */
    OK(chappe_interrupt_make(&it));
    pthread_t waiter = a_waiter(it);
    FAILS(chappe_semaphore_down_interruptible(s, it, 0), EBUSY);
    FAILS(chappe_interrupt_close(it), EBUSY);
    OK(chappe_interrupt_raise(it));
    joined(waiter);
    IS(atomic_load(&answered), -EINTR);
    IS(chappe_semaphore_waiters(s, NULL, 0), 0);
    OK(chappe_interrupt_close(it));

    /* By a signal that its thread handles: again and again, since one may come just before it sleeps. */
    OK(chappe_interrupt_make(&it));
    for (int with = 0; with < 4; with++) {
        handle(SIGUSR1, counts, with & 2 ? SA_RESTART : 0);
        waiter = a_waiter(with & 1 ? it : NULL);
        while (atomic_load(&answered) == 1) {
            pthread_kill(waiter, SIGUSR1);
            usleep(500);
        }
        joined(waiter);
        IS(atomic_load(&answered), -EINTR);
    }
    IS(chappe_interrupt_is_raised(it), 0);
    OK(chappe_interrupt_close(it));

    /* By a handler that raises it in the waiter itself, as one for Ctrl-C does. */
    for (int restarts = 0; restarts < 2; restarts++) {
        OK(chappe_interrupt_make(&it));
        handle(SIGUSR2, raises, restarts ? SA_RESTART : 0);
        waiter = a_waiter(it);
        while (atomic_load(&answered) == 1) {
            pthread_kill(waiter, SIGUSR2);
            usleep(500);
        }
        joined(waiter);
        IS(atomic_load(&answered), -EINTR);
        IS(atomic_load(&within), 0);
        IS(chappe_interrupt_is_raised(it), 1);
        OK(chappe_interrupt_close(it));
    }

    /* By one in another thread. */
    OK(chappe_interrupt_make(&it));
    waiter = a_waiter(it);
    atomic_store(&handled, 0);
    pthread_t other = thread(is_there, NULL);
    OK(pthread_kill(other, SIGUSR2));
    joined(waiter);
    joined(other);
    IS(atomic_load(&within), 0);
    IS(atomic_load(&answered), -EINTR);
    OK(chappe_interrupt_close(it));
}

static void in_a_child(void)
{
    /* Its parent's thread waits; nobody does here. */
    IS(chappe_interrupt_is_raised(it), 0);
    FAILS(chappe_semaphore_down_interruptible(s, it, CHAPPE_MILLISECOND), ETIMEDOUT);
    OK(chappe_interrupt_raise(it));
    FAILS(chappe_semaphore_down_interruptible(s, it, CHAPPE_FOREVER), EINTR);
    OK(chappe_interrupt_close(it));
}

static void across_a_fork(void)
{
    OK(chappe_interrupt_make(&it));
    pthread_t waiter = a_waiter(it);
    ended_well(child(in_a_child));
    IS(chappe_interrupt_is_raised(it), 0);
    OK(chappe_semaphore_up(s));
    joined(waiter);
    IS(atomic_load(&answered), 0);
    OK(chappe_interrupt_close(it));
}

/* Each of many waits that are interrupted while a wake-up comes has the one or the other, and no wake-up is lost. */
static void *upper(void *unused)
{
    (void)unused;
    OK(chappe_semaphore_up(s));
    return NULL;
}

static void nothing_is_lost(void)
{
    int had = 0, rounds = 300;
    for (int i = 0; i < rounds; i++) {
        OK(chappe_interrupt_make(&it));
        pthread_t waiter = a_waiter(it), ups = thread(upper, NULL);
        OK(chappe_interrupt_raise(it));
        joined(ups);
        joined(waiter);
        if (atomic_load(&answered) == 0)
            had++;
        else
            IS(atomic_load(&answered), -EINTR);
        if (chappe_semaphore_value(s) == 1) {
            OK(chappe_semaphore_down(s));
            had++;
        }
        IS(had, i + 1);
        OK(chappe_interrupt_close(it));
    }
}

int main(void)
{
    for (int named = 0; named < 2; named++) {
        if (named)
            OK(chappe_semaphore_create("s", 0, 0, &s));
        else
            OK(chappe_semaphore_private(0, 0, &s));
        alone();
        from_outside();
        if (named)
            across_a_fork();
        nothing_is_lost();
        OK(chappe_semaphore_close(s));
    }
    OK(chappe_arena_remove("default", 1));
    return 0;
}
