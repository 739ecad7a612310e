/*
 * The inner loops of the Nix paper's three experiments (nix-semaphores-tubes, section 4), in the paper's own interface. For each
 * setting: minimum, quartiles and maximum of the time of one round, in nanoseconds, beside what Linux programs use otherwise.
 *
 *   nix_experiments 1 [PROCESSES [CSS [NSS]]]                 a mutex: figure 15
 *   nix_experiments 2 [PROCESSES [SEMAPHORES [CSS [NSS]]]]    a choice: section 4.2 and figure 22
 *   nix_experiments 3 [PONGERS [BYTES]]                       tubes: section 4.3
 *
 *   cc nix_experiments.c $(pkg-config --cflags --libs chappe) -o nix_experiments
 */
#include <chappe/nix.h>

#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 1000, MOST = 100, BUFFER = 32, LARGEST = 1 << 16 };

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void waste(long turns)
{
	volatile long i;
	for (i = 0; i < turns; i++)
		;
}

static int smaller(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void show(const char *what, int64_t *times, long n)
{
	qsort(times, (size_t)n, sizeof *times, smaller);
	printf("%-10s %10lld %10lld %10lld %10lld %10lld\n", what, (long long)times[0], (long long)times[n / 4],
	       (long long)times[n / 2], (long long)times[n * 3 / 4], (long long)times[n - 1]);
}

static void must(int is_so, const char *what)
{
	if (!is_so) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

/* Everybody begins at the same time, and all are waited for. */
static volatile int *ready;

static void all(int processes, void (*what)(int))
{
	int i, status;
	*ready = 0;
	for (i = 0; i < processes; i++) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid == 0) {
			__atomic_fetch_add(ready, 1, __ATOMIC_SEQ_CST);
			while (*ready < processes)
				usleep(100);
			what(i);
			_exit(0);
		}
	}
	for (i = 0; i < processes; i++) {
		must(wait(&status) > 0, "wait");
		must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process of the experiment failed");
	}
}

static int processes, semaphores;
static long css, nss, bytes;
static int64_t *times;
static volatile long *counters;
static Sem *sems;
static sem_t *standard, *mainstandard;

/* Experiment 1: figure 15. */

static void section(volatile long *counter)
{
	long seen = *counter;
	waste(css);
	*counter = seen + 1;
}

static void mutex_nix(int me)
{
	int i;
	for (i = 0; i < ROUNDS; i++) {
		int64_t t1 = now();
		must(downsem(sems, 1) == 1, "downsem");
		section(counters);
		upsem(sems);
		times[me * ROUNDS + i] = now() - t1;
		waste(nss);
	}
}

static void mutex_standard(int me)
{
	int i;
	for (i = 0; i < ROUNDS; i++) {
		int64_t t1 = now();
		while (sem_wait(standard) < 0)
			;
		section(counters);
		sem_post(standard);
		times[me * ROUNDS + i] = now() - t1;
		waste(nss);
	}
}

/* Experiment 2: the choice, and what figure 22 has instead. */

static void choice_nix(int me)
{
	Sem *ss[MOST];
	int i, at;
	for (i = 0; i < semaphores; i++)
		ss[i] = &sems[i];
	for (i = 0; i < ROUNDS; i++) {
		int64_t t1 = now();
		at = altsems(ss, semaphores);
		must(at >= 0, "altsems");
		section(&counters[at * 16]);
		upsem(&sems[at]);
		times[me * ROUNDS + i] = now() - t1;
		waste(nss);
	}
}

static void choice_standard(int me)
{
	int i, at;
	for (i = 0; i < ROUNDS; i++) {
		int64_t t1 = now();
		while (sem_wait(mainstandard) < 0)
			;
		for (at = 0; sem_trywait(&standard[at]) < 0;)
			at = (at + 1) % semaphores;
		section(&counters[at * 16]);
		sem_post(&standard[at]);
		sem_post(mainstandard);
		times[me * ROUNDS + i] = now() - t1;
		waste(nss);
	}
}

static long counted(void)
{
	long sum = 0;
	int i;
	for (i = 0; i < MOST; i++) {
		sum += counters[i * 16];
		counters[i * 16] = 0;
	}
	return sum;
}

/* Experiment 3: a pinger, and so many pongers; the first process is the pinger. */

static Tube *ping, *pong;
static int there[2], back[2];

