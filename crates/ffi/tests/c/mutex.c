/* Mutexes and condition variables: each function's contract, data, deaths, fork. */
#include "check.h"

struct counts {
    uint64_t a, b;
};

static chappe_mutex_options of_counts(const struct counts *initial)
{
    chappe_mutex_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof(struct counts);
    options.initial = initial;
    return options;
}

static chappe_mutex *mutex;

static void *another_thread(void *unused)
{
    (void)unused;
    FAILS(chappe_mutex_unlock(mutex), EPERM);
    FAILS(chappe_mutex_make_consistent(mutex), EPERM);
    FAILS(chappe_mutex_condemn(mutex), EPERM);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EAGAIN);
    FAILS(chappe_mutex_lock_timeout(mutex, NULL, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_mutex_lock_deadline(mutex, NULL, chappe_now()), ETIMEDOUT);
    return NULL;
}

static void alone(const char *name)
{
    struct counts first = {1, 2}, *data = NULL, *again = NULL;
    chappe_mutex_options options = of_counts(&first);
    if (name)
        OK(chappe_mutex_create(name, &options, &mutex));
    else
        OK(chappe_mutex_private(&options, &mutex));
    IS(chappe_mutex_size(mutex), sizeof(struct counts));
    IS(chappe_mutex_name(mutex, NULL, 0), name ? (long)strlen(name) : 0);
    OK(chappe_mutex_lock(mutex, (void **)&data));
    CHECK(data->a == 1 && data->b == 2 && (uintptr_t)data % 64 == 0);
    data->a = 7;
    FAILS(chappe_mutex_lock(mutex, NULL), EDEADLK);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EDEADLK);
    FAILS(chappe_mutex_close(mutex), EBUSY);
    joined(thread(another_thread, NULL));
    OK(chappe_mutex_unlock(mutex));
    FAILS(chappe_mutex_unlock(mutex), EPERM);
    OK(chappe_mutex_try_lock(mutex, (void **)&again));
    CHECK(again == data && again->a == 7);
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_lock_timeout(mutex, NULL, CHAPPE_SECOND));
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_lock_deadline(mutex, NULL, CHAPPE_FOREVER));
    OK(chappe_mutex_make_consistent(mutex));
    OK(chappe_mutex_unlock(mutex));
    FAILS(chappe_mutex_lock_timeout(mutex, NULL, -1), EINVAL);
    FAILS(chappe_mutex_lock(mutex, (void **)((char *)&data + 1)), EFAULT);
    FAILS(chappe_mutex_unlock(mutex), EPERM);
    /* Many times, so that it may become biased. */
    for (int i = 0; i < 10000; i++) {
        OK(chappe_mutex_lock(mutex, NULL));
        OK(chappe_mutex_unlock(mutex));
    }
    OK(chappe_mutex_lock(mutex, NULL));
    joined(thread(another_thread, NULL));
    OK(chappe_mutex_condemn(mutex));
    IS(chappe_mutex_is_condemned(mutex), 1);
    FAILS(chappe_mutex_lock(mutex, NULL), ENOTRECOVERABLE);
    OK(chappe_mutex_close(mutex));
    if (name)
        OK(chappe_mutex_remove(name, 1));
}

