/*
 * Condition variables: waiting with the mutex given up, notifying one waiter, and all.
 *
 * Source: crates/sync/src/condvar.rs, the condition variable's share of kinds.rs and recover.rs. Waiting and telling are those of
 * wait.rs beside them. What another file's head says is cited with its name.
 *
 *   state  phase:2 | number of the wait:3 | WOKEN:1      (`State`: a member's wait word)
 *   bits   members that stand on the condition variable
 *   since  the waiters that came before this are notified
 *
 * Waiters wait for things, counted under the mutex: a waiter takes one, a notifier has put so many there.
 *
 * Checked:
 *   I1           a notifier that comes after the mutex was given up finds the waiter: Spin's invalid end states. So with all below.
 *   I2           a notifier that dies half-way through all has notified all.
 *   I3           a notification whose waiter died before hearing it is passed on.
 *   I4           a notifier stopped before the wake delays no waiter that a later one would have woken.
 *   wait.rs R2   a notification and a time-out: the next is notified. R5: deaths between grant and wake.
 *
 * Scenes, one after the other: two wait, one notifies twice; the same, once, one may time out; all are notified, and one may time
 * out; two wait, one is notified, with a death, and that of the recoverer; all are notified, with the same deaths; one is notified,
 * with a death and two recoverers at once; one waits, two notify, and one of these stops; the same of two, and all.
 * Kills and stops: at each step.
 *
 * Left out: the mutex, which is one step here, and free when its holder dies (mutex.pml); removal (object.pml); a slot that is used
 * again (member.pml); a waiter that dies when it has heard, and not acted yet: that is the user's. See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_UNLOCKS_FIRST      the mutex is given up before the bit is set (I1). Found: invalid end state
 *   MISTAKE_NO_TRACE           a notifier of all leaves `since` as it is, and tells each (I2). Found: invalid end state
 *   MISTAKE_DIES_WITH_IT       recovery passes on nothing (I3). Found: invalid end state
 *   MISTAKE_TELLS_ONE_ONLY     a notifier tells the first, and no other one if that has given up (R2). Found: invalid end state
 *   MISTAKE_NOT_MADE_UP        a notifier that finds nobody to notify wakes nobody (I4). Found: invalid end state
 *   MISTAKE_PAST_THE_STOPPED   a notifier of all leaves asleep a waiter that another has just told (I4). Found: invalid end state
 *   MISTAKE_STANDS_ALONE       recovery does not drain (I2). Found: invalid end state
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define IDLE 0
#define WAITING 1
#define ASLEEP 2
#define GRANTED 3
#define WOKEN 32
#define PHASE(s) ((s) & 3)
#define WAIT(s) (((s) >> 2) & 7)
#define STATE(phase, n) ((phase) | ((n) << 2))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)
#define IS_GRANTED(s) (PHASE(s) == GRANTED)

#define NOBODY 7
#define WAITS 0
#define NOTIFIES 1      /* one, so many times */
#define ALL 2           /* notifies all, when it has put so many there */
#define SLEEPS 3        /* as WAITS, and does so already */
#define RECOVERS 4

byte there;
byte holder = NOBODY;   /* the mutex */
byte state[2];
byte bits;
byte tickets = 1;       /* the next arrival */
byte ticket[2];
byte since = 1;
byte slept[2];          /* wait.rs I8 */
bool in_futex[2];
bool gone[4];
byte dead = NOBODY;     /* the dead member, until it is recovered */
bool kills;             /* to be done, but for the recoverer's */
bool kills_more;        /* the recoverer's, after that */
bool stops;             /* to be done, of notifiers */
bool excused;           /* the dead member had heard, or had not notified yet */

#define CAN_LOCK (holder == NOBODY || gone[holder])

/* Before each step: it may be killed here, or stopped for ever. */
inline mortal() {
	if
	:: kills && role != RECOVERS -> kills = 0; dead = me; gone[me] = 1; goto dies
	:: kills_more && role == RECOVERS && dead != NOBODY -> kills_more = 0; goto dies
	:: stops && (role == NOTIFIES || role == ALL) -> stops = 0; goto out
	:: true
	fi
}

