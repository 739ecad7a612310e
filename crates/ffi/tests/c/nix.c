/*
 * What include/chappe/nix.h promises, function by function, in threads and in forked processes; and the faults of the paper's source
 * that its text rules out. Ends with 0, or says what was not so.
 */
#include <chappe.h>
#include <chappe/nix.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s (errno %d, %s; %s)\n", __FILE__, __LINE__, #what, errno, strerror(errno), \
			        chappe_last_error()); \
			_exit(1); \
		} \
	} while (0)

/* Something fails with this errno. */
#define FAILS(call, error) \
	do { \
		errno = 0; \
		(void)(call); \
		MUST(errno == (error)); \
		errno = 0; \
	} while (0)

/* The same of what answers nothing. */
#define VOID_FAILS(call, error) \
	do { \
		errno = 0; \
		call; \
		MUST(errno == (error)); \
		errno = 0; \
	} while (0)

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(p != MAP_FAILED);
	return p;
}

static void nap(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

static void well(pid_t pid)
{
	int status = -1;
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* One thread, all answers. */
static void semaphores_count(Sem *s)
{
	int i;
	initsem(s, 3);
	MUST(downsem(s, 0) == 1 && downsem(s, 1) == 1 && downsem(s, 0) == 1 && errno == 0);
	/* Evidence, fault 2: a caller that is told that it has a wakeup has one. */
	FAILS(downsem(s, 0), EAGAIN);
	MUST(downsem(s, 0) == 0);
	upsem(s);
	MUST(downsem(s, 1) == 1);
	for (i = 0; i < 1000; i++)
		upsem(s);
	for (i = 0; i < 1000; i++)
		MUST(downsem(s, 0) == 1);
	MUST(downsem(s, 0) == 0);
	/* Once more at the same address. */
	initsem(s, 0);
	MUST(downsem(s, 0) == 0);
	initsem(s, SEM_MOST);
	VOID_FAILS(upsem(s), EOVERFLOW);
	MUST(downsem(s, 0) == 1);
	upsem(s);
	freesem(s);
	FAILS(downsem(s, 1), EINVAL);
	VOID_FAILS(freesem(s), EINVAL);
}

/* The state of a thread that has said its number: waits until it sleeps, and for long. */
static void asleep(volatile pid_t *tid)
{
	int seen = 0;
	while (!*tid)
		nap(1);
	while (seen < 10) {
		char path[64], text[512] = "", *end;
		FILE *f;
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)*tid);
		f = fopen(path, "r");
		MUST(f != NULL);
		MUST(fgets(text, sizeof text, f) != NULL);
		fclose(f);
		end = strrchr(text, ')');
		seen = end && end[2] == 'S' ? seen + 1 : 0;
		nap(1);
	}
}

struct waiter {
	Sem *s;
	int number;
	volatile pid_t tid;
	int *order, *next;
	int got, error;
};

static void *waits(void *p)
{
	struct waiter *w = (struct waiter *)p;
	errno = 0;
	w->tid = (pid_t)syscall(SYS_gettid);
	w->got = downsem(w->s, 1);
	w->error = errno;
	if (w->got)
		w->order[__atomic_fetch_add(w->next, 1, __ATOMIC_SEQ_CST)] = w->number;
	return NULL;
}

/* Evidence, fault 3: first come, first served. Threads begin to wait one after the other. */
static void first_come_first_served(Sem *s)
{
	enum { N = 8 };
	pthread_t threads[N];
	struct waiter w[N];
	int order[N], next = 0, i;
	initsem(s, 0);
	for (i = 0; i < N; i++) {
		struct waiter one = {s, i, 0, order, &next, 0, 0};
		w[i] = one;
		MUST(pthread_create(&threads[i], NULL, waits, &w[i]) == 0);
		asleep(&w[i].tid);
	}
	for (i = 0; i < N; i++) {
		upsem(s);
		while (__atomic_load_n(&next, __ATOMIC_SEQ_CST) <= i)
			nap(1);
		/* A newcomer takes nothing that a waiter is for. */
		MUST(downsem(s, 0) == 0);
	}
	for (i = 0; i < N; i++) {
		MUST(pthread_join(threads[i], NULL) == 0 && w[i].got == 1);
		MUST(order[i] == i);
	}
	/* Waiters for what is freed are told. */
	w[0].tid = 0;
	MUST(pthread_create(&threads[0], NULL, waits, &w[0]) == 0);
	asleep(&w[0].tid);
	freesem(s);
	MUST(pthread_join(threads[0], NULL) == 0 && w[0].got == 0 && w[0].error == EIDRM);
}

