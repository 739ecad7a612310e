/*
 * Broadcast tubes: filters and their parameters, subscribers that are too slow, ends and deaths, the arm of a choice, bad input.
 */
#include "check.h"

#include <chappe/schema.h>
#include <poll.h>

struct trade {
    double price;
    int32_t qty;
    char sym[4];
};

static const chappe_field fields[] = {
    CHAPPE_FIELD(struct trade, price),
    CHAPPE_FIELD(struct trade, qty),
    CHAPPE_FIELD(struct trade, sym),
};
static char schema[128];
static chappe_broadcast *trades;
static int pipes[2];

static void sends(chappe_publisher *publisher, double price, int32_t qty)
{
    struct trade one = {price, qty, "X"};
    OK(chappe_publisher_send(publisher, &one, sizeof one));
}

/* The next trade that it wants is this one. */
static void gets(chappe_subscription *subscription, int32_t qty)
{
    struct trade one;
    IS(chappe_subscription_recv_timeout(subscription, &one, sizeof one, 30 * CHAPPE_SECOND), sizeof one);
    IS(one.qty, qty);
}

static void gets_nothing(chappe_subscription *subscription)
{
    struct trade one;
    FAILS(chappe_subscription_try_recv(subscription, &one, sizeof one), EAGAIN);
    IS(chappe_subscription_is_empty(subscription), 1);
    IS(chappe_subscription_len(subscription), 0);
}

static void made_and_opened(void)
{
    CHECK(chappe_schema(fields, 3, sizeof(struct trade), schema, sizeof schema) > 0);
    chappe_broadcast_options options = {.slots = 6, .subscribers = 4, .schema = schema};
    chappe_broadcast *again;
    FAILS(chappe_broadcast_open("trades", NULL, &trades), ENOENT);
    OK(chappe_broadcast_create("trades", &options, &trades));
    FAILS(chappe_broadcast_create("trades", &options, &again), EEXIST);
    OK(chappe_broadcast_open_or_create("trades", &options, &again));
    OK(chappe_broadcast_close(again));
    FAILS(chappe_broadcast_close(again), EBADF);
    OK(chappe_broadcast_open("trades", NULL, &again));
    OK(chappe_broadcast_close(again));
    OK(chappe_broadcast_open("trades", &options, &again));
    OK(chappe_broadcast_close(again));
    chappe_broadcast_options other = {.schema = "price: f64"};
    FAILS(chappe_broadcast_open("trades", &other, &again), EPROTOTYPE);
    CHECK(strstr(chappe_last_error(), "price: f64"));
    FAILS(chappe_broadcast_open_or_create("trades", &other, &again), EPROTOTYPE);
    other.schema = "price: f65";
    FAILS(chappe_broadcast_create("none", &other, &again), EINVAL);
    CHECK(strstr(chappe_last_error(), "^^^"));
    chappe_broadcast_options crooked = {.reserved = {0, 1, 0}};
    FAILS(chappe_broadcast_create("none", &crooked, &again), EINVAL);
    chappe_broadcast_options many = {.subscribers = 257};
    FAILS(chappe_broadcast_create("none", &many, &again), EINVAL);
    FAILS(chappe_broadcast_create(NULL, NULL, &again), EFAULT);
    FAILS(chappe_broadcast_create("none", NULL, NULL), EFAULT);

    char text[128], small[4];
    IS(chappe_broadcast_name(trades, text, sizeof text), 6);
    IS(strcmp(text, "trades"), 0);
    IS(chappe_broadcast_schema(trades, text, sizeof text), strlen(schema));
    IS(strcmp(text, schema), 0);
    IS(chappe_broadcast_schema(trades, small, sizeof small), strlen(schema));
    IS(strcmp(small, "pri"), 0);
    chappe_broadcast_info info;
    OK(chappe_broadcast_look(trades, &info));
    IS(info.slots, 8);
    IS(info.size, sizeof(struct trade));
    IS(info.capacity, 4);
    IS(info.publishers + info.subscribers + info.waiting, 0);
    FAILS(chappe_broadcast_look(trades, NULL), EFAULT);
    FAILS(chappe_broadcast_look(NULL, &info), EBADF);
}

