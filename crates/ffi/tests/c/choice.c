/* Choice: every kind of arm, the caller's index, exactly one, errors of arms and of the whole. */
#include "check.h"

static chappe_semaphore *s;
static chappe_pool *pool;
static chappe_sender *tx;
static chappe_receiver *rx;
static int fds[2];

static void each_arm(int named)
{
    chappe_permit permit;
    char buffer[16] = "";
    chappe_tube *tube = NULL;
    if (named) {
        chappe_tube_options options;
        memset(&options, 0, sizeof options);
        options.slots = 1;
        options.size = 16;
        OK(chappe_semaphore_create("s", 0, 0, &s));
        OK(chappe_pool_create("p", 1, &pool));
        OK(chappe_tube_create("t", &options, &tube));
        OK(chappe_tube_sender(tube, &tx));
        OK(chappe_tube_receiver(tube, &rx));
    } else {
        OK(chappe_semaphore_private(0, 0, &s));
        OK(chappe_pool_private(1, &pool));
        OK(chappe_tube_private(1, 16, &tx, &rx));
    }
    OK(pipe(fds));
    chappe_arm arms[6];
    memset(arms, 0, sizeof arms);
    arms[1] = chappe_arm_down(s);
    arms[2] = chappe_arm_recv(rx, buffer, sizeof buffer);
    arms[4] = chappe_arm_readable(fds[0]);
    FAILS(chappe_try_select(arms, 6, 0), EAGAIN);
    FAILS(chappe_select_timeout(arms, 6, 0, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_select_deadline(arms, 6, 0, chappe_now()), ETIMEDOUT);
    FAILS(chappe_select_timeout(arms, 6, 0, -1), EINVAL);
    OK(chappe_semaphore_up(s));
    IS(chappe_select(arms, 6, CHAPPE_LOOK), 1);
    IS(chappe_semaphore_value(s), 1);
    IS(chappe_select(arms, 6, 0), 1);
    IS(chappe_semaphore_value(s), 0);
    IS(arms[1].result, 0);
    OK(chappe_send(tx, "hello", 5));
    arms[2].again = true;
    IS(chappe_select_timeout(arms, 6, 0, CHAPPE_FOREVER), 2);
    IS(arms[2].result, 5);
    CHECK(!arms[2].again && memcmp(buffer, "hello", 5) == 0);
    tell(fds[1]);
    IS(chappe_select_deadline(arms, 6, 0, CHAPPE_FOREVER), 4);
    OK(arms[4].result);
    hear(fds[0]);
    arms[3] = chappe_arm_send(tx, "sent by choice", 14);
    IS(chappe_try_select(arms, 4, 0), 3);
    OK(arms[3].result);
    arms[5] = chappe_arm_acquire(pool, &permit);
    /* The first in the array: the receiver; then the permit, for there is nothing else. */
    IS(chappe_try_select(arms, 6, CHAPPE_BIASED), 2);
    IS(arms[2].result, 14);
    arms[3].kind = CHAPPE_ARM_NOTHING;
    IS(chappe_try_select(arms, 6, CHAPPE_BIASED), 5);
    OK(arms[5].result);
    IS(chappe_permit_index(&permit), 0);
    FAILS(chappe_try_select(arms, 6, 0), EAGAIN);
    OK(chappe_permit_release(&permit));
    arms[0] = chappe_arm_writable(fds[1]);
    IS(chappe_try_select(arms, 1, 0), 0);
    /* A tube with nobody at the other end says so. */
    OK(chappe_sender_close(tx));
    arms[3].kind = CHAPPE_ARM_NOTHING;
    IS(chappe_select(arms + 2, 1, 0), 0);
    IS(arms[2].result, -EPIPE);
    OK(chappe_receiver_close(rx));
    if (named) {
        OK(chappe_semaphore_remove("s", 0));
        IS(chappe_select(arms + 1, 1, 0), 0);
        IS(arms[1].result, -EIDRM);
        OK(chappe_pool_remove("p", 0));
        IS(chappe_try_select(arms + 5, 1, 0), 0);
        IS(arms[5].result, -EIDRM);
        OK(chappe_tube_close(tube));
        OK(chappe_tube_remove("t", 0));
    }
    close(fds[0]);
    close(fds[1]);
    arms[4].descriptor = fds[0];
    OK(chappe_semaphore_close(s));
    OK(chappe_pool_close(pool));
}

static void bad_arguments_are_refused(void)
{
    chappe_semaphore *two[2];
    chappe_permit permit;
    chappe_arm arms[2];
    char buffer[8];
    memset(arms, 0, sizeof arms);
    FAILS(chappe_select(NULL, 0, 0), EINVAL);
    FAILS(chappe_select(arms, 2, 0), EINVAL);
    FAILS(chappe_try_select(NULL, 0, 0), EAGAIN);
    FAILS(chappe_select_timeout(NULL, 0, 0, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_select(NULL, 2, 0), EFAULT);
    FAILS(chappe_select((chappe_arm *)((char *)arms + 4), 1, 0), EFAULT);
    FAILS(chappe_try_select(arms, 2, 8), EINVAL);
    arms[0] = chappe_arm_down(NULL);
    FAILS(chappe_try_select(arms, 2, 0), EBADF);
    arms[0] = chappe_arm_readable(-1);
    FAILS(chappe_try_select(arms, 2, 0), EBADF);
    arms[0].kind = 77;
    FAILS(chappe_try_select(arms, 2, 0), EINVAL);
    OK(chappe_pool_private(1, &pool));
    arms[0] = chappe_arm_acquire(pool, NULL);
    FAILS(chappe_try_select(arms, 1, 0), EFAULT);
    arms[0] = chappe_arm_acquire((chappe_pool *)(void *)&permit, &permit);
    FAILS(chappe_try_select(arms, 1, 0), EBADF);
    arms[0] = chappe_arm_acquire(pool, &permit);
    arms[0].reserved[1] = 1;
    FAILS(chappe_try_select(arms, 1, 0), EINVAL);
    OK(chappe_pool_close(pool));
    OK(chappe_tube_private(1, 16, &tx, &rx));
    arms[0] = chappe_arm_recv(rx, buffer, sizeof buffer);
    FAILS(chappe_try_select(arms, 1, 0), EMSGSIZE);
    arms[0] = chappe_arm_send(tx, buffer, 17);
    FAILS(chappe_try_select(arms, 1, 0), EMSGSIZE);
    arms[0] = chappe_arm_borrow(rx);
    FAILS(chappe_try_select(arms, 1, 0), EOPNOTSUPP);
    arms[0] = chappe_arm_borrow(NULL);
    FAILS(chappe_try_select(arms, 1, 0), EBADF);
    OK(chappe_sender_close(tx));
    OK(chappe_receiver_close(rx));
    OK(chappe_semaphore_create("one/s", 0, 0, &two[0]));
    OK(chappe_semaphore_create("two/s", 0, 0, &two[1]));
    arms[0] = chappe_arm_down(two[0]);
    arms[1] = chappe_arm_down(two[1]);
    FAILS(chappe_try_select(arms, 2, 0), EXDEV);
    OK(chappe_semaphore_close(two[0]));
    OK(chappe_semaphore_close(two[1]));
    OK(chappe_arena_remove("one", 1));
    OK(chappe_arena_remove("two", 1));
}

static int told[2];

static void borrows_and_dies(void)
{
    chappe_tube *tube;
    chappe_receiver *mine;
    OK(chappe_tube_open("borrowed", NULL, &tube));
    OK(chappe_tube_receiver(tube, &mine));
    chappe_arm arm = chappe_arm_borrow(mine);
    IS(chappe_select(&arm, 1, 0), 0);
    IS(arm.result, 5);
    tell(told[1]);
    pause();
}

/* A record that was chosen is looked at in place, and is received when that is said; or comes again. */
static void a_chosen_record_is_borrowed(void)
{
    chappe_tube *tube;
    chappe_tube_options options;
    char buffer[16];
    memset(&options, 0, sizeof options);
    options.slots = 4;
    options.size = 16;
    OK(chappe_tube_create("borrowed", &options, &tube));
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_tube_receiver(tube, &rx));
    OK(chappe_semaphore_private(0, 0, &s));
    chappe_arm arms[2];
    arms[0] = chappe_arm_down(s);
    arms[1] = chappe_arm_borrow(rx);
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    OK(chappe_send(tx, "first", 5));
    OK(chappe_send(tx, "next", 4));
    IS(chappe_select(arms, 2, CHAPPE_LOOK), 1);
    IS(chappe_select(arms, 2, 0), 1);
    IS(arms[1].result, 5);
    CHECK(!arms[1].again && memcmp(arms[1].data, "first", 5) == 0);
    /* One at a time; the other arms are free to be chosen, without it. */
    FAILS(chappe_try_select(arms, 2, 0), EBUSY);
    FAILS(chappe_try_select(arms, 1, 0), EAGAIN);
    OK(chappe_receiver_put_back(rx));
    IS(chappe_select(arms, 2, 0), 1);
    const char *record = arms[1].data;
    if (arms[1].result == 5) {
        CHECK(arms[1].again && memcmp(record, "first", 5) == 0);
        OK(chappe_receiver_release(rx));
        IS(chappe_recv(rx, buffer, sizeof buffer, NULL), 4);
    } else {
        IS(arms[1].result, 4);
        CHECK(!arms[1].again && memcmp(record, "next", 4) == 0);
        OK(chappe_receiver_release(rx));
        bool again = false;
        IS(chappe_recv(rx, buffer, sizeof buffer, &again), 5);
        CHECK(again);
    }
    FAILS(chappe_receiver_release(rx), EINVAL);
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);

    /* The receiver that has borrowed it by choice dies. */
    OK(pipe(told));
    pid_t pid = child(borrows_and_dies);
    OK(chappe_send(tx, "twice", 5));
    hear(told[0]);
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    ended_by_kill(pid);
    IS(chappe_select_timeout(arms, 2, 0, 30 * CHAPPE_SECOND), 1);
    IS(arms[1].result, 5);
    CHECK(arms[1].again && memcmp(arms[1].data, "twice", 5) == 0);
    OK(chappe_receiver_release(rx));
    close(told[0]);
    close(told[1]);

    OK(chappe_sender_close(tx));
    IS(chappe_select(arms, 2, 0), 1);
    IS(arms[1].result, -EPIPE);
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_remove("borrowed", 0));
    OK(chappe_semaphore_close(s));
}

