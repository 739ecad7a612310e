/* Waits of a loop of events for locks, notifications, records, messages, turns of barriers, one of several things, several permits and changes of maps; guards; forks in a callback. */
#include "check.h"
#include <poll.h>

static int calls, last;

static void called(void *data, int result)
{
    (void)data;
    calls++;
    last = result;
}

/* Dispatches until so many were called. */
static void until(int wanted)
{
    while (calls < wanted) {
        struct pollfd one = {.fd = chappe_dispatch_fd(), .events = POLLIN};
        IS(poll(&one, 1, -1), 1);
        CHECK(chappe_dispatch() >= 0);
    }
    IS(calls, wanted);
}

static void no_more_than(int wanted)
{
    CHECK(chappe_dispatch() >= 0);
    IS(calls, wanted);
}

static chappe_mutex_options of_a_number(void)
{
    chappe_mutex_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof(int);
    return options;
}

static chappe_guard *of_parent;

static void has_no_guard(void)
{
    FAILS(chappe_guard_unlock(of_parent), EPERM);
    FAILS(chappe_guard_condemn(of_parent), EPERM);
    CHECK(!chappe_guard_data(of_parent));
}

static void *unlocks(void *guard)
{
    OK(chappe_guard_unlock(guard));
    return NULL;
}

static void of_mutexes(const char *name)
{
    chappe_mutex *mutex;
    chappe_guard *guard = NULL, *other = NULL;
    void *data;
    chappe_mutex_options options = of_a_number();
    OK(name ? chappe_mutex_create(name, &options, &mutex) : chappe_mutex_private(&options, &mutex));
    FAILS(chappe_mutex_lock_async(mutex, NULL, called, NULL), EFAULT);
    FAILS(chappe_mutex_lock_async(mutex, &guard, NULL, NULL), EFAULT);
    FAILS(chappe_mutex_lock_async(NULL, &guard, called, NULL), EBADF);
    FAILS(chappe_guard_unlock(NULL), EBADF);
    /* Free; and a thread finds it locked. */
    calls = 0;
    CHECK(chappe_mutex_lock_async(mutex, &guard, called, NULL) > 0);
    until(1);
    OK(last);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EAGAIN);
    FAILS(chappe_mutex_unlock(mutex), EPERM);
    FAILS(chappe_mutex_close(mutex), EBUSY);
    *(int *)chappe_guard_data(guard) = 46;
    of_parent = guard;
    ended_well(child(has_no_guard));
    /* The next waits. Any thread unlocks. */
    int64_t wait = chappe_mutex_lock_async(mutex, &other, called, NULL);
    CHECK(wait > 0);
    no_more_than(1);
    joined(thread(unlocks, guard));
    until(2);
    OK(last);
    IS(*(int *)chappe_guard_data(other), 46);
    FAILS(chappe_guard_unlock(guard), EBADF);
    /* One that is cancelled leaves the line, also when it was granted; a handle is closed when no wait uses it. */
    wait = chappe_mutex_lock_async(mutex, &guard, called, NULL);
    OK(chappe_guard_unlock(other));
    FAILS(chappe_mutex_close(mutex), EBUSY);
    OK(chappe_async_cancel(wait));
    OK(chappe_mutex_lock(mutex, &data));
    wait = chappe_mutex_lock_async(mutex, &guard, called, NULL);
    OK(chappe_async_cancel(wait));
    OK(chappe_mutex_unlock(mutex));
    IS(calls, 2);
    /* Given up. */
    CHECK(chappe_mutex_lock_async(mutex, &guard, called, NULL) > 0);
    until(3);
    OK(chappe_guard_make_consistent(guard));
    OK(chappe_guard_condemn(guard));
    FAILS(chappe_guard_condemn(guard), EBADF);
    CHECK(chappe_mutex_lock_async(mutex, &guard, called, NULL) > 0);
    until(4);
    IS(last, -ENOTRECOVERABLE);
    OK(chappe_mutex_close(mutex));
}

