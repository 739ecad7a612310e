/* What loop_libuv.c, loop_glib.c and loop_libevent.c have in common: jobs that share two GPUs with another process. */
#ifndef LOOP_JOBS_H
#define LOOP_JOBS_H

#include <chappe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 8, OTHERS = 4 };

struct job {
    chappe_permit gpu;
};

static struct job jobs[JOBS];
static int left = JOBS;

/* The loop's: runs until it is ended; ends; and calls `done` in two milliseconds. */
static void run(chappe_pool *pool);
static void end(void);
static void work(struct job *job);

static void check(int64_t result)
{
    if (result < 0) {
        fprintf(stderr, "%s\n", chappe_last_error());
        exit(1);
    }
}

static void done(struct job *job)
{
    check(chappe_permit_release(&job->gpu));
    if (--left == 0)
        end();
}

/* The job has a GPU. */
static void granted(void *job, int result)
{
    check(result);
    work(job);
}

static void begin_all(chappe_pool *pool)
{
    for (int i = 0; i < JOBS; i++)
        check(chappe_pool_acquire_async(pool, &jobs[i].gpu, granted, &jobs[i]));
}

/* The other process: it waits as threads do. */
static void other(chappe_pool *pool)
{
    for (int i = 0; i < OTHERS; i++) {
        chappe_permit gpu;
        check(chappe_pool_acquire(pool, &gpu));
        usleep(2000);
        check(chappe_permit_release(&gpu));
    }
}

int main(void)
{
    chappe_pool *pool;
    check(chappe_pool_open_or_create("gpu", 2, &pool));
    pid_t pid = fork();
    if (pid == 0) {
        other(pool);
        return 0;
    }
    run(pool);
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return 1;
    printf("%d jobs done on 2 GPUs, %d by another process\n", JOBS + OTHERS, OTHERS);
    return chappe_pool_close(pool) < 0;
}

#endif
