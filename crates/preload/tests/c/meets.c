/* A semaphore in memory that another program has made: at its first use here a handler posts on it, when our library compares names of
 * arenas for the n-th time, which it does under a lock among other places. Prints how many times the handler has run, and the value.
 */
#include "said.h"

static sem_t *s;
static volatile sig_atomic_t left, ran;

static void posts(int sig) {
    (void)sig;
    ran++;
    MUST(sem_post(s) == 0);
}

/* What Rust compares strings by: this one or that, as it was compiled. */
int memcmp(const void *a, const void *b, size_t n) {
    const volatile unsigned char *x = a, *y = b;
    if (left > 0 && n > 7 && x[0] == 'f' && y[0] == 'f' && x[6] == '-' && y[6] == '-' && --left == 0)
        raise(SIGUSR1);
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

int bcmp(const void *a, const void *b, size_t n) {
    return memcmp(a, b, n);
}

static sem_t *map(int fd) {
    sem_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    MUST(at != MAP_FAILED);
    return at;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        char number[16];
        int fd = memfd_create("meets", 0), status;
        MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
        MUST(sem_init(map(fd), 1, 0) == 0);
        snprintf(number, sizeof number, "%d", fd);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], number, argv[1], NULL);
            _exit(98);
        }
        MUST(waitpid(child, &status, 0) == child && status == 0);
        return 0;
    }
    struct sigaction a = {.sa_handler = posts};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    /* An arena of this program's own, whose name is as long. */
    MUST(sem_init(map(-1), 1, 0) == 0);
    s = map(atoi(argv[1]));
    left = atoi(argv[2]);
    MUST(argc == 3 && (sem_trywait(s) == -1 || ran));
    left = 0;
    while (sem_trywait(s) == 0)
        ;
    MUST(sem_post(s) == 0);
    printf("ran %d times, value %d\n", (int)ran, value_of(s));
    return 0;
}
