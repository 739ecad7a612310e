/* Tubes: each function's contract, in place and copied, deaths, descriptors, threads and processes. */
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <poll.h>

static chappe_tube_options options_of(uint32_t slots, uint32_t size, int kind)
{
    chappe_tube_options options;
    memset(&options, 0, sizeof options);
    options.slots = slots;
    options.size = size;
    options.kind = kind;
    return options;
}

static chappe_tube *tube;
static chappe_sender *tx;
static chappe_receiver *rx;

static void copied(void)
{
    char buffer[32];
    bool again = true;
    FAILS(chappe_try_recv(rx, buffer, sizeof buffer, &again), EAGAIN);
    FAILS(chappe_recv_timeout(rx, buffer, sizeof buffer, NULL, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_recv_deadline(rx, buffer, sizeof buffer, NULL, chappe_now()), ETIMEDOUT);
    FAILS(chappe_recv_timeout(rx, buffer, sizeof buffer, NULL, -1), EINVAL);
    IS(chappe_receiver_is_empty(rx), 1);
    OK(chappe_send(tx, "one", 3));
    OK(chappe_try_send(tx, "", 0));
    OK(chappe_send_timeout(tx, NULL, 0, CHAPPE_SECOND));
    OK(chappe_send_deadline(tx, "0123456789abcdef", 16, CHAPPE_FOREVER));
    IS(chappe_sender_is_full(tx), 1);
    FAILS(chappe_try_send(tx, "x", 1), EAGAIN);
    FAILS(chappe_send_timeout(tx, "x", 1, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_send_deadline(tx, "x", 1, chappe_now()), ETIMEDOUT);
    FAILS(chappe_send_timeout(tx, "x", 1, -1), EINVAL);
    FAILS(chappe_send(tx, "0123456789abcdefg", 17), EMSGSIZE);
    FAILS(chappe_send(tx, NULL, 1), EFAULT);
    IS(chappe_sender_len(tx), 4);
    IS(chappe_receiver_len(rx), 4);
    IS(chappe_sender_capacity(tx), 4);
    IS(chappe_receiver_capacity(rx), 4);
    IS(chappe_sender_size(tx), 16);
    IS(chappe_receiver_size(rx), 16);
    FAILS(chappe_recv(rx, buffer, 15, NULL), EMSGSIZE);
    FAILS(chappe_recv(rx, NULL, 16, NULL), EFAULT);
    IS(chappe_recv(rx, buffer, sizeof buffer, &again), 3);
    CHECK(!again && memcmp(buffer, "one", 3) == 0);
    IS(chappe_try_recv(rx, buffer, sizeof buffer, NULL), 0);
    IS(chappe_recv_timeout(rx, buffer, sizeof buffer, &again, CHAPPE_SECOND), 0);
    IS(chappe_recv_deadline(rx, buffer, 16, &again, CHAPPE_FOREVER), 16);
    CHECK(!again && memcmp(buffer, "0123456789abcdef", 16) == 0);
}

static void *another_thread(void *unused)
{
    const void *data;
    (void)unused;
    FAILS(chappe_sender_commit(tx, 1), EPERM);
    FAILS(chappe_sender_give_up(tx), EPERM);
    FAILS(chappe_receiver_release(rx), EPERM);
    FAILS(chappe_receiver_put_back(rx), EPERM);
    FAILS(chappe_receiver_try_borrow(rx, &data, NULL), EBUSY);
    return NULL;
}

static void in_the_child(void)
{
    FAILS(chappe_sender_commit(tx, 1), EPERM);
    FAILS(chappe_receiver_release(rx), EPERM);
}

static void in_place(int may_fork)
{
    void *slot;
    const void *record;
    bool again = true;
    FAILS(chappe_sender_commit(tx, 1), EINVAL);
    FAILS(chappe_sender_give_up(tx), EINVAL);
    FAILS(chappe_receiver_release(rx), EINVAL);
    FAILS(chappe_receiver_put_back(rx), EINVAL);
    FAILS(chappe_receiver_try_borrow(rx, &record, NULL), EAGAIN);
    FAILS(chappe_receiver_borrow_timeout(rx, &record, NULL, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_receiver_borrow_deadline(rx, &record, NULL, chappe_now()), ETIMEDOUT);
    OK(chappe_sender_reserve(tx, &slot));
    FAILS(chappe_sender_reserve(tx, &slot), EBUSY);
    FAILS(chappe_send(tx, "x", 1), EBUSY);
    FAILS(chappe_sender_len(tx), EBUSY);
    memcpy(slot, "written there", 13);
    FAILS(chappe_sender_commit(tx, 17), EMSGSIZE);
    OK(chappe_sender_commit(tx, 13));
    OK(chappe_sender_try_reserve(tx, &slot));
    OK(chappe_sender_give_up(tx));
    OK(chappe_sender_reserve_timeout(tx, &slot, CHAPPE_SECOND));
    memcpy(slot, "two", 3);
    IS(chappe_receiver_borrow(rx, &record, &again), 13);
    CHECK(!again && memcmp(record, "written there", 13) == 0);
    FAILS(chappe_receiver_borrow(rx, &record, NULL), EBUSY);
    joined(thread(another_thread, NULL));
    if (may_fork)
        ended_well(child(in_the_child));
    OK(chappe_sender_commit(tx, 3));
    OK(chappe_receiver_put_back(rx));
    /* What comes again comes before, or after: it is marked. */
    int marked = 0;
    for (int i = 0; i < 2; i++) {
        IS(chappe_receiver_borrow_timeout(rx, &record, &again, 30 * CHAPPE_SECOND), again ? 13 : 3);
        marked += again;
        OK(chappe_receiver_release(rx));
    }
    IS(marked, 1);
    OK(chappe_sender_reserve_deadline(tx, &slot, CHAPPE_FOREVER));
    OK(chappe_sender_commit(tx, 0));
    IS(chappe_receiver_borrow_deadline(rx, &record, NULL, CHAPPE_FOREVER), 0);
    OK(chappe_receiver_release(rx));
    for (int i = 0; i < 4; i++)
        OK(chappe_send(tx, "x", 1));
    FAILS(chappe_sender_try_reserve(tx, &slot), EAGAIN);
    FAILS(chappe_sender_reserve_timeout(tx, &slot, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_sender_reserve_deadline(tx, &slot, 1), ETIMEDOUT);
    for (int i = 0; i < 4; i++) {
        IS(chappe_receiver_try_borrow(rx, &record, NULL), 1);
        OK(chappe_receiver_release(rx));
    }
    /* Handles that are closed in the middle of it. */
    OK(chappe_sender_reserve(tx, &slot));
    OK(chappe_sender_close(tx));
    FAILS(chappe_sender_commit(tx, 1), EBADF);
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_send(tx, "kept", 4));
    IS(chappe_receiver_borrow(rx, &record, NULL), 4);
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_receiver(tube, &rx));
    IS(chappe_receiver_borrow(rx, &record, &again), 4);
    CHECK(again);
    OK(chappe_receiver_release(rx));
}

static void descriptors(void)
{
    char buffer[16];
    int out = chappe_receiver_descriptor(rx), in = chappe_sender_descriptor(tx);
    CHECK(out >= 0 && in >= 0 && chappe_receiver_descriptor(rx) == out);
    struct pollfd both[2] = {{out, POLLIN, 0}, {in, POLLIN, 0}};
    IS(chappe_receiver_rearm(rx), 1);
    IS(poll(both, 1, 0), 0);
    OK(chappe_send(tx, "x", 1));
    IS(poll(both, 1, 30000), 1);
    IS(chappe_receiver_rearm(rx), 0);
    IS(chappe_recv(rx, buffer, sizeof buffer, NULL), 1);
    IS(chappe_sender_rearm(tx), 0);
    IS(poll(both + 1, 1, 0), 1);
}

static void of_each_kind(int kind)
{
    chappe_tube_options options = options_of(4, 16, kind);
    chappe_tube *same;
    chappe_sender *second;
    chappe_receiver *third;
    int one_sender = kind == CHAPPE_SPSC || kind == CHAPPE_SPMC, one_receiver = kind == CHAPPE_SPSC || kind == CHAPPE_MPSC;
    FAILS(chappe_tube_open("t", NULL, &tube), ENOENT);
    OK(chappe_tube_create("t", &options, &tube));
    FAILS(chappe_tube_create("t", &options, &same), EEXIST);
    OK(chappe_tube_open("t", NULL, &same));
    OK(chappe_tube_close(same));
    OK(chappe_tube_open_or_create("t", &options, &same));
    OK(chappe_tube_close(same));
    options.slots = 5;
    FAILS(chappe_tube_open_or_create("t", &options, &same), EPROTOTYPE);
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_tube_receiver(tube, &rx));
    if (one_sender) {
        FAILS(chappe_tube_sender(tube, &second), EBUSY);
        FAILS(chappe_sender_another(tx, &second), EBUSY);
    } else {
        OK(chappe_sender_another(tx, &second));
        OK(chappe_sender_close(second));
    }
    if (one_receiver) {
        FAILS(chappe_receiver_another(rx, &third), EBUSY);
    } else {
        OK(chappe_receiver_another(rx, &third));
        OK(chappe_receiver_close(third));
    }
    copied();
    in_place(!one_sender && !one_receiver);
    descriptors();
    chappe_tube_info info;
    OK(chappe_tube_look(tube, &info));
    CHECK(info.kind == kind && info.slots == 4 && info.size == 16 && info.messages == 0 && info.senders == 1);
    CHECK(info.receivers == 1 && info.redelivered == 2 && info.dropped == 0 && !info.sealed && info.sent == info.received);
    OK(chappe_tube_seal(tube));
    FAILS(chappe_tube_sender(tube, &second), ESHUTDOWN);
    OK(chappe_send(tx, "last", 4));
    FAILS(chappe_tube_remove("t", 0), EBUSY);
    OK(chappe_sender_close(tx));
    FAILS(chappe_tube_sender(tube, &second), ESHUTDOWN);
    char buffer[16];
    IS(chappe_recv(rx, buffer, 16, NULL), 4);
    FAILS(chappe_recv(rx, buffer, 16, NULL), EPIPE);
    OK(chappe_tube_remove("t", 1));
    FAILS(chappe_recv(rx, buffer, 16, NULL), EIDRM);
    FAILS(chappe_tube_look(tube, &info), EIDRM);
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_close(tube));
    FAILS(chappe_tube_remove("t", 0), ENOENT);
}

