/*
 * Semaphores in Plan 9 (Mullender and Cox): its system calls semacquire and semrelease on plain words, and the Usem and Lock that the
 * paper builds on them.
 *
 * A semaphore is an aligned long of value 0 or more, in whatever memory its users share. It is its own name: nothing is made before
 * the first use, and nothing is left behind after the last. A death returns nothing, and a waiter may be overtaken: for permits that
 * come back, order and choice there is <chappe.h>.
 *
 * A long has 64 bits. The value is its low half, from 0 to 2147483647; the upper half is 0, and stays so. While a thread waits at a
 * Usem, its u is negative in the low half alone.
 *
 * The names are the paper's, and common ones. Only programs that include this file have them: they are inline functions here, and the
 * library exports them as chappe_semacquire and so on.
 *
 * Errors: errno says which, and chappe_last_error() of <chappe.h> in words.
 *
 *     EINTR      a signal was handled while the call waited, whatever SA_RESTART says (semacquire alone: the others go on waiting)
 *     EFAULT     NULL, or a crooked address
 *     EINVAL     the word holds no value of a semaphore (it is negative, or its upper half is not 0), or the count is negative
 *     EOVERFLOW  the value would exceed 2147483647; nothing was released
 *     EPERM      unlock of a lock that nobody holds; nothing was changed
 */
#ifndef CHAPPE_PLAN9_H
#define CHAPPE_PLAN9_H

#ifdef __cplusplus
extern "C" {
#endif

/** A semaphore that enters the kernel only to wait and to wake. All zeros: one of value 0. */
typedef struct Usem {
    /** The value; below 0: how many wait. */
    long u;
    /** How many of the waiters may go. */
    long k;
} Usem;

/** A lock that enters the kernel only to wait and to wake. All zeros: unlocked. A death while it is held returns nothing. */
typedef struct Lock {
    /** How many hold it or want it. */
    long key;
    /** 1: the thread that takes it from here holds the lock. */
    long sem;
} Lock;

int chappe_semacquire(long *addr, int block);
long chappe_semrelease(long *addr, long count);
int chappe_usemacquire(Usem *s);
int chappe_usemrelease(Usem *s);
int chappe_lock(Lock *l);
int chappe_canlock(Lock *l);
int chappe_unlock(Lock *l);

/**
 * Waits until the word is positive, and takes 1 from it: 1. If there is nothing to take and block is 0: 0, without entering the
 * kernel. -1 on error; a handled signal ends the wait (EINTR). The kernel wakes sleepers in the order of their sleep; before they run,
 * anybody may overtake them.
 */
static inline int semacquire(long *addr, int block)
{
    return chappe_semacquire(addr, block);
}

/**
 * Adds count to the word, and wakes as many of its waiters: the new value. -1 on error. Never waits, and makes one system call; a signal
 * handler may call it.
 */
static inline long semrelease(long *addr, long count)
{
    return chappe_semrelease(addr, count);
}

/** Takes 1, waiting until it is there; no signal ends the wait. The paper's is void: 0, or -1 on error, and then nothing was taken. */
static inline int usemacquire(Usem *s)
{
    return chappe_usemacquire(s);
}

/** Gives 1, and wakes a waiter. Never waits; a signal handler may call it. The paper's is void: 0, or -1 on error. */
static inline int usemrelease(Usem *s)
{
    return chappe_usemrelease(s);
}

/** Locks, waiting until nobody else has it; no signal ends the wait. The paper's is void: 0, or -1 on error, and it is not locked. */
static inline int lock(Lock *l)
{
    return chappe_lock(l);
}

/** Locks if nobody has it: 1; else, and on error, 0. Never enters the kernel. */
static inline int canlock(Lock *l)
{
    return chappe_canlock(l);
}

/** Unlocks, and lets in one of the waiters. Never waits. The paper's is void: 0, or -1 on error. */
static inline int unlock(Lock *l)
{
    return chappe_unlock(l);
}

#ifdef __cplusplus
}
#endif

#endif
