/*
 * Barriers: threads and processes wait for each other, round by round.
 *
 * A barrier is made for a number of parties. Each round, all of them arrive; then all go on, and the next round begins. A
 * thread joins a named barrier when it first arrives there (or by chappe_barrier_join), and each round waits for it until
 * it leaves, ends or dies; one that waits by chappe_barrier_wait_once is a party of that round only. A party that dies
 * does not block the others, unless it was the only one there: they go on without it, and each is told once
 * (CHAPPE_PARTY_DIED). With CHAPPE_BREAKS_ON_DEATH its death breaks the barrier instead, if it waits; one that dies between
 * two rounds is not noticed. At such a barrier, and at a private one, any thread may come to any round.
 *
 * A broken barrier answers -ECANCELED to all that wait and all that come, until it is reset.
 *
 * What a party wrote before it arrived, all others see after the turn. An arrival makes no system call but that of its own
 * wait; the last one wakes each thread that sleeps, in no certain order.
 *
 * Generated from crates/ffi/src/barrier.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_BARRIER_H
#define CHAPPE_BARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The most parties.
 */
#define CHAPPE_BARRIER_MAX INT64_C(65535)

/**
 * A flag: a party that dies while it waits breaks the barrier.
 */
#define CHAPPE_BREAKS_ON_DEATH 1

/**
 * An answer: the round has turned, and parties died in it.
 */
#define CHAPPE_PARTY_DIED 1

/**
 * A handle of an arrival at a barrier.
 */
typedef struct chappe_arrival chappe_arrival;

/**
 * A handle of a barrier.
 */
typedef struct chappe_barrier chappe_barrier;

/**
 * A barrier, in single looks.
 */
typedef struct chappe_barrier_info {
    /**
     * How many rounds have turned.
     */
    uint64_t rounds;
    /**
     * For how many parties it was made.
     */
    uint32_t parties;
    /**
     * How many have arrived in the round under way.
     */
    uint32_t arrived;
    /**
     * How many have joined.
     */
    uint32_t joined;
    /**
     * How many died that had joined, and whose places nobody has taken yet.
     */
    uint32_t dead;
    /**
     * 1: it is broken.
     */
    int32_t is_broken;
    /**
     * 1: a death breaks it.
     */
    int32_t breaks_on_death;
    /**
     * 0.
     */
    uint64_t reserved[2];
} chappe_barrier_info;

/**
 * A turn of a barrier, as one of its parties sees it.
 */
typedef struct chappe_turn {
    /**
     * Which round has turned, counted from 0.
     */
    uint64_t round;
    /**
     * 0 for exactly one party of the round: usually the one that arrived last.
     */
    uint32_t index;
    /**
     * How many parties died in it; 255: so many or more.
     */
    uint32_t died;
    /**
     * The process of the one that died last; 0: none died.
     */
    int32_t pid;
    /**
     * 0.
     */
    uint32_t reserved;
} chappe_turn;

/**
 * Makes a barrier for so many threads of this process. It goes when the last handle is closed.
 *
 * Errors: -EINVAL for no parties, or more than CHAPPE_BARRIER_MAX; -ENOMEM if there is no address space for what is private;
 * -ENOSPC if there are 65536 private objects; -EFAULT, -EMFILE.
 */
int chappe_barrier_private(int64_t parties,
                           struct chappe_barrier **barrier);

/**
 * Opens the barrier of this name: "step", or "lab/step" for one in the arena "lab".
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_barrier_open(const char *name, struct chappe_barrier **barrier);

/**
 * Makes the barrier of this name, which must not be there, and its arena if need be. flags: 0 or CHAPPE_BREAKS_ON_DEATH.
 *
 * Errors: -EEXIST; -EINVAL for no parties, or more than CHAPPE_BARRIER_MAX or than the arena has room for members (4095, if it is
 * there and of the usual size), or a flag that is not known; -ENOSPC or -EUSERS if the arena is full; else as chappe_barrier_open.
 */
