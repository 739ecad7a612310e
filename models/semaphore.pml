/*
 * Semaphores: how a saved wake-up gets from the count to a waiter.
 *
 * Source: crates/sync/src/semaphore_word.rs. Its head has the table of the word and the invariants; waiting and recovery are those of
 * wait.rs, claim.rs and recover.rs beside it. What another file's head says is cited with its name.
 *
 *   word   WAITERS:1 | count:2 | BACK:1 | member:2 | seq:4      (`Units`)
 *   state  phase:2 | number of the wait:2 | RETURNED:1 | seq:4  (`State`: a member's wait word)
 *   bits   members that stand on the object
 *
 * Checked:
 *   I1      units are neither lost nor made: asserted at each change of either word.
 *   I2, I4  a grant is taken, or goes back, once: by I1.
 *   I3      a waiter that gave up waits again, and gets nothing that was sent to its earlier wait: by I1.
 *   I6      nobody sleeps for good beside a unit: Spin's invalid end states.
 *   I7      no unit is taken, or sent to another, past a waiter that has set WAITERS.
 *   wait.rs R2 (grant against time-out), R5 (granter dead at each step), R6 (member dead while granted), I8.
 *
 * Scenes, one after the other: two waiters, two units, no death; one that times out, and waits again; a waiter or the caller of `up` is
 * killed, then the recoverer, and the next one comes; the same, with two recoverers at once.
 * Kills: at each step.
 *
 * Left out: barging (telling instead of granting is in mutex.pml); choice (choice.pml); a slot that is used again, of members
 * (member.pml) or objects (object.pml); words that are none; overflow; wrap-around of seq, which stands for the stamp here. See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_NO_MARK            a waiter sets its bit, and not WAITERS (I6). Found: assertion
 *   MISTAKE_NO_SECOND_LOOK     a waiter does not drain once it has set WAITERS (wait.rs I4). Found: invalid end state
 *   MISTAKE_UNMARKED_BLINDLY   WAITERS is taken away by a store (I6). Found: assertion
 *   MISTAKE_CANCELLED_IS_LOST  a waiter that gave up does not end what is under way to it (I2). Found: assertion
 *   MISTAKE_NO_BEFORE          a member that waits again does not change seq first (I3). Found: assertion
 *   MISTAKE_NOT_TAKEN_BACK     recovery sets the dead member's word to IDLE, whatever was granted. Found: assertion
 *   MISTAKE_NOT_WOKEN          nobody makes up for the wake that a dead granter owed (wait.rs R5). Found: invalid end state
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define WAITERS 1
#define ONE 2
#define BACK 8
#define MEMBER 48
#define SEQ 64
#define NOBODY 3
#define COUNT(w) (((w) >> 1) & 3)
#define TO_WHOM(w) (((w) >> 4) & 3)
#define UNDER_WAY(w) (TO_WHOM(w) != NOBODY)
#define SEQ_OF(w) ((w) >> 6)
#define STAMPED(w) ((w) + SEQ)
#define MARKED(w) (((w) | WAITERS) + SEQ)
#define UNMARKED(w) ((w) & ~WAITERS)
#define SENT_TO(w, m) (((((w) - ONE) & ~(MEMBER | BACK)) | ((m) << 4)) + SEQ)
#define BACK_FROM(w, m) ((((w) & ~MEMBER) | BACK | ((m) << 4)) + SEQ)
#define ARRIVED(w, in_count) ((((w) & ~BACK) | MEMBER) + ((in_count) * ONE))
#define IS_PLAIN(w) (((w) & (WAITERS | MEMBER)) == MEMBER)

#define IDLE 0
#define WAITING 1
#define ASLEEP 2
#define GRANTED 3
#define RETURNED 16
#define PHASE(s) ((s) & 3)
#define WAIT(s) (((s) >> 2) & 3)
#define STATE(phase, n) ((phase) | ((n) << 2))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)
#define IS_GRANTED(s) (PHASE(s) == GRANTED)
#define WITH_GRANT(s, seq) (GRANTED | ((s) & 12) | ((seq) << 5))
#define GRANT_OF(s) ((s) >> 5)

#define DOWNS 0
#define UPS 1
#define RECOVERS 2
#define SLEEPS 3  /* as DOWNS, and does so already */