struct chooser {
	Sem **ss;
	int n, answer;
};

static void *chooses(void *p)
{
	struct chooser *c = (struct chooser *)p;
	c->answer = altsems(c->ss, c->n);
	return NULL;
}

static void choices(Sem *s, int n)
{
	Sem *ss[64];
	int seen[64] = {0}, i, j;
	for (i = 0; i < n; i++) {
		initsem(&s[i], 0);
		ss[i] = &s[i];
	}
	/* Evidence, fault 1: every one counts. */
	for (i = 0; i < n; i++) {
		struct chooser c = {ss, n, -2};
		pthread_t thread;
		MUST(pthread_create(&thread, NULL, chooses, &c) == 0);
		nap(5);
		upsem(&s[i]);
		MUST(pthread_join(thread, NULL) == 0);
		MUST(c.answer == i);
		/* Exactly one was consumed. */
		for (j = 0; j < n; j++)
			MUST(downsem(&s[j], 0) == 0);
	}
	/* Of several, each is chosen some time, and nothing else is touched. */
	for (i = 0; i < n; i++)
		upsem(&s[i]);
	for (i = 0; i < 100 * n; i++) {
		int which = altsems(ss, n);
		MUST(which >= 0 && which < n);
		seen[which]++;
		MUST(downsem(&s[which], 0) == 0);
		upsem(&s[which]);
	}
	for (i = 0; i < n; i++) {
		MUST(seen[i] > 0);
		MUST(downsem(&s[i], 0) == 1 && downsem(&s[i], 0) == 0);
	}
	/* Twice the same. */
	ss[1] = ss[0];
	upsem(&s[0]);
	i = altsems(ss, 2);
	MUST((i == 0 || i == 1) && downsem(&s[0], 0) == 0);
	ss[1] = &s[1];
	FAILS(altsems(ss, 0), EINVAL);
	FAILS(altsems(ss, -1), EINVAL);
	FAILS(altsems(NULL, 1), EFAULT);
	upsem(&s[0]);
	ss[1] = NULL;
	FAILS(altsems(ss, 2), EFAULT);
	MUST(downsem(&s[0], 0) == 1);
	for (i = 0; i < n; i++)
		freesem(&s[i]);
	ss[1] = &s[1];
	FAILS(altsems(ss, 2), EINVAL);
}

static void bad_memory(void)
{
	Sem s, copy;
	char bytes[sizeof(Sem) + 8];
	Sem *crooked = (Sem *)(void *)(((uintptr_t)bytes & ~(uintptr_t)7) + 4);
	int bit;
	VOID_FAILS(initsem(NULL, 1), EFAULT);
	VOID_FAILS(initsem(crooked, 1), EFAULT);
	VOID_FAILS(initsem((Sem *)8, 1), EFAULT);
	VOID_FAILS(initsem(&s, -1), EINVAL);
	FAILS(downsem(&s, 1), EINVAL);
	FAILS(downsem(NULL, 1), EFAULT);
	FAILS(downsem(crooked, 1), EFAULT);
	VOID_FAILS(upsem(NULL), EFAULT);
	VOID_FAILS(freesem(NULL), EFAULT);
	memset(&s, 0, sizeof s);
	FAILS(downsem(&s, 1), EINVAL);
	VOID_FAILS(upsem(&s), EINVAL);
	memset(&s, 0xff, sizeof s);
	FAILS(downsem(&s, 1), EINVAL);
	initsem(&s, 1);
	/* Written over, wherever: dead, and nobody hangs. */
	for (bit = 0; bit < 192; bit++) {
		copy = s;
		copy.chappe[bit / 64] ^= (uint64_t)1 << bit % 64;
		FAILS(downsem(&copy, 1), EINVAL);
		VOID_FAILS(upsem(&copy), EINVAL);
	}
	MUST(downsem(&s, 0) == 1);
	/* Moved, it is none: somebody else may come to lie where it was. */
	copy = s;
	FAILS(downsem(&copy, 1), EINVAL);
	*(Sem *)shared(sizeof s) = s;
	freesem(&s);
}