static void by_name(void)
{
    chappe_mutex *same = NULL;
    chappe_mutex_options options = of_counts(NULL), other = options;
    FAILS(chappe_mutex_open("counts", &options, &mutex), ENOENT);
    OK(chappe_mutex_open_or_create("counts", &options, &mutex));
    FAILS(chappe_mutex_create("counts", &options, &same), EEXIST);
    other.size = 8;
    FAILS(chappe_mutex_open("counts", &other, &same), EPROTOTYPE);
    other = options;
    other.type_name = "another";
    FAILS(chappe_mutex_open("counts", &other, &same), EPROTOTYPE);
    other = options;
    other.align = 3;
    FAILS(chappe_mutex_open("counts", &other, &same), EINVAL);
    other.align = 128;
    FAILS(chappe_mutex_create("larger", &other, &same), EINVAL);
    FAILS(chappe_mutex_private(&other, &same), EINVAL);
    other = options;
    other.reserved_too[2] = 1;
    FAILS(chappe_mutex_open("counts", &other, &same), EINVAL);
    other = options;
    other.size = (size_t)1 << 40;
    FAILS(chappe_mutex_create("larger", &other, &same), ENOSPC);
    FAILS(chappe_mutex_open("counts", NULL, &same), EFAULT);
    OK(chappe_mutex_open("counts", &options, &same));
    struct counts *data, *there;
    OK(chappe_mutex_lock(mutex, (void **)&data));
    CHECK(data->a == 0 && data->b == 0);
    FAILS(chappe_mutex_unlock(same), EPERM);
    FAILS(chappe_mutex_remove("counts", 0), EBUSY);
    data->b = 9;
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_lock(same, (void **)&there));
    CHECK(there->b == 9);
    OK(chappe_mutex_unlock(same));
    OK(chappe_mutex_remove("counts", 0));
    FAILS(chappe_mutex_lock(same, NULL), EIDRM);
    OK(chappe_mutex_close(same));
    OK(chappe_mutex_close(mutex));
}

static int ready[2];

static void dies_in_the_middle(void)
{
    struct counts *data;
    OK(chappe_mutex_lock(mutex, (void **)&data));
    data->a = 1;
    tell(ready[1]);
    for (;;)
        pause();
}

static void in_the_child(void)
{
    FAILS(chappe_mutex_unlock(mutex), EPERM);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EAGAIN);
}

static void *ends_with_it(void *unused)
{
    (void)unused;
    OK(chappe_mutex_lock(mutex, NULL));
    return NULL;
}

static void deaths(void)
{
    chappe_mutex_options options = of_counts(NULL);
    struct counts *data;
    OK(pipe(ready));
    OK(chappe_mutex_create("mortal", &options, &mutex));
    pid_t holder = child(dies_in_the_middle);
    hear(ready[0]);
    FAILS(chappe_mutex_try_lock(mutex, NULL), EAGAIN);
    ended_by_kill(holder);
    IS(chappe_mutex_lock_timeout(mutex, (void **)&data, 30 * CHAPPE_SECOND), CHAPPE_OWNER_DIED);
    CHECK(data->a == 1 && data->b == 0);
    OK(chappe_mutex_unlock(mutex));
    IS(chappe_mutex_lock(mutex, (void **)&data), CHAPPE_OWNER_DIED);
    data->a = 0;
    OK(chappe_mutex_make_consistent(mutex));
    ended_well(child(in_the_child));
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_lock(mutex, NULL));
    OK(chappe_mutex_unlock(mutex));
    joined(thread(ends_with_it, NULL));
    FAILS(chappe_mutex_lock(mutex, NULL), ENOTRECOVERABLE);
    OK(chappe_mutex_close(mutex));
    OK(chappe_mutex_remove("mortal", 1));
}

static chappe_condvar *changed;

static void *changes_it(void *unused)
{
    uint64_t *count;
    (void)unused;
    OK(chappe_mutex_lock(mutex, (void **)&count));
    *count += 1;
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_condvar_notify_one(changed));
    return NULL;
}

static void changes_it_in_a_child(void)
{
    changes_it(NULL);
}

static void *waits_for_the_end(void *unused)
{
    (void)unused;
    OK(chappe_mutex_lock(mutex, NULL));
    tell(ready[1]);
    IS(chappe_condvar_wait(changed, mutex), CHAPPE_CONDVAR_REMOVED);
    OK(chappe_mutex_unlock(mutex));
    return NULL;
}

