/* Workers take and give, and are killed at random moments. A unit that was held goes with its holder (or comes back, with --owned), and one
 * more than there were may come of a kill never. So after each kill one is given; all others must go on.
 */
#include "said.h"

enum { WORKERS = 4, UNITS = 2 };

struct common {
    sem_t s;
    atomic_long turns[WORKERS];
};

static void work(struct common *c, sem_t *s, int k) {
    for (;;) {
        if (sem_wait(s) != 0)
            _exit(1);
        atomic_fetch_add(&c->turns[k], 1);
        if (sem_post(s) != 0)
            _exit(2);
    }
}

static pid_t begin(struct common *c, sem_t *s, int k) {
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        work(c, s, k);
    return child;
}

static void one(const char *what, struct common *c, sem_t *s, int kills) {
    pid_t workers[WORKERS];
    unsigned dice = 12345;
    for (int k = 0; k < WORKERS; k++)
        workers[k] = begin(c, s, k);
    for (int i = 0; i < kills; i++) {
        dice = dice * 1664525 + 1013904223;
        int victim = dice >> 16 & (WORKERS - 1);
        usleep(dice >> 24);
        MUST(kill(workers[victim], SIGKILL) == 0);
        int status;
        MUST(waitpid(workers[victim], &status, 0) == workers[victim]);
        MUST(WIFSIGNALED(status));
        MUST(sem_post(s) == 0);
        workers[victim] = begin(c, s, victim);
        /* Each of them, and the new one, has a turn again. */
        for (int k = 0; k < WORKERS; k++) {
            long before = atomic_load(&c->turns[k]);
            while (atomic_load(&c->turns[k]) == before)
                usleep(50);
        }
    }
    for (int k = 0; k < WORKERS; k++) {
        MUST(kill(workers[k], SIGKILL) == 0);
        MUST(waitpid(workers[k], NULL, 0) == workers[k]);
    }
    printf("%s: all go on\n", what);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int kills = argc > 1 ? atoi(argv[1]) : 10;
    struct common *c = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(c != MAP_FAILED && sem_init(&c->s, 1, UNITS) == 0);
    one("memory", c, &c->s, kills);
    sem_t *named = sem_open("/chappe-kills", O_CREAT, 0600, UNITS);
    MUST(named != SEM_FAILED && sem_unlink("/chappe-kills") == 0);
    one("named", c, named, kills);
    return 0;
}
