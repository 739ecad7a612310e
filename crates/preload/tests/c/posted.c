/* A waiter that was posted to no longer waits: the semaphore may be destroyed at once, and the wait ends well. With an argument its memory is
 * used for something else at once, which the C library does not allow.
 */
#include "said.h"

enum { ROUNDS = 12 };

static sem_t *s;
static atomic_int tid;

static void *waits(void *nothing) {
    (void)nothing;
    atomic_store(&tid, gettid());
    return (void *)(long)(sem_wait(s) == 0 ? 0 : errno);
}

static void after(int is_used_again) {
    MUST(sem_post(s) == 0);
    MUST(sem_destroy(s) == 0);
    if (is_used_again)
        MUST(sem_init(s, 0, 3) == 0);
}

/* Another thread waits. */
static int thread_waits(int is_used_again) {
    pthread_t t;
    void *e;
    atomic_store(&tid, 0);
    MUST(pthread_create(&t, NULL, waits, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    MUST(until_asleep(getpid(), atomic_load(&tid)));
    after(is_used_again);
    MUST(pthread_join(t, &e) == 0);
    return e == NULL;
}

/* Another process does. */
static int child_waits(int is_used_again) {
    int status;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(sem_wait(s) == 0 ? 0 : errno);
    MUST(until_asleep(child, child));
    after(is_used_again);
    MUST(waitpid(child, &status, 0) == child);
    return status == 0;
}

/* One that starts at 1 may be a lock. */
static void try(const char *what, sem_t *at, int is_shared, unsigned value, int (*round)(int), int is_used_again) {
    int well = 0;
    s = at;
    for (int i = 0; i < ROUNDS; i++) {
        MUST(sem_init(s, is_shared, value) == 0);
        if (value != 0)
            MUST(sem_wait(s) == 0);
        well += round(is_used_again);
        if (is_used_again)
            MUST(value_of(s) == 3 && sem_destroy(s) == 0);
    }
    printf("%s: %d of %d\n", what, well, ROUNDS);
    fflush(stdout);
}

int main(int argc, char **argv) {
    (void)argv;
    sem_t own, *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    try("private", &own, 0, 0, thread_waits, argc > 1);
    try("shared", shared, 1, 0, thread_waits, argc > 1);
    try("a lock", shared + 1, 1, 1, thread_waits, argc > 1);
    try("another process", shared + 2, 1, 0, child_waits, argc > 1);
    try("another process, a lock", shared + 3, 1, 1, child_waits, argc > 1);
    return 0;
}
