/* Random calls on pipes and their descriptors, from a seed, within one process that never sleeps in them. What each answers, and what it reads, goes
   into one number, which is told now and then: it has to be the same with the library and without. A pipe never holds more than it can with either: so how much
   room it has is not told, nor how many calls it takes to read what there is. Most calls are read and write, and pipes are made anew: so many have lanes at first, and leave them in all ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef PAD
#define PAD 0
#endif
__attribute__((used)) static void pad(void)
{
    __asm__ volatile(".skip %c0, 0x90" ::"i"(PAD));
}

enum { PIPES = 4, COPIES = 3, MOST = 24576, BLOCK = 9000, EVERY = 1000 };

/* Descriptors of both ends, -1 where there is none, and how many bytes are within. */
static struct {
    int fd[2][COPIES];
    long held;
} pipes[PIPES];
static uint64_t state, sum = 14695981039346656037u;
static unsigned char block[BLOCK];
static int in_handler;

static unsigned below(unsigned limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % limit);
}

static void tell(long what)
{
    sum = (sum ^ (uint64_t)what) * 1099511628211u;
}

static long told(long result)
{
    tell(result);
    tell(result < 0 ? errno : 0);
    return result;
}

static void fill(size_t len)
{
    for (size_t i = 0; i < len; i++)
        block[i] = (unsigned char)below(256);
}

static void tell_block(long len)
{
    for (long i = 0; i < len; i++)
        tell(block[i]);
}

static int any(int pipe, int end)
{
    return pipes[pipe].fd[end][below(COPIES)];
}

static void make(int at)
{
    int both[2];
    for (int end = 0; end < 2; end++)
        for (int copy = 0; copy < COPIES; copy++)
            if (pipes[at].fd[end][copy] >= 0)
                close(pipes[at].fd[end][copy]);
    told(pipe2(both, O_NONBLOCK));
    for (int end = 0; end < 2; end++)
        for (int copy = 0; copy < COPIES; copy++)
            pipes[at].fd[end][copy] = copy == 0 ? both[end] : -1;
    pipes[at].held = 0;
}

static void do_write(int at, int by_vector)
{
    /* Mostly small, sometimes more than is written whole. */
    long len = below(10) ? 1 + below(64) : 1 + below(BLOCK - 1);
    int fd = below(8) ? pipes[at].fd[1][0] : any(at, 1);
    if (fd < 0 || pipes[at].held + len > MOST)
        return;
    fill(len);
    struct iovec pieces[2] = {{block, len / 2}, {block + len / 2, len - len / 2}};
    long moved = told(by_vector ? writev(fd, pieces, 2) : write(fd, block, len));
    if (moved > 0)
        pipes[at].held += moved;
}

static void do_read(int at, int by_vector)
{
    long len = below(10) ? 1 + below(80) : 1 + below(BLOCK - 1);
    int fd = below(8) ? pipes[at].fd[0][0] : any(at, 0);
    if (fd < 0)
        return;
    struct iovec pieces[2] = {{block, len / 2}, {block + len / 2, len - len / 2}};
    long moved = by_vector ? readv(fd, pieces, 2) : read(fd, block, len), more = moved;
    /* Where some bytes are the kernel's and some in memory it takes two to have all. */
    while (!by_vector && more > 0 && moved < len && (more = read(fd, block + moved, len - moved)) > 0)
        moved += more;
    told(moved);
    if (moved > 0) {
        tell_block(moved);
        pipes[at].held -= moved;
    }
}

static void handle(int signal)
{
    (void)signal;
    in_handler = 1;
    for (int i = 0; i < 3; i++) {
        do_write(below(PIPES), 0);
        do_read(below(PIPES), 0);
    }
    in_handler = 0;
}

/* What is done seldom, to this pipe. */
static void seldom(int at)
{
    struct pollfd asked[2] = {{any(at, 0), POLLIN, 0}, {any(at, 1), POLLOUT, 0}};
    int end = below(2), fd = any(at, end), copy = below(COPIES), count = -1, other = below(PIPES);
    struct stat facts;
    switch (below(14)) {
    case 0:
        told(poll(asked, 2, 0));
        tell(asked[0].revents << 16 | asked[1].revents);
        break;
    case 1:
        do_write(at, 1);
        break;
    case 2:
        do_read(at, 1);
        break;
    case 3:
        if (fd >= 0) {
            told(ioctl(fd, FIONREAD, &count));
            tell(count);
        }
        break;
    case 4:
    case 5:
        if (fd >= 0 && pipes[at].fd[end][copy] < 0)
            pipes[at].fd[end][copy] = told(dup(fd)) >= 0 ? dup(fd) : -1;
        break;
    case 6:
        if (fd >= 0 && pipes[at].fd[end][copy] >= 0)
            told(dup2(fd, pipes[at].fd[end][copy]));
        break;
    case 7:
        if (pipes[at].fd[end][copy] >= 0) {
            told(close(pipes[at].fd[end][copy]));
            pipes[at].fd[end][copy] = -1;
        }
        break;
    case 8:
        told(fcntl(fd, F_GETFL));
        break;
    case 9:
        told(fd >= 0 ? fcntl(fd, F_SETFL, O_NONBLOCK) : 0);
        break;
    case 10:
        told(lseek(fd, 0, SEEK_CUR));
        break;
    case 11:
        if (fd >= 0) {
            told(fstat(fd, &facts));
            tell(facts.st_mode);
        }
        break;
    case 12:
        /* To the writing end of another one, with room for it. */
        if (other != at && any(at, 0) >= 0 && pipes[other].held + 512 <= MOST) {
            int from = pipes[at].fd[0][0], to = pipes[other].fd[1][0];
            long moved = from < 0 || to < 0 ? 0 : told(splice(from, NULL, to, NULL, 512, SPLICE_F_NONBLOCK));
            if (moved > 0) {
                pipes[at].held -= moved;
                pipes[other].held += moved;
            }
        }
        break;
    default:
        raise(SIGUSR1);
    }
}

int main(int count_of, char **words)
{
    if (count_of < 3)
        return 2;
    state = strtoull(words[1], NULL, 10);
    long calls = strtol(words[2], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    memset(pipes, -1, sizeof pipes);
    for (int at = 0; at < PIPES; at++)
        make(at);
    signal(SIGUSR1, handle);
    for (long done = 0; done < calls; done++) {
        int at = below(PIPES);
        unsigned what = below(4000);
        if (what == 0)
            make(at);
        else if (what < 12)
            seldom(at);
        else if (what % 2)
            do_write(at, 0);
        else
            do_read(at, 0);
        if (done % EVERY == EVERY - 1)
            printf("%ld %016llx\n", done + 1, (unsigned long long)sum);
    }
    return 0;
}
