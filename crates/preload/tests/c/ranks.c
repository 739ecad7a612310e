/* Threads with real-time priorities wait; each post must wake the one of the highest, and of those the one that came first. (As in LTP's
 * sem_post/8-1.) */
#include "said.h"

#include <sched.h>

enum { WAITERS = 5 };

static const int priorities[WAITERS] = {0, 10, 30, 10, 0};
static const int first[WAITERS] = {2, 1, 3, 0, 4};

static sem_t *s, ready;
static atomic_int tids[WAITERS], served;
static int order[WAITERS];

static void *waiter(void *number) {
    int k = (int)(long)number;
    if (priorities[k] > 0) {
        struct sched_param its = {.sched_priority = priorities[k]};
        MUST(sched_setscheduler(0, SCHED_FIFO, &its) == 0);
    }
    atomic_store(&tids[k], gettid());
    MUST(sem_post(&ready) == 0);
    MUST(sem_wait(s) == 0);
    order[atomic_load(&served)] = k;
    atomic_fetch_add(&served, 1);
    return NULL;
}

static void one(const char *what, sem_t *here) {
    pthread_t t[WAITERS];
    s = here;
    atomic_store(&served, 0);
    MUST(sem_init(&ready, 0, 0) == 0);
    for (int k = 0; k < WAITERS; k++) {
        MUST(pthread_create(&t[k], NULL, waiter, (void *)(long)k) == 0);
        MUST(sem_wait(&ready) == 0);
        until_asleep(getpid(), atomic_load(&tids[k]));
    }
    for (int i = 0; i < WAITERS; i++) {
        MUST(sem_post(s) == 0);
        while (atomic_load(&served) <= i)
            usleep(200);
    }
    for (int k = 0; k < WAITERS; k++)
        MUST(pthread_join(t[k], NULL) == 0);
    int wrong = 0;
    for (int k = 0; k < WAITERS; k++)
        wrong += order[k] != first[k];
    printf("%s: %d out of order\n", what, wrong);
}

int main(void) {
    struct sched_param its = {.sched_priority = 1}, usual = {.sched_priority = 0};
    if (sched_setscheduler(0, SCHED_FIFO, &its) != 0) {
        printf("refused\n");
        return 0;
    }
    MUST(sched_setscheduler(0, SCHED_OTHER, &usual) == 0);
    sem_t local;
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && sem_init(&local, 0, 0) == 0 && sem_init(shared, 1, 0) == 0);
    one("private", &local);
    one("shared", shared);
    /* What starts at 1 may be a lock, of which a death returns what it had. */
    sem_t *named = sem_open("/chappe-ranks", O_CREAT, 0600, 1);
    MUST(named != SEM_FAILED && sem_unlink("/chappe-ranks") == 0 && sem_wait(named) == 0);
    one("named", named);
    return 0;
}
