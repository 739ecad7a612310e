/*
 * A process that does what it is told with semaphores, and tells how long it took: one line each way.
 *
 *   pair KIND COUNT             a down and an up, one thread, nobody waits: nanoseconds of one
 *   pass KIND PROCESSORS COUNT  two that hand a wakeup to and fro, each asleep until it has it: nanoseconds there and back
 *
 *   ring shared TOKENS COUNT    16 processes, each of which waits for its own semaphore, works for 5 us, and posts another's, with so
 *                               many of them at work: nanoseconds from one post to the next
 *   names HOW MANY COUNT        what is done to a name where there are so many: nanoseconds of one (GLIBC). HOW: create; close; same, a
 *                               name that this process has open is opened and closed again; other, another process opens and closes
 *                               one that this one has made; unlink
 *
 * KIND: private (two threads), or shared (two processes). Which semaphores: GLIBC, CHAPPE (chappe.h) or NIX (chappe/nix.h) is defined.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined GLIBC
#include <fcntl.h>
#include <semaphore.h>
typedef sem_t *sem;
static sem make(int shared, int at, void *memory)
{
	sem s = (sem)memory + at;
	return sem_init(s, shared, 0) == 0 ? s : NULL;
}
static inline int down(sem s) { return sem_wait(s); }
static inline int up(sem s) { return sem_post(s); }
#elif defined CHAPPE
#include <chappe.h>
typedef chappe_semaphore *sem;
static sem make(int shared, int at, void *memory)
{
	static int number;
	sem s = NULL;
	char name[32];
	(void)memory;
	snprintf(name, sizeof name, "pair/s%d-%d", number++, at);
	if ((shared ? chappe_semaphore_create(name, 0, 0, &s) : chappe_semaphore_private(0, 0, &s)) < 0)
		return NULL;
	return s;
}
static inline int down(sem s) { return chappe_semaphore_down(s); }
static inline int up(sem s) { return chappe_semaphore_up(s); }
#elif defined NIX
#include <chappe/nix.h>
typedef Sem *sem;
static sem make(int shared, int at, void *memory)
{
	sem s = (sem)memory + at;
	(void)shared;
	initsem(s, 0);
	return s;
}
static inline int down(sem s) { return downsem(s, 1) - 1; }
static inline int up(sem s)
{
	upsem(s);
	return 0;
}
#else
#error which semaphores?
#endif

static void must(int is_so, const char *what)
{
	if (!is_so) {
		perror(what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pin(int processor)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

struct pass {
	sem there, back;
	long count;
	int processor;
};

/* The other one. */
static void *echo(void *p)
{
	struct pass *pass = p;
	long i;
	pin(pass->processor);
	for (i = 0; i < pass->count; i++) {
		must(down(pass->there) == 0, "down");
		must(up(pass->back) == 0, "up");
	}
	return NULL;
}

enum { RING = 16, WORK = 5000, FIRST = 3 };

/* One of the ring. */
static void turn(sem *ring, sem ready, int me, long count)
{
	long i;
	must(up(ready) == 0, "up");
	for (i = 0; i < count; i++) {
		double until;
		must(down(ring[me]) == 0, "down");
		until = now() + WORK;
		while (now() < until)
			continue;
		must(up(ring[(me + 5) % RING]) == 0, "up");
	}
}

/* What is left of the tokens goes with the next round's. */
static double go_round(sem *ring, sem ready, long tokens, long count)
{
	cpu_set_t all;
	double start;
	long i;
	CPU_ZERO(&all);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &all);
	must(sched_setaffinity(0, sizeof all, &all) == 0, "sched_setaffinity");
	for (i = 0; i < RING; i++) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid == 0) {
			turn(ring, ready, (int)i, count);
			_exit(0);
		}
	}
	for (i = 0; i < RING; i++)
		must(down(ready) == 0, "down");
	start = now();
	for (i = 0; i < tokens; i++)
		must(up(ring[i * RING / tokens]) == 0, "up");
	while (wait(NULL) > 0)
		continue;
	start = (now() - start) / (double)(count * RING);
	for (i = 0; i < tokens; i++)
		must(down(ring[i * RING / tokens]) == 0, "down");
	return start;
}

#if defined GLIBC
static const char *called(const char *what, long i)
{
	static char name[64];
	static pid_t maker;
	if (maker == 0)
		maker = getpid();
	snprintf(name, sizeof name, "/chappe-bench-%d-%s-%ld", maker, what, i);
	return name;
}

static sem_t *open_name(const char *what, long i, int flags)
{
	sem_t *s = sem_open(called(what, i), flags, 0600, 1);
	must(s != SEM_FAILED, "sem_open");
	return s;
}

static void close_name(sem_t *s) { must(sem_close(s) == 0, "sem_close"); }

static void make_names(const char *what, long count)
{
	long i;
	for (i = 0; i < count; i++)
		close_name(open_name(what, i, O_CREAT | O_EXCL));
}

