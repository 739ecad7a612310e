/* A file of a semaphore that is too short to be one. The argument: where such files are. */
#include "said.h"

static void opens(const char *how, int flags) {
    errno = 0;
    sem_t *s = sem_open("/short", flags, 0600, 0);
    printf("%s: %s\n", how, s == SEM_FAILED ? named(errno) : "opened");
}

int main(int count, char **words) {
    char path[PATH_MAX];
    MUST(count == 2);
    /* This makes the directory. */
    MUST(sem_open("/long", O_CREAT, 0600, 0) != SEM_FAILED);
    snprintf(path, sizeof path, "%s/sem.short", words[1]);
    for (int size = 0; size <= 31; size += 31) {
        int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        MUST(file >= 0 && ftruncate(file, size) == 0 && close(file) == 0);
        opens("it is there", 0);
        opens("it is made if need be", O_CREAT);
        opens("it is to be new", O_CREAT | O_EXCL);
    }
    MUST(unlink(path) == 0 && sem_unlink("/long") == 0);
    return 0;
}
