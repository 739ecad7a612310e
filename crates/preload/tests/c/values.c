/* What each function answers to good and bad arguments, when nobody waits. */
#include "said.h"

static sem_t never_made;

static void deadlines(const char *what, sem_t *s) {
    struct timespec past = {1, 0}, soon = on(CLOCK_REALTIME, 5);
    struct timespec much = {1, 1000000000}, little = {1, -1}, before = {-1, 0};
    char text[128];
#define TIMED(name, t)                                                                                                 \
    snprintf(text, sizeof text, "%s, timed, %s", what, name);                                                          \
    SAY(text, sem_timedwait(s, &t));                                                                                   \
    snprintf(text, sizeof text, "%s, clock, %s", what, name);                                                          \
    SAY(text, sem_clockwait(s, CLOCK_MONOTONIC, &t))
    TIMED("past", past);
    TIMED("nanoseconds too great", much);
    TIMED("nanoseconds below nothing", little);
    TIMED("before the epoch", before);
    snprintf(text, sizeof text, "%s, timed, soon", what);
    SAY(text, sem_timedwait(s, &soon));
    soon = on(CLOCK_MONOTONIC, 5);
    snprintf(text, sizeof text, "%s, clock, soon", what);
    SAY(text, sem_clockwait(s, CLOCK_MONOTONIC, &soon));
    soon = on(CLOCK_REALTIME, 5);
    snprintf(text, sizeof text, "%s, clock, the other, soon", what);
    SAY(text, sem_clockwait(s, CLOCK_REALTIME, &soon));
    snprintf(text, sizeof text, "%s, clock, a clock of processors", what);
    SAY(text, sem_clockwait(s, CLOCK_PROCESS_CPUTIME_ID, &soon));
    snprintf(text, sizeof text, "%s, clock, no clock", what);
    SAY(text, sem_clockwait(s, 12345, &soon));
}

static void one(const char *what, sem_t *s, int shared) {
    printf("-- %s\n", what);
    SAY("init, -1", sem_init(s, shared, (unsigned)-1));
    SAY("init, too great", sem_init(s, shared, (unsigned)SEM_VALUE_MAX + 1));
    SAY("init, the greatest", sem_init(s, shared, SEM_VALUE_MAX));
    printf("value %d\n", value_of(s));
    SAY("post beyond", sem_post(s));
    printf("value %d\n", value_of(s));
    SAY("wait", sem_wait(s));
    SAY("post up to", sem_post(s));
    SAY("destroy", sem_destroy(s));

    SAY("init, 0", sem_init(s, shared, 0));
    SAY("try, nothing", sem_trywait(s));
    deadlines("nothing", s);
    SAY("post", sem_post(s));
    printf("value %d\n", value_of(s));
    SAY("try", sem_trywait(s));
    SAY("try, nothing", sem_trywait(s));
    for (int i = 0; i < 20; i++)
        MUST(sem_post(s) == 0);
    deadlines("plenty", s);
    printf("value %d\n", value_of(s));

    /* Made again where it lies. */
    SAY("init again", sem_init(s, shared, 3));
    printf("value %d\n", value_of(s));
    for (int i = 0; i < 3; i++)
        SAY("wait", sem_wait(s));
    SAY("try, nothing", sem_trywait(s));

    /* Moved: the copy goes on, the original is not used again. */
    SAY("post", sem_post(s));
    sem_t other;
    memcpy(&other, s, sizeof other);
    memset(s, 0, sizeof *s);
    printf("value of the copy %d\n", value_of(&other));
    SAY("the copy, wait", sem_wait(&other));
    SAY("the copy, destroy", sem_destroy(&other));

    /* Errno stays as it is when all is well. */
    MUST(sem_init(s, shared, 1) == 0);
    errno = 4242;
    MUST(sem_wait(s) == 0 && sem_post(s) == 0 && sem_trywait(s) == 0 && sem_post(s) == 0);
    printf("errno %d\n", errno);
    SAY("destroy", sem_destroy(s));
}

int main(void) {
    sem_t local;
    one("on the stack", &local, 0);
    one("on the stack, for processes", &local, 1);
    sem_t *heap = malloc(sizeof *heap);
    one("on the heap", heap, 0);
    free(heap);
    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    one("shared", shared, 1);
    one("shared, for threads", shared + 1, 0);
    char *packed = malloc(sizeof(sem_t) + 8);
    one("at the end of a struct", (sem_t *)(void *)(packed + 8), 0);
    free(packed);

    /* POSIX says nothing of these; programs that do it work with the C library. */
    printf("-- never made\n");
    SAY("try", sem_trywait(&never_made));
    SAY("post", sem_post(&never_made));
    printf("value %d\n", value_of(&never_made));
    SAY("wait", sem_wait(&never_made));
    printf("-- used after its end\n");
    MUST(sem_init(&local, 0, 2) == 0);
    SAY("destroy", sem_destroy(&local));
    SAY("try", sem_trywait(&local));
    SAY("post", sem_post(&local));
    printf("value %d\n", value_of(&local));
    return 0;
}
