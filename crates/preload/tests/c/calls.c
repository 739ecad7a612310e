/* How many system calls it takes to take the name of a semaphore away that nobody has open: the child's, counted by its parent. */
#include "said.h"
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum { NAMES = 4 };

static void name_of(char *name, int i) { sprintf(name, "/chappe-calls-%d", i); }

/* Between two counts it stops itself, by one system call. */
static void child(void) {
    char name[64];
    pid_t me = getpid();
    int i;
    for (i = 0; i < NAMES; i++) {
        name_of(name, i);
        sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
        if (s == SEM_FAILED || sem_close(s) != 0)
            _exit(3);
    }
    /* The first is counted by nobody: what a process makes once is made. */
    name_of(name, 0);
    if (sem_unlink(name) != 0 || ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        _exit(4);
    for (i = 1; i < NAMES; i++) {
        syscall(SYS_tkill, me, SIGSTOP);
        name_of(name, i);
        if (sem_unlink(name) != 0)
            _exit(5);
    }
    syscall(SYS_tkill, me, SIGSTOP);
    _exit(0);
}

int main(void) {
    int status, counted = 0, stops = 0, most = 0, is_inside = 0;
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0)
        child();
    for (;;) {
        MUST(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) || WIFSIGNALED(status))
            break;
        if (WSTOPSIG(status) == SIGSTOP) {
            if (stops++ > 0 && counted > most)
                most = counted;
            counted = 0;
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            is_inside = !is_inside;
            counted += is_inside;
        }
        ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
        MUST(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 4) {
        puts("untraced");
        return 0;
    }
    MUST(WEXITSTATUS(status) == 0 && stops == NAMES);
    printf("%d\n", most - 1);
    return 0;
}
