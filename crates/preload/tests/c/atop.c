/* A thread is cancelled while a handler runs on top of its wait, which goes on until it is told; and one that has jumped out of its wait.
 * The canceller does not wait for either. */
#include "said.h"
#include <setjmp.h>

static sem_t s;
static sigjmp_buf out;
static atomic_int tid, inside, go, cleaned;

static void stays(int sig) {
    (void)sig;
    atomic_store(&inside, 1);
    while (!atomic_load(&go))
        ;
}

static void jumps(int sig) {
    (void)sig;
    siglongjmp(out, 1);
}

static void clean(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static void *waits(void *unused) {
    (void)unused;
    pthread_cleanup_push(clean, NULL);
    if (sigsetjmp(out, 1) == 0) {
        atomic_store(&tid, gettid());
        sem_wait(&s);
        abort();
    }
    /* By a jump. */
    atomic_store(&inside, 1);
    while (!atomic_load(&go))
        ;
    sem_wait(&s);
    abort();
    pthread_cleanup_pop(0);
    return NULL;
}

/* Others come and go meanwhile: each has an ear. */
static void *others(void *unused) {
    (void)unused;
    struct timespec t = on(CLOCK_MONOTONIC, 1);
    MUST(sem_clockwait(&s, CLOCK_MONOTONIC, &t) == -1 && errno == ETIMEDOUT);
    return NULL;
}

static void one(const char *what, int shared, void (*handler)(int)) {
    pthread_t t, other;
    void *r;
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(sem_init(&s, shared, 0) == 0);
    atomic_store(&tid, 0);
    atomic_store(&inside, 0);
    atomic_store(&go, 0);
    atomic_store(&cleaned, 0);
    MUST(pthread_create(&t, NULL, waits, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
    MUST(pthread_kill(t, SIGUSR1) == 0);
    while (!atomic_load(&inside))
        usleep(100);
    MUST(pthread_cancel(t) == 0);
    MUST(pthread_create(&other, NULL, others, NULL) == 0 && pthread_join(other, NULL) == 0);
    atomic_store(&go, 1);
    MUST(pthread_join(t, &r) == 0);
    printf("%s, %s: %s, cleaned %d, value %d\n", what, shared ? "shared" : "private",
           r == PTHREAD_CANCELED ? "cancelled" : "went on", atomic_load(&cleaned), value_of(&s));
    fflush(stdout);
}

int main(void) {
    for (int shared = 0; shared < 2; shared++) {
        one("in a handler", shared, stays);
        one("behind a jump", shared, jumps);
    }
    return 0;
}