static void of_rwlocks(const char *name)
{
    chappe_rwlock *lock;
    chappe_guard *readers[2], *writer, *last_one;
    chappe_mutex_options options = of_a_number();
    OK(name ? chappe_rwlock_create(name, &options, &lock) : chappe_rwlock_private(&options, &lock));
    calls = 0;
    for (int i = 0; i < 2; i++)
        CHECK(chappe_rwlock_read_async(lock, &readers[i], called, NULL) > 0);
    until(2);
    CHECK(chappe_rwlock_write_async(lock, &writer, called, NULL) > 0);
    CHECK(chappe_rwlock_read_async(lock, &last_one, called, NULL) > 0);
    FAILS(chappe_guard_make_consistent(readers[0]), EPERM);
    FAILS(chappe_guard_condemn(readers[0]), EPERM);
    OK(chappe_guard_unlock(readers[0]));
    no_more_than(2);
    OK(chappe_guard_unlock(readers[1]));
    until(3);
    OK(last);
    *(int *)chappe_guard_data(writer) = 1;
    FAILS(chappe_rwlock_try_read(lock, NULL), EAGAIN);
    no_more_than(3);
    OK(chappe_guard_unlock(writer));
    until(4);
    IS(*(int *)chappe_guard_data(last_one), 1);
    FAILS(chappe_rwlock_close(lock), EBUSY);
    OK(chappe_guard_unlock(last_one));
    OK(chappe_rwlock_close(lock));
}

static void of_condvars(const char *mutex_name, const char *name)
{
    chappe_mutex *mutex;
    chappe_condvar *condvar;
    chappe_guard *guards[2], *again[2], *reads;
    chappe_rwlock *lock;
    chappe_mutex_options options = of_a_number();
    OK(name ? chappe_mutex_create(mutex_name, &options, &mutex) : chappe_mutex_private(&options, &mutex));
    OK(name ? chappe_condvar_create(name, &condvar) : chappe_condvar_private(&condvar));
    calls = 0;
    int64_t waits[2];
    for (int i = 0; i < 2; i++) {
        CHECK(chappe_mutex_lock_async(mutex, &guards[i], called, NULL) > 0);
        until(i + 1);
        FAILS(chappe_condvar_wait_async(condvar, guards[i], &again[i], NULL, NULL), EFAULT);
        FAILS(chappe_condvar_wait_async(condvar, guards[i], NULL, called, NULL), EFAULT);
        waits[i] = chappe_condvar_wait_async(condvar, guards[i], &again[i], called, NULL);
        CHECK(waits[i] > 0);
        FAILS(chappe_guard_unlock(guards[i]), EBADF);
    }
    no_more_than(2);
    /* The first has the notification, and is cancelled: the second has it then. The mutex is free. */
    OK(chappe_condvar_notify_one(condvar));
    OK(chappe_async_cancel(waits[0]));
    until(3);
    OK(last);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EAGAIN);
    OK(chappe_guard_unlock(again[1]));
    /* Notified, and the mutex is another's: it is called back when it has that. */
    CHECK(chappe_mutex_lock_async(mutex, &guards[0], called, NULL) > 0);
    until(4);
    CHECK(chappe_condvar_wait_async(condvar, guards[0], &again[0], called, NULL) > 0);
    OK(chappe_mutex_lock(mutex, NULL));
    OK(chappe_condvar_notify_all(condvar));
    no_more_than(4);
    OK(chappe_mutex_unlock(mutex));
    until(5);
    if (name) {
        CHECK(chappe_condvar_wait_async(condvar, again[0], &guards[0], called, NULL) > 0);
        OK(chappe_condvar_remove(name, 1));
        until(6);
        IS(last, CHAPPE_CONDVAR_REMOVED);
        again[0] = guards[0];
    }
    OK(chappe_guard_unlock(again[0]));
    /* A guard that reads is none of a mutex. */
    int before = calls;
    OK(chappe_rwlock_private(&options, &lock));
    CHECK(chappe_rwlock_read_async(lock, &reads, called, NULL) > 0);
    until(before + 1);
    FAILS(chappe_condvar_wait_async(condvar, reads, &again[0], called, NULL), EPERM);
    OK(chappe_guard_unlock(reads));
    OK(chappe_rwlock_close(lock));
    OK(chappe_condvar_close(condvar));
    OK(chappe_mutex_close(mutex));
}