static void filters(void)
{
    chappe_publisher *publisher;
    chappe_subscription *all, *dear, *none;
    OK(chappe_broadcast_publisher(trades, &publisher));
    IS(chappe_publisher_size(publisher), sizeof(struct trade));
    /* Nobody's. */
    sends(publisher, 1, 0);
    OK(chappe_broadcast_subscribe(trades, NULL, &all));
    chappe_param limit[] = {chappe_param_double("limit", 100), chappe_param_text("sym", "X")};
    chappe_subscribe_options options = {
        .filter = "price > $limit && sym == $sym", .params = limit, .param_count = 2, .slow = CHAPPE_SLOW_DROP_OLDEST};
    OK(chappe_broadcast_subscribe(trades, &options, &dear));
    IS(chappe_subscription_size(dear), sizeof(struct trade));
    IS(chappe_publisher_subscribers(publisher), 2);
    sends(publisher, 99, 1);
    sends(publisher, 101, 2);
    gets(all, 1);
    gets(all, 2);
    gets_nothing(all);
    gets(dear, 2);
    gets_nothing(dear);

    /* Another limit: for what is there already, too. */
    sends(publisher, 150, 3);
    sends(publisher, 250, 4);
    chappe_param higher = chappe_param_int("limit", 200);
    OK(chappe_subscription_set(dear, &higher, 1));
    gets(dear, 4);
    gets_nothing(dear);
    gets(all, 3);
    gets(all, 4);
    chappe_param bad = chappe_param_int("limits", 1);
    FAILS(chappe_subscription_set(dear, &bad, 1), EINVAL);
    CHECK(strstr(chappe_last_error(), "limits"));
    bad = chappe_param_text("limit", "much");
    FAILS(chappe_subscription_set(dear, &bad, 1), EINVAL);
    bad.kind = 9;
    FAILS(chappe_subscription_set(dear, &bad, 1), EINVAL);
    FAILS(chappe_subscription_set(dear, NULL, 1), EFAULT);
    FAILS(chappe_subscription_set(all, &higher, 1), EINVAL);
    /* What was refused has changed nothing. */
    sends(publisher, 201, 5);
    sends(publisher, 199, 6);
    gets(dear, 5);
    gets_nothing(dear);
    gets(all, 5);
    gets(all, 6);

    chappe_subscriber listed[4];
    IS(chappe_broadcast_subscribers(trades, listed, 4), 2);
    IS(listed[0].pid, getpid());
    IS(listed[0].slow, CHAPPE_SLOW_BLOCK);
    IS(listed[0].received, 6);
    CHECK(listed[0].filter[0] == 0 && strstr(listed[1].filter, "price > $limit"));
    IS(listed[1].slow, CHAPPE_SLOW_DROP_OLDEST);
    IS(chappe_broadcast_subscribers(trades, NULL, 0), 2);

    /* What makes no sense is told with its place. */
    chappe_subscribe_options wrongs[] = {
        {.filter = "price > 'X'"},
        {.filter = "prize > 1.0"},
        {.filter = "price > $limit"},
        {.filter = ""},
        {.params = limit, .param_count = 1},
        {.slow = 3},
        {.slow = CHAPPE_SLOW_DROP_NEWEST},
        {.slow = CHAPPE_SLOW_DROP_NEWEST, .most = 5},
        {.reserved = {0, 0, 7}},
    };
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        FAILS(chappe_broadcast_subscribe(trades, &wrongs[i], &none), EINVAL);
        if (i < 2)
            CHECK(strstr(chappe_last_error(), "column 1)") || strstr(chappe_last_error(), "column 9)"));
        if (i < 2)
            CHECK(strstr(chappe_last_error(), "\n  pri") && strstr(chappe_last_error(), "^"));
    }
    char lengthy[5000];
    memset(lengthy, ' ', sizeof lengthy);
    lengthy[4999] = 0;
    wrongs[0].filter = lengthy;
    FAILS(chappe_broadcast_subscribe(trades, wrongs, &none), ENAMETOOLONG);
    memcpy(lengthy + 2000, "true", 5);
    FAILS(chappe_broadcast_subscribe(trades, wrongs, &none), EINVAL);
    CHECK(strstr(chappe_last_error(), "1024"));
    FAILS(chappe_broadcast_subscribe(trades, NULL, NULL), EFAULT);
    FAILS(chappe_broadcast_subscribe((chappe_broadcast *)publisher, NULL, &none), EBADF);

    struct trade one = {0};
    char buffer[4];
    FAILS(chappe_publisher_send(publisher, &one, sizeof one - 1), EMSGSIZE);
    FAILS(chappe_publisher_send(publisher, &one, sizeof one + 1), EMSGSIZE);
    FAILS(chappe_publisher_send(publisher, NULL, sizeof one), EFAULT);
    FAILS(chappe_subscription_recv(all, buffer, sizeof buffer), EMSGSIZE);
    FAILS(chappe_subscription_recv(all, NULL, sizeof one), EFAULT);
    FAILS(chappe_subscription_recv((chappe_subscription *)publisher, &one, sizeof one), EBADF);
    FAILS(chappe_publisher_send((chappe_publisher *)all, &one, sizeof one), EBADF);
    FAILS(chappe_subscription_recv_timeout(all, &one, sizeof one, -1), EINVAL);
    FAILS(chappe_subscription_recv_timeout(all, &one, sizeof one, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_subscription_recv_deadline(all, &one, sizeof one, chappe_now()), ETIMEDOUT);

    /* All have gone. */
    sends(publisher, 300, 7);
    OK(chappe_publisher_close(publisher));
    FAILS(chappe_publisher_close(publisher), EBADF);
    gets(dear, 7);
    FAILS(chappe_subscription_recv(dear, &one, sizeof one), EPIPE);
    FAILS(chappe_subscription_try_recv(dear, &one, sizeof one), EPIPE);
    /* And one that says that it has not ended well. */
    OK(chappe_broadcast_publisher(trades, &publisher));
    OK(chappe_publisher_break_off(publisher));
    FAILS(chappe_subscription_recv(dear, &one, sizeof one), ECONNRESET);
    FAILS(chappe_subscription_recv(dear, &one, sizeof one), EPIPE);
    OK(chappe_subscription_close(dear));
    FAILS(chappe_subscription_close(dear), EBADF);
    OK(chappe_subscription_close(all));
}

