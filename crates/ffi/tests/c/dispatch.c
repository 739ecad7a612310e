/* Waits of a loop of events: begun, called back, cancelled, forked, killed. */
#include "check.h"
#include <poll.h>

static int calls, last = 1;

static void called(void *data, int result)
{
    calls++;
    last = result;
    if (data)
        ++*(int *)data;
}

static int readable(int timeout)
{
    struct pollfd one = {.fd = chappe_dispatch_fd(), .events = POLLIN};
    return poll(&one, 1, timeout);
}

/* Dispatches until so many were called. */
static void until(int wanted)
{
    while (calls < wanted) {
        IS(readable(-1), 1);
        CHECK(chappe_dispatch() >= 0);
    }
    IS(calls, wanted);
}

static void of_semaphores(chappe_semaphore *s)
{
    int mine = 0;
    calls = 0;
    CHECK(chappe_semaphore_down_async(s, called, &mine) > 0);
    int64_t second = chappe_semaphore_down_async(s, called, NULL);
    IS(chappe_dispatch(), 0);
    OK(chappe_semaphore_up(s));
    until(1);
    IS(mine, 1);
    OK(last);
    /* Granted, and cancelled before it is dispatched: the wake-up is the next one's, here nobody's. */
    OK(chappe_semaphore_up(s));
    OK(chappe_async_cancel(second));
    FAILS(chappe_async_cancel(second), ESRCH);
    IS(chappe_semaphore_value(s), 1);
    /* What is there at once is called back by the next dispatch, not before. */
    second = chappe_semaphore_down_async(s, called, NULL);
    IS(calls, 1);
    IS(chappe_semaphore_value(s), 0);
    IS(readable(0), 1);
    OK(chappe_async_cancel(second));
    IS(chappe_semaphore_value(s), 1);
    CHECK(chappe_semaphore_down_async(s, called, NULL) > 0);
    until(2);
    IS(chappe_semaphore_value(s), 0);
    IS(chappe_dispatch(), 0);
    /* What was there at once, and is cancelled, is the next one's. */
    OK(chappe_semaphore_up(s));
    int64_t first = chappe_semaphore_down_async(s, called, NULL);
    IS(chappe_semaphore_value(s), 0);
    CHECK(chappe_semaphore_down_async(s, called, &mine) > 0);
    OK(chappe_async_cancel(first));
    until(3);
    OK(last);
    IS(mine, 2);
    IS(chappe_semaphore_value(s), 0);
    FAILS(chappe_semaphore_down_async(s, NULL, NULL), EFAULT);
    FAILS(chappe_semaphore_down_async(NULL, called, NULL), EBADF);
    FAILS(chappe_async_cancel(0), ESRCH);
}

static chappe_semaphore *chain;
static int links;

/* A callback begins the next wait, dispatches, and cancels. */
static void again(void *data, int result)
{
    OK(result);
    if (++links == 10)
        return;
    CHECK(chappe_semaphore_down_async(chain, again, data) > 0);
    int64_t other = chappe_semaphore_down_async(chain, again, data);
    OK(chappe_async_cancel(other));
    CHECK(chappe_dispatch() >= 0);
}

static void of_chains(void)
{
    OK(chappe_semaphore_private(10, 0, &chain));
    CHECK(chappe_semaphore_down_async(chain, again, NULL) > 0);
    while (links < 10) {
        IS(readable(-1), 1);
        CHECK(chappe_dispatch() >= 0);
    }
    IS(chappe_semaphore_value(chain), 0);
    /* A closed handle ends no wait. */
    calls = 0;
    int64_t waits = chappe_semaphore_down_async(chain, called, NULL);
    OK(chappe_semaphore_close(chain));
    OK(chappe_async_cancel(waits));
    IS(calls, 0);
}

/* The first one that is called runs a loop until the other one was called. */
static void needs_the_other(void *data, int result)
{
    (void)data;
    OK(result);
    if (++calls == 1)
        until(2);
}

static pthread_barrier_t both_are_called;

static void meets_the_other(void *data, int result)
{
    (void)data;
    OK(result);
    pthread_barrier_wait(&both_are_called);
}

static void *dispatches_one(void *data)
{
    int called_back = 0;
    while (called_back == 0) {
        IS(readable(-1), 1);
        called_back = chappe_dispatch();
    }
    IS(called_back, 1);
    return data;
}

/* Two waits are over at once: a callback keeps the other one neither from a loop within it nor from another thread. */
static void of_batches(chappe_semaphore *s)
{
    calls = 0;
    OK(chappe_semaphore_up_many(s, 2));
    CHECK(chappe_semaphore_down_async(s, needs_the_other, NULL) > 0);
    CHECK(chappe_semaphore_down_async(s, needs_the_other, NULL) > 0);
    IS(chappe_semaphore_value(s), 0);
    until(2);
    /* The same of waits that were in the line. */
    calls = 0;
    CHECK(chappe_semaphore_down_async(s, needs_the_other, NULL) > 0);
    CHECK(chappe_semaphore_down_async(s, needs_the_other, NULL) > 0);
    OK(chappe_semaphore_up_many(s, 2));
    until(2);
    OK(chappe_semaphore_up_many(s, 2));
    CHECK(chappe_semaphore_down_async(s, meets_the_other, NULL) > 0);
    CHECK(chappe_semaphore_down_async(s, meets_the_other, NULL) > 0);
    OK(pthread_barrier_init(&both_are_called, NULL, 2));
    pthread_t both[2] = {thread(dispatches_one, NULL), thread(dispatches_one, NULL)};
    joined(both[0]);
    joined(both[1]);
    OK(pthread_barrier_destroy(&both_are_called));
    IS(chappe_semaphore_value(s), 0);
    IS(chappe_dispatch(), 0);
}

