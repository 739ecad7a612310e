/*
 * Pools: owner cells, how free permits and waiters are brought together, and several permits at once.
 *
 * Source: crates/wait/src/cell.rs, permit.rs, drain.rs, many.rs; recover.rs. Waiting is that of wait.rs and claim.rs beside them.
 * What a file's head says is cited with its name.
 *
 *   cell   tag:2 | member:2 | number of the wait:2 | version    (`Word`; a holder's generation is left to member.pml)
 *   state  phase:2 | number of the wait:2 | which permit:1      (`State`: a member's wait word)
 *   bits   members that stand on the pool
 *
 * Checked:
 *   permit.rs I1  a permit has one holder, and goes back once: asserted where one takes.
 *   wait.rs I2, I3, R5  a reservation is finished, or undone, by any member that comes by; none is left at the end.
 *   wait.rs I4    nobody sleeps for good beside a free permit: Spin's invalid end states.
 *   wait.rs I5    a waiter in the queue (its own drain has returned) is not passed by a later one: asserted where a cell is
 *                 reserved for a waiter that needs one.
 *   drain.rs      two that need several each do not keep each other's; a waiter granted several keeps them.
 *   recover.rs    what the dead held, or was granted, comes back.
 *
 * Scenes, one after the other: one permit, held, and two acquirers, one of which may time out; the same with a death; with a
 * death, and that of the recoverer; with a death, and two recoverers at once; two permits, both held, an acquirer of both that may
 * time out, an acquirer of one; two acquirers of both; the first of these with a death; two permits, one held, an acquirer of both
 * and an acquirer of one.
 * Kills: at each step.
 *
 * Left out: resizing and removal; leases and forced release; the hint which permit was given back last; `TOO_MANY`; a choice
 * (choice.pml); slots that are used again (member.pml, object.pml). See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_GIVES_BACK_BLINDLY  the holder gives back, and does not look for waiters. Found: invalid end state
 *   MISTAKE_NO_SECOND_LOOK      a waiter that sets its bit does not look at the cells again (wait.rs I4). Found: invalid end state
 *   MISTAKE_NOT_UNDONE          a grant that fails leaves its reservation. Found: invalid end state
 *   MISTAKE_HELD_BY_THE_DEAD    recovery looks at reservations only. Found: invalid end state
 *   MISTAKE_NOT_WOKEN           nobody makes up for the wake that a dead granter owed. Found: invalid end state
 *   MISTAKE_HALF_SERVED         the waiter that came first takes over nothing. Found: invalid end state
 *   MISTAKE_TAKEN_OVER_LATE     what was granted is taken over, too, by the waiter that is first then. Found: assertion
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define FREE 0
#define HELD 1
#define RESERVED 2
#define TAG(c) ((c) & 3)
#define OF(c) (((c) >> 2) & 3)
#define AUX(c) (((c) >> 4) & 3)
#define FREED(c) (((c) & ~63) + 64)
#define HELD_BY(c, m) (((c) & ~63) | HELD | ((m) << 2))
#define RESERVED_FOR(c, m, n) (((c) & ~63) | RESERVED | ((m) << 2) | ((n) << 4))
#define VERSION(c) ((c) >> 6)

#define IDLE 0
#define WAITING 1
#define ASLEEP 2
#define GRANTED 3
#define PHASE(s) ((s) & 3)
#define WAIT(s) (((s) >> 2) & 3)
#define PERMIT(s) ((s) >> 4)
#define STATE(phase, n) ((phase) | ((n) << 2))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)
#define IS_GRANTED(s) (PHASE(s) == GRANTED)
#define WITH_GRANT(s, p) (GRANTED | ((s) & 12) | ((p) << 4))

#define NOBODY 3
#define ACQUIRES 0
#define HOLDS 1     /* and gives back */
#define SLEEPS 2    /* as ACQUIRES, and does so already */
#define RECOVERS 3
#define ARRIVES 4   /* as ACQUIRES, and has taken its ticket */

