/*
 * Dining philosophers by choice. Forks are pools of one permit. A philosopher takes whichever of its two forks is free first, by one
 * choice, and then waits for the other.
 *
 * What forbids the deadlock is the room: it has one seat less than there are philosophers. Were all that sit there to hold one fork and
 * wait for the other, one fork would lie free (there is a fork more than there are seats), beside a philosopher that sits (only one
 * does not), and that one waits for this very fork: so it has it. Seats and forks go in the order of arrival: nobody starves.
 *
 *     cc -o philosophers philosophers.c $(pkg-config --cflags --libs chappe) -lpthread && ./philosophers
 */
#include <chappe.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PHILOSOPHERS = 5, MEALS = 400 };

static chappe_pool *forks[PHILOSOPHERS], *room;
/* What a fork's holder alone may touch. */
static long used[PHILOSOPHERS];
static long chosen[2];

static void must(long long answer, const char *what)
{
    if (answer < 0) {
        fprintf(stderr, "%s: %s\n", what, chappe_last_error());
        exit(1);
    }
}

static void *dines(void *number)
{
    int i = (int)(intptr_t)number;
    chappe_pool *both[2] = {forks[i], forks[(i + 1) % PHILOSOPHERS]};
    for (int meal = 0; meal < MEALS; meal++) {
        chappe_permit seat, fork[2];
        must(chappe_pool_acquire(room, &seat), "a seat");
        chappe_arm arms[2] = {chappe_arm_acquire(both[0], &fork[0]), chappe_arm_acquire(both[1], &fork[1])};
        ptrdiff_t first = chappe_select(arms, 2, 0);
        must(first, "whichever fork");
        must(arms[first].result, "whichever fork");
        must(chappe_pool_acquire(both[1 - first], &fork[1 - first]), "the other fork");
        used[i]++;
        used[(i + 1) % PHILOSOPHERS]++;
        __atomic_fetch_add(&chosen[first], 1, __ATOMIC_RELAXED);
        must(chappe_permit_release_many(fork, 2), "putting the forks down");
        must(chappe_permit_release(&seat), "getting up");
    }
    return NULL;
}

int main(void)
{
    pthread_t all[PHILOSOPHERS];
    must(chappe_pool_private(PHILOSOPHERS - 1, &room), "the room");
    for (int i = 0; i < PHILOSOPHERS; i++)
        must(chappe_pool_private(1, &forks[i]), "a fork");
    for (int i = 0; i < PHILOSOPHERS; i++)
        if (pthread_create(&all[i], NULL, dines, (void *)(intptr_t)i) != 0)
            return 1;
    for (int i = 0; i < PHILOSOPHERS; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < PHILOSOPHERS; i++) {
        if (used[i] != 2L * MEALS)
            return 1;
        must(chappe_pool_close(forks[i]), "close");
    }
    must(chappe_pool_close(room), "close");
    printf("%d philosophers have had %d meals each; the left fork came first %ld times, the right one %ld\n", PHILOSOPHERS, MEALS,
           chosen[0], chosen[1]);
    return 0;
}
