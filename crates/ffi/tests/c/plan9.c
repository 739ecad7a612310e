/* Plan 9's semaphores: the papers' answers, errno, words in shared memory, signals, Usem and Lock. */
#include "check.h"

#include <chappe/plan9.h>
#include <sys/mman.h>

/* Answers this, with this in errno. */
#define SAYS(call, wanted, error)                                                                                                     \
    do {                                                                                                                              \
        errno = 0;                                                                                                                    \
        IS(call, wanted);                                                                                                             \
        IS(errno, error);                                                                                                             \
    } while (0)

static void words(void)
{
    long value = 0, misaligned[2] = {0, 0};
    SAYS(semacquire(&value, 0), 0, 0);
    SAYS(semrelease(&value, 2), 2, 0);
    SAYS(semacquire(&value, 1), 1, 0);
    SAYS(semacquire(&value, 0), 1, 0);
    SAYS(semrelease(&value, 0), 0, 0);
    IS(value, 0);
    SAYS(semrelease(&value, -1), -1, EINVAL);
    SAYS(semrelease(&value, 1L << 40), -1, EOVERFLOW);
    SAYS(semrelease(&value, -(1L << 40)), -1, EINVAL);
    SAYS(semrelease(&value, 2147483647), 2147483647, 0);
    SAYS(semrelease(&value, 1), -1, EOVERFLOW);
    IS(value, 2147483647);
    value = -1;
    SAYS(semacquire(&value, 1), -1, EINVAL);
    SAYS(semrelease(&value, 1), -1, EINVAL);
    value = 1L << 32;
    SAYS(semacquire(&value, 1), -1, EINVAL);
    value = 2147483648;
    SAYS(semacquire(&value, 1), -1, EINVAL);
    SAYS(semacquire(NULL, 1), -1, EFAULT);
    SAYS(semrelease(NULL, 1), -1, EFAULT);
    SAYS(semacquire((long *)((char *)misaligned + 4), 1), -1, EFAULT);
    CHECK(strlen(chappe_last_error()) > 5);
}

static volatile sig_atomic_t handled;

static void only_handled(int signal)
{
    (void)signal;
    handled++;
}

static long *pair;
static pid_t parent;

static void interrupts(void)
{
    /* Until it has been told that the wait was ended: a signal before the wait ends nothing. */
    while (semacquire(&pair[1], 0) == 0) {
        kill(parent, SIGUSR1);
        usleep(1000);
    }
}

static void any_signal_ends_the_wait(int flags)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = only_handled;
    act.sa_flags = flags;
    OK(sigaction(SIGUSR1, &act, NULL));
    handled = 0;
    parent = getpid();
    pid_t pid = child(interrupts);
    SAYS(semacquire(&pair[0], 1), -1, EINTR);
    CHECK(handled > 0);
    IS(semrelease(&pair[1], 1), 1);
    ended_well(pid);
    IS(pair[0], 0);
}

enum { TURNS = 2000 };

static void plays(void)
{
    for (int i = 0; i < TURNS; i++) {
        IS(semacquire(&pair[0], 1), 1);
        IS(semrelease(&pair[1], 1), 1);
    }
}

static void ping_pong(void)
{
    pid_t pid = child(plays);
    for (int i = 0; i < TURNS; i++) {
        IS(semrelease(&pair[0], 1), 1);
        IS(semacquire(&pair[1], 1), 1);
    }
    ended_well(pid);
}

struct both {
    Usem usem;
    Lock lock;
    long count;
};

static struct both *both;

static void counts(void)
{
    for (int i = 0; i < TURNS; i++) {
        OK(lock(&both->lock));
        both->count++;
        OK(unlock(&both->lock));
        OK(usemrelease(&both->usem));
    }
}

static void usems_and_locks(void)
{
    pid_t all[3];
    IS(canlock(&both->lock), 1);
    IS(canlock(&both->lock), 0);
    OK(unlock(&both->lock));
    SAYS(unlock(&both->lock), -1, EPERM);
    IS(canlock(&both->lock), 1);
    for (int i = 0; i < 3; i++)
        all[i] = child(counts);
    OK(unlock(&both->lock));
    for (int i = 0; i < 3 * TURNS; i++)
        OK(usemacquire(&both->usem));
    for (int i = 0; i < 3; i++)
        ended_well(all[i]);
    IS(both->count, 3 * TURNS);
    CHECK(both->usem.u == 0 && both->usem.k == 0 && both->lock.key == 0 && both->lock.sem == 0);
    SAYS(lock(NULL), -1, EFAULT);
    SAYS(unlock(NULL), -1, EFAULT);
    SAYS(canlock(NULL), 0, EFAULT);
    SAYS(usemacquire(NULL), -1, EFAULT);
    SAYS(usemrelease(NULL), -1, EFAULT);
    Usem none = {0, -1};
    SAYS(usemacquire(&none), -1, EINVAL);
    Usem full = {2147483647, 0};
    SAYS(usemrelease(&full), -1, EOVERFLOW);
    Lock broken = {1L << 33, 0};
    SAYS(lock(&broken), -1, EINVAL);
    SAYS(canlock(&broken), 0, EINVAL);
}

int main(void)
{
    pair = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pair != MAP_FAILED);
    both = (struct both *)(pair + 16);
    words();
    ping_pong();
    any_signal_ends_the_wait(0);
    any_signal_ends_the_wait(SA_RESTART);
    usems_and_locks();
    return 0;
}
