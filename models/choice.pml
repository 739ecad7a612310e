/*
 * Choice: one wait that stands on several objects, and one grant.
 *
 * Source: crates/wait/src/wait.rs, wait/state.rs; claim.rs `wait_for`, choice.rs. The objects are two pools of one permit each,
 * as in drain.rs. What another file's head says is cited with its name.
 *
 *   state    phase:2 | number of the wait:2 | which object:1    (`State`: a member's wait word)
 *   bits[o]  members that stand on object o
 *   cell[o]  tag:2 | member:2 | number of the wait:2 | version  (cell.rs)
 *
 * Checked:
 *   I1, I6   a grant is by an object on which this wait stands: asserted. Bits go when the word is IDLE.
 *   I2, I3   of two granters one wins: asserted (a permit has one holder, a choice takes one); the other's reservation goes on:
 *            at the end all permits are free.
 *   I4       nobody sleeps for good beside a free permit: Spin's invalid end states.
 *   R2       grant against time-out. R4: grant while it still enlists. R5, R6: deaths.
 *   I8       a member that may be asleep is woken.
 *
 * Scenes, one after the other: two objects, each with a holder that gives back; a chooser between both, which then waits for
 * the first alone, and a waiter for the second; the same, when the choice stands and may time out; the same with a death; a chooser
 * that stands on both was just granted the second, and then waits for that alone.
 * Kills: the chooser, or the holder of the first, at each step.
 *
 * Left out: other kinds of objects; a mixed choice (two arenas), and its alias; duplicates; several permits (pool.pml); removal
 * (object.pml); the order in which arms are tried. See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_GRANTS_BLINDLY    a granter stores the grant instead of swapping the word (I3). Found: invalid end state
 *   MISTAKE_NOT_UNDONE        a granter that comes too late leaves its reservation (I3). Found: invalid end state
 *   MISTAKE_NO_SECOND_LOOK    a waiter that sets a bit does not look at the object again (I4). Found: invalid end state
 *   MISTAKE_STANDS_LONGER     a chooser granted by one object leaves its bit on the other (I6). Found: assertion
 *   MISTAKE_BIT_UNSEEN        a granter does not look at the bit again, after the state (I1). Found: assertion
 *   MISTAKE_SLEEPS_BLINDLY    a waiter stores ASLEEP instead of swapping the word. Found: invalid end state
 *   MISTAKE_TIME_OUT_BLINDLY  a waiter that gives up stores IDLE instead of swapping the word (R2). Found: invalid end state
 *   MISTAKE_SLEEP_UNNOTED     a member says that it slept only when it was woken (I8). Found: invalid end state
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
#define BY(s) ((s) >> 4)
#define STATE(phase, n) ((phase) | ((n) << 2))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)
#define IS_GRANTED(s) (PHASE(s) == GRANTED)
#define WITH_GRANT(s, o) (GRANTED | ((s) & 12) | ((o) << 4))

#ifdef MISTAKE_BIT_UNSEEN
#define STANDS(o, m) true
#else
#define STANDS(o, m) (bits[o] & (1 << (m)))
#endif

#define NOBODY 3
#define CHOOSES 0
#define GIVES 1
#define SLEEPS 2    /* as CHOOSES, and does so already */
#define RECOVERS 3

/* The choosers are 0 and 1, the holders 2 (object 0) and 3 (object 1). */
short cell[2];
byte bits[2];
byte state[2];
byte tickets;
byte ticket[2];
byte slept[2];
bool in_futex[2];
bool gone[4];
byte dead = 255;        /* the dead member, until it is recovered */
bool kills;             /* to be done */

/* For the assertions alone: the number, plus 1, of the member that thinks it has the permit. */
byte had_by[2];

/* One of the choosers, one of the holders. */
#define MAY_DIE(m) ((m) == 0 || (m) == 2)

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && MAY_DIE(me) -> kills = 0; dead = me; gone[me] = 1; goto dies
	:: true
	fi
}

inline has(o) {
	assert(VERSION(cell[o]) < 32 && (had_by[o] == 0 || gone[had_by[o] - 1]) && (had_by[1 - o] != me + 1)); had_by[o] = me + 1
}

inline wake_granted() {
	if
	:: IS_GRANTED(state[whom]) && slept[whom] == WAIT(state[whom]) -> in_futex[whom] = 0
	:: else
	fi
}

/* What was granted is not ours: only with a mistake. */
inline void() {
	seen = 0; goto finish
}

