/*
 * A producer and a consumer in two processes, over a tube. The consumer is killed in the middle of a record: the next one gets that
 * record once more, marked, and nothing is lost.
 *
 *     cc -o producer_consumer producer_consumer.c $(pkg-config --cflags --libs chappe) && ./producer_consumer
 */
#include <chappe.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 20, FATAL = 7 };

struct job {
    int number;
    char what[28];
};

static void must(long long answer, const char *what)
{
    if (answer < 0) {
        fprintf(stderr, "%s: %s\n", what, chappe_last_error());
        exit(1);
    }
}

static void produce(chappe_tube *tube)
{
    chappe_sender *out;
    must(chappe_tube_sender(tube, &out), "sender");
    for (int i = 0; i < JOBS; i++) {
        /* Written where it will be read: no copy. */
        struct job *job;
        must(chappe_sender_reserve(out, (void **)&job), "reserve");
        job->number = i;
        snprintf(job->what, sizeof job->what, "job %d", i);
        must(chappe_sender_commit(out, sizeof *job), "commit");
    }
    /* The last sender goes: then the consumer gets -EPIPE. */
    must(chappe_sender_close(out), "close");
}

/* Answers how many it has done. */
static int consume(chappe_receiver *in, int dies)
{
    const struct job *job;
    ptrdiff_t len;
    bool again;
    int done = 0;
    while ((len = chappe_receiver_borrow(in, (const void **)&job, &again)) >= 0) {
        printf("consumer %d: %s%s\n", (int)getpid(), job->what, again ? ", which somebody has begun before" : "");
        fflush(stdout);
        if (dies && job->number == FATAL)
            raise(SIGKILL);
        must(chappe_receiver_release(in), "release");
        done++;
    }
    /* No record any more, and no sender. */
    if (len != -EPIPE)
        must(len, "borrow");
    must(chappe_receiver_close(in), "close");
    return done;
}

int main(void)
{
    char name[32];
    chappe_tube *tube;
    chappe_tube_options options;
    int status;
    memset(&options, 0, sizeof options);
    options.slots = 4;
    options.size = sizeof(struct job);
    snprintf(name, sizeof name, "jobs-%d", (int)getpid());
    must(chappe_tube_create(name, &options, &tube), "create");

    /* Attached before anybody sends: there is a receiver all the time, also when the first consumer has died. */
    chappe_receiver *in;
    must(chappe_tube_receiver(tube, &in), "receiver");
    pid_t producer = fork();
    if (producer == 0) {
        produce(tube);
        exit(0);
    }
    pid_t first = fork();
    if (first == 0) {
        chappe_receiver *own;
        must(chappe_tube_receiver(tube, &own), "receiver");
        exit(consume(own, 1));
    }
    waitpid(first, &status, 0);
    if (!WIFSIGNALED(status))
        return 1;
    printf("consumer %d was killed\n", (int)first);
    int done = consume(in, 0);
    waitpid(producer, &status, 0);

    must(chappe_tube_close(tube), "close");
    must(chappe_tube_remove(name, 0), "remove");
    printf("%d done by the second, %d by the first\n", done, FATAL);
    return status == 0 && done == JOBS - FATAL ? 0 : 1;
}
