/* Plan 9's thread library, entry by entry. The table in the guide says which check is for which; what ends the program runs in one of its own. */
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

/* ---- locks ---- */

static QLock ql;
static RWLock rw;
static Rendez rz = {.l = &ql};

static void adds(void *v)
{
    for (int i = 0; i < 500; i++) {
        qlock(&ql);
        int was = n;
        if (i % 50 == 0)
            yield();
        n = was + 1;
        qunlock(&ql);
        wlock(&rw);
        inside++;
        wunlock(&rw);
        rlock(&rw);
        CHECK(inside > 0);
        runlock(&rw);
    }
    if (decref(&over) == 0)
        sendul(v, 0);
}

static void locks_hold_among_threads_and_procs(void)
{
    n = inside = 0;
    for (int i = 0; i < 6; i++)
        incref(&over);
    for (int i = 0; i < 3; i++) {
        threadcreate(adds, done, 0);
        proccreate(adds, done, 0);
    }
    recvul(done);
    IS(n, 3000);
    IS(inside, 3000);
    IS(over.ref, 0);
}

static void waits_for_lock(void *v)
{
    qlock(&ql);
    strcat(said, v);
    qunlock(&ql);
    sendul(done, 0);
}

static void reads(void *v)
{
    rlock(&rw);
    strcat(said, v);
    yield();
    yield();
    runlock(&rw);
    sendul(done, 0);
}

static void writes(void *v)
{
    wlock(&rw);
    strcat(said, v);
    wunlock(&rw);
    sendul(done, 0);
}

static void locks_are_first_come_first_served(void)
{
    IS(canqlock(&ql), 1);
    IS(canqlock(&ql), 0);
    said[0] = 0;
    waiting(waits_for_lock, "1");
    int id = waiting(waits_for_lock, "2");
    waiting(waits_for_lock, "3");
    /* No interrupt ends that. */
    OK(threadint(id));
    yield();
    qunlock(&ql);
    for (int i = 0; i < 3; i++)
        recvul(done);
    CHECK(strcmp(said, "123") == 0);

    IS(canrlock(&rw), 1);
    IS(canrlock(&rw), 1);
    IS(canwlock(&rw), 0);
    said[0] = 0;
    waiting(writes, "w");
    /* Behind the writer. */
    IS(canrlock(&rw), 0);
    waiting(reads, "r");
    waiting(reads, "s");
    waiting(writes, "x");
    CHECK(said[0] == 0);
    runlock(&rw);
    runlock(&rw);
    for (int i = 0; i < 4; i++)
        recvul(done);
    CHECK(strcmp(said, "wrsx") == 0);
    IS(canwlock(&rw), 1);
    IS(canrlock(&rw), 0);
    wunlock(&rw);
}

static void sleeps(void *v)
{
    qlock(&ql);
    rsleep(&rz);
    /* With the lock. */
    IS(canqlock(&ql), 0);
    strcat(said, v);
    qunlock(&ql);
    sendul(done, 0);
}

static void a_rendez_wakes_in_order_and_with_the_lock(void)
{
    said[0] = 0;
    waiting(sleeps, "a");
    waiting(sleeps, "b");
    waiting(sleeps, "c");
    qlock(&ql);
    IS(rwakeup(&rz), 1);
    yield();
    CHECK(said[0] == 0);
    qunlock(&ql);
    recvul(done);
    qlock(&ql);
    IS(rwakeupall(&rz), 2);
    IS(rwakeup(&rz), 0);
    qunlock(&ql);
    recvul(done);
    recvul(done);
    CHECK(strcmp(said, "abc") == 0);
}

/* ---- ioprocs ---- */

static Ioproc *io;

static long sums(va_list *arg)
{
    int one = va_arg(*arg, int);
    char *two = va_arg(*arg, char *);
    long three = va_arg(*arg, long);
    errno = ERANGE;
    return one + (long)strlen(two) + three;
}

static void reads_slowly(void *v)
{
    char some[3];
    errno = 0;
    n = (int)ioread(io, ends[0], some, sizeof some);
    sendul(v, n == -1 ? (ulong)errno : 0);
}

static void sleeps_there(void *v)
{
    sendul(v, (ulong)iosleep(io, 100000));
}

