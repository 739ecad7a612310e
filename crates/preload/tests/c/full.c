/* Processes for which the arena has no room, and a semaphore that starts at 1: they take it and give it back as others do. */
#include "said.h"

enum { WAITERS = 6 };

static sem_t *made(const char *what, unsigned value) {
    char name[64];
    snprintf(name, sizeof name, "/chappe-full-%s-%d", what, getpid());
    sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, value);
    MUST(s != SEM_FAILED && sem_unlink(name) == 0);
    return s;
}

int main(void) {
    sem_t *lock = made("lock", 1), *gate = made("gate", 0);
    int begun[2];
    char byte;
    pid_t waiters[WAITERS];
    MUST(pipe(begun) == 0);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = fork();
        MUST(waiters[i] >= 0);
        if (waiters[i] == 0) {
            /* One that has room waits in it once it has looked. */
            struct timespec past = on(CLOCK_REALTIME, 1);
            MUST(sem_timedwait(gate, &past) == -1 && errno == ETIMEDOUT && write(begun[1], "", 1) == 1);
            _exit(sem_wait(gate) == 0 ? 0 : 1);
        }
        MUST(read(begun[0], &byte, 1) == 1);
    }
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        struct timespec soon = on(CLOCK_REALTIME, 30000);
        SAY("wait", sem_timedwait(lock, &soon));
        SAY("value", value_of(lock));
        SAY("trywait", sem_trywait(lock));
        soon = on(CLOCK_REALTIME, 20);
        SAY("timedwait", sem_timedwait(lock, &soon));
        SAY("post", sem_post(lock));
        SAY("trywait", sem_trywait(lock));
        SAY("post", sem_post(lock));
        SAY("value", value_of(lock));
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("status %d\n", status);
    SAY("wait", sem_wait(lock));
    for (int i = 0; i < WAITERS; i++)
        MUST(sem_post(gate) == 0);
    for (int i = 0; i < WAITERS; i++) {
        MUST(waitpid(waiters[i], &status, 0) == waiters[i]);
        printf("status %d\n", status);
    }
    return 0;
}
