/*
 * Plan 9's thread library: procs, their threads, and channels, as thread(2), ioproc(2) and lock(2) have them.
 *
 * A program has threadmain in the place of main, which is here. It begins in a proc of its own. A proc is a kernel thread that runs one or more
 * threads, one at a time and in turn: a thread runs until it waits, yields or ends. Threads of one proc so need no locks among
 * themselves; those of different procs run at the same time.
 *
 * A thread costs a page of memory and less than a microsecond to begin; thousands are ordinary. Stacks of up to 112 KiB, however small a size was asked
 * for, come from a pool, and take the memory that they touch; a larger one comes from the kernel. One that is used up ends the program, which names the thread.
 *
 * The calls that let the other threads of the proc run are yield, proccreate, procexec, threadspawn, threadexits, alt, send, recv and their kin,
 * iocall and its kin, and, if they wait, qlock, rlock, wlock and rsleep. A system call blocks its proc: ioproc is for those.
 *
 * Errors: none of these functions returns on failure; the program is aborted, with a text on its error output that names the object and says what to do.
 * When all threads of a program of one proc wait for each other, it ends with exit status 2 and a line about each.
 *
 * What differs from Plan 9, since Linux does: a proc is a kernel thread of the one process, not a process (threadpid tells its number, as gettid(2) does),
 * and the process ends when its last proc has, or at threadexitsall. The exit status is 0 for NULL or "", else 1. The kernel thread of a
 * proc that has ended is kept for the next. SIGURG ends the system calls of threads that are interrupted. A note comes to whichever proc the kernel
 * chooses. In a forked child there are no threads: call exec there.
 *
 * The names are Plan 9's, and common ones (send, recv, alt, yield): macros, for the program that includes this file. A library, whose program
 * has the main, defines CHAPPE_THREAD_NO_MAIN before.
 *
 * Paper: plan9-semaphores, section 4.
 */
#ifndef CHAPPE_THREAD_H
#define CHAPPE_THREAD_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
/* Its send and recv are other ones, and are to be declared before the macros. */
#include <sched.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The operations of an Alt. CHANEND and CHANNOBLK end the array: with the second, alt does not wait. */
enum {
    CHANEND,
    CHANSND,
    CHANRCV,
    CHANNOP,
    CHANNOBLK
};

/** A queue of messages of fixed size, between threads of this process. */
typedef struct Channel {
    /** How many it has room for; 0: a sender waits for a receiver. */
    int s;
    /** The size of a message in bytes. */
    int e;
    /* The rest is the library's. */
    unsigned int magic;
    int closed;
    char *name;
    void *tube;
    unsigned long users;
    int ours;
} Channel;

/** One of the operations among which alt chooses. */
typedef struct Alt {
    /** The channel. */
    Channel *c;
    /** Where the message is, or is to go. NULL: zeros are sent; what is received is discarded. */
    void *v;
    /** CHANSND, CHANRCV, CHANNOP; or, at the end, CHANEND or CHANNOBLK. */
    int op;
    /** What was chosen came to nothing, since the channel was closed: this says so. Else NULL. */
    const char *err;
    /* The library's. */
    void *tag;
    int entryno;
} Alt;

/** A lock whose waiters are served first come first. All zeros: unlocked. */
typedef struct QLock {
    int word;
    int locked;
    void *head;
    void *tail;
} QLock;

/** A lock for many readers or one writer; readers that come while a writer waits come after it. All zeros: unlocked. */
typedef struct RWLock {
    int word;
    int writer;
    int readers;
    void *head;
    void *tail;
} RWLock;

/** Where threads sleep until a condition may hold, which is looked at under the lock l. */
typedef struct Rendez {
    QLock *l;
    void *head;
    void *tail;
} Rendez;

/** A count of references. */
typedef struct Ref {
    long ref;
} Ref;

/** A proc that does system calls for others. */
typedef struct Ioproc Ioproc;

/** What a program came to that procexec or threadspawn has begun. One block of malloc's: free frees it all. */
typedef struct Waitmsg {
    /** Its process. */
    int pid;
    /** Milliseconds: of the user, of the system, from its beginning to its end. */
    unsigned long time[3];
    /** "": it was successful; else its exit status, or "signal N". */
    char *msg;
} Waitmsg;

