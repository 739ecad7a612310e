/*
 * The rest of libthread.c, and one program with it: locks, ioprocs, other programs, notes, print. What ends the program runs in one of its own, begun
 * with threadspawn.
 */
#ifndef LIBTHREAD_REST_H
#define LIBTHREAD_REST_H

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
    /* Interrupted: by iointerrupt; by an interrupt of the waiter. */
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
    char *elsewhere[] = {"sh", "-c", "test \"$(pwd -P)\" = / && exit 7", nil};
    int there[3] = {dup(0, -1), dup(1, -1), dup(2, -1)}, pid = threadspawnd(there, "sh", elsewhere, "/");
    assert(pid > 0);
    Waitmsg *w = recvp(wait);
    IS(w->pid, pid);
    IS(atoi(w->msg), 7);
    free(w);
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
    CHECK(strcmp(runs("deadlock-of-procs"), "2") == 0);
    CHECK(strcmp(runs("waits-for-a-pthread"), "") == 0);
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

static void handles(void *context, char *note)
{
    CHECK(context != nil);
    if (strcmp(note, "sys: usr2") == 0)
        return;
    if (strcmp(note, "sys: usr1") != 0)
        noted(NDFLT);
    nbsendul(notes, 2);
    noted(NCONT);
}

static void one_handler_ends_with_noted(void)
{
    notes = chancreate(sizeof(ulong), 2);
    IS(notify(handles), 0);
    IS(notify(handles), 0);
    for (int i = 0; i < 3; i++) {
        OK(kill(getpid(), SIGUSR1));
        IS(recvul(notes), 2);
        IS(nbrecv(notes, nil), 0);
    }
    IS(notify(nil), 0);
    IS(atnotify(notices, 1), 1);
    OK(kill(getpid(), SIGUSR1));
    IS(recvul(notes), 1);
    IS(atnotify(notices, 0), 1);
    chanfree(notes);
    CHECK(strcmp(runs("note-interrupt"), "signal 2") == 0);
    CHECK(strcmp(runs("note-usr2"), "signal 12") == 0);
    CHECK(strcmp(runs("note-usr1"), "") == 0);
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

static void *sends_late(void *v)
{
    usleep(300000);
    IS(sendul(v, 7), 1);
    return nil;
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
        signal(SIGINT, SIG_DFL);
        kill(getpid(), SIGINT);
        for (;;)
            yield();
    }
    if (strcmp(what, "deadlock") == 0) {
        threadcreate(left_behind, c, 0);
        recvul(chancreate(sizeof(ulong), 0));
    }
    if (strcmp(what, "deadlock-of-procs") == 0) {
        proccreate(left_behind, c, 0);
        recvul(chancreate(sizeof(ulong), 0));
    }
    if (strcmp(what, "waits-for-a-pthread") == 0) {
        pthread_t other = thread(sends_late, c);
        IS(recvul(c), 7);
        joined(other);
        exits(nil);
    }
    if (strncmp(what, "note-", 5) == 0) {
        notes = chancreate(sizeof(ulong), 1);
        notify(handles);
        kill(getpid(), what[5] == 'i' ? SIGINT : what[8] == '1' ? SIGUSR1 : SIGUSR2);
        exits(recvul(notes) == 2 ? nil : "another");
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

#endif
