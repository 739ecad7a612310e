/*
 * The library is loaded, used, let go, and loaded again: its threads, which watch for deaths, go on. And a signal handler of a thread that
 * was there before the library, and has never called it, asks for no memory.
 */
#include "check.h"

#include <dlfcn.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

/* The thread that is in its handler, and how often it has asked. */
static _Atomic pthread_t in_handler;
static atomic_int asked, handled;

static void asks(void)
{
    if (atomic_load(&in_handler) == pthread_self())
        atomic_fetch_add(&asked, 1);
}

void *malloc(size_t size)
{
    asks();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    asks();
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    asks();
    return __libc_realloc(old, size);
}

static int (*up)(chappe_semaphore *);
static int (*down_one)(chappe_semaphore *);
static chappe_semaphore *own;

static void ups(int signal)
{
    (void)signal;
    atomic_store(&in_handler, pthread_self());
    /* To the one that waits, and to be saved. */
    int first = up(own), second = up(own);
    atomic_store(&in_handler, 0);
    atomic_store(&handled, first == 0 && second == 0 ? 1 : -1);
}

static void *was_there(void *unused)
{
    (void)unused;
    while (atomic_load(&handled) == 0)
        usleep(200);
    return NULL;
}

static void *waits(void *unused)
{
    (void)unused;
    OK(down_one(own));
    return NULL;
}

static void from_a_handler(void *library, pthread_t before)
{
    int (*make)(int64_t, uint32_t, chappe_semaphore **);
    ptrdiff_t (*waiters)(const chappe_semaphore *, chappe_waiter *, size_t);
    *(void **)&make = dlsym(library, "chappe_semaphore_private");
    *(void **)&waiters = dlsym(library, "chappe_semaphore_waiters");
    *(void **)&up = dlsym(library, "chappe_semaphore_up");
    *(void **)&down_one = dlsym(library, "chappe_semaphore_down");
    CHECK(make && waiters && up && down_one);
    OK(make(0, 0, &own));
    pthread_t waiter = thread(waits, NULL);
    EVENTUALLY(waiters(own, NULL, 0) == 1);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ups;
    OK(sigaction(SIGUSR1, &action, NULL));
    OK(pthread_kill(before, SIGUSR1));
    joined(before);
    joined(waiter);
    IS(atomic_load(&handled), 1);
    IS(atomic_load(&asked), 0);
    OK(down_one(own));
}

int main(int argc, char **argv)
{
    IS(argc, 2);
    pthread_t before = thread(was_there, NULL);
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        CHECK(library != NULL);
        int (*make)(const char *, int64_t, chappe_semaphore **);
        int (*down)(chappe_semaphore *, int64_t);
        int (*done)(chappe_semaphore *);
        chappe_semaphore *s;
        *(void **)&make = dlsym(library, "chappe_semaphore_open_or_create");
        *(void **)&down = dlsym(library, "chappe_semaphore_down_timeout");
        *(void **)&done = dlsym(library, "chappe_semaphore_close");
        CHECK(make && down && done);
        OK(make("loaded", 0, &s));
        /* It sleeps, so there is a thread that watches. */
        IS(down(s, 5 * CHAPPE_MILLISECOND), -ETIMEDOUT);
        OK(done(s));
        if (i == 0)
            from_a_handler(library, before);
        OK(dlclose(library));
    }
    return 0;
}