static void of_tubes(chappe_sender *tx, chappe_receiver *rx, int is_named)
{
    char got[2][8];
    const void *at;
    bool again = true;
    chappe_receiver *second;
    chappe_sender *other;
    OK(chappe_receiver_another(rx, &second));
    OK(chappe_sender_another(tx, &other));
    FAILS(chappe_recv_async(rx, got[0], 7, &again, called, NULL), EMSGSIZE);
    FAILS(chappe_recv_async(rx, NULL, 8, &again, called, NULL), EFAULT);
    FAILS(chappe_recv_async(rx, got[0], 8, NULL, NULL, NULL), EFAULT);
    FAILS(chappe_send_async(tx, "123456789", 9, called, NULL), EMSGSIZE);
    /* Two wait; the first one's record is the second one's when it is cancelled before it has it. */
    calls = 0;
    int64_t first = chappe_recv_async(rx, got[0], 8, &again, called, NULL);
    CHECK(first > 0);
    CHECK(chappe_recv_async(second, got[1], 8, &again, called, NULL) > 0);
    if (is_named) {
        FAILS(chappe_try_recv(rx, got[0], 8, NULL), EBUSY);
        FAILS(chappe_recv_async(rx, got[0], 8, NULL, called, NULL), EBUSY);
        FAILS(chappe_receiver_borrow(rx, &at, NULL), EBUSY);
        FAILS(chappe_receiver_rearm(rx), EBUSY);
        FAILS(chappe_receiver_close(rx), EBUSY);
    }
    no_more_than(0);
    OK(chappe_send(tx, "one", 3));
    OK(chappe_async_cancel(first));
    until(1);
    IS(last, 3);
    CHECK(!again && !memcmp(got[1], "one", 3));
    /* What was received is called back, and not cancelled. */
    OK(chappe_send(tx, "two", 3));
    first = chappe_recv_async(rx, got[0], 8, NULL, called, NULL);
    FAILS(chappe_async_cancel(first), ESRCH);
    until(2);
    CHECK(last == 3 && !memcmp(got[0], "two", 3));
    /* Full: the one that is cancelled has sent nothing. */
    int slots = 0;
    while (chappe_try_send(tx, "full", 4) == 0)
        slots++;
    IS(slots, 2);
    char record[] = "lost";
    first = chappe_send_async(tx, record, 4, called, NULL);
    strcpy(record, "last");
    CHECK(first > 0 && chappe_send_async(other, record, 4, called, NULL) > 0);
    strcpy(record, "????");
    if (is_named) {
        FAILS(chappe_try_send(tx, "x", 1), EBUSY);
        FAILS(chappe_sender_close(tx), EBUSY);
    }
    no_more_than(2);
    IS(chappe_recv(rx, got[0], 8, NULL), 4);
    OK(chappe_async_cancel(first));
    until(3);
    OK(last);
    IS(chappe_recv(rx, got[0], 8, NULL), 4);
    CHECK(!memcmp(got[0], "full", 4));
    IS(chappe_recv(rx, got[0], 8, NULL), 4);
    CHECK(!memcmp(got[0], "last", 4));
    /* Nobody sends any more. */
    CHECK(chappe_recv_async(rx, got[0], 8, NULL, called, NULL) > 0);
    OK(chappe_sender_close(tx));
    OK(chappe_sender_close(other));
    until(4);
    IS(last, -EPIPE);
    OK(chappe_receiver_close(rx));
    OK(chappe_receiver_close(second));
}

/* At a tube without slots a wait is met by a thread that receives, and has sent then. */
static void of_meetings(void)
{
    chappe_sender *tx;
    chappe_receiver *rx;
    char got[8];
    OK(chappe_tube_private(0, 8, &tx, &rx));
    calls = 0;
    int64_t wait = chappe_send_async(tx, "met", 3, called, NULL);
    CHECK(wait > 0);
    no_more_than(0);
    IS(chappe_recv(rx, got, 8, NULL), 3);
    CHECK(!memcmp(got, "met", 3));
    FAILS(chappe_async_cancel(wait), ESRCH);
    FAILS(chappe_async_cancel(wait), ESRCH);
    until(1);
    OK(last);
    /* One that nobody has met has sent nothing. */
    wait = chappe_send_async(tx, "left", 4, called, NULL);
    no_more_than(1);
    OK(chappe_async_cancel(wait));
    FAILS(chappe_async_cancel(wait), ESRCH);
    FAILS(chappe_try_recv(rx, got, 8, NULL), EAGAIN);
    no_more_than(1);
    OK(chappe_sender_close(tx));
    OK(chappe_receiver_close(rx));
}