static void tubes(int me)
{
	char message[LARGEST];
	int i, turns = me == 0 ? ROUNDS : ROUNDS / processes + (me <= ROUNDS % processes);
	memset(message, me, sizeof message);
	for (i = 0; i < turns; i++) {
		int64_t t1 = now();
		if (me == 0) {
			tsend(ping, message);
			trecv(pong, message);
			times[i] = now() - t1;
		} else {
			trecv(ping, message);
			tsend(pong, message);
		}
	}
}

static void whole(ssize_t (*move)(int, void *, size_t), int fd, char *message)
{
	long done = 0;
	while (done < bytes) {
		ssize_t n = move(fd, message + done, (size_t)(bytes - done));
		must(n > 0, "pipe");
		done += n;
	}
}

static ssize_t put(int fd, void *from, size_t n)
{
	return write(fd, from, n);
}

static void pipes(int me)
{
	char message[LARGEST];
	int i, turns = me == 0 ? ROUNDS : ROUNDS / processes + (me <= ROUNDS % processes);
	memset(message, me, sizeof message);
	for (i = 0; i < turns; i++) {
		int64_t t1 = now();
		whole(me == 0 ? put : read, me == 0 ? there[1] : there[0], message);
		whole(me == 0 ? read : put, me == 0 ? back[0] : back[1], message);
		if (me == 0)
			times[i] = now() - t1;
	}
}

static long argument(int argc, char **argv, int at, long usual, long least, long most)
{
	long given = argc > at ? atol(argv[at]) : usual;
	if (given < least || given > most) {
		fprintf(stderr, "argument %d: %ld is not between %ld and %ld\n", at, given, least, most);
		exit(2);
	}
	return given;
}

int main(int argc, char **argv)
{
	int experiment = argc > 1 ? atoi(argv[1]) : 0, i;
	long n;
	if (experiment < 1 || experiment > 3) {
		fprintf(stderr, "usage: nix_experiments 1|2|3 [...]: see the head of the file\n");
		return 2;
	}
	ready = (volatile int *)shared(sizeof *ready);
	times = (int64_t *)shared(sizeof *times * MOST * ROUNDS);
	counters = (volatile long *)shared(sizeof *counters * MOST * 16);
	sems = (Sem *)shared(sizeof *sems * MOST);
	standard = (sem_t *)shared(sizeof *standard * MOST);
	mainstandard = (sem_t *)shared(sizeof *mainstandard);
	printf("%-10s %10s %10s %10s %10s %10s\n", "ns a round", "least", "quarter", "half", "3 quarters", "most");
	if (experiment == 3) {
		processes = (int)argument(argc, argv, 2, 1, 1, MOST - 1);
		bytes = argument(argc, argv, 3, 64, 1, LARGEST);
		ping = newtube((unsigned long)bytes, BUFFER);
		pong = newtube((unsigned long)bytes, BUFFER);
		must(ping != NULL && pong != NULL, "newtube");
		must(pipe(there) == 0 && pipe(back) == 0, "pipe");
		all(processes + 1, tubes);
		show("tubes", times, ROUNDS);
		/* What is longer is not written at once, and would mix. */
		if (processes == 1 || bytes <= 4096) {
			all(processes + 1, pipes);
			show("pipes", times, ROUNDS);
		}
		freetube(ping);
		freetube(pong);
		return 0;
	}
	processes = (int)argument(argc, argv, 2, 5, 1, MOST);
	semaphores = experiment == 2 ? (int)argument(argc, argv, 3, 10, 1, MOST) : 1;
	css = argument(argc, argv, experiment + 2, 100, 0, 100000000);
	nss = argument(argc, argv, experiment + 3, 10000, 0, 100000000);
	for (i = 0; i < semaphores; i++) {
		errno = 0;
		initsem(&sems[i], 1);
		must(errno == 0 && sem_init(&standard[i], 1, 1) == 0, "initsem, sem_init");
	}
	must(sem_init(mainstandard, 1, (unsigned)semaphores) == 0, "sem_init");
	n = (long)processes * ROUNDS;
	all(processes, experiment == 1 ? mutex_nix : choice_nix);
	must(counted() == n, "an update was lost");
	show(experiment == 1 ? "downsem" : "altsems", times, n);
	all(processes, experiment == 1 ? mutex_standard : choice_standard);
	must(counted() == n, "an update was lost");
	show(experiment == 1 ? "sem_t" : "simulated", times, n);
	return 0;
}