static void with_a_type(void)
{
    chappe_tube_options options = options_of(4, 16, CHAPPE_MPMC);
    options.type_name = "Job";
    OK(chappe_tube_create("typed", &options, &tube));
    chappe_tube *same;
    FAILS(chappe_tube_open("typed", NULL, &same), EPROTOTYPE);
    options.size = 24;
    FAILS(chappe_tube_open("typed", &options, &same), EPROTOTYPE);
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_tube_receiver(tube, &rx));
    FAILS(chappe_send(tx, "short", 5), EMSGSIZE);
    OK(chappe_send(tx, "0123456789abcdef", 16));
    void *slot;
    OK(chappe_sender_reserve(tx, &slot));
    FAILS(chappe_sender_commit(tx, 15), EMSGSIZE);
    OK(chappe_sender_commit(tx, 16));
    OK(chappe_receiver_close(rx));
    FAILS(chappe_send(tx, "0123456789abcdef", 16), EPIPE);
    OK(chappe_sender_close(tx));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("typed", 1));
    options = options_of(0, 0, 9);
    FAILS(chappe_tube_create("none", &options, &tube), EINVAL);
    options = options_of(1 << 20, 8, 0);
    FAILS(chappe_tube_create("none", &options, &tube), EINVAL);
    options = options_of(4, 8, 0);
    options.align = 12;
    FAILS(chappe_tube_create("none", &options, &tube), EINVAL);
    options.align = 8;
    options.flags = 4;
    FAILS(chappe_tube_create("none", &options, &tube), EINVAL);
    options.flags = CHAPPE_DROPS;
    options.reserved = 1;
    FAILS(chappe_tube_create("none", &options, &tube), EINVAL);
}

