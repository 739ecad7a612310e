/*
 * Table 3.2 of Synthesis today: putchar ten million times, by the C library's macro without a lock, its function with one, and chappe's
 * cputc, inline and as a function; and the bytes of code that one call takes where it is used. Rounds are interleaved.
 */
#include <chappe/stdio.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BYTES 10000000
#define ROUNDS 11

static FILE *theirs;
static CFILE *ours;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Each alone in a section of its own, whose length is that of its code. */
#define ONE(name, call)                                                                                                               \
    extern const char __start_code_##name[], __stop_code_##name[];                                                                    \
    __attribute__((noinline, section("code_" #name))) int once_##name(int c)                                                          \
    {                                                                                                                                 \
        return call;                                                                                                                  \
    }                                                                                                                                 \
    static void many_##name(void)                                                                                                     \
    {                                                                                                                                 \
        for (int c = 0; c < BYTES; c++)                                                                                               \
            call;                                                                                                                     \
    }

ONE(putc, putc(c, theirs))
ONE(putc_unlocked, putc_unlocked(c, theirs))
ONE(cputc, cputc(c, ours))
ONE(chappe_cputc, chappe_cputc(c, ours))

#define ROW(name) {#name, many_##name, __start_code_##name, __stop_code_##name, {0}}

static struct row {
    const char *name;
    void (*many)(void);
    const char *begin, *end;
    double took[ROUNDS];
} rows[] = {ROW(putc), ROW(putc_unlocked), ROW(cputc), ROW(chappe_cputc)};

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    size_t n = sizeof rows / sizeof rows[0];
    theirs = fdopen(open("/dev/null", O_WRONLY), "w");
    ours = cfdopen(open("/dev/null", O_WRONLY), "w", CBLOCK);
    static char buffer[1 << 16];
    if (!theirs || !ours || setvbuf(theirs, buffer, _IOFBF, sizeof buffer))
        return 1;
    for (int round = -1; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) {
            double begun = now();
            rows[i].many();
            if (round >= 0)
                rows[i].took[round] = (now() - begun) / BYTES;
        }
    printf("a byte into a stream, /dev/null, buffers of 64 KiB (Synthesis, table 3.2)\n");
    printf("  %-16s %10s %10s %10s %14s\n", "", "median", "minimum", "to putc", "bytes a call");
    double base = 0;
    for (size_t i = 0; i < n; i++) {
        qsort(rows[i].took, ROUNDS, sizeof(double), less);
        double median = rows[i].took[ROUNDS / 2];
        if (i == 0)
            base = median;
        printf("  %-16s %7.2f ns %7.2f ns %9.2fx %14zd\n", rows[i].name, median, rows[i].took[0], median / base,
               rows[i].end - rows[i].begin);
    }
    return 0;
}
