/* Pools and permits: each function's contract, whose a permit is, what a death and an exec do. */
#include "check.h"

#include <fcntl.h>

static void alone(void)
{
    chappe_pool *pool = NULL;
    chappe_permit one, two, three;
    OK(chappe_pool_private(2, &pool));
    IS(chappe_pool_permits(pool), 2);
    IS(chappe_pool_name(pool, NULL, 0), 0);
    OK(chappe_pool_acquire(pool, &one));
    OK(chappe_pool_try_acquire(pool, &two));
    IS(chappe_permit_index(&one) + chappe_permit_index(&two), 1);
    IS(chappe_pool_available(pool), 0);
    FAILS(chappe_pool_try_acquire(pool, &three), EAGAIN);
    FAILS(chappe_pool_acquire_timeout(pool, &three, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_pool_acquire_deadline(pool, &three, chappe_now()), ETIMEDOUT);
    FAILS(chappe_pool_acquire_timeout(pool, &three, -5), EINVAL);
    chappe_pool *other = NULL;
    FAILS(chappe_pool_create_with("by-priority", 1, 2, &other), EINVAL);
    OK(chappe_pool_create_with("by-priority", 1, CHAPPE_PRIORITY, &other));
    OK(chappe_pool_close(other));
    OK(chappe_pool_remove("by-priority", 0));
    FAILS(chappe_pool_private_with(1, CHAPPE_PRIORITY | 2, &other), EINVAL);
    OK(chappe_pool_private_with(1, CHAPPE_PRIORITY | CHAPPE_BIAS_OFF, &other));
    OK(chappe_pool_close(other));
    FAILS(chappe_pool_acquire(pool, NULL), EFAULT);
    IS(chappe_permit_is_valid(&one), 1);
    OK(chappe_permit_release(&one));
    FAILS(chappe_permit_release(&one), EINVAL);
    FAILS(chappe_permit_index(&one), EINVAL);
    FAILS(chappe_permit_is_valid(&one), EINVAL);
    FAILS(chappe_permit_release(NULL), EFAULT);
    FAILS(chappe_permit_release((chappe_permit *)((char *)&two + 1)), EFAULT);
    memset(&three, 0x5a, sizeof three);
    FAILS(chappe_permit_release(&three), EINVAL);
    chappe_permit moved = two;
    OK(chappe_permit_release(&moved));
    OK(chappe_pool_acquire_deadline(pool, &one, CHAPPE_FOREVER));
    OK(chappe_permit_release(&one));
    IS(chappe_pool_available(pool), 2);
    IS(chappe_pool_reclaim(pool), 0);
    OK(chappe_pool_close(pool));
    FAILS(chappe_pool_acquire(pool, &one), EBADF);
    FAILS(chappe_pool_private(0, &pool), EINVAL);
    FAILS(chappe_pool_private(-1, &pool), EINVAL);
    FAILS(chappe_pool_private(CHAPPE_POOL_MAX + 1, &pool), EINVAL);
}

static void several_at_once(void)
{
    chappe_pool *pool;
    chappe_permit all[20], rest;
    OK(chappe_pool_private(20, &pool));
    char mark[512];
    OK(chappe_pool_acquire(pool, &all[0]));
    FAILS(chappe_permit_lease(&all[0], mark, sizeof mark), EOPNOTSUPP);
    OK(chappe_permit_release(&all[0]));
    OK(chappe_pool_acquire_many(pool, 20, all));
    for (int i = 0; i < 20; i++)
        IS(chappe_permit_index(&all[i]), i);
    FAILS(chappe_pool_try_acquire_many(pool, 2, all + 18), EAGAIN);
    FAILS(chappe_pool_acquire_many_timeout(pool, 1, &rest, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_pool_acquire_many_deadline(pool, 1, &rest, chappe_now()), ETIMEDOUT);
    FAILS(chappe_pool_acquire_many(pool, 21, all), ERANGE);
    FAILS(chappe_pool_acquire_many(pool, 1LL << 32, all), ERANGE);
    FAILS(chappe_pool_acquire_many(pool, INT64_MAX, all), ERANGE);
    FAILS(chappe_pool_acquire_many(pool, -1, all), EINVAL);
    FAILS(chappe_pool_acquire_many(pool, 2, NULL), EFAULT);
    OK(chappe_permit_release(&all[7]));
    IS(chappe_pool_available(pool), 1);
    FAILS(chappe_permit_release_many(all, 20), EINVAL);
    IS(chappe_pool_available(pool), 20);
    OK(chappe_permit_release_many(NULL, 0));
    OK(chappe_pool_acquire_many(pool, 0, NULL));
    OK(chappe_pool_acquire_many(pool, 20, all));
    OK(chappe_permit_release_many(all, 20));
    OK(chappe_pool_close(pool));
}

static void whichever_is_free(void)
{
    chappe_pool *pools[3], *elsewhere;
    chappe_permit one, more[3];
    OK(chappe_pool_private(1, &pools[0]));
    OK(chappe_pool_create("any", 1, &pools[1]));
    OK(chappe_pool_private(1, &pools[2]));
    OK(chappe_pool_acquire(pools[0], &one));
    OK(chappe_pool_acquire(pools[2], &more[2]));
    IS(chappe_acquire_any(pools, 3, &more[0]), 1);
    FAILS(chappe_try_acquire_any(pools, 3, &more[1]), EAGAIN);
    FAILS(chappe_acquire_any_timeout(pools, 3, &more[1], CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_acquire_any_deadline(pools, 3, &more[1], chappe_now()), ETIMEDOUT);
    OK(chappe_permit_release(&one));
    IS(chappe_acquire_any_timeout(pools, 3, &more[1], 30 * CHAPPE_SECOND), 0);
    OK(chappe_permit_release_many(more, 3));
    FAILS(chappe_acquire_any(pools, 0, &one), EINVAL);
    FAILS(chappe_acquire_any(NULL, 3, &one), EFAULT);
    OK(chappe_pool_create("other/any", 1, &elsewhere));
    chappe_pool *two[2] = {pools[1], elsewhere};
    FAILS(chappe_acquire_any(two, 2, &one), EXDEV);
    chappe_pool *many[40];
    for (int i = 0; i < 40; i++)
        many[i] = pools[i % 3];
    IS(chappe_acquire_any(many, 40, &one) % 3, chappe_pool_available(pools[0]) == 0 ? 0 : chappe_pool_available(pools[1]) == 0 ? 1 : 2);
    OK(chappe_permit_release(&one));
    many[39] = NULL;
    FAILS(chappe_acquire_any(many, 40, &one), EBADF);
    for (int i = 0; i < 3; i++)
        OK(chappe_pool_close(pools[i]));
    OK(chappe_pool_close(elsewhere));
    OK(chappe_pool_remove("any", 0));
    OK(chappe_pool_remove("other/any", 0));
}

static chappe_pool *pool;
static chappe_permit held;

static void *gives_back_the_threads(void *unused)
{
    (void)unused;
    FAILS(chappe_permit_release(&held), EPERM);
    IS(chappe_permit_is_valid(&held), 0);
    return NULL;
}

static void *gives_back_the_processs(void *unused)
{
    (void)unused;
    IS(chappe_permit_is_valid(&held), 1);
    OK(chappe_permit_release(&held));
    return NULL;
}

static void *keeps_it(void *unused)
{
    (void)unused;
    OK(chappe_pool_acquire(pool, &held));
    return NULL;
}

static void in_the_child(void)
{
    FAILS(chappe_permit_release(&held), EPERM);
    IS(chappe_permit_is_valid(&held), 0);
    chappe_permit own;
    FAILS(chappe_pool_try_acquire(pool, &own), EAGAIN);
}

static void a_permit_belongs_to_its_acquirer(const char *name)
{
    if (name)
        OK(chappe_pool_create(name, 1, &pool));
    else
        OK(chappe_pool_private(1, &pool));
    OK(chappe_pool_acquire(pool, &held));
    joined(thread(gives_back_the_threads, NULL));
    if (name)
        ended_well(child(in_the_child));
    OK(chappe_permit_release(&held));
    OK(chappe_pool_acquire_owned(pool, &held));
    FAILS(chappe_pool_try_acquire_owned(pool, &held), EAGAIN);
    FAILS(chappe_pool_acquire_owned_timeout(pool, &held, 1), ETIMEDOUT);
    FAILS(chappe_pool_acquire_owned_deadline(pool, &held, 1), ETIMEDOUT);
    if (name)
        ended_well(child(in_the_child));
    joined(thread(gives_back_the_processs, NULL));
    /* What a thread has goes with it. */
    joined(thread(keeps_it, NULL));
    FAILS(chappe_permit_release(&held), EPERM);
    OK(chappe_pool_acquire_timeout(pool, &held, 30 * CHAPPE_SECOND));
    OK(chappe_permit_release(&held));
    OK(chappe_pool_close(pool));
    if (name)
        OK(chappe_pool_remove(name, 0));
}

static int ready[2], on[2];

static void holds_until_killed(void)
{
    OK(chappe_set_label("the holder"));
    OK(chappe_pool_open("deadly", &pool));
    OK(chappe_pool_acquire(pool, &held));
    tell(ready[1]);
    for (;;)
        pause();
}

static void holds_and_calls_exec(void)
{
    OK(chappe_pool_open("deadly", &pool));
    OK(chappe_pool_acquire(pool, &held));
    OK(dup2(on[0], 0));
    tell(ready[1]);
    execlp("cat", "cat", (char *)NULL);
    wrong(__FILE__, __LINE__, "exec", errno, 0);
}

static void a_dead_holders_permit_goes_to_the_next(void)
{
    OK(pipe(ready));
    OK(pipe2(on, O_CLOEXEC));
    OK(chappe_pool_create("deadly", 1, &pool));
    pid_t holder = child(holds_until_killed);
    hear(ready[0]);
    chappe_holder who[2];
    IS(chappe_pool_holders(pool, who, 2), 1);
    IS(who[0].pid, holder);
    IS(who[0].index, 0);
    OK(strcmp(who[0].label, "the holder"));
    FAILS(chappe_pool_try_acquire(pool, &held), EAGAIN);
    FAILS(chappe_pool_remove("deadly", 0), EBUSY);
    CHECK(strstr(chappe_last_error(), "the holder"));
    ended_by_kill(holder);
    OK(chappe_pool_acquire_timeout(pool, &held, 30 * CHAPPE_SECOND));
    OK(chappe_permit_release(&held));

    pid_t other = child(holds_and_calls_exec);
    hear(ready[0]);
    OK(chappe_pool_acquire_timeout(pool, &held, 30 * CHAPPE_SECOND));
    OK(kill(other, 0));
    close(on[0]);
    close(on[1]);
    ended_well(other);
    OK(chappe_permit_release(&held));
    OK(chappe_pool_close(pool));
    OK(chappe_pool_remove("deadly", 0));
}

static void *waits_in_vain(void *unused)
{
    (void)unused;
    chappe_permit none;
    FAILS(chappe_pool_acquire(pool, &none), EIDRM);
    return NULL;
}

static int has_an_environment(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *environment = fopen(path, "r");
    CHECK(environment != NULL);
    int has = fgetc(environment) != EOF;
    fclose(environment);
    return has;
}

/* Each of them is kept by its own lease's file alone. */
static void leased_apart(void)
{
    chappe_pool *three;
    chappe_permit all[4];
    char mark[512];
    int files[3];
    OK(chappe_pool_create("apart", 3, &three));
    OK(chappe_pool_acquire_many(three, 3, all));
    for (int i = 0; i < 3; i++) {
        files[i] = chappe_permit_lease(&all[i], mark, sizeof mark);
        CHECK(files[i] >= 0);
    }
    OK(close(files[0]));
    OK(close(files[2]));
    OK(chappe_permit_release_many(all, 3));
    IS(chappe_pool_available(three), 2);
    /* With one that is none. */
    OK(chappe_pool_acquire_many(three, 2, all));
    int last = chappe_permit_lease(&all[1], mark, sizeof mark);
    CHECK(last >= 0);
    OK(close(last));
    all[2] = all[3] = (chappe_permit){{0}};
    FAILS(chappe_permit_release_many(all, 4), EINVAL);
    IS(chappe_pool_available(three), 2);
    OK(close(files[1]));
    EVENTUALLY(chappe_pool_reclaim(three) >= 0 && chappe_pool_available(three) == 3);
    OK(chappe_pool_close(three));
    OK(chappe_pool_remove("apart", 0));
}

static void leased_together(void)
{
    chappe_pool *three, *one;
    chappe_permit all[4];
    chappe_holder holders[4];
    char mark[512], tight[40];
    OK(chappe_pool_create("three", 3, &three));
    OK(chappe_pool_create("one", 1, &one));
    OK(chappe_pool_acquire_many(three, 3, all));
    OK(chappe_pool_acquire(one, &all[3]));
    FAILS(chappe_permit_lease_many(all, 0, mark, sizeof mark), EINVAL);
    FAILS(chappe_permit_lease_many(all, 4, mark, sizeof mark), EINVAL);
    FAILS(chappe_permit_lease_many(NULL, 3, mark, sizeof mark), EFAULT);
    FAILS(chappe_permit_lease_many(all, 3, tight, 8), ERANGE);
    chappe_permit twice[3] = {all[1], all[0], all[1]};
    FAILS(chappe_permit_lease_many(twice, 3, mark, sizeof mark), EINVAL);
    /* None is a lease, as before. */
    IS(chappe_pool_holders(three, holders, 4), 3);
    for (int i = 0; i < 3; i++)
        CHECK(!(holders[i].flags & CHAPPE_HOLD_LEASED) && chappe_permit_is_valid(&all[i]) == 1);
    int lease = chappe_permit_lease_many(all, 3, mark, sizeof mark);
    CHECK(lease >= 0 && fcntl(lease, F_GETFD) == FD_CLOEXEC && strchr(mark, ',') != NULL);
    IS(chappe_pool_holders(three, holders, 4), 3);
    for (int i = 0; i < 3; i++)
        CHECK(holders[i].flags & CHAPPE_HOLD_LEASED);
    /* The file alone keeps them all; with it they come back together. */
    int kept = fcntl(lease, F_DUPFD_CLOEXEC, 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(lease);
        setenv("CHAPPE_LEASE", mark, 1);
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
    char exe[64], link[16];
    snprintf(exe, sizeof exe, "/proc/%d/comm", (int)pid);
    memset(link, 0, sizeof link);
    do {
        FILE *comm = fopen(exe, "r");
        CHECK(comm != NULL && fgets(link, sizeof link, comm) != NULL);
        fclose(comm);
    } while (strncmp(link, "sleep", 5) != 0 && usleep(500) == 0);
    /* It has the name before it has the environment. */
    EVENTUALLY(has_an_environment(pid));
    close(kept);
    close(lease);
    OK(chappe_permit_release_many(all, 3));
    IS(chappe_pool_available(three), 0);
    ended_by_kill(pid);
    EVENTUALLY(chappe_pool_reclaim(three) >= 0 && chappe_pool_available(three) == 3);
    FAILS(chappe_permit_lease_many(all, 3, mark, sizeof mark), EINVAL);
    OK(chappe_permit_release(&all[3]));
    OK(chappe_pool_close(three));
    OK(chappe_pool_close(one));
    OK(chappe_pool_remove("three", 0));
    OK(chappe_pool_remove("one", 0));
}

/* One of one permit that a thread uses alone gets its bias, where there are any; not one that may not. */
static void biases(void)
{
    chappe_pool *may, *may_not;
    chappe_permit one, two;
    OK(chappe_pool_private_with(1, 0, &may));
    OK(chappe_pool_private_with(1, CHAPPE_BIAS_OFF, &may_not));
    FAILS(chappe_pool_private_with(1, 2, &may_not), EINVAL);
    FAILS(chappe_pool_private_with(0, 0, &may_not), EINVAL);
    for (int i = 0; i < 10000; i++) {
        OK(chappe_pool_acquire(may, &one));
        OK(chappe_pool_acquire(may_not, &two));
        OK(chappe_permit_release(&two));
        OK(chappe_permit_release(&one));
    }
    if (chappe_pool_is_biased(may) == 0)
        fprintf(stderr, "not tested: CHAPPE_BIAS_OFF, since nothing is biased on this machine\n");
    IS(chappe_pool_is_biased(may_not), 0);
    FAILS(chappe_pool_is_biased(NULL), EBADF);
    OK(chappe_pool_close(may));
    OK(chappe_pool_close(may_not));
}

static void by_name(void)
{
    chappe_pool *same;
    chappe_permit one, two;
    chappe_member who;
    FAILS(chappe_pool_open("gpu", &pool), ENOENT);
    OK(chappe_pool_open_or_create("gpu", 2, &pool));
    FAILS(chappe_pool_open_or_create("gpu", 3, &same), EPROTOTYPE);
    FAILS(chappe_pool_create("gpu", 2, &same), EEXIST);
    OK(chappe_pool_open("gpu", &same));
    OK(chappe_pool_resize(same, 1));
    IS(chappe_pool_permits(pool), 1);
    FAILS(chappe_pool_resize(same, 0), EINVAL);
    OK(chappe_pool_acquire(pool, &one));
    FAILS(chappe_pool_force_release(same, 5, NULL), ESRCH);
    FAILS(chappe_pool_force_release(same, 1LL << 32, NULL), ESRCH);
    FAILS(chappe_pool_force_release(same, -1, NULL), EINVAL);
    OK(chappe_pool_force_release(same, 0, &who));
    IS(who.pid, getpid());
    IS(chappe_permit_is_valid(&one), 0);
    OK(chappe_pool_acquire(pool, &two));
    OK(chappe_permit_release(&one));
    IS(chappe_permit_is_valid(&two), 1);

    char mark[512];
    chappe_holder holder;
    FAILS(chappe_permit_lease(&two, mark, 1), ERANGE);
    IS(chappe_pool_holders(pool, &holder, 1), 1);
    CHECK(!(holder.flags & CHAPPE_HOLD_LEASED));
    IS(chappe_permit_is_valid(&two), 1);
    int lease = chappe_permit_lease(&two, mark, sizeof mark);
    CHECK(lease >= 0 && fcntl(lease, F_GETFD) == FD_CLOEXEC && strlen(mark) > 0);
    IS(chappe_pool_holders(pool, &holder, 1), 1);
    CHECK(holder.flags & CHAPPE_HOLD_LEASED);
    /* As long as its file is open. */
    FAILS(chappe_permit_lease(&two, mark, sizeof mark), EBUSY);
    close(lease);
    lease = chappe_permit_lease(&two, mark, sizeof mark);
    CHECK(lease >= 0);
    OK(chappe_permit_release(&two));
    close(lease);
    OK(chappe_pool_acquire_timeout(pool, &one, 30 * CHAPPE_SECOND));
    leased_together();
    leased_apart();

    pthread_t waits = thread(waits_in_vain, NULL);
    EVENTUALLY(chappe_pool_waiters(pool, NULL, 0) == 1);
    OK(chappe_pool_remove("gpu", 1));
    joined(waits);
    FAILS(chappe_pool_resize(same, 3), EIDRM);
    chappe_permit many[9];
    FAILS(chappe_pool_acquire_many(same, 9, many), EIDRM);
    OK(chappe_permit_release(&one));
    OK(chappe_pool_close(same));
    OK(chappe_pool_close(pool));
}

/* An arena that only this process uses is removed without force, whatever handles there are. */
static void only_ours(void) {
    chappe_arena *arena;
    chappe_pool *pool;
    chappe_permit permit;
    OK(chappe_arena_create("ours", NULL, &arena));
    OK(chappe_pool_create("ours/p", 1, &pool));
    OK(chappe_pool_acquire(pool, &permit));
    IS(chappe_arena_remove("ours", 0), -EBUSY);
    OK(chappe_permit_release(&permit));
    OK(chappe_arena_remove("ours", 0));
    IS(chappe_arena_remove("ours", 0), -ENOENT);
    OK(chappe_pool_close(pool));
    OK(chappe_arena_close(arena));
}

int main(void)
{
    biases();
    alone();
    several_at_once();
    whichever_is_free();
    a_permit_belongs_to_its_acquirer(NULL);
    a_permit_belongs_to_its_acquirer("whose");
    a_dead_holders_permit_goes_to_the_next();
    by_name();
    OK(chappe_arena_remove("other", 1));
    OK(chappe_arena_remove("default", 1));
    only_ours();
    return 0;
}
