/* Counters and words: each function's contract, bad input, kills. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static void counter(const char *name)
{
    chappe_counter *counter, *again;
    int64_t was = 7;
    if (name)
        OK(chappe_counter_create(name, 5, &counter));
    else
        OK(chappe_counter_private(5, &counter));
    IS(chappe_counter_name(counter, NULL, 0), name ? (long)strlen(name) : 0);
    OK(chappe_counter_add(counter, -2, &was));
    IS(was, 5);
    OK(chappe_counter_add(counter, 1, NULL));
    IS(chappe_counter_add_within(counter, 3, 0, 6, &was), CHAPPE_COUNTER_NO);
    IS(chappe_counter_add_within(counter, 2, 0, 6, &was), CHAPPE_COUNTER_YES);
    IS(was, 4);
    FAILS(chappe_counter_add_within(counter, 2, 6, 0, &was), EINVAL);
    OK(chappe_counter_get(counter, &was));
    IS(was, 6);
    FAILS(chappe_counter_get(counter, NULL), EFAULT);
    if (name) {
        FAILS(chappe_counter_create(name, 0, &again), EEXIST);
        FAILS(chappe_words_open(name, (chappe_words **)&again), EPROTOTYPE);
        OK(chappe_counter_open_or_create(name, 99, &again));
        OK(chappe_counter_get(again, &was));
        IS(was, 6);
        OK(chappe_counter_close(again));
        OK(chappe_counter_remove(name, 0));
        FAILS(chappe_counter_add(counter, 1, NULL), EIDRM);
        FAILS(chappe_counter_open(name, &again), ENOENT);
    }
    OK(chappe_counter_close(counter));
    FAILS(chappe_counter_close(counter), EBADF);
    FAILS(chappe_counter_add(NULL, 1, NULL), EBADF);
}

static void words(const char *name)
{
    chappe_words *words, *again;
    uint64_t value = 1;
    chappe_words_change changes[9];
    memset(changes, 0, sizeof changes);
    if (name)
        OK(chappe_words_create(name, 9, &words));
    else
        OK(chappe_words_private(9, &words));
    IS(chappe_words_count(words), 9);
    OK(chappe_words_load(words, 8, &value));
    IS((long)value, 0);
    OK(chappe_words_store(words, 0, 100));
    changes[0].word = 0, changes[0].before = 100, changes[0].after = 70;
    changes[1].word = 2, changes[1].before = 0, changes[1].after = 30;
    IS(chappe_words_swap(words, changes, 2), CHAPPE_WORDS_YES);
    IS(chappe_words_swap(words, changes, 2), CHAPPE_WORDS_NO);
    OK(chappe_words_load(words, 2, &value));
    IS((long)value, 30);
    FAILS(chappe_words_swap(words, changes, 0), EINVAL);
    FAILS(chappe_words_swap(words, NULL, 2), EFAULT);
    FAILS(chappe_words_swap(words, (chappe_words_change *)((char *)changes + 1), 1), EFAULT);
    for (uint32_t i = 0; i < 9; i++)
        changes[i].word = i;
    FAILS(chappe_words_swap(words, changes, 9), EINVAL);
    changes[1].word = 0;
    FAILS(chappe_words_swap(words, changes, 2), EINVAL);
    changes[1].word = 9;
    FAILS(chappe_words_swap(words, changes, 2), EINVAL);
    changes[0].reserved = 1;
    FAILS(chappe_words_swap(words, changes, 1), EINVAL);
    FAILS(chappe_words_load(words, 9, &value), EINVAL);
    FAILS(chappe_words_private(0, &again), EINVAL);
    if (name) {
        FAILS(chappe_words_open_or_create(name, 8, &again), EPROTOTYPE);
        OK(chappe_words_open(name, &again));
        OK(chappe_words_close(again));
        OK(chappe_words_remove(name, 0));
        FAILS(chappe_words_load(words, 0, &value), EIDRM);
    }
    OK(chappe_words_close(words));
    FAILS(chappe_words_close(words), EBADF);
}

/* A child that is killed while it pays from one account to another has paid, or not. */
static void killed(void)
{
    chappe_words *accounts;
    chappe_counter *payments;
    OK(chappe_words_create("accounts", 2, &accounts));
    OK(chappe_counter_create("payments", 0, &payments));
    OK(chappe_words_store(accounts, 0, 1000));
    for (int round = 0; round < 5; round++) {
        int64_t before, now;
        OK(chappe_counter_get(payments, &before));
        pid_t child = fork();
        if (child == 0) {
            for (;;) {
                uint64_t a, b;
                chappe_words_load(accounts, 0, &a);
                chappe_words_load(accounts, 1, &b);
                chappe_words_change pay[2] = {{0, 0, a, a - 1}, {1, 0, b, b + 1}};
                if (chappe_words_swap(accounts, pay, 2) == CHAPPE_WORDS_YES)
                    chappe_counter_add(payments, 1, NULL);
            }
        }
        do
            OK(chappe_counter_get(payments, &now));
        while (now < before + 20);
        kill(child, SIGKILL);
        IS(waitpid(child, NULL, 0), child);
        /* What it was about to pay may be paid by the next caller: then that one has to look again, once. */
        for (int times = 0, paid = CHAPPE_WORDS_NO; paid != CHAPPE_WORDS_YES; times++) {
            uint64_t a, b;
            OK(chappe_words_load(accounts, 0, &a));
            OK(chappe_words_load(accounts, 1, &b));
            IS((long)(a + b), 1000);
            chappe_words_change pay[2] = {{0, 0, a, a + 1}, {1, 0, b, b - 1}};
            paid = chappe_words_swap(accounts, pay, 2);
            IS(paid == CHAPPE_WORDS_YES || times == 0, 1);
        }
    }
    OK(chappe_words_close(accounts));
    OK(chappe_counter_close(payments));
}

int main(void)
{
    counter(NULL);
    counter("hits");
    words(NULL);
    words("table");
    killed();
    return 0;
}
