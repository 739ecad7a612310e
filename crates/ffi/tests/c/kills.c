/*
 * Processes that use a pool, a tube and a mutex are killed at random, and others come in their place: nothing is lost, doubled, torn
 * or held for ever. How many kills: the first argument.
 *
 * What happened is written down in memory that all share, by plain atomic words, beside what is tested.
 */
#include "check.h"

#include <sys/mman.h>

enum { WORKERS = 4, PERMITS = 2, LETTERS = 1 << 22, SENT = 2, BEGUN = 1 };

struct ledger {
    uint32_t next;               /* the next letter's number */
    uint32_t stop;
    uint32_t inside[PERMITS];    /* whose each permit is */
    uint32_t acquired, locked, torn;
    uint8_t state[LETTERS];
    uint8_t got[LETTERS];        /* not marked */
    uint8_t got_again[LETTERS];
};

struct twice {
    uint64_t one, same;
};

static struct ledger *book;
static chappe_pool *pool;
static chappe_mutex *mutex;
static chappe_tube *tube;

#define ADD(word) __atomic_fetch_add(&(word), 1, __ATOMIC_SEQ_CST)
#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_SEQ_CST)

static void uses_a_permit(void)
{
    chappe_permit permit;
    OK(chappe_pool_acquire(pool, &permit));
    int64_t index = chappe_permit_index(&permit);
    uint32_t me = (uint32_t)getpid();
    STORE(book->inside[index], me);
    ADD(book->acquired);
    for (volatile int i = 0; i < 200; i++)
        ;
    /* Two holders at once would see each other. */
    IS(LOAD(book->inside[index]), me);
    OK(chappe_permit_release(&permit));
}

static void uses_the_mutex(void)
{
    struct twice *data;
    int how = chappe_mutex_lock(mutex, (void **)&data);
    if (how == CHAPPE_OWNER_DIED) {
        ADD(book->torn);
        data->same = data->one;
        OK(chappe_mutex_make_consistent(mutex));
    } else {
        OK(how);
        IS(data->one, data->same);
    }
    data->one++;
    for (volatile int i = 0; i < 50; i++)
        ;
    data->same++;
    ADD(book->locked);
    OK(chappe_mutex_unlock(mutex));
}

/* Sends a letter: one in three in place. */
static int goes(chappe_sender *tx, uint32_t letter)
{
    void *slot;
    if (letter % 3 != 0)
        return chappe_send(tx, &letter, sizeof letter);
    int how = chappe_sender_reserve(tx, &slot);
    if (how != 0)
        return how;
    memcpy(slot, &letter, sizeof letter);
    return chappe_sender_commit(tx, sizeof letter);
}

static void sends(void)
{
    chappe_sender *tx;
    OK(chappe_tube_sender(tube, &tx));
    while (!LOAD(book->stop)) {
        uint32_t letter = ADD(book->next);
        if (letter < LETTERS) {
            STORE(book->state[letter], BEGUN);
            int how;
            /* -EPIPE: all receivers are dead just now. */
            while ((how = goes(tx, letter)) == -EPIPE)
                usleep(200);
            OK(how);
            STORE(book->state[letter], SENT);
        }
        uses_a_permit();
        uses_the_mutex();
    }
    OK(chappe_sender_close(tx));
}

static void receives(void)
{
    chappe_receiver *rx;
    OK(chappe_tube_receiver(tube, &rx));
    for (;;) {
        /* Before it looks: a sender that has not yet been told to stop is there by then. */
        uint32_t stop = LOAD(book->stop);
        const void *record;
        bool again;
        ptrdiff_t len = chappe_receiver_borrow(rx, &record, &again);
        if (len == -EPIPE || len == -ECONNRESET) {
            if (stop)
                break;
            /* All senders are dead just now. */
            usleep(200);
            continue;
        }
        IS(len, sizeof(uint32_t));
        uint32_t letter;
        memcpy(&letter, record, sizeof letter);
        CHECK(letter < LETTERS && LOAD(book->state[letter]) != 0);
        ADD(*(again ? &book->got_again[letter] : &book->got[letter]));
        OK(chappe_receiver_release(rx));
        uses_the_mutex();
    }
    OK(chappe_receiver_close(rx));
}

static pid_t come(int worker)
{
    return child(worker % 2 == 0 ? sends : receives);
}

/* Not the library's: the same story for the same seed. */
static uint64_t seed = 88172645463325252u;

static uint32_t dice(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % below;
}

int main(int argc, char **argv)
{
    int kills = argc > 1 ? atoi(argv[1]) : 1000;
    pid_t all[WORKERS];
    chappe_mutex_options guarded;
    chappe_tube_options options;
    CHECK(kills > 0);
    book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(book != MAP_FAILED);
    memset(&guarded, 0, sizeof guarded);
    guarded.size = sizeof(struct twice);
    memset(&options, 0, sizeof options);
    options.slots = 16;
    options.size = 8;
    OK(chappe_pool_create("pool", PERMITS, &pool));
    OK(chappe_mutex_create("mutex", &guarded, &mutex));
    OK(chappe_tube_create("tube", &options, &tube));
    for (int i = 0; i < WORKERS; i++)
        all[i] = come(i);
    for (int i = 0; i < kills; i++) {
        uint32_t which = dice(WORKERS);
        usleep(dice(4000));
        OK(kill(all[which], SIGKILL));
        int status = ended(all[which]);
        /* One that had ended by itself has found something wrong. */
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        all[which] = come((int)which);
    }
    STORE(book->stop, 1);
    for (int i = 0; i < WORKERS; i++)
        ended_well(all[i]);

    /* What is left when the last receiver had gone before the last sender. */
    chappe_receiver *rx;
    uint32_t letter;
    bool again;
    OK(chappe_tube_receiver(tube, &rx));
    while (chappe_recv_timeout(rx, &letter, 8, &again, 30 * CHAPPE_SECOND) == sizeof letter)
        ADD(*(again ? &book->got_again[letter] : &book->got[letter]));
    OK(chappe_receiver_close(rx));

    chappe_tube_info info;
    OK(chappe_tube_look(tube, &info));
    uint32_t lost = 0, doubled = 0, marked = 0, last = LOAD(book->next) < LETTERS ? LOAD(book->next) : LETTERS;
    for (uint32_t i = 0; i < last; i++) {
        lost += book->state[i] == SENT && book->got[i] + book->got_again[i] == 0;
        doubled += book->got[i] > 1;
        marked += book->got_again[i];
    }
    printf("%d kills: %u letters, %u marked, %u missing of %llu dropped after two deaths, %u doubled; %u permits, %u locks, %u torn and mended\n",
           kills, last, marked, lost, (unsigned long long)info.dropped, doubled, book->acquired, book->locked, book->torn);
    CHECK(lost <= info.dropped);
    IS(doubled, 0);
    CHECK(last > 0 && book->acquired > 0 && book->locked > 0);
    IS(info.messages, 0);
    IS(chappe_pool_available(pool), PERMITS);
    struct twice *data;
    OK(chappe_mutex_lock(mutex, (void **)&data) & ~CHAPPE_OWNER_DIED);
    OK(chappe_mutex_make_consistent(mutex));
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_close(mutex));
    OK(chappe_pool_close(pool));
    OK(chappe_tube_close(tube));
    OK(chappe_arena_remove("default", 1));
    return 0;
}
