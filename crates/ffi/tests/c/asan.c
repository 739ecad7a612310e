/* Under the address sanitizer: what is well on the stacks of light threads, and what is not. argv[1] says which. */
#include "check.h"

#include <chappe/thread.h>

enum { ROUNDS = 50, WORDS = 64 };

static volatile int four = 4;
static volatile int many = WORDS;

/* Fills its own, and shows it to the other side, which writes there. */
static void lends(void *v)
{
    Channel *c = v;
    for (int round = 0; round < ROUNDS; round++) {
        int mine[WORDS];
        for (int i = 0; i < many; i++)
            mine[i] = round;
        int *shown = mine;
        CHECK(send(c, &shown) == 1);
        CHECK(recvul(c + 1) == 1);
        for (int i = 0; i < many; i++)
            CHECK(mine[i] == round + 1);
    }
}

static void deep(int depth)
{
    char room[200];
    memset(room, depth, sizeof room);
    if (depth > 0)
        deep(depth - 1);
    else if (four)
        threadexits(NULL);
    CHECK(room[four] == depth);
}

/* Leaves its frames as they are: the next on this stack finds no marks of theirs. */
static void exits_from_deep(void *v)
{
    sendul(v, 1);
    deep(20);
}

static void fills(void *v)
{
    char room[8000];
    memset(room, 7, (size_t)many * 125);
    sendul(v, (unsigned long)room[four]);
}

/* What only its stack leads to is not lost. */
static void keeps(void *v)
{
    char *kept = malloc(100);
    memset(kept, 1, 100);
    sendul(v, 1);
    recvul((Channel *)v + 1);
    free(kept);
}

static void all_is_well(void)
{
    Channel c[2], d[2];
    chaninit(&c[0], sizeof(int *), 0);
    chaninit(&c[1], sizeof(unsigned long), 0);
    chaninit(&d[0], sizeof(unsigned long), 0);
    chaninit(&d[1], sizeof(unsigned long), 0);
    proccreate(lends, c, 1 << 16);
    threadcreate(lends, c, 1 << 18);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int *shown;
        CHECK(recv(&c[0], &shown) == 1);
        for (int k = 0; k < many; k++)
            shown[k]++;
        sendul(&c[1], 1);
        threadcreate(exits_from_deep, d, 1 << 15);
        CHECK(recvul(d) == 1);
        yield();
        threadcreate(fills, d, 1 << 15);
        CHECK(recvul(d) == 7);
    }
    threadcreate(keeps, d, 1 << 15);
    proccreate(keeps, d, 1 << 18);
    CHECK(recvul(d) == 1 && recvul(d) == 1);
}

static void overflows(void *v)
{
    char overrun[24];
    memset(overrun, 0, sizeof overrun);
    yield();
    overrun[6 * four] = 1;
    sendul(v, (unsigned long)overrun[four]);
}

static char *volatile left;

__attribute__((noinline)) static void leaves_its_frame(void)
{
    char outlived[24];
    memset(outlived, 0, sizeof outlived);
    left = outlived;
}

static void returns(void *v)
{
    leaves_its_frame();
    yield();
    sendul(v, (unsigned long)left[four]);
}

void threadmain(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    Channel *c = chancreate(sizeof(unsigned long), 0);
    if (strcmp(what, "overflow") == 0) {
        threadcreate(overflows, c, 1 << 15);
        recvul(c);
    } else if (strcmp(what, "return") == 0) {
        threadcreate(returns, c, 1 << 15);
        recvul(c);
    } else {
        all_is_well();
    }
    chanfree(c);
    threadexitsall(NULL);
}