static void too_slow(void)
{
    chappe_publisher *publisher;
    chappe_subscription *block, *oldest, *newest;
    chappe_subscribe_options drop_oldest = {.slow = CHAPPE_SLOW_DROP_OLDEST};
    chappe_subscribe_options drop_newest = {.slow = CHAPPE_SLOW_DROP_NEWEST, .most = 2};
    struct trade one = {0, 99, ""};
    OK(chappe_broadcast_publisher(trades, &publisher));
    OK(chappe_broadcast_subscribe(trades, &drop_oldest, &oldest));
    OK(chappe_broadcast_subscribe(trades, &drop_newest, &newest));
    for (int i = 0; i < 20; i++)
        sends(publisher, 0, i);
    IS(chappe_subscription_lost(newest), 18);
    gets(newest, 0);
    gets(newest, 1);
    gets_nothing(newest);
    int left = 0;
    while (chappe_subscription_try_recv(oldest, &one, sizeof one) == sizeof one)
        left++;
    IS(one.qty, 19);
    CHECK(left >= 4 && left <= 8);
    IS(chappe_subscription_lost(oldest) + left, 20);
    chappe_subscriber listed[2];
    IS(chappe_broadcast_subscribers(trades, listed, 2), 2);
    IS(listed[1].slow, CHAPPE_SLOW_DROP_NEWEST);
    IS(listed[1].most, 2);
    IS(listed[1].lost, 18);
    OK(chappe_subscription_close(oldest));
    OK(chappe_subscription_close(newest));

    OK(chappe_broadcast_subscribe(trades, NULL, &block));
    int sent = 0;
    while (chappe_publisher_try_send(publisher, &one, sizeof one) == 0)
        sent++;
    CHECK(sent > 0 && sent <= 8);
    FAILS(chappe_publisher_try_send(publisher, &one, sizeof one), EAGAIN);
    FAILS(chappe_publisher_send_timeout(publisher, &one, sizeof one, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_publisher_send_timeout(publisher, &one, sizeof one, -1), EINVAL);
    FAILS(chappe_publisher_send_deadline(publisher, &one, sizeof one, chappe_now()), ETIMEDOUT);
    IS(chappe_subscription_len(block), sent);
    IS(chappe_subscription_lost(block), 0);
    gets(block, 19);
    OK(chappe_publisher_send_timeout(publisher, &one, sizeof one, CHAPPE_FOREVER));
    OK(chappe_subscription_close(block));
    /* Nobody is in the way any more. */
    OK(chappe_publisher_send(publisher, &one, sizeof one));
    OK(chappe_publisher_close(publisher));
}

static void arms(void)
{
    chappe_publisher *publisher;
    chappe_subscription *dear;
    chappe_semaphore *stop;
    struct trade one = {0};
    char buffer[4];
    OK(chappe_semaphore_create("stop", 0, 0, &stop));
    OK(chappe_broadcast_publisher(trades, &publisher));
    chappe_param limit = chappe_param_uint("limit", 5);
    chappe_subscribe_options options = {.filter = "qty > int($limit)", .params = &limit, .param_count = 1};
    OK(chappe_broadcast_subscribe(trades, &options, &dear));
    chappe_arm arms[] = {chappe_arm_down(stop), chappe_arm_subscription(dear, &one, sizeof one)};
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    /* What its filter does not want makes it not ready. */
    sends(publisher, 1, 5);
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    FAILS(chappe_select_timeout(arms, 2, 0, CHAPPE_MILLISECOND), ETIMEDOUT);
    sends(publisher, 1, 6);
    sends(publisher, 1, 7);
    IS(chappe_select(arms, 2, CHAPPE_LOOK), 1);
    IS(chappe_select(arms, 2, CHAPPE_LOOK), 1);
    IS(chappe_select(arms, 2, 0), 1);
    IS(arms[1].result, sizeof one);
    IS(one.qty, 6);
    /* What was looked at is tested again when the parameters change. */
    IS(chappe_select(arms, 2, CHAPPE_LOOK), 1);
    limit = chappe_param_uint("limit", 8);
    OK(chappe_subscription_set(dear, &limit, 1));
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    sends(publisher, 1, 9);
    IS(chappe_select_timeout(arms, 2, CHAPPE_BIASED, CHAPPE_SECOND), 1);
    IS(one.qty, 9);
    OK(chappe_semaphore_up(stop));
    IS(chappe_select(arms, 2, 0), 0);
    OK(arms[0].result);

    arms[1] = chappe_arm_subscription(dear, buffer, sizeof buffer);
    FAILS(chappe_try_select(arms, 2, 0), EMSGSIZE);
    arms[1] = chappe_arm_subscription(NULL, &one, sizeof one);
    FAILS(chappe_try_select(arms, 2, 0), EBADF);
    arms[1] = chappe_arm_subscription(dear, NULL, sizeof one);
    FAILS(chappe_try_select(arms, 2, 0), EFAULT);
    arms[1] = chappe_arm_subscription(dear, &one, sizeof one);

    /* A forked child's choice takes nothing of its parent's. */
    sends(publisher, 1, 10);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        IS(chappe_select(arms + 1, 1, 0), 0);
        IS(arms[1].result, -EPERM);
        IS(chappe_select(arms + 1, 1, CHAPPE_LOOK), 0);
        FAILS(chappe_subscription_try_recv(dear, &one, sizeof one), EPERM);
        FAILS(chappe_publisher_send(publisher, &one, sizeof one), EPERM);
        _exit(0);
    }
    ended_well(pid);
    IS(chappe_try_select(arms + 1, 1, 0), 0);
    IS(one.qty, 10);

    /* That all have gone, and how. */
    OK(chappe_publisher_break_off(publisher));
    IS(chappe_select(arms, 2, 0), 1);
    IS(arms[1].result, -ECONNRESET);
    IS(chappe_select(arms, 2, 0), 1);
    IS(arms[1].result, -EPIPE);
    OK(chappe_subscription_close(dear));
    OK(chappe_semaphore_close(stop));
    OK(chappe_semaphore_remove("stop", 0));
}

