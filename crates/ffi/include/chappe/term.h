/*
 * Terminals: programs that run, are asked and answer, and whose screens outlive them.
 *
 * Only in a library that was built with the feature term: cargo build --profile dist -p chappe-ffi --features term. Terminals are made by the command
 * chappe, built with that feature, too: that of CHAPPE_COMMAND in the environment, or of the PATH. See "Terminals that outlive their programs" in
 * the guide. This header is not a part of <chappe.h>.
 *
 * chappe_terminal_text and chappe_terminal_exit begin to wait, and answer something whose descriptor is readable once the answer is there: an arm
 * of a choice by chappe_arm_readable, or of poll(2). Each has a thread of its own. The calls that wait directly need none.
 *
 * A handle may be used by any number of threads at once, until it is closed. In a forked child a terminal's handle works; what was begun to be
 * awaited is the parent's.
 *
 * Generated from crates/ffi/src/term.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_TERM_H
#define CHAPPE_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Room for a mark, with the 0 at its end.
 */
#define CHAPPE_MARK_SIZE 128

/**
 * No other user may look at it, also in a directory that several users share.
 */
#define CHAPPE_TERMINAL_PRIVATE 1

/**
 * What is awaited of a terminal.
 */
typedef struct chappe_awaited chappe_awaited;

/**
 * A handle of a terminal.
 */
typedef struct chappe_terminal chappe_terminal;

/**
 * How a terminal is made. Set it to zeros first: 0 stands for what is usual.
 */
typedef struct chappe_terminal_options {
    /**
     * How many columns it has (80).
     */
    uint16_t columns;
    /**
     * How many rows (24).
     */
    uint16_t rows;
    /**
     * 0, or CHAPPE_TERMINAL_PRIVATE.
     */
    uint32_t flags;
    /**
     * How many bytes of lines that have left the screen are kept (4 MiB).
     */
    uint64_t history;
    /**
     * 0.
     */
    uint64_t reserved[2];
} chappe_terminal_options;

/**
 * Runs a command in a new terminal; blocks until it runs. command ends with NULL, as that of execv(3). options: NULL for what is usual. The command goes on
 * when this process ends.
 *
 * Errors: -ECHILD if the command chappe has not done it: the name is taken, the command is not there, no room; chappe_last_error() says what;
 * -ENAMETOOLONG for a word of more than 131,071 bytes; -EINVAL, -EFAULT, -EMFILE; else as chappe_terminal_open.
 */
int chappe_terminal_run(const char *name,
                        const char *const *command,
                        const struct chappe_terminal_options *options,
                        struct chappe_terminal **terminal);

/**
 * Opens the terminal of this name, whatever made it. Another user's, in a directory that several users share, is there to be looked at and waited for; root may
 * use it.
 *
 * Errors: -ENOENT; -EACCES if it is another user's private one; -EINVAL: the name cannot be one; -ENAMETOOLONG: it does not end within 255 bytes; -EFAULT, -EMFILE; the system's.
 */
int chappe_terminal_open(const char *name,
                         struct chappe_terminal **terminal);

/**
 * Closes a handle. The terminal and its command stay.
 *
 * Errors: -EBADF.
 */
int chappe_terminal_close(struct chappe_terminal *terminal);

/**
 * Removes the terminal of this name, with its screen. Its command has ended; waits up to a second for the terminal's own processes.
 *
 * Errors: -EBUSY if its command runs, or processes that it left have the terminal open; else as chappe_terminal_open.
 */
int chappe_terminal_remove(const char *name);

/**
 * Writes its name, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_terminal_name(const struct chappe_terminal *handle, char *to, size_t size);

/**
 * Writes what it runs, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT.
 */
ptrdiff_t chappe_terminal_command(const struct chappe_terminal *handle, char *to, size_t size);

/**
 * Types bytes, in one piece: what others type comes before or behind. A carriage return is the Enter key. Blocks until the program's side has taken them, at
 * most for ns nanoseconds (CHAPPE_FOREVER: without end); up to 64 KiB of what is left then are typed when the program reads. mark: room of CHAPPE_MARK_SIZE for
 * the moment, or NULL.
 *
 * Errors: -ETIMEDOUT; -EPIPE if it has ended; -EIO if its holder was killed while it typed: the program has got a beginning, or nothing; -EBADF, -EFAULT, -EINVAL.
 */
int chappe_terminal_send(const struct chappe_terminal *handle,
                         const void *bytes,
                         size_t size,
                         int64_t ns,
                         char *mark);

/**
 * As chappe_terminal_send without a limit, a key: Enter, Up, F5, C-c, M-x or a character.
 *
 * Errors: -EINVAL: there is no such key; -ENAMETOOLONG; else as chappe_terminal_send.
 */