static void an_ioproc_calls_while_the_others_go_on(void)
{
    char some[8] = "";
    io = ioproc();
    OK(pipe(ends));
    /* The pipe is empty: the caller waits, and we go on. */
    waiting(reads_slowly, done);
    CHECK(nbrecv(done, nil) == 0);
    IS(write(ends[1], "abc", 3), 3);
    IS(recvul(done), 0);
    IS(n, 3);
    /* Interrupted: by iointerrupt; by an interrupt of who waits. */
    waiting(reads_slowly, done);
    iointerrupt(io);
    IS(recvul(done), EINTR);
    threadint(waiting(reads_slowly, done));
    IS(recvul(done), EINTR);
    threadint(waiting(sleeps_there, done));
    IS((long)recvul(done), -1);
    iointerrupt(io);
    /* Killed while it waits there. */
    threadkill(waiting(sleeps_there, done));
    yield();
    IS(iosleep(io, 1), 0);
    IS(iowrite(io, ends[1], "12", 2), 2);
    IS(write(ends[1], "345", 3), 3);
    IS(ioreadn(io, ends[0], some, 5), 5);
    CHECK(strcmp(some, "12345") == 0);
    IS(ioclose(io, ends[1]), 0);
    IS(ioread(io, ends[0], some, 1), 0);
    IS(ioclose(io, ends[0]), 0);
    IS(ioclose(io, ends[0]), -1);
    IS(errno, EBADF);
    int fd = ioopen(io, "/dev/zero", OREAD);
    CHECK(fd > 2);
    IS(ioreadn(io, fd, some, 3), 3);
    IS(some[2], 0);
    close(fd);
    IS(ioopen(io, "/nowhere/at/all", OREAD), -1);
    IS(errno, ENOENT);
    IS(iocall(io, sums, 1, "two", 3L), 7);
    IS(errno, ERANGE);
    closeioproc(io);
}

/* ---- programs ---- */

/* Runs this program as another: its status as Waitmsg has it, and in `said` what it said. */
static char *runs(char *what)
{
    static char status[32];
    int out[2], fd[3];
    OK(pipe(out));
    fd[0] = dup(0, -1);
    fd[1] = dup(1, -1);
    fd[2] = out[1];
    char *args[] = {self, what, nil};
    int pid = threadspawn(fd, self, args);
    CHECK(pid > 0);
    long len = readn(out[0], said, sizeof said - 1);
    said[len > 0 ? len : 0] = 0;
    close(out[0]);
    Waitmsg *w = recvp(threadwaitchan());
    IS(w->pid, pid);
    CHECK(w->time[2] < 100000);
    snprint(status, sizeof status, "%s", w->msg);
    free(w);
    return status;
}

static void becomes(void *v)
{
    char *args[] = {"sh", "-c", "exit 3", nil};
    procexec(v, "sh", args);
    CHECK(!"here");
}

static void becomes_too(void *v)
{
    procexecl(v, "/bin/sh", "sh", "-c", "exit 4", nil);
    CHECK(!"here");
}

static void becomes_nothing(void *v)
{
    procexecl(v, "/nowhere/at/all", "all", nil);
    IS(errno, ENOENT);
    sendul(done, 0);
}

static void becomes_with_descriptors(void *v)
{
    int fd[3] = {dup(0, -1), dup(1, -1), dup(2, -1)};
    threadexecl(v, fd, "sh", "sh", "-c", "exit 5", nil);
    CHECK(!"here");
}

static void threads_become_programs(void)
{
    static void (*const all[])(void *) = {becomes, becomes_too, becomes_with_descriptors};
    Channel *cpid = chancreate(sizeof(ulong), 0), *wait = threadwaitchan();
    CHECK(wait == threadwaitchan());
    for (size_t i = 0; i < nelem(all); i++) {
        proccreate(all[i], cpid, 0);
        ulong pid = recvul(cpid);
        Waitmsg *w = recvp(wait);
        IS(w->pid, pid);
        IS(atoi(w->msg), 3 + (int)i);
        free(w);
    }
    proccreate(becomes_nothing, cpid, 0);
    IS((long)recvul(cpid), -1);
    recvul(done);
    chanfree(cpid);
    int fd[3] = {dup(0, -1), dup(1, -1), dup(2, -1)};
    IS(threadspawnl(fd, "/nowhere/at/all", "all", nil), -1);
    IS(errno, ENOENT);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
}

