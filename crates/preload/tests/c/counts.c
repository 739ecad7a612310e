/* Nothing lost, nothing doubled: threads, processes, handlers, time limits, all on one semaphore. */
#include "said.h"
#include <sched.h>

static sem_t s, done;
static atomic_long had, timed_out;

static void *taker(void *unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        struct timespec t = on(CLOCK_REALTIME, i % 2);
        int r = i % 3 == 0 ? sem_wait(&s) : i % 3 == 1 ? sem_trywait(&s) : sem_timedwait(&s, &t);
        if (r == 0) {
            atomic_fetch_add(&had, 1);
            sem_post(&s);
        } else if (errno == ETIMEDOUT || errno == EAGAIN || errno == EINTR)
            atomic_fetch_add(&timed_out, 1);
        else
            abort();
    }
    sem_post(&done);
    return NULL;
}

static void threads(int shared) {
    pthread_t t[4];
    MUST(sem_init(&s, shared, 2) == 0 && sem_init(&done, 0, 0) == 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&t[i], NULL, taker, NULL) == 0);
    for (int i = 0; i < 4; i++)
        MUST(sem_wait(&done) == 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(t[i], NULL) == 0);
    MUST(atomic_load(&had) > 0);
    printf("threads, %s: value %d\n", shared ? "shared" : "private", value_of(&s));
}

/* A handler that posts in the middle of anything. */
static sem_t signalled;
static atomic_int posted;

static void posts(int sig) {
    (void)sig;
    int e = errno;
    if (sem_post(&signalled) != 0)
        abort();
    atomic_fetch_add(&posted, 1);
    errno = e;
}

static atomic_int stop;

static void *busy(void *unused) {
    (void)unused;
    sem_t mine;
    MUST(sem_init(&mine, 0, 1) == 0);
    while (!atomic_load(&stop)) {
        /* Also on the very semaphore that the handler posts. */
        MUST(sem_post(&signalled) == 0);
        while (sem_wait(&signalled) != 0)
            MUST(errno == EINTR);
        MUST(sem_wait(&mine) == 0 || errno == EINTR);
        free(malloc(100));
        sem_post(&mine);
    }
    return NULL;
}

static void handlers(int shared) {
    pthread_t t;
    struct sigaction a = {.sa_handler = posts, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(sem_init(&signalled, shared, 0) == 0);
    atomic_store(&posted, 0);
    atomic_store(&stop, 0);
    MUST(pthread_create(&t, NULL, busy, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        MUST(pthread_kill(t, SIGUSR1) == 0);
        /* A signal that is already pending is not pending twice. */
        while (atomic_load(&posted) <= i)
            sched_yield();
        while (sem_wait(&signalled) != 0)
            MUST(errno == EINTR);
    }
    atomic_store(&stop, 1);
    MUST(pthread_join(t, NULL) == 0);
    printf("handlers, %s: posted %d, value %d\n", shared ? "shared" : "private", atomic_load(&posted),
           value_of(&signalled));
}

/* Producers and consumers in processes. */
static void processes(void) {
    struct ring {
        sem_t full, empty, lock;
        long in, out, sum;
        int place[8];
    } *r = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(r != MAP_FAILED);
    MUST(sem_init(&r->full, 1, 0) == 0 && sem_init(&r->empty, 1, 8) == 0 && sem_init(&r->lock, 1, 1) == 0);
    for (int p = 0; p < 2; p++)
        if (fork() == 0) {
            for (int i = 1; i <= 1000; i++) {
                MUST(sem_wait(&r->empty) == 0 && sem_wait(&r->lock) == 0);
                r->place[r->in++ % 8] = i;
                MUST(sem_post(&r->lock) == 0 && sem_post(&r->full) == 0);
            }
            _exit(0);
        }
    for (int c = 0; c < 2; c++)
        if (fork() == 0) {
            for (int i = 1; i <= 1000; i++) {
                MUST(sem_wait(&r->full) == 0 && sem_wait(&r->lock) == 0);
                r->sum += r->place[r->out++ % 8];
                MUST(sem_post(&r->lock) == 0 && sem_post(&r->empty) == 0);
            }
            _exit(0);
        }
    int status, bad = 0;
    while (wait(&status) > 0)
        bad += status != 0;
    printf("processes: bad %d, sum %ld, values %d %d %d\n", bad, r->sum, value_of(&r->full), value_of(&r->empty),
           value_of(&r->lock));
}

/* Post, then destroy: the waiter that was woken may take the memory away. */
struct once {
    sem_t s;
};

static void *post_it(void *o) {
    sem_post(&((struct once *)o)->s);
    return NULL;
}

static void post_then_destroy(void) {
    for (int i = 0; i < 500; i++) {
        pthread_t t;
        struct once *o = malloc(sizeof *o);
        MUST(sem_init(&o->s, 0, 0) == 0);
        MUST(pthread_create(&t, NULL, post_it, o) == 0);
        MUST(sem_wait(&o->s) == 0);
        MUST(sem_destroy(&o->s) == 0);
        memset(o, 0xa5, sizeof *o);
        free(o);
        MUST(pthread_join(t, NULL) == 0);
    }
    printf("post, then destroy: done\n");
}

/* More than any table holds, never destroyed, in memory that is used again. */
static void countless(void) {
    static sem_t many[100000];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 100000; i++)
            MUST(sem_init(&many[i], 0, i) == 0);
    for (int i = 0; i < 100000; i++)
        MUST(value_of(&many[i]) == i && sem_post(&many[i]) == 0 && sem_wait(&many[i]) == 0);
    for (int i = 0; i < 100000; i++)
        MUST(sem_destroy(&many[i]) == 0);
    printf("countless: done\n");
}

/* The local data of a thread is given up, the thread is not over yet: it may still have to wait. */
static pthread_key_t key;
static sem_t late, early;

static void at_the_end(void *unused) {
    (void)unused;
    MUST(sem_post(&early) == 0);
    MUST(sem_wait(&late) == 0);
}

static void *ends(void *unused) {
    (void)unused;
    /* Something of ours is set up before, or not at all. */
    sem_t mine;
    struct timespec past = {1, 0};
    MUST(sem_init(&mine, 0, 0) == 0 && sem_timedwait(&mine, &past) == -1);
    pthread_setspecific(key, &late);
    return NULL;
}

static void in_the_end(void) {
    pthread_t t;
    MUST(pthread_key_create(&key, at_the_end) == 0);
    MUST(sem_init(&late, 0, 0) == 0 && sem_init(&early, 0, 0) == 0);
    MUST(pthread_create(&t, NULL, ends, NULL) == 0);
    MUST(sem_wait(&early) == 0);
    usleep(1000);
    MUST(sem_post(&late) == 0);
    MUST(pthread_join(t, NULL) == 0);
    printf("in the end: value %d\n", value_of(&late));
}

static sem_t last;

static void *posts_last(void *unused) {
    (void)unused;
    usleep(1000);
    sem_post(&last);
    return NULL;
}

static void at_exit(void) {
    pthread_t t;
    MUST(sem_init(&last, 0, 0) == 0);
    MUST(pthread_create(&t, NULL, posts_last, NULL) == 0);
    MUST(sem_wait(&last) == 0);
    MUST(pthread_join(t, NULL) == 0);
    printf("at exit: value %d\n", value_of(&last));
}

int main(void) {
    atexit(at_exit);
    threads(0);
    threads(1);
    handlers(0);
    handlers(1);
    processes();
    post_then_destroy();
    countless();
    in_the_end();
    return 0;
}
