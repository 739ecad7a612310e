/* Arenas and handles: making, listing, limits, what is no arena, what is no handle, names. */
#include "check.h"

#include <fcntl.h>

static void *waits_for_a_permit(void *pool)
{
    chappe_permit permit;
    OK(chappe_pool_acquire(pool, &permit));
    OK(chappe_permit_release(&permit));
    return NULL;
}

static void made_and_listed(void)
{
    chappe_arena *arena = NULL, *same = NULL;
    chappe_arena_options options;
    chappe_capacity capacity;
    char text[256];
    memset(&options, 0, sizeof options);
    options.members = 8;
    options.objects = 3;
    options.data = 4096;
    FAILS(chappe_arena_open("lab", &arena), ENOENT);
    OK(chappe_arena_create("lab", &options, &arena));
    FAILS(chappe_arena_create("lab", NULL, &same), EEXIST);
    OK(chappe_arena_open_or_create("lab", NULL, &same));
    OK(chappe_arena_close(same));
    IS(chappe_arena_name(arena, text, sizeof text), 3);
    OK(strcmp(text, "lab"));
    ptrdiff_t len = chappe_arena_path(arena, text, sizeof text);
    CHECK(len > 4 && strcmp(text + len - 4, "/lab") == 0);
    CHECK(chappe_directory(text, sizeof text) == len - 4);
    OK(chappe_arena_capacity(arena, &capacity));
    CHECK(capacity.members == 8 && capacity.objects == 3 && capacity.data == 4096 && capacity.objects_used == 0);
    chappe_name names[4];
    IS(chappe_arena_list(names, 4), 1);
    OK(strcmp(names[0].text, "lab"));
    IS(chappe_arena_list(NULL, 0), 1);
    FAILS(chappe_arena_list(NULL, 1), EFAULT);

    chappe_semaphore *s, *more;
    chappe_pool *pool;
    chappe_permit permit;
    OK(chappe_semaphore_create("lab/s", 0, 0, &s));
    OK(chappe_pool_create("lab/p", 1, &pool));
    OK(chappe_semaphore_create("lab/t", 0, 0, &more));
    OK(chappe_semaphore_close(more));
    FAILS(chappe_semaphore_create("lab/one too many", 0, 0, &more), EINVAL);
    FAILS(chappe_semaphore_create("lab/one-too-many", 0, 0, &more), ENOSPC);
    CHECK(strstr(chappe_last_error(), "3 objects"));
    chappe_object objects[4];
    IS(chappe_arena_objects(arena, objects, 4), 3);
    for (int i = 0; i < 3; i++)
        IS(objects[i].kind, strcmp(objects[i].name.text, "p") == 0 ? CHAPPE_IS_POOL : CHAPPE_IS_SEMAPHORE);
    OK(chappe_pool_acquire(pool, &permit));
    chappe_waiter waiters[2];
    IS(chappe_arena_waiters(arena, "p", waiters, 2), 0);
    pthread_t waits = thread(waits_for_a_permit, pool);
    EVENTUALLY(chappe_arena_waiters(arena, "p", NULL, 0) == 1);
    IS(chappe_arena_waiters(arena, "p", waiters, 2), 1);
    CHECK(waiters[0].pid == getpid() && waiters[0].tid != getpid());
    IS(chappe_arena_waiters(arena, "s", waiters, 2), 0);
    FAILS(chappe_arena_waiters(arena, "none", waiters, 2), ENOENT);
    FAILS(chappe_arena_waiters(arena, "lab/p", waiters, 2), EINVAL);
    FAILS(chappe_arena_waiters(arena, NULL, waiters, 2), EFAULT);
    FAILS(chappe_arena_waiters(NULL, "p", waiters, 2), EBADF);
    OK(chappe_permit_release(&permit));
    joined(waits);
    OK(chappe_pool_acquire(pool, &permit));
    chappe_member members[8];
    CHECK(chappe_arena_members(arena, members, 8) >= 1 && members[0].pid == getpid() && members[0].is_alive);
    OK(chappe_arena_leave(arena));
    IS(chappe_permit_is_valid(&permit), 0);
    IS(chappe_pool_available(pool), 1);
    OK(chappe_semaphore_close(s));
    OK(chappe_pool_close(pool));
    OK(chappe_arena_close(arena));
    FAILS(chappe_arena_close(arena), EBADF);
    FAILS(chappe_arena_leave(arena), EBADF);
}

