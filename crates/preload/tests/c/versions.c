/* Whose semaphore does a program get that asks for the functions of today, or of long ago? */
#include "said.h"
#include <dlfcn.h>

#ifdef OLD
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif
__asm__(".symver sem_init,sem_init@" FIRST);
__asm__(".symver sem_wait,sem_wait@" FIRST);
__asm__(".symver sem_post,sem_post@" FIRST);
__asm__(".symver sem_destroy,sem_destroy@" FIRST);
#endif

int main(void) {
    sem_t s;
    int (*wait)(sem_t *) = sem_wait;
#ifdef BY_NAME
    void *found = dlsym(RTLD_DEFAULT, "sem_wait");
    memcpy(&wait, &found, sizeof wait);
#endif
    MUST(sem_init(&s, 0, 1) == 0 && wait(&s) == 0);
    char kind[9] = {0};
    memcpy(kind, (char *)&s + 8, 8);
    printf("%s\n", memcmp(kind, "chappe", 6) == 0 ? kind : "the C library");
    MUST(sem_post(&s) == 0 && sem_destroy(&s) == 0);
    return 0;
}