/* poll(2) waits for what a filter wants. */
static void descriptors(void)
{
    chappe_publisher *publisher;
    chappe_subscription *dear;
    struct trade one;
    OK(chappe_broadcast_publisher(trades, &publisher));
    chappe_subscribe_options options = {.filter = "price > 100.0"};
    OK(chappe_broadcast_subscribe(trades, &options, &dear));
    int fd = chappe_subscription_descriptor(dear);
    CHECK(fd >= 0 && chappe_subscription_descriptor(dear) == fd);
    struct pollfd its = {fd, POLLIN, 0};
    sends(publisher, 1, 1);
    IS(chappe_subscription_rearm(dear), 1);
    IS(poll(&its, 1, 0), 0);
    for (int n = 0; n < 10; n++) {
        sends(publisher, 1, 1);
        sends(publisher, 101, n);
        IS(poll(&its, 1, 30000), 1);
        IS(chappe_subscription_rearm(dear), 0);
        gets(dear, n);
        FAILS(chappe_subscription_try_recv(dear, &one, sizeof one), EAGAIN);
        IS(chappe_subscription_rearm(dear), 1);
        IS(poll(&its, 1, 0), 0);
    }
    pid_t pid = fork();
    if (pid == 0) {
        FAILS(chappe_subscription_descriptor(dear), EPERM);
        IS(chappe_subscription_rearm(dear), 0);
        _exit(0);
    }
    int status;
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    OK(chappe_publisher_close(publisher));
    IS(poll(&its, 1, 30000), 1);
    FAILS(chappe_subscription_try_recv(dear, &one, sizeof one), EPIPE);
    OK(chappe_subscription_close(dear));
    FAILS(chappe_subscription_descriptor(dear), EBADF);
    FAILS(chappe_subscription_rearm(dear), EBADF);
}