static void *sends_many(void *last)
{
    chappe_sender *own = last;
    for (uint64_t i = 1; i <= 1000; i++)
        OK(chappe_send(own, &i, sizeof i));
    OK(chappe_sender_close(own));
    return NULL;
}

static void *sends_by_poll(void *v)
{
    (void)v;
    for (uint64_t i = 1; i <= 500; i++)
        while (chappe_try_send(tx, &i, sizeof i) != 0) {
            struct pollfd room = {chappe_sender_descriptor(tx), POLLIN, 0};
            if (chappe_sender_rearm(tx) == 1)
                IS(poll(&room, 1, 30000), 1);
        }
    return NULL;
}

/* Neither is ever at the tube while it waits. */
static void two_that_poll_a_tube_without_slots_meet(void)
{
    OK(chappe_tube_private(0, 8, &tx, &rx));
    pthread_t sender = thread(sends_by_poll, NULL);
    for (uint64_t i = 1, got; i <= 500; i++) {
        while (chappe_try_recv(rx, &got, sizeof got, NULL) < 0) {
            struct pollfd there = {chappe_receiver_descriptor(rx), POLLIN, 0};
            if (chappe_receiver_rearm(rx) == 1)
                IS(poll(&there, 1, 30000), 1);
        }
        IS(got, i);
    }
    joined(sender);
    OK(chappe_sender_close(tx));
    OK(chappe_receiver_close(rx));
}