static void programs_end_as_they_say(void)
{
    CHECK(strcmp(runs("returns"), "") == 0);
    CHECK(strcmp(runs("exits"), "") == 0);
    CHECK(strcmp(runs("exits-badly"), "1") == 0);
    CHECK(strcmp(runs("others-go-on"), "1") == 0);
    CHECK(strcmp(said, "went on\n") == 0);
    CHECK(strcmp(runs("all"), "") == 0);
    CHECK(strcmp(runs("all-badly"), "1") == 0);
    CHECK(strcmp(runs("fatal"), "1") == 0);
    CHECK(strstr(said, ": no such thing: 7\n") != nil);
    CHECK(strcmp(runs("interrupted"), "signal 2") == 0);
    CHECK(strcmp(runs("deadlock"), "2") == 0);
    CHECK(strstr(said, "(left behind) waits to receive") != nil);
}

static void errors_end_the_program_with_a_text(void)
{
    static const struct {
        char *what, *text;
    } all[] = {
        {"bad-chancreate", "chancreate: elements of -1 bytes, 3 of them: an element has 1 byte or more"},
        {"bad-nil", "send: the channel is nil: it is made with chancreate"},
        {"bad-freed", "recv: 0x"},
        {"bad-size", "elements of 4 bytes, and an unsigned long has 8: make it with that size"},
        {"bad-alt", "alt: entry 1 has the operation 17"},
        {"bad-unlock", "qunlock: nobody has the lock 0x"},
        {"bad-rsleep", "rsleep: the caller has not locked the lock 0x"},
        {"bad-io", "it does one at a time"},
        {"bad-stack", "has used up its stack"},
    };
    for (size_t i = 0; i < nelem(all); i++) {
        char *status = runs(all[i].what);
        if (strncmp(status, "signal ", 7) != 0 || strstr(said, all[i].text) == nil)
            wrong(__FILE__, __LINE__, smprint("%s: %s: %s", all[i].what, status, said), 0, 1);
    }
}

/* ---- notes ---- */

static Channel *notes;

static int notices(void *context, char *note)
{
    CHECK(context != nil);
    if (strcmp(note, "sys: usr1") != 0)
        return 0;
    nbsendul(notes, 1);
    return 1;
}

static void notes_come_to_their_handlers(void)
{
    notes = chancreate(sizeof(ulong), 1);
    IS(threadnotify(notices, 1), 1);
    OK(kill(getpid(), SIGUSR1));
    IS(recvul(notes), 1);
    IS(threadnotify(notices, 0), 1);
    IS(threadnotify(notices, 0), 0);
    chanfree(notes);
}

/* ---- the rest ---- */

static void from_a_pthread_too(void)
{
    c = chancreate(sizeof(ulong), 0);
    IS(threadid() > 0, 1);
}

static void *sends_from_outside(void *v)
{
    IS(threadid(), 0);
    for (ulong i = 1; i <= 10; i++)
        IS(sendul(v, i), 1);
    return nil;
}

static void a_pthread_uses_channels(void)
{
    from_a_pthread_too();
    pthread_t other = thread(sends_from_outside, c);
    for (ulong i = 1; i <= 10; i++)
        IS(recvul(c), i);
    joined(other);
    chanfree(c);
}

#define PRINTS(wanted, ...)                                                                                                           \
    do {                                                                                                                              \
        char text_[200];                                                                                                              \
        IS(snprint(text_, sizeof text_, __VA_ARGS__), strlen(wanted));                                                                \
        if (strcmp(text_, wanted) != 0)                                                                                               \
            wrong(__FILE__, __LINE__, text_, 0, 1);                                                                                   \
    } while (0)

