/* A program of one thread with a pipe within itself: so both of its ends are this process' alone, and what the library makes of them depends on
   nobody else. It names no variable of the C library's, so that without -pie it exports nothing. Each way of its ends in a line, which tells among
   other things whether the pipe has a lane: "begun" by its writer alone, if memory of the run's is mapped; "lane", if its reader has joined and
   removed the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes that a displacement has by chance may look like a system call's instruction, for which the program would be left alone. */
#ifndef PAD
#define PAD 0
#endif
__attribute__((used)) static void pad(void)
{
    __asm__ volatile(".skip %c0, 0x90" ::"i"(PAD));
}

enum { ENOUGH = 20000, MOST = 1200000, BLOCK = 4096, PIPE = 16 };

static int ends[2];
static char block[BLOCK];
static volatile int signals;

static const char *lane(void)
{
    static char line[4096];
    const char *said = getenv("CHAPPE_RUN_IO");
    const char *folder = said ? strchr(said, '/') : NULL;
    FILE *maps = folder ? fopen("/proc/self/maps", "r") : NULL;
    const char *answer = "none";
    while (maps && fgets(line, sizeof line, maps)) {
        const char *file = strchr(line, '/');
        size_t len = strlen(folder);
        /* The pipe's number. This program is in the folder, too. */
        if (file && strncmp(file, folder, len) == 0 && file[len] == '/' && file[len + 1] >= '0' && file[len + 1] <= '9')
            answer = strchr(file, '(') ? "lane" : "begun";
    }
    if (maps)
        fclose(maps);
    return answer;
}

static void rounds(int count)
{
    while (count-- > 0)
        if (write(ends[1], "x", 1) != 1 || read(ends[0], block, 1) != 1)
            _exit(1);
}

/* Longer where the first looks at the other processes tell nothing. */
static void until_lane(void)
{
    for (int done = 0; done < MOST && strcmp(lane(), "lane") != 0; done += ENOUGH)
        rounds(ENOUGH);
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, NULL);
}

static void count(int signal)
{
    (void)signal;
    signals++;
}

/* Comes while main is in a call that sleeps, which the kernel begins again behind this. */
static void in_read(int signal)
{
    (void)signal;
    rounds(ENOUGH);
    printf("%s\n", lane());
    fflush(NULL);
    write(ends[1], "m", 1);
}

static void in_write(int signal)
{
    (void)signal;
    for (int done = 0; done < PIPE; done++)
        read(ends[0], block, BLOCK);
    rounds(ENOUGH);
    printf("%s\n", lane());
    fflush(NULL);
}

static void interrupted_read(void)
{
    char got = 0;
    pipe(ends);
    handle(SIGUSR1, in_read);
    puts("ready");
    fflush(NULL);
    ssize_t moved = read(ends[0], &got, 1);
    until_lane();
    printf("%zd %c %s\n", moved, got, lane());
}

static void interrupted_write(void)
{
    static char own[BLOCK];
    ssize_t moved = 0;
    pipe(ends);
    handle(SIGUSR1, in_write);
    for (int done = 0; done < PIPE; done++)
        write(ends[1], block, BLOCK);
    puts("ready");
    fflush(NULL);
    moved = write(ends[1], memset(own, 'm', BLOCK), BLOCK);
    ssize_t back = read(ends[0], block, BLOCK);
    int right = block[0] == 'm' && block[BLOCK - 1] == 'm';
    until_lane();
    printf("%zd %zd %d %s\n", moved, back, right, lane());
}

static void asked_for_signals(int end)
{
    pipe(ends);
    handle(SIGIO, count);
    fcntl(ends[end], F_SETOWN, getpid());
    fcntl(ends[end], F_SETFL, O_ASYNC);
    rounds(ENOUGH);
    /* One for each write; how many reads free room that is waited for is the kernel's. The other end may have begun what nobody joins. */
    if (end == 0)
        printf("%d\n", signals);
    else
        puts(lane());
}

/* How many numbers are free. */
static int fill(void)
{
    int last = -1;
    for (int got; (got = open("/dev/null", O_RDONLY)) >= 0;)
        last = got;
    return last;
}

/* In a process that may have few descriptors. */
static void no_number_left(void)
{
    static char got[32];
    struct iovec piece = {"writev", 6};
    pipe(ends);
    int second = dup(ends[1]);
    until_lane();
    const char *had = lane();
    write(ends[1], "first ", 6);
    int last = fill();
    ssize_t vector = writev(ends[1], &piece, 1);
    int why = vector < 0 ? errno : 0;
    ssize_t by_second = write(second, "second", 6);
    int why_second = by_second < 0 ? errno : 0;
    close(last);
    by_second = write(second, "second", 6);
    read(ends[0], got, 12);
    printf("%s %d %d %zd %s\n", had, why == EMFILE, why_second == EMFILE, by_second, got);
}

static void number_of_another_file(const char *path)
{
    static char got[32];
    pipe(ends);
    until_lane();
    const char *had = lane();
    int file = open(path, O_RDWR | O_CREAT, 0600);
    write(ends[1], "first", 5);
    int last = fill();
    dup2(file, ends[1]);
    close(last);
    poll(NULL, 0, 0);
    ssize_t moved = read(ends[0], got, 5);
    printf("%s %ld %zd %s\n", had, (long)lseek(file, 0, SEEK_END), moved, got);
}

int main(int count_of, char **words)
{
    const char *way = count_of > 1 ? words[1] : "";
#ifdef STARTS
    if (count_of > 9)
        system("true");
#endif
    if (strcmp(way, "lane") == 0) {
        pipe(ends);
        until_lane();
        puts(lane());
    } else if (strcmp(way, "enough") == 0) {
        pipe(ends);
        rounds(ENOUGH);
        puts(lane());
    } else if (strcmp(way, "own") == 0) {
        pipe(ends);
        rounds(300);
        puts(lane());
    } else if (strcmp(way, "handles") == 0) {
        handle(SIGUSR1, count);
        pipe(ends);
        rounds(ENOUGH);
        puts(lane());
    } else if (strcmp(way, "read") == 0) {
        interrupted_read();
    } else if (strcmp(way, "write") == 0) {
        interrupted_write();
    } else if (strcmp(way, "reader") == 0) {
        asked_for_signals(0);
    } else if (strcmp(way, "writer") == 0) {
        asked_for_signals(1);
    } else if (strcmp(way, "full") == 0) {
        no_number_left();
    } else if (strcmp(way, "closed") == 0 && count_of > 2) {
        number_of_another_file(words[2]);
    } else {
        return 2;
    }
    return 0;
}
