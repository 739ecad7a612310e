/* Pools, mutexes, semaphores and tubes on an engine, whose URL is the first argument. */
#include "check.h"

#include <chappe/remote.h>

static const char *engine;
static chappe_remote *lab;

static void pools(void) {
    static const char *const both[] = {"a", "b"}, *const none[] = {"nothing"};
    chappe_remote_permit *first, *second, *third;
    chappe_remote_pool_info info;
    uint64_t token, next;
    uint32_t indices[4];
    CHECK(chappe_remote_create_pool(lab, "a", 1) == 0 && chappe_remote_create_pool(lab, "b", 3) == 0);
    CHECK(chappe_remote_create_pool(lab, "a", 1) == -EEXIST && strstr(chappe_last_error(), "there already") != NULL);
    CHECK(chappe_remote_create_pool(lab, "c/d", 1) == -EINVAL);
    CHECK(chappe_remote_acquire(lab, both, 2, 1, CHAPPE_FOREVER, &first) == 0);
    CHECK(chappe_remote_acquire(lab, both, 2, 1, 0, &second) == 1);
    CHECK(chappe_remote_acquire(lab, both + 1, 1, 2, 1000 * CHAPPE_SECOND, &third) == 0);
    CHECK(chappe_remote_indices(third, indices, 4) == 2 && indices[0] < indices[1]);
    CHECK(chappe_remote_look_at_pool(lab, "b", &info) == 0 && info.permits == 3 && info.held == 3 && info.waiting == 0);
    CHECK(chappe_remote_check(first, &token) == 0 && chappe_remote_check(second, &next) == 0 && token < next);
    CHECK(chappe_remote_check(first, NULL) == -EFAULT);
    CHECK(chappe_remote_left(first) > CHAPPE_SECOND);
    CHECK(chappe_remote_acquire(lab, both, 2, 1, 0, &first) == -EAGAIN);
    CHECK(chappe_remote_acquire(lab, both, 2, 1, 1000000, &first) == -ETIMEDOUT);
    CHECK(chappe_remote_acquire(lab, both, 1, 2, 0, &first) == -ERANGE);
    CHECK(chappe_remote_acquire(lab, both, 2, 2, 0, &first) == -EINVAL);
    CHECK(chappe_remote_acquire(lab, none, 1, 1, 0, &first) == -ENOENT);
    CHECK(chappe_remote_acquire(lab, none, 0, 1, 0, &first) == -EINVAL);
    CHECK(chappe_remote_consistent(first) == -EINVAL);
    CHECK(chappe_remote_resize_pool(lab, "b", 2) == 0);
    CHECK(chappe_remote_remove(lab, "a", false) == -EBUSY);
    CHECK(chappe_remote_release(first) == 0 && chappe_remote_release(first) == -EBADF);

    /* A removal by force takes what is held of it, which its descriptor tells. */
    chappe_arm arms[] = {chappe_arm_readable(chappe_remote_lost(second))};
    CHECK(chappe_try_select(arms, 1, 0) == -EAGAIN);
    CHECK(chappe_remote_remove(lab, "b", true) == 0);
    CHECK(chappe_select(arms, 1, 0) == 0);
    CHECK(chappe_remote_check(second, &token) == -ESTALE && chappe_remote_left(second) == 0);
    CHECK(chappe_remote_release(second) == -ESTALE);
    CHECK(chappe_remote_release(third) == -ESTALE);
    CHECK(chappe_remote_remove(lab, "a", false) == 0);
}

