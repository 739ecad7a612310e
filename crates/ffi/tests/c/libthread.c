/* Plan 9's thread library, entry by entry: channels, threads, interrupts. The table in the guide says which check is for which. */
#include "check.h"

#include <chappe/libc9.h>
#include <chappe/thread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int mainstacksize = 1 << 20;

static char *self;
static char said[4096];
static int n;

/* Begins a thread that waits, and lets it do so. */
static int waiting(void (*fn)(void *), void *arg)
{
    int id = threadcreate(fn, arg, 8192);
    yield();
    return id;
}

/* ---- channels ---- */

static Channel *c, *d, *done;

static void sends_one(void *v)
{
    int one = 1;
    IS(send(c, &one), 1);
    n = 2;
    (void)v;
}

static void a_channel_of_0_is_a_rendezvous(void)
{
    int got = 0;
    c = chancreate(sizeof(int), 0);
    IS(c->s, 0);
    IS(c->e, sizeof(int));
    n = 0;
    waiting(sends_one, nil);
    yield();
    IS(n, 0);
    IS(recv(c, &got), 1);
    IS(got, 1);
    yield();
    IS(n, 2);
    chanfree(c);
}

static void elements_of_any_size_are_copied(void)
{
    static const int sizes[] = {1, 3, 8, 9, 24, 32, 33, 1000};
    for (size_t s = 0; s < nelem(sizes); s++)
        for (int room = 1; room < 4; room++) {
            unsigned char out[1002], in[1002];
            Channel *of = chancreate(sizes[s], room);
            for (int i = 0; i < room; i++) {
                memset(out, i + 1, sizeof out);
                IS(nbsend(of, out), 1);
            }
            IS(nbsend(of, out), 0);
            memset(out, 99, sizeof out);
            for (int i = 0; i < room; i++) {
                memset(in, 77, sizeof in);
                IS(nbrecv(of, in + 1), 1);
                for (int at = 0; at < sizes[s]; at++)
                    IS(in[1 + at], i + 1);
                IS(in[0], 77);
                IS(in[1 + sizes[s]], 77);
            }
            IS(nbrecv(of, in), 0);
            /* nil: zeros are sent, and what comes is discarded. */
            IS(send(of, nil), 1);
            memset(in, 77, sizeof in);
            IS(recv(of, in), 1);
            IS(in[0], 0);
            IS(in[sizes[s] - 1], 0);
            IS(send(of, out), 1);
            IS(recv(of, nil), 1);
            chanfree(of);
        }
}

static void pointers_and_numbers_have_calls_of_their_own(void)
{
    Channel *p = chancreate(sizeof(void *), 1), *u = chancreate(sizeof(ulong), 1);
    IS(sendp(p, &n), 1);
    IS(nbsendp(p, &n), 0);
    CHECK(recvp(p) == &n);
    CHECK(nbrecvp(p) == nil);
    IS(nbsendp(p, &n), 1);
    CHECK(nbrecvp(p) == &n);
    IS(sendul(u, ~0ul), 1);
    IS(nbsendul(u, 1), 0);
    CHECK(recvul(u) == ~0ul);
    IS(nbrecvul(u), 0);
    IS(nbsendul(u, 7), 1);
    IS(nbrecvul(u), 7);
    chanfree(p);
    chanfree(u);
}

static void blocks_in_recv(void *v)
{
    ulong got = 5;
    n = recv(v, &got);
    sendul(done, got);
}

static void a_channel_in_ones_own_memory_and_one_freed_while_it_is_used(void)
{
    Channel own;
    IS(chaninit(&own, sizeof(int), 2), 1);
    IS(nbsend(&own, &(int){4}), 1);
    IS(nbsend(&own, &(int){5}), 1);
    IS(nbsend(&own, &(int){6}), 0);
    IS(nbrecv(&own, &n), 1);
    IS(n, 4);
    chanfree(&own);
    Channel *used = chancreate(sizeof(ulong), 0);
    int id = waiting(blocks_in_recv, used);
    chanfree(used);
    IS(threadint(id), 0);
    IS(recvul(done), 5);
    IS(n, -1);
}