int chappe_terminal_press(const struct chappe_terminal *handle, const char *key, char *mark);

/**
 * As chappe_terminal_send without a limit, a text that is pasted: programs do not take it for commands.
 *
 * Errors: -ENAMETOOLONG for a text of more than 131,071 bytes; else as chappe_terminal_send.
 */
int chappe_terminal_paste(const struct chappe_terminal *handle, const char *text, char *mark);

/**
 * Waits for a line that has a text, at most for ns nanoseconds: among those on the screen and later ones, or what was written after mark (NULL: the former).
 * The expression is of the syntax of the Rust crate regex. Writes what counts of the line, as much as has room, with a 0 behind it; answers its length.
 * A handled signal does not end the wait.
 *
 * Errors: -ETIMEDOUT; -EPIPE if the command has ended without it; -EINVAL: a wrong expression or mark; -ENAMETOOLONG for an expression of more than 131,071 bytes, or
 * a mark of more than 255; -EBADF, -EFAULT; the system's.
 */
ptrdiff_t chappe_terminal_wait_text(const struct chappe_terminal *handle,
                                    const char *regex,
                                    const char *mark,
                                    int64_t ns,
                                    char *to,
                                    size_t size);

/**
 * Waits for the end of the command, at most for ns nanoseconds; answers its status, or 128 and the number of the signal that ended it.
 *
 * Errors: -ETIMEDOUT; -EOWNERDEAD if that is not known, as the terminal's keeper was killed; -EBADF, -EINVAL; the system's.
 */
int chappe_terminal_wait_exit(const struct chappe_terminal *handle,
                              int64_t ns);

/**
 * Writes the text on the screen, a line each row, and before it history of the lines that have left it, as much as has room, with a 0 behind it; answers its length.
 *
 * Errors: -EBADF, -EFAULT; the system's.
 */
ptrdiff_t chappe_terminal_show(const struct chappe_terminal *handle,
                               uint64_t history,
                               char *to,
                               size_t size);

/**
 * Gives it another size; the program is told by SIGWINCH.
 *
 * Errors: -ENOSPC: there is no room for it; -EPIPE if it has ended; -ETIMEDOUT if its holder is stopped; -EBADF.
 */
int chappe_terminal_resize(const struct chappe_terminal *handle,
                           uint16_t columns,
                           uint16_t rows);

/**
 * Sends a signal to its command, as chappe term kill does.
 *
 * Errors: -ESRCH: it has ended, and has left nothing; -EPERM, -EINVAL: the system's; -EBADF.
 */
int chappe_terminal_kill(const struct chappe_terminal *handle, int signal);

/**
 * Begins to wait for a text, as chappe_terminal_wait_text does.
 *
 * Errors: -EINVAL, -ENAMETOOLONG, -EBADF, -EFAULT, -EMFILE; the system's, if it refuses a thread or a descriptor.
 */
int chappe_terminal_text(const struct chappe_terminal *handle,
                         const char *regex,
                         const char *mark,
                         struct chappe_awaited **awaited);

/**
 * Begins to wait for the end of the command.
 *
 * Errors: as chappe_terminal_text.
 */
int chappe_terminal_exit(const struct chappe_terminal *handle, struct chappe_awaited **awaited);

/**
 * Its descriptor, which is readable once the answer is there. It is this library's: do not read or close it.
 *
 * Errors: -EBADF.
 */
int chappe_awaited_descriptor(const struct chappe_awaited *awaited);

/**
 * Takes the answer, once. Of a text: writes what counts of the line, as much as has room, with a 0 behind it, and answers its length. Of an end: answers the status, or
 * 128 and the number of the signal, and writes nothing. Does not block. There is no second time: what has no
 * room is lost (size 0: all of it), but for NULL and a size that is not 0, with which nothing is taken.
 *
 * Errors: -EAGAIN: it is not there yet, or was taken; else as chappe_terminal_wait_text and chappe_terminal_wait_exit.
 */
ptrdiff_t chappe_awaited_take(struct chappe_awaited *awaited,
                              char *to,
                              size_t size);

/**
 * Of a text that was taken: how many lines left the history before they were looked at. 0 as long as it was not taken, and of an end.
 *
 * Errors: -EBADF.
 */
ptrdiff_t chappe_awaited_lost(const struct chappe_awaited *awaited);

/**
 * Waits no longer, and closes the descriptor. No other thread may be in a call with this handle, or in a wait for its descriptor.
 *
 * Errors: -EBADF.
 */
int chappe_awaited_close(struct chappe_awaited *awaited);

#ifdef __cplusplus
}
#endif

#endif
