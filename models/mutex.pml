/*
 * Mutexes: one holder, named in the word; a waiter is told to try again, or, when overdue, given the lock.
 *
 * Source: crates/sync/src/lock.rs, contend.rs, mutex.rs; recover.rs. Telling and granting are those of wait.rs. What another
 * file's head says is cited with its name.
 *
 *   word   tag:2 | WAITERS | TORN | TOLD | member:2 | number of the wait:2        (a holder's generation: member.pml)
 *   state  phase:2 | number of the wait:2 | NUDGED | WOKEN | DEAD                 (`State`: a member's wait word)
 *   bits   members that stand on the mutex
 *
 * Checked:
 *   I1      one holder at a time; it is told of the death that left the data torn: asserted.
 *   I2      nobody sleeps for good beside a free lock: Spin's invalid end states. So also I4 and I5: a waiter that was told and gives
 *           up, dies, or finds it held; TOLD with no waiter about to try.
 *   I3, I6  a lock is reserved for an overdue waiter, and the reservation is finished, or undone.
 *   wait.rs R2 (told, or granted, against time-out), R5, R6.
 *
 * Scenes, one after the other: one holds, two come; the same, both sleep, one may time out, the lock may be reserved once; one
 * holds and locks again, one sleeps; one holds and condemns; one holds, two sleep, with a death; one holds, one comes, with a
 * death, and that of the recoverer.
 * Kills: at each step, of the first holder and of one of the waiters.
 *
 * Left out: time: whether half a millisecond is over is anybody's guess (it may be so once); a waiter stopped after it was told
 * (then the others wait until I6); removal, abandoned guards, generations; data beyond whole or torn.
 *
 * Mistakes:
 *   MISTAKE_NO_MARK            a waiter sets its bit, and not WAITERS (I2). Found: invalid end state
 *   MISTAKE_NO_SECOND_LOOK     a waiter does not drain once it has set WAITERS (wait.rs I4). Found: invalid end state
 *   MISTAKE_SETTLED_BLINDLY    the holder takes WAITERS away, and does not look at the bits again (I2). Found: invalid end state
 *   MISTAKE_NOT_TORN           recovery leaves a lock that is free, and whole (I1). Found: assertion
 *   MISTAKE_TOLD_TOO_LONG      the drainer sets TOLD, and does not look whether the waiter has tried (I5). Found: invalid end state
 *   MISTAKE_TOLD_BY_THE_DEAD   recovery leaves TOLD (I5). Found: invalid end state
 *   MISTAKE_NOT_UNDONE         a reservation that comes too late stays (wait.rs I3). Found: invalid end state
 *   MISTAKE_STORES_FREE        the holder stores FREE instead of swapping. Found: invalid end state
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define FREE 0
#define HELD 1
#define RESERVED 2
#define WAITERS 4
#define TORN 8
#define TOLD 16
#define FLAGS 28
#define TAG(w) ((w) & 3)
#define OF(w) (((w) >> 5) & 3)
#define AUX(w) (((w) >> 7) & 3)
#define NOBODY 3
#define HELD_BY(m) (HELD | ((m) << 5))
#define RESERVED_FOR(m, n) (RESERVED | ((m) << 5) | ((n) << 7))
#define CONDEMNED (HELD_BY(NOBODY) | TORN)
#define IS_CONDEMNED(w) (((w) & ~(WAITERS | TOLD)) == CONDEMNED)
#define IS_MINE(w) (((w) & ~FLAGS) == HELD_BY(me))

#define IDLE 0
#define WAITING 1
#define ASLEEP 2
#define GRANTED 3
#define NUDGED 16
#define WOKEN 32
#define DEAD 64
#define PHASE(s) ((s) & 3)
#define WAIT(s) (((s) >> 2) & 3)
#define STATE(phase, n) ((phase) | ((n) << 2))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)
#define IS_GRANTED(s) (PHASE(s) == GRANTED)
#define IS_NUDGED(s) (IS_GRANTED(s) && ((s) & NUDGED))
#define IS_GIVEN(s) (IS_GRANTED(s) && !((s) & (NUDGED | DEAD)))

#define LOCKS 0
#define HOLDS 1     /* and unlocks, and locks again, so many times */
#define CONDEMNS 2  /* what it holds */
#define SLEEPS 3    /* as LOCKS, and does so already */
#define RECOVERS 4