/** The program's: where it begins. */
void threadmain(int argc, char *argv[]);

/** The program's, if it has one: the size of threadmain's stack. */
extern int mainstacksize;
#pragma weak mainstacksize

/** What main does: runs it in the first proc, and answers the program's exit status when all procs have ended. */
int chappe_thread_main(int argc, char **argv, void (*threadmain)(int, char **), const int *stacksize);

/** Begins a thread in the calling proc, and answers its id, which is no other's as long as the program runs. It has its maker's group. */
int chappe_threadcreate(void (*fn)(void *), void *arg, unsigned int stacksize);

/** Begins a proc, and in it a thread: its id. The caller may go on before or after it runs. */
int chappe_proccreate(void (*fn)(void *), void *arg, unsigned int stacksize);

/** Ends the calling thread; if it is the first proc's last, this is the program's status. Nothing of its stack is unwound. */
void chappe_threadexits(const char *status) __attribute__((noreturn));

/** Ends the program, with all its procs. */
void chappe_threadexitsall(const char *status) __attribute__((noreturn));

/** Lets the other threads of the proc that are ready go first. */
void chappe_yield(void);

/** The calling thread's id; 0: it is none of this library's. */
int chappe_threadid(void);

/** The calling thread's group; 0 at first. */
int chappe_threadgetgrp(void);

/** Sets it: what it was. */
int chappe_threadsetgrp(int group);

/** The kernel thread of that thread's proc; -1: there is no such thread. */
int chappe_threadpid(int id);

/**
 * Interrupts a thread that is blocked in a channel operation, in iocall and its kin, in a wait of chappe.h (which answers -EINTR), or in a system call: the
 * operation answers -1. One that is not blocked goes on (a wait of chappe.h may still find it, if no operation of this library comes before). Not in qlock and
 * its kin, as in Plan 9. 0; -1: there is no such thread.
 */
int chappe_threadint(int id);

/** The same to all of a group: how many there are. */
int chappe_threadintgrp(int group);

/** A thread is to die when it next relinquishes its proc; if it is blocked, it is interrupted. 0; -1: there is no such thread. */
int chappe_threadkill(int id);

/** The same to all of a group: how many there are. */
int chappe_threadkillgrp(int group);

/** Names the calling thread; threadsetname formats the name. `chappe threads PID` and reports show it. */
void chappe_threadsetname(const char *name);

/** The calling thread's name, until it is named again; NULL: it has none. */
const char *chappe_threadgetname(void);

/** A text for debuggers; threadsetstate formats it. */
void chappe_threadsetstate(const char *state);

/** A pointer of the calling thread's own. */
void **chappe_threaddata(void);

/** A pointer of the calling proc's own. */
void **chappe_procdata(void);

/** Makes a channel for messages of so many bytes, with a buffer for so many; 0: a sender waits for a receiver. */
Channel *chappe_chancreate(int elsize, int nel);

/** The same in the caller's memory, which stays the caller's: 1. */
int chappe_chaninit(Channel *c, int elsize, int nel);

/** Frees a channel that is used no longer. If threads are blocked there, the last of them does. */
void chappe_chanfree(Channel *c);

/** Names a channel for debuggers; chansetname formats the name. */
void chappe_chansetname(Channel *c, const char *name);

/** Nothing is sent any more: senders get -1, and receivers, when what is there was received. 0; -1: it was closed before. */
int chappe_chanclose(Channel *c);

/** How many messages are left in a closed channel; -1: it is not closed. */
int chappe_chanclosing(Channel *c);

/**
 * Does one of several operations. Of those that can be done each is as likely. If none can, it waits, or, with CHANNOBLK at the end, answers that
 * entry's number. The number of the entry; -1 if it was interrupted, or all channels are closed and were told so.
 */
int chappe_alt(Alt *alts);

/** Sends what lies at v (NULL: zeros), waiting for room: 1; -1 if it was interrupted, or the channel is closed. */
int chappe_chansend(Channel *c, const void *v);

/** Receives to v (NULL: it is discarded), waiting for a message: 1; -1 if it was interrupted, or the channel is closed. */
int chappe_chanrecv(Channel *c, void *v);

/** As send; 0 instead of waiting. */
int chappe_channbsend(Channel *c, const void *v);

/** As recv; 0 instead of waiting. */
int chappe_channbrecv(Channel *c, void *v);

