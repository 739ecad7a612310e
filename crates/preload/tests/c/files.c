/* A program of one thread that opens a file gets the lowest number that is free: whatever else runs in its process by now opens its files
 * where the program does not see them, and keeps none of the program's open. */
#include "said.h"
#include <dirent.h>

static long files_of(const char *thread) {
    char path[300];
    long n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/fd", thread);
    DIR *d = opendir(path);
    MUST(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

int main(void) {
    struct timespec soon = on(CLOCK_REALTIME, 20);
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    char mine[16], byte;
    MUST(s != MAP_FAILED && sem_init(s, 1, 0) == 0 && pipe(ends) == 0);
    SAY("wait", sem_timedwait(s, &soon));
    snprintf(mine, sizeof mine, "%d", (int)getpid());
    DIR *d = opendir("/proc/self/task");
    MUST(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, mine) != 0)
            /* One that looks at something has its file for a moment. */
            for (int i = 0; files_of(e->d_name) > 0; i++)
                MUST(i < 20000 && usleep(1000) == 0);
    closedir(d);
    MUST(close(ends[1]) == 0);
    SAY("the end", read(ends[0], &byte, 1));
    MUST(close(0) == 0);
    SAY("open", open("/dev/null", O_RDONLY));
    SAY("destroy", sem_destroy(s));
}