short word;
byte state[2];
byte bits;
byte tickets;
byte ticket[2];
bool need[2];       /* overdue */
byte slept[2];
bool in_futex[2];
bool gone[3];
byte dead = NOBODY; /* the dead member, until it is recovered; 2 is the first holder */
byte in_time;       /* how often half a millisecond may be over */
bool kills;         /* to be done, but for the recoverer's */
bool kills_more;    /* the recoverer's, after that */

/* For the assertions alone: the number, plus 1, of the member inside, and whether the data is half-written. */
byte inside;
bool half_written;

/* One of the waiters, and the first holder. */
#define MAY_DIE(m) ((m) != 1)

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && MAY_DIE(me) && role != RECOVERS -> kills = 0; dead = me; gone[me] = 1; goto dies
	:: kills_more && role == RECOVERS && dead != NOBODY -> kills_more = 0; goto dies
	:: true
	fi
}

/* The lock is ours, as the word said: torn, or not; torn it is only by a death. */
inline enters(w) {
	assert(inside == 0 || gone[inside - 1]);
	assert(((w) & TORN) -> (gone[0] || gone[1] || gone[2]) : !half_written);
	inside = me + 1; half_written = 1
}

/* The ends of the subroutines, by caller. */
inline drained() {
	seen = 0;
	if
	:: drains == 1 -> drains = 0; goto rest
	:: drains == 2 -> drains = 0; goto given
	:: drains == 3 -> drains = 0; goto recovered
	fi
}

inline looked() {
	at = 0;
	if
	:: look -> goto each
	:: else
	fi;
	if
	:: notes -> goto told_still
	:: else -> goto tell
	fi
}

inline wake_granted(m) {
	if
	:: IS_GRANTED(state[m]) && slept[m] == WAIT(state[m]) -> in_futex[m] = 0
	:: else
	fi
}

proctype member(byte me; byte role; byte times; bool timed)
{
	short seen;          /* the word, as it was read */
	byte its;            /* a member's state, as it was read */
	byte best, first;    /* that of the oldest waiter so far, and its number */
	byte look, at;
	bool trying;         /* somebody has been told, and has not tried yet */
	bool notes;          /* that somebody was told */
	byte drains;         /* the caller of `drain` */

	if
	:: role == LOCKS -> goto take
	:: role == SLEEPS -> role = LOCKS; goto sleep
	:: role == HOLDS || role == CONDEMNS -> goto unlock
	:: role == RECOVERS -> goto watch
	fi;

	/* -- lock.rs `take_one`, `take` -- */
take:	atomic { mortal();
		if
		:: IS_CONDEMNED(word) -> goto out
		:: !IS_CONDEMNED(word) && TAG(word) != FREE -> goto busy
		:: TAG(word) == FREE -> enters(word); word = HELD_BY(me) | (word & FLAGS)
		fi };

	/* `settle_waiters` */
settle:	atomic { mortal();
		if
		:: word & WAITERS
		:: else -> goto unlock
		fi };
	atomic { mortal();
		if
		:: bits -> goto unlock
		:: else
		fi };
	atomic { mortal(); if :: IS_MINE(word) -> word = word & ~WAITERS :: else fi };
#ifndef MISTAKE_SETTLED_BLINDLY
	atomic { mortal();
		if
		:: bits
		:: else -> goto unlock
		fi };
	atomic { mortal(); if :: IS_MINE(word) -> word = word | WAITERS :: else fi };
#endif

	/* -- mutex.rs `make_consistent` (lock.rs `tear`), `give`; or `condemn` -- */
unlock:	atomic { mortal(); half_written = 0; assert(IS_MINE(word) && inside == me + 1); word = word & ~TORN };
#ifdef MISTAKE_STORES_FREE
	atomic { mortal(); seen = word };
	atomic { mortal(); inside = 0; word = FREE | (seen & FLAGS);
		if
		:: (seen & WAITERS) && !(seen & TOLD) -> seen = 0; drains = 2; goto drain
		:: else -> seen = 0
		fi };
#else
	atomic { mortal(); inside = 0; look = word & FLAGS;
		if
		:: role == CONDEMNS -> word = CONDEMNED | (word & (WAITERS | TOLD)); look = 0; drains = 2; goto drain
		:: role != CONDEMNS -> word = FREE | (word & FLAGS)
		fi;
		if
		:: (look & WAITERS) && !(look & TOLD) -> look = 0; drains = 2; goto drain
		:: (look & WAITERS) && (look & TOLD) && in_time -> look = 0; drains = 2; goto drain
		:: !((look & WAITERS) && !(look & TOLD)) -> look = 0
		fi };
#endif
given:	atomic {
		if
		:: times -> times--; goto take
		:: else -> goto out
		fi };

	/* -- contend.rs `contend`, wait.rs `begin` -- */
busy:	atomic { mortal();
		if
		:: me < 2 -> ticket[me] = tickets; tickets++
		:: else -> goto out /* `try_lock` */
		fi };
again:	atomic { mortal(); state[me] = STATE(WAITING, WAIT(state[me]) + 1) };
	atomic { mortal(); bits = bits | (1 << me) };
#ifndef MISTAKE_NO_MARK
	/* lock.rs `mark` */
	atomic { mortal(); word = word | WAITERS };
#endif
#ifndef MISTAKE_NO_SECOND_LOOK
	drains = 1; goto drain;
#endif

	/* -- wait/rest.rs `rest` -- */
rest:	atomic { mortal(); slept[me] = WAIT(state[me]);
		if
		:: PHASE(state[me]) == WAITING -> state[me] = STATE(ASLEEP, WAIT(state[me]))
		:: else -> goto waited
		fi };
sleep:	atomic { mortal();
		if
		:: PHASE(state[me]) == ASLEEP -> in_futex[me] = 1
		:: else -> goto waited
		fi };
	if
	:: atomic { !in_futex[me] -> goto sleep }
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0 }
	:: atomic { in_futex[me] && kills && MAY_DIE(me) -> kills = 0; dead = me; gone[me] = 1; goto dies }
	fi;

	/* -- wait.rs `end`, `finish`; lock.rs `collect` -- */