short word = MEMBER;    /* no unit, none under way */
short state[2];
byte bits;
byte tickets;           /* the next arrival */
byte ticket[2];
byte slept[2];          /* wait.rs I8 */
bool in_futex[2];
bool gone[3];           /* has died */
byte dead = NOBODY;     /* the dead member, until it is recovered; 2 is the caller of `up` */
bool kills;             /* to be done, of waiters and of the caller of `up` */
bool kills_more;        /* of the recoverer, after that */
bool over;

/* For the assertions alone: how many units there are, and which members have set WAITERS. */
byte units;
bool marked[2];

#define HAS(m) (IS_GRANTED(state[m]) && !(state[m] & RETURNED))
#define HAS_THIS(m) (HAS(m) && GRANT_OF(state[m]) == SEQ_OF(word))
#define WAY (UNDER_WAY(word) -> ((word & BACK) -> !HAS(TO_WHOM(word)) : !HAS_THIS(TO_WHOM(word))) : 0)
#define WAITS_MARKED(m) (marked[m] && IS_WAITING(state[m]) && !gone[m])

/* I1; and seq does not wrap here. */
inline conserved() {
	assert(SEQ_OF(word) < 16 && COUNT(word) + HAS(0) + HAS(1) + WAY == units)
}

/* I7, and FIFO: nobody is granted, or takes, past a waiter that came before. */
inline in_turn(m) {
	assert(!(WAITS_MARKED(1 - m) && ticket[1 - m] < ticket[m]))
}

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && role != RECOVERS -> kills = 0; dead = me; gone[me] = 1; goto dies
	:: kills_more && role == RECOVERS && dead != NOBODY -> kills_more = 0; goto dies
	:: true
	fi
}

/* The ends of the subroutines, by caller. */
inline concluded() {
	seen = 0; its = 0;
	if
	:: back == 1 -> back = 0; goto take
	:: back == 2 -> back = 0; goto before
	:: back == 3 -> back = 0; goto mark
	:: back == 4 -> back = 0; goto drain
	:: back == 5 -> back = 0; drains = 2; goto drain
	:: back == 6 -> back = 0; goto take_back
	fi
}

inline drained() {
	seen = 0;
	if
	:: drains == 1 -> drains = 0; goto rest
	:: drains == 2 -> drains = 0; goto left
	:: drains == 3 -> drains = 0; goto recovered
	:: drains == 4 -> drains = 0; goto out
	fi
}

inline found() {
	if
	:: look -> goto oldest
	:: !look && drains && first != NOBODY -> goto send
	:: !look && drains && first == NOBODY -> first = 0; goto nobody
	:: !look && !drains && first != NOBODY -> first = 0; best = 0; seen = 0; goto arrive
	:: !look && !drains && first == NOBODY -> first = 0; goto take_past
	fi
}

/* What was sent has been granted, or is to go into the count. */
inline decided() {
	if
	:: IS_GRANTED(its) && GRANT_OF(its) == SEQ_OF(seen) -> its = 0; goto made_up
	:: else -> its = 0; goto in_count
	fi
}

