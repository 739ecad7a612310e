/* Handlers that wait themselves, or jump out of the wait that they have interrupted: not allowed by POSIX, and they work. */
#include "said.h"
#include <setjmp.h>

static sem_t s, other, *inner;
static sigjmp_buf out;
static atomic_int tid, inside;

/* New semaphores, at 0, and what SIGUSR1 does; nobody waits yet, or has come back from anywhere. */
static void begin(int shared, void (*handler)(int), int flags) {
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(sem_init(&s, shared, 0) == 0 && sem_init(&other, shared, 0) == 0);
    atomic_store(&inside, 0);
    atomic_store(&tid, 0);
}

static void until_inside(int times) {
    while (atomic_load(&inside) != times)
        usleep(100);
}

/* Until the thread that has told its number sleeps in its wait. */
static void until_it_waits(void) {
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
}

/* The wait that it is in now can be cancelled, and takes nothing. */
static void cancelled(pthread_t t, const char *what, int shared) {
    void *r;
    MUST(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0);
    printf("%s, %s: %s, values %d %d\n", what, shared ? "shared" : "private",
           r == PTHREAD_CANCELED ? "cancelled" : "else", value_of(&s), value_of(&other));
}

static void jumps(int sig) {
    (void)sig;
    siglongjmp(out, 1);
}

static void *jumper(void *times) {
    volatile int jumped = 0;
    while (jumped < (int)(long)times) {
        if (sigsetjmp(out, 1) == 0) {
            atomic_store(&tid, gettid());
            sem_wait(jumped % 2 ? &s : &other);
            abort();
        }
        jumped++;
        atomic_store(&tid, 0);
        atomic_fetch_add(&inside, 1);
    }
    /* Then it waits as ever: for one, then the other. */
    MUST(sem_wait(&s) == 0 && sem_wait(&other) == 0);
    atomic_store(&tid, gettid());
    sem_wait(&s);
    abort();
}

static void jumping(int shared) {
    pthread_t t;
    begin(shared, jumps, 0);
    MUST(pthread_create(&t, NULL, jumper, (void *)20L) == 0);
    for (int i = 0; i < 20; i++) {
        until_inside(i);
        until_it_waits();
        MUST(pthread_kill(t, SIGUSR1) == 0);
    }
    until_inside(20);
    MUST(sem_post(&s) == 0 && sem_post(&other) == 0);
    until_it_waits();
    cancelled(t, "jumped", shared);
}

/* Its frame lies where the wait's was that was jumped out of. */
__attribute__((noinline)) static int deeper(void) {
    volatile char room[4096];
    room[0] = 0;
    atomic_store(&tid, gettid());
    int r = sem_wait(&s);
    return r + room[0];
}

static void *jumps_and_waits_deeper(void *unused) {
    (void)unused;
    if (sigsetjmp(out, 1) == 0) {
        atomic_store(&tid, gettid());
        sem_wait(&other);
        abort();
    }
    atomic_store(&tid, 0);
    atomic_fetch_add(&inside, 1);
    for (int i = 0; i < 2; i++)
        MUST(deeper() == 0);
    deeper();
    abort();
}

/* It waits deeper on its stack than the wait that it has left: asleep, in its place, and so that it can be cancelled. */
static void jumping_deeper(int shared) {
    pthread_t t;
    begin(shared, jumps, 0);
    MUST(pthread_create(&t, NULL, jumps_and_waits_deeper, NULL) == 0);
    until_it_waits();
    MUST(pthread_kill(t, SIGUSR1) == 0);
    until_inside(1);
    for (int i = 0; i < 3; i++) {
        /* A thread that polls is never asleep for long. */
        until_it_waits();
        atomic_store(&tid, 0);
        if (i < 2)
            MUST(sem_post(&s) == 0);
    }
    cancelled(t, "jumped, and deeper", shared);
}

static void waits(int sig) {
    (void)sig;
    struct timespec t = on(CLOCK_MONOTONIC, 1);
    MUST(sem_clockwait(&other, CLOCK_MONOTONIC, &t) == -1 && errno == ETIMEDOUT);
    atomic_store(&inside, 1);
    MUST(sem_wait(inner) == 0);
    atomic_store(&inside, 2);
}

static void *waiter(void *unused) {
    (void)unused;
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    MUST(sigaltstack(&stack, NULL) == 0);
    atomic_store(&tid, gettid());
    MUST(sem_wait(&s) == 0);
    return NULL;
}

/* In the handler it waits on another one, or on the very same. */
static void nested(int shared, int same, int flags) {
    pthread_t t;
    sem_t third;
    begin(shared, waits, SA_RESTART | flags);
    MUST(sem_init(&third, shared, 0) == 0);
    inner = same ? &s : &third;
    MUST(pthread_create(&t, NULL, waiter, NULL) == 0);
    until_it_waits();
    MUST(pthread_kill(t, SIGUSR1) == 0);
    until_inside(1);
    if (same) {
        /* One for each of the two waits. */
        MUST(sem_post(&s) == 0);
        MUST(sem_post(&s) == 0);
    } else {
        MUST(sem_post(&third) == 0);
        until_inside(2);
        MUST(sem_post(&s) == 0);
    }
    MUST(pthread_join(t, NULL) == 0);
    printf("nested, %s, %s, %s: values %d %d\n", shared ? "shared" : "private", same ? "the same" : "another",
           flags ? "on its own stack" : "on the same stack", value_of(&s), value_of(&third));
}

int main(void) {
    for (int shared = 0; shared < 2; shared++) {
        jumping(shared);
        jumping_deeper(shared);
        nested(shared, 0, 0);
        nested(shared, 1, 0);
        nested(shared, 0, SA_ONSTACK);
        nested(shared, 1, SA_ONSTACK);
    }
    return 0;
}
