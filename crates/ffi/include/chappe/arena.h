/*
 * Arenas: regions of shared memory that hold objects with names.
 *
 * An object's name says its arena: "lab/gpu0" is the object "gpu0" of the arena "lab", "gpu0" that of the arena "default". Opening
 * or making an object opens or makes its arena, so most programs need nothing of this page. An arena is one file, in
 * /dev/shm/chappe-UID or in the directory that CHAPPE_DIR names. Names have 1 to 47 of A-Z a-z 0-9 . _ @ : + - and do not begin
 * with . or -.
 *
 * Generated from crates/ffi/src/arena.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_ARENA_H
#define CHAPPE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "look.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Something that cannot be told, since its words make no sense.
 */
#define CHAPPE_IS_DAMAGED 0

/**
 * A semaphore.
 */
#define CHAPPE_IS_SEMAPHORE 1

/**
 * A pool.
 */
#define CHAPPE_IS_POOL 2

/**
 * A mutex.
 */
#define CHAPPE_IS_MUTEX 3

/**
 * A condition variable.
 */
#define CHAPPE_IS_CONDVAR 4

/**
 * A tube.
 */
#define CHAPPE_IS_TUBE 5

/**
 * A readers-writer lock.
 */
#define CHAPPE_IS_RWLOCK 6

/**
 * A barrier.
 */
#define CHAPPE_IS_BARRIER 7

/**
 * A handle of an arena. The mapping itself stays for the rest of the process's life.
 */
typedef struct chappe_arena chappe_arena;

/**
 * What an arena is made with. Set it to zeros first: 0 stands for what is usual.
 */
typedef struct chappe_arena_options {
    /**
     * How many threads and processes can be attached at once (4095; at most 65535).
     */
    uint32_t members;
    /**
     * How many objects it can have (4096; at most 1048576).
     */
    uint32_t objects;
    /**
     * How many permits its pools can have beyond the first of each (16384).
     */
    uint32_t cells;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * How many bytes the data of its mutexes and its tubes can take together (256 MiB; at most 4 GiB); memory is taken for what is used.
     */
    uint64_t data;
    /**
     * 0.
     */
    uint64_t reserved_too[4];
} chappe_arena_options;

/**
 * How much of an arena is there, and in use.
 */
typedef struct chappe_capacity {
    /**
     * Places for threads and processes.
     */
    uint32_t members;
    /**
     * Of these, in use.
     */
    uint32_t members_used;
    /**
     * Places for objects.
     */
    uint32_t objects;
    /**
     * Of these, in use.
     */
    uint32_t objects_used;
    /**
     * Permits of pools beyond the first of each.
     */
    uint32_t cells;
    /**
     * Of these, in use.
     */
    uint32_t cells_used;
    /**
     * Bytes for the data of mutexes and for tubes.
     */
    uint64_t data;
    /**
     * Of these, in use.
     */
    uint64_t data_used;
    /**
     * Bytes of shared memory in all.
     */
    uint64_t bytes;
} chappe_capacity;

/**
 * Something in an arena.
 */
typedef struct chappe_object {
    /**
     * Its name within the arena.
     */
    chappe_name name;
    /**
     * CHAPPE_IS_SEMAPHORE, CHAPPE_IS_POOL ...
     */
    int kind;
    /**
     * How many wait.
     */
    uint32_t waiting;
} chappe_object;

/**
 * Opens the arena of this name.
 *
 * Errors: -ENOENT; -EUCLEAN if the file is no arena, or damaged; -EPROTONOSUPPORT if another version of chappe, or a program with
 * another C library, made it; -EACCES, -ELOOP if the directory or file is not safe to use; -EINVAL, -ENAMETOOLONG, -EFAULT for what
 * is no name; -EMFILE.
 */
int chappe_arena_open(const char *name,
                      struct chappe_arena **arena);

/**
 * Makes the arena of this name, which must not be there. options may be NULL.
 *
 * Errors: -EEXIST; -ENOSPC if there is not so much shared memory; -EINVAL if the options cannot be had; else as
 * chappe_arena_open.
 */
int chappe_arena_create(const char *name,
                        const struct chappe_arena_options *options,
                        struct chappe_arena **arena);

/**
 * Opens the arena of this name, or makes it. options, which may be NULL, are for one that is made.
 *
 * Errors: as chappe_arena_open and chappe_arena_create.
 */
int chappe_arena_open_or_create(const char *name,
                                const struct chappe_arena_options *options,
                                struct chappe_arena **arena);

/**
 * Closes a handle. The arena stays, and so do all handles of objects in it.
 *
 * Errors: -EBADF.
 */
int chappe_arena_close(struct chappe_arena *arena);

/**
 * Removes the arena of this name. This process's handles, and its threads that neither hold nor await anything there,
 * do not count as a use of it. An arena in use is refused unless force is set: then every object in it is dead; its
 * waiters get -EIDRM, and permits and locks held there end without effect.
 *
 * Errors: -ENOENT; -EBUSY if it is in use; -EPERM if it is another user's; else as chappe_arena_open.
 */
int chappe_arena_remove(const char *name,
                        int force);

/**
 * Gives up the calling thread's place in the arena; permits that it still has there come back, slots of tubes that it
 * has reserved are given up, records that it has borrowed are put back, and a mutex that it still has locked is
 * condemned. It takes a place again when it next needs one. (A thread that ends does this by itself.)
 *
 * Errors: -EBADF.
 */
int chappe_arena_leave(struct chappe_arena *arena);

/**
 * Writes the arena's name, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_arena_name(const struct chappe_arena *arena, char *to, size_t size);

/**
 * Writes the path of the arena's file, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_arena_path(const struct chappe_arena *arena, char *to, size_t size);

/**
 * Says how much of the arena is there and in use.
 *
 * Errors: -EBADF, -EFAULT.
 */
int chappe_arena_capacity(const struct chappe_arena *arena, struct chappe_capacity *capacity);

/**
 * Lists what is in the arena: writes as many as have room, answers how many there are. to may be NULL if room is 0.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_arena_objects(const struct chappe_arena *arena,
                               struct chappe_object *to,
                               size_t room);

/**
 * Lists the waiters for the object of this name within the arena, of any kind, in the order in which they will be
 * served; as chappe_arena_objects.
 *
 * Errors: -ENOENT if there is none; -EINVAL, -ENAMETOOLONG for what is no name; -EBADF, -EFAULT.
 */
ptrdiff_t chappe_arena_waiters(const struct chappe_arena *arena,
                               const char *name,
                               chappe_waiter *to,
                               size_t room);

/**
 * Lists the members attached to the arena, and the dead ones that have not been recovered yet; as
 * chappe_arena_objects.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_arena_members(const struct chappe_arena *arena, chappe_member *to, size_t room);

/**
 * Lists the arenas by name: writes as many names as have room, answers how many there are.
 *
 * Errors: -EFAULT; -EACCES, -ELOOP if the directory is not safe to use.
 */
ptrdiff_t chappe_arena_list(chappe_name *to, size_t room);

/**
 * Writes the path of the directory where arenas lie, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EFAULT; the system's, if CHAPPE_DIR is relative and there is no working directory any more.
 */
ptrdiff_t chappe_directory(char *to,
                           size_t size);

#ifdef __cplusplus
}
#endif

#endif
