/* The library is loaded, used, let go, and loaded again: its threads, which watch for deaths, go on. */
#include "check.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    IS(argc, 2);
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        CHECK(library != NULL);
        int (*make)(const char *, int64_t, chappe_semaphore **);
        int (*down)(chappe_semaphore *, int64_t);
        int (*done)(chappe_semaphore *);
        chappe_semaphore *s;
        *(void **)&make = dlsym(library, "chappe_semaphore_open_or_create");
        *(void **)&down = dlsym(library, "chappe_semaphore_down_timeout");
        *(void **)&done = dlsym(library, "chappe_semaphore_close");
        CHECK(make && down && done);
        OK(make("loaded", 0, &s));
        /* It sleeps, so there is somebody who watches. */
        IS(down(s, 5 * CHAPPE_MILLISECOND), -ETIMEDOUT);
        OK(done(s));
        OK(dlclose(library));
    }
    return 0;
}
