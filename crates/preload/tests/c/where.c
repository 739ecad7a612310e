/* Whose each semaphore is: what its `sem_t` says from byte 8 on. */
#include "said.h"

static void whose(const char *what, sem_t *s) {
    char kind[9] = {0};
    memcpy(kind, (char *)s + 8, 8);
    printf("%s: %s\n", what, memcmp(kind, "chappe", 6) == 0 ? kind : "the C library");
}

/* In memory that any user may write. */
static sem_t *in_everybodys_file(const char *name) {
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    MUST(fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, 4096) == 0);
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(s != MAP_FAILED && sem_init(s, 1, 1) == 0 && sem_wait(s) == 0 && sem_post(s) == 0 && shm_unlink(name) == 0);
    return s;
}

/* With an argument, it changes its environment first. */
int main(int argc, char **argv) {
    char name[64];
    if (argc > 1)
        MUST(clearenv() == 0 && setenv("CHAPPE_DIR", argv[1], 1) == 0 && setenv("CHAPPE_RUN_OWNED", "1", 1) == 0);
    sem_t local, *heap = malloc(sizeof *heap);
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(name, sizeof name, "/chappe-where-%d", getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
    sem_t *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(shared != MAP_FAILED && file != MAP_FAILED);
    MUST(sem_init(&local, 0, 1) == 0 && sem_init(heap, 1, 1) == 0 && sem_init(shared, 1, 1) == 0);
    MUST(sem_init(shared + 1, 1, 2) == 0 && sem_init(file, 1, 1) == 0);
    sem_t *named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    MUST(named != SEM_FAILED && sem_unlink(name) == 0 && shm_unlink(name) == 0);
    whose("on the stack", &local);
    whose("on the heap, for processes", heap);
    whose("shared", shared);
    whose("shared, of 2", shared + 1);
    whose("in a file", file);
    whose("named", named);
    whose("in everybody's file", in_everybodys_file(name));
    MUST(sem_destroy(&local) == 0);
    whose("destroyed", &local);
    return 0;
}