proctype member(byte me; byte role; byte times; bool timed)
{
	short seen;          /* the word, as it was read */
	short its;           /* a member's state, as it was read */
	short best;          /* and that of the oldest so far, which is `first` */
	byte look, at, first;
	byte back, drains;   /* the callers of `conclude`, and `drain` */
	byte whom;           /* the dead member that it recovers */

	if
	:: role == DOWNS -> goto take
	:: role == UPS -> goto give
	:: role == RECOVERS -> goto watch
	:: role == SLEEPS -> role = DOWNS; goto sleep
	fi;

	/* -- `take_one`, `take` -- */
take:	atomic { mortal(); seen = word;
		if
		:: COUNT(seen) == 0 && UNDER_WAY(seen) -> back = 1; goto conclude
		:: COUNT(seen) == 0 && !UNDER_WAY(seen) -> seen = 0; goto arrive
		:: COUNT(seen) && IS_PLAIN(seen) -> goto take_it
		:: COUNT(seen) && !IS_PLAIN(seen)
		fi };
	atomic { mortal(); look = bits;
		if
		:: look -> first = NOBODY; goto oldest
		:: else
		fi };
take_it:
	atomic { mortal();
		if
		:: word == seen -> word = UNMARKED(seen) - ONE; units--; conserved(); assert(!WAITS_MARKED(1 - me)); seen = 0; goto had
		:: else -> seen = 0; goto take
		fi };
take_past:
	atomic { mortal();
		if
		:: word == seen -> word = seen - ONE; units--; conserved(); assert(!WAITS_MARKED(1 - me)); seen = 0; goto had
		:: else -> seen = 0; goto take
		fi };

	/* -- claim.rs `wait_for`, wait.rs `begin` -- */
arrive:	atomic { mortal(); ticket[me] = tickets; tickets++;
#ifdef MISTAKE_NO_BEFORE
		goto publish
#endif
		};
before:	atomic { mortal();
		if
		:: UNDER_WAY(word) -> seen = word; back = 2; goto conclude
		:: else -> word = STAMPED(word); conserved()
		fi };
publish:
	atomic { mortal(); state[me] = STATE(WAITING, WAIT(state[me]) + 1); conserved() };
	atomic { mortal(); bits = bits | (1 << me);
#ifdef MISTAKE_NO_MARK
		marked[me] = 1; drains = 1; goto drain
#endif
		};
mark:	atomic { mortal();
		if
		:: UNDER_WAY(word) -> seen = word; back = 3; goto conclude
		:: else -> word = MARKED(word); conserved(); marked[me] = 1
		fi;
#ifndef MISTAKE_NO_SECOND_LOOK
		drains = 1; goto drain
#endif
		};

	/* -- wait/rest.rs `rest`: it sleeps, unless it was granted by then -- */
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
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0; goto waited }
	:: atomic { in_futex[me] && kills -> kills = 0; dead = me; gone[me] = 1; goto dies }
	:: over -> goto out
	fi;

	/* -- wait.rs `end`, `finish` -- */
waited:	atomic { mortal(); timed = 0;
		if
		:: IS_GRANTED(state[me])
		:: else -> state[me] = STATE(IDLE, WAIT(state[me])); conserved()
		fi;
#ifdef MISTAKE_CANCELLED_IS_LOST
		goto finish
#endif
		};
left:	atomic { mortal();
		if
		:: UNDER_WAY(word) && TO_WHOM(word) == me -> seen = word; back = 5; goto conclude
		:: else
		fi };
finish:	atomic { mortal(); look = IS_GRANTED(state[me]); units = units - look; state[me] = STATE(IDLE, WAIT(state[me])); marked[me] = 0; conserved() };
	atomic { mortal(); bits = bits & ~(1 << me);
		if
		:: look -> look = 0
		:: else -> goto take
		fi };
had:	atomic { times--;
		if
		:: times -> goto take
		:: else -> goto out
		fi };

	/* -- `give` of so many units at once, and `hand_on`; the attempt on a guess is the same swap -- */
give:	atomic { mortal(); look = word & WAITERS; word = word + times * ONE; units = units + times; times = 0; conserved();
		if
		:: look -> look = 0; drains = 4; goto drain
		:: else -> goto out
		fi };

	/* -- `drain` -- */
drain:	atomic { mortal(); seen = word;
		if
		:: UNDER_WAY(seen) -> back = 4; goto conclude
		:: !UNDER_WAY(seen) && COUNT(seen) == 0 && !(seen & WAITERS) -> drained()
		:: else
		fi };
	atomic { mortal(); look = bits;
		if
		:: look && COUNT(seen) == 0 -> look = 0; drained()
		:: look && COUNT(seen) -> first = NOBODY; goto oldest
		:: !look && !(seen & WAITERS) -> goto nobody
		:: else
		fi };
	atomic { mortal();
		if
#ifdef MISTAKE_UNMARKED_BLINDLY
		:: true -> word = UNMARKED(seen); conserved()
#else
		:: word == seen -> word = UNMARKED(seen); conserved()
		:: else
#endif
		fi;
		seen = 0; goto drain };
nobody:	atomic { mortal();
		if
		:: word == seen -> drained()
		:: else -> seen = 0; goto drain
		fi };