byte permits = 1;
short cell[2];
byte state[3];
byte bits;
byte tickets;
byte ticket[3];
byte need[3];
byte slept[3];
bool in_futex[3];
bool gone[3];
byte dead = NOBODY;     /* the dead member, until it is recovered */
bool kills;             /* to be done, but for the recoverer's */
bool kills_more;        /* the recoverer's, after that */

/* For the assertions alone: the number, plus 1, of the member that thinks it has the permit; the waiters in the queue. */
byte had_by[2];
bool enlisted[3];

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && role != RECOVERS -> kills = 0; dead = me; gone[me] = 1; goto dies
	:: kills_more && role == RECOVERS && dead != NOBODY -> kills_more = 0; goto dies
	:: true
	fi
}

inline has(p) {
	assert(VERSION(cell[p]) < 32 && (had_by[p] == 0 || gone[had_by[p] - 1])); had_by[p] = me + 1
}

#define IS_MINE(c) (TAG(c) == RESERVED && OF(c) == me && AUX(c) == WAIT(state[me]))
#define HAS_ONE (had_by[0] == me + 1 || had_by[1] == me + 1)
#define HAS_ALL ((had_by[0] == me + 1) + (had_by[1] == me + 1) >= wants)

inline is_before(a, b) {
	assert(!(need[b] == 1 && enlisted[a] && IS_WAITING(state[a]) && !gone[a] && ticket[a] < ticket[b]))
}

/* The ends of the subroutines, by caller. */
inline drained() {
	p = 0;
	if
	:: drains == 1 -> drains = 0; goto rest
	:: drains == 2 -> drains = 0; goto behind
	:: drains == 3 -> drains = 0; goto given
	:: drains == 4 -> drains = 0; goto recovered
	:: drains == 5 -> drains = 0; goto gave_up
	fi
}

inline next_cell() {
	seen = 0; p++;
	if
	:: p < permits -> goto drain
	:: else -> drained()
	fi
}

/* `oldest` is done: it is `first`, and its state `best`. */
inline found() {
	if
	:: look -> goto oldest
	:: !look && asks == 1 -> asks = 0; goto reserve
	:: !look && asks == 2 -> asks = 0; goto taken_over
	:: !look && asks == 3 -> asks = 0; best = 0;
		if
		:: first == NOBODY -> first = 0; goto take_any
		:: else -> first = 0; goto arrive
		fi
	fi
}

/* `hand_over`, and so `resolve`, is done with the cell: or look at it again. */
inline settled(done) {
	its = 0; whom = 0;
	if
	:: resolves == 0 && done -> next_cell()
	:: resolves == 0 && !done -> seen = 0; goto drain
	:: resolves == 1 && done -> resolves = 0; next_cell()
	:: resolves == 1 && !done -> resolves = 0; seen = 0; goto drain
	:: resolves == 2 && done -> resolves = 0; seen = 0; p = 0; goto arrive
	:: resolves == 2 && !done -> resolves = 0; seen = 0; goto take_any
	:: resolves == 3 && done -> resolves = 0; seen = 0; goto recover_next
	:: resolves == 3 && !done -> resolves = 0; seen = 0; goto recover_cell
	fi
}

