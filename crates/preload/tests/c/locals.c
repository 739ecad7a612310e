/* A program whose threads have SIZE bytes of their own from the start, which the C library takes from their stacks. Its first thread
 * waits for a post by a child. Prints which other threads there are.
 */
#include "said.h"
#include <dirent.h>

__thread char own[SIZE];

int main(void) {
    own[getpid() % SIZE] = 1;
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    MUST(s != MAP_FAILED && sem_init(s, 1, 0) == 0);
    alarm(60);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        alarm(60);
        until_asleep(parent, parent);
        MUST(sem_post(s) == 0);
        _exit(0);
    }
    MUST(sem_wait(s) == 0 && waitpid(child, &status, 0) == child && status == 0);
    DIR *tasks = opendir("/proc/self/task");
    MUST(tasks != NULL);
    for (struct dirent *d; (d = readdir(tasks)) != NULL;) {
        char path[300], name[32];
        if (d->d_name[0] == '.' || atoi(d->d_name) == getpid())
            continue;
        /* Asleep: it has a name, and has done something. */
        until_asleep(getpid(), atoi(d->d_name));
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
        FILE *f = fopen(path, "r");
        MUST(f != NULL && fgets(name, sizeof name, f) != NULL);
        fclose(f);
        printf("%s", name);
    }
    return 0;
}
