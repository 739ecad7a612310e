/*
 * What needs address space that is not there is refused with ENOMEM, and nothing else is said of it; once there is some, it is had.
 *
 * Each of several processes is the first to ask for what is private, in another way: what is there stays.
 */
#include <sys/resource.h>

#include "check.h"
#include <chappe/nix.h>

/* As much as is mapped, and a little for malloc(3): much less than what is private needs. */
static void no_more(void)
{
    long pages;
    FILE *all = fopen("/proc/self/statm", "r");
    CHECK(all != NULL);
    IS(fscanf(all, "%ld", &pages), 1);
    fclose(all);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (4 << 20);
    struct rlimit limit = {most, RLIM_INFINITY};
    OK(setrlimit(RLIMIT_AS, &limit));
}

static void any_amount(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    OK(setrlimit(RLIMIT_AS, &limit));
}

static void semaphore(void)
{
    chappe_semaphore *made;
    no_more();
    FAILS(chappe_semaphore_private(1, 0, &made), ENOMEM);
    FAILS(chappe_semaphore_private(1, CHAPPE_BARGING, &made), ENOMEM);
    any_amount();
    OK(chappe_semaphore_private(1, 0, &made));
    OK(chappe_semaphore_down(made));
    OK(chappe_semaphore_close(made));
}

static void pool(void)
{
    chappe_pool *made;
    chappe_permit permit;
    no_more();
    FAILS(chappe_pool_private(1, &made), ENOMEM);
    any_amount();
    OK(chappe_pool_private(1, &made));
    OK(chappe_pool_acquire(made, &permit));
    OK(chappe_permit_release(&permit));
    OK(chappe_pool_close(made));
}

static void mutex(void)
{
    chappe_mutex *made;
    chappe_condvar *condvar;
    chappe_mutex_options options = {.size = 8};
    no_more();
    FAILS(chappe_mutex_private(&options, &made), ENOMEM);
    FAILS(chappe_condvar_private(&condvar), ENOMEM);
    any_amount();
    OK(chappe_mutex_private(&options, &made));
    OK(chappe_condvar_private(&condvar));
    OK(chappe_mutex_lock(made, NULL));
    OK(chappe_mutex_unlock(made));
    OK(chappe_mutex_close(made));
    OK(chappe_condvar_close(condvar));
}

static void tube(void)
{
    chappe_sender *sender;
    chappe_receiver *receiver;
    no_more();
    FAILS(chappe_tube_private(4, 8, &sender, &receiver), ENOMEM);
    FAILS(chappe_tube_private(0, 8, &sender, &receiver), ENOMEM);
    FAILS(chappe_tube_private(CHAPPE_UNBOUNDED, 8, &sender, &receiver), ENOMEM);
    any_amount();
    OK(chappe_tube_private(CHAPPE_UNBOUNDED, 8, &sender, &receiver));
    OK(chappe_send(sender, "seven..", 8));
    OK(chappe_sender_close(sender));
    OK(chappe_receiver_close(receiver));
}

static void choice(void)
{
    int both[2];
    OK(pipe(both));
    tell(both[1]);
    chappe_arm arms[2] = {chappe_arm_readable(both[0]), chappe_arm_writable(both[1])};
    no_more();
    FAILS(chappe_try_select(arms, 1, 0), ENOMEM);
    FAILS(chappe_try_select(&arms[1], 1, 0), ENOMEM);
    any_amount();
    IS(chappe_try_select(arms, 1, 0), 0);
    OK(arms[0].result);
}

static void descriptor(void)
{
    chappe_tube *tube;
    chappe_receiver *receiver;
    OK(chappe_tube_open_or_create("watched", NULL, &tube));
    OK(chappe_tube_receiver(tube, &receiver));
    no_more();
    FAILS(chappe_receiver_descriptor(receiver), ENOMEM);
    any_amount();
    CHECK(chappe_receiver_descriptor(receiver) >= 0);
    OK(chappe_receiver_close(receiver));
    OK(chappe_tube_close(tube));
}

static void nix(void)
{
    static Sem sem;
    no_more();
    errno = 0;
    initsem(&sem, 1);
    IS(errno, ENOMEM);
    IS(downsem(&sem, 0), 0);
    IS(errno, EINVAL);
    any_amount();
    errno = 0;
    initsem(&sem, 1);
    IS(errno, 0);
    IS(downsem(&sem, 0), 1);
}

int main(void)
{
    void (*all[])(void) = {semaphore, pool, mutex, tube, choice, descriptor, nix};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        ended_well(child(all[at]));
    return 0;
}