static void unlink_names(const char *what, long count)
{
	long i;
	for (i = 0; i < count; i++)
		must(sem_unlink(called(what, i)) == 0, "sem_unlink");
}

/* Opens and closes all again. */
static double again(const char *what, long count)
{
	double start = now();
	long i;
	for (i = 0; i < count; i++)
		close_name(open_name(what, i, 0));
	return now() - start;
}

/* The same in another process, which has opened and closed one before. */
static double again_elsewhere(const char *what, long count)
{
	double took = 0;
	int ends[2];
	pid_t pid;
	called(what, 0);
	must(pipe(ends) == 0, "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		close_name(open_name(what, 0, 0));
		took = again(what, count);
		must(write(ends[1], &took, sizeof took) == sizeof took, "write");
		_exit(0);
	}
	must(read(ends[0], &took, sizeof took) == sizeof took && wait(NULL) == pid, "the other");
	must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
	return took;
}

static long there;

static double names(const char *how, long many, long count)
{
	sem_t **all = malloc((size_t)count * sizeof *all);
	double took[5], start;
	const char *hows[5] = {"create", "same", "other", "close", "unlink"};
	long i;
	int k;
	must(all != NULL, "memory");
	if (there != many) {
		unlink_names("there", there);
		make_names("there", many);
		there = many;
	}
	start = now();
	for (i = 0; i < count; i++)
		all[i] = open_name("more", i, O_CREAT | O_EXCL);
	took[0] = now() - start;
	took[1] = again("more", count);
	took[2] = again_elsewhere("more", count);
	start = now();
	for (i = 0; i < count; i++)
		close_name(all[i]);
	took[3] = now() - start;
	start = now();
	unlink_names("more", count);
	took[4] = now() - start;
	free(all);
	for (k = 0; k < 4 && strcmp(how, hows[k]) != 0; k++)
		continue;
	return took[k] / (double)count;
}
#endif

static void *idle(void *p)
{
	(void)p;
	for (;;)
		pause();
	return NULL;
}

int main(void)
{
	enum { WARM = 20 };
	char what[16], kind[16];
	long processors, count, i;
	void *memory[2];
	sem own[2], pairs[2][2], ring[RING], ready;
	pthread_t thread;
	int k;
	memory[0] = calloc(1, 4096);
	memory[1] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(memory[0] && memory[1] != MAP_FAILED, "memory");
	for (k = 0; k < 2; k++) {
		own[k] = make(k, 0, memory[k]);
		pairs[k][0] = make(k, 1, memory[k]);
		pairs[k][1] = make(k, 2, memory[k]);
		must(own[k] && pairs[k][0] && pairs[k][1], "make");
		must(up(own[k]) == 0, "up");
	}
	for (i = 0; i < RING; i++)
		must((ring[i] = make(1, FIRST + (int)i, memory[1])) != NULL, "make");
	must((ready = make(1, FIRST + RING, memory[1])) != NULL, "make");
	/* Programs that need semaphores have threads. */
	must(pthread_create(&thread, NULL, idle, NULL) == 0, "pthread_create");
	while (scanf("%15s %15s", what, kind) == 2) {
		double start = 0;
		k = strcmp(kind, "shared") == 0;
		if (strcmp(what, "ring") == 0 || strcmp(what, "names") == 0) {
			long many;
			must(scanf("%ld %ld", &many, &count) == 2, "count");
#if defined GLIBC
			if (*what == 'n') {
				printf("%.3f\n", names(kind, many, count));
				fflush(stdout);
				continue;
			}
#endif
			printf("%.3f\n", go_round(ring, ready, many, count));
			fflush(stdout);
			continue;
		}
		if (strcmp(what, "pair") == 0) {
			must(scanf("%ld", &count) == 1, "count");
			pin(0);
			for (i = -count / 4; i < count; i++) {
				if (i == 0)
					start = now();
				down(own[k]);
				up(own[k]);
			}
		} else {
			struct pass pass = {pairs[k][0], pairs[k][1], 0, 0};
			pid_t pid = 0;
			must(scanf("%ld %ld", &processors, &count) == 2, "count");
			pass.count = count + WARM;
			pass.processor = processors > 1;
			if (k) {
				pid = fork();
				must(pid >= 0, "fork");
				if (pid == 0) {
					echo(&pass);
					_exit(0);
				}
			} else {
				must(pthread_create(&thread, NULL, echo, &pass) == 0, "pthread_create");
			}
			pin(0);
			for (i = -WARM; i < count; i++) {
				if (i == 0)
					start = now();
				must(up(pass.there) == 0, "up");
				must(down(pass.back) == 0, "down");
			}
		}
		printf("%.3f\n", (now() - start) / (double)count);
		fflush(stdout);
		if (strcmp(what, "pair") != 0) {
			if (k)
				must(wait(NULL) > 0, "wait");
			else
				must(pthread_join(thread, NULL) == 0, "pthread_join");
		}
	}
#if defined GLIBC
	unlink_names("there", there);
#endif
	return 0;
}