/* The ends of the subroutines, by caller. */
inline drained() {
	seen = 0;
	if
	:: drains == 1 -> drains = 0; goto enlisted
	:: drains == 2 -> drains = 0; goto tried
	:: drains == 3 -> drains = 0; goto out
	:: drains == 4 -> drains = 0; goto recover_next
	:: drains == 5 -> drains = 0; o = 0; goto attempt
	fi
}

inline found() {
	if
	:: look -> goto oldest
	:: else -> goto reserve
	fi
}

proctype member(byte me; byte role; byte arms; byte then; bool timed)
{
	short seen;          /* a cell, as it was read */
	byte o;              /* whose */
	byte its, whom;      /* a member's state, as it was read, and whose */
	byte best, first;    /* that of the oldest so far, and its number */
	byte look, at;
	byte stands;         /* the arms whose bits were set */
	byte drains;         /* the caller of `drain` */

	if
	:: role == CHOOSES -> goto attempt
	:: role == SLEEPS -> role = CHOOSES; stands = arms; goto sleep
	:: role == GIVES -> o = me - 2; goto give
	:: role == RECOVERS -> goto watch
	fi;

	/* -- choice.rs `look`: each arm, permit.rs `take_one`, `take_behind` -- */
attempt:
	if
	:: atomic { !(arms & (1 << o)) -> goto next_arm }
	:: atomic { (arms & (1 << o)) -> mortal(); seen = cell[o];
		if
		:: TAG(seen) != FREE -> seen = 0; goto next_arm
		:: else
		fi }
	fi;
	atomic { mortal();
		if
		:: bits[o] -> seen = 0; drains = 2; goto drain
		:: else
		fi };
	atomic { mortal();
		if
		:: cell[o] == seen -> cell[o] = HELD_BY(seen, me); has(o); seen = 0; goto give
		:: else -> seen = 0
		fi };
tried:	skip;
next_arm:
	atomic { o++;
		if
		:: o < 2 -> goto attempt
		:: else -> o = 0
		fi };

	/* -- claim.rs `wait_for`, wait.rs `begin` -- */
	atomic { mortal(); ticket[me] = tickets; tickets++ };
again:	atomic { mortal(); state[me] = STATE(WAITING, WAIT(state[me]) + 1) };
enlist:	atomic {
		if
		:: o < 2 && !(arms & (1 << o)) -> o++; goto enlist
		:: o < 2 && (arms & (1 << o)) -> mortal(); bits[o] = bits[o] | (1 << me); stands = stands | (1 << o)
		:: else -> o = 0; goto rest
		fi;
#ifndef MISTAKE_NO_SECOND_LOOK
		drains = 1; goto drain
#endif
		};
enlisted:
	/* R4 */
	atomic { mortal();
		if
		:: IS_GRANTED(state[me]) -> o = 0; goto waited
		:: else -> o++; goto enlist
		fi };

	/* -- `rest` -- */
rest:
#ifdef MISTAKE_SLEEPS_BLINDLY
	atomic { mortal();
		if
		:: PHASE(state[me]) == WAITING
		:: else -> goto waited
		fi };
	atomic { mortal(); slept[me] = WAIT(state[me]); state[me] = STATE(ASLEEP, WAIT(state[me])) };
#else
	atomic { mortal();
#ifndef MISTAKE_SLEEP_UNNOTED
		slept[me] = WAIT(state[me]);
#endif
		if
		:: PHASE(state[me]) == WAITING -> state[me] = STATE(ASLEEP, WAIT(state[me]))
		:: else -> goto waited
		fi };
#endif
sleep:	atomic { mortal();
		if
		:: PHASE(state[me]) == ASLEEP -> in_futex[me] = 1
		:: else -> goto waited
		fi };
	if
	:: atomic { !in_futex[me] -> slept[me] = WAIT(state[me]); goto sleep }
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0 }
	:: atomic { in_futex[me] && kills && MAY_DIE(me) -> kills = 0; dead = me; gone[me] = 1; goto dies }
	fi;

	/* -- `end`; permit.rs `collect`; `finish` -- */
waited:
#ifdef MISTAKE_TIME_OUT_BLINDLY
	atomic { mortal(); its = state[me] };
	atomic { mortal(); if :: IS_GRANTED(its) :: else -> its = 0; state[me] = STATE(IDLE, WAIT(state[me])); arms = 0; goto clear fi; its = 0 };
#else
	atomic { mortal();
		if
		:: IS_GRANTED(state[me])
		:: else -> state[me] = STATE(IDLE, WAIT(state[me])); arms = 0; goto clear
		fi };