static void print_has_plan_9s_verbs(void)
{
    char small[5], *end;
    PRINTS("-3 4294967293 18446744073709551615 7", "%d %ud %lud %lld", -3, -3, ~0ul, 7ll);
    PRINTS("ff 0xff ff 0377 101", "%x %#x %ux %#o %b", 255, 255, 255, 255, 5);
    PRINTS("FF 00042|   42|42   |+42", "%X %.5d|%5d|%-5d|%+d", 255, 42, 42, 42, 42);
    PRINTS("1,234,567 00012 -0012 7", "%,d %05d %05d %hhd", 1234567, 12, -12, 0x107);
    PRINTS("a|  a|ab |<nil>|ab", "%s|%3s|%-3s|%s|%.2s", "a", "a", "ab", (char *)nil, "abc");
    PRINTS("x|y|\xc3\xa9", "%c|%C|%C", 'x', 'y', 0xe9);
    PRINTS("1.5 1.50 1.5e+00 100%", "%g %.2f %.1e 100%%", 1.5, 1.5, 1.5);
    PRINTS("plain '' 'it''s so'", "%q %q %q", "plain", "", "it's so");
    PRINTS("  12 %z", "%*d %z", 4, 12);
    werrstr("no %s today", "bread");
    PRINTS("err: no bread today", "err: %r");
    errno = ENOENT;
    PRINTS("No such file or directory", "%r");
    end = seprint(small, small + sizeof small, "%s", "abcdefg");
    CHECK(end == small + 4 && strcmp(small, "abcd") == 0);
    IS(sprint(said, "%p", (void *)0x1f), 4);
    CHECK(strcmp(said, "0x1f") == 0);
    rerrstr(said, sizeof said);
    CHECK(strcmp(said, "No such file or directory") == 0);
    CHECK(nrand(3) < 3 && nsec() > 1);
}

static void left_behind(void *v)
{
    threadsetname("left behind");
    recvul(v);
}

static void a_little_later(void *v)
{
    usleep(1000);
    fprint(2, "went on\n");
    (void)v;
}

static void in_another_call(void *v)
{
    iosleep(v, 100000);
}

static long too_deep(long depth)
{
    volatile char some[1000];
    some[depth % 1000] = 1;
    return depth == 0 ? 0 : too_deep(depth - 1) + some[depth % 1000];
}

static void uses_up_its_stack(void *v)
{
    n = (int)too_deep(1000);
    (void)v;
}

static void as_another(char *what)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    c = chancreate(sizeof(ulong), 0);
    if (strcmp(what, "returns") == 0)
        return;
    if (strcmp(what, "exits") == 0)
        threadexits("");
    if (strcmp(what, "exits-badly") == 0)
        threadexits("badly");
    if (strcmp(what, "others-go-on") == 0) {
        proccreate(a_little_later, nil, 0);
        threadexits("badly");
    }
    if (strcmp(what, "all") == 0 || strcmp(what, "all-badly") == 0) {
        proccreate(left_behind, c, 0);
        threadexitsall(what[3] ? "badly" : nil);
    }
    if (strcmp(what, "fatal") == 0) {
        werrstr("no such thing: %d", 7);
        sysfatal("%r");
    }
    if (strcmp(what, "interrupted") == 0) {
        kill(getpid(), SIGINT);
        for (;;)
            yield();
    }
    if (strcmp(what, "deadlock") == 0) {
        threadcreate(left_behind, c, 0);
        recvul(chancreate(sizeof(ulong), 0));
    }
    if (strcmp(what, "bad-chancreate") == 0)
        chancreate(-1, 3);
    if (strcmp(what, "bad-nil") == 0)
        send(nil, nil);
    if (strcmp(what, "bad-freed") == 0) {
        Channel own;
        chaninit(&own, 4, 1);
        chanfree(&own);
        recv(&own, nil);
    }
    if (strcmp(what, "bad-size") == 0)
        sendul(chancreate(4, 1), 1);
    if (strcmp(what, "bad-alt") == 0)
        alt((Alt[]){{.op = CHANNOP}, {.op = 17}});
    if (strcmp(what, "bad-unlock") == 0)
        qunlock(&ql);
    if (strcmp(what, "bad-rsleep") == 0)
        rsleep(&rz);
    if (strcmp(what, "bad-io") == 0) {
        io = ioproc();
        waiting(in_another_call, io);
        iosleep(io, 1);
    }
    if (strcmp(what, "bad-stack") == 0) {
        threadcreate(uses_up_its_stack, nil, 0);
        yield();
    }
    exits("it went on");
}

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
    a_pthread_uses_channels();
    print_has_plan_9s_verbs();
    CHECK(large[sizeof large - 1] == 1);
    threadexits(nil);
}
