/* The files of the arenas go while semaphores are in use, as systemd's RemoveIPC has it, or rm: with the C library there are none.
 */
#include "said.h"
#include <dirent.h>

static void remove_arenas(void) {
    DIR *dir = opendir(getenv("CHAPPE_DIR"));
    MUST(dir != NULL);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, "posix") == 0 || strncmp(e->d_name, "family-", 7) == 0)
            MUST(unlinkat(dirfd(dir), e->d_name, 0) == 0);
    closedir(dir);
}

int main(void) {
    sem_t *all[3];
    char name[40], next[64];
    snprintf(name, sizeof name, "/chappe-unlinked-%d", getpid());
    snprintf(next, sizeof next, "%s-next", name);
    all[0] = sem_open(name, O_CREAT, 0600, 0);
    MUST(all[0] != SEM_FAILED);
    all[1] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
    all[2] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 1; i < 3; i++)
        MUST(all[i] != MAP_FAILED && sem_init(all[i], 1, 0) == 0);
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        MUST(children[i] >= 0);
        if (children[i] == 0)
            _exit(sem_wait(all[i]) == 0 ? 0 : errno);
        MUST(until_asleep(children[i], children[i]));
    }
    remove_arenas();
    /* The thread that watches for deaths checks once a second that the waiters' arena is still there. */
    struct timespec limit = on(CLOCK_REALTIME, 2500);
    for (int i = 0; i < 3; i++)
        SAY("nobody posts", sem_timedwait(all[i], &limit));
    for (int i = 0; i < 3; i++) {
        int status;
        SAY("post", sem_post(all[i]));
        MUST(waitpid(children[i], &status, 0) == children[i]);
        printf("child %d: %d\n", i, status);
    }
    for (int i = 0; i < 3; i++) {
        SAY("post", sem_post(all[i]));
        SAY("wait", sem_wait(all[i]));
    }
    /* What is new is made anew. */
    sem_t *s = sem_open(next, O_CREAT | O_EXCL, 0600, 7);
    MUST(s != SEM_FAILED && value_of(s) == 7 && sem_unlink(next) == 0 && sem_close(s) == 0);
    SAY("unlink", sem_unlink(name));
    SAY("close", sem_close(all[0]));
    for (int i = 1; i < 3; i++)
        SAY("destroy", sem_destroy(all[i]));
    MUST(shm_unlink(name) == 0);
    return 0;
}