#endif
	atomic { mortal(); timed = 0; assert(arms & (1 << BY(state[me]))); seen = cell[BY(state[me])];
		if
		:: TAG(seen) == RESERVED && OF(seen) == me && AUX(seen) == WAIT(state[me]) -> o = BY(state[me])
		:: else -> void()
		fi };
	atomic { mortal();
		if
		:: cell[o] == seen -> cell[o] = HELD_BY(seen, me); has(o)
		:: else
		fi;
		o = 0; seen = 0 };
finish:	atomic { mortal();
#ifdef MISTAKE_STANDS_LONGER
		stands = stands & (1 << BY(state[me]));
#endif
		state[me] = STATE(IDLE, WAIT(state[me])) };
clear:	atomic {
		if
		:: stands & 1 -> mortal(); bits[0] = bits[0] & ~(1 << me); stands = stands & ~1; goto clear
		:: !(stands & 1) && (stands & 2) -> mortal(); bits[1] = bits[1] & ~(1 << me); stands = stands & ~2; goto clear
		:: !stands
		fi;
		if
		:: arms == 0 -> goto out
		:: arms && had_by[0] == me + 1 -> o = 0; goto give
		:: arms && had_by[1] == me + 1 -> o = 1; goto give
		:: arms && had_by[0] != me + 1 && had_by[1] != me + 1 -> goto again /* it was void */
		fi };

	/* -- permit.rs `give`; then it may choose once more -- */
give:	atomic { mortal(); assert(TAG(cell[o]) == HELD && OF(cell[o]) == (me & 3) && had_by[o] == me + 1);
		had_by[o] = 0; cell[o] = FREED(cell[o]) };
	atomic { mortal(); arms = then; then = 0;
		if
		:: bits[o] && arms -> drains = 5; goto drain
		:: bits[o] && !arms -> drains = 3; goto drain
		:: !bits[o] && arms -> o = 0; goto attempt
		:: !bits[o] && !arms -> goto out
		fi };

	/* -- drain.rs `drain`, of the one cell of object `o` -- */
drain:	atomic { mortal(); seen = cell[o];
		if
		:: TAG(seen) == HELD -> drained()
		:: TAG(seen) == RESERVED -> goto resolve
		:: TAG(seen) == FREE
		fi };
	atomic { mortal(); look = bits[o]; first = NOBODY; found() };
reserve:
	atomic { mortal();
		if
		:: first == NOBODY && cell[o] == seen -> first = 0; drained()
		:: first != NOBODY && cell[o] == seen ->
			seen = RESERVED_FOR(seen, first, WAIT(best)); cell[o] = seen; whom = first; its = best; first = 0; best = 0
		:: cell[o] != seen -> first = 0; best = 0; seen = 0; goto drain
		fi };
hand_over:
	/* `decide`: from the state that was seen, or from ASLEEP in the same wait */
	atomic { mortal();
		if
#ifdef MISTAKE_GRANTS_BLINDLY
		:: true ->
#else
		:: state[whom] == its || (PHASE(its) == WAITING && state[whom] == STATE(ASLEEP, WAIT(its))) ->
#endif
			its = PHASE(state[whom]); state[whom] = WITH_GRANT(state[whom], o);
			if
			:: its == ASLEEP
			:: else -> its = 0; whom = 0; drained()
			fi
		:: else -> goto not_granted
		fi };
	atomic { mortal(); in_futex[whom] = 0; its = 0; whom = 0; drained() };
not_granted:
	atomic { mortal();
		if
		:: WAIT(state[whom]) == WAIT(its) && IS_GRANTED(state[whom]) && BY(state[whom]) == o
		:: else ->
#ifdef MISTAKE_NOT_UNDONE
			its = 0; whom = 0; drained()
#endif
			goto undo
		fi };
	atomic { mortal(); wake_granted(); its = 0; whom = 0; drained() };
undo:	atomic { mortal();
		if
		:: cell[o] == seen -> cell[o] = FREED(seen)
		:: else
		fi;
		its = 0; whom = 0; seen = 0; goto drain };
resolve:
	atomic { mortal(); whom = OF(seen); its = state[whom];
		if
		:: WAIT(its) == AUX(seen) && IS_WAITING(its)
		:: WAIT(its) == AUX(seen) && IS_GRANTED(its) && BY(its) == o -> goto made_up
		:: else -> goto undo
		fi };
	atomic { mortal();
		if
		:: bits[o] & (1 << whom) -> goto hand_over
		:: else -> goto undo
		fi };