static void conditions(const char *name, const char *of_mutex)
{
    uint64_t *count;
    chappe_mutex_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof *count;
    if (name) {
        FAILS(chappe_condvar_open(name, &changed), ENOENT);
        OK(chappe_condvar_open_or_create(name, &changed));
        OK(chappe_condvar_close(changed));
        FAILS(chappe_condvar_create(name, &changed), EEXIST);
        OK(chappe_condvar_open(name, &changed));
        OK(chappe_mutex_create(of_mutex, &options, &mutex));
        char has[32];
        IS(chappe_condvar_name(changed, has, sizeof has), strlen(name));
        OK(strcmp(has, name));
    } else {
        OK(chappe_condvar_private(&changed));
        OK(chappe_mutex_private(&options, &mutex));
    }
    FAILS(chappe_condvar_wait(changed, mutex), EPERM);
    OK(chappe_condvar_notify_one(changed));
    OK(chappe_condvar_notify_all(changed));
    OK(chappe_mutex_lock(mutex, (void **)&count));
    FAILS(chappe_condvar_wait_timeout(changed, mutex, -1), EINVAL);
    FAILS(chappe_condvar_wait(NULL, mutex), EBADF);
    IS(chappe_condvar_wait_timeout(changed, mutex, CHAPPE_MILLISECOND), CHAPPE_TIMED_OUT);
    IS(chappe_condvar_wait_deadline(changed, mutex, chappe_now()), CHAPPE_TIMED_OUT);
    pthread_t changer = thread(changes_it, NULL);
    while (*count == 0)
        CHECK(chappe_condvar_wait(changed, mutex) == 0);
    joined(changer);
    if (name) {
        pid_t pid = child(changes_it_in_a_child);
        while (*count == 1)
            CHECK(chappe_condvar_wait_timeout(changed, mutex, 30 * CHAPPE_SECOND) == 0);
        OK(chappe_mutex_unlock(mutex));
        ended_well(pid);
        pthread_t waits = thread(waits_for_the_end, NULL);
        hear(ready[0]);
        /* It waits once the mutex can be had. */
        OK(chappe_mutex_lock(mutex, NULL));
        OK(chappe_mutex_unlock(mutex));
        FAILS(chappe_condvar_remove(name, 0), EBUSY);
        OK(chappe_condvar_remove(name, 1));
        joined(waits);
    } else {
        OK(chappe_mutex_unlock(mutex));
    }
    OK(chappe_condvar_close(changed));
    FAILS(chappe_condvar_notify_all(changed), EBADF);
    OK(chappe_mutex_close(mutex));
    if (name)
        OK(chappe_mutex_remove(of_mutex, 0));
}

/* One that a thread uses alone gets its bias, where there are any; not one that may not. */
static void biases(void)
{
    chappe_mutex *may, *may_not;
    chappe_mutex_options options;
    memset(&options, 0, sizeof options);
    OK(chappe_mutex_private(&options, &may));
    options.flags = CHAPPE_BIAS_OFF;
    OK(chappe_mutex_private(&options, &may_not));
    for (int i = 0; i < 10000; i++) {
        OK(chappe_mutex_lock(may, NULL));
        OK(chappe_mutex_lock(may_not, NULL));
        OK(chappe_mutex_unlock(may_not));
        OK(chappe_mutex_unlock(may));
    }
    if (chappe_mutex_is_biased(may) == 0)
        fprintf(stderr, "not tested: CHAPPE_BIAS_OFF, since nothing is biased on this machine\n");
    IS(chappe_mutex_is_biased(may_not), 0);
    FAILS(chappe_mutex_is_biased(NULL), EBADF);
    OK(chappe_mutex_close(may));
    OK(chappe_mutex_close(may_not));
    options.flags = 2;
    FAILS(chappe_mutex_private(&options, &may), EINVAL);
    options.flags = 0;
    options.reserved = 1;
    FAILS(chappe_mutex_private(&options, &may), EINVAL);
}

int main(void)
{
    biases();
    alone(NULL);
    alone("alone");
    by_name();
    deaths();
    conditions(NULL, NULL);
    conditions("changed", "count");
    conditions("elsewhere/changed", "count");
    OK(chappe_arena_remove("elsewhere", 1));
    OK(chappe_arena_remove("default", 1));
    return 0;
}
