/* Processes that make, open, use and unlink the same names at once; and sem_t in memory that strangers share. */
#include "said.h"

/* Of all that make it with O_EXCL one succeeds, and all the others that open it find the same one, whole. */
static void exclusive(void) {
    int *won = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(won != MAP_FAILED);
    for (int round = 0; round < 40; round++) {
        char name[64];
        snprintf(name, sizeof name, "/chappe-race-%d", round);
        sem_unlink(name);
        for (int k = 0; k < 6; k++)
            if (fork() == 0) {
                sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 41);
                if (s != SEM_FAILED)
                    __atomic_fetch_add(&won[round], 1, __ATOMIC_SEQ_CST);
                else if (errno != EEXIST)
                    _exit(1);
                else
                    s = sem_open(name, 0);
                _exit(s != SEM_FAILED && sem_post(s) == 0 ? 0 : 2);
            }
        int status, bad = 0;
        while (wait(&status) > 0)
            bad += status != 0;
        sem_t *s = sem_open(name, 0);
        MUST(s != SEM_FAILED);
        MUST(bad == 0 && won[round] == 1 && value_of(s) == 47);
        MUST(sem_unlink(name) == 0 && sem_close(s) == 0);
    }
    printf("exclusive: done\n");
}

/* One name that some make and others unlink, all the time: each gets a whole one or a clear no. */
static void churn(void) {
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            for (int i = 0; i < 300; i++) {
                sem_t *s = sem_open("/chappe-churn", O_CREAT, 0600, 1000000);
                if (s == SEM_FAILED)
                    _exit(1);
                if (sem_wait(s) != 0 || value_of(s) < 999000 || sem_post(s) != 0)
                    _exit(2);
                if (i % 3 == k % 3 && sem_unlink("/chappe-churn") != 0 && errno != ENOENT)
                    _exit(3);
                if (sem_close(s) != 0)
                    _exit(4);
            }
            _exit(0);
        }
    int status, bad = 0;
    while (wait(&status) > 0)
        bad += status != 0;
    sem_unlink("/chappe-churn");
    printf("churn: %d\n", bad);
}

/* A stranger: this very program, begun anew. */
static int stranger(const char *path) {
    int fd = open(path, O_RDWR);
    MUST(fd >= 0);
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(s != MAP_FAILED);
    close(fd);
    for (int i = 0; i < 100; i++)
        MUST(sem_wait(s) == 0 && sem_post(s + 1) == 0);
    return 0;
}

static void strangers(const char *self) {
    char path[64];
    snprintf(path, sizeof path, "/chappe-strangers-%d", getpid());
    int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(s != MAP_FAILED);
    close(fd);
    MUST(sem_init(s, 1, 0) == 0 && sem_init(s + 1, 1, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        char full[80];
        snprintf(full, sizeof full, "/dev/shm%s", path);
        execl("/proc/self/exe", self, full, (char *)NULL);
        _exit(98);
    }
    for (int i = 0; i < 100; i++)
        MUST(sem_post(s) == 0 && sem_wait(s + 1) == 0);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    shm_unlink(path);
    printf("strangers: %d, values %d %d\n", status, value_of(s), value_of(s + 1));
}

int main(int argc, char **argv) {
    if (argc > 1)
        return stranger(argv[1]);
    exclusive();
    churn();
    strangers(argv[0]);
    return 0;
}