static void of_maps(const char *name)
{
    chappe_map *map;
    OK(name ? chappe_map_create(name, NULL, &map) : chappe_map_private(NULL, &map));
    calls = 0;
    CHECK(chappe_map_wait_async(map, "k", 1, NULL, 0, called, NULL) > 0);
    no_more_than(0);
    IS(chappe_map_put(map, "other", 5, "1", 1, NULL), CHAPPE_MAP_NO);
    no_more_than(0);
    IS(chappe_map_put(map, "k", 1, "1", 1, NULL), CHAPPE_MAP_NO);
    until(1);
    IS(last, CHAPPE_MAP_YES);
    CHECK(chappe_map_wait_async(map, "k", 1, "1", 1, called, NULL) > 0);
    /* The wait has a map of its own. */
    int64_t left = chappe_map_wait_async(map, "k", 1, "1", 1, called, NULL);
    no_more_than(1);
    IS(chappe_map_put(map, "k", 1, "2", 1, NULL), CHAPPE_MAP_YES);
    until(3);
    FAILS(chappe_async_cancel(left), ESRCH);
    CHECK(chappe_map_wait_async(map, "k", 1, "2", 1, called, NULL) > 0);
    OK(chappe_map_close(map));
    no_more_than(3);
}

static void of_subscriptions(const char *name)
{
    chappe_broadcast *broadcast;
    chappe_publisher *publisher;
    chappe_subscription *subscription;
    chappe_broadcast_options options;
    memset(&options, 0, sizeof options);
    options.size = 8;
    OK(name ? chappe_broadcast_create(name, &options, &broadcast) : chappe_broadcast_private(&options, &broadcast));
    OK(chappe_broadcast_subscribe(broadcast, NULL, &subscription));
    OK(chappe_broadcast_publisher(broadcast, &publisher));
    char got[8] = "";
    FAILS(chappe_subscription_recv_async(subscription, got, 7, called, NULL), EMSGSIZE);
    FAILS(chappe_subscription_recv_async(subscription, NULL, 8, called, NULL), EFAULT);
    FAILS(chappe_subscription_recv_async(subscription, got, 8, NULL, NULL), EFAULT);
    calls = 0;
    /* What is there at once; what comes; what a cancelled wait leaves. */
    OK(chappe_publisher_send(publisher, "one", 4));
    CHECK(chappe_subscription_recv_async(subscription, got, 8, called, NULL) > 0);
    until(1);
    IS(last, 4);
    OK(strcmp(got, "one"));
    int64_t wait = chappe_subscription_recv_async(subscription, got, 8, called, NULL);
    no_more_than(1);
    FAILS(chappe_subscription_try_recv(subscription, got, 8), EBUSY);
    FAILS(chappe_subscription_recv_async(subscription, got, 8, called, NULL), EBUSY);
    FAILS(chappe_subscription_close(subscription), EBUSY);
    OK(chappe_async_cancel(wait));
    OK(chappe_publisher_send(publisher, "three", 6));
    IS(chappe_subscription_try_recv(subscription, got, 8), 6);
    CHECK(chappe_subscription_recv_async(subscription, got, 8, called, NULL) > 0);
    OK(chappe_publisher_send(publisher, "four", 5));
    until(2);
    IS(last, 5);
    OK(strcmp(got, "four"));
    CHECK(chappe_subscription_recv_async(subscription, got, 8, called, NULL) > 0);
    OK(chappe_publisher_close(publisher));
    until(3);
    IS(last, -EPIPE);
    OK(chappe_subscription_close(subscription));
    OK(chappe_broadcast_close(broadcast));
}

