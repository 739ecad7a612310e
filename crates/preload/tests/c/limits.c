/* Programs that may have no files, or files of no length, or no more memory: what they are refused kills nobody.
 *
 * With the C library, sem_open is killed where files may have no length; that is not to be compared, and so not asked there. */
#include "said.h"
#include <sys/resource.h>

static void limited(int what, rlim_t to) {
    struct rlimit limit = {to, to};
    MUST(setrlimit(what, &limit) == 0);
}

static void pair(const char *what, int shared) {
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(s != MAP_FAILED);
    printf("%s, %s\n", what, shared ? "shared" : "not shared");
    SAY("init", sem_init(s, shared, 1));
    SAY("wait", sem_wait(s));
    SAY("trywait", sem_trywait(s));
    SAY("post", sem_post(s));
    SAY("value", value_of(s));
    SAY("destroy", sem_destroy(s));
}

static void in_child(void (*act)(void)) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        act();
        _exit(0);
    }
    MUST(waitpid(child, &status, 0) == child);
    printf("status %d\n", status);
}

static void no_length(void) {
    limited(RLIMIT_FSIZE, 0);
    pair("files have no length", 1);
    pair("files have no length", 0);
}

static void short_files(void) {
    char name[64];
    snprintf(name, sizeof name, "/chappe-limits-%d", getpid());
    limited(RLIMIT_FSIZE, 64 * 1024);
    pair("files are short", 1);
    sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    if (s == SEM_FAILED) {
        /* What the C library says when there is no room. */
        printf("open: %s\n", errno == ENOSPC ? "no room" : strerror(errno));
        return;
    }
    printf("open: %s\n", getenv("LD_PRELOAD") == NULL ? "no room" : "there is room");
    MUST(sem_unlink(name) == 0 && sem_close(s) == 0);
}

/* SIGXFSZ is the program's own, also where it is pending. */
static void own_signal(void) {
    sigset_t set;
    struct timespec now = {0, 0};
    limited(RLIMIT_FSIZE, 0);
    MUST(sigemptyset(&set) == 0 && sigaddset(&set, SIGXFSZ) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pair("with SIGXFSZ blocked", 1);
    printf("pending: %s\n", sigtimedwait(&set, NULL, &now) == SIGXFSZ ? "yes" : "no");
    MUST(raise(SIGXFSZ) == 0);
    pair("with SIGXFSZ pending", 1);
    printf("pending: %s\n", sigtimedwait(&set, NULL, &now) == SIGXFSZ ? "yes" : "no");
}

static void no_files(void) {
    limited(RLIMIT_NOFILE, 0);
    pair("no files", 1);
    pair("no files", 0);
}

static void no_memory(void) {
    /* What is mapped already is more. */
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static sem_t own, many[20000];
    MUST(s != MAP_FAILED);
    limited(RLIMIT_AS, 4096);
    SAY("no memory: init", sem_init(&own, 0, 1));
    SAY("wait", sem_wait(&own));
    SAY("post", sem_post(&own));
    SAY("shared: init", sem_init(s, 1, 1));
    SAY("wait", sem_wait(s));
    SAY("post", sem_post(s));
    for (unsigned i = 0; i < sizeof many / sizeof *many; i++)
        MUST(sem_init(&many[i], 0, i) == 0 && (unsigned)value_of(&many[i]) == i);
}

/* The same, where some have been made before. */
static void no_more_memory(void) {
    static sem_t own;
    MUST(sem_init(&own, 0, 1) == 0);
    no_memory();
}

int main(void) {
    in_child(no_length);
    in_child(short_files);
    in_child(own_signal);
    in_child(no_files);
    in_child(no_memory);
    in_child(no_more_memory);
    return 0;
}