/* The ends of the subroutines, by caller. */
inline notified() {
	heard = 1;
	if
	:: role == RECOVERS -> goto passed_on
	:: role != RECOVERS && times -> goto put
	:: role != RECOVERS && !times -> goto out
	fi
}

inline drained() {
	before = 0;
	if
	:: role == RECOVERS -> goto recovered
	:: role == ALL -> goto out
	:: role == WAITS -> goto enlisted
	fi
}

/* Each member in `look` was seen. */
inline looked() {
	its = 0; at = 0;
	if
	:: look -> goto each
	:: !look && before -> drained()
	:: !look && !before && makes_up -> makes_up = 0; notified()
	:: !look && !before && !makes_up && first == NOBODY -> goto nobody
	:: !look && !before && !makes_up && first != NOBODY -> goto tell
	fi
}

proctype member(byte me; byte role; byte times; bool timed)
{
	byte its;            /* a member's state, as it was read */
	byte best, first;    /* that of the oldest waiter so far, and its number */
	byte look, at;
	byte before;         /* `since`, as it was read: it drains */
	bool makes_up;       /* it has found nobody to notify */
	bool heard;          /* a member that dies now has done with the condition variable */

	if
	:: role == WAITS -> goto take
	:: role == SLEEPS -> role = WAITS; goto sleep
	:: role == NOTIFIES || role == ALL -> goto put
	:: role == RECOVERS -> goto watch
	fi;

	/* -- the user: a loop around `wait`, in the mutex -- */
take:	atomic { CAN_LOCK -> mortal();
		if
		:: there -> there--; goto out
		:: !there && heard && !timed && times -> goto out /* its time was up */
		:: else -> holder = me; heard = 0
		fi };

	/* -- condvar.rs `wait`: wait.rs `begin` -- */
#ifdef MISTAKE_UNLOCKS_FIRST
	atomic { mortal(); holder = NOBODY };
#endif
	atomic { mortal(); ticket[me] = tickets; tickets++ };
	atomic { mortal(); assert(WAIT(state[me]) < 7); state[me] = STATE(WAITING, WAIT(state[me]) + 1) };
	atomic { mortal(); bits = bits | (1 << me); goto drain };
enlisted:
#ifndef MISTAKE_UNLOCKS_FIRST
	atomic { mortal(); assert(holder == me); holder = NOBODY };
#endif

	/* -- wait/rest.rs `rest` -- */
	atomic { mortal(); slept[me] = WAIT(state[me]);
		if
		:: PHASE(state[me]) == WAITING -> state[me] = STATE(ASLEEP, WAIT(state[me]))
		:: else -> goto waited
		fi };
sleep:	atomic { mortal();
		if
		:: PHASE(state[me]) == ASLEEP -> in_futex[me] = 1
		:: else -> goto waited
		fi };
end_asleep:
	if
	:: atomic { !in_futex[me] -> goto sleep }
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0 }
	:: atomic { in_futex[me] && kills -> kills = 0; dead = me; gone[me] = 1; goto dies }
	fi;

	/* -- wait.rs `end`, `finish` -- */
waited:	atomic { mortal();
		if
		:: IS_GRANTED(state[me])
		:: IS_WAITING(state[me]) -> timed = 0; times = 1; state[me] = STATE(IDLE, WAIT(state[me]))
		fi };
	atomic { mortal(); state[me] = STATE(IDLE, WAIT(state[me])); heard = 1 };
	atomic { mortal(); bits = bits & ~(1 << me); goto take };

	/* -- the user: puts something there, and notifies -- */
put:	atomic { CAN_LOCK -> mortal(); heard = 0;
		if
		:: role == ALL -> there = there + times; times = 0; goto notify_all
		:: role == NOTIFIES -> there++; times--; goto notify
		fi };

	/* -- condvar.rs `notify`; wait/queue.rs `next` -- */
