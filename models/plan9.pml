/*
 * Plan 9's semaphores on a plain word.
 *
 * Source: crates/sync/src/plan9/word.rs; the head of plan9.rs names the invariants and races below.
 *
 * The word is the value and nothing else. Only the kernel knows the waiters: it keeps a queue of sleepers beside the
 * word; here one bit a process. What the kernel does in one step (compare and queue, take out and wake) is one step.
 *
 * Checked:
 *   I2      a sleeper was queued while the word was 0.
 *   I3      while anybody sleeps, the value is at most the number of wake-ups on their way: asserted at every change, until
 *           somebody dies. So nobody sleeps for good beside a positive value: Spin's invalid end states.
 *   R1, R4  a woken process finds 0: it looks again.
 *   R2      a wake and a signal. R3: a release beside a positive value.
 *   R5      a wake that died is made good by the second look. That is possible only after a death, so the wakes of the
 *           living must suffice without.
 *
 * Processes: three acquire once each; one releases 1 twice, one releases 2 at once. One signal.
 * Kills: one, of anybody, at any step.
 *
 * Left out: stores that are delayed (swaps are locked operations, and the kernel looks at the word under a lock of its own);
 * a signal between look and sleep; a process that is stopped; negative and overflowing values (unit tests).
 *
 * Mistakes:
 *   MISTAKE_WAKES_FROM_ZERO_ONLY  a release beside a positive value wakes nobody (R3). Found: assertion
 *   MISTAKE_WAKES_ONE             a release of 2 wakes one. Found: assertion
 *   MISTAKE_SLEEPS_UNSEEN         the kernel does not compare the word (I2). Found: assertion
 *   MISTAKE_KEEPS_THE_WAKE        a process woken and then interrupted does not look (R2). Found: assertion
 *   MISTAKE_NO_SECOND_LOOK        a sleep has no end (R5). Found: invalid end state
 */

byte word;           /* the value */
bool queued[3];      /* the kernel's queue */
bool woken[3];       /* taken out of the queue by a wake, and has not looked since */
byte owed;           /* wake-ups that releases owe, between swap and call */
bool signals = 1;    /* to be delivered */
bool kills = 1;      /* to be done */
bool over;           /* all is quiet, and no process sleeps that should not */

#define SLEEPERS (queued[0] + queued[1] + queued[2])
#define WOKEN (woken[0] + woken[1] + woken[2])

inline holds() { assert(kills == 0 || SLEEPERS == 0 || word <= owed + WOKEN) }

/* At each step: the process may be killed before it. */
inline mortal() {
	if
	:: kills > 0 -> kills--; goto dead
	:: true
	fi
}

proctype acquire(byte me)
{
	byte value;
	bool taken;

	/* semacquire(word, true) */
	do
	:: atomic { mortal(); value = word; woken[me] = woken[me] && value > 0 };
		do
		:: value > 0 ->
			atomic { mortal();
				if
				:: word == value -> word--; woken[me] = 0; taken = 1; value = 0; holds()
				:: else -> value = word; woken[me] = woken[me] && value > 0
				fi }
		:: else -> break
		od;
		if
		:: taken -> break
		:: else
		fi;
		/* futex::wait: queued only while the word is 0 */
		atomic { mortal();
			if
#ifdef MISTAKE_SLEEPS_UNSEEN
			:: true -> queued[me] = 1
#else
			:: word == 0 -> queued[me] = 1
			:: else
#endif
			fi;
			holds() };
		if
		/* Wait::Woken, Wait::Changed: look (R1, R2) */
		:: !queued[me]
#ifdef MISTAKE_KEEPS_THE_WAKE
		:: atomic { woken[me] && signals -> signals = 0; woken[me] = 0; holds(); break }
#endif
		/* Wait::Interrupted: the signal has taken it out of the queue, so no wake has */
		:: atomic { queued[me] && signals > 0 -> signals--; queued[me] = 0 };
			if
			:: true /* semacquire_uninterrupted */
			:: break /* -1 */
			fi
#ifndef MISTAKE_NO_SECOND_LOOK
		/* Wait::TimedOut: the second look. Nobody needs it until somebody has died. */
		:: atomic { timeout && kills == 0 && queued[me] -> queued[me] = 0 }
#endif
		:: atomic { kills > 0 && queued[me] -> kills--; goto dead }
		:: over -> goto dead
		fi
	od;
dead:
	/* If it was killed: the kernel takes it out of its queue. */
	atomic { queued[me] = 0; woken[me] = 0; value = 0 }
}

proctype release(byte count; byte times)
{
	byte value, left, at;

	/* semrelease(word, count) */
	do
	:: times > 0 ->
		atomic { mortal(); value = word };
		do
		:: atomic { mortal();
			if
			:: word == value -> word = word + count; owed = owed + count; left = count; holds(); break
			:: else -> value = word
			fi }
		od;
#ifdef MISTAKE_WAKES_FROM_ZERO_ONLY
		left = (value > 0 -> 0 : left);
#endif
#ifdef MISTAKE_WAKES_ONE
		left = 1;
#endif
		/* futex::wake of at most `count`, whatever the value was (R3); the kernel chooses them */
		atomic { mortal();
			do
			:: left > 0 && SLEEPERS > 0 ->
				if
				:: queued[0] -> at = 0
				:: queued[1] -> at = 1
				:: queued[2] -> at = 2
				fi;
				queued[at] = 0; woken[at] = 1; left--
			:: else -> break
			od;
			owed = owed - count; at = 0; left = 0; value = 0; times--; holds() }
	:: else -> break
	od;
dead:
	skip
}

/* Nothing else can happen: a sleeper now sleeps for good. If it should not, this waits for ever, and so does the sleeper. */
proctype quiet()
{
	atomic { timeout && (SLEEPERS == 0 || word == 0) -> over = 1 }
}

init {
	atomic { run acquire(0); run acquire(1); run acquire(2); run release(1, 2); run release(2, 1); run quiet() }
}
