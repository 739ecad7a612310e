/* The first thread ends where there is little room for another: the process ends all the same, with the last of its threads. */
#include "said.h"
#include <sys/resource.h>

/* Bytes of address space beside what the process has once its semaphore has its helpers. */
static const rlim_t ROOM = 1 << 20;

static void at_exit(void) {
    printf("exit\n");
}

static void *last(void *unused) {
    (void)unused;
    while (!has_left())
        usleep(1000);
    return NULL;
}

int main(void) {
    long pages;
    pthread_t t;
    pthread_attr_t alone;
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec soon = on(CLOCK_REALTIME, 20);
    MUST(s != MAP_FAILED && sem_init(s, 1, 0) == 0 && atexit(at_exit) == 0);
    MUST(sem_timedwait(s, &soon) == -1 && errno == ETIMEDOUT);
    MUST(pthread_attr_init(&alone) == 0 && pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED) == 0);
    MUST(pthread_create(&t, &alone, last, NULL) == 0);
    FILE *f = fopen("/proc/self/statm", "r");
    MUST(f != NULL && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    alarm(30);
    struct rlimit most = {(rlim_t)(pages * sysconf(_SC_PAGESIZE)) + ROOM, RLIM_INFINITY};
    MUST(setrlimit(RLIMIT_AS, &most) == 0);
    pthread_exit(NULL);
}
