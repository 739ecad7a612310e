/*
 * What programs for Plan 9's thread library use of its C library, in the place of u.h and libc.h: types, print and its kin, ARGBEGIN, errors, and calls
 * whose Linux namesakes take other arguments. Not the whole of it: no bio, no runes, no namespaces.
 *
 *     #include <chappe/libc9.h>
 *     #include <chappe/thread.h>
 *
 * print(2): verbs d o x X b e E f g G c C s q p r and %; flags - + space # 0 , u h l ll; width and precision, which may be *. print writes at
 * once, past stdio. %r is the last error: werrstr's, if it was the last to set one, else what errno says.
 *
 * The names are Plan 9's. Those that Linux has too (dup, sleep, ...) are macros here.
 */
#ifndef CHAPPE_LIBC9_H
#define CHAPPE_LIBC9_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "plan9.h"
/* Its main is for the program that includes it. */
#define CHAPPE_THREAD_PARTS
#include "thread.h"
#undef CHAPPE_THREAD_PARTS

#ifdef __cplusplus
extern "C" {
#endif

/* sys/types.h may have some of these names: as macros they are in nobody's way. */
typedef signed char chappe_schar;
typedef unsigned char chappe_uchar;
typedef unsigned short chappe_ushort;
typedef unsigned int chappe_uint;
typedef unsigned long chappe_ulong;
typedef long long chappe_vlong;
typedef unsigned long long chappe_uvlong;
#define schar chappe_schar
#define uchar chappe_uchar
#define ushort chappe_ushort
#define uint chappe_uint
#define ulong chappe_ulong
#define vlong chappe_vlong
#define uvlong chappe_uvlong
#define u8int uint8_t
#define u16int uint16_t
#define u32int uint32_t
#define u64int uint64_t
#define s8int int8_t
#define s16int int16_t
#define s32int int32_t
#define s64int int64_t
#define uintptr uintptr_t

#ifdef __cplusplus
#define nil 0
#else
#define nil ((void *)0)
#endif
#define nelem(x) (sizeof(x) / sizeof((x)[0]))
#define USED(x) ((void)(x))
#define SET(x) ((x) = 0)
/* plan9port's headers name the library that has what they declare. */
#define AUTOLIB(library)

/* Modes of open and create. */
#define OREAD O_RDONLY
#define OWRITE O_WRONLY
#define ORDWR O_RDWR
#define OEXEC O_RDONLY
#define OTRUNC O_TRUNC
#define OCEXEC O_CLOEXEC
#define OEXCL O_EXCL
#define ERRMAX 128

/** The program's name, which ARGBEGIN sets. */
extern char *argv0;
__attribute__((weak)) char *argv0;

/*
 * ARGBEGIN { case 'o': file = EARGF(usage()); break; default: usage(); } ARGEND: options of one letter, each with an argument of its own behind it or
 * in the next word. -- ends them, and so does a word without -, or - alone. Then argc and argv are what is left.
 */
#define ARGBEGIN                                                                                                                      \
    for ((void)(argv0 || (argv0 = *argv)), argv++, argc--; argv[0] && argv[0][0] == '-' && argv[0][1]; argc--, argv++) {            \
        char *chappe_rest = &argv[0][1], *chappe_word;                                                                                \
        int chappe_letter = 0;                                                                                                        \
        if (chappe_rest[0] == '-' && chappe_rest[1] == 0) {                                                                           \
            argc--;                                                                                                                   \
            argv++;                                                                                                                   \
            break;                                                                                                                    \
        }                                                                                                                             \
        (void)chappe_word;                                                                                                            \
        while (*chappe_rest && (chappe_letter = *chappe_rest++) != 0)                                                                 \
            switch (chappe_letter)
#define ARGEND }
#define ARGF() \
    (chappe_word = chappe_rest, chappe_rest = (char *)(size_t)"", *chappe_word ? chappe_word : argv[1] ? (argc--, *++argv) : (char *)nil)
#define EARGF(otherwise) \
    (chappe_word = chappe_rest, chappe_rest = (char *)(size_t)"", \
     *chappe_word ? chappe_word : argv[1] ? (argc--, *++argv) : ((otherwise), abort(), (char *)nil))
#define ARGC() chappe_letter

/** Sets the error string of the calling thread, which %r prints; werrstr formats it. */
void chappe_werrstr(const char *text);

/** What print makes of a format, in memory of malloc's. */
static inline char *vsmprint(const char *format, va_list ap)
{
    return chappe_made(format, ap);
}

static inline char *smprint(const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    return text;
}

/** The same to a descriptor, at once: how many bytes, or -1. */
static inline int vfprint(int fd, const char *format, va_list ap)
{
    char *text = chappe_made(format, ap);
    size_t len = text ? strlen(text) : 0, at = 0;
    while (at < len) {
        ssize_t some = write(fd, text + at, len - at);
        if (some < 0) {
            free(text);
            return -1;
        }
        at += (size_t)some;
    }
    free(text);
    return (int)len;
}

static inline int fprint(int fd, const char *format, ...)
{
    int made;
    va_list ap;
    va_start(ap, format);
    made = vfprint(fd, format, ap);
    va_end(ap);
    return made;
}

static inline int print(const char *format, ...)
{
    int made;
    va_list ap;
    va_start(ap, format);
    made = vfprint(1, format, ap);
    va_end(ap);
    return made;
}

/** The same into memory up to e: where its end, a 0, is. */
static inline char *vseprint(char *buf, char *e, const char *format, va_list ap)
{
    char *text;
    size_t len, room;
    if (buf >= e)
        return buf;
    text = chappe_made(format, ap);
    len = text ? strlen(text) : 0;
    room = (size_t)(e - buf) - 1;
    if (len > room)
        len = room;
    if (len)
        memcpy(buf, text, len);
    buf[len] = 0;
    free(text);
    return buf + len;
}

static inline char *seprint(char *buf, char *e, const char *format, ...)
{
    char *end;
    va_list ap;
    va_start(ap, format);
    end = vseprint(buf, e, format, ap);
    va_end(ap);
    return end;
}

static inline int vsnprint(char *buf, int len, const char *format, va_list ap)
{
    return len <= 0 ? 0 : (int)(vseprint(buf, buf + len, format, ap) - buf);
}

static inline int snprint(char *buf, int len, const char *format, ...)
{
    int made;
    va_list ap;
    va_start(ap, format);
    made = vsnprint(buf, len, format, ap);
    va_end(ap);
    return made;
}

/** The same, and the caller sees to the room. */
static inline int sprint(char *buf, const char *format, ...)
{
    char *text;
    size_t len;
    CHAPPE_MAKES(text, format);
    len = text ? strlen(text) : 0;
    memcpy(buf, text ? text : "", len + 1);
    free(text);
    return (int)len;
}

static inline void werrstr(const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    chappe_werrstr(text);
    free(text);
}

/** The error string. */
static inline void rerrstr(char *buf, unsigned int len)
{
    snprint(buf, (int)len, "%r");
}

/** The error string for buf, and buf for the error string. */
static inline int errstr(char *buf, unsigned int len)
{
    char *old = smprint("%r");
    chappe_werrstr(buf);
    snprint(buf, (int)len, "%s", old);
    free(old);
    return 0;
}

/** Ends the program. */
static inline void exits(const char *status) __attribute__((noreturn));

static inline void exits(const char *status)
{
    chappe_threadexitsall(status);
}

/** Prints the program's name and a text, and ends the program. */
static inline void sysfatal(const char *format, ...) __attribute__((noreturn));

static inline void sysfatal(const char *format, ...)
{
    char *text;
    CHAPPE_MAKES(text, format);
    fprint(2, "%s: %s\n", argv0 ? argv0 : "program", text);
    exits("fatal");
}

/*
 * Notes, for a program with one handler: see threadnotify, which has the same notes, and allows a handler the same. atnotify is threadnotify.
 */
#define NCONT 0
#define NDFLT 1
#define atnotify threadnotify

/* Where noted goes back to, and with what. */
struct chappe_noted {
    jmp_buf to;
    volatile int what;
};
extern __thread struct chappe_noted *chappe_noted;
__attribute__((weak)) __thread struct chappe_noted *chappe_noted;
extern void (*volatile chappe_notified)(void *, char *);
__attribute__((weak)) void (*volatile chappe_notified)(void *, char *);

/** Ends the handler that calls it. NCONT: the program goes on; NDFLT: it does what it would do without a handler. */
static inline void noted(int what) __attribute__((noreturn));

static inline void noted(int what)
{
    chappe_noted->what = what;
    longjmp(chappe_noted->to, 1);
}

int chappe_notify_one(void *context, char *note);

/* Weak, as the variables are: one for all files of a program. */
__attribute__((weak)) int chappe_notify_one(void *context, char *note)
{
    void (*f)(void *, char *) = chappe_notified;
    struct chappe_noted here, *volatile before = chappe_noted;
    here.what = NDFLT;
    chappe_noted = &here;
    if (f && setjmp(here.to) == 0)
        f(context, note);
    chappe_noted = before;
    return here.what == NCONT;
}

/** Sets the handler of all procs, in the place of the one before; nil: none. It ends with noted; if it returns, that is noted(NDFLT). 0. */
static inline int notify(void (*f)(void *, char *))
{
    chappe_threadnotify(chappe_notify_one, 0);
    chappe_notified = f;
    return f && !chappe_threadnotify(chappe_notify_one, 1) ? -1 : 0;
}

/** Zeroed memory, if clear. */
static inline void *mallocz(unsigned long n, int clear)
{
    return clear ? calloc(1, n ? n : 1) : malloc(n);
}

static inline void setmalloctag(void *p, uintptr_t tag)
{
    (void)p;
    (void)tag;
}

/** Copies a string up to e: where its end is. */
static inline char *strecpy(char *to, char *e, const char *from)
{
    return seprint(to, e, "%s", from);
}

/** Creates a file, or truncates it. */
static inline int create(const char *file, int mode, unsigned int perm)
{
    return open(file, mode | O_CREAT | O_TRUNC, (mode_t)(perm & 0777));
}

static inline long long seek(int fd, long long n, int type)
{
    return (long long)lseek(fd, (off_t)n, type);
}

static inline long readn(int fd, void *buf, long n)
{
    long done = 0;
    while (done < n) {
        ssize_t some = read(fd, (char *)buf + done, (size_t)(n - done));
        if (some <= 0)
            return done > 0 ? done : (long)some;
        done += (long)some;
    }
    return done;
}

/** Nanoseconds since 1970. */
long long chappe_nsec(void);

/** Sleeps so many milliseconds, and blocks the proc: 0; -1 if it was interrupted. */
int chappe_sleep(long ms);

static inline int chappe_dup(int old, int fd)
{
    return fd < 0 ? dup(old) : dup2(old, fd);
}

/** A number from 0 to n - 1. */
static inline int nrand(int n)
{
    return n > 0 ? (int)(rand() % n) : 0;
}

static inline long lrand(void)
{
    return rand();
}

static inline double frand(void)
{
    return rand() / (RAND_MAX + 1.0);
}

#define dup chappe_dup
#define nsec chappe_nsec
#define sleep chappe_sleep

#ifdef __cplusplus
}
#endif

#endif