notify:	atomic { mortal(); look = bits; first = NOBODY; looked() };
	/* wait/word.rs `tell`, `decide`: from the state that was seen, or from ASLEEP in the same wait */
tell:	atomic { mortal();
		if
		:: state[first] == best || (PHASE(best) == WAITING && state[first] == STATE(ASLEEP, WAIT(best))) ->
			best = PHASE(state[first]); state[first] = STATE(GRANTED, WAIT(state[first])); at = first; first = 0;
			if
			:: best == WAITING -> state[at] = state[at] | WOKEN; best = 0; at = 0; notified()
			:: best == ASLEEP -> best = 0; its = state[at]; heard = 1; goto wake
			fi
#ifdef MISTAKE_TELLS_ONE_ONLY
		:: else -> best = 0; first = 0; notified()
#else
		:: else -> best = 0; goto notify
#endif
		fi };
	/* I4 */
nobody:	atomic { mortal(); first = 0;
#ifdef MISTAKE_NOT_MADE_UP
		notified()
#else
		makes_up = 1; look = bits; looked()
#endif
		};

	/* -- `notify_all` -- */
notify_all:
#ifdef MISTAKE_NO_TRACE
	atomic { mortal(); before = tickets; look = bits; heard = 1; looked() };
#else
	atomic { mortal(); before = tickets };
	atomic { mortal(); since = (since > before -> since : before); before = 0; heard = 1; goto drain };
#endif

	/* -- `drain` -- */
drain:	atomic { mortal(); before = since };
	atomic { mortal(); look = bits; looked() };

	/* -- wait/line.rs `each`: of the members in `look` -- */
each:	atomic { mortal(); at = ((look & 1) -> 0 : 1); look = look & ~(1 << at); its = state[at];
		if
		:: PHASE(its) == IDLE -> looked()
		:: else
		fi };
	atomic { mortal();
		if
		:: !(bits & (1 << at)) -> looked()
		:: (bits & (1 << at)) && before && IS_WAITING(its) && ticket[at] < before -> goto tell_this
		:: (bits & (1 << at)) && (before || makes_up) && IS_GRANTED(its) && !(its & WOKEN) -> goto wake
		:: (bits & (1 << at)) && !before && !makes_up && IS_WAITING(its) && !gone[at] && (first == NOBODY || ticket[at] < ticket[first]) ->
			first = at; best = its; looked()
		:: else -> looked()
		fi };
tell_this:
	atomic { mortal();
		if
		:: state[at] == its || (PHASE(its) == WAITING && state[at] == STATE(ASLEEP, WAIT(its))) ->
			its = PHASE(state[at]); state[at] = STATE(GRANTED, WAIT(state[at]));
			if
			:: its == WAITING -> state[at] = state[at] | WOKEN; looked()
			:: its == ASLEEP -> its = state[at]; goto wake
			fi
#ifdef MISTAKE_PAST_THE_STOPPED
		:: else -> looked()
#else
		:: else
#endif
		fi };
	/* somebody else has told it, perhaps */
	atomic { mortal(); its = state[at];
		if
		:: IS_GRANTED(its) && !(its & WOKEN)
		:: else -> looked()
		fi };
	/* wait/word.rs `wake_told`, `woken` */
wake:	atomic { mortal(); in_futex[at] = 0 };
	atomic { mortal();
		if
		:: state[at] == its -> state[at] = its | WOKEN
		:: else
		fi;
		if
		:: !before && !makes_up -> its = 0; at = 0; notified()
		:: else -> looked()
		fi };

	/* -- recover.rs `recover`, of the dead member -- */
watch:
end_watch:
	atomic { dead != NOBODY -> heard = 0 };
recover:
	atomic { mortal();
		if
		:: dead < 2 -> best = state[dead]
		:: else -> goto drain_it
		fi;
		if
		:: PHASE(best) == IDLE -> goto drain_it
#ifndef MISTAKE_DIES_WITH_IT
		:: IS_GRANTED(best) -> best = 0; goto notify /* kinds.rs `take_back`, `pass_on` */
#endif
		:: else -> goto to_idle
		fi };