/* Slots: 0, 3, any. */
static void of_this_process(int64_t slots)
{
    char large[200], buffer[200];
    memset(large, 'l', sizeof large);
    OK(chappe_tube_private(slots, 200, &tx, &rx));
    IS(chappe_sender_capacity(tx), slots);
    IS(chappe_receiver_capacity(rx), slots);
    const void *data;
    void *slot;
    FAILS(chappe_sender_reserve(tx, &slot), EOPNOTSUPP);
    FAILS(chappe_receiver_borrow(rx, &data, NULL), EOPNOTSUPP);
    FAILS(chappe_receiver_release(rx), EOPNOTSUPP);
    FAILS(chappe_try_recv(rx, buffer, 200, NULL), EAGAIN);
    FAILS(chappe_recv_timeout(rx, buffer, 200, NULL, 1), ETIMEDOUT);
    FAILS(chappe_recv(rx, buffer, 199, NULL), EMSGSIZE);
    FAILS(chappe_send(tx, large, 201), EMSGSIZE);
    if (slots == 0) {
        FAILS(chappe_try_send(tx, large, 200), EAGAIN);
        FAILS(chappe_send_timeout(tx, large, 200, 1), ETIMEDOUT);
    } else {
        OK(chappe_send(tx, large, 200));
        IS(chappe_sender_len(tx), 1);
        IS(chappe_recv(rx, buffer, 200, NULL), 200);
        OK(memcmp(buffer, large, 200));
    }
    pthread_t all[3];
    for (int i = 0; i < 3; i++) {
        chappe_sender *own;
        OK(chappe_sender_another(tx, &own));
        all[i] = thread(sends_many, own);
    }
    OK(chappe_sender_close(tx));
    uint64_t sum = 0, one;
    for (int i = 0; i < 3000; i++) {
        IS(chappe_recv(rx, buffer, 200, NULL), sizeof one);
        memcpy(&one, buffer, sizeof one);
        sum += one;
    }
    IS(sum, 3 * 500500);
    FAILS(chappe_recv(rx, buffer, 200, NULL), EPIPE);
    for (int i = 0; i < 3; i++)
        joined(all[i]);
    OK(chappe_receiver_close(rx));
}

