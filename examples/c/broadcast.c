/*
 * A publisher and two subscribers, over a broadcast tube: one wants all trades, the other those above a limit, which it raises in the middle.
 * A choice waits for its messages and for the word to stop.
 *
 *     cc -o broadcast broadcast.c $(pkg-config --cflags --libs chappe) && ./broadcast
 */
#include <chappe.h>
#include <chappe/schema.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct trade {
    double price;
    int32_t qty;
    char sym[4];
};

static void must(long long answer, const char *what)
{
    if (answer < 0) {
        fprintf(stderr, "%s: %s\n", what, chappe_last_error());
        exit(1);
    }
}

static void publish(chappe_broadcast *trades)
{
    chappe_publisher *publisher;
    must(chappe_broadcast_publisher(trades, &publisher), "publisher");
    for (int i = 0; i < 10; i++) {
        struct trade one = {80 + 10 * i, i, "X"};
        must(chappe_publisher_send(publisher, &one, sizeof one), "send");
    }
    /* The last publisher goes: then subscribers get -EPIPE. */
    must(chappe_publisher_close(publisher), "close");
}

int main(void)
{
    static const chappe_field fields[] = {
        CHAPPE_FIELD(struct trade, price),
        CHAPPE_FIELD(struct trade, qty),
        CHAPPE_FIELD(struct trade, sym),
    };
    char schema[128];
    must(chappe_schema(fields, 3, sizeof(struct trade), schema, sizeof schema), "schema");
    chappe_broadcast_options made = {.slots = 16, .schema = schema};
    chappe_broadcast *trades;
    chappe_subscription *all, *dear;
    chappe_semaphore *stop;
    must(chappe_broadcast_create("trades", &made, &trades), "create");
    must(chappe_semaphore_create("stop", 0, 0, &stop), "semaphore");
    must(chappe_broadcast_subscribe(trades, NULL, &all), "subscribe");
    chappe_param limit = chappe_param_double("limit", 100);
    chappe_subscribe_options options = {
        .filter = "price > $limit", .params = &limit, .param_count = 1, .slow = CHAPPE_SLOW_DROP_OLDEST};
    must(chappe_broadcast_subscribe(trades, &options, &dear), "subscribe");

    pid_t pid = fork();
    if (pid == 0) {
        publish(trades);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);

    struct trade one;
    int number = 0;
    while (chappe_subscription_recv(all, &one, sizeof one) >= 0)
        number++;
    printf("%d trades\n", number);
    chappe_arm arms[] = {chappe_arm_down(stop), chappe_arm_subscription(dear, &one, sizeof one)};
    for (;;) {
        ptrdiff_t at = chappe_select(arms, 2, 0);
        must(at, "select");
        if (at == 0 || arms[1].result == -EPIPE)
            break;
        must(arms[1].result, "recv");
        printf("dear: %.0f\n", one.price);
        limit = chappe_param_double("limit", one.price + 15);
        must(chappe_subscription_set(dear, &limit, 1), "set");
    }
    printf("%lld lost\n", (long long)chappe_subscription_lost(dear));
    must(chappe_subscription_close(all), "close");
    must(chappe_subscription_close(dear), "close");
    must(chappe_semaphore_close(stop), "close");
    must(chappe_broadcast_close(trades), "close");
    must(chappe_semaphore_remove("stop", 0), "remove");
    must(chappe_broadcast_remove("trades", 0), "remove");
    return status;
}
