/* Processes that make, open, unlink and close a name are killed at random moments. The next process gets a whole semaphore, and in the end
 * nothing is left.
 */
#include "said.h"

static void churn(void) {
    for (;;) {
        sem_t *s = sem_open("/chappe-makers", O_CREAT, 0600, 1000000);
        if (s == SEM_FAILED)
            _exit(1);
        if (sem_wait(s) != 0 || sem_post(s) != 0)
            _exit(2);
        if (sem_unlink("/chappe-makers") != 0 && errno != ENOENT)
            _exit(3);
        if (sem_close(s) != 0)
            _exit(4);
    }
}

int main(int argc, char **argv) {
    int kills = argc > 1 ? atoi(argv[1]) : 10;
    unsigned dice = 4711;
    for (int i = 0; i < kills; i++) {
        pid_t workers[2];
        for (int k = 0; k < 2; k++) {
            workers[k] = fork();
            MUST(workers[k] >= 0);
            if (workers[k] == 0)
                churn();
        }
        for (int k = 0; k < 2; k++) {
            dice = dice * 1664525 + 1013904223;
            usleep(500 + (dice >> 21));
            int status;
            MUST(kill(workers[k], SIGKILL) == 0);
            MUST(waitpid(workers[k], &status, 0) == workers[k]);
            MUST(WIFSIGNALED(status));
        }
        sem_t *s = sem_open("/chappe-makers", O_CREAT, 0600, 1000000);
        MUST(s != SEM_FAILED && value_of(s) >= 999990 && sem_wait(s) == 0 && sem_post(s) == 0 && sem_close(s) == 0);
    }
    /* What the dead have left is cleared up with every 32nd that is made. */
    MUST(sem_unlink("/chappe-makers") == 0 || errno == ENOENT);
    for (int i = 0; i < 33; i++) {
        sem_t *s = sem_open("/chappe-makers", O_CREAT | O_EXCL, 0600, 1);
        MUST(s != SEM_FAILED && sem_unlink("/chappe-makers") == 0 && sem_close(s) == 0);
    }
    printf("all names are well\n");
    return 0;
}