static void closes(void)
{
    Channel *e = chancreate(sizeof(ulong), 2);
    ulong v = 0;
    IS(chanclosing(e), -1);
    sendul(e, 8);
    IS(chanclose(e), 0);
    IS(chanclose(e), -1);
    IS(chanclosing(e), 1);
    IS(sendul(e, 9), -1);
    Alt a[] = {{.c = e, .v = &v, .op = CHANRCV}, {.op = CHANEND}};
    IS(alt(a), 0);
    CHECK(a[0].err == nil);
    IS(v, 8);
    IS(alt(a), 0);
    CHECK(a[0].err != nil);
    IS(alt(a), -1);
    IS(recv(e, &v), -1);
    Channel *f = chancreate(sizeof(ulong), 0);
    waiting(blocks_in_recv, f);
    chanclose(f);
    IS(recvul(done), 5);
    IS(n, -1);
    chanfree(e);
    chanfree(f);
}

static void prints_to_a_channel(void)
{
    Channel *p = chancreate(sizeof(char *), 1);
    chansetname(p, "lines %d", 1);
    CHECK(strcmp(p->name, "lines 1") == 0);
    IS(chanprint(p, "%s %d", "line", 3), 1);
    char *line = recvp(p);
    CHECK(strcmp(line, "line 3") == 0);
    free(line);
    chanfree(p);
}

/* ---- alt ---- */

static void sends_to_d(void *v)
{
    (void)v;
    IS(sendul(d, 4), 1);
    sendul(done, 0);
}

static void alts(void *v)
{
    ulong got;
    Alt a[] = {{.c = c, .v = &got, .op = CHANRCV}, {.c = d, .v = v, .op = CHANSND}, {.op = CHANEND}};
    sendul(done, (ulong)alt(a));
}

static void only_nops(void *v)
{
    Alt a[] = {{.op = CHANNOP}, {.op = CHANEND}};
    (void)v;
    sendul(done, (ulong)alt(a));
}

static void alt_does_one_of_several(void)
{
    ulong one = 1, two = 2, got = 0;
    c = chancreate(sizeof(ulong), 0);
    d = chancreate(sizeof(ulong), 0);
    Alt a[] = {
        {.c = c, .v = &got, .op = CHANRCV}, {.c = d, .v = &two, .op = CHANSND}, {.op = CHANNOP}, {.op = CHANNOBLK}};
    /* Nothing can be done; the number of the end. */
    IS(alt(a), 3);
    /* Somebody waits to receive, and somebody to send. */
    int id = waiting(blocks_in_recv, d);
    IS(alt(a), 1);
    IS(recvul(done), 2);
    a[1].op = CHANNOP;
    IS(alt(a), 3);
    CHECK(threadint(id) == -1);
    waiting(alts, &one);
    IS(nbsendul(c, 6), 1);
    IS(recvul(done), 0);
    waiting(alts, &one);
    IS(nbrecvul(d), 1);
    IS(recvul(done), 1);
    /* It waits, in many arms, for one. */
    Alt many[21];
    Channel *others[20];
    for (int i = 0; i < 20; i++) {
        others[i] = i == 17 ? d : chancreate(sizeof(ulong), 0);
        many[i] = (Alt){.c = others[i], .v = &got, .op = CHANRCV};
    }
    many[20].op = CHANEND;
    threadcreate(sends_to_d, nil, 0);
    IS(alt(many), 17);
    IS(got, 4);
    recvul(done);
    for (int i = 0; i < 20; i++)
        if (i != 17)
            chanfree(others[i]);
    /* Interrupted, in a choice of something and of nothing. */
    IS(threadint(waiting(alts, &one)), 0);
    IS((long)recvul(done), -1);
    IS(threadint(waiting(only_nops, nil)), 0);
    IS((long)recvul(done), -1);
    chanfree(c);
    chanfree(d);
}

static void alt_is_fair_among_those_that_are_ready(void)
{
    Channel *e[3];
    int times[3] = {0};
    ulong v = 1;
    Alt a[4];
    for (int i = 0; i < 3; i++) {
        e[i] = chancreate(sizeof(ulong), 1);
        a[i] = (Alt){.c = e[i], .v = &v, .op = CHANRCV};
    }
    a[3].op = CHANEND;
    for (int round = 0; round < 600; round++) {
        for (int i = 0; i < 3; i++)
            nbsendul(e[i], 1);
        times[alt(a)]++;
    }
    /* Less than half of what is due to each: once in some 10^16 runs. */
    for (int i = 0; i < 3; i++) {
        CHECK(times[i] > 100);
        chanfree(e[i]);
    }
}

/* ---- threads ---- */

static void writes_its_letter(void *v)
{
    for (int i = 0; i < 3; i++) {
        strcat(said, v);
        yield();
    }
    sendul(done, 0);
}

