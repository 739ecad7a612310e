/* Semaphores in shared memory that has a name: they last as long as that, whichever process made them, and whichever uses them. */
#include "said.h"

static sem_t *map(const char *name) {
    int fd = shm_open(name, O_RDWR, 0);
    MUST(fd >= 0);
    sem_t *s = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(s != MAP_FAILED);
    close(fd);
    return s;
}

/* What a process does with it that is begun anew. */
static int act(const char *what, const char *name) {
    sem_t *s = map(name), *second = (sem_t *)(void *)((char *)s + 4096 + 64);
    if (strcmp(what, "make") == 0)
        return sem_init(s, 1, 5) == 0 && sem_init(second, 1, 7) == 0 && sem_wait(s) == 0 ? 0 : 1;
    if (strcmp(what, "use") == 0)
        return sem_wait(s) == 0 && sem_post(second) == 0 ? 0 : 1;
    if (strcmp(what, "again") == 0)
        return sem_init(s, 1, 9) == 0 ? 0 : 1;
    if (strcmp(what, "destroy") == 0)
        return sem_destroy(second) == 0 ? 0 : 1;
    if (strcmp(what, "other") == 0) {
        /* Something else in shared memory, of this process and its children. */
        sem_t *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return own != MAP_FAILED && sem_init(own, 1, 1) == 0 && sem_wait(own) == 0 ? 0 : 1;
    }
    printf("%d %d\n", value_of(s), value_of(second));
    return 0;
}

int main(int argc, char **argv) {
    char name[64];
    const char *all[] = {"make", "show", "other", "use", "other", "show", "again", "show", "other", "use", "show", "destroy"};
    if (argc > 2)
        return act(argv[1], argv[2]);
    snprintf(name, sizeof name, "/chappe-lasting-%d", getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    MUST(fd >= 0 && ftruncate(fd, 8192) == 0);
    close(fd);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        printf("%s\n", all[i]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], all[i], name, (char *)NULL);
            _exit(98);
        }
        int status;
        MUST(waitpid(child, &status, 0) == child);
        printf("status %d\n", status);
    }
    /* Mapped, it outlives its name. */
    sem_t *s = map(name);
    MUST(shm_unlink(name) == 0);
    MUST(sem_wait(s) == 0);
    printf("without its name: %d\n", value_of(s));
    return 0;
}