passed_on:
	atomic { heard = 0;
		if
		:: dead < 2 -> best = state[dead]
		:: else -> goto drain_it
		fi;
		if
		:: IS_GRANTED(best)
		:: else -> goto drain_it
		fi };
to_idle:
	atomic { mortal();
		if
		:: dead < 2 && state[dead] == best -> state[dead] = STATE(IDLE, WAIT(best))
		:: dead < 2 && state[dead] != best -> goto recover
		:: else
		fi };
drain_it:
	atomic { best = 0; heard = 0;
#ifdef MISTAKE_STANDS_ALONE
		goto recovered
#else
		goto drain
#endif
		};
recovered:
	/* wait/word.rs `wake_granted` */
	atomic { mortal();
		if
		:: dead != 0 && IS_GRANTED(state[0]) && slept[0] == WAIT(state[0]) -> in_futex[0] = 0
		:: else
		fi };
	atomic { mortal();
		if
		:: dead != 1 && IS_GRANTED(state[1]) && slept[1] == WAIT(state[1]) -> in_futex[1] = 0
		:: else
		fi };
	/* member.rs `clean` */
	atomic { mortal();
		if
		:: dead != NOBODY -> bits = bits & ~(1 << dead); dead = NOBODY
		:: else
		fi;
		goto watch };

dies:	atomic {
		if
		:: role == RECOVERS -> its = 0; best = 0; first = 0; look = 0; at = 0; before = 0; makes_up = 0; heard = 0; goto watch
		:: role == WAITS -> in_futex[me] = 0; excused = heard
		:: role == NOTIFIES || role == ALL -> excused = !heard
		fi };
out:	atomic { its = 0; best = 0; first = 0; look = 0; at = 0; before = 0; makes_up = 0; heard = 0; times = 0; timed = 0 }
}

/* Nothing else can happen: then nobody sleeps beside what it waits for. */
proctype quiet()
{
	atomic { timeout && (there == 0 || excused || !(in_futex[0] || in_futex[1])) }
}

/* A waiter that has gone to sleep. */
inline asleep(m) {
	state[m] = STATE(ASLEEP, 1); slept[m] = 1; ticket[m] = tickets; tickets++; bits = bits | (1 << m)
}

init {
	atomic {
		if
		:: SCENE(1) -> run member(0, WAITS, 0, 0); run member(1, WAITS, 0, 0); run member(2, NOTIFIES, 2, 0)
		:: SCENE(2) -> run member(0, WAITS, 0, 1); run member(1, WAITS, 0, 0); run member(2, NOTIFIES, 1, 0)
		:: SCENE(3) -> run member(0, WAITS, 0, 1); run member(1, WAITS, 0, 0); run member(2, ALL, 2, 0)
		:: SCENE(4) -> kills = 1; kills_more = 1; asleep(1);
			run member(0, WAITS, 0, 0); run member(1, SLEEPS, 0, 0); run member(2, NOTIFIES, 1, 0); run member(4, RECOVERS, 0, 0)
		:: SCENE(5) -> kills = 1; kills_more = 1; asleep(0);
			run member(0, SLEEPS, 0, 0); run member(1, WAITS, 0, 0); run member(2, ALL, 2, 0); run member(4, RECOVERS, 0, 0)
		:: SCENE(6) -> kills = 1; asleep(0); asleep(1);
			run member(0, SLEEPS, 0, 0); run member(1, SLEEPS, 0, 0); run member(2, NOTIFIES, 1, 0);
			run member(4, RECOVERS, 0, 0); run member(5, RECOVERS, 0, 0)
		:: SCENE(7) -> stops = 1; run member(0, WAITS, 0, 0); run member(2, NOTIFIES, 1, 0); run member(3, NOTIFIES, 1, 0)
		:: SCENE(8) -> stops = 1; asleep(0); asleep(1);
			run member(0, SLEEPS, 0, 0); run member(1, SLEEPS, 0, 0); run member(2, ALL, 2, 0); run member(3, ALL, 2, 0)
		fi;
		run quiet()
	}
}