static void threads_take_turns(void)
{
    said[0] = 0;
    threadcreate(writes_its_letter, "a", 0);
    threadcreate(writes_its_letter, "b", 0);
    threadcreate(writes_its_letter, "c", 0);
    for (int i = 0; i < 3; i++)
        recvul(done);
    CHECK(strcmp(said, "abcabcabc") == 0);
}

static void deep(int depth)
{
    char some[100];
    memset(some, depth, sizeof some);
    if (depth > 0)
        deep(depth - 1);
    else if (n == 0)
        threadexits(nil);
    n = some[0];
}

static void exits_from_deep(void *v)
{
    sendul(v, 1);
    deep(20);
    n = 99;
}

static void a_thread_ends_from_wherever_it_is(void)
{
    n = 0;
    c = chancreate(sizeof(ulong), 1);
    int id = threadcreate(exits_from_deep, c, 0);
    recvul(c);
    yield();
    IS(n, 0);
    IS(threadpid(id), -1);
    chanfree(c);
}

static void tells_its_group(void *v)
{
    (void)v;
    sendul(done, (ulong)threadgetgrp());
    sendul(done, (ulong)threadsetgrp(9));
    sendul(done, (ulong)threadgrp());
    sendul(done, (ulong)threadid());
}

static void ids_and_groups(void)
{
    int me = threadid(), last = me;
    CHECK(me > 0);
    IS(threadsetgrp(7), 0);
    for (int i = 0; i < 3; i++) {
        int id = threadcreate(tells_its_group, nil, 0);
        CHECK(id > last);
        last = id;
        IS(recvul(done), 7);
        IS(recvul(done), 7);
        IS(recvul(done), 9);
        IS(recvul(done), id);
    }
    IS(threadsetgrp(0), 7);
    IS(threadgetgrp(), 0);
}

static void names_itself(void *v)
{
    CHECK(threadgetname() == nil);
    threadsetname("worker %d", 3);
    CHECK(strcmp(threadgetname(), "worker 3") == 0);
    threadsetstate("looking at %s", "names");
    CHECK(*threaddata() == nil && *procdata() == v);
    *threaddata() = said;
    yield();
    CHECK(*threaddata() == said);
    sendul(done, 0);
}

static void names_and_pointers(void)
{
    *threaddata() = &n;
    *procdata() = said;
    threadcreate(names_itself, said, 0);
    recvul(done);
    CHECK(*threaddata() == &n);
    *procdata() = nil;
}

static void tells_its_proc(void *v)
{
    CHECK(*procdata() == nil);
    *procdata() = v;
    sendul(v, (ulong)syscall(SYS_gettid));
    recvul(v);
}

static void procs_are_kernel_threads(void)
{
    c = chancreate(sizeof(ulong), 0);
    IS(threadpid(threadid()), syscall(SYS_gettid));
    int id = proccreate(tells_its_proc, c, 8192);
    int tid = (int)recvul(c);
    IS(threadpid(id), tid);
    CHECK(tid != threadpid(threadid()));
    sendul(c, 0);
    EVENTUALLY(threadpid(id) == -1);
    IS(threadpid(1 << 30), -1);
    IS(threadint(1 << 30), -1);
    IS(threadkill(1 << 30), -1);
    chanfree(c);
}

static int inside, most;
static Ref over;

static void counts(void *v)
{
    for (int i = 0; i < 200; i++) {
        /* No lock: nobody of the same proc comes in between. */
        if (++inside > most)
            most = inside;
        for (volatile int spin = 0; spin < 100; spin++)
            ;
        n++;
        inside--;
        sendul(v, 1);
    }
}

static void begins_counters(void *v)
{
    for (int i = 0; i < 10; i++)
        threadcreate(counts, v, 0);
}

static void threads_of_one_proc_never_run_at_once(void)
{
    c = chancreate(sizeof(ulong), 3);
    n = most = 0;
    proccreate(begins_counters, c, 0);
    for (int i = 0; i < 2000; i++)
        recvul(c);
    IS(n, 2000);
    IS(most, 1);
    chanfree(c);
}

/* ---- interrupts and kills ---- */

static void blocks_in_send(void *v)
{
    sendul(done, (ulong)sendul(v, 3));
}

static chappe_semaphore *semaphore;

static void blocks_elsewhere(void *v)
{
    (void)v;
    sendul(done, (ulong)chappe_semaphore_down(semaphore));
}

static int ends[2];

static void blocks_in_a_system_call(void *v)
{
    char letter;
    n = read(ends[0], &letter, 1) == -1 && errno == EINTR;
    sendul(v, 0);
}

