/*
 * What the C programs here check with: each check that fails says where, what, and the library's last words, and ends the program.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chappe.h>

static inline void wrong(const char *file, int line, const char *what, long long is, long long wanted)
{
    fprintf(stderr, "%s:%d: pid %d: %s is %lld, not %lld; last error: \"%s\"\n", file, line, (int)getpid(), what, is, wanted,
            chappe_last_error());
    fflush(NULL);
    _exit(1);
}

/* Whatever hangs is ended, and has failed. */
__attribute__((constructor)) static void not_for_ever(void)
{
    alarm(150);
}

/* The call answers this. */
#define IS(call, wanted)                                                                                                              \
    do {                                                                                                                              \
        long long is_ = (long long)(call), wanted_ = (long long)(wanted);                                                             \
        if (is_ != wanted_)                                                                                                           \
            wrong(__FILE__, __LINE__, #call, is_, wanted_);                                                                           \
    } while (0)

#define OK(call) IS(call, 0)
#define CHECK(what) IS(!!(what), 1)

/* The call fails with this error, and says something of it. */
#define FAILS(call, error)                                                                                                            \
    do {                                                                                                                              \
        IS(call, -(error));                                                                                                           \
        CHECK(strlen(chappe_last_error()) > 5);                                                                                       \
    } while (0)

/* It becomes so, within 30 seconds. */
#define EVENTUALLY(what)                                                                                                              \
    do {                                                                                                                              \
        int64_t end_ = chappe_now() + 30 * CHAPPE_SECOND;                                                                             \
        while (!(what)) {                                                                                                             \
            if (chappe_now() > end_)                                                                                                  \
                wrong(__FILE__, __LINE__, #what, 0, 1);                                                                               \
            usleep(500);                                                                                                              \
        }                                                                                                                             \
    } while (0)

/* A child that does this, and ends. */
static inline pid_t child(void (*act)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        wrong(__FILE__, __LINE__, "fork", errno, 0);
    if (pid == 0) {
        /* With its parent: nobody waits for what it left behind. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        act();
        _exit(0);
    }
    return pid;
}

/* How it has ended. It may be the one that sends signals. */
static inline int ended(pid_t pid)
{
    int status = -1;
    pid_t which;
    do
        which = waitpid(pid, &status, 0);
    while (which == -1 && errno == EINTR);
    IS(which, pid);
    return status;
}

/* It has ended, and well. */
static inline void ended_well(pid_t pid)
{
    IS(ended(pid), 0);
}

/* It is killed. */
static inline void ended_by_kill(pid_t pid)
{
    OK(kill(pid, SIGKILL));
    CHECK(WIFSIGNALED(ended(pid)));
}

static inline pthread_t thread(void *(*act)(void *), void *with)
{
    pthread_t made;
    OK(pthread_create(&made, NULL, act, with));
    return made;
}

static inline void joined(pthread_t one)
{
    OK(pthread_join(one, NULL));
}

/* A pipe by which one process tells another that it has come so far. */
static inline void tell(int pipe_end)
{
    IS(write(pipe_end, "x", 1), 1);
}

static inline void hear(int pipe_end)
{
    char said;
    IS(read(pipe_end, &said, 1), 1);
}

#endif