waited:	atomic { mortal();
		if
		:: IS_NUDGED(state[me]) -> notes = 1 /* `finish` first */
		:: IS_GIVEN(state[me])
		:: IS_GRANTED(state[me]) && (state[me] & DEAD) -> assert(IS_CONDEMNED(word)); times = 9
		:: IS_WAITING(state[me]) -> state[me] = STATE(IDLE, WAIT(state[me])); times = 9
		fi;
		if
		:: notes || times == 9 -> goto finish
		:: else
		fi };
	atomic { mortal();
		if
		:: (word & ~FLAGS) == RESERVED_FOR(me, WAIT(state[me])) -> enters(word); word = HELD_BY(me) | (word & FLAGS)
		:: else
		fi };
finish:	atomic { mortal(); state[me] = STATE(IDLE, WAIT(state[me])) };
	atomic { mortal(); bits = bits & ~(1 << me);
		if
		:: times == 9 -> goto out
		:: times != 9 && inside == me + 1 -> goto settle
		:: else
		fi };
	/* `untell`, and another attempt; it may be overdue then */
	atomic { mortal();
		if
		:: notes -> notes = 0; word = word & ~TOLD
		:: else -> goto again
		fi };
	atomic { mortal();
		if
		:: IS_CONDEMNED(word) -> goto out
		:: !IS_CONDEMNED(word) && TAG(word) != FREE && in_time -> need[me] = 1; goto again
		:: !IS_CONDEMNED(word) && TAG(word) != FREE -> goto again
		:: TAG(word) == FREE -> enters(word); word = HELD_BY(me) | (word & FLAGS); goto settle
		fi };

	/* -- lock.rs `drain` -- */
drain:	atomic { mortal(); seen = word;
		if
		:: IS_CONDEMNED(seen) -> at = 0; goto bury
		:: !IS_CONDEMNED(seen) && TAG(seen) == HELD -> drained()
		:: TAG(seen) == RESERVED -> goto resolve
		:: TAG(seen) == FREE
		fi };
	atomic { mortal(); look = bits; first = NOBODY; trying = 0; looked() };
tell:	atomic {
		if
		:: first == NOBODY -> first = 0; trying = 0; drained()
		:: first != NOBODY && (trying || need[first]) && in_time -> in_time--; trying = 0; goto reserve /* `may_reserve` */
		:: first != NOBODY && trying -> first = 0; best = 0; trying = 0; drained()
		:: first != NOBODY && !trying
		fi;
		seen = 0 };
	/* wait/word.rs `tell`, `decide` */
	atomic { mortal();
		if
		:: state[first] == best || (PHASE(best) == WAITING && state[first] == STATE(ASLEEP, WAIT(best))) ->
			best = state[first];
			if
			:: PHASE(best) == WAITING -> state[first] = STATE(GRANTED, WAIT(best)) | NUDGED | WOKEN; best = 0; goto note_told
			:: PHASE(best) == ASLEEP -> state[first] = STATE(GRANTED, WAIT(best)) | NUDGED
			fi
		:: else -> best = 0; first = 0; goto drain
		fi };
	atomic { mortal(); in_futex[first] = 0 };
	atomic { mortal();
		if
		:: state[first] == (STATE(GRANTED, WAIT(best)) | NUDGED) -> state[first] = state[first] | WOKEN
		:: else
		fi;
		best = 0 };
	/* `note_told` */