static void an_interrupt_ends_what_blocks(void)
{
    c = chancreate(sizeof(ulong), 0);
    n = 0;
    threadint(waiting(blocks_in_recv, c));
    IS(recvul(done), 5);
    IS(n, -1);
    threadint(waiting(blocks_in_send, c));
    IS((long)recvul(done), -1);
    OK(chappe_semaphore_private(0, 0, &semaphore));
    threadint(waiting(blocks_elsewhere, nil));
    IS((long)recvul(done), -EINTR);
    /* One that is not blocked goes on, and waits later. */
    int id = threadcreate(blocks_in_send, c, 0);
    threadint(id);
    yield();
    IS(recvul(c), 3);
    IS(recvul(done), 1);
    /* A group. */
    threadsetgrp(5);
    for (int i = 0; i < 3; i++)
        waiting(blocks_in_send, c);
    threadsetgrp(0);
    IS(threadintgrp(5), 3);
    for (int i = 0; i < 3; i++)
        IS((long)recvul(done), -1);
    IS(threadintgrp(5), 0);
    /* A system call of another proc; the signal may come before it has begun. */
    OK(pipe(ends));
    id = proccreate(blocks_in_a_system_call, done, 0);
    while (nbrecv(done, nil) == 0) {
        threadint(id);
        usleep(300);
    }
    IS(n, 1);
    close(ends[0]);
    close(ends[1]);
    chanfree(c);
    OK(chappe_semaphore_close(semaphore));
}

static void goes_on_for_ever(void *v)
{
    (void)v;
    for (;; n++)
        yield();
}

static void must_not_begin(void *v)
{
    (void)v;
    n = 1000000;
}

static void a_kill_ends_a_thread_where_it_relinquishes(void)
{
    c = chancreate(sizeof(ulong), 0);
    n = 0;
    int id = waiting(goes_on_for_ever, nil);
    yield();
    int before = n;
    CHECK(before > 0);
    OK(threadkill(id));
    yield();
    yield();
    CHECK(n <= before + 1);
    IS(threadpid(id), -1);
    /* Blocked; and not begun yet. */
    id = waiting(blocks_in_send, c);
    OK(threadkill(id));
    yield();
    IS(threadpid(id), -1);
    CHECK(nbrecv(done, nil) == 0 && nbrecv(c, nil) == 0);
    n = 0;
    OK(threadkill(threadcreate(must_not_begin, nil, 0)));
    yield();
    IS(n, 0);
    threadsetgrp(6);
    for (int i = 0; i < 3; i++)
        waiting(blocks_in_recv, c);
    threadsetgrp(0);
    IS(threadkillgrp(6), 3);
    yield();
    IS(threadkillgrp(6), 0);
    chanfree(c);
}

#include "libthread_rest.h"

void threadmain(int argc, char **argv)
{
    volatile char large[600000];
    large[0] = large[sizeof large - 1] = 1;
    self = argv[0];
    done = chancreate(sizeof(ulong), 0);
    ARGBEGIN {
    case 'x':
        as_another(EARGF(exits("usage")));
        return;
    default:
        exits("usage");
    } ARGEND
    if (argc > 0) {
        as_another(argv[0]);
        return;
    }
    a_channel_of_0_is_a_rendezvous();
    elements_of_any_size_are_copied();
    pointers_and_numbers_have_calls_of_their_own();
    a_channel_in_ones_own_memory_and_one_freed_while_it_is_used();
    closes();
    prints_to_a_channel();
    alt_does_one_of_several();
    alt_is_fair_among_those_that_are_ready();
    threads_take_turns();
    a_thread_ends_from_wherever_it_is();
    ids_and_groups();
    names_and_pointers();
    procs_are_kernel_threads();
    threads_of_one_proc_never_run_at_once();
    an_interrupt_ends_what_blocks();
    a_kill_ends_a_thread_where_it_relinquishes();
    locks_hold_among_threads_and_procs();
    locks_are_first_come_first_served();
    a_rendez_wakes_in_order_and_with_the_lock();
    an_ioproc_calls_while_the_others_go_on();
    threads_become_programs();
    programs_end_as_they_say();
    errors_end_the_program_with_a_text();
    notes_come_to_their_handlers();
    one_handler_ends_with_noted();
    a_pthread_uses_channels();
    print_has_plan_9s_verbs();
    CHECK(large[sizeof large - 1] == 1);
    threadexits(nil);
}