made_up:
	atomic { mortal(); wake_granted() };
	atomic { mortal(); its = 0; whom = 0;
		if
		:: cell[o] == seen -> drained()
		:: else -> seen = 0; goto drain
		fi };

	/* -- `oldest`, `each`: of the members in `look` -- */
oldest:	atomic { mortal(); at = ((look & 1) -> 0 : 1); look = look & ~(1 << at);
		if
		:: IS_WAITING(state[at]) -> its = state[at]
		:: else -> at = 0; found()
		fi };
	atomic { mortal();
		if
		:: STANDS(o, at) && !gone[at] && (first == NOBODY || ticket[at] < ticket[first]) -> first = at; best = its
		:: else
		fi;
		its = 0; at = 0; found() };

	/* -- recover.rs `recover`, of the dead member -- */
watch:
end_watch:
	atomic { dead != 255 ->
		if
		:: dead < 2 -> its = state[dead]
		:: else -> goto recover_cell
		fi };
	atomic { mortal();
		if
		:: state[dead] == its -> state[dead] = STATE(IDLE, WAIT(its)); its = 0
		:: else -> its = 0; goto watch
		fi };
	/* what it held; what was reserved for it is resolved by `drain` */
recover_cell:
	atomic { mortal(); seen = cell[o];
		if
		:: TAG(seen) == HELD && OF(seen) == (dead & 3)
		:: else -> seen = 0; drains = 4; goto drain
		fi };
	atomic { mortal();
		if
		:: cell[o] == seen -> cell[o] = FREED(seen)
		:: else
		fi;
		seen = 0; drains = 4; goto drain };
recover_next:
	atomic { o++;
		if
		:: o < 2 -> goto recover_cell
		:: else -> o = 0
		fi };
	atomic { mortal(); whom = 0; if :: dead != 0 -> wake_granted() :: else fi };
	atomic { mortal(); whom = 1; if :: dead != 1 -> wake_granted() :: else fi; whom = 0 };
	/* member.rs `clean` */
	atomic { mortal();
		if
		:: dead < 2 -> bits[0] = bits[0] & ~(1 << dead); bits[1] = bits[1] & ~(1 << dead)
		:: else
		fi;
		dead = 255; goto watch };

dies:	atomic { in_futex[me & 1] = in_futex[me & 1] && me > 1 };
out:	atomic { seen = 0; o = 0; its = 0; whom = 0; best = 0; first = 0; look = 0; at = 0; stands = 0; drains = 0; arms = 0; then = 0; timed = 0 }
}

/* Nothing else can happen: then nobody sleeps, and all permits are free. */
proctype quiet()
{
	atomic { timeout && TAG(cell[0]) == FREE && TAG(cell[1]) == FREE && !(in_futex[0] || in_futex[1]) }
}

/* A choice that stands, and has gone to sleep. */
inline asleep(m, arms) {
	state[m] = STATE(ASLEEP, 1); ticket[m] = tickets; tickets++;
#ifndef MISTAKE_SLEEP_UNNOTED
	slept[m] = 1;
#endif
	bits[0] = bits[0] | (((arms) & 1) << m); bits[1] = bits[1] | (((arms) >> 1) << m)
}

init {
	atomic {
		cell[0] = HELD_BY(0, 2); had_by[0] = 3; cell[1] = HELD_BY(0, 3); had_by[1] = 4;
		if
		:: SCENE(1) -> asleep(1, 2);
			run member(0, CHOOSES, 3, 1, 0); run member(1, SLEEPS, 2, 0, 0); run member(2, GIVES, 0, 0, 0); run member(3, GIVES, 0, 0, 0)
		:: SCENE(2) -> asleep(0, 3); asleep(1, 2);
			run member(0, SLEEPS, 3, 0, 1); run member(1, SLEEPS, 2, 0, 0); run member(2, GIVES, 0, 0, 0); run member(3, GIVES, 0, 0, 0)
		:: SCENE(3) -> asleep(0, 3); asleep(1, 2); kills = 1;
			run member(0, SLEEPS, 3, 0, 0); run member(1, SLEEPS, 2, 0, 0); run member(2, GIVES, 0, 0, 0); run member(3, GIVES, 0, 0, 0);
			run member(4, RECOVERS, 0, 0, 0)
		:: SCENE(4) -> asleep(0, 3); asleep(1, 2); cell[1] = RESERVED_FOR(0, 0, 1); had_by[1] = 0; state[0] = WITH_GRANT(state[0], 1);
			run member(0, SLEEPS, 3, 2, 0); run member(1, SLEEPS, 2, 0, 0); run member(2, GIVES, 0, 0, 0)
		fi;
		run quiet()
	}
}