/* The arm of this number has happened. */
static void happened(int wanted, int index)
{
    until(wanted);
    IS(last, index);
}

static void of_choices(const char *name)
{
    chappe_semaphore *units;
    chappe_pool *pool;
    chappe_sender *tx;
    chappe_receiver *rx;
    chappe_permit permit, held;
    char got[8] = "";
    int pipes[2];
    OK(pipe(pipes));
    OK(chappe_pool_private(1, &pool));
    OK(chappe_pool_acquire(pool, &held));
    if (name) {
        chappe_tube *tube;
        chappe_tube_options options;
        memset(&options, 0, sizeof options);
        options.slots = 1;
        options.size = 8;
        OK(chappe_semaphore_create(name, 0, 0, &units));
        OK(chappe_tube_create("waits/line", &options, &tube));
        OK(chappe_tube_sender(tube, &tx));
        OK(chappe_tube_receiver(tube, &rx));
        OK(chappe_tube_close(tube));
    } else {
        OK(chappe_semaphore_private(0, 0, &units));
        OK(chappe_tube_private(1, 8, &tx, &rx));
    }
    chappe_arm arms[5];
    memset(arms, 0, sizeof arms);
    arms[0] = chappe_arm_down(units);
    arms[2] = chappe_arm_acquire(pool, &permit);
    arms[3] = chappe_arm_recv(rx, got, sizeof got);
    arms[4] = chappe_arm_readable(pipes[0]);
    calls = 0;
    int64_t wait = chappe_select_async(arms, 5, 0, called, NULL);
    CHECK(wait > 0);
    no_more_than(0);
    /* A cancelled one has done nothing, and gives all back. */
    OK(chappe_async_cancel(wait));
    OK(chappe_semaphore_up(units));
    IS(chappe_semaphore_value(units), 1);
    CHECK(chappe_select_async(arms, 5, 0, called, NULL) > 0);
    happened(1, 0);
    IS(chappe_semaphore_value(units), 0);
    CHECK(chappe_select_async(arms, 5, 0, called, NULL) > 0);
    OK(chappe_permit_release(&held));
    happened(2, 2);
    FAILS(chappe_pool_try_acquire(pool, &held), EAGAIN);
    CHECK(chappe_select_async(arms, 5, 0, called, NULL) > 0);
    if (name)
        FAILS(chappe_try_recv(rx, got, sizeof got, NULL), EBUSY);
    OK(chappe_send(tx, "record", 7));
    happened(3, 3);
    IS(arms[3].result, 7);
    OK(strcmp(got, "record"));
    CHECK(chappe_select_async(arms, 5, 0, called, NULL) > 0);
    IS(write(pipes[1], "x", 1), 1);
    happened(4, 4);
    IS(read(pipes[0], got, 1), 1);
    /* One that sends waits for room; what is to be sent was copied. */
    char record[8] = "second";
    OK(chappe_send(tx, "first", 6));
    arms[3] = chappe_arm_send(tx, record, 7);
    CHECK(chappe_select_async(arms, 5, CHAPPE_BIASED, called, NULL) > 0);
    memset(record, 0, sizeof record);
    no_more_than(4);
    IS(chappe_recv(rx, got, sizeof got, NULL), 6);
    happened(5, 3);
    IS(chappe_recv(rx, got, sizeof got, NULL), 7);
    OK(strcmp(got, "second"));
    /* The other end goes: the arm is ready to say so. */
    arms[3] = chappe_arm_recv(rx, got, sizeof got);
    CHECK(chappe_select_async(arms, 5, 0, called, NULL) > 0);
    OK(chappe_sender_close(tx));
    happened(6, 3);
    IS(arms[3].result, -EPIPE);
    /* What cannot be. */
    FAILS(chappe_select_async(arms, 5, CHAPPE_LOOK, called, NULL), EINVAL);
    FAILS(chappe_select_async(arms, 5, 0, NULL, NULL), EFAULT);
    FAILS(chappe_select_async(arms + 1, 1, 0, called, NULL), EINVAL);
    arms[1] = chappe_arm_borrow(rx);
    FAILS(chappe_select_async(arms, 5, 0, called, NULL), EOPNOTSUPP);
    arms[1] = arms[3];
    if (name)
        FAILS(chappe_select_async(arms, 5, 0, called, NULL), EBUSY);
    arms[1].kind = 99;
    FAILS(chappe_select_async(arms, 5, 0, called, NULL), EINVAL);
    no_more_than(6);
    OK(chappe_receiver_close(rx));
    OK(chappe_permit_release(&permit));
    OK(chappe_pool_close(pool));
    OK(chappe_semaphore_close(units));
    OK(close(pipes[0]));
    OK(close(pipes[1]));
}

