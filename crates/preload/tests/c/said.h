/* What the programs here say. Each prints what it saw, a line a case: run with the C library alone and under the shim they
 * must print the same. Nothing that depends on time or on luck is printed.
 */
#ifndef SAID_H
#define SAID_H

#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The name of an errno: numbers tell nobody anything. */
static inline const char *named(int e) {
    switch (e) {
    case 0: return "0";
    case EAGAIN: return "EAGAIN";
    case EACCES: return "EACCES";
    case EEXIST: return "EEXIST";
    case EINTR: return "EINTR";
    case EINVAL: return "EINVAL";
    case EMFILE: return "EMFILE";
    case ENAMETOOLONG: return "ENAMETOOLONG";
    case ENOENT: return "ENOENT";
    case EOVERFLOW: return "EOVERFLOW";
    case ETIMEDOUT: return "ETIMEDOUT";
    default: return strerror(e);
    }
}

/* Makes a call with errno 0 before it, and says how it came out. */
#define SAY(what, call)                                                                                                \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        long said_ = (long)(call);                                                                                     \
        printf("%s: %ld %s\n", what, said_, named(errno));                                                             \
        fflush(stdout);                                                                                                \
    } while (0)

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno));                            \
            fflush(stdout);                                                                                            \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

static inline int value_of(sem_t *s) {
    int v = -77;
    MUST(sem_getvalue(s, &v) == 0);
    return v;
}

/* A moment on a clock, so many milliseconds from now. */
static inline struct timespec on(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    long long ns = t.tv_nsec + ms * 1000000LL;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    if (t.tv_nsec < 0) {
        t.tv_nsec += 1000000000;
        t.tv_sec -= 1;
    }
    return t;
}

/* What the kernel says of a thread. False: it has ended. */
static inline int state_of(const char *pid, const char *tid, char *state, long *switches) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/status", pid, tid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    *state = 0;
    *switches = -1;
    while (fgets(line, sizeof line, f) != NULL) {
        sscanf(line, "State: %c", state);
        sscanf(line, "voluntary_ctxt_switches: %ld", switches);
    }
    fclose(f);
    return 1;
}

/* Whether a thread of a process would run, one of these two aside: it may be what another sleeps for, on its way to where it waits. */
static inline int others_run(const char *pid, const char *tid) {
    char path[64], me[24], state;
    long switches;
    int running = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    snprintf(me, sizeof me, "%d", gettid());
    DIR *d = opendir(path);
    if (d == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, tid) != 0 && strcmp(e->d_name, me) != 0)
            running |= state_of(pid, e->d_name, &state, &switches) && state == 'R';
    closedir(d);
    return running;
}

/* Sleeps until a thread sleeps in the kernel: the only way to know that it waits. False: it has ended. */
static inline int until_asleep(pid_t pid, pid_t tid) {
    char process[24], thread[24], state;
    long switches, last = -1;
    int same = 0;
    snprintf(process, sizeof process, "%d", pid);
    snprintf(thread, sizeof thread, "%d", tid);
    /* Asleep, and not woken for a while: not in one of the short sleeps on the way there. */
    while (same < 40) {
        if (!state_of(process, thread, &state, &switches))
            return 0;
        int is_still = state == 'S' && switches == last && !others_run(process, thread);
        same = is_still ? same + 1 : 0;
        last = switches;
        usleep(500);
    }
    return 1;
}

/* Whether the first thread of this process has ended. */
static inline int has_left(void) {
    char line[512], state = 0;
    int fd = open("/proc/self/stat", O_RDONLY);
    MUST(fd >= 0);
    ssize_t n = read(fd, line, sizeof line - 1);
    MUST(n > 0 && close(fd) == 0);
    line[n] = 0;
    MUST(sscanf(strrchr(line, ')') + 2, "%c", &state) == 1);
    return state == 'Z';
}

#endif
