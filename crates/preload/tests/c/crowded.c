/* Names that begin alike, more of them than a small arena has room for: each is a semaphore of its own, from its making to its end. */
#include "said.h"

static const char *called(int i) {
    static char name[128];
    snprintf(name, sizeof name, "/chappe-crowded-with-a-beginning-that-is-longer-than-what-is-kept-of-it-%d", i);
    return name;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    for (int i = 0; i < count; i++) {
        sem_t *s = sem_open(called(i), O_CREAT | O_EXCL, 0600, i);
        MUST(s != SEM_FAILED && sem_post(s) == 0 && sem_close(s) == 0);
    }
    for (int i = 0; i < count; i++) {
        sem_t *s = sem_open(called(i), 0);
        MUST(s != SEM_FAILED && value_of(s) == i + 1 && sem_wait(s) == 0 && sem_close(s) == 0);
    }
    printf("%d names\n", count);
    for (int i = 0; i < count; i++)
        MUST(sem_unlink(called(i)) == 0);
    return 0;
}
