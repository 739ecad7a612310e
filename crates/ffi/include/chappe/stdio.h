/*
 * Buffered streams of bytes whose kind is chosen when they are made (Massalin, Synthesis, 3.3.1, table 3.2): cputc and cgetc are the same
 * few instructions whatever the buffering, and hold no lock.
 *
 * A stream's buffer ends where the low 16 bits of an address are 0, so that stepping the pointer is the test for its end. A stream that is
 * not fully buffered begins one byte before that end: each byte takes the slow way, which does what was chosen.
 *
 * A stream belongs to one thread at a time; nothing here locks. What is in a buffer is in this process alone: a kill loses it, as it does
 * with the C library's; exit(3) writes it out. Nothing is lost on an error: what could not be written stays in the buffer, the byte that
 * found no room is refused, and the next call tries again. A forked child begins with empty output buffers: the parent writes what it has.
 *
 * Errors: -1 or NULL; errno says which, and chappe_last_error() of <chappe.h> in words.
 *
 *     EINVAL  NULL where a stream is wanted, a mode that is not "r" or "w" ("a" is "w": the descriptor decides), another buffering
 *     EBADF   no open descriptor; or the stream is for the other direction (cputc and cgetc themselves do not look: a program that
 *             reads from a stream that is written, or the other way round, moves its bytes)
 *     ENOMEM  no memory for the stream
 *     others  of read(2) and write(2): EAGAIN, EPIPE, ENOSPC, EIO ...
 */
#ifndef CHAPPE_STDIO_H
#define CHAPPE_STDIO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Written out when the buffer of 64 KiB is full. */
#define CBLOCK 0
/** Written out at the end of each line, and when 64 KiB have come together. */
#define CLINE 1
/** Each byte is written, or read, by itself. */
#define CNONE 2

/** A stream. */
typedef struct CFILE {
    /** The next byte's place. Only the functions here move it. */
    unsigned char *next;
} CFILE;

CFILE *chappe_cfdopen(int fd, const char *mode, int buffering);
int chappe_cputc_slow(CFILE *f);
int chappe_cgetc_slow(CFILE *f);
int chappe_cputc(int c, CFILE *f);
int chappe_cgetc(CFILE *f);
int chappe_cungetc(int c, CFILE *f);
size_t chappe_cwrite(const void *from, size_t bytes, CFILE *f);
size_t chappe_cread(void *into, size_t bytes, CFILE *f);
int chappe_cflush(CFILE *f);
int chappe_cclose(CFILE *f);
int chappe_ceof(const CFILE *f);
int chappe_cerror(const CFILE *f);
void chappe_cclearerr(CFILE *f);

/** A stream over an open descriptor, which is its own from now on; mode "r" or "w". NULL on error. */
static inline CFILE *cfdopen(int fd, const char *mode, int buffering)
{
    return chappe_cfdopen(fd, mode, buffering);
}

/** Writes a byte: the byte, or -1: it was not taken. Blocks only while the descriptor does. */
static inline int cputc(int c, CFILE *f)
{
    *f->next++ = (unsigned char)c;
    if (((uintptr_t)f->next & 0xffff) == 0)
        return chappe_cputc_slow(f);
    return (unsigned char)c;
}

/** The next byte; -1 at the end or on an error (ceof, cerror). Blocks while the descriptor has nothing. */
static inline int cgetc(CFILE *f)
{
    if (((uintptr_t)f->next & 0xffff) == 0)
        return chappe_cgetc_slow(f);
    return *f->next++;
}

/** Puts one byte back in front; one at a time is sure of room. -1: there is none. */
static inline int cungetc(int c, CFILE *f)
{
    return chappe_cungetc(c, f);
}

/** Writes bytes; how many were taken: fewer only on an error. */
static inline size_t cwrite(const void *from, size_t bytes, CFILE *f)
{
    return chappe_cwrite(from, bytes, f);
}

/** Reads bytes; how many: fewer only at the end, or on an error. */
static inline size_t cread(void *into, size_t bytes, CFILE *f)
{
    return chappe_cread(into, bytes, f);
}

/** Writes out what is in the buffer: 0, or -1, and what is left stays there. */
static inline int cflush(CFILE *f)
{
    return chappe_cflush(f);
}

/** Writes out, closes the descriptor, and frees the stream: 0, or -1: of the first that failed. The stream is gone either way. */
static inline int cclose(CFILE *f)
{
    return chappe_cclose(f);
}

/** Whether the end was met. */
static inline int ceof(const CFILE *f)
{
    return chappe_ceof(f);
}

/** The errno(3) of the last call that failed, or 0. */
static inline int cerror(const CFILE *f)
{
    return chappe_cerror(f);
}

/** Forgets the end and the error. */
static inline void cclearerr(CFILE *f)
{
    chappe_cclearerr(f);
}

#ifdef __cplusplus
}
#endif

#endif
