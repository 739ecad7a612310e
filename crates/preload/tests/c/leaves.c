/* The first thread ends, and others go on: the process ends with the last of them, with status 0, and by `exit`. */
#include "said.h"

static sem_t *s;
static pthread_t first;
static const char *what;
static int late;
static atomic_int tid;

static void at_exit(void) {
    printf("%s: exit\n", what);
}

static void *posts(void *unused) {
    (void)unused;
    while (!has_left())
        usleep(100);
    /* Somebody waits, or will. */
    MUST(sem_post(s) == 0);
    return NULL;
}

/* What is looked up in /proc: whether memory is shared, and where arenas are made. */
static void goes_on(void) {
    char name[64];
    sem_t *one, *named_one;
    int status;
    one = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(one != MAP_FAILED && sem_init(one, 1, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        sem_post(one);
        _exit(value_of(one));
    }
    MUST(waitpid(child, &status, 0) == child);
    printf("%s: the child's copy has %d, ours %d\n", what, WEXITSTATUS(status), value_of(one));
    snprintf(name, sizeof name, "/chappe-leaves-%d", getpid());
    named_one = sem_open(name, O_CREAT | O_EXCL, 0600, 2);
    MUST(named_one != SEM_FAILED && value_of(named_one) == 2);
    MUST(sem_close(named_one) == 0 && sem_unlink(name) == 0);
}

static void *waits(void *unused) {
    (void)unused;
    atomic_store(&tid, gettid());
    while (late && !has_left())
        usleep(100);
    MUST(sem_wait(s) == 0);
    while (!has_left())
        usleep(100);
    printf("%s: had it, behind the first thread's end\n", what);
    goes_on();
    return NULL;
}

static void *cancels(void *unused) {
    (void)unused;
    MUST(pthread_cancel(first) == 0);
    return NULL;
}

/* Does not come back. */
static void leave(int shared, int is_late, int is_cancelled) {
    static char text[64];
    pthread_t t;
    pthread_attr_t alone;
    snprintf(text, sizeof text, "%s, %s, %s", shared ? "shared" : "private", is_late ? "waits late" : "waits early",
             is_cancelled ? "cancelled" : "pthread_exit");
    what = text;
    late = is_late;
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(s != MAP_FAILED && sem_init(s, shared, 0) == 0 && atexit(at_exit) == 0);
    MUST(pthread_attr_init(&alone) == 0 && pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED) == 0);
    MUST(pthread_create(&t, &alone, waits, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    if (!late)
        /* It waits before the first thread ends, so what helps it to wait is there by then. */
        until_asleep(getpid(), atomic_load(&tid));
    MUST(pthread_create(&t, &alone, posts, NULL) == 0);
    first = pthread_self();
    if (is_cancelled) {
        MUST(pthread_create(&t, &alone, cancels, NULL) == 0);
        for (;;)
            pause();
    }
    pthread_exit(NULL);
}

static void *forks(void *unused) {
    (void)unused;
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        int status;
        if (child == 0)
            leave(i & 1, i >> 1 & 1, i >> 2 & 1);
        MUST(waitpid(child, &status, 0) == child);
        printf("%d: exited %d, status %d\n", i, WIFEXITED(status), WEXITSTATUS(status));
        fflush(stdout);
    }
    return NULL;
}

int main(void) {
    pthread_t t;
    /* From the first thread, and from another. */
    forks(NULL);
    MUST(pthread_create(&t, NULL, forks, NULL) == 0 && pthread_join(t, NULL) == 0);
    leave(1, 0, 0);
}