static void of_barriers(const char *name)
{
    chappe_barrier *barrier;
    chappe_turn turn, mine;
    chappe_barrier_info info;
    OK(name ? chappe_barrier_create(name, 2, 0, &barrier) : chappe_barrier_private(2, &barrier));
    FAILS(chappe_barrier_wait_async(NULL, &turn, called, NULL), EBADF);
    FAILS(chappe_barrier_wait_async(barrier, &turn, NULL, NULL), EFAULT);
    calls = 0;
    int64_t wait = chappe_barrier_wait_async(barrier, &turn, called, NULL);
    no_more_than(0);
    OK(chappe_barrier_look(barrier, &info));
    IS(info.arrived, 1);
    OK(chappe_async_cancel(wait));
    OK(chappe_barrier_look(barrier, &info));
    IS(info.arrived, 0);
    wait = chappe_barrier_wait_async(barrier, &turn, called, NULL);
    IS(chappe_barrier_wait_once(barrier, &mine), 0);
    /* It has turned: the callback comes. */
    FAILS(chappe_async_cancel(wait), ESRCH);
    until(1);
    OK(last);
    IS(turn.index + mine.index, 1);
    IS(turn.round + mine.round, 0);
    /* Two waits of one thread; no place for the turn. */
    CHECK(chappe_barrier_wait_async(barrier, NULL, called, NULL) > 0);
    CHECK(chappe_barrier_wait_async(barrier, NULL, called, NULL) > 0);
    until(3);
    OK(last);
    CHECK(chappe_barrier_wait_async(barrier, NULL, called, NULL) > 0);
    OK(chappe_barrier_abort(barrier));
    until(4);
    IS(last, -ECANCELED);
    OK(chappe_barrier_close(barrier));
}

static void of_many(void)
{
    chappe_pool *pool;
    chappe_permit permits[3], one, extra;
    OK(chappe_pool_private(3, &pool));
    FAILS(chappe_pool_acquire_many_async(pool, 4, permits, called, NULL), ERANGE);
    FAILS(chappe_pool_acquire_many_async(pool, -1, permits, called, NULL), EINVAL);
    FAILS(chappe_pool_acquire_many_async(pool, 3, NULL, called, NULL), EFAULT);
    OK(chappe_pool_acquire(pool, &one));
    calls = 0;
    int64_t first = chappe_pool_acquire_many_async(pool, 3, permits, called, NULL);
    no_more_than(0);
    OK(chappe_async_cancel(first));
    CHECK(chappe_pool_acquire_many_async(pool, 3, permits, called, NULL) > 0);
    FAILS(chappe_pool_try_acquire(pool, &extra), EAGAIN);
    OK(chappe_permit_release(&one));
    until(1);
    OK(last);
    OK(chappe_permit_release_many(permits, 3));
    IS(chappe_pool_available(pool), 3);
    OK(chappe_pool_close(pool));
}

static int ready[2];

static void dies_with_guards(void)
{
    chappe_mutex *mutex;
    chappe_rwlock *lock;
    chappe_guard *guards[2];
    chappe_mutex_options options = of_a_number();
    OK(chappe_mutex_open("waits/dies", &options, &mutex));
    OK(chappe_rwlock_open("waits/dies-too", &options, &lock));
    calls = 0;
    CHECK(chappe_mutex_lock_async(mutex, &guards[0], called, NULL) > 0);
    CHECK(chappe_rwlock_write_async(lock, &guards[1], called, NULL) > 0);
    until(2);
    tell(ready[1]);
    pause();
}

