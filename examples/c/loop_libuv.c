/*
 * A loop of libuv's shares two GPUs with another process: eight jobs wait for a permit without a thread, in one line with all others.
 *
 *     cc loop_libuv.c $(pkg-config --cflags --libs chappe libuv)
 */
#include "loop_jobs.h"
#include <uv.h>

static uv_loop_t loop;
static uv_poll_t watched;
static uv_timer_t timers[JOBS];

static void worked(uv_timer_t *timer)
{
    done(timer->data);
    uv_close((uv_handle_t *)timer, NULL);
}

static void work(struct job *job)
{
    uv_timer_t *timer = &timers[job - jobs];
    uv_timer_init(&loop, timer);
    timer->data = job;
    uv_timer_start(timer, worked, 2, 0);
}

static void end(void)
{
    uv_close((uv_handle_t *)&watched, NULL);
}

static void ready(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events;
    chappe_dispatch();
}

static void run(chappe_pool *pool)
{
    uv_loop_init(&loop);
    uv_poll_init(&loop, &watched, chappe_dispatch_fd());
    uv_poll_start(&watched, UV_READABLE, ready);
    begin_all(pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}
