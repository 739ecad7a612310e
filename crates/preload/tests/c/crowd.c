/* More threads that wait than an arena has members: all of them get what they wait for, and some are cancelled. */
#include "said.h"

enum { MANY = 700 };

static atomic_int waiting, had;
static sem_t *s;

static void *waits(void *unused) {
    (void)unused;
    atomic_fetch_add(&waiting, 1);
    MUST(sem_wait(s) == 0);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    atomic_fetch_add(&had, 1);
    return NULL;
}

int main(void) {
    static pthread_t t[MANY];
    pthread_attr_t small;
    int cancelled = 0, ended = 0;
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(s != MAP_FAILED && sem_init(s, 1, 0) == 0);
    MUST(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 * 1024) == 0);
    for (int i = 0; i < MANY; i++)
        MUST(pthread_create(&t[i], &small, waits, NULL) == 0);
    while (atomic_load(&waiting) < MANY)
        usleep(1000);
    for (int i = 0; i < MANY; i += 7)
        MUST(pthread_cancel(t[i]) == 0);
    for (int i = 0; i < MANY; i += 7) {
        void *r;
        MUST(pthread_join(t[i], &r) == 0);
        cancelled += r == PTHREAD_CANCELED;
    }
    for (int i = 0; i < MANY; i++)
        if (i % 7 != 0)
            MUST(sem_post(s) == 0);
    for (int i = 0; i < MANY; i++)
        if (i % 7 != 0) {
            MUST(pthread_join(t[i], NULL) == 0);
            ended++;
        }
    printf("%d cancelled, %d had it, %d ended, value %d\n", cancelled, atomic_load(&had), ended, value_of(s));
    return 0;
}
