/* A library whose constructor uses semaphores before anybody else does. It holds one around each fork. With NONE it has no handlers for
 * that. */
#include "said.h"

static sem_t s;

#ifndef NONE
static void fresh(void) {
    sem_t other;
    MUST(sem_init(&other, 0, 1) == 0 && sem_wait(&other) == 0 && sem_destroy(&other) == 0);
}

static void before(void) {
    MUST(sem_wait(&s) == 0);
    fresh();
}

static void after(void) {
    fresh();
    MUST(sem_post(&s) == 0);
}
#endif

__attribute__((constructor)) static void first(void) {
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
#ifndef NONE
    MUST(pthread_atfork(before, after, after) == 0);
#endif
    MUST(shared != MAP_FAILED);
    MUST(sem_init(&s, 0, 0) == 0 && sem_post(&s) == 0 && sem_wait(&s) == 0 && sem_post(&s) == 0);
    MUST(sem_init(shared, 1, 1) == 0 && sem_wait(shared) == 0 && sem_post(shared) == 0);
    MUST(sem_destroy(shared) == 0 && munmap(shared, 4096) == 0);
}
