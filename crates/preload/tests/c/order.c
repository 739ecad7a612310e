/* One holds the semaphore and lets it go again and again, at once; others wait. Each release must go to the one that came first. */
#include "said.h"

enum { WAITERS = 4 };

static sem_t *s, ready;
static int served[WAITERS], count;
static atomic_int tids[WAITERS], stop;

static void *waiter(void *number) {
    int k = (int)(long)number;
    atomic_store(&tids[k], gettid());
    sem_post(&ready);
    /* As often as it comes to it: a thread that has posted may be delayed for long before it waits again. */
    do {
        MUST(sem_wait(s) == 0);
        if (count < WAITERS)
            served[count] = k;
        count++;
        MUST(sem_post(s) == 0);
    } while (!atomic_load(&stop));
    return NULL;
}

static void one(const char *what, sem_t *here) {
    pthread_t t[WAITERS];
    s = here;
    count = 0;
    int overtaken = 0;
    atomic_store(&stop, 0);
    MUST(sem_init(&ready, 0, 0) == 0);
    MUST(sem_wait(s) == 0);
    for (int k = 0; k < WAITERS; k++) {
        atomic_store(&tids[k], 0);
        MUST(pthread_create(&t[k], NULL, waiter, (void *)(long)k) == 0);
        MUST(sem_wait(&ready) == 0);
        until_asleep(getpid(), atomic_load(&tids[k]));
    }
    /* All wait: a thread that posts and waits again at once comes behind them all. */
    for (int i = 0; i < 8; i++) {
        /* A thread that has posted, and does not wait again yet, waits for nothing. */
        for (int k = 0; k < WAITERS; k++)
            until_asleep(getpid(), atomic_load(&tids[k]));
        int before = count;
        MUST(sem_post(s) == 0);
        MUST(sem_wait(s) == 0);
        overtaken += count - before < WAITERS;
    }
    atomic_store(&stop, 1);
    MUST(sem_post(s) == 0);
    for (int k = 0; k < WAITERS; k++)
        MUST(pthread_join(t[k], NULL) == 0);
    /* In the order in which they came, at first. */
    for (int k = 0; k < WAITERS; k++)
        overtaken += served[k] != k;
    printf("%s: %d overtaken\n", what, overtaken);
}

int main(void) {
    sem_t local;
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && sem_init(&local, 0, 1) == 0 && sem_init(shared, 1, 1) == 0);
    one("private", &local);
    one("shared", shared);
    sem_t *named = sem_open("/chappe-order", O_CREAT, 0600, 1);
    MUST(named != SEM_FAILED && sem_unlink("/chappe-order") == 0);
    one("named", named);
    return 0;
}
