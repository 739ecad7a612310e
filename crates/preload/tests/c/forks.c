/* What a forked child shares with its parent, and what it has a copy of. */
#include "said.h"

static void end(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status));
    printf("child ended with %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

/* To and fro between parent and child. */
static void ping_pong(const char *what, sem_t *a, sem_t *b) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++)
            if (sem_wait(a) != 0 || sem_post(b) != 0)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < 1000; i++)
        MUST(sem_post(a) == 0 && sem_wait(b) == 0);
    end(child);
    printf("%s: values %d %d\n", what, value_of(a), value_of(b));
}

static void *posts(void *s) {
    sem_post(s);
    return NULL;
}

/* A copy: what either does the other does not see. */
static void copies(const char *what, sem_t *s, int shared) {
    MUST(sem_init(s, shared, 5) == 0);
    MUST(sem_wait(s) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t t;
        int v = value_of(s);
        while (sem_trywait(s) == 0)
            v = v * 10;
        /* The copy can be waited on. */
        if (pthread_create(&t, NULL, posts, s) != 0 || sem_wait(s) != 0 || pthread_join(t, NULL) != 0)
            _exit(1);
        _exit(v == 40000 ? 0 : 2);
    }
    end(child);
    printf("%s: value %d\n", what, value_of(s));
    SAY("destroy", sem_destroy(s));
}

/* A thread of the parent waits at the moment of the fork: in the child it is not there. */
static sem_t held;
static atomic_int tid;

static void *waits(void *unused) {
    (void)unused;
    atomic_store(&tid, gettid());
    sem_wait(&held);
    return NULL;
}

static void with_waiter(void) {
    pthread_t t;
    MUST(sem_init(&held, 0, 0) == 0);
    MUST(pthread_create(&t, NULL, waits, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(sem_post(&held) == 0 && sem_trywait(&held) == 0 && sem_trywait(&held) != 0 ? 0 : 1);
    end(child);
    MUST(sem_post(&held) == 0);
    MUST(pthread_join(t, NULL) == 0);
    printf("with a waiter: value %d\n", value_of(&held));
}

/* Grandchildren, and a parent that ends first. */
static void generations(sem_t *s) {
    MUST(sem_init(s, 1, 0) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            if (fork() == 0) {
                sem_post(s);
                _exit(0);
            }
            sem_post(s);
            _exit(0);
        }
        sem_post(s);
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        MUST(sem_wait(s) == 0);
    end(child);
    printf("generations: value %d\n", value_of(s));
}

/* Made in the child, used by the parent. */
static void upwards(sem_t *s, atomic_int *made) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (sem_init(s, 1, 0) != 0)
            _exit(1);
        atomic_store(made, 1);
        _exit(sem_wait(s) == 0 ? 0 : 2);
    }
    while (!atomic_load(made))
        usleep(100);
    MUST(sem_post(s) == 0);
    end(child);
    printf("upwards: value %d\n", value_of(s));
}

/* A named one, inherited and opened again. With the C library alone the name is everybody's. */
static void by_name(void) {
    char name[32];
    snprintf(name, sizeof name, "/chappe-forks-%d", getpid());
    sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    MUST(s != SEM_FAILED);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sem_t *again = sem_open(name, 0);
        if (again != s)
            _exit(1);
        if (sem_post(s) != 0 || sem_close(again) != 0 || sem_post(s) != 0 || sem_close(s) != 0)
            _exit(2);
        _exit(sem_close(s) == 0 ? 3 : 0);
    }
    MUST(sem_wait(s) == 0 && sem_wait(s) == 0);
    end(child);
    sem_unlink(name);
    sem_t *b = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    MUST(b != SEM_FAILED);
    sem_unlink(name);
    ping_pong("named, without names", s, b);
}

int main(void) {
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    MUST(sem_init(shared, 1, 0) == 0 && sem_init(shared + 1, 1, 0) == 0);
    ping_pong("shared", shared, shared + 1);
    sem_t local;
    copies("a copy, for threads", &local, 0);
    copies("a copy, for processes", &local, 1);
    sem_t *heap = malloc(sizeof *heap);
    copies("a copy, on the heap", heap, 1);
    free(heap);
    with_waiter();
    generations(shared + 2);
    upwards(shared + 3, (atomic_int *)(void *)(shared + 8));
    by_name();
    return 0;
}
