/* chappe/stdio.h: each call, each buffering, bad input, errors that lose nothing, fork and exit. */
#include <chappe/stdio.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>

#include "check.h"

#define SAYS(call, error)                                                                                                             \
    do {                                                                                                                              \
        errno = 0;                                                                                                                    \
        IS(call, -1);                                                                                                                 \
        IS(errno, error);                                                                                                             \
        CHECK(strlen(chappe_last_error()) > 5);                                                                                       \
    } while (0)

static int ends[2];

static void pipe_of(int room)
{
    OK(pipe2(ends, O_NONBLOCK));
    if (room)
        CHECK(fcntl(ends[1], F_SETPIPE_SZ, room) >= room);
}

static long waiting(void)
{
    static char sink[1 << 20];
    long all = 0, n;
    while ((n = read(ends[0], sink, sizeof sink)) > 0)
        all += n;
    return all;
}

static void a_block_is_written_when_it_is_full(void)
{
    pipe_of(1 << 18);
    CFILE *f = cfdopen(ends[1], "w", CBLOCK);
    for (int i = 0; i < 65535; i++)
        IS(cputc(i, f), i & 0xff);
    IS(waiting(), 0);
    IS(cputc('x', f), 'x');
    IS(waiting(), 65536);
    IS(chappe_cputc('\n', f), '\n');
    IS(waiting(), 0);
    OK(cflush(f));
    IS(waiting(), 1);
    static char many[200000];
    IS(cwrite(many, sizeof many, f), (long)sizeof many);
    IS(waiting(), 3 * 65536);
    OK(cclose(f));
    IS(waiting(), (long)sizeof many - 3 * 65536);
    close(ends[0]);
}

static void a_line_is_written_at_its_end_and_none_at_once(void)
{
    pipe_of(0);
    CFILE *f = cfdopen(ends[1], "w", CLINE);
    IS(cputc('a', f), 'a');
    IS(cwrite("bc", 2, f), 2);
    IS(waiting(), 0);
    IS(cputc('\n', f), '\n');
    IS(waiting(), 4);
    IS(cputc('d', f), 'd');
    OK(cclose(f));
    IS(waiting(), 1);
    close(ends[0]);
    pipe_of(0);
    f = cfdopen(ends[1], "a", CNONE);
    IS(cputc(255, f), 255);
    IS(waiting(), 1);
    OK(cclose(f));
    close(ends[0]);
}

static void bytes_read_are_the_bytes_written(void)
{
    pipe_of(1 << 18);
    static unsigned char many[150000], back[150000];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (unsigned char)(i * 7);
    IS(write(ends[1], many, sizeof many), (long)sizeof many);
    CFILE *f = cfdopen(ends[0], "r", CBLOCK);
    IS(cgetc(f), many[0]);
    IS(cungetc(many[0], f), many[0]);
    IS(chappe_cgetc(f), many[0]);
    IS(cread(back, 100000, f), 100000);
    OK(memcmp(back, many + 1, 100000));
    for (size_t i = 100001; i < sizeof many; i++)
        IS(cgetc(f), many[i]);
    SAYS(cgetc(f), EAGAIN);
    IS(cerror(f), EAGAIN);
    IS(ceof(f), 0);
    close(ends[1]);
    IS(cgetc(f), -1);
    IS(ceof(f), 1);
    cclearerr(f);
    IS(ceof(f) + cerror(f), 0);
    SAYS(chappe_cputc('x', f), EBADF);
    SAYS(cflush(f), EBADF);
    OK(cclose(f));
    /* Byte by byte: the rest is left to others. */
    pipe_of(0);
    IS(write(ends[1], "abc", 3), 3);
    f = cfdopen(ends[0], "r", CNONE);
    IS(cgetc(f), 'a');
    IS(waiting(), 2);
    OK(cclose(f));
    close(ends[1]);
}

static void an_error_loses_nothing(void)
{
    pipe_of(4096);
    CFILE *f = cfdopen(ends[1], "w", CBLOCK);
    long taken = 0, got = 0;
    while (cputc('z', f) == 'z')
        taken++;
    IS(errno, EAGAIN);
    IS(cerror(f), EAGAIN);
    SAYS(cputc('z', f), EAGAIN);
    while ((got += waiting()) < taken)
        if (cflush(f) < 0)
            IS(errno, EAGAIN);
    IS(got, taken);
    OK(cclose(f));
    close(ends[0]);
    /* Nobody reads. */
    signal(SIGPIPE, SIG_IGN);
    pipe_of(0);
    f = cfdopen(ends[1], "w", CLINE);
    close(ends[0]);
    IS(cputc('y', f), 'y');
    SAYS(cflush(f), EPIPE);
    SAYS(cclose(f), EPIPE);
    /* The disk is full. */
    int full = open("/dev/full", O_WRONLY);
    f = cfdopen(full, "w", CNONE);
    SAYS(cputc('y', f), ENOSPC);
    OK(cclose(f));
}

static CFILE *kept;

static void child_exits(void)
{
    IS(cputc('C', kept), 'C');
    exit(0);
}

