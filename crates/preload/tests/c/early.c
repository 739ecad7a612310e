/* A constructor that uses semaphores, threads and forks before main. */
#include "said.h"

static sem_t s;

static void *posts(void *unused) {
    (void)unused;
    sem_post(&s);
    return NULL;
}

__attribute__((constructor(101))) static void early(void) {
    pthread_t t;
    MUST(sem_init(&s, 0, 0) == 0);
    MUST(pthread_create(&t, NULL, posts, NULL) == 0);
    MUST(sem_wait(&s) == 0);
    MUST(pthread_join(t, NULL) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(sem_post(&s) == 0 && sem_wait(&s) == 0 ? 0 : 1);
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

__attribute__((destructor)) static void late(void) {
    MUST(sem_post(&s) == 0 && sem_wait(&s) == 0 && sem_destroy(&s) == 0);
    printf("done\n");
}

int main(void) {
    return 0;
}
