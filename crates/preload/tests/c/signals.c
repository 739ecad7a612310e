/* A signal handler runs while a thread waits: which waits end with EINTR, and which go on. */
#include "said.h"

static sem_t s;
static atomic_int handled;
static atomic_int tid;
static const char *kind;

static void handler(int sig) {
    (void)sig;
    atomic_fetch_add(&handled, 1);
}

static void poster(int sig) {
    (void)sig;
    sem_post(&s);
    atomic_fetch_add(&handled, 1);
}

static int waits(void) {
    struct timespec t = on(CLOCK_REALTIME, 1000000), m = on(CLOCK_MONOTONIC, 1000000);
    if (strcmp(kind, "wait") == 0)
        return sem_wait(&s);
    if (strcmp(kind, "timedwait") == 0)
        return sem_timedwait(&s, &t);
    if (strcmp(kind, "clockwait, realtime") == 0)
        return sem_clockwait(&s, CLOCK_REALTIME, &t);
    return sem_clockwait(&s, CLOCK_MONOTONIC, &m);
}

static void *waiter(void *unused) {
    (void)unused;
    atomic_store(&tid, gettid());
    errno = 0;
    int r = waits();
    printf("  %d %s\n", r, named(errno));
    return NULL;
}

static void one(int restarts, int shared, int posts) {
    pthread_t t;
    struct sigaction a = {.sa_handler = posts ? poster : handler, .sa_flags = restarts ? SA_RESTART : 0};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(sem_init(&s, shared, 0) == 0);
    atomic_store(&handled, 0);
    atomic_store(&tid, 0);
    printf("%s, %s, %s, %s:\n", kind, restarts ? "SA_RESTART" : "no SA_RESTART", shared ? "shared" : "private",
           posts ? "the handler posts" : "the handler does nothing");
    MUST(pthread_create(&t, NULL, waiter, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
    MUST(pthread_kill(t, SIGUSR1) == 0);
    while (atomic_load(&handled) == 0)
        usleep(100);
    if (!posts && restarts && strcmp(kind, "wait") == 0) {
        /* It goes on waiting, also after the second. */
        until_asleep(getpid(), atomic_load(&tid));
        MUST(pthread_kill(t, SIGUSR1) == 0);
        while (atomic_load(&handled) < 2)
            usleep(100);
        until_asleep(getpid(), atomic_load(&tid));
        MUST(sem_post(&s) == 0);
    }
    MUST(pthread_join(t, NULL) == 0);
    fflush(stdout);
}

int main(void) {
    const char *kinds[] = {"wait", "timedwait", "clockwait, realtime", "clockwait, monotonic"};
    for (int k = 0; k < 4; k++)
        for (int restarts = 0; restarts < 2; restarts++)
            for (int shared = 0; shared < 2; shared++) {
                kind = kinds[k];
                one(restarts, shared, 0);
            }
    /* Posted in the handler: what is there, is had; whether the wait says EINTR first is luck, so it is restarted. */
    kind = "wait";
    one(1, 0, 1);
    one(1, 1, 1);

    /* A signal that is ignored, or blocked, ends nothing; nor does being stopped. */
    pthread_t t;
    signal(SIGUSR2, SIG_IGN);
    MUST(sem_init(&s, 0, 0) == 0);
    atomic_store(&tid, 0);
    printf("ignored:\n");
    MUST(pthread_create(&t, NULL, waiter, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
    pthread_kill(t, SIGUSR2);
    until_asleep(getpid(), atomic_load(&tid));
    MUST(sem_post(&s) == 0);
    MUST(pthread_join(t, NULL) == 0);
    return 0;
}