/* A guard goes with its process, and the next holder is told. */
static void of_deaths(void)
{
    chappe_mutex *mutex;
    chappe_rwlock *lock;
    chappe_guard *guard;
    chappe_mutex_options options = of_a_number();
    OK(pipe(ready));
    OK(chappe_mutex_create("waits/dies", &options, &mutex));
    OK(chappe_rwlock_create("waits/dies-too", &options, &lock));
    pid_t pid = child(dies_with_guards);
    hear(ready[0]);
    calls = 0;
    CHECK(chappe_mutex_lock_async(mutex, &guard, called, NULL) > 0);
    no_more_than(0);
    ended_by_kill(pid);
    until(1);
    IS(last, CHAPPE_OWNER_DIED);
    OK(chappe_guard_make_consistent(guard));
    OK(chappe_guard_unlock(guard));
    CHECK(chappe_mutex_lock_async(mutex, &guard, called, NULL) > 0);
    until(2);
    OK(last);
    OK(chappe_guard_unlock(guard));
    CHECK(chappe_rwlock_read_async(lock, &guard, called, NULL) > 0);
    until(3);
    IS(last, CHAPPE_OWNER_DIED);
    OK(chappe_guard_unlock(guard));
    OK(chappe_rwlock_close(lock));
    OK(chappe_mutex_close(mutex));
}

static chappe_semaphore *units;
static int64_t left_waiting;
static pid_t forked;
static int is_child;

/* The child goes on from here, within chappe_dispatch of its parent's loop. */
static void forks(void *data, int result)
{
    (void)data;
    OK(result);
    calls++;
    fflush(NULL);
    forked = fork();
    is_child = forked == 0;
    if (is_child)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void of_forks_in_callbacks(void)
{
    int mine = 0;
    OK(chappe_semaphore_create("waits/units", 0, 0, &units));
    calls = 0;
    CHECK(chappe_semaphore_down_async(units, forks, NULL) > 0);
    CHECK(chappe_semaphore_down_async(units, called, &mine) > 0);
    left_waiting = chappe_semaphore_down_async(units, called, &mine);
    /* Two are over at once, and called in any order: what was not called yet is the parent's alone. */
    OK(chappe_semaphore_up_many(units, 2));
    while (!forked && !is_child)
        CHECK(chappe_dispatch() >= 0);
    if (is_child) {
        /* The child has no waits, and a descriptor of its own. */
        int had = calls;
        FAILS(chappe_async_cancel(left_waiting), ESRCH);
        OK(chappe_dispatch());
        IS(calls, had);
        CHECK(chappe_semaphore_down_async(units, called, NULL) > 0);
        until(had + 1);
        OK(last);
        _exit(0);
    }
    until(2);
    OK(last);
    /* The first is the wait's that is left, the second the child's. */
    OK(chappe_semaphore_up(units));
    until(3);
    OK(chappe_semaphore_up(units));
    ended_well(forked);
    IS(chappe_semaphore_value(units), 0);
    OK(chappe_semaphore_close(units));
}

int main(void)
{
    chappe_sender *tx;
    chappe_receiver *rx;
    chappe_tube *tube;
    chappe_tube_options options;
    of_mutexes(NULL);
    of_mutexes("waits/mutex");
    of_rwlocks(NULL);
    of_rwlocks("waits/rwlock");
    of_condvars(NULL, NULL);
    of_condvars("waits/its", "waits/condvar");
    OK(chappe_tube_private(2, 8, &tx, &rx));
    of_tubes(tx, rx, 0);
    memset(&options, 0, sizeof options);
    options.slots = 2;
    options.size = 8;
    OK(chappe_tube_create("waits/tube", &options, &tube));
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_tube_receiver(tube, &rx));
    OK(chappe_tube_close(tube));
    of_tubes(tx, rx, 1);
    of_meetings();
    of_maps(NULL);
    of_maps("waits/map");
    of_subscriptions(NULL);
    of_subscriptions("waits/cast");
    of_choices(NULL);
    of_choices("waits/choice");
    of_barriers(NULL);
    of_barriers("waits/barrier");
    of_many();
    of_deaths();
    of_forks_in_callbacks();
    return 0;
}
