/* A program with a malloc of its own. Handlers post in threads that have never used a semaphore, and that may be within it: the first post
 * must not call it. */
#include "said.h"

static char memory[64 << 20] __attribute__((aligned(4096)));
static atomic_size_t used;
/* Whether the calling thread is in its handler. */
static __thread volatile int handling;
static atomic_int calls;

static void *take(size_t size, size_t align) {
    if (handling)
        atomic_fetch_add(&calls, 1);
    size_t at = atomic_fetch_add(&used, size + align + 32);
    if (at + size + align + 32 > sizeof memory)
        abort();
    char *p = memory + at + 16;
    p += (align - (size_t)p % align) % align;
    ((size_t *)p)[-1] = size;
    return p;
}

void *malloc(size_t size) {
    return take(size, 16);
}

void free(void *p) {
    if (p != NULL && handling)
        atomic_fetch_add(&calls, 1);
}

void *calloc(size_t n, size_t size) {
    return take(n * size, 16);
}

void *realloc(void *p, size_t size) {
    void *new = take(size, 16);
    if (p != NULL) {
        size_t was = ((size_t *)p)[-1];
        memcpy(new, p, was < size ? was : size);
    }
    return new;
}

void *memalign(size_t align, size_t size) {
    return take(size, align);
}

void *aligned_alloc(size_t align, size_t size) {
    return take(size, align);
}

int posix_memalign(void **p, size_t align, size_t size) {
    *p = take(size, align);
    return 0;
}

static sem_t *s;
static atomic_int tid;

static void posts(int sig) {
    (void)sig;
    handling = 1;
    sem_post(s);
    handling = 0;
}

static void *waits(void *unused) {
    (void)unused;
    atomic_store(&tid, gettid());
    MUST(sem_wait(s) == 0);
    return NULL;
}

static void *handles(void *unused) {
    (void)unused;
    MUST(raise(SIGUSR1) == 0);
    return NULL;
}

static void one(const char *kind, sem_t *which) {
    pthread_t waiter, handler;
    s = which;
    atomic_store(&tid, 0);
    atomic_store(&calls, 0);
    MUST(pthread_create(&waiter, NULL, waits, NULL) == 0);
    while (atomic_load(&tid) == 0)
        usleep(100);
    until_asleep(getpid(), atomic_load(&tid));
    MUST(pthread_create(&handler, NULL, handles, NULL) == 0);
    MUST(pthread_join(handler, NULL) == 0 && pthread_join(waiter, NULL) == 0);
    printf("%s: malloc was called %d times in the handler\n", kind, atomic_load(&calls));
}

int main(void) {
    sem_t local, *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *named;
    struct sigaction a = {.sa_handler = posts};
    MUST(sigaction(SIGUSR1, &a, NULL) == 0);
    MUST(shared != MAP_FAILED && sem_init(&local, 0, 0) == 0 && sem_init(shared, 1, 0) == 0);
    char name[32];
    snprintf(name, sizeof name, "/chappe-own-%d", getpid());
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    MUST(named != SEM_FAILED && sem_unlink(name) == 0 && sem_wait(named) == 0);
    one("private", &local);
    one("shared", shared);
    one("named", named);
    return 0;
}