note_told:
	atomic { mortal(); first = 0;
		if
		:: (word & (WAITERS | TOLD)) == WAITERS -> word = word | TOLD
		:: else -> drained()
		fi };
#ifdef MISTAKE_TOLD_TOO_LONG
	drained();
#endif
	atomic { mortal(); look = bits; notes = 1; trying = 0; first = NOBODY; looked() };
told_still:
	atomic { notes = 0; first = 0; best = 0;
		if
		:: trying -> trying = 0; drained()
		:: else
		fi };
	atomic { mortal(); word = word & ~TOLD; goto drain };
reserve:
	atomic { mortal();
		if
		:: word == seen -> seen = RESERVED_FOR(first, WAIT(best)) | (seen & FLAGS); word = seen; its = best; best = 0; first = 0
		:: else -> seen = 0; best = 0; first = 0; goto drain
		fi };
	goto grant;

	/* -- wait.rs `tried_and_next`: of the members in `look` -- */
each:	atomic { mortal(); at = ((look & 1) -> 0 : 1); look = look & ~(1 << at); its = state[at];
		if
		:: PHASE(its) == IDLE || (IS_GRANTED(its) && !IS_NUDGED(its)) -> its = 0; looked()
		:: else
		fi };
	atomic { mortal();
		if
		:: (bits & (1 << at)) && !gone[at] && IS_WAITING(its) && (first == NOBODY || ticket[at] < ticket[first]) ->
			first = at; best = its; its = 0; looked()
		:: (bits & (1 << at)) && !gone[at] && IS_NUDGED(its) -> trying = 1;
			if
			:: its & WOKEN -> its = 0; looked()
			:: else
			fi
		:: else -> its = 0; looked()
		fi };
	/* `wake_told`: the teller may have died before the wake */
	atomic { mortal(); in_futex[at] = 0 };
	atomic { mortal();
		if
		:: state[at] == its -> state[at] = its | WOKEN
		:: else
		fi;
		its = 0; looked() };

	/* -- lock.rs `resolve`, of a lock that is reserved, as was `seen` -- */
resolve:
	atomic { mortal(); its = state[OF(seen)];
		if
		:: WAIT(its) == AUX(seen) && IS_WAITING(its)
		:: WAIT(its) == AUX(seen) && IS_GIVEN(its) -> its = 0; goto made_up
		:: else -> its = 0; goto undo
		fi };
	atomic { mortal();
		if
		:: bits & (1 << OF(seen))
		:: else -> its = 0; goto undo
		fi };
grant:	atomic { mortal();
		if
		:: state[OF(seen)] == its || (PHASE(its) == WAITING && state[OF(seen)] == STATE(ASLEEP, WAIT(its))) ->
			its = PHASE(state[OF(seen)]); state[OF(seen)] = STATE(GRANTED, WAIT(state[OF(seen)]));
			if
			:: its == WAITING -> its = 0; drained()
			:: its == ASLEEP -> its = 0
			fi
		:: else -> goto not_granted
		fi };
	atomic { mortal(); in_futex[OF(seen)] = 0; drained() };
not_granted:
	atomic { mortal();
		if
		:: WAIT(state[OF(seen)]) == WAIT(its) && IS_GIVEN(state[OF(seen)]) -> its = 0
		:: else -> its = 0;
#ifdef MISTAKE_NOT_UNDONE
			drained()
#endif
			goto undo
		fi };
made_up:
	atomic { mortal(); wake_granted(OF(seen));
		if
		:: (word & ~FLAGS) == (seen & ~FLAGS) -> drained()
		:: else -> seen = 0; goto drain
		fi };
	/* `release_reserved` */
undo:	atomic { mortal();
		if
		:: (word & ~FLAGS) == (seen & ~FLAGS) -> word = FREE | (word & FLAGS)
		:: else
		fi;
		seen = 0; goto drain };

	/* -- wait.rs `bury`: all waiters are told that it is dead -- */
