/* A handler posts while its thread forks: the signal comes where our library changes the signal mask for the n-th time in a fork, which it does
 * about the locks that a fork takes. Its thread has not used the semaphore before. Goes on until there is no n-th time and all posts
 * have arrived; prints how many times there were.
 */
#include "said.h"
#include <sys/syscall.h>

static struct {
    sem_t s;
    atomic_int posts, taken;
} *shared;
static atomic_int tid;
/* Only for the process that forks. */
static __thread volatile sig_atomic_t left;
static int times;
static int none;

static void posts(int sig) {
    (void)sig;
    MUST(sem_post(&shared->s) == 0);
    atomic_fetch_add(&shared->posts, 1);
}

static int set_mask(int how, const sigset_t *set, sigset_t *old) {
    return syscall(SYS_rt_sigprocmask, how, set, old, 8) == 0 ? 0 : errno;
}

static void once(void) {
    if (left > 0 && --left == 0)
        MUST(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0);
}

/* What our library calls. What is kept out comes when it is let in. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    int lets_in = set == NULL || how == SIG_UNBLOCK || !sigismember(set, SIGUSR1);
    if (lets_in)
        once();
    int e = set_mask(how, set, old);
    if (!lets_in)
        once();
    return e;
}

static void *forks(void *nothing) {
    int status;
    (void)nothing;
    left = ++times;
    pid_t child = fork();
    int is_last = left > 0;
    left = 0;
    if (child == 0) {
        alarm(60);
        MUST(sem_post(&shared->s) == 0);
        atomic_fetch_add(&shared->posts, 1);
        sigset_t now;
        MUST(set_mask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
        _exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    sigset_t now;
    MUST(set_mask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
    return is_last ? &none : NULL;
}

/* A thread waits: so the poster must be a member of the arena. */
static void *waits(void *nothing) {
    atomic_store(&tid, gettid());
    for (;;) {
        MUST(sem_wait(&shared->s) == 0);
        atomic_fetch_add(&shared->taken, 1);
    }
    return nothing;
}

int main(void) {
    struct sigaction a = {.sa_handler = posts};
    sigset_t other;
    void *end = NULL;
    pthread_t waiter;
    alarm(60);
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(sigemptyset(&other) == 0 && sigaddset(&other, SIGUSR2) == 0 && set_mask(SIG_BLOCK, &other, NULL) == 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && sem_init(&shared->s, 1, 0) == 0);
    MUST(pthread_create(&waiter, NULL, waits, NULL) == 0);
    while (end == NULL) {
        while (atomic_load(&tid) == 0 || atomic_load(&shared->taken) != atomic_load(&shared->posts))
            usleep(100);
        MUST(until_asleep(getpid(), atomic_load(&tid)));
        pthread_t t;
        MUST(pthread_create(&t, NULL, forks, NULL) == 0 && pthread_join(t, &end) == 0);
    }
    while (atomic_load(&shared->taken) != atomic_load(&shared->posts))
        usleep(100);
    printf("%d times\n", times - 1);
    return 0;
}
