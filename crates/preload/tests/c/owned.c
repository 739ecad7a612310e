/* How processes end that hold a semaphore, and which process has it then. */
#include "said.h"

static sem_t *place;
static const char *kind;

static sem_t *fresh(unsigned value) {
    static int n;
    char name[64];
    if (strcmp(kind, "memory") == 0) {
        MUST(sem_init(place, 1, value) == 0);
        return place;
    }
    snprintf(name, sizeof name, "/chappe-owned-%d-%d", getpid(), n++);
    sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, value);
    MUST(s != SEM_FAILED && sem_unlink(name) == 0);
    return s;
}

static void done(sem_t *s) {
    MUST((strcmp(kind, "memory") == 0 ? sem_destroy(s) : sem_close(s)) == 0);
}

static int ended(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

/* Whether it can be had. The next holder waits for as long as it takes: the process that returns it may be delayed. */
static void tell(const char *what, sem_t *s, int comes_back) {
    struct timespec t = on(CLOCK_MONOTONIC, comes_back ? 60000 : 300);
    int r = sem_clockwait(s, CLOCK_MONOTONIC, &t);
    printf("%s: %s has it\n", what, r == 0 ? "the next" : errno == ETIMEDOUT ? "nobody" : strerror(errno));
    fflush(stdout);
}

enum how { KILL, LOW_EXIT, EXIT, QUICK, DAEMON, EXEC };

static int told[2];

/* The parent ends in it; the daemon says what it is, and ends. */
static void be_daemon(void) {
    char cwd[64];
    struct stat in, out, null;
    if (daemon(0, 0) != 0)
        _exit(6);
    int well = getsid(0) == getpid() && getcwd(cwd, sizeof cwd) != NULL && strcmp(cwd, "/") == 0;
    well = well && fstat(0, &in) == 0 && fstat(2, &out) == 0 && stat("/dev/null", &null) == 0;
    well = well && in.st_rdev == null.st_rdev && out.st_rdev == null.st_rdev;
    _exit(write(told[1], well ? "w" : "b", 1) != 1);
}

static sem_t *end_so(unsigned value, enum how how, int foreign) {
    sem_t *s = fresh(value);
    if (foreign) {
        /* A unit that nobody has taken: then it is taken, and there is one as before. */
        MUST(sem_post(s) == 0 && sem_wait(s) == 0);
    }
    for (unsigned i = 1; i < value; i++)
        MUST(sem_wait(s) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (sem_wait(s) != 0)
            _exit(9);
        if (how == KILL)
            kill(getpid(), SIGKILL);
        if (how == LOW_EXIT)
            _exit(0);
        if (how == EXIT)
            exit(0);
        if (how == QUICK)
            quick_exit(0);
        if (how == DAEMON)
            be_daemon();
        execl("/bin/true", "true", (char *)NULL);
        _exit(8);
    }
    int status = ended(child);
    MUST(how == KILL ? WIFSIGNALED(status) : status == 0);
    return s;
}

static void one(const char *what, unsigned value, enum how how, int foreign) {
    sem_t *s = end_so(value, how, foreign);
    tell(what, s, getenv("CHAPPE_RUN_OWNED") != NULL && (how == KILL || how == EXEC) && value == 1 && !foreign);
    done(s);
}

static sem_t *inherited;

static void *gives(void *unused) {
    (void)unused;
    MUST(sem_post(inherited) == 0);
    return NULL;
}

static int returns_from_main(void) {
    return sem_wait(inherited) == 0 ? 0 : 7;
}

static int rest(void) {
    one("ends while it holds, by quick_exit", 1, QUICK, 0);
    char said = 0;
    MUST(pipe(told) == 0);
    one("ends while it holds, by daemon", 1, DAEMON, 0);
    MUST(read(told[0], &said, 1) == 1);
    printf("what is its daemon: %s\n", said == 'w' ? "of a session of its own, in /, with nothing open" : "not so");
    one("execs while it holds", 1, EXEC, 0);
    one("killed behind a post by another", 1, KILL, 1);
    one("killed, that started at 2", 2, KILL, 0);

    sem_t *s = fresh(1);
    MUST(sem_wait(s) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(sem_post(s) == 0 && sem_wait(s) == 0 ? 0 : 1);
    int status = ended(child);
    MUST(status == 0);
    /* The child's is gone with it; ours is given back. */
    MUST(sem_post(s) == 0);
    printf("a child gives back what its parent holds: %s\n", value_of(s) == 1 ? "two have it" : "else");
    done(s);

    s = inherited = fresh(1);
    child = fork();
    if (child == 0) {
        pthread_t t;
        if (sem_wait(s) != 0 || pthread_create(&t, NULL, gives, NULL) != 0 || pthread_join(t, NULL) != 0)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    ended(child);
    printf("taken by one thread, given back by another, killed: value %d\n", value_of(s));
    done(s);

    /* A queue of waiters, each of which dies with it. */
    s = fresh(1);
    MUST(sem_wait(s) == 0);
    pid_t line[5];
    for (int i = 0; i < 5; i++) {
        line[i] = fork();
        if (line[i] == 0) {
            if (sem_wait(s) == 0)
                kill(getpid(), SIGKILL);
            _exit(1);
        }
    }
    for (int i = 0; i < 5; i++)
        until_asleep(line[i], line[i]);
    MUST(sem_post(s) == 0);
    int killed = 0;
    for (int i = 0; i < 5; i++)
        killed += WIFSIGNALED(ended(line[i]));
    MUST(killed == 5 && sem_wait(s) == 0);
    printf("asleep when the holder is killed: each has it\n");
    done(s);
    return 0;
}

int main(int argc, char **argv) {
    MUST(argc > 1);
    kind = argv[1];
    place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(place != MAP_FAILED);
    one("killed while it holds", 1, KILL, 0);
    if (argc > 2)
        return 0;
    one("ends while it holds, by _exit", 1, LOW_EXIT, 0);
    one("ends while it holds, by exit", 1, EXIT, 0);
    inherited = fresh(1);
    pid_t child = fork();
    if (child == 0)
        return returns_from_main();
    MUST(ended(child) == 0);
    tell("ends while it holds, by return", inherited, 0);
    done(inherited);
    return rest();
}