/** Sends a pointer, through a channel of those. */
int chappe_sendp(Channel *c, void *v);

/** Receives one; NULL, too, if it was interrupted. */
void *chappe_recvp(Channel *c);

/** As sendp; 0 instead of waiting. */
int chappe_nbsendp(Channel *c, void *v);

/** As recvp; NULL instead of waiting. */
void *chappe_nbrecvp(Channel *c);

/** Sends an unsigned long, through a channel of those. */
int chappe_sendul(Channel *c, unsigned long v);

/** Receives one; 0, too, if it was interrupted. */
unsigned long chappe_recvul(Channel *c);

/** As sendul; 0 instead of waiting. */
int chappe_nbsendul(Channel *c, unsigned long v);

/** As recvul; 0 instead of waiting. */
unsigned long chappe_nbrecvul(Channel *c);

/**
 * Replaces the calling thread by a program: it ends. If the program cannot be begun it returns, with errno. The process's number, or -1, is sent to cpid (a
 * channel of unsigned longs), unless that is NULL; after that the arguments are not looked at. A name without / is looked for in PATH. The other threads of
 * the proc go on.
 */
void chappe_procexec(Channel *cpid, const char *file, char *const args[]);

/** As procexec; fd are its first three descriptors, which are closed here. plan9port's. -1, if it returns. */
int chappe_threadexec(Channel *cpid, int fd[3], const char *file, char *const args[]);

/** Begins a program, and goes on: its process, or -1 and errno. plan9port's. */
int chappe_threadspawn(int fd[3], const char *file, char *const args[]);

/** The same in that directory; NULL: in the caller's. plan9port's. */
int chappe_threadspawnd(int fd[3], const char *file, char *const args[], const char *dir);

/** The channel to which a Waitmsg * goes for each of these programs that ends. */
Channel *chappe_threadwaitchan(void);

/**
 * Adds (in is 1), or takes out (0), a handler of notes: signals by Plan 9's names ("interrupt", "hangup", "alarm", "sys: usr1", ...). f
 * answers 0 for a note that it does not handle; a note that no handler handles ends the program. f may use nbsend, nbsendp and nbsendul,
 * on channels with a buffer and elements of 32 bytes at most. Answers 1; 0: there are 32 already, or none such.
 */
int chappe_threadnotify(int (*f)(void *, char *), int in);

/** Waits until nobody else has the lock. No interrupt ends that. */
void chappe_qlock(QLock *l);

/** Unlocks; hands the lock to the first waiter. */
void chappe_qunlock(QLock *l);

/** Takes it if nobody has it: 1; else 0. */
int chappe_canqlock(QLock *l);

/** Waits until no writer has it, or waited before. */
void chappe_rlock(RWLock *l);

/** A reader leaves. */
void chappe_runlock(RWLock *l);

/** As rlock, without waiting: 1 or 0. */
int chappe_canrlock(RWLock *l);

/** Waits until nobody else has it. */
void chappe_wlock(RWLock *l);

/** The writer leaves. */
void chappe_wunlock(RWLock *l);

/** As wlock, without waiting: 1 or 0. */
int chappe_canwlock(RWLock *l);

/** Gives r->l, which the caller has, and waits for a wake-up and for the lock. */
void chappe_rsleep(Rendez *r);

/** Wakes the first that sleeps there; the caller has r->l. How many: 0 or 1. */
int chappe_rwakeup(Rendez *r);

/** Wakes all: how many. */
int chappe_rwakeupall(Rendez *r);

/** One reference more. */
void chappe_incref(Ref *r);

/** One less: what is left. */
long chappe_decref(Ref *r);

/**
 * What all threads have done so far: operations on channels, of which each takes the lock of its channel (an alt counts once for each of its channels), and how
 * many of them had to wait for another thread. Of threads that run in other procs, a count just past.
 */
void chappe_threadcounts(unsigned long *calls, unsigned long *waits);

/** Begins a proc that does system calls, so that the others of the caller's proc go on meanwhile. It does one at a time. */
Ioproc *chappe_ioproc(void);

/** Ends it. */
void chappe_closeioproc(Ioproc *io);

/**
 * Ends the call that it is in, if it is in one: that answers -1, and errno is EINTR. An operation of iocall that goes on after EINTR is left alone after
 * two seconds.
 */
