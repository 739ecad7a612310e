/* A library whose constructor uses semaphores before anybody else does: before the constructor of ours, too. */
#include "said.h"

static sem_t s;

__attribute__((constructor)) static void first(void) {
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    MUST(sem_init(&s, 0, 0) == 0 && sem_post(&s) == 0 && sem_wait(&s) == 0);
    MUST(sem_init(shared, 1, 1) == 0 && sem_wait(shared) == 0 && sem_post(shared) == 0);
    MUST(sem_destroy(shared) == 0 && munmap(shared, 4096) == 0);
}