int chappe_barrier_create(const char *name,
                          int64_t parties,
                          uint32_t flags,
                          struct chappe_barrier **barrier);

/**
 * Opens the barrier of this name, or makes it.
 *
 * Errors: -EPROTOTYPE if it is there with another number of parties, or with other flags; else as chappe_barrier_create, but for
 * -EEXIST.
 */
int chappe_barrier_open_or_create(const char *name,
                                  int64_t parties,
                                  uint32_t flags,
                                  struct chappe_barrier **barrier);

/**
 * Closes a handle. A named barrier stays, and so do its parties; arrivals keep what they need. No other thread may be in a call with this
 * handle, or call with it later.
 *
 * Errors: -EBADF.
 */
int chappe_barrier_close(struct chappe_barrier *barrier);

/**
 * Removes the barrier of this name. One at which a thread waits, or that one has joined, is refused unless force: then they get
 * -EIDRM, but those whose round has turned get their turn.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_barrier_open.
 */
int chappe_barrier_remove(const char *name,
                          int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_barrier_name(const struct chappe_barrier *barrier, char *to, size_t size);

/**
 * For how many parties it was made.
 *
 * Errors: -EBADF.
 */
int64_t chappe_barrier_parties(const struct chappe_barrier *barrier);

/**
 * Writes how it is now; that may change at once.
 *
 * Errors: -EIDRM, -EBADF, -EFAULT.
 */
int chappe_barrier_look(const struct chappe_barrier *barrier, struct chappe_barrier_info *info);

/**
 * Joins, if need be, arrives, and waits until all others have. A handled signal does not end the wait. Writes the turn to turn, unless
 * that is NULL. Answers 0, or CHAPPE_PARTY_DIED: in both cases the round has turned.
 *
 * Errors: -ECANCELED if the barrier is broken, or breaks, or is reset meanwhile; -ENOSPC if it has its parties already; -EALREADY if
 * this thread has an arrival there that it has not waited for; -EIDRM if it is or gets removed; -EUSERS if the thread cannot become a member of
 * its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
 */
int chappe_barrier_wait(struct chappe_barrier *barrier,
                        struct chappe_turn *turn);

/**
 * As chappe_barrier_wait, for at most ns nanoseconds; then the arrival is taken back, and the others wait on.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_barrier_wait.
 */
int chappe_barrier_wait_timeout(struct chappe_barrier *barrier,
                                struct chappe_turn *turn,
                                int64_t ns);

/**
 * As chappe_barrier_wait, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_barrier_wait_timeout.
 */
int chappe_barrier_wait_deadline(struct chappe_barrier *barrier, struct chappe_turn *turn, int64_t at);

/**
 * As chappe_barrier_wait, for at most ns nanoseconds; then the barrier breaks: this call and those of all others answer -ECANCELED.
 *
 * Errors: -EINVAL if ns is negative; else as chappe_barrier_wait.
 */
int chappe_barrier_wait_timeout_or_break(struct chappe_barrier *barrier,
                                         struct chappe_turn *turn,
                                         int64_t ns);

/**
 * As chappe_barrier_wait, by a thread that, if it has not joined before, is a party of this round only.
 *
 * Errors: as chappe_barrier_wait.
 */
int chappe_barrier_wait_once(struct chappe_barrier *barrier, struct chappe_turn *turn);

/**
 * Joins, if need be, and arrives. Never waits. The thread may do something else before it waits for the turn, by chappe_arrival_wait or
 * in a choice (chappe_arm_turn). Only this thread may use the arrival, and it closes it by chappe_arrival_close. When the thread ends,
 * the arrival is taken back; the handle stays open, and any thread may close it.
 *
 * Errors: as chappe_barrier_wait; -EMFILE.
 */
int chappe_barrier_arrive(struct chappe_barrier *barrier,
                          struct chappe_arrival **arrival);

/**
 * As chappe_barrier_arrive, for this round only: see chappe_barrier_wait_once.
 *
 * Errors: as chappe_barrier_arrive.
 */
int chappe_barrier_arrive_once(struct chappe_barrier *barrier, struct chappe_arrival **arrival);

/**
 * Makes the calling thread a party before it arrives: each round from now on waits for it. Does nothing at a private barrier, and at one
 * that a death breaks. Never waits.
 *
 * Errors: -ENOSPC if it has its parties already; -EALREADY if this thread is one; -EIDRM, -EUSERS, -EBADF.
 */
int chappe_barrier_join(struct chappe_barrier *barrier);

/**
 * The calling thread is a party no longer, if it is one; its place waits for another. Never waits.
 *
 * Errors: -EALREADY if it has an arrival there that is not closed or waited for; -EIDRM, -EUSERS, -EBADF.
 */
int chappe_barrier_leave(struct chappe_barrier *barrier);

/**
 * Breaks the barrier: all that wait, and all that come, get -ECANCELED until it is reset. Never waits.
 *
 * Errors: -EIDRM, -EUSERS, -EBADF.
 */
int chappe_barrier_abort(struct chappe_barrier *barrier);

/**
 * Makes it whole, with all its parties: all that wait get -ECANCELED, a broken barrier is as new, and those that died are expected
 * again. Never waits.
 *
 * Errors: -EIDRM, -EUSERS, -EBADF.
 */
int chappe_barrier_reset(struct chappe_barrier *barrier);

/**
 * Waits for the turn of the arrival's round; as chappe_barrier_wait. The outcome is told once; the handle stays open.
 *
 * Errors: -ECANCELED if the barrier breaks, or is reset meanwhile; -EALREADY if the outcome was told, or the arrival taken back; -EPERM if
 * the arrival is another thread's, or the parent process's; -EIDRM if the barrier gets removed; -EBADF, -EFAULT; the system's, if it
 * refuses the thread that watches for deaths.
 */
int chappe_arrival_wait(struct chappe_arrival *arrival,
                        struct chappe_turn *turn);

/**
 * As chappe_arrival_wait, for at most ns nanoseconds; then the arrival is taken back, and the others wait on.
 *
 * Errors: -ETIMEDOUT; -EINVAL if ns is negative; else as chappe_arrival_wait.
 */
int chappe_arrival_wait_timeout(struct chappe_arrival *arrival,
                                struct chappe_turn *turn,
                                int64_t ns);

/**
 * As chappe_arrival_wait, waiting at most until at (see chappe_now).
 *
 * Errors: as chappe_arrival_wait_timeout.
 */
int chappe_arrival_wait_deadline(struct chappe_arrival *arrival, struct chappe_turn *turn, int64_t at);

/**
 * As chappe_arrival_wait, for at most ns nanoseconds; then the barrier breaks, as at chappe_barrier_wait_timeout_or_break.
 *
 * Errors: -EINVAL if ns is negative; else as chappe_arrival_wait.
 */
int chappe_arrival_wait_timeout_or_break(struct chappe_arrival *arrival,
                                         struct chappe_turn *turn,
                                         int64_t ns);

/**
 * 1 if the round has turned, or is broken, or the barrier was removed: then to wait does not block. Else 0. Never waits. The first call that
 * answers 0 starts the thread that watches for deaths in this process.
 *
 * Errors: -EPERM, -EBADF.
 */
int chappe_arrival_is_over(struct chappe_arrival *arrival);

/**
 * Closes a handle. Answers 1 if the arrival was taken back by this: the round goes on without it; else 0. In a forked child it only
 * closes the child's.
 *
 * Errors: -EPERM if it is another thread's that has not ended; -EBADF.
 */
int chappe_arrival_close(struct chappe_arrival *arrival);

#ifdef __cplusplus
}
#endif

#endif
