/*
 * Jobs share GPUs, whichever is free; one job is killed while it holds one, and the GPU goes to the next in line. Each job would set
 * CUDA_VISIBLE_DEVICES and start its work where it sleeps here.
 *
 *     cc -o gpu_pool gpu_pool.c $(pkg-config --cflags --libs chappe) && ./gpu_pool
 */
#include <chappe.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GPUS = 2, JOBS = 6 };

static chappe_pool *gpus[GPUS];

static void must(long long answer, const char *what)
{
    if (answer < 0) {
        fprintf(stderr, "%s: %s\n", what, chappe_last_error());
        exit(1);
    }
}

static void job(int number, int ready)
{
    chappe_permit gpu;
    char label[32];
    snprintf(label, sizeof label, "job %d", number);
    must(chappe_set_label(label), "label");
    ptrdiff_t which = chappe_acquire_any(gpus, GPUS, &gpu);
    must(which, "acquire");
    printf("job %d has gpu%d\n", number, (int)which);
    fflush(stdout);
    if (number == 0) {
        /* Hangs: the parent will kill it. */
        if (write(ready, "x", 1) == 1)
            for (;;)
                pause();
    }
    usleep(20000);
    must(chappe_permit_release(&gpu), "release");
}

int main(void)
{
    char name[GPUS][48];
    int ready[2];
    char byte;
    pid_t all[JOBS];
    if (pipe(ready) != 0)
        return 1;
    for (int i = 0; i < GPUS; i++) {
        snprintf(name[i], sizeof name[i], "gpu%d-%d", i, (int)getpid());
        must(chappe_pool_create(name[i], 1, &gpus[i]), "create");
    }
    for (int i = 0; i < JOBS; i++) {
        all[i] = fork();
        if (all[i] == 0) {
            job(i, ready[1]);
            exit(0);
        }
        if (i == 0 && read(ready[0], &byte, 1) != 1)
            return 1;
    }
    /* The holders and their permits, as any process may see them. */
    for (int i = 0; i < GPUS; i++) {
        chappe_holder holder;
        if (chappe_pool_holders(gpus[i], &holder, 1) == 1)
            printf("gpu%d: pid %d, \"%s\", for %.3f s\n", i, holder.pid, holder.label, (double)holder.held / (double)CHAPPE_SECOND);
    }
    kill(all[0], SIGKILL);
    printf("job 0 is killed; its GPU goes to the next\n");
    fflush(stdout);
    int bad = 0;
    for (int i = 0; i < JOBS; i++) {
        int status;
        waitpid(all[i], &status, 0);
        bad += i == 0 ? !WIFSIGNALED(status) : status != 0;
    }
    for (int i = 0; i < GPUS; i++) {
        /* A permit of the dead counts as free once somebody looks. */
        chappe_permit gpu;
        must(chappe_pool_acquire_timeout(gpus[i], &gpu, 10 * CHAPPE_SECOND), "acquire");
        must(chappe_permit_release(&gpu), "release");
        must(chappe_pool_close(gpus[i]), "close");
        must(chappe_pool_remove(name[i], 0), "remove");
    }
    return bad;
}