void chappe_iointerrupt(Ioproc *io);

/** Has it call op(arg): what that answers; errno as it left it. iocall hands over arguments. An interrupt of the caller ends the call. */
long chappe_iocall(Ioproc *io, long (*op)(void *), void *arg);

/** open(2) there. */
int chappe_ioopen(Ioproc *io, const char *file, int mode);

/** close(2) there. */
int chappe_ioclose(Ioproc *io, int fd);

/** read(2) there. */
long chappe_ioread(Ioproc *io, int fd, void *a, long n);

/** The same until n bytes are there, or the end. */
long chappe_ioreadn(Ioproc *io, int fd, void *a, long n);

/** write(2) there. */
long chappe_iowrite(Ioproc *io, int fd, const void *a, long n);

/** Sleeps so many milliseconds there: 0; -1 if it was interrupted. */
int chappe_iosleep(Ioproc *io, long ms);

/* What an argument of a format may be; see libc9.h. */
typedef union chappe_argument {
    long long number;
    double real;
    const void *pointer;
} chappe_argument;

struct chappe_list {
    va_list ap;
};

static inline void chappe_fetch(void *from, int kind, chappe_argument *to)
{
    struct chappe_list *list = (struct chappe_list *)from;
    switch (kind) {
    case 'i':
        to->number = va_arg(list->ap, int);
        break;
    case 'l':
        to->number = va_arg(list->ap, long);
        break;
    case 'v':
        to->number = va_arg(list->ap, long long);
        break;
    case 'd':
        to->real = va_arg(list->ap, double);
        break;
    default:
        to->pointer = va_arg(list->ap, const void *);
    }
}

/** What print(2) of Plan 9 makes of a format: in memory of malloc's. The verbs are d o x X b e E f g G c C s q p r and %. */
char *chappe_vsmprint(const char *format, void (*fetch)(void *, int, chappe_argument *), void *list);

static inline char *chappe_made(const char *format, va_list ap)
{
    struct chappe_list list;
    char *text;
    va_copy(list.ap, ap);
    text = chappe_vsmprint(format, chappe_fetch, &list);
    va_end(list.ap);
    return text;
}

#define CHAPPE_MAKES(text, format)                                                                                                    \
    do {                                                                                                                              \
        va_list chappe_ap;                                                                                                            \
        va_start(chappe_ap, format);                                                                                                  \
        (text) = chappe_made(format, chappe_ap);                                                                                      \
        va_end(chappe_ap);                                                                                                            \
    } while (0)

static inline void threadsetname(const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    chappe_threadsetname(text);
    free(text);
}

static inline void threadsetstate(const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    chappe_threadsetstate(text);
    free(text);
}

static inline void chansetname(Channel *c, const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    chappe_chansetname(c, text);
    free(text);
}

/** Formats a text and sends it, a char * of malloc's, through a channel of pointers: as sendp answers. */
static inline int chanprint(Channel *c, const char *format, ...)
{
    char *text;
    int sent;
    CHAPPE_MAKES(text, format);
    sent = chappe_sendp(c, text);
    if (sent != 1)
        free(text);
    return sent;
}

struct chappe_operation {
    long (*op)(va_list *);
    struct chappe_list list;
};

static inline long chappe_operate(void *what)
{
    struct chappe_operation *it = (struct chappe_operation *)what;
    return it->op(&it->list.ap);
}

/** Has op called in io's proc, with the arguments that follow. */
static inline long iocall(Ioproc *io, long (*op)(va_list *), ...)
{
    struct chappe_operation it;
    long answer;
    it.op = op;
    va_start(it.list.ap, op);
    answer = chappe_iocall(io, chappe_operate, &it);
    va_end(it.list.ap);
    return answer;
}

/* How many arguments procexecl and threadexecl take. */
#define CHAPPE_ARGUMENTS 64

static inline void chappe_arguments(char **args, const char *first, va_list ap)
{
    int at = 0;
    args[at++] = (char *)(size_t)first;
    while (first != NULL && (args[at] = va_arg(ap, char *)) != NULL)
        if (++at >= CHAPPE_ARGUMENTS) {
            fprintf(stderr, "chappe: procexecl: more than %d arguments: use procexec\n", CHAPPE_ARGUMENTS);
            abort();
        }
}