static void mutexes_and_semaphores(void) {
    chappe_remote_permit *guard;
    uint64_t token;
    CHECK(chappe_remote_create_mutex(lab, "m") == 0);
    CHECK(chappe_remote_lock(lab, "m", CHAPPE_FOREVER, &guard) == 0);
    CHECK(chappe_remote_check(guard, &token) == 0 && chappe_remote_indices(guard, NULL, 0) == 1);
    CHECK(chappe_remote_release(guard) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* What is inherited is void; it dies with a mutex of its own. */
        chappe_remote *own;
        CHECK(chappe_remote_lock(lab, "m", 0, &guard) == -EPERM);
        CHECK(chappe_remote_close(lab) == 0);
        CHECK(chappe_remote_open(engine, NULL, &own) == 0);
        CHECK(chappe_remote_lock(own, "m", CHAPPE_FOREVER, &guard) == 0);
        CHECK(chappe_remote_close(own) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(chappe_remote_lock(lab, "m", 0, &guard) == -EAGAIN);
    CHECK(chappe_remote_lock(lab, "m", CHAPPE_FOREVER, &guard) == -EOWNERDEAD);
    CHECK(chappe_remote_consistent(guard) == 0 && chappe_remote_release(guard) == 0);
    CHECK(chappe_remote_lock(lab, "m", 0, &guard) == 0 && chappe_remote_abandon(guard) == 0);
    CHECK(chappe_remote_lock(lab, "m", 0, &guard) == -EOWNERDEAD && chappe_remote_consistent(guard) == 0);
    CHECK(chappe_remote_release(guard) == 0 && chappe_remote_abandon(guard) == -EBADF);

    CHECK(chappe_remote_create_semaphore(lab, "s", 1) == 0);
    CHECK(chappe_remote_down(lab, "s", 0) == 0 && chappe_remote_down(lab, "s", 0) == -EAGAIN);
    CHECK(chappe_remote_up(lab, "s", 3) == 3 && chappe_remote_value(lab, "s") == 3);
    CHECK(chappe_remote_up(lab, "s", UINT32_MAX) == -EOVERFLOW);
    CHECK(chappe_remote_down(lab, "m", 0) == -EPROTOTYPE);
}

static void tubes(void) {
    const char *words[] = {"one", "three"};
    const size_t lengths[] = {3, 5};
    char text[8];
    chappe_remote_record record;
    chappe_remote_sender *sender;
    chappe_remote_receiver *receiver;
    CHECK(chappe_remote_create_tube(lab, "t", 2, 5) == 0);
    CHECK(chappe_remote_open_sender(lab, "t", &sender) == 0);
    CHECK(chappe_remote_open_receiver(lab, "t", false, &receiver) == 0);
    CHECK(chappe_remote_recv(receiver, text, sizeof text, 0, NULL) == -EAGAIN);
    CHECK(chappe_remote_send(sender, (const void *const *)words, lengths, 2, CHAPPE_FOREVER) == 2);
    CHECK(chappe_remote_send(sender, (const void *const *)words, lengths, 1, CHAPPE_FOREVER) == 1);
    CHECK(chappe_remote_send(sender, (const void *const *)words, lengths, 1, 0) == -EAGAIN);
    CHECK(chappe_remote_recv(receiver, text, sizeof text, CHAPPE_FOREVER, &record) == 3 && !memcmp(text, "one", 3));
    CHECK(record.token > 0 && !record.again);
    CHECK(chappe_remote_recv(receiver, text, 4, CHAPPE_FOREVER, NULL) == -EMSGSIZE);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, NULL) == 5 && !memcmp(text, "three", 5));
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, NULL) == 3);
    CHECK(chappe_remote_check_receiver(receiver) == 0);
    /* It has finished with these when it asks for more: there is room again. */
    CHECK(chappe_remote_recv(receiver, text, 5, 0, NULL) == -EAGAIN);
    /* What it was not given, and what it has not finished with, comes to another. */
    CHECK(chappe_remote_send(sender, (const void *const *)words, lengths, 2, CHAPPE_FOREVER) == 2);
    CHECK(chappe_remote_recv(receiver, text, 2, CHAPPE_FOREVER, NULL) == -EMSGSIZE);
    CHECK(chappe_remote_close_receiver(receiver) == 0);
    CHECK(chappe_remote_open_receiver(lab, "t", false, &receiver) == 0);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, &record) == 3 && record.again);
    CHECK(chappe_remote_abandon_receiver(receiver) == 0 && chappe_remote_check_receiver(receiver) == -EBADF);
    CHECK(chappe_remote_open_receiver(lab, "t", false, &receiver) == 0);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, &record) == 3 && record.again);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, &record) == 5);
    CHECK(chappe_remote_abandon_sender(sender) == 0 && chappe_remote_abandon_sender(sender) == -EBADF);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, NULL) == -ECONNRESET);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, NULL) == -EPIPE);
    CHECK(chappe_remote_close_receiver(receiver) == 0);
    CHECK(chappe_remote_open_sender(lab, "t", &sender) == 0);
    CHECK(chappe_remote_open_receiver(lab, "t", false, &receiver) == 0);
    CHECK(chappe_remote_seal(lab, "t") == 0);
    CHECK(chappe_remote_send(sender, (const void *const *)words, lengths, 1, CHAPPE_FOREVER) == -EPIPE);
    CHECK(chappe_remote_close_sender(sender) == 0 && chappe_remote_close_sender(sender) == -EBADF);
    CHECK(chappe_remote_recv(receiver, text, 5, CHAPPE_FOREVER, NULL) == -EPIPE);
    CHECK(chappe_remote_close_receiver(receiver) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    engine = argv[1];
    CHECK(chappe_remote_open("gopher://x", NULL, &lab) == -EINVAL);
    CHECK(chappe_remote_open(engine, "test", &lab) == 0);
    pools();
    mutexes_and_semaphores();
    tubes();
    CHECK(chappe_remote_close(lab) == 0 && chappe_remote_close(lab) == -EBADF);
    return 0;
}
