/*
 * The interface of "Optimistic Semaphores with Non-deterministic Choice Operation for Heterogeneous Manycore Systems"
 * (Soriano-Salvador, Guardiola, Ballesteros), sections 2.1 and 3, to the letter, with what its text promises: strong
 * semantics (first come, first served), and exact choice (one wakeup is consumed, or one message moved, and no more).
 *
 * A Sem may lie in memory of one process; in memory mapped MAP_SHARED before a fork, or by processes that have nothing else in
 * common; or in an arena's. In private memory, a forked child has a copy, as of all of it. What is here never waits for a process
 * that was killed; a wakeup has no owner, so a death returns nothing. Threads and forked processes may mix.
 *
 * A semaphore in shared memory lives as long as a process has to do with it: the one that initialised it, those that it forked, and
 * those that have used it since. Memory that outlives them all (a file) is to be initialised anew. A Sem in private memory is not to be
 * moved or copied.
 *
 * Errors. The paper has none; here errno says which, and is as it was if nothing went wrong; chappe_last_error() of <chappe.h> says it in words:
 *
 *     EFAULT     NULL, or a crooked address; initsem: no memory there
 *     EINVAL     never initialised, freed, moved or written over; a negative count; nothing to choose among; sizes that cannot be
 *     EAGAIN     downsem, nbtsend, nbtrecv, talt: it would have to wait
 *     EIDRM      dead: it, or its arena, was removed, or all its users have gone; its waiters get this error
 *     EOVERFLOW  upsem: more saved wakeups than SEM_MOST; nothing was added
 *     EXDEV      altsems: semaphores of processes that neither forked the other
 *     ENOSPC     no room: 4,096 semaphores and tubes, and 4 MiB of tubes' messages, for a process and all that it forks; 65,536 semaphores
 *                in memory of one process
 *     EUSERS     no room for another thread that waits: 2,048 of all processes together
 *     ENOMEM     initsem: no address space for the semaphores in memory of one process
 *     EIO        a fault within the library
 *
 * or the system's. Once a thread's locals are gone (in atexit handlers) it can wait for nothing, and not send or receive (EIO); freesem and
 * freetube still do what they say. Threads may be cancelled (pthread_cancel) anywhere but in these functions: they are not to be torn apart.
 *
 * The names are the paper's, and short. Only programs that include this file have them: they are inline functions here, and the library
 * exports them as chappe_nix_initsem and so on.
 */
#ifndef CHAPPE_NIX_H
#define CHAPPE_NIX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The most saved wakeups. */
#define SEM_MOST 0x7fffffff

/** Where a semaphore is: 32 bytes, aligned to 8. Only the functions below look into it. */
typedef struct Sem {
    /** Sealed. */
    uint64_t chappe[4];
} Sem;

/** A tube, of this process. */
typedef struct Tube Tube;

/** What a talt does at a tube: waits to send, waits to receive, or does so only if it need not wait. */
enum {
    TSEND,
    TRECV,
    TNBSEND,
    TNBRECV
};

/** One of the operations that a talt chooses among. */
typedef struct Talt {
    /** The tube. */
    Tube *t;
    /** The message to send, or where to put the one that is received. */
    void *m;
    /** TSEND, TRECV, TNBSEND or TNBRECV. */
    int op;
} Talt;

void chappe_nix_initsem(Sem *s, int val);
int chappe_nix_downsem(Sem *s, int block);
void chappe_nix_upsem(Sem *s);
int chappe_nix_altsems(Sem **ss, int n);
void chappe_nix_freesem(Sem *s);
Tube *chappe_nix_newtube(unsigned long msz, unsigned long n);
void chappe_nix_freetube(Tube *t);
int chappe_nix_tsend(Tube *t, const void *m, int block);
int chappe_nix_trecv(Tube *t, void *m, int block);
int chappe_nix_talt(Talt *a, int n);
void chappe_nix_family(void);

/**
 * Initialises a semaphore with val saved wakeups. Once, before anybody else uses it; if this process has initialised one at this
 * address before, that one is freed.
 */
static inline void initsem(Sem *s, int val)
{
    chappe_nix_initsem(s, val);
}

/**
 * Consumes a saved wakeup: 1. If there is none: waits for one, in the order of arrival, or, if block is 0, answers 0 (EAGAIN), without
 * entering the kernel. 0 with another errno: nothing was consumed. A handled signal does not end the wait. Without waiting it is two
 * dozen instructions and no system call.
 */
static inline int downsem(Sem *s, int block)
{
    return chappe_nix_downsem(s, block);
}

/**
 * Hands a wakeup to the longest waiter, or saves it. Never waits. A signal handler may call it, of a semaphore that is not dead:
 * of one in private memory always (in a forked child once that has waited for one), of one in shared memory in threads that have
 * initialised or waited for one of the same family.
 */
static inline void upsem(Sem *s)
{
    chappe_nix_upsem(s);
}

/**
 * Consumes exactly one wakeup of any of n semaphores, and answers the index of the one it was in ss; waits for one if there is none.
 * Which, if several have one, is left to chance. The same semaphore may be there twice. -1: nothing was consumed.
 */
static inline int altsems(Sem *ss[], int n)
{
    return chappe_nix_altsems(ss, n);
}

/** Not in the paper: frees a semaphore; its waiters get EIDRM. A process's own go with it. */
static inline void freesem(Sem *s)
{
    chappe_nix_freesem(s);
}

/**
 * Makes a tube for messages of msz bytes, with a buffer for n of them, for this process and those that it forks from now on. NULL:
 * there is none (EINVAL, ENOSPC).
 */
static inline Tube *newtube(unsigned long msz, unsigned long n)
{
    return chappe_nix_newtube(msz, n);
}

/**
 * Destroys a tube: messages in it are lost, waiters get EIDRM. Each of the other processes frees its own Tube in this way.
 */
static inline void freetube(Tube *t)
{
    chappe_nix_freetube(t);
}

/**
 * Sends a message; waits while the buffer is full. Messages of one sender come in their order. A sender that is killed has sent a message
 * or not. If errno was 0 before and is not afterwards, nothing was sent.
 */
static inline void tsend(Tube *t, const void *m)
{
    (void)chappe_nix_tsend(t, m, 1);
}

/**
 * Receives a message; waits while the buffer is empty. A message whose receiver was killed at it comes once more. If errno was 0
 * before and is not afterwards, nothing was received.
 */
static inline void trecv(Tube *t, void *m)
{
    (void)chappe_nix_trecv(t, m, 1);
}

/** As tsend, if it need not wait: 0, or -1 (EAGAIN). */
static inline int nbtsend(Tube *t, const void *m)
{
    return chappe_nix_tsend(t, m, 0);
}

/** As trecv, if it need not wait: 0, or -1 (EAGAIN). */
static inline int nbtrecv(Tube *t, void *m)
{
    return chappe_nix_trecv(t, m, 0);
}

/**
 * Does exactly one of n operations, and answers its index in a. First those that do not wait are tried, once; if none of them can be
 * done, one of the others is, as soon as possible. -1: nothing was done (EAGAIN: there were no others).
 */
static inline int talt(Talt a[], int n)
{
    return chappe_nix_talt(a, n);
}

#ifdef __GNUC__
/* So that children that initialise semaphores in memory that they share can choose among them all: they have one arena. */
static void chappe_nix_family_at_start(void) __attribute__((constructor, unused));
static void chappe_nix_family_at_start(void)
{
    chappe_nix_family();
}
#endif

#ifdef __cplusplus
}
#endif

#endif