/** As procexec, with the arguments one by one, from the program's name on; NULL ends them. */
static inline void procexecl(Channel *cpid, const char *file, const char *first, ...)
{
    char *args[CHAPPE_ARGUMENTS + 1];
    va_list ap;
    va_start(ap, first);
    chappe_arguments(args, first, ap);
    va_end(ap);
    chappe_procexec(cpid, file, args);
}

/** As threadexec, in the same way. */
static inline int threadexecl(Channel *cpid, int fd[3], const char *file, const char *first, ...)
{
    char *args[CHAPPE_ARGUMENTS + 1];
    va_list ap;
    va_start(ap, first);
    chappe_arguments(args, first, ap);
    va_end(ap);
    return chappe_threadexec(cpid, fd, file, args);
}

/** As threadspawn, in the same way. */
static inline int threadspawnl(int fd[3], const char *file, const char *first, ...)
{
    char *args[CHAPPE_ARGUMENTS + 1];
    va_list ap;
    va_start(ap, first);
    chappe_arguments(args, first, ap);
    va_end(ap);
    return chappe_threadspawn(fd, file, args);
}

#define threadcreate chappe_threadcreate
#define proccreate chappe_proccreate
#define procrfork(fn, arg, stacksize, flags) ((void)(flags), chappe_proccreate(fn, arg, stacksize))
#define threadexits chappe_threadexits
#define threadexitsall chappe_threadexitsall
#define yield chappe_yield
#define threadid chappe_threadid
#define threadgrp chappe_threadgetgrp
#define threadgetgrp chappe_threadgetgrp
#define threadsetgrp chappe_threadsetgrp
#define threadpid chappe_threadpid
#define threadint chappe_threadint
#define threadintgrp chappe_threadintgrp
#define threadkill chappe_threadkill
#define threadkillgrp chappe_threadkillgrp
#define threadgetname() ((char *)(size_t)chappe_threadgetname())
#define threaddata chappe_threaddata
#define procdata chappe_procdata
#define chancreate chappe_chancreate
#define chaninit chappe_chaninit
#define chanfree chappe_chanfree
#define chanclose chappe_chanclose
#define chanclosing chappe_chanclosing
#define alt chappe_alt
#define send chappe_chansend
#define recv chappe_chanrecv
#define nbsend chappe_channbsend
#define nbrecv chappe_channbrecv
#define sendp chappe_sendp
#define recvp chappe_recvp
#define nbsendp chappe_nbsendp
#define nbrecvp chappe_nbrecvp
#define sendul chappe_sendul
#define recvul chappe_recvul
#define nbsendul chappe_nbsendul
#define nbrecvul chappe_nbrecvul
#define procexec chappe_procexec
#define threadexec chappe_threadexec
#define threadspawn chappe_threadspawn
#define threadspawnd chappe_threadspawnd
#define threadwaitchan chappe_threadwaitchan
#define threadnotify chappe_threadnotify
#define qlock chappe_qlock
#define qunlock chappe_qunlock
#define canqlock chappe_canqlock
#define rlock chappe_rlock
#define runlock chappe_runlock
#define canrlock chappe_canrlock
#define wlock chappe_wlock
#define wunlock chappe_wunlock
#define canwlock chappe_canwlock
#define rsleep chappe_rsleep
#define rwakeup chappe_rwakeup
#define rwakeupall chappe_rwakeupall
#define incref chappe_incref
#define decref chappe_decref
#define ioproc chappe_ioproc
#define closeioproc chappe_closeioproc
#define iointerrupt chappe_iointerrupt
#define ioopen chappe_ioopen
#define ioclose chappe_ioclose
#define ioread chappe_ioread
#define ioreadn chappe_ioreadn
#define iowrite chappe_iowrite
#define iosleep chappe_iosleep

#ifdef __cplusplus
}
#endif

#endif

#if !defined(CHAPPE_THREAD_NO_MAIN) && !defined(CHAPPE_THREAD_PARTS) && !defined(CHAPPE_THREAD_MAIN)
#define CHAPPE_THREAD_MAIN
/* In whichever file of the program: one of them is taken. */
__attribute__((weak)) int main(int argc, char **argv)
{
    return chappe_thread_main(argc, argv, threadmain, &mainstacksize);
}
#endif