static void bad_options_and_names_are_refused(void)
{
    chappe_arena *arena;
    chappe_arena_options options;
    memset(&options, 0, sizeof options);
    options.members = 70000;
    FAILS(chappe_arena_create("large", &options, &arena), EINVAL);
    memset(&options, 0, sizeof options);
    options.reserved_too[0] = 1;
    FAILS(chappe_arena_create("large", &options, &arena), EINVAL);
    memset(&options, 0, sizeof options);
    options.reserved = 1;
    FAILS(chappe_arena_create("large", &options, &arena), EINVAL);
    FAILS(chappe_arena_open(NULL, &arena), EFAULT);
    FAILS(chappe_arena_open("", &arena), EINVAL);
    FAILS(chappe_arena_open(".hidden", &arena), EINVAL);
    FAILS(chappe_arena_open("a/b", &arena), EINVAL);
    FAILS(chappe_arena_open("\xff", &arena), EINVAL);
    char endless[4096];
    memset(endless, 'x', sizeof endless);
    FAILS(chappe_arena_open(endless, &arena), ENAMETOOLONG);
    endless[48] = 0;
    FAILS(chappe_arena_open(endless, &arena), EINVAL);
    FAILS(chappe_arena_open("x", NULL), EFAULT);
    FAILS(chappe_set_label(endless + 49), ENAMETOOLONG);
    FAILS(chappe_set_label(NULL), EFAULT);
    FAILS(chappe_set_role(3), EINVAL);
    OK(chappe_set_role(CHAPPE_SLEEPER));
    OK(chappe_set_role(CHAPPE_TIME_SHARING));
}

static void put(const char *name, const void *bytes, size_t size)
{
    char path[512];
    ptrdiff_t len = chappe_directory(path, sizeof path);
    snprintf(path + len, sizeof path - (size_t)len, "/%s", name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    IS(pwrite(fd, bytes, size, 0), size);
    close(fd);
}

/* Files that are no arena of ours. */
static void a_damaged_arena_is_refused(void)
{
    chappe_arena *arena;
    chappe_semaphore *s;
    char zeros[8192] = "";
    memset(zeros, 'z', sizeof zeros);
    put("garbage", zeros, sizeof zeros);
    FAILS(chappe_arena_open("garbage", &arena), EUCLEAN);
    FAILS(chappe_semaphore_create("garbage/s", 0, 0, &s), EUCLEAN);
    /* It may be anybody's: it stays. */
    FAILS(chappe_arena_remove("garbage", 1), EUCLEAN);
    char garbage[512];
    ptrdiff_t directory = chappe_directory(garbage, sizeof garbage);
    snprintf(garbage + directory, sizeof garbage - (size_t)directory, "/garbage");
    OK(unlink(garbage));
    /* Another layout's: the number behind the magic. The arena must not be mapped here yet. */
    pid_t pid = fork();
    if (pid == 0) {
        OK(chappe_arena_create("other-version", NULL, &arena));
        _exit(0);
    }
    ended_well(pid);
    char path[512];
    ptrdiff_t len = chappe_directory(path, sizeof path);
    snprintf(path + len, sizeof path - (size_t)len, "/other-version");
    int fd = open(path, O_RDWR);
    uint32_t version = 0;
    IS(pread(fd, &version, 4, 8), 4);
    CHECK(version > 0 && version < 1000);
    version += 1000;
    IS(pwrite(fd, &version, 4, 8), 4);
    close(fd);
    FAILS(chappe_arena_open("other-version", &arena), EPROTONOSUPPORT);
    FAILS(chappe_semaphore_open("other-version/s", &s), EPROTONOSUPPORT);
    CHECK(strstr(chappe_last_error(), "version"));
    OK(chappe_arena_remove("other-version", 1));
}

/* Every function of each kind refuses every other kind's handle, a closed one, and any address. */
static void handles(void)
{
    chappe_semaphore *s;
    chappe_pool *pool;
    chappe_mutex *mutex;
    chappe_condvar *condvar;
    chappe_sender *tx;
    chappe_receiver *rx;
    chappe_arena *arena;
    chappe_tube *tube;
    chappe_mutex_options options;
    uint64_t local = 0;
    memset(&options, 0, sizeof options);
    OK(chappe_semaphore_private(0, 0, &s));
    OK(chappe_pool_private(1, &pool));
    OK(chappe_mutex_private(&options, &mutex));
    OK(chappe_condvar_private(&condvar));
    OK(chappe_tube_private(1, 8, &tx, &rx));
    OK(chappe_arena_create("handles", NULL, &arena));
    OK(chappe_tube_create("handles/t", NULL, &tube));
    void *all[] = {s, pool, mutex, condvar, tx, rx, arena, tube, NULL, &local, (char *)s + 1, (char *)s + 64, (void *)handles,
                   (void *)(uintptr_t)-1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *one = all[i];
        chappe_permit permit;
        char byte;
        if (one != s)
            FAILS(chappe_semaphore_try_down((chappe_semaphore *)one), EBADF);
        if (one != pool)
            FAILS(chappe_pool_try_acquire((chappe_pool *)one, &permit), EBADF);
        if (one != mutex)
            FAILS(chappe_mutex_try_lock((chappe_mutex *)one, NULL), EBADF);
        if (one != condvar)
            FAILS(chappe_condvar_notify_one((chappe_condvar *)one), EBADF);
        if (one != tx)
            FAILS(chappe_try_send((chappe_sender *)one, &byte, 1), EBADF);
        if (one != rx)
            FAILS(chappe_try_recv((chappe_receiver *)one, &byte, 1, NULL), EBADF);
        if (one != arena)
            FAILS(chappe_arena_leave((chappe_arena *)one), EBADF);
        if (one != tube)
            FAILS(chappe_tube_seal((chappe_tube *)one), EBADF);
    }
    OK(chappe_semaphore_close(s));
    OK(chappe_pool_close(pool));
    OK(chappe_mutex_close(mutex));
    OK(chappe_condvar_close(condvar));
    OK(chappe_sender_close(tx));
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_close(tube));
    OK(chappe_arena_close(arena));
    OK(chappe_arena_remove("handles", 1));
}