bury:	atomic { mortal(); its = state[at];
		if
		:: IS_WAITING(its)
		:: else -> goto bury_next
		fi };
	atomic { mortal();
		if
		:: bits & (1 << at)
		:: else -> goto bury_next
		fi };
	atomic { mortal();
		if
		:: state[at] == its || (PHASE(its) == WAITING && state[at] == STATE(ASLEEP, WAIT(its))) ->
			state[at] = STATE(GRANTED, WAIT(its)) | DEAD
		:: else -> goto bury_next
		fi };
	atomic { mortal(); in_futex[at] = 0 };
bury_next:
	atomic { its = 0; at++;
		if
		:: at < 2 -> goto bury
		:: else -> at = 0; drained()
		fi };

	/* -- recover.rs `recover`, of the dead member -- */
watch:
end_watch:
	atomic { dead != NOBODY };
	atomic { mortal();
		if
		:: dead < 2 -> its = state[dead]
		:: else -> goto recover_lock
		fi };
	atomic { mortal();
		if
		:: state[dead] == its -> state[dead] = STATE(IDLE, WAIT(its)); its = 0
		:: else -> its = 0; goto watch
		fi };
	/* lock.rs `recover` */
recover_lock:
#ifndef MISTAKE_TOLD_BY_THE_DEAD
	atomic { mortal(); word = word & ~TOLD };
#endif
	atomic { mortal();
		if
#ifdef MISTAKE_NOT_TORN
		:: (word & ~FLAGS) == HELD_BY(dead) -> word = FREE | WAITERS | (word & FLAGS)
#else
		:: (word & ~FLAGS) == HELD_BY(dead) -> word = FREE | TORN | WAITERS | (word & FLAGS)
#endif
		:: else
		fi;
		drains = 3; goto drain };
recovered:
	atomic { mortal(); if :: dead != 0 -> wake_granted(0) :: else fi };
	atomic { mortal(); if :: dead != 1 -> wake_granted(1) :: else fi };
	/* member.rs `clean` */
	atomic { mortal(); bits = bits & ~(1 << dead); dead = NOBODY; goto watch };

dies:	atomic {
		if
		:: role == RECOVERS -> seen = 0; its = 0; best = 0; first = 0; look = 0; at = 0; trying = 0; notes = 0; drains = 0; goto watch
		:: role != RECOVERS && me < 2 -> in_futex[me] = 0
		:: role != RECOVERS && me == 2
		fi };
out:	atomic { seen = 0; its = 0; best = 0; first = 0; look = 0; at = 0; trying = 0; notes = 0; drains = 0; times = 0; timed = 0 }
}

/* Nothing else can happen: then nobody sleeps, and the lock is free, or nobody's for ever. */
proctype quiet()
{
	atomic { timeout && (TAG(word) == FREE || IS_CONDEMNED(word)) && !(in_futex[0] || in_futex[1]) }
}

/* A waiter that has gone to sleep. */
inline asleep(m) {
	state[m] = STATE(ASLEEP, 1); slept[m] = 1; ticket[m] = tickets; tickets++; bits = bits | (1 << m); word = word | WAITERS
}

init {
	atomic {
		word = HELD_BY(2); inside = 3; half_written = 1;
		if
		:: SCENE(1) -> run member(0, LOCKS, 0, 0); run member(1, LOCKS, 0, 0); run member(2, HOLDS, 0, 0)
		:: SCENE(2) -> in_time = 1; asleep(0); asleep(1);
			run member(0, SLEEPS, 0, 1); run member(1, SLEEPS, 0, 0); run member(2, HOLDS, 0, 0)
		:: SCENE(3) -> in_time = 2; asleep(0);
			run member(0, SLEEPS, 0, 0); run member(2, HOLDS, 1, 0)
		:: SCENE(4) -> asleep(0);
			run member(0, SLEEPS, 0, 0); run member(1, LOCKS, 0, 0); run member(2, CONDEMNS, 0, 0)
		:: SCENE(5) -> kills = 1; asleep(0); asleep(1);
			run member(0, SLEEPS, 0, 0); run member(1, SLEEPS, 0, 0); run member(2, HOLDS, 0, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(6) -> kills = 1; kills_more = 1;
			run member(0, LOCKS, 0, 0); run member(2, HOLDS, 0, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(7) -> kills = 1; in_time = 2; asleep(0);
			run member(0, SLEEPS, 0, 0); run member(2, HOLDS, 1, 0); run member(3, RECOVERS, 0, 0)
		fi;
		run quiet()
	}
}
