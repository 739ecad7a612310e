/*
 * Maps: dictionaries of bytes that threads and processes share, and that outlive any of them.
 *
 * Each change is one atomic step: a process that is killed in the middle has made it, or has not. No operation waits
 * for another thread, dead, stopped or slow. The only exception: a thread's first change of a named map waits for a
 * thread that is making or removing an object. A lookup writes nothing. Keys and values are copied in and out. A
 * struct is stored as its bytes: the padding between its fields must be zero.
 *
 * A handle may be used by any number of threads at once, until it is closed.
 *
 * Generated from crates/ffi/src/map.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_MAP_H
#define CHAPPE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An answer: the key is not there, or has not the value that was expected; or there is no entry more.
 */
#define CHAPPE_MAP_NO 0

/**
 * An answer: it is so, or was done.
 */
#define CHAPPE_MAP_YES 1

/**
 * A handle of a map.
 */
typedef struct chappe_map chappe_map;

/**
 * An iteration over a map.
 */
typedef struct chappe_map_walk chappe_map_walk;

/**
 * What a map is made for.
 */
typedef struct chappe_map_options {
    /**
     * The most entries, 1048576 at most; 0 stands for 1024.
     */
    uint32_t entries;
    /**
     * The most bytes of a key, 1048576 at most; 0 stands for 64.
     */
    uint32_t key_size;
    /**
     * The most bytes of a value, 1048576 at most; 0 stands for 256.
     */
    uint32_t value_size;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * 0.
     */
    uint64_t reserved_too[2];
} chappe_map_options;

/**
 * Bytes to be written, and how many they are: of a key, or a value.
 */
typedef struct chappe_map_bytes {
    /**
     * Where; NULL for none.
     */
    void *data;
    /**
     * Before: how many have room. After: how many there are; what has no room is left out.
     */
    size_t size;
} chappe_map_bytes;

/**
 * Makes a map for the threads of this process. It goes when the handle is closed. options may be NULL.
 *
 * Errors: -EINVAL if there cannot be such a map; -EFAULT; -EMFILE; -ENOSPC if there are 65536 private objects; -ENOMEM if there is no
 * address space for what is private.
 */
int chappe_map_private(const struct chappe_map_options *given,
                       struct chappe_map **map);

/**
 * Opens the map of this name.
 *
 * Errors: -ENOENT; -EPROTOTYPE if the name is that of something else, or of a map of a Rust type; else as chappe_arena_open.
 */
int chappe_map_open(const char *name,
                    struct chappe_map **map);

/**
 * Makes the map of this name, which must not be there, and its arena if need be. options may be NULL.
 *
 * Errors: -EEXIST; -EINVAL if there cannot be such a map; -ENOSPC or -EUSERS if the arena is full; else as chappe_map_open.
 */
int chappe_map_create(const char *name,
                      const struct chappe_map_options *given,
                      struct chappe_map **map);

/**
 * Opens the map of this name, or makes it. One that is there must have been made with the same options.
 *
 * Errors: -EPROTOTYPE if it has others; else as chappe_map_create, but for -EEXIST.
 */
int chappe_map_open_or_create(const char *name,
                              const struct chappe_map_options *given,
                              struct chappe_map **map);

/**
 * Closes a handle. A private map goes with it, a named one stays. No other thread may be in a call with this handle, or call with it
 * later.
 *
 * Errors: -EBADF.
 */
int chappe_map_close(struct chappe_map *map);

/**
 * Removes the map of this name. One with entries or a user is refused unless force: then its users get -EIDRM.
 *
 * Errors: -ENOENT, -EBUSY; else as chappe_map_open.
 */
int chappe_map_remove(const char *name,
                      int force);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_map_name(const struct chappe_map *map, char *to, size_t size);

/**
 * How many entries there are; while others change it, at about that time. Looks at all slots.
 *
 * Errors: -EBADF.
 */
int64_t chappe_map_count(const struct chappe_map *map);

/**
 * Looks a key up; value may be NULL. Answers CHAPPE_MAP_YES or CHAPPE_MAP_NO.
 *
 * Errors: -EMSGSIZE if the key is empty or too long; -EIDRM if the map was removed; -EBADF, -EFAULT.
 */
int chappe_map_get(const struct chappe_map *map,
                   const void *key,
                   size_t key_size,
                   struct chappe_map_bytes *value);

/**
 * Gives a key a value. Answers whether it had one, which is in old then, unless that is NULL.
 *
 * Errors: -ENOSPC if the map is full, and nothing was changed; -EAGAIN if too many threads are changing a full one; -EMSGSIZE if the key
 * is empty, or it or the value is too long; -EIDRM if the map was removed; -EUSERS if the arena cannot take another member; -EBADF,
 * -EFAULT.
 */
int chappe_map_put(struct chappe_map *map,
                   const void *key,
                   size_t key_size,
                   const void *value,
                   size_t value_size,
                   struct chappe_map_bytes *old);

/**
 * Removes a key. Answers whether it was there; what it had is in old then, unless that is NULL.
 *
 * Errors: as chappe_map_put, but for -ENOSPC and -EAGAIN.
 */
int chappe_map_delete(struct chappe_map *map, const void *key, size_t key_size, struct chappe_map_bytes *old);

/**
 * If the key has the value expected (NULL: is not there), gives it the value new_value (NULL: removes it), in one step. Answers
 * whether that was done.
 *
 * Errors: as chappe_map_put.
 */
int chappe_map_swap(struct chappe_map *map,
                    const void *key,
                    size_t key_size,
                    const void *expected,
                    size_t expected_size,
                    const void *new_value,
                    size_t new_size);

/**
 * Begins an iteration: every key that is there throughout comes, none twice, in no order. It holds nothing but its own memory.
 *
 * Errors: -EIDRM if the map was removed; -EMFILE, -EBADF, -EFAULT.
 */
int chappe_map_walk_begin(const struct chappe_map *map,
                          struct chappe_map_walk **walk);

/**
 * The next entry; key and value may be NULL. Answers CHAPPE_MAP_NO when there is none more.
 *
 * Errors: -EIDRM if the map was removed; -EBADF, -EFAULT.
 */
int chappe_map_walk_next(struct chappe_map_walk *walk,
                         struct chappe_map_bytes *key,
                         struct chappe_map_bytes *value);

/**
 * Ends an iteration, at any time.
 *
 * Errors: -EBADF.
 */
int chappe_map_walk_end(struct chappe_map_walk *walk);

/**
 * Waits until the value of a key is another than seen (NULL: is there), at most until at (see chappe_now). Answers
 * CHAPPE_MAP_YES; what it has then is to be looked up.
 *
 * Errors: -ETIMEDOUT; -EINTR; -EINVAL; else as chappe_map_get.
 */
int chappe_map_wait(const struct chappe_map *map,
                    const void *key,
                    size_t key_size,
                    const void *seen,
                    size_t seen_size,
                    int64_t at);

#ifdef __cplusplus
}
#endif

#endif