static void sends_and_dies(void)
{
    chappe_sender *own;
    void *slot;
    OK(chappe_tube_sender(tube, &own));
    OK(chappe_send(own, "sent", 4));
    OK(chappe_sender_reserve(own, &slot));
    memcpy(slot, "lost", 4);
    kill(getpid(), SIGKILL);
}

static void borrows_and_dies(void)
{
    chappe_receiver *own;
    const void *record;
    OK(chappe_tube_receiver(tube, &own));
    IS(chappe_receiver_borrow(own, &record, NULL), 4);
    kill(getpid(), SIGKILL);
}

static void was_killed(pid_t pid)
{
    int status = ended(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void deaths(void)
{
    chappe_tube_options options = options_of(4, 16, CHAPPE_MPMC);
    char buffer[16];
    bool again;
    OK(chappe_tube_create("mortal", &options, &tube));
    OK(chappe_tube_receiver(tube, &rx));
    was_killed(child(sends_and_dies));
    was_killed(child(borrows_and_dies));
    IS(chappe_recv_timeout(rx, buffer, 16, &again, 30 * CHAPPE_SECOND), 4);
    CHECK(again && memcmp(buffer, "sent", 4) == 0);
    FAILS(chappe_recv_timeout(rx, buffer, 16, NULL, 30 * CHAPPE_SECOND), ECONNRESET);
    FAILS(chappe_recv_timeout(rx, buffer, 16, NULL, 30 * CHAPPE_SECOND), EPIPE);
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("mortal", 0));
}

/* A parent's ends are the child's own from their first use; the parent's stay. */
static chappe_arena *here;

/* With a record borrowed and a slot reserved, it ends, or leaves first. */
static void *has_something(void *leaves)
{
    const void *record;
    void *slot;
    bool again;
    IS(chappe_receiver_borrow(rx, &record, &again), 4);
    CHECK(!again && memcmp(record, "sent", 4) == 0);
    OK(chappe_sender_reserve(tx, &slot));
    memcpy(slot, "bad", 3);
    if (leaves) {
        OK(chappe_arena_leave(here));
        FAILS(chappe_receiver_release(rx), EINVAL);
        FAILS(chappe_receiver_put_back(rx), EINVAL);
        FAILS(chappe_sender_commit(tx, 3), EINVAL);
        FAILS(chappe_sender_give_up(tx), EINVAL);
    }
    return NULL;
}

/* What a thread has when it ends is not lost: the record comes again, the slot is free, and the handles serve the next thread. */
static void partings(void)
{
    chappe_tube_options options = options_of(2, 16, CHAPPE_MPMC);
    char buffer[16];
    bool again;
    const void *record;
    void *slot;
    OK(chappe_tube_create("parting", &options, &tube));
    OK(chappe_tube_receiver(tube, &rx));
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_arena_open("default", &here));
    for (int i = 0; i < 6; i++) {
        OK(chappe_send(tx, "sent", 4));
        joined(thread(has_something, i % 2 ? &here : NULL));
        IS(chappe_receiver_borrow(rx, &record, &again), 4);
        CHECK(again && memcmp(record, "sent", 4) == 0);
        OK(chappe_receiver_release(rx));
        FAILS(chappe_try_recv(rx, buffer, 16, &again), EAGAIN);
        /* Both slots are there. */
        OK(chappe_try_send(tx, "one", 3));
        OK(chappe_sender_try_reserve(tx, &slot));
        memcpy(slot, "two", 3);
        OK(chappe_sender_commit(tx, 3));
        IS(chappe_recv(rx, buffer, 16, &again), 3);
        IS(chappe_recv(rx, buffer, 16, &again), 3);
        CHECK(memcmp(buffer, "two", 3) == 0);
    }
    /* Of two arenas it leaves one. */
    OK(chappe_send(tx, "sent", 4));
    chappe_arena *other;
    chappe_arena_options small = {.members = 4};
    OK(chappe_arena_create("other", &small, &other));
    IS(chappe_receiver_borrow(rx, &record, &again), 4);
    OK(chappe_arena_leave(other));
    OK(chappe_receiver_release(rx));
    OK(chappe_arena_close(other));
    OK(chappe_arena_remove("other", 0));
    OK(chappe_arena_close(here));
    OK(chappe_receiver_close(rx));
    OK(chappe_sender_close(tx));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("parting", 0));
}

