/* Tubes that are freed while another thread is on its way out of a talt over them: of what was freed nothing is read. */
#include "check.h"

#include <chappe/nix.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static Tube *goes, *stays;
static atomic_int waiter, held_up, goes_on, is_out;

/* Holds the waiter up wherever it is, until the tube is freed; not for ever, since it may have a lock that freeing needs. */
static void holds_up(int signal)
{
	int64_t most = chappe_now() + 2 * CHAPPE_MILLISECOND;
	(void)signal;
	atomic_store(&held_up, 1);
	while (!atomic_load(&goes_on) && chappe_now() < most)
		sched_yield();
}

/* What is chosen, or the negative errno. */
static void *waits_for_either(void *p)
{
	int n = 0, m = 0, which;
	Talt arms[] = {{stays, &m, TRECV}, {goes, &n, TRECV}};
	(void)p;
	/* Used once before, so that from here on it sleeps nowhere but in the talt. */
	CHECK(nbtrecv(goes, &n) == -1 && nbtrecv(stays, &m) == -1);
	atomic_store(&waiter, (int)syscall(SYS_gettid));
	which = talt(arms, 2);
	atomic_store(&is_out, 1);
	CHECK(which != 1 || n == 7);
	return (void *)(intptr_t)(which < 0 ? -errno : which);
}

/* Until the thread sleeps. Asks for no memory, for which the thread might have to wait. */
static void until_it_sleeps(void)
{
	char path[64], text[256];
	int id;
	while ((id = atomic_load(&waiter)) == 0)
		sched_yield();
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
	for (;;) {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t len = read(file, text, sizeof text - 1);
		const char *state;
		close(file);
		CHECK(len > 0);
		text[len] = 0;
		state = strrchr(text, ')');
		CHECK(state != NULL);
		if (state[2] == 'S')
			return;
		sched_yield();
	}
}

int main(void)
{
	enum { ROUNDS = 600 };
	int i, n = 7;
	int64_t until;
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = holds_up;
	OK(sigaction(SIGUSR1, &action, NULL));
	stays = newtube(64, 1);
	CHECK(stays != NULL);
	for (i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		void *which;
		goes = newtube(sizeof n, 1);
		CHECK(goes != NULL);
		atomic_store(&waiter, 0);
		atomic_store(&held_up, 0);
		atomic_store(&goes_on, 0);
		atomic_store(&is_out, 0);
		CHECK(pthread_create(&thread, NULL, waits_for_either, NULL) == 0);
		until_it_sleeps();
		tsend(goes, &n);
		/* At another place of its way out each time. */
		for (until = chappe_now() + i * 200; chappe_now() < until;)
			;
		OK(pthread_kill(thread, SIGUSR1));
		while (!atomic_load(&held_up) && !atomic_load(&is_out))
			sched_yield();
		freetube(goes);
		atomic_store(&goes_on, 1);
		CHECK(pthread_join(thread, &which) == 0);
		CHECK((intptr_t)which == 1 || (intptr_t)which == -EIDRM);
	}
	freetube(stays);
	return 0;
}