/* Semaphores come and go in memory that is used again and again. */
static void many_times(void)
{
	Sem *ours = (Sem *)shared(sizeof *ours);
	int i;
	for (i = 0; i < 20000; i++) {
		Sem s;
		initsem(&s, 1);
		initsem(ours, 2);
		MUST(errno == 0);
		if (i % 1000 == 0)
			MUST(downsem(&s, 1) == 1 && downsem(ours, 1) == 1);
	}
	/* One that another process has initialised since is left alone. */
	{
		pid_t pid = fork();
		if (pid == 0) {
			initsem(ours, 7);
			_exit(errno);
		}
		well(pid);
		MUST(downsem(ours, 0) == 1);
		initsem(ours, 0);
		MUST(downsem(ours, 0) == 0 && errno == EAGAIN);
		errno = 0;
		freesem(ours);
		MUST(errno == 0);
	}
}

/* In memory of its own, a child has a copy; in shared memory, it is one. */
static void forks(void)
{
	Sem mine, *ours = (Sem *)shared(3 * sizeof *ours), *ss[2];
	pid_t pid;
	initsem(&mine, 1);
	initsem(ours, 0);
	/* One that is initialised again by a child is one for all. */
	initsem(&ours[1], 0);
	pid = fork();
	if (pid == 0) {
		MUST(downsem(&mine, 0) == 1 && downsem(&mine, 0) == 0);
		initsem(&ours[1], 0);
		initsem(&ours[2], 0);
		upsem(ours);
		MUST(downsem(&ours[1], 1) == 1);
		upsem(&ours[2]);
		_exit(0);
	}
	MUST(downsem(ours, 1) == 1);
	upsem(&ours[1]);
	/* In one choice with what the parent has made. */
	ss[0] = ours;
	ss[1] = &ours[2];
	MUST(altsems(ss, 2) == 1);
	well(pid);
	MUST(downsem(&mine, 0) == 1 && downsem(&mine, 0) == 0);
	freesem(&mine);
}

/* A child that waits is killed: what it would have got goes to the next. */
static void deaths(void)
{
	enum { ROUNDS = 60 };
	Sem *s = (Sem *)shared(2 * sizeof *s);
	int i, waiting;
	initsem(&s[0], 0);
	initsem(&s[1], 0);
	for (i = 0; i < ROUNDS; i++) {
		pid_t victim = fork(), heir;
		int status;
		if (victim == 0) {
			upsem(&s[1]);
			downsem(&s[0], 1);
			upsem(&s[1]);
			pause();
			_exit(1);
		}
		heir = fork();
		if (heir == 0) {
			MUST(downsem(&s[1], 1) == 1);
			MUST(downsem(&s[0], 1) == 1);
			_exit(0);
		}
		if (i % 3)
			nap(i % 7);
		upsem(&s[0]);
		if (i % 2)
			nap(i % 5);
		MUST(kill(victim, SIGKILL) == 0);
		MUST(waitpid(victim, &status, 0) == victim && WIFSIGNALED(status));
		/* The victim may have had the wakeup: of that nothing returns. */
		waiting = waitpid(heir, &status, WNOHANG) == 0;
		if (waiting) {
			nap(5);
			upsem(&s[1]);
			upsem(&s[0]);
			MUST(waitpid(heir, &status, 0) == heir);
		}
		MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		while (downsem(&s[0], 0) || downsem(&s[1], 0))
			;
	}
}

static Sem *in_handler;

static void handler(int signal)
{
	(void)signal;
	upsem(in_handler);
}

static void signals(Sem *s)
{
	struct sigaction action;
	int i;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	initsem(s, 1);
	MUST(downsem(s, 1) == 1);
	in_handler = s;
	MUST(sigaction(SIGUSR1, &action, NULL) == 0);
	for (i = 0; i < 1000; i++) {
		MUST(raise(SIGUSR1) == 0);
		MUST(downsem(s, 0) == 1);
	}
	/* A handled signal does not end a wait; what its handler ups may. */
	{
		pid_t parent = getpid(), pid = fork();
		if (pid == 0) {
			nap(50);
			MUST(kill(parent, SIGUSR1) == 0);
			_exit(0);
		}
		MUST(downsem(s, 1) == 1);
		well(pid);
	}
	freesem(s);
}