static void sends_by_the_parents_handle(void)
{
    OK(chappe_send(tx, "from the child", 14));
    OK(chappe_sender_close(tx));
}

static void has_no_right_to_it(void)
{
    FAILS(chappe_try_send(tx, "x", 1), EPERM);
    FAILS(chappe_sender_descriptor(tx), EPERM);
    OK(chappe_sender_close(tx));
}

static void forks(void)
{
    char buffer[16];
    for (int kind = CHAPPE_MPMC; kind <= CHAPPE_SPSC; kind++) {
        chappe_tube_options options = options_of(4, 16, kind);
        int many = kind == CHAPPE_MPMC || kind == CHAPPE_MPSC;
        OK(chappe_tube_create("forked", &options, &tube));
        OK(chappe_tube_sender(tube, &tx));
        OK(chappe_tube_receiver(tube, &rx));
        pid_t pid = child(many ? sends_by_the_parents_handle : has_no_right_to_it);
        if (many)
            IS(chappe_recv(rx, buffer, 16, NULL), 14);
        ended_well(pid);
        FAILS(chappe_try_recv(rx, buffer, 16, NULL), EAGAIN);
        OK(chappe_sender_close(tx));
        OK(chappe_receiver_close(rx));
        OK(chappe_tube_close(tube));
        OK(chappe_tube_remove("forked", 0));
    }
}

static chappe_receiver *waits_at;

/* What the parent has reserved and borrowed, or is about to, is in nobody's way here. */
static void begins_anew(void)
{
    const void *data;
    void *slot;
    char buffer[16];
    chappe_arm arm = chappe_arm_send(tx, "chosen", 6);
    OK(chappe_send(tx, "sent", 4));
    IS(chappe_select(&arm, 1, 0), 0);
    OK((int)arm.result);
    OK(chappe_sender_reserve(tx, &slot));
    OK(chappe_sender_give_up(tx));
    IS(chappe_receiver_borrow(rx, &data, NULL), 4);
    OK(chappe_receiver_release(rx));
    /* In the parent a thread waits in just this call. */
    FAILS(chappe_receiver_try_borrow(waits_at, &data, NULL), EAGAIN);
    IS(chappe_recv(rx, buffer, 16, NULL), 6);
}

static void *borrows_later(void *nothing)
{
    const void *data;
    IS(chappe_receiver_borrow(waits_at, &data, NULL), 4);
    OK(chappe_receiver_release(waits_at));
    return nothing;
}

static int told[2];

/* Sends until it fails, and says how. */
static void sends_and_tells(void)
{
    int end;
    OK(chappe_tube_sender(tube, &tx));
    do
        end = chappe_send_timeout(tx, "one", 3, 60 * CHAPPE_SECOND);
    while (end == 0);
    IS(write(told[1], &end, sizeof end), sizeof end);
}

/* Has the receiver's end in its handle, and forks. */
static void receives_by_its_child(void)
{
    OK(chappe_tube_receiver(tube, &rx));
    pid_t pid = fork();
    if (pid == 0) {
        sends_and_tells();
        _exit(0);
    }
    for (;;)
        pause();
}

