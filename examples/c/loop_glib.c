/*
 * A loop of GLib's shares two GPUs with another process: eight jobs wait for a permit without a thread, in one line with all others.
 *
 *     cc loop_glib.c $(pkg-config --cflags --libs chappe glib-2.0)
 */
#include "loop_jobs.h"
#include <glib-unix.h>

static GMainLoop *loop;

static gboolean worked(gpointer job)
{
    done(job);
    return G_SOURCE_REMOVE;
}

static void work(struct job *job)
{
    g_timeout_add(2, worked, job);
}

static void end(void)
{
    g_main_loop_quit(loop);
}

static gboolean ready(gint fd, GIOCondition condition, gpointer data)
{
    (void)fd, (void)condition, (void)data;
    chappe_dispatch();
    return G_SOURCE_CONTINUE;
}

static void run(chappe_pool *pool)
{
    loop = g_main_loop_new(NULL, FALSE);
    guint watched = g_unix_fd_add(chappe_dispatch_fd(), G_IO_IN, ready, NULL);
    begin_all(pool);
    g_main_loop_run(loop);
    g_source_remove(watched);
    g_main_loop_unref(loop);
}
