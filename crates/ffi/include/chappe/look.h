/*
 * The structures that describe an arena and its objects to an observer: members, holders and waiters.
 *
 * Generated from crates/ffi/src/look.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_LOOK_H
#define CHAPPE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The hold is timed exactly, not since the first look at it.
 */
#define CHAPPE_HOLD_EXACT 1

/**
 * A job has a lease on the permit.
 */
#define CHAPPE_HOLD_LEASED 2

/**
 * Its holder is gone, and its job goes on.
 */
#define CHAPPE_HOLD_ORPHAN 4

/**
 * The permit has no holder yet: it is set aside for the first waiter.
 */
#define CHAPPE_HOLD_SET_ASIDE 8

/**
 * A name, ended by a 0.
 */
typedef struct chappe_name {
    /**
     * It.
     */
    char text[96];
} chappe_name;

/**
 * A member of an arena: a thread, or a process as a whole.
 */
typedef struct chappe_member {
    /**
     * Its process.
     */
    int32_t pid;
    /**
     * Its thread.
     */
    int32_t tid;
    /**
     * 1: it stands for the whole process.
     */
    int32_t is_process;
    /**
     * 1: it lives. 0: it is dead, or that cannot be told, and what it had is not made up for yet.
     */
    int32_t is_alive;
    /**
     * What it calls itself, ended by a 0.
     */
    char label[64];
} chappe_member;

/**
 * A waiter.
 */
typedef struct chappe_waiter {
    /**
     * Its process.
     */
    int32_t pid;
    /**
     * Its thread.
     */
    int32_t tid;
    /**
     * For how long, in nanoseconds, to a clock tick.
     */
    int64_t waiting;
    /**
     * What it calls itself, ended by a 0.
     */
    char label[64];
} chappe_waiter;

/**
 * The holder of a permit.
 */
typedef struct chappe_holder {
    /**
     * Which of the pool's permits, counted from 0.
     */
    uint32_t index;
    /**
     * CHAPPE_HOLD_EXACT, CHAPPE_HOLD_LEASED, CHAPPE_HOLD_ORPHAN, CHAPPE_HOLD_SET_ASIDE.
     */
    uint32_t flags;
    /**
     * The holder's process; 0 if that cannot be seen.
     */
    int32_t pid;
    /**
     * The holder's thread.
     */
    int32_t tid;
    /**
     * For how long, in nanoseconds, to a clock tick.
     */
    int64_t held;
    /**
     * What the holder calls itself, ended by a 0.
     */
    char label[64];
} chappe_holder;

#ifdef __cplusplus
}
#endif

#endif
