/*
 * Words of 64 bits, of which up to eight change at once: all of them, or none.
 *
 * A thread that is stopped or killed in the middle of a change holds up nobody: the next thread that meets the change finishes it. Looking at a word writes
 * nothing. Only a thread's first change of named words waits for a thread that makes or removes an object at that moment. A signal handler may look; one that
 * interrupts its thread in the middle of a change can change nothing (-EBUSY).
 *
 * A handle may be used by any number of threads at once, until it is closed.
 *
 * Generated from crates/ffi/src/words.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_WORDS_H
#define CHAPPE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The most words that change at once.
 */
#define CHAPPE_WORDS_MOST 8

/**
 * An answer: one of the words had another value, and none was changed.
 */
#define CHAPPE_WORDS_NO 0

/**
 * An answer: all were changed.
 */
#define CHAPPE_WORDS_YES 1

/**
 * A handle of words.
 */
typedef struct chappe_words chappe_words;

/**
 * One word of a change.
 */
typedef struct chappe_words_change {
    /**
     * Which, from 0.
     */
    uint32_t word;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * What it must have.
     */
    uint64_t before;
    /**
     * What it gets. If that is the same, it is compared only.
     */
    uint64_t after;
} chappe_words_change;

/**
 * Makes so many words for the threads of this process, all 0. They go when the handle is closed.
 *
 * Errors: -EINVAL if there cannot be so many; -EFAULT; -EMFILE; -ENOMEM.
 */
int chappe_words_private(uint32_t count, struct chappe_words **words);

/**
 * Opens the words of this name.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as chappe_arena_open.
 */
int chappe_words_open(const char *name, struct chappe_words **words);

/**
 * Makes so many words of this name, which must not be there, all 0, and their arena, with room for them, if need be.
 *
 * Errors: -EEXIST; -EINVAL if there cannot be so many; -ENOSPC or -EUSERS if the arena is full; else as chappe_words_open.
 */
int chappe_words_create(const char *name,
                        uint32_t count,
                        struct chappe_words **words);

/**
 * Opens the words of this name, or makes them. If they are there, they must be as many.
 *
 * Errors: -EPROTOTYPE if there are others; else as chappe_words_create, but for -EEXIST.
 */
int chappe_words_open_or_create(const char *name, uint32_t count, struct chappe_words **words);

/**
 * Closes a handle. Private words go with it, named ones stay. No other thread may be in a call with this handle, or call with it later.
 *
 * Errors: -EBADF.
 */
int chappe_words_close(struct chappe_words *words);

/**
 * Removes the words of this name. Those that another process has changed and may again are refused unless force: then their users get
 * -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_words_open.
 */
int chappe_words_remove(const char *name,
                        int force);

/**
 * Writes their name, as much as has room, with a 0 behind it; answers its length, 0 for private ones.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_words_name(const struct chappe_words *words, char *to, size_t size);

/**
 * How many there are.
 *
 * Errors: -EBADF.
 */
int64_t chappe_words_count(const struct chappe_words *words);

/**
 * What a word has. Lock-free; writes nothing.
 *
 * Errors: -EINVAL if there is no such word; -EIDRM if they were removed; -EBADF, -EFAULT.
 */
int chappe_words_load(const struct chappe_words *words, uint32_t word, uint64_t *value);

/**
 * Gives a word a value, whatever it has. Lock-free.
 *
 * Errors: as chappe_words_swap.
 */
int chappe_words_store(struct chappe_words *words, uint32_t word, uint64_t value);

/**
 * Changes 1 to 8 words at once, each from what it must have to what it gets. Answers CHAPPE_WORDS_YES; or CHAPPE_WORDS_NO: one at least had another
 * value, and none was changed. Lock-free.
 *
 * Errors: -EINVAL if there are none or more than 8, one is named twice, or there is no such word; -EBUSY in a signal handler that has interrupted
 * a change; -EIDRM if they were removed; -EUSERS if the arena cannot take another member; -EBADF, -EFAULT.
 */
int chappe_words_swap(struct chappe_words *words,
                      const struct chappe_words_change *changes,
                      size_t count);

#ifdef __cplusplus
}
#endif

#endif