/* What is refused since all handles are open was not made, either, and nobody was attached. */
static void nothing_is_made_without_a_handle(chappe_tube *tube)
{
    chappe_semaphore *s;
    chappe_pool *pool;
    chappe_mutex *mutex;
    chappe_condvar *condvar;
    chappe_tube *other;
    chappe_arena *arena;
    chappe_sender *tx;
    chappe_receiver *rx;
    chappe_mutex_options options = {.size = 8};
    chappe_tube_info info;
    FAILS(chappe_semaphore_create("none", 0, 0, &s), EMFILE);
    FAILS(chappe_pool_create("none", 1, &pool), EMFILE);
    FAILS(chappe_mutex_create("none", &options, &mutex), EMFILE);
    FAILS(chappe_condvar_create("none", &condvar), EMFILE);
    FAILS(chappe_tube_create("none", NULL, &other), EMFILE);
    FAILS(chappe_pool_remove("none", 0), ENOENT);
    FAILS(chappe_arena_create("none", NULL, &arena), EMFILE);
    FAILS(chappe_arena_remove("none", 0), ENOENT);
    FAILS(chappe_tube_sender(tube, &tx), EMFILE);
    FAILS(chappe_tube_receiver(tube, &rx), EMFILE);
    OK(chappe_tube_look(tube, &info));
    IS(info.senders, 0);
    IS(info.receivers, 0);
}

/* Else its senders would all have gone. */
static void no_sender_has_come(chappe_tube *tube)
{
    chappe_receiver *rx;
    char record[256];
    OK(chappe_tube_receiver(tube, &rx));
    FAILS(chappe_try_recv(rx, record, sizeof record, NULL), EAGAIN);
    OK(chappe_receiver_close(rx));
}

static void as_many_as_there_can_be(void)
{
    enum { MOST = 65536 };
    static chappe_condvar *all[MOST];
    chappe_condvar *one_more;
    int made = 0;
    chappe_tube *tube;
    OK(chappe_tube_create("attached", NULL, &tube));
    OK(chappe_condvar_create("shared", &one_more));
    for (; made < MOST - 2; made++)
        OK(chappe_condvar_open("shared", &all[made]));
    FAILS(chappe_condvar_open("shared", &all[made]), EMFILE);
    nothing_is_made_without_a_handle(tube);
    OK(chappe_condvar_close(all[77]));
    no_sender_has_come(tube);
    OK(chappe_condvar_open("shared", &all[77]));
    for (int i = 0; i < made; i++)
        OK(chappe_condvar_close(all[i]));
    OK(chappe_condvar_close(one_more));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("attached", 0));
    OK(chappe_condvar_remove("shared", 0));
}

int main(void)
{
    OK(strcmp(chappe_version(), "0.1.0"));
    OK(strcmp(chappe_last_error(), ""));
    made_and_listed();
    OK(chappe_arena_remove("lab", 1));
    bad_options_and_names_are_refused();
    a_damaged_arena_is_refused();
    handles();
    as_many_as_there_can_be();
    OK(chappe_arena_remove("default", 1));
    return 0;
}