enum { OBJECTS = 24, ROUNDS = 2000 };
static chappe_semaphore *many[OBJECTS];
static uint64_t taken[OBJECTS], given[OBJECTS];

/* The same object twice, and more arms than lie on the stack. */
static void *takes(void *until)
{
    chappe_arm arms[OBJECTS + 1];
    uint64_t *mine = until;
    for (int i = 0; i < OBJECTS; i++)
        arms[i] = chappe_arm_down(many[i]);
    arms[OBJECTS] = chappe_arm_down(many[0]);
    for (;;) {
        ptrdiff_t at = chappe_select(arms, OBJECTS + 1, 0);
        /* The arena was gone before this thread, which began late, was a member of it. */
        if (at == -EIDRM)
            return NULL;
        CHECK(at >= 0 && at <= OBJECTS);
        if (arms[at].result != 0) {
            IS(arms[at].result, -EIDRM);
            return NULL;
        }
        mine[at % OBJECTS]++;
    }
}

static void each_is_taken_once(void)
{
    static uint64_t mine[3][OBJECTS];
    pthread_t all[3];
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "many%d", i);
        OK(chappe_semaphore_create(name, 0, 0, &many[i]));
    }
    for (int i = 0; i < 3; i++)
        all[i] = thread(takes, mine[i]);
    for (int i = 0; i < ROUNDS; i++) {
        OK(chappe_semaphore_up(many[i * 7 % OBJECTS]));
        given[i * 7 % OBJECTS]++;
    }
    for (int i = 0; i < OBJECTS; i++)
        EVENTUALLY(chappe_semaphore_value(many[i]) == 0);
    OK(chappe_arena_remove("default", 1));
    for (int i = 0; i < 3; i++) {
        joined(all[i]);
        for (int at = 0; at < OBJECTS; at++)
            taken[at] += mine[i][at];
    }
    for (int i = 0; i < OBJECTS; i++) {
        IS(taken[i], given[i]);
        OK(chappe_semaphore_close(many[i]));
    }
}

int main(void)
{
    each_arm(0);
    each_arm(1);
    bad_arguments_are_refused();
    a_chosen_record_is_borrowed();
    each_is_taken_once();
    return 0;
}