static int ready[2], go[2];

static void waits_and_is_killed(void)
{
    chappe_pool *pool;
    static chappe_permit permits[3];
    OK(chappe_pool_open("loops/pool", &pool));
    for (int i = 0; i < 3; i++)
        CHECK(chappe_pool_acquire_async(pool, &permits[i], called, NULL) > 0);
    calls = 0;
    until(1);
    tell(ready[1]);
    hear(go[0]);
}

static void gives_back(void)
{
    chappe_pool *pool;
    chappe_permit permit;
    OK(chappe_pool_open("loops/pool", &pool));
    OK(chappe_pool_acquire(pool, &permit));
    tell(ready[1]);
    hear(go[0]);
    OK(chappe_permit_release(&permit));
}

static chappe_semaphore *shared;
static int64_t of_parent;

static void has_no_waits(void)
{
    FAILS(chappe_async_cancel(of_parent), ESRCH);
    calls = 0;
    CHECK(chappe_semaphore_down_async(shared, called, NULL) > 0);
    tell(ready[1]);
    until(1);
    OK(last);
}

static void waits_and_does_not_dispatch(void)
{
    CHECK(chappe_semaphore_down_async(shared, called, NULL) > 0);
    tell(ready[1]);
    hear(go[0]);
}

static void of_processes(void)
{
    chappe_pool *pool;
    chappe_permit permit, other;
    OK(pipe(ready) | pipe(go));
    OK(chappe_pool_create("loops/pool", 1, &pool));
    FAILS(chappe_pool_acquire_async(pool, NULL, called, NULL), EFAULT);
    /* Another process hands over. */
    pid_t pid = child(gives_back);
    hear(ready[0]);
    calls = 0;
    CHECK(chappe_pool_acquire_async(pool, &permit, called, NULL) > 0);
    IS(chappe_dispatch(), 0);
    tell(go[1]);
    until(1);
    OK(last);
    IS(chappe_permit_is_valid(&permit), 1);
    ended_well(pid);
    OK(chappe_permit_release(&permit));
    /* One that has a permit by a wait, and two waits more, is killed. */
    pid = child(waits_and_is_killed);
    hear(ready[0]);
    calls = 0;
    CHECK(chappe_pool_acquire_async(pool, &permit, called, NULL) > 0);
    ended_by_kill(pid);
    until(1);
    OK(last);
    FAILS(chappe_pool_try_acquire(pool, &other), EAGAIN);
    OK(chappe_permit_release(&permit));
    /* A child has no waits of its parent. */
    OK(chappe_semaphore_create("loops/shared", 0, 0, &shared));
    calls = 0;
    of_parent = chappe_semaphore_down_async(shared, called, NULL);
    pid = child(has_no_waits);
    hear(ready[0]);
    OK(chappe_semaphore_up_many(shared, 2));
    until(1);
    ended_well(pid);
    IS(chappe_semaphore_value(shared), 0);
    /* One that was granted a wake-up, and has not dispatched, is killed: it is the next one's. */
    calls = 0;
    pid = child(waits_and_does_not_dispatch);
    hear(ready[0]);
    CHECK(chappe_semaphore_down_async(shared, called, NULL) > 0);
    OK(chappe_semaphore_up(shared));
    ended_by_kill(pid);
    until(1);
    OK(last);
    IS(chappe_semaphore_value(shared), 0);
    /* A removal is told. */
    CHECK(chappe_semaphore_down_async(shared, called, NULL) > 0);
    OK(chappe_semaphore_remove("loops/shared", 1));
    until(2);
    IS(last, -EIDRM);
}

static void *dispatches(void *rounds)
{
    while (__atomic_load_n((int *)rounds, __ATOMIC_SEQ_CST) < 2000) {
        if (readable(1) == 1)
            CHECK(chappe_dispatch() >= 0);
    }
    return NULL;
}

static void counted(void *rounds, int result)
{
    OK(result);
    __atomic_add_fetch((int *)rounds, 1, __ATOMIC_SEQ_CST);
}

/* Two threads dispatch: each callback is called once. */
static void of_threads(void)
{
    static int rounds;
    chappe_semaphore *s;
    OK(chappe_semaphore_private(0, 0, &s));
    for (int i = 0; i < 2000; i++)
        CHECK(chappe_semaphore_down_async(s, counted, &rounds) > 0);
    pthread_t both[2] = {thread(dispatches, &rounds), thread(dispatches, &rounds)};
    for (int i = 0; i < 2000; i++)
        OK(chappe_semaphore_up(s));
    joined(both[0]);
    joined(both[1]);
    IS(rounds, 2000);
    IS(chappe_semaphore_value(s), 0);
    OK(chappe_semaphore_close(s));
}

int main(void)
{
    chappe_semaphore *s;
    OK(chappe_semaphore_private(0, 0, &s));
    of_semaphores(s);
    of_batches(s);
    OK(chappe_semaphore_close(s));
    OK(chappe_semaphore_create("loops/units", 0, 0, &s));
    of_semaphores(s);
    of_batches(s);
    OK(chappe_semaphore_close(s));
    of_chains();
    of_processes();
    of_threads();
    return 0;
}
