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
 *     ENOMEM  no memory for the stream, or for a text of cprintf
 *     EOVERFLOW  cprintf has put more bytes than an int counts
 *     others  of read(2) and write(2): EAGAIN, EPIPE, ENOSPC, EIO ...
 */
#ifndef CHAPPE_STDIO_H
#define CHAPPE_STDIO_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
int chappe_cput_integer(long long number, CFILE *f);
int chappe_cput_unsigned(unsigned long long number, CFILE *f);
int chappe_cput_fixed(double number, int places, CFILE *f);

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

/** Puts a number with so many places behind the point, as "%.*f" does, by fixed-point arithmetic (Synthesis, 7.4.1): how many bytes, or -1. */
static inline int cput_fixed(double number, int places, CFILE *f)
{
    return chappe_cput_fixed(number, places, f);
}

/* Whether all conversions of a format are %d %u %ld %lu %zd %zu %c %s %f %.3f %%, which are put without the C library. */
static inline int chappe_cprintf_is_plain(const char *at)
{
    for (; (at = strchr(at, '%')); at++) {
        at++;
        if (*at == '.' && at[1] >= '0' && at[1] <= '9' && at[2] == 'f')
            at += 2;
        else if ((*at == 'l' || *at == 'z') && (at[1] == 'd' || at[1] == 'u'))
            at++;
        else if (!*at || !strchr("ducsf%", *at))
            return 0;
    }
    return 1;
}

/** As vprintf(3): how many bytes, or -1; what came in front of an error may have been put. */
static inline int __attribute__((format(printf, 2, 0))) cvprintf(CFILE *f, const char *format, va_list args)
{
    if (!chappe_cprintf_is_plain(format)) {
        char few[256], *text = few;
        va_list again;
        va_copy(again, args);
        int bytes = vsnprintf(few, sizeof few, format, args);
        if (bytes >= (int)sizeof few && (text = (char *)malloc((size_t)bytes + 1)))
            vsnprintf(text, (size_t)bytes + 1, format, again);
        va_end(again);
        if (bytes < 0 || !text)
            return -1;
        int put = chappe_cwrite(text, (size_t)bytes, f) == (size_t)bytes ? bytes : -1;
        if (text != few)
            free(text);
        return put;
    }
    long long all = 0, put;
    for (const char *at = format; *at; all += put) {
        size_t bytes = strcspn(at, "%");
        const char *text = at;
        at += bytes;
        if (!bytes) {
            int places = 6, is_long = 0, is_size = 0;
            at++;
            if (*at == '.')
                places = at[1] - '0', at += 2;
            else if (*at == 'l')
                is_long = 1, at++;
            else if (*at == 'z')
                is_size = 1, at++;
            char one;
            switch (*at++) {
            case 'd':
                put = chappe_cput_integer(is_long   ? va_arg(args, long)
                                          : is_size ? (long long)va_arg(args, ptrdiff_t)
                                                    : va_arg(args, int),
                                          f);
                break;
            case 'u':
                put = chappe_cput_unsigned(is_long   ? va_arg(args, unsigned long)
                                           : is_size ? va_arg(args, size_t)
                                                     : va_arg(args, unsigned int),
                                           f);
                break;
            case 'f':
                put = chappe_cput_fixed(va_arg(args, double), places, f);
                break;
            case 's':
                text = va_arg(args, const char *);
                text = text ? text : "(null)";
                bytes = strlen(text);
                put = chappe_cwrite(text, bytes, f) == bytes ? (long long)bytes : -1;
                break;
            case 'c':
                one = (char)va_arg(args, int);
                put = chappe_cwrite(&one, 1, f) ? 1 : -1;
                break;
            default:
                put = chappe_cwrite("%", 1, f) ? 1 : -1;
            }
        } else
            put = chappe_cwrite(text, bytes, f) == bytes ? (long long)bytes : -1;
        if (put < 0)
            return -1;
    }
    if (all > INT_MAX) {
        errno = EOVERFLOW;
        return -1;
    }
    return (int)all;
}

/**
 * As printf(3): how many bytes, or -1; what came in front of an error may have been put. A number with up to nine places (%f, %.3f) is put
 * by fixed-point arithmetic, whose digits are those of the C library, rounded to the nearest whatever fesetround says.
 */
static inline int __attribute__((format(printf, 2, 3))) cprintf(CFILE *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int put = cvprintf(f, format, args);
    va_end(args);
    return put;
}

#ifdef __cplusplus
}
#endif

#endif