/* The arena has places for this thread and this process, and none for the thread that a descriptor needs. */
static void no_place_for_a_descriptor(void)
{
    chappe_arena *tight;
    chappe_broadcast *tube;
    chappe_subscription *ear;
    chappe_arena_options small = {.members = 2};
    OK(chappe_arena_create("tight", &small, &tight));
    chappe_broadcast_options options = {.slots = 4, .size = 8};
    OK(chappe_broadcast_create("tight/t", &options, &tube));
    OK(chappe_broadcast_subscribe(tube, NULL, &ear));
    FAILS(chappe_subscription_descriptor(ear), EUSERS);
    CHECK(strstr(chappe_last_error(), "member"));
    IS(chappe_subscription_rearm(ear), 1);
    OK(chappe_subscription_close(ear));
    OK(chappe_broadcast_close(tube));
    OK(chappe_broadcast_remove("tight/t", 0));
    OK(chappe_arena_close(tight));
    OK(chappe_arena_remove("tight", 1));
}

static void publishes_and_waits(void)
{
    chappe_broadcast *tube;
    chappe_publisher *publisher;
    OK(chappe_broadcast_open("trades", NULL, &tube));
    OK(chappe_broadcast_publisher(tube, &publisher));
    sends(publisher, 1, 1);
    tell(pipes[1]);
    for (;;)
        pause();
}

static void subscribes_and_waits(void)
{
    chappe_subscription *subscription;
    OK(chappe_broadcast_subscribe(trades, NULL, &subscription));
    tell(pipes[1]);
    for (;;)
        pause();
}

static void publishes_and_exits(void)
{
    chappe_publisher *publisher;
    OK(chappe_broadcast_publisher(trades, &publisher));
    sends(publisher, 1, 2);
    OK(chappe_publisher_close(publisher));
}

