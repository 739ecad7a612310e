/* Libraries with thread-local data come late, and then a handler posts in a thread that has not asked for any since. Prints how much memory
 * of the program's the handlers have asked for. The arguments: whether the semaphore is shared, and the libraries.
 */
#include "said.h"
#include <dlfcn.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static sem_t *s;
static atomic_int asked, ran;
/* Whether the calling thread is in its handler: others may ask for what they like, as one that starts a thread does. */
static __thread volatile int inside;

void *malloc(size_t size) {
    asked += inside;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    asked += inside;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    asked += inside;
    return __libc_realloc(old, size);
}

static void posts(int sig) {
    (void)sig;
    inside = 1;
    MUST(sem_post(s) == 0);
    inside = 0;
    atomic_fetch_add(&ran, 1);
}

static void *waits(void *unused) {
    for (;;)
        MUST(sem_wait(s) == 0);
    return unused;
}

static void *rests(void *unused) {
    for (;;)
        pause();
    return unused;
}

int main(int count, char **words) {
    pthread_t waiter, rester;
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(s != MAP_FAILED && sem_init(s, atoi(words[1]), 0) == 0);
    MUST(signal(SIGUSR1, posts) != SIG_ERR);
    MUST(pthread_create(&waiter, NULL, waits, NULL) == 0 && pthread_create(&rester, NULL, rests, NULL) == 0);
    for (int times = 1; times <= 2; times++) {
        MUST(pthread_kill(rester, SIGUSR1) == 0);
        while (atomic_load(&ran) < times)
            usleep(100);
        for (int i = 2; times == 1 && i < count; i++)
            MUST(dlopen(words[i], RTLD_NOW) != NULL);
    }
    printf("asked %d times\n", atomic_load(&asked));
    fflush(stdout);
    _exit(0);
}