/* A child that only sends is no receiver, though it has a copy of its parent's: when that is killed, it is told. */
static void a_child_is_not_its_parents_receiver(void)
{
    chappe_tube_options options = options_of(4, 16, CHAPPE_MPMC);
    chappe_tube_info info;
    int end = 0;
    OK(chappe_tube_create("forked", &options, &tube));
    IS(pipe(told), 0);
    pid_t pid = child(receives_by_its_child);
    do
        OK(chappe_tube_look(tube, &info));
    while (info.senders_waiting == 0);
    ended_by_kill(pid);
    IS(read(told[0], &end, sizeof end), sizeof end);
    IS(end, -EPIPE);
    close(told[0]);
    close(told[1]);
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("forked", 1));
}

static void forks_in_the_middle(void)
{
    chappe_tube_options options = options_of(8, 16, CHAPPE_MPMC);
    chappe_tube_info info;
    chappe_tube *other;
    chappe_sender *to_other;
    const void *data;
    void *slot;
    OK(chappe_tube_create("forked", &options, &tube));
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_tube_receiver(tube, &rx));
    OK(chappe_tube_create("other", &options, &other));
    OK(chappe_tube_sender(other, &to_other));
    OK(chappe_tube_receiver(other, &waits_at));
    pthread_t waiter = thread(borrows_later, NULL);
    do
        OK(chappe_tube_look(other, &info));
    while (info.receivers_waiting == 0);
    OK(chappe_send(tx, "first", 5));
    IS(chappe_receiver_borrow(rx, &data, NULL), 5);
    OK(chappe_sender_reserve(tx, &slot));
    ended_well(child(begins_anew));
    OK(chappe_sender_give_up(tx));
    OK(chappe_receiver_release(rx));
    OK(chappe_send(to_other, "last", 4));
    joined(waiter);
    OK(chappe_sender_close(tx));
    OK(chappe_receiver_close(rx));
    OK(chappe_sender_close(to_other));
    OK(chappe_receiver_close(waits_at));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_close(other));
    OK(chappe_tube_remove("forked", 0));
    OK(chappe_tube_remove("other", 0));
}

/* Without memory: it says so, and goes on. The sanitizer's own allocator would end the program instead. */
static void has_no_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
    long pages = 0;
    size_t large = (size_t)1 << 28;
    void *record = mmap(NULL, large, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    chappe_sender *more;
    chappe_receiver *from;
    chappe_arm arm;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(record != MAP_FAILED && file != NULL);
    IS(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    OK(chappe_tube_private(4, large, &tx, &rx));
    limit.rlim_cur = limit.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (4 << 20);
    OK(setrlimit(RLIMIT_AS, &limit));
    FAILS(chappe_send(tx, record, large), ENOMEM);
    arm = chappe_arm_send(tx, record, large);
    FAILS(chappe_select(&arm, 1, 0), ENOMEM);
    FAILS(chappe_tube_private(524288, 8, &more, &from), ENOMEM);
    OK(chappe_send(tx, record, 100));
    IS(chappe_receiver_len(rx), 1);
#endif
}

int main(void)
{
    ended_well(child(has_no_memory));
    for (int kind = CHAPPE_MPMC; kind <= CHAPPE_SPSC; kind++)
        of_each_kind(kind);
    with_a_type();
    of_this_process(0);
    of_this_process(3);
    of_this_process(CHAPPE_UNBOUNDED);
    two_that_poll_a_tube_without_slots_meet();
    FAILS(chappe_tube_private(-2, 8, &tx, &rx), EINVAL);
    FAILS(chappe_tube_private(1 << 20, 8, &tx, &rx), EINVAL);
    FAILS(chappe_tube_private(1, SIZE_MAX, &tx, &rx), EINVAL);
    FAILS(chappe_tube_private(1, 8, &tx, NULL), EFAULT);
    deaths();
    partings();
    forks();
    a_child_is_not_its_parents_receiver();
    forks_in_the_middle();
    OK(chappe_arena_remove("default", 1));
    return 0;
}
