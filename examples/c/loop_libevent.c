/*
 * A loop of libevent's shares two GPUs with another process: eight jobs wait for a permit without a thread, in one line with all others.
 *
 *     cc loop_libevent.c $(pkg-config --cflags --libs chappe libevent)
 */
#include "loop_jobs.h"
#include <event2/event.h>

static struct event_base *loop;

static void worked(evutil_socket_t fd, short what, void *job)
{
    (void)fd, (void)what;
    done(job);
}

static void work(struct job *job)
{
    event_base_once(loop, -1, EV_TIMEOUT, worked, job, &(struct timeval){.tv_usec = 2000});
}

static void end(void)
{
    event_base_loopbreak(loop);
}

static void ready(evutil_socket_t fd, short what, void *data)
{
    (void)fd, (void)what, (void)data;
    chappe_dispatch();
}

static void run(chappe_pool *pool)
{
    loop = event_base_new();
    struct event *watched = event_new(loop, chappe_dispatch_fd(), EV_READ | EV_PERSIST, ready, NULL);
    event_add(watched, NULL);
    begin_all(pool);
    event_base_dispatch(loop);
    event_free(watched);
    event_base_free(loop);
}
