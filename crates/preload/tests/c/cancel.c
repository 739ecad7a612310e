/* Which calls are cancellation points, and what is left behind when one acts. */
#include "said.h"

static sem_t s, go;
static atomic_int tid, cleaned, came_back;
static const char *what;
static int with_token, by, state, type;

static void clean(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static int call(void) {
    struct timespec past = {1, 0}, t = on(CLOCK_REALTIME, 1000000), m = on(CLOCK_MONOTONIC, 1000000);
    int v;
    switch (by) {
    case 0: return sem_wait(&s);
    case 1: return sem_timedwait(&s, &t);
    case 2: return sem_clockwait(&s, CLOCK_MONOTONIC, &m);
    case 3: return sem_trywait(&s);
    case 4: return sem_post(&s);
    case 5: return sem_getvalue(&s, &v);
    case 6: return sem_timedwait(&s, &past);
    default: return -1;
    }
}

static const char *calls[] = {"wait", "timedwait", "clockwait", "trywait", "post", "getvalue", "timedwait, past"};

static void *thread(void *pending) {
    pthread_setcancelstate(state, NULL);
    pthread_setcanceltype(type, NULL);
    pthread_cleanup_push(clean, NULL);
    if (pending != NULL) {
        /* Cancelled before the call begins: the thread does it to itself. */
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
        pthread_cancel(pthread_self());
    }
    atomic_store(&tid, gettid());
    call();
    atomic_store(&came_back, 1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void result(pthread_t t) {
    void *r;
    MUST(pthread_join(t, &r) == 0);
    printf("%s: %s, cleaned %d, came back %d, value %d\n", what, r == PTHREAD_CANCELED ? "cancelled" : "went on",
           atomic_load(&cleaned), atomic_load(&came_back), value_of(&s));
    fflush(stdout);
}

static void begin(pthread_t *t, void *pending) {
    atomic_store(&tid, 0);
    atomic_store(&cleaned, 0);
    atomic_store(&came_back, 0);
    MUST(pthread_create(t, NULL, thread, pending) == 0);
}

/* Cancelled before. */
static void pending(int shared) {
    pthread_t t;
    char text[128];
    for (by = 0; by < 7; by++)
        for (with_token = 0; with_token < 2; with_token++) {
            if (!with_token && by <= 2 && state == PTHREAD_CANCEL_DISABLE)
                continue; /* would wait for ever */
            MUST(sem_init(&s, shared, with_token) == 0);
            snprintf(text, sizeof text, "pending, %s, %s, %s, %s", calls[by], with_token ? "a token" : "none",
                     shared ? "shared" : "private", state == PTHREAD_CANCEL_ENABLE ? "enabled" : "disabled");
            what = text;
            begin(&t, &s);
            result(t);
        }
}

/* Cancelled while it sleeps. */
static void asleep(int shared) {
    pthread_t t;
    char text[128];
    for (by = 0; by < 3; by++) {
        MUST(sem_init(&s, shared, 0) == 0);
        snprintf(text, sizeof text, "asleep, %s, %s, %s, %s", calls[by], shared ? "shared" : "private",
                 state == PTHREAD_CANCEL_ENABLE ? "enabled" : "disabled",
                 type == PTHREAD_CANCEL_DEFERRED ? "deferred" : "asynchronous");
        what = text;
        begin(&t, NULL);
        while (atomic_load(&tid) == 0)
            usleep(100);
        until_asleep(getpid(), atomic_load(&tid));
        MUST(pthread_cancel(t) == 0);
        if (state == PTHREAD_CANCEL_DISABLE) {
            until_asleep(getpid(), atomic_load(&tid));
            MUST(sem_post(&s) == 0);
        }
        result(t);
        /* A cancelled thread is in no other's way. */
        MUST(sem_post(&s) == 0 && sem_wait(&s) == 0);
    }
}

/* Cancelled at any moment: the token is had, or still there. */
static atomic_int have;

static void *any_moment(void *unused) {
    (void)unused;
    sem_post(&go);
    for (;;) {
        sem_wait(&s);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        atomic_fetch_add(&have, 1);
        atomic_fetch_sub(&have, 1);
        sem_post(&s);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    }
    return NULL;
}

static void storm(int shared) {
    MUST(sem_init(&s, shared, 1) == 0 && sem_init(&go, 0, 0) == 0);
    for (int i = 0; i < 300; i++) {
        pthread_t t[3];
        for (int k = 0; k < 3; k++)
            MUST(pthread_create(&t[k], NULL, any_moment, NULL) == 0);
        for (int k = 0; k < 3; k++)
            MUST(sem_wait(&go) == 0);
        for (int k = 0; k < 3; k++)
            MUST(pthread_cancel(t[k]) == 0);
        for (int k = 0; k < 3; k++) {
            void *r;
            MUST(pthread_join(t[k], &r) == 0 && r == PTHREAD_CANCELED);
        }
        MUST(value_of(&s) == 1);
    }
    printf("storm, %s: value %d\n", shared ? "shared" : "private", value_of(&s));
}

int main(void) {
    type = PTHREAD_CANCEL_DEFERRED;
    for (int shared = 0; shared < 2; shared++) {
        state = PTHREAD_CANCEL_ENABLE;
        pending(shared);
        asleep(shared);
        state = PTHREAD_CANCEL_DISABLE;
        pending(shared);
        asleep(shared);
        state = PTHREAD_CANCEL_ENABLE;
        type = PTHREAD_CANCEL_ASYNCHRONOUS;
        asleep(shared);
        type = PTHREAD_CANCEL_DEFERRED;
        storm(shared);
    }
    return 0;
}