send:	atomic { mortal();
		if
		:: word == seen ->
			seen = SENT_TO(seen, first); word = seen; conserved()
		:: else -> seen = 0; first = 0; best = 0; goto drain
		fi };
	/* wait.rs `decide`: from the state that was seen, or from ASLEEP in the same wait */
	atomic { mortal();
		if
		:: state[first] == best || (PHASE(best) == WAITING && state[first] == STATE(ASLEEP, WAIT(best))) ->
			best = PHASE(state[first]); state[first] = WITH_GRANT(state[first], SEQ_OF(seen)); conserved(); in_turn(first);
			if
			:: best == WAITING -> best = 0; first = 0; goto sent
			:: best == ASLEEP -> best = 0
			fi
		:: else -> best = 0; first = 0; back = 4; goto conclude
		fi };
	atomic { mortal(); in_futex[first] = 0; first = 0 };
sent:	atomic { mortal();
		if
		:: word == seen -> word = ARRIVED(seen, 0); conserved()
		:: else
		fi;
		seen = 0; goto drain };

	/* -- wait.rs `oldest`, `each`: of the members in `look` -- */
oldest:	atomic { mortal(); at = ((look & 1) -> 0 : 1); look = look & ~(1 << at); its = state[at];
		if
		:: IS_WAITING(its)
		:: else -> its = 0; at = 0; found()
		fi };
	atomic { mortal();
		if
		:: (bits & (1 << at)) && !gone[at] && (first == NOBODY || ticket[at] < ticket[first]) -> first = at; best = its
		:: else
		fi;
		its = 0; at = 0; found() };

	/* -- `conclude`: ends what is under way, as was `seen` -- */
conclude:
	atomic { mortal(); its = state[TO_WHOM(seen)];
		if
		:: (seen & BACK) && IS_GRANTED(its) && !(its & RETURNED)
		:: (seen & BACK) && !(IS_GRANTED(its) && !(its & RETURNED)) -> goto back_in_count
		:: !(seen & BACK) && IS_WAITING(its) -> goto for_this_wait
		:: !(seen & BACK) && !IS_WAITING(its) -> decided()
		fi };
	atomic { mortal();
		if
		:: word == seen
		:: else -> goto back_in_count
		fi };
	atomic { mortal();
		if
		:: state[TO_WHOM(seen)] == its -> state[TO_WHOM(seen)] = its | RETURNED; conserved()
		:: else
		fi };
	atomic { mortal(); its = state[TO_WHOM(seen)] };
back_in_count:
	atomic { mortal();
		if
		:: word == seen -> word = ARRIVED(seen, IS_GRANTED(its) && (its & RETURNED)); conserved()
		:: else
		fi;
		concluded() };
for_this_wait:
	/* I3: the bit, then the word once more */
	atomic { mortal();
		if
		:: bits & (1 << TO_WHOM(seen))
		:: else -> decided()
		fi };
	atomic { mortal();
		if
		:: word == seen
		:: else -> decided()
		fi };
	atomic { mortal();
		if
		:: state[TO_WHOM(seen)] == its || (PHASE(its) == WAITING && state[TO_WHOM(seen)] == STATE(ASLEEP, WAIT(its))) ->
			its = PHASE(state[TO_WHOM(seen)]);
			state[TO_WHOM(seen)] = WITH_GRANT(state[TO_WHOM(seen)], SEQ_OF(seen)); conserved(); in_turn(TO_WHOM(seen));
			if
			:: its == WAITING -> its = 0; goto decide
			:: its == ASLEEP -> its = 0
			fi
		:: else -> its = 0; goto decide
		fi };
	atomic { mortal(); in_futex[TO_WHOM(seen)] = 0 };
decide:	atomic { mortal(); its = state[TO_WHOM(seen)]; decided() };
made_up:
	/* wait/word.rs `wake_granted` */
	atomic { mortal();
		if
#ifndef MISTAKE_NOT_WOKEN
		:: IS_GRANTED(state[TO_WHOM(seen)]) && slept[TO_WHOM(seen)] == WAIT(state[TO_WHOM(seen)]) -> in_futex[TO_WHOM(seen)] = 0
#endif
		:: else
		fi };
	atomic { mortal();
		if
		:: word == seen -> word = ARRIVED(seen, 0); conserved()
		:: else
		fi;
		concluded() };
in_count:
	atomic { mortal();
		if
		:: word == seen -> word = ARRIVED(seen, 1); conserved()
		:: else
		fi;
		concluded() };

	/* -- recover.rs `recover`, of the dead member -- */