proctype member(byte me; byte role; byte wants; bool timed)
{
	short seen;          /* a cell, as it was read */
	byte p;              /* which */
	byte its, whom;      /* a member's state, as it was read, and whose */
	byte best, first;    /* that of the oldest so far, and its number */
	byte look, at;
	byte aside;          /* how many cells are reserved for `whom`, of those looked at */
	byte drains, asks, resolves, gives;  /* the callers of `drain`, `oldest`, `resolve`, `give` */
	byte who;            /* is recovered */

	if
	:: role == ACQUIRES -> goto take_one
	:: role == SLEEPS -> role = ACQUIRES; goto sleep
	:: role == ARRIVES -> role = ACQUIRES; goto again
	:: role == HOLDS -> goto give
	:: role == RECOVERS -> goto watch
	fi;

	/* -- permit.rs `take_one`, of the first permit -- */
take_one:
	atomic { mortal();
		if
		:: wants > 1 -> goto take_many
		:: else -> seen = cell[0]
		fi };
	atomic { mortal();
		if
		:: bits || TAG(seen) != FREE -> seen = 0; goto take
		:: else
		fi };
	atomic { mortal();
		if
		:: cell[0] == seen -> cell[0] = HELD_BY(seen, me); has(0); seen = 0; goto give
		:: else -> seen = 0
		fi };
	/* `take`, `take_behind` */
take:	atomic { mortal();
		if
		:: bits -> drains = 2; goto drain
		:: else -> goto take_any
		fi };
behind:	atomic { mortal(); look = bits; first = NOBODY; asks = 3; found() };
	/* `take_any`: a cell after the other */
take_any:
	atomic { mortal(); seen = cell[p];
		if
		:: TAG(seen) == FREE
		:: TAG(seen) == RESERVED -> resolves = 2; goto resolve
		:: TAG(seen) == HELD -> seen = 0; p++;
			if
			:: p < permits -> goto take_any
			:: else -> p = 0; goto arrive
			fi
		fi };
	atomic { mortal();
		if
		:: cell[p] == seen -> cell[p] = HELD_BY(seen, me); has(p); seen = 0; p = 0; goto give
		:: else -> seen = 0; goto take_any
		fi };
	/* -- many.rs `take_many`: of both. Nothing is taken of less. -- */
take_many:
	atomic { mortal();
		if
		:: bits -> goto arrive
		:: else
		fi };
	atomic { mortal(); seen = cell[0]; aside = (TAG(seen) == FREE) };
	atomic { mortal();
		if
		:: aside && TAG(cell[1]) == FREE -> aside = 0
		:: else -> aside = 0; seen = 0; goto arrive
		fi };
	atomic { mortal();
		if
		:: cell[0] == seen -> cell[0] = HELD_BY(seen, me); has(0)
		:: else -> seen = 0; goto arrive
		fi };
	atomic { mortal(); seen = cell[1];
		if
		:: TAG(seen) != FREE -> seen = 0; gives = 2; goto give
		:: else
		fi };
	atomic { mortal();
		if
		:: cell[1] == seen -> cell[1] = HELD_BY(seen, me); has(1)
		:: else -> gives = 2
		fi;
		seen = 0; goto give };

	/* -- claim.rs `wait_for`, many.rs `wait_many`, wait.rs `begin` -- */
arrive:	atomic { mortal(); ticket[me] = tickets; tickets++ };
again:	atomic { mortal(); need[me] = wants; state[me] = STATE(WAITING, WAIT(state[me]) + 1) };
	atomic { mortal(); bits = bits | (1 << me);
#ifdef MISTAKE_NO_SECOND_LOOK
		goto rest
#endif
		drains = 1; goto drain };

	/* -- wait/rest.rs `rest` -- */
rest:	atomic { mortal(); slept[me] = WAIT(state[me]); enlisted[me] = 1;
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
	fi;

	/* -- wait.rs `end`; then `collect` (many.rs, if it is several), `finish` -- */
waited:	atomic { mortal();
		if
		:: IS_GRANTED(state[me])
		:: else -> state[me] = STATE(IDLE, WAIT(state[me])); enlisted[me] = 0; timed = 0; wants = 0; goto clear
		fi };
	/* `seize_reserved`; of several only if all are there */
	if
	:: wants == 1 -> p = PERMIT(state[me]); goto seize
	:: else
	fi;
	atomic { mortal(); aside = IS_MINE(cell[0]) };
	atomic { mortal();
		if
		:: aside && IS_MINE(cell[1]) -> aside = 0
		:: else -> aside = 0; goto finish
		fi };
seize:	atomic { mortal(); seen = cell[p];
		if
		:: IS_MINE(seen)
		:: else -> seen = 0; goto seized
		fi };
	atomic { mortal();
		if
		:: cell[p] == seen -> cell[p] = HELD_BY(seen, me); has(p)
		:: else
		fi;
		seen = 0 };
seized:	atomic { p++;
		if
		:: wants > 1 && p < permits -> goto seize
		:: else -> p = 0
		fi;
		if
		:: HAS_ONE && !HAS_ALL -> gives = 1; goto give
		:: else
		fi };
finish:	atomic { mortal(); state[me] = STATE(IDLE, WAIT(state[me])); enlisted[me] = 0 };
clear:	atomic { mortal(); bits = bits & ~(1 << me);
		if
		:: need[me] > 1 -> drains = 5; goto drain /* many.rs I1 */
		:: else
		fi };
gave_up:
	atomic { mortal(); p = 0;
		if
		:: wants == 0 -> goto out
		:: wants && HAS_ALL -> goto give
		:: wants && !HAS_ALL -> goto again /* it was void */
		fi };

	/* -- permit.rs `give`, of what it has -- */
give:	atomic { mortal();
		if
		:: had_by[0] == me + 1 -> p = 0
		:: had_by[0] != me + 1 && had_by[1] == me + 1 -> p = 1
		:: else -> p = 0;
			if
			:: gives == 1 -> gives = 0; goto finish
			:: gives == 2 -> gives = 0; goto arrive
			:: gives == 0 -> goto out
			fi
		fi;
		assert(TAG(cell[p]) == HELD && OF(cell[p]) == me);
		had_by[p] = 0; cell[p] = FREED(cell[p]); p = 0 };
#ifndef MISTAKE_GIVES_BACK_BLINDLY
	atomic { mortal();
		if
		:: bits -> drains = 3; goto drain
		:: else
		fi };
#endif
given:	goto give;

	/* -- drain.rs `drain`: of each cell -- */
drain:	atomic { mortal(); seen = cell[p];
		if
		:: TAG(seen) == HELD -> next_cell()
		:: TAG(seen) == RESERVED -> resolves = 1; goto resolve
		:: TAG(seen) == FREE
		fi };
	atomic { mortal(); look = bits; first = NOBODY; asks = 1; found() };
reserve:
	atomic { mortal();
		if
		:: first == NOBODY && cell[p] == seen -> first = 0; next_cell()
		:: first == NOBODY && cell[p] != seen -> first = 0; seen = 0; goto drain
		:: first != NOBODY && cell[p] == seen ->
			is_before(0, first); is_before(1, first); is_before(2, first);
			seen = RESERVED_FOR(seen, first, WAIT(best)); cell[p] = seen;
			whom = first; its = best; first = 0; best = 0; goto hand_over
		:: first != NOBODY && cell[p] != seen -> first = 0; best = 0; seen = 0; goto drain
		fi };

	/* -- wait.rs `oldest`, `each`: of the members in `look` -- */
oldest:	atomic { mortal(); at = ((look & 1) -> 0 : ((look & 2) -> 1 : 2)); look = look & ~(1 << at);
		if
		:: IS_WAITING(state[at]) -> aside = state[at]
		:: else -> at = 0; found()
		fi };
	atomic { mortal();
		if
		:: (bits & (1 << at)) && !gone[at] && (first == NOBODY || ticket[at] < ticket[first]) -> first = at; best = aside
		:: else
		fi;
		aside = 0; at = 0; found() };

	/* -- drain.rs `hand_over`, of the cell that is reserved for `whom`, in its state -- */
hand_over:
	if
	:: need[whom] > 1 -> goto count_first
	:: else -> goto grant
	fi;
count_first:
	atomic { mortal(); aside = (TAG(cell[0]) == RESERVED && OF(cell[0]) == whom && AUX(cell[0]) == WAIT(its)) };
	atomic { mortal();
		if
		:: aside && TAG(cell[1]) == RESERVED && OF(cell[1]) == whom && AUX(cell[1]) == WAIT(its) -> aside = 0
		:: else -> aside = 0; goto not_granted
		fi };
grant:	/* wait.rs `decide`: from the state that was seen, or from ASLEEP in the same wait */
	atomic { mortal();
		if
		:: state[whom] == its || (PHASE(its) == WAITING && state[whom] == STATE(ASLEEP, WAIT(its))) ->
			its = PHASE(state[whom]);
			state[whom] = WITH_GRANT(state[whom], (need[whom] > 1 -> 0 : p));
			if
			:: its == WAITING -> settled(true)
			:: its == ASLEEP
			fi
		:: else -> goto not_granted
		fi };
	atomic { mortal(); in_futex[whom] = 0; settled(true) };
not_granted:
	atomic { mortal();
		if
		:: WAIT(state[whom]) == WAIT(its) && IS_GRANTED(state[whom]) && PERMIT(state[whom]) == (need[whom] > 1 -> 0 : p)
		:: WAIT(state[whom]) == WAIT(its) && IS_WAITING(state[whom]) && need[whom] > 1 -> settled(true)
		:: else ->
#ifdef MISTAKE_NOT_UNDONE
			settled(true)
#endif
			goto undo
		fi };
	/* wait/word.rs `wake_granted` */
	atomic { mortal();
#ifndef MISTAKE_NOT_WOKEN
		if
		:: IS_GRANTED(state[whom]) && slept[whom] == WAIT(state[whom]) -> in_futex[whom] = 0
		:: else
		fi;
#endif
		settled(true) };
undo:	atomic { mortal();
		if
		:: cell[p] == seen -> cell[p] = FREED(seen)
		:: else
		fi;
		settled(false) };

	/* -- drain.rs `resolve`, of a cell that is reserved, as was `seen` -- */
resolve:
	atomic { mortal(); whom = OF(seen); its = state[whom];
		if
		:: WAIT(its) == AUX(seen) && IS_WAITING(its)
#ifdef MISTAKE_TAKEN_OVER_LATE
		:: WAIT(its) == AUX(seen) && IS_GRANTED(its) && need[whom] > 1 -> goto first_of_all
#endif
		:: WAIT(its) == AUX(seen) && IS_GRANTED(its) && PERMIT(its) == (need[whom] > 1 -> 0 : p) -> goto made_up
		:: else -> goto undo
		fi };
	atomic { mortal();
		if
		:: !(bits & (1 << whom)) -> goto undo
		:: (bits & (1 << whom)) && need[whom] > 1
		:: (bits & (1 << whom)) && need[whom] <= 1 -> goto hand_over
		fi };
#ifdef MISTAKE_HALF_SERVED
	goto hand_over;
#endif
first_of_all:
	atomic { mortal(); look = bits; first = NOBODY; asks = 2; found() };
taken_over:
	if
#ifdef MISTAKE_TAKEN_OVER_LATE
	:: atomic { first != NOBODY && first != whom -> first = 0; best = 0; goto undo }
	:: atomic { (first == NOBODY || first == whom) && IS_GRANTED(its) -> first = 0; best = 0; goto made_up }
	:: atomic { (first == NOBODY || first == whom) && !IS_GRANTED(its) -> first = 0; best = 0; goto hand_over }
#else
	:: atomic { first != NOBODY && ticket[first] < ticket[whom] -> first = 0; best = 0; goto undo }
	:: atomic { else -> first = 0; best = 0; goto hand_over }
#endif
	fi;
made_up:
	atomic { mortal();
#ifndef MISTAKE_NOT_WOKEN
		if
		:: IS_GRANTED(state[whom]) && slept[whom] == WAIT(state[whom]) -> in_futex[whom] = 0
		:: else
		fi
#endif
		};
	atomic { mortal();
		if
		:: cell[p] == seen -> settled(true)
		:: else -> settled(false)
		fi };

	/* -- recover.rs `recover`, of the dead member -- */
watch:
end_watch:
	atomic { dead != NOBODY -> who = dead };
	/* from the exact state: look again if it has changed */
	atomic { mortal(); its = state[who] };
	atomic { mortal();
		if
		:: state[who] == its -> state[who] = STATE(IDLE, WAIT(its)); its = 0
		:: else -> its = 0; goto watch
		fi };
	/* drain.rs `recover`: of each cell */
recover_cell:
	atomic { mortal(); seen = cell[p];
		if
#ifndef MISTAKE_HELD_BY_THE_DEAD
		:: TAG(seen) == HELD && OF(seen) == who
#endif
		:: TAG(seen) == RESERVED && OF(seen) == who -> resolves = 3; goto resolve
		:: else -> seen = 0; goto recover_next
		fi };
	atomic { mortal();
		if
		:: cell[p] == seen -> cell[p] = FREED(seen)
		:: else
		fi;
		seen = 0; goto recover_cell };
recover_next:
	atomic { p++;
		if
		:: p < permits -> goto recover_cell
		:: else -> p = 0; drains = 4; goto drain
		fi };
recovered:
	/* `wake_granted`, of everybody else */
	atomic { mortal();
#ifndef MISTAKE_NOT_WOKEN
		if
		:: who != p && IS_GRANTED(state[p]) && slept[p] == WAIT(state[p]) -> in_futex[p] = 0
		:: else
		fi;
#endif
		p++;
		if
		:: p < 3 -> goto recovered
		:: else -> p = 0
		fi };
	/* member.rs `clean`, if nobody else has done it */
	atomic { mortal();
		if
		:: dead == who -> dead = NOBODY; bits = bits & ~(1 << who)
		:: else
		fi;
		who = 0; goto watch };

dies:	atomic { seen = 0; p = 0; its = 0; whom = 0; best = 0; first = 0; look = 0; at = 0; aside = 0; drains = 0; asks = 0; resolves = 0; gives = 0; who = 0;
		if
		:: role == RECOVERS -> goto watch
		:: else -> in_futex[me] = 0
		fi };
out:	skip
}

/* Nothing else can happen: then nobody sleeps, and all permits are free. */
proctype quiet()
{
	atomic { timeout && TAG(cell[0]) == FREE && TAG(cell[1]) == FREE && !(in_futex[0] || in_futex[1] || in_futex[2]) }
}

/* A waiter that has gone to sleep. */
inline asleep(m, n) {
	state[m] = STATE(ASLEEP, 1); slept[m] = 1; ticket[m] = tickets; tickets++; need[m] = n;
	bits = bits | (1 << m); enlisted[m] = 1
}

inline held(p, m) {
	cell[p] = HELD_BY(0, m); had_by[p] = m + 1
}

init {
	atomic {
		held(0, 2);
		if
		:: SCENE(1) -> run member(0, ACQUIRES, 1, 1); run member(1, ACQUIRES, 1, 0); run member(2, HOLDS, 1, 0)
		:: SCENE(2) -> kills = 1; tickets = 1; asleep(1, 1);
			run member(0, ARRIVES, 1, 0); run member(1, SLEEPS, 1, 0); run member(2, HOLDS, 1, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(3) -> kills = 1; kills_more = 1;
			run member(0, ACQUIRES, 1, 0); run member(2, HOLDS, 1, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(4) -> kills = 1; asleep(0, 1);
			run member(0, SLEEPS, 1, 0); run member(2, HOLDS, 1, 0); run member(3, RECOVERS, 0, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(5) -> permits = 2; held(1, 2); asleep(0, 2);
			run member(0, SLEEPS, 2, 1); run member(1, ACQUIRES, 1, 0); run member(2, HOLDS, 1, 0)
		:: SCENE(6) -> permits = 2; held(1, 2); tickets = 1; asleep(1, 2);
			run member(0, ARRIVES, 2, 0); run member(1, SLEEPS, 2, 0); run member(2, HOLDS, 1, 0)
		:: SCENE(7) -> permits = 2; held(1, 2); kills = 1; asleep(0, 2); asleep(1, 1);
			run member(0, SLEEPS, 2, 0); run member(1, SLEEPS, 1, 0); run member(2, HOLDS, 1, 0); run member(3, RECOVERS, 0, 0)
		:: SCENE(8) -> permits = 2; run member(0, ACQUIRES, 2, 0); run member(1, ACQUIRES, 1, 0); run member(2, HOLDS, 1, 0)
		fi;
		run quiet()
	}
}
