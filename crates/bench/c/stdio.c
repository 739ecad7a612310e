/*
 * Table 3.2 of Synthesis today: putchar a million times, by the C library's macro without a lock, its function with one, and chappe's
 * cputc, inline and as a function; and the bytes of code that one call takes where it is used. Rounds are interleaved.
 * And section 7.4.1: a number with three places, by the C library and by fixed-point arithmetic.
 */
#include <chappe/stdio.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 1000000
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
        for (int c = 0; c < CALLS; c++)                                                                                               \
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

static volatile double number = 1234.5678;

ONE(fprintf, fprintf(theirs, "%.3f\n", number + c))
ONE(cprintf, cprintf(ours, "%.3f\n", number + c))
ONE(cput_fixed, cput_fixed(number + c, 3, ours))

static struct row numbers[] = {ROW(fprintf), ROW(cprintf), ROW(cput_fixed)};

/* Rounds of rows in turns, each row so many calls a round. */
static void measure(const char *title, struct row *rows, size_t n)
{
    printf("%s\n  %-16s %10s %10s %10s %14s\n", title, "", "median", "minimum", "to the first", "bytes a call");
    for (int round = -1; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) {
            double begun = now();
            rows[i].many();
            if (round >= 0)
                rows[i].took[round] = (now() - begun) / CALLS;
        }
    double base = 0;
    for (size_t i = 0; i < n; i++) {
        qsort(rows[i].took, ROUNDS, sizeof(double), less);
        double median = rows[i].took[ROUNDS / 2];
        if (i == 0)
            base = median;
        printf("  %-16s %7.2f ns %7.2f ns %11.2fx %14td\n", rows[i].name, median, rows[i].took[0], median / base,
               rows[i].end - rows[i].begin);
    }
}

int main(void)
{
    theirs = fdopen(open("/dev/null", O_WRONLY), "w");
    ours = cfdopen(open("/dev/null", O_WRONLY), "w", CBLOCK);
    static char buffer[1 << 16];
    if (!theirs || !ours || setvbuf(theirs, buffer, _IOFBF, sizeof buffer))
        return 1;
    measure("a byte into a stream, /dev/null, buffers of 64 KiB (Synthesis, table 3.2)", rows, sizeof rows / sizeof *rows);
    measure("a number with three places into a stream (Synthesis, 7.4.1)", numbers, sizeof numbers / sizeof *numbers);
    return 0;
}
