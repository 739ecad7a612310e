/* Semaphores: each function's contract, order, threads, processes, signals. */
#include "check.h"

static void alone(void)
{
    chappe_semaphore *s = NULL;
    OK(chappe_semaphore_private(2, 0, &s));
    IS(chappe_semaphore_value(s), 2);
    IS(chappe_semaphore_name(s, NULL, 0), 0);
    OK(chappe_semaphore_down(s));
    OK(chappe_semaphore_try_down(s));
    FAILS(chappe_semaphore_try_down(s), EAGAIN);
    FAILS(chappe_semaphore_down_timeout(s, 0), ETIMEDOUT);
    FAILS(chappe_semaphore_down_timeout(s, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_semaphore_down_deadline(s, chappe_now() + CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_semaphore_down_deadline(s, 1), ETIMEDOUT);
    FAILS(chappe_semaphore_down_timeout(s, -1), EINVAL);
    FAILS(chappe_semaphore_down_deadline(s, -1), EINVAL);
    OK(chappe_semaphore_up(s));
    OK(chappe_semaphore_up_many(s, 4));
    OK(chappe_semaphore_up_many(s, 0));
    IS(chappe_semaphore_value(s), 5);
    OK(chappe_semaphore_down_timeout(s, CHAPPE_FOREVER));
    OK(chappe_semaphore_down_deadline(s, CHAPPE_FOREVER));
    FAILS(chappe_semaphore_up_many(s, -1), EINVAL);
    FAILS(chappe_semaphore_up_many(s, CHAPPE_SEMAPHORE_MAX), EOVERFLOW);
    FAILS(chappe_semaphore_up_many(s, INT64_MAX), EOVERFLOW);
    IS(chappe_semaphore_value(s), 3);
    OK(chappe_semaphore_up_many(s, CHAPPE_SEMAPHORE_MAX - 3));
    FAILS(chappe_semaphore_up(s), EOVERFLOW);
    CHECK(strstr(chappe_last_error(), "2147483647"));
    OK(chappe_semaphore_prepare_handlers(s));
    OK(chappe_semaphore_close(s));
    FAILS(chappe_semaphore_close(s), EBADF);
    FAILS(chappe_semaphore_down(s), EBADF);

    OK(chappe_semaphore_private(1, CHAPPE_BARGING, &s));
    OK(chappe_semaphore_down(s));
    OK(chappe_semaphore_close(s));
    FAILS(chappe_semaphore_private(-1, 0, &s), EINVAL);
    FAILS(chappe_semaphore_private(CHAPPE_SEMAPHORE_MAX + 1, 0, &s), EINVAL);
    FAILS(chappe_semaphore_private(0, 2, &s), EINVAL);
    FAILS(chappe_semaphore_private(0, CHAPPE_BARGING | CHAPPE_PRIORITY, &s), EINVAL);
    CHECK(strstr(chappe_last_error(), "exclude each other"));
    FAILS(chappe_set_priority(256), EINVAL);
    FAILS(chappe_set_priority(-1), EINVAL);
    OK(chappe_set_priority(255));
    OK(chappe_semaphore_private(1, CHAPPE_PRIORITY, &s));
    OK(chappe_semaphore_down(s));
    FAILS(chappe_semaphore_down_timeout(s, CHAPPE_MILLISECOND), ETIMEDOUT);
    OK(chappe_semaphore_close(s));
    OK(chappe_set_priority(0));
    FAILS(chappe_semaphore_private(0, 0, NULL), EFAULT);
}

static void by_name(void)
{
    chappe_semaphore *s = NULL, *same = NULL, *other = NULL;
    FAILS(chappe_semaphore_open("lab/ready", &s), ENOENT);
    CHECK(strstr(chappe_last_error(), "lab/ready"));
    OK(chappe_semaphore_create("lab/ready", 1, 0, &s));
    FAILS(chappe_semaphore_create("lab/ready", 1, 0, &same), EEXIST);
    OK(chappe_semaphore_open("lab/ready", &same));
    OK(chappe_semaphore_open_or_create("lab/ready", 7, &other));
    char name[16];
    IS(chappe_semaphore_name(other, name, sizeof name), 9);
    OK(strcmp(name, "lab/ready"));
    IS(chappe_semaphore_name(other, name, 4), 9);
    OK(strcmp(name, "lab"));
    OK(chappe_semaphore_down(same));
    FAILS(chappe_semaphore_try_down(s), EAGAIN);
    chappe_pool *pool = NULL;
    FAILS(chappe_pool_open("lab/ready", &pool), EPROTOTYPE);
    OK(chappe_semaphore_remove("lab/ready", 0));
    FAILS(chappe_semaphore_remove("lab/ready", 0), ENOENT);
    FAILS(chappe_semaphore_try_down(s), EIDRM);
    FAILS(chappe_semaphore_up(other), EIDRM);
    OK(chappe_semaphore_close(s));
    OK(chappe_semaphore_close(same));
    OK(chappe_semaphore_close(other));
}

static chappe_semaphore *shared;
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static long order[8];
static int came;

static void *in_line(void *number)
{
    OK(chappe_semaphore_down(shared));
    pthread_mutex_lock(&order_lock);
    order[came++] = (long)(intptr_t)number;
    pthread_mutex_unlock(&order_lock);
    return NULL;
}

static int arrived(void)
{
    pthread_mutex_lock(&order_lock);
    int now = came;
    pthread_mutex_unlock(&order_lock);
    return now;
}

static void waiters_are_served_in_the_order_of_arrival(void)
{
    pthread_t all[4];
    OK(chappe_semaphore_private(0, 0, &shared));
    OK(chappe_set_label("a label that is told"));
    for (long i = 0; i < 4; i++) {
        all[i] = thread(in_line, (void *)(intptr_t)i);
        EVENTUALLY(chappe_semaphore_waiters(shared, NULL, 0) == i + 1);
    }
    chappe_waiter waiters[2];
    IS(chappe_semaphore_waiters(shared, waiters, 2), 4);
    IS(waiters[0].pid, getpid());
    CHECK(waiters[0].tid != waiters[1].tid && waiters[0].waiting >= 0);
    OK(strcmp(waiters[1].label, "a label that is told"));
    for (int i = 0; i < 4; i++) {
        OK(chappe_semaphore_up(shared));
        EVENTUALLY(arrived() == i + 1);
    }
    for (int i = 0; i < 4; i++) {
        joined(all[i]);
        IS(order[i], i);
    }
    OK(chappe_semaphore_close(shared));
}

static void *meets_an_end(void *unused)
{
    (void)unused;
    FAILS(chappe_semaphore_down(shared), EIDRM);
    return NULL;
}

static void one_that_is_waited_on_is_removed_only_by_force(void)
{
    OK(chappe_semaphore_create("ready", 0, 0, &shared));
    pthread_t waits = thread(meets_an_end, NULL);
    EVENTUALLY(chappe_semaphore_waiters(shared, NULL, 0) == 1);
    FAILS(chappe_semaphore_remove("ready", 0), EBUSY);
    OK(chappe_semaphore_remove("ready", 1));
    joined(waits);
    OK(chappe_semaphore_close(shared));
}

static void goes_up(void)
{
    chappe_semaphore *s;
    OK(chappe_semaphore_open("between", &s));
    OK(chappe_semaphore_up(s));
}

/* Inherited. */
static void goes_up_by_the_parents_handle(void)
{
    OK(chappe_semaphore_up(shared));
}

static void between_processes(void)
{
    OK(chappe_semaphore_create("between", 0, 0, &shared));
    pid_t one = child(goes_up), other = child(goes_up_by_the_parents_handle);
    OK(chappe_semaphore_down_timeout(shared, 30 * CHAPPE_SECOND));
    OK(chappe_semaphore_down_timeout(shared, 30 * CHAPPE_SECOND));
    ended_well(one);
    ended_well(other);
    OK(chappe_semaphore_close(shared));
    OK(chappe_semaphore_remove("between", 0));
}

static volatile sig_atomic_t handled;

static void goes_up_in_a_handler(int signal)
{
    int kept = errno;
    (void)signal;
    if (handled++ > 0)
        OK(chappe_semaphore_up(shared));
    errno = kept;
}

static void *waits(void *unused)
{
    (void)unused;
    OK(chappe_semaphore_down(shared));
    CHECK(handled >= 2);
    return NULL;
}

/* The first signal is only handled, the second goes up: no signal ends a wait, and a handler may go up. */
static void with_signals(const char *name)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = goes_up_in_a_handler;
    OK(sigaction(SIGUSR1, &act, NULL));
    handled = 0;
    if (name)
        OK(chappe_semaphore_create(name, 0, 0, &shared));
    else
        OK(chappe_semaphore_private(0, 0, &shared));
    OK(chappe_semaphore_prepare_handlers(shared));
    pthread_t waiter = thread(waits, NULL);
    EVENTUALLY(chappe_semaphore_waiters(shared, NULL, 0) == 1);
    OK(pthread_kill(waiter, SIGUSR1));
    EVENTUALLY(handled == 1);
    EVENTUALLY(chappe_semaphore_waiters(shared, NULL, 0) == 1);
    OK(pthread_kill(waiter, SIGUSR1));
    joined(waiter);
    OK(chappe_semaphore_close(shared));
    if (name)
        OK(chappe_semaphore_remove(name, 0));
}

int main(void)
{
    alone();
    by_name();
    waiters_are_served_in_the_order_of_arrival();
    one_that_is_waited_on_is_removed_only_by_force();
    between_processes();
    with_signals(NULL);
    with_signals("handled");
    OK(chappe_arena_remove("lab", 1));
    OK(chappe_arena_remove("default", 1));
    return 0;
}