static void tubes(void)
{
	Tube *t;
	uint64_t m, i;
	errno = 0;
	t = newtube(8, 4);
	MUST(t != NULL && errno == 0);
	FAILS(nbtrecv(t, &m), EAGAIN);
	for (i = 0; i < 4; i++)
		MUST(nbtsend(t, &i) == 0);
	FAILS(nbtsend(t, &i), EAGAIN);
	MUST(nbtsend(t, &i) == -1);
	for (i = 0; i < 4; i++) {
		if (i % 2)
			trecv(t, &m);
		else
			MUST(nbtrecv(t, &m) == 0);
		MUST(m == i);
	}
	MUST(nbtrecv(t, &m) == -1);
	FAILS(nbtrecv(t, NULL), EFAULT);
	FAILS(nbtsend(t, NULL), EFAULT);
	VOID_FAILS(tsend(NULL, &m), EFAULT);
	VOID_FAILS(trecv((Tube *)(void *)((char *)t + 4), &m), EFAULT);
	VOID_FAILS(freetube(NULL), EFAULT);
	freetube(t);
	FAILS(newtube(0, 1), EINVAL);
	FAILS(newtube(1, 0), EINVAL);
	FAILS(newtube((unsigned long)-1, 1), EINVAL);
	FAILS(newtube(1, (unsigned long)-1), EINVAL);
	FAILS(newtube(1 << 20, 1 << 10), ENOSPC);
	MUST(newtube(0, 1) == NULL);
}

/* Producers and consumers in processes; each number once. */
static void tubes_between_processes(void)
{
	enum { SENDERS = 3, RECEIVERS = 2, EACH = 3000 };
	Tube *t = newtube(sizeof(int), 5), *sums = newtube(sizeof(long), RECEIVERS);
	pid_t pids[SENDERS + RECEIVERS];
	long sum, all = 0, expected = (long)SENDERS * EACH * (EACH + 1) / 2;
	int i, n, minus = -1;
	errno = 0;
	for (i = 0; i < SENDERS + RECEIVERS; i++) {
		pids[i] = fork();
		if (pids[i] > 0)
			continue;
		if (i < SENDERS) {
			for (n = 1; n <= EACH; n++)
				tsend(t, &n);
			/* It has waited, and errno says nothing. */
			MUST(errno == 0);
			_exit(0);
		}
		for (sum = 0;; sum += n) {
			trecv(t, &n);
			if (n < 0)
				break;
		}
		tsend(sums, &sum);
		MUST(errno == 0);
		_exit(0);
	}
	for (i = 0; i < SENDERS; i++)
		well(pids[i]);
	for (i = 0; i < RECEIVERS; i++)
		tsend(t, &minus);
	for (i = 0; i < RECEIVERS; i++) {
		trecv(sums, &sum);
		all += sum;
		well(pids[SENDERS + i]);
	}
	MUST(all == expected);
	freetube(t);
	freetube(sums);
}

static Tube *passed;
static pthread_barrier_t turn;