watch:	atomic {
		if
		:: dead != NOBODY -> whom = dead
		:: over -> goto out
		fi;
		if
		:: whom == 2 -> drains = 3; goto drain
		:: else
		fi };
recover:
	atomic { mortal(); its = state[whom];
		if
		:: PHASE(its) == IDLE -> its = 0; drains = 3; goto drain
#ifndef MISTAKE_NOT_TAKEN_BACK
		:: IS_GRANTED(its)
#endif
		:: else -> best = its; its = 0; goto to_idle
		fi;
		best = its; its = 0 };
	/* `take_back` */
take_back:
	atomic { mortal(); seen = word;
		if
		:: UNDER_WAY(seen) -> back = 6; goto conclude
		:: else
		fi };
	atomic { mortal();
		if
		:: state[whom] != best || (best & RETURNED) -> seen = 0; goto to_idle
		:: else
		fi };
	atomic { mortal();
		if
		:: word == seen -> seen = BACK_FROM(seen, whom); word = seen; conserved(); back = 6; goto conclude
		:: else -> seen = 0; goto take_back
		fi };
to_idle:
	atomic { mortal();
		if
		:: state[whom] == best -> state[whom] = STATE(IDLE, WAIT(best)); conserved(); best = 0; drains = 3; goto drain
		:: else -> best = 0; goto recover
		fi };
recovered:
#ifndef MISTAKE_NOT_WOKEN
	atomic { mortal();
		if
		:: whom != 0 && IS_GRANTED(state[0]) && slept[0] == WAIT(state[0]) -> in_futex[0] = 0
		:: else
		fi };
	atomic { mortal();
		if
		:: whom != 1 && IS_GRANTED(state[1]) && slept[1] == WAIT(state[1]) -> in_futex[1] = 0
		:: else
		fi };
#endif
	/* member.rs `clean`, if nobody else has done it */
	atomic { mortal();
		if
		:: dead == whom -> dead = NOBODY; bits = bits & ~(1 << whom)
		:: else
		fi;
		whom = 0; goto watch };

dies:	atomic {
		if
		:: role == RECOVERS -> seen = 0; its = 0; best = 0; look = 0; at = 0; first = 0; back = 0; drains = 0; whom = 0; goto watch
		:: role == DOWNS -> in_futex[me] = 0
		:: role == UPS
		fi };
out:	atomic { seen = 0; its = 0; best = 0; look = 0; at = 0; first = 0; back = 0; drains = 0; times = 0; timed = 0 }
}

#define SLEEPS_GRANTED(m) (in_futex[m] && IS_GRANTED(state[m]))

/* Nothing else can happen: a sleeper now sleeps for good. */
proctype quiet()
{
	atomic { timeout && !UNDER_WAY(word) && !SLEEPS_GRANTED(0) && !SLEEPS_GRANTED(1) &&
		(COUNT(word) == 0 || !(in_futex[0] || in_futex[1])) -> over = 1 }
}

/* A waiter that has gone to sleep. */
inline asleep(m) {
	state[m] = STATE(ASLEEP, 1); slept[m] = 1; ticket[m] = tickets; tickets++;
	bits = bits | (1 << m); word = MARKED(word); marked[m] = 1
}

init {
	atomic {
		if
		:: SCENE(1) -> run member(0, DOWNS, 1, 0); run member(1, DOWNS, 1, 0); run member(2, UPS, 2, 0)
		:: SCENE(2) -> run member(0, DOWNS, 2, 1); run member(2, UPS, 2, 0)
		:: SCENE(3) -> asleep(0); asleep(1); run member(0, SLEEPS, 1, 1); run member(1, SLEEPS, 1, 0); run member(2, UPS, 2, 0)
		:: SCENE(4) -> kills = 1; asleep(1);
			run member(0, DOWNS, 1, 0); run member(1, SLEEPS, 1, 0); run member(2, UPS, 1, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(5) -> kills = 1; kills_more = 1;
			run member(0, DOWNS, 1, 0); run member(2, UPS, 1, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(6) -> kills = 1; asleep(0);
			run member(0, SLEEPS, 1, 0); run member(2, UPS, 1, 0); run member(3, RECOVERS, 0, 0); run member(4, RECOVERS, 0, 0)
		fi;
		run quiet()
	}
}