static void a_child_writes_its_own_and_exit_writes_it_out(void)
{
    pipe_of(0);
    kept = cfdopen(ends[1], "w", CBLOCK);
    IS(cputc('P', kept), 'P');
    ended_well(child(child_exits));
    char said[4] = {0};
    IS(read(ends[0], said, sizeof said), 1);
    IS(said[0], 'C');
    OK(cclose(kept));
    IS(read(ends[0], said, sizeof said), 1);
    IS(said[0], 'P');
    close(ends[0]);
}

static void bad_input_is_refused(void)
{
    IS((long)cfdopen(0, NULL, CBLOCK), 0);
    IS(errno, EINVAL);
    IS((long)cfdopen(0, "x", CBLOCK), 0);
    IS(errno, EINVAL);
    IS((long)cfdopen(0, "r", 3), 0);
    IS(errno, EINVAL);
    IS((long)cfdopen(-1, "r", CBLOCK), 0);
    IS(errno, EBADF);
    SAYS(cflush(NULL), EINVAL);
    SAYS(cclose(NULL), EINVAL);
    pipe_of(0);
    CFILE *f = cfdopen(ends[1], "w", CBLOCK);
    SAYS(chappe_cgetc(f), EBADF);
    SAYS(cungetc('x', f), EBADF);
    IS(cwrite(NULL, 1, f), 0);
    IS(errno, EINVAL);
    OK(cclose(f));
    close(ends[0]);
}

/* What came through the pipe since. */
static const char *came(CFILE *f)
{
    static char text[8192];
    OK(cflush(f));
    ssize_t bytes = read(ends[0], text, sizeof text - 1);
    text[bytes < 0 ? 0 : bytes] = 0;
    return text;
}

/* cprintf puts what snprintf writes, and counts it. */
#define ALIKE(...)                                                                                                                    \
    do {                                                                                                                              \
        char wanted[8192];                                                                                                            \
        int bytes = snprintf(wanted, sizeof wanted, __VA_ARGS__);                                                                     \
        IS(cprintf(f, __VA_ARGS__), bytes);                                                                                           \
        const char *text = came(f);                                                                                                   \
        if (strcmp(text, wanted))                                                                                                     \
            fprintf(stderr, "%s, not %s\n", text, wanted);                                                                            \
        CHECK(!strcmp(text, wanted));                                                                                                 \
    } while (0)

static void numbers_are_printed_as_the_c_library_prints_them(void)
{
    pipe_of(1 << 16);
    CFILE *f = cfdopen(ends[1], "w", CBLOCK);
    double values[] = {0.0, -0.0, 0.5, 1.5, 2.675, 9.9996, 1e-9, 123456.789, -1e15, 1e22, 3e35, 1e300, 5e-324, HUGE_VAL, -HUGE_VAL, NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double x = values[i];
        ALIKE("%f", x);
        ALIKE("<%.0f|%.3f|%.9f>", x, -x, x / 3);
        ALIKE("%12.3f %-9.1f| %+.2f %g %e %.12f %.40f", x, x, x, x, x, x, x);
        for (int places = 0; places < 30; places++) {
            char wanted[512];
            IS(cput_fixed(x, places, f), snprintf(wanted, sizeof wanted, "%.*f", places, x));
            CHECK(!strcmp(came(f), wanted));
        }
    }
    ALIKE("%d %d %u %ld %ld %lu %zd %zu", INT_MIN, INT_MAX, UINT_MAX, LONG_MIN, LONG_MAX, ULONG_MAX, (ssize_t)-7, SIZE_MAX);
    ALIKE("100%% %c%s%s", 'x', "", "text");
    ALIKE("%5d|%-5s|%x|%p|%hhd|%*d|%Lf", 7, "ab", 255u, (void *)f, 300, 4, 5, 1.5L);
    char long_text[4000];
    memset(long_text, 'y', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    ALIKE("%s", long_text);
    ALIKE("%4100s", long_text);
    IS(cprintf(f, "%.0f", 1.0), 1);
    OK(cclose(f));
    close(ends[0]);
    /* No room, no stream, the other direction. */
    f = cfdopen(open("/dev/full", O_WRONLY), "w", CNONE);
    SAYS(cprintf(f, "%d", 1), ENOSPC);
    SAYS(cprintf(f, "%5d", 1), ENOSPC);
    OK(cclose(f));
    SAYS(cprintf(NULL, "%.2f", 1.0), EINVAL);
    f = cfdopen(open("/dev/null", O_RDONLY), "r", CBLOCK);
    SAYS(cput_fixed(1.0, 2, f), EBADF);
    OK(cclose(f));
}

int main(void)
{
    numbers_are_printed_as_the_c_library_prints_them();
    a_block_is_written_when_it_is_full();
    a_line_is_written_at_its_end_and_none_at_once();
    bytes_read_are_the_bytes_written();
    an_error_loses_nothing();
    a_child_writes_its_own_and_exit_writes_it_out();
    bad_input_is_refused();
    return 0;
}