static void deaths(void)
{
    chappe_subscription *all;
    chappe_publisher *publisher;
    struct trade one;
    OK(pipe(pipes));
    OK(chappe_broadcast_subscribe(trades, NULL, &all));
    pid_t pid = child(publishes_and_waits);
    hear(pipes[0]);
    gets(all, 1);
    gets_nothing(all);
    ended_by_kill(pid);
    FAILS(chappe_subscription_recv(all, &one, sizeof one), ECONNRESET);
    FAILS(chappe_subscription_recv(all, &one, sizeof one), EPIPE);
    pid = child(publishes_and_exits);
    ended_well(pid);
    gets(all, 2);
    FAILS(chappe_subscription_recv(all, &one, sizeof one), EPIPE);
    chappe_broadcast_info info;
    OK(chappe_broadcast_look(trades, &info));
    CHECK(info.publishers_died >= 1);
    IS(info.publishers, 0);
    OK(chappe_subscription_close(all));

    /* A killed subscriber is in nobody's way. */
    OK(chappe_broadcast_publisher(trades, &publisher));
    pid = child(subscribes_and_waits);
    hear(pipes[0]);
    IS(chappe_publisher_subscribers(publisher), 1);
    ended_by_kill(pid);
    for (int i = 0; i < 30; i++)
        sends(publisher, 1, i);
    IS(chappe_publisher_subscribers(publisher), 0);
    OK(chappe_publisher_close(publisher));
}

static void *hears_all(void *given)
{
    chappe_subscription *subscription = given;
    char buffer[16];
    long sum = 0;
    for (;;) {
        ptrdiff_t len = chappe_subscription_recv(subscription, buffer, sizeof buffer);
        if (len == -EPIPE)
            return (void *)sum;
        IS(len, 1 + buffer[0] % 3);
        sum += buffer[0];
    }
}

static void among_threads(void)
{
    chappe_broadcast *tube;
    chappe_publisher *publisher;
    chappe_subscription *subscriptions[3];
    pthread_t threads[3];
    chappe_broadcast_options options = {.slots = 4, .size = 16};
    OK(chappe_broadcast_private(&options, &tube));
    IS(chappe_broadcast_name(tube, NULL, 0), 0);
    IS(chappe_broadcast_schema(tube, NULL, 0), 0);
    chappe_subscribe_options filter = {.filter = "true"};
    FAILS(chappe_broadcast_subscribe(tube, &filter, &subscriptions[0]), EINVAL);
    OK(chappe_broadcast_publisher(tube, &publisher));
    for (int i = 0; i < 3; i++) {
        OK(chappe_broadcast_subscribe(tube, NULL, &subscriptions[i]));
        threads[i] = thread(hears_all, subscriptions[i]);
    }
    char bytes[3] = {0};
    for (bytes[0] = 0; bytes[0] < 100; bytes[0]++)
        OK(chappe_publisher_send(publisher, bytes, 1 + bytes[0] % 3));
    OK(chappe_publisher_close(publisher));
    for (int i = 0; i < 3; i++) {
        void *sum;
        OK(pthread_join(threads[i], &sum));
        IS((long)sum, 4950);
        OK(chappe_subscription_close(subscriptions[i]));
    }
    OK(chappe_broadcast_close(tube));
}

static void removed(void)
{
    chappe_subscription *all;
    struct trade one;
    OK(chappe_broadcast_subscribe(trades, NULL, &all));
    FAILS(chappe_broadcast_remove("trades", 0), EBUSY);
    FAILS(chappe_tube_remove("trades", 1), EPROTOTYPE);
    OK(chappe_broadcast_remove("trades", 1));
    FAILS(chappe_broadcast_remove("trades", 1), ENOENT);
    FAILS(chappe_subscription_recv(all, &one, sizeof one), EIDRM);
    chappe_arm arm = chappe_arm_subscription(all, &one, sizeof one);
    IS(chappe_select(&arm, 1, 0), 0);
    IS(arm.result, -EIDRM);
    chappe_broadcast_info info;
    FAILS(chappe_broadcast_look(trades, &info), EIDRM);
    OK(chappe_subscription_close(all));
    OK(chappe_broadcast_close(trades));
}

int main(void)
{
    made_and_opened();
    filters();
    too_slow();
    arms();
    descriptors();
    no_place_for_a_descriptor();
    deaths();
    among_threads();
    removed();
    return 0;
}
