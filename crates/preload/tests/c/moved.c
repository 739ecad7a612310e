/* Semaphores that are moved with their memory, and others that are made where they were: POSIX does not allow it, and it works. */
#include "said.h"

enum { MANY = 3000, OFTEN = 20000, ALL = 65000 };

static sem_t first[MANY], moved[MANY];

int main(void) {
    for (int i = 0; i < MANY; i++)
        MUST(sem_init(&first[i], 0, 1000 + i) == 0);
    memcpy(moved, first, sizeof first);
    for (int i = 0; i < MANY; i++)
        MUST(sem_init(&first[i], 0, i) == 0);
    for (int i = 0; i < MANY; i++) {
        MUST(value_of(&moved[i]) == 1000 + i && value_of(&first[i]) == i);
        MUST(sem_post(&moved[i]) == 0 && value_of(&moved[i]) == 1001 + i && value_of(&first[i]) == i);
    }
    /* Once more, over others. */
    memcpy(moved, first, sizeof first);
    for (int i = 0; i < MANY; i++)
        MUST(value_of(&moved[i]) == i && sem_destroy(&moved[i]) == 0);
    printf("moved\n");

    /* What nobody has destroyed leaves room for others. */
    sem_t s;
    for (int i = 0; i < OFTEN; i++)
        MUST(sem_init(&s, 0, 1) == 0 && sem_wait(&s) == 0);
    printf("again and again\n");
    sem_t *all = malloc(ALL * sizeof *all);
    MUST(all != NULL);
    for (int i = 0; i < ALL; i++)
        MUST(sem_init(&all[i], 0, i) == 0);
    for (int i = 0; i < ALL; i++)
        MUST(value_of(&all[i]) == i);
    char kind[9] = "";
    memcpy(kind, (char *)&all[ALL - 1] + 8, 8);
    printf("%s\n", getenv("LD_PRELOAD") == NULL || strncmp(kind, "chappe-", 7) == 0 ? "all of them" : "one too many");
    return 0;
}