static void *uses_what_is_passed(void *p)
{
	int i, n;
	for (i = 0; i < *(int *)p; i++) {
		pthread_barrier_wait(&turn);
		MUST(nbtrecv(passed, &n) == 0 && n == i);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

/* A tube after the other, each used by a thread that lives on: what was freed is used again. */
static void many_tubes(void)
{
	enum { TUBES = 200 };
	int tubes = TUBES, i;
	pthread_t thread;
	MUST(pthread_barrier_init(&turn, NULL, 2) == 0);
	MUST(pthread_create(&thread, NULL, uses_what_is_passed, &tubes) == 0);
	for (i = 0; i < TUBES; i++) {
		passed = newtube(sizeof i, 16 << 10);
		MUST(passed != NULL);
		tsend(passed, &i);
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
		freetube(passed);
	}
	MUST(pthread_join(thread, NULL) == 0);
}

static Tube *last;

/* After main, when what belongs to threads is gone. */
static void at_the_end(void)
{
	int n = 3;
	VOID_FAILS(tsend(last, &n), EIO);
	freetube(last);
	MUST(errno == 0);
}

static void *sends_later(void *p)
{
	int n = 7;
	nap(30);
	tsend((Tube *)p, &n);
	return NULL;
}

static void talts(void)
{
	Tube *in = newtube(sizeof(int), 2), *out = newtube(sizeof(int), 1), *full = newtube(sizeof(int), 1);
	int a = 0, b = 5, c = 6, i, which, seen[2] = {0, 0};
	Talt two[] = {{in, &a, TNBRECV}, {full, &b, TNBSEND}};
	Talt arms[] = {{full, &c, TNBSEND}, {in, &a, TRECV}, {full, &c, TSEND}, {out, &b, TNBRECV}};
	pthread_t thread;
	MUST(in && out && full);
	MUST(nbtsend(full, &b) == 0);
	/* Nothing can be done, and nobody wants to wait. */
	FAILS(talt(two, 2), EAGAIN);
	MUST(talt(two, 2) == -1);
	/* Evidence, fault 4: the index is that of the caller's array. */
	MUST(pthread_create(&thread, NULL, sends_later, in) == 0);
	MUST(talt(arms, 4) == 1 && a == 7);
	MUST(pthread_join(thread, NULL) == 0);
	/* Those that do not block come first. */
	MUST(nbtsend(in, &b) == 0 && nbtsend(out, &c) == 0);
	MUST(talt(arms, 4) == 3 && b == 6);
	MUST(talt(arms, 4) == 1 && a == 5);
	/* A blocking send. */
	{
		pid_t pid = fork();
		if (pid == 0) {
			nap(30);
			trecv(full, &a);
			_exit(a == 5 ? 0 : 1);
		}
		MUST(talt(&arms[1], 2) == 1);
		well(pid);
	}
	trecv(full, &a);
	MUST(a == 6 && nbtrecv(full, &a) == -1);
	/* Each of what is possible happens some time. */
	for (i = 0; i < 400; i++) {
		Talt both[] = {{in, &a, TRECV}, {out, &b, TSEND}};
		MUST(nbtsend(in, &i) == 0);
		which = talt(both, 2);
		MUST(which == 0 || which == 1);
		seen[which]++;
		MUST((nbtrecv(in, &a) == 0) == (which == 1) && (nbtrecv(out, &b) == 0) == (which == 1));
	}
	MUST(seen[0] > 0 && seen[1] > 0);
	FAILS(talt(arms, 0), EINVAL);
	FAILS(talt(NULL, 1), EFAULT);
	arms[0].op = 4;
	FAILS(talt(arms, 4), EINVAL);
	arms[0].op = TNBSEND;
	arms[0].m = NULL;
	FAILS(talt(arms, 4), EFAULT);
	arms[0].m = &c;
	arms[0].t = NULL;
	FAILS(talt(arms, 4), EFAULT);
	freetube(in);
	freetube(out);
	freetube(full);
}

static void *waits_for_message(void *p)
{
	int n;
	errno = 0;
	trecv((Tube *)p, &n);
	return (void *)(intptr_t)errno;
}

/* Waiters at a tube that another process destroys are told. */
static void destroyed(void)
{
	Tube *t = newtube(sizeof(int), 1);
	pthread_t thread;
	void *error;
	pid_t pid;
	int n = 0;
	MUST(pthread_create(&thread, NULL, waits_for_message, t) == 0);
	nap(30);
	pid = fork();
	if (pid == 0) {
		errno = 0;
		freetube(t);
		_exit(errno == 0 ? 0 : 1);
	}
	well(pid);
	MUST(pthread_join(thread, &error) == 0 && (intptr_t)error == EIDRM);
	VOID_FAILS(tsend(t, &n), EIDRM);
	FAILS(nbtrecv(t, &n), EIDRM);
	errno = 0;
	freetube(t);
	MUST(errno == 0);
}

int main(void)
{
	Sem *s = (Sem *)shared(64 * sizeof *s), mine[64];
	alarm(120);
	errno = 0;
	semaphores_count(&mine[0]);
	semaphores_count(&s[0]);
	first_come_first_served(&mine[0]);
	first_come_first_served(&s[0]);
	choices(mine, 4);
	choices(s, 4);
	choices(mine, 40);
	choices(s, 40);
	bad_memory();
	many_times();
	forks();
	signals(&mine[0]);
	signals(&s[0]);
	tubes();
	tubes_between_processes();
	many_tubes();
	talts();
	destroyed();
	deaths();
	last = newtube(sizeof(int), 2);
	MUST(last != NULL && atexit(at_the_end) == 0);
	{
		int n = 1;
		tsend(last, &n);
	}
	return 0;
}
