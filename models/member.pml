/*
 * Members: how a slot is claimed, left, found dead, swept, and used again.
 *
 * Source: crates/arena/src/member.rs. Its head has the picture and the invariants I1 to I7 below.
 *
 * One slot. Threads have numbers, and the number of one that has gone may be another's at once. The kernel marks the words of
 * one that dies, one after the other, and only those that name it; one that calls exec and does not lead its process has that
 * one's number by then. What a member owns elsewhere is one cell, with its generation in it.
 *
 *   ident      generation:5 | number of the thread:3
 *   life, twin FREE, DEAD, or the number that they name
 *
 * Checked:
 *   I1          wait bits go only with their occupant: asserted.
 *   I2          none that lives is found dead, of threads or of processes: asserted; nor is its word marked: asserted.
 *   I3, I4      what generation g owned comes back, once, and only when g is dead: asserted, and nothing is left at the end.
 *   I5, I7      a thread taken for one that has called exec has gone: asserted.
 *   I6          a slot is found dead, swept, and used again, however many die on the way: Spin's invalid end states.
 *
 * Scenes, one after the other: a thread's slot and the next thread; the same of one that may call exec; two recoverers at once;
 * a process's slot, and the next one's; a thread's slot and a process's that dies on the way.
 * Kills: one of a member, one of a recoverer, each at any step.
 *
 * Left out: a thread that called exec, and whose number is another's before it is swept (I7's last); several slots; the reaper's
 * sleep (it looks again when the words or the roster have changed since it began); a removed arena (object.pml); what is recovered
 * (semaphore.pml and its like); process numbers that are used again (they differ in start times).
 * Stores that are delayed: all that counts is locked, or is published by what is. See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_ANY_GENERATION       recovery does not look at the generation (I3). Found: assertion
 *   MISTAKE_SWEPT_FIRST          swept is said before what it owned was given back (I4). Found: invalid end state
 *   MISTAKE_NUMBER_LEFT          the claimer leaves the dead one's number in ident (I5). Found: assertion
 *   MISTAKE_TWIN_SEEN_ONCE       the twin is read before ident and not again (I7). Found: assertion
 *   MISTAKE_KIND_FIRST           the next one's kind is said before the sweep (I6). Found: invalid end state
 *   MISTAKE_WORD_FIRST           the life word is read before ident (I2). Found: assertion
 *   MISTAKE_BITS_UNCLAIMED       a recoverer clears bits without the life word (I1). Found: assertion
 *   MISTAKE_EXEC_UNNOTICED       nobody looks at the twin. Found: invalid end state
 *   MISTAKE_CUSTODIAN_BELIEVED   a custodian's mark passes for its process's death (I2). Found: assertion
 *   MISTAKE_CLAIMED_UNCONFIRMED  that the process has gone is asked before the claim, and not after it. Found: assertion
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define FREE 0
#define DEAD 7
#define LEADER 1        /* the number of a process whose leader is no member */
#define IS_ALIVE(w) ((w) != FREE && (w) != DEAD)
#define GENERATION(w) ((w) >> 3)
#define NUMBER(w) ((w) & 7)
#define NOBODY 9

#define THREAD 0
#define PROCESS 1
#define RECOVERS 2

byte ident;
byte swept;
byte kind;
byte life;
byte twin;
byte process_of;               /* which process the occupant is of, start time and all */
byte cell;              /* which generation has it; 0: none */
bool stands;            /* a wait bit */
byte roster;

byte on_list = NOBODY;  /* on whose robust list the life word is */
byte twin_on_list = NOBODY;
bool here[3] = 1;       /* the process is there, and has not called exec */
byte spare;             /* the number of a thread that has gone */
byte doubts[3];         /* the numbers seen by threads that look for an exec */
byte seat;              /* what the custodian has told its process: the generation */
bool parked;            /* and it has gone */
byte kills;             /* to be done, of members */
byte kills_more;        /* of recoverers */
bool over;

/* For the assertions alone: the generation that lives, whose bit stands, and whether the owner of the life word lives. */
byte living;
byte lives_as;
byte bit_of;
bool held;

#define GONE(p) (!here[p] || (p) == me)
#define UNSWEPT (swept != GENERATION(ident))
#define UNCONFIRMED (!IS_ALIVE(life) && kind == PROCESS && UNSWEPT && !GONE(process_of))
/* I7's last: the number of one that called exec is not another's before its slot is swept, and nobody is just looking at it. */
#define SPARE (spare && spare != doubts[0] && spare != doubts[1] && spare != doubts[2] && \
	!(UNSWEPT && NUMBER(ident) == spare && (twin == DEAD || life == spare)))
#define CALLED_EXEC (twin == DEAD && UNSWEPT && NUMBER(ident) && life == NUMBER(ident))

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && role != RECOVERS -> kills--; goto dies
	:: kills_more && role == RECOVERS -> kills_more--; goto dies
	:: true
	fi
}

/* The ends of the subroutines, by caller. */
inline noticed() {
	doubts[me] = 0; its = 0;
	if
	:: role == RECOVERS -> goto found
	:: else -> goto probe
	fi
}

inline not_dead() {
	its = 0; whom = 0; again = 0; goto rest
}

inline is_dead() {
	assert(living != GENERATION(its));
	whom = GENERATION(its); its = 0;
	if
	:: again -> again = 0; goto claim
	:: else -> goto recover
	fi
}

inline recovered() {
	its = 0;
	if
	:: leaves || cleans -> goto clear
	:: !leaves && !cleans ->
#ifdef MISTAKE_BITS_UNCLAIMED
		goto clear
#else
		again = 1; goto dead
#endif
	fi
}

proctype thread(byte me; byte role; bool leads; bool execs)
{
	byte tid;                /* its number */
	byte mine;               /* its generation */
	byte its, word;          /* ident, or the cell; and the life word: as they were read */
	byte whom;               /* which generation is swept */
	bool again, cleans, leaves;
	byte saw_life, saw_twin, saw_roster;

	/* It begins: with a number of its own, or with one that has become free. */
	atomic {
		if
		:: SPARE -> tid = spare; spare = 0
		:: tid = me + 2
		fi;
		if
		:: role == RECOVERS -> goto watch
		:: else
		fi };

	/* -- `join` -- */
join:	atomic { !IS_ALIVE(life) && !UNCONFIRMED || CALLED_EXEC };
#ifndef MISTAKE_EXEC_UNNOTICED
	goto notice_exec;
#endif
probe:	atomic { mortal();
		if
		:: IS_ALIVE(life) -> goto join
		:: else
		fi };
	/* `unconfirmed` */
	atomic { mortal();
		if
		:: UNCONFIRMED -> goto join
		:: else
		fi };

	/* -- `claim` -- */
claim:	atomic { mortal();
		if
		:: IS_ALIVE(life) && role == RECOVERS -> whom = 0; goto rest
		:: IS_ALIVE(life) && role != RECOVERS -> goto join
		:: else -> life = tid; on_list = me; held = 1
		fi };
#ifndef MISTAKE_CLAIMED_UNCONFIRMED
	atomic { mortal();
		if
		:: UNSWEPT && kind == PROCESS && !GONE(process_of)
		:: else -> goto clean
		fi };
	atomic { mortal(); life = FREE; on_list = NOBODY; held = 0; whom = 0;
		if
		:: role == RECOVERS -> goto rest
		:: else -> goto join
		fi };
#endif

	/* -- `clean` -- */
clean:
#ifdef MISTAKE_KIND_FIRST
	atomic { mortal();
		if
		:: role != RECOVERS -> kind = role
		:: else
		fi };
#endif
	atomic { mortal(); whom = GENERATION(ident); cleans = UNSWEPT;
		if
#ifdef MISTAKE_NUMBER_LEFT
		:: true
#else
		:: !cleans
		:: cleans -> ident = whom << 3
#endif
		fi };
	atomic { mortal(); twin = (IS_ALIVE(twin) -> DEAD : twin); twin_on_list = NOBODY;
		if
		:: !cleans -> goto cleaned
		:: else
#ifdef MISTAKE_SWEPT_FIRST
			-> swept = whom
#endif
		fi };

	/* -- the hook `recover`: of generation `whom` -- */
recover:
	atomic { mortal(); its = cell;
		if
#ifdef MISTAKE_ANY_GENERATION
		:: its
#else
		:: its == whom && its
#endif
		:: else -> recovered()
		fi };
	atomic { mortal();
		if
		:: cell == its -> assert(leaves || living != cell); cell = 0
		:: else
		fi;
		recovered() };

	/* `clear_bits` */
clear:	atomic { mortal();
		if
		:: stands -> assert(leaves || living != bit_of); stands = 0
		:: else
		fi
#ifdef MISTAKE_BITS_UNCLAIMED
		;
		if
		:: !leaves && !cleans -> again = 1; goto dead
		:: else
		fi
#endif
		};
	/* I4 */
	atomic { mortal(); swept = whom;
		if
		:: leaves -> living = 0; whom = 0; goto left
		:: else
		fi };
cleaned:
	atomic { mortal(); cleans = 0; whom = 0;
		if
		/* of a recoverer: `sweep` */
		:: role == RECOVERS -> life = FREE; on_list = NOBODY; held = 0; goto rest
		:: else -> kind = role
		fi };

	/* -- `join`: the twin -- */
	atomic { mortal(); assert(twin_on_list == NOBODY); twin = tid; twin_on_list = me };
	atomic { mortal();
		if
		:: leads -> twin = FREE; twin_on_list = NOBODY
		:: else -> twin = LEADER
		fi };
	/* -- `settle` -- */
	atomic { mortal(); process_of = me };
	atomic { mortal(); mine = GENERATION(ident) + 1; ident = (mine << 3) | tid; living = mine; lives_as = me };
	atomic { mortal(); roster++ };
	if
	:: role == PROCESS -> seat = mine; goto dies
	:: else
	fi;

	/* -- a member: it waits, and has something -- */
	atomic { mortal(); stands = 1; bit_of = mine };
	atomic { mortal();
		if
		:: cell == 0 -> cell = mine
		:: else -> goto leave
		fi };
	atomic { mortal(); assert(cell == mine) };
	if
	:: execs -> goto exec
	:: true
	fi;

	/* -- `leave` -- */
leave:	atomic { mortal(); leaves = 1; whom = mine; goto recover };
left:	atomic { mortal(); leaves = 0;
		if
		:: !leads -> twin = tid
		:: else -> goto release
		fi };
	atomic { mortal(); twin = FREE; twin_on_list = NOBODY };
release:
	atomic { mortal(); life = FREE; on_list = NOBODY; held = 0; goto out };

	/* -- `notice_exec` -- */
notice_exec:
	atomic { mortal();
		if
		:: twin == DEAD
		:: else -> noticed()
		fi };
	atomic { mortal(); its = ident; doubts[me] = NUMBER(its);
		if
		:: NUMBER(its) == 0 -> noticed()
		:: else
		fi };
#ifndef MISTAKE_TWIN_SEEN_ONCE
	atomic { mortal();
		if
		:: twin == DEAD
		:: else -> noticed()
		fi };
#endif
	atomic { mortal();
		if
		:: swept != GENERATION(its)
		:: else -> noticed()
		fi };
	atomic { mortal();
		if
		:: life == NUMBER(its)
		:: else -> noticed()
		fi };
	atomic { mortal();
		if
		:: ident == its
		:: else -> noticed()
		fi };
	/* `mark_dead` */
	atomic { mortal();
		if
		:: life == NUMBER(its) -> assert(!held); life = DEAD; on_list = NOBODY
		:: else
		fi;
		noticed() };

	/* -- `recover_each`, and the reaper around it -- */
watch:	atomic { mortal(); saw_life = life; saw_twin = twin; saw_roster = roster };
#ifndef MISTAKE_EXEC_UNNOTICED
	goto notice_exec;
#endif
found:	skip;

	/* -- `dead` -- */
dead:
#ifdef MISTAKE_WORD_FIRST
	atomic { mortal(); word = life };
#endif
	atomic { mortal(); its = ident;
		if
		:: GENERATION(its) == 0 -> not_dead()
		:: else
		fi };
	atomic { mortal();
		if
		:: swept == GENERATION(its) -> not_dead()
		:: else
		fi };
#ifndef MISTAKE_WORD_FIRST
	atomic { mortal(); word = life };
#endif
	atomic { mortal();
		if
		:: NUMBER(its) && word == NUMBER(its) && twin != DEAD -> word = 0; not_dead()
		:: else -> word = 0
		fi };
#ifdef MISTAKE_CUSTODIAN_BELIEVED
	atomic { mortal(); is_dead() };
#else
	atomic { mortal();
		if
		:: kind == PROCESS
		:: else -> is_dead()
		fi };
	/* `process_gone` */
	atomic { mortal(); word = process_of };
	atomic { mortal();
		if
		:: GONE(word) -> word = 0; is_dead()
		:: else -> word = 0; not_dead()
		fi };
#endif

	/* The reaper sleeps until the words or the roster have changed; five milliseconds while a process's end is unconfirmed. */
rest:	atomic {
		if
		:: life != saw_life || twin != saw_twin || roster != saw_roster
		:: !IS_ALIVE(life) && UNSWEPT && !UNCONFIRMED
		:: over -> goto out
		fi;
		goto watch };

	/* -- the kernel: exec by a thread that does not lead -- */
exec:	atomic { living = 0; held = 0; spare = tid; tid = LEADER };
	atomic {
		if
		:: twin_on_list == me && twin == tid -> twin = DEAD
		:: else
		fi;
		twin_on_list = (twin_on_list == me -> NOBODY : twin_on_list);
		on_list = (on_list == me -> NOBODY : on_list); goto out };

	/* -- the kernel: death -- */
dies:	atomic {
		if
		:: on_list == me -> held = 0
		:: else
		fi;
		if
		:: role == THREAD && mine && living == mine -> living = 0
		:: else
		fi;
		doubts[me] = 0; its = 0; word = 0; whom = 0; again = 0; cleans = 0; leaves = 0; mine = 0 };
	atomic {
		if
		:: twin_on_list == me && twin == tid -> twin = DEAD
		:: else
		fi;
		twin_on_list = (twin_on_list == me -> NOBODY : twin_on_list) };
	atomic {
		if
		:: on_list == me && life == tid -> life = DEAD
		:: else
		fi;
		on_list = (on_list == me -> NOBODY : on_list);
		if
		:: role == RECOVERS -> goto watch
		:: role == THREAD -> spare = tid
		:: role == PROCESS -> parked = 1
		fi };
out:	atomic { tid = 0; mine = 0; saw_life = 0; saw_twin = 0; saw_roster = 0 }
}

/* Another thread of the custodian's process: it uses what the process has, and may still be at work when the custodian has gone. */
proctype sibling(byte process)
{
	if
	:: seat
	:: parked -> goto gone
	fi;
	if
	:: atomic { cell == 0 -> cell = seat }
	:: parked -> goto gone
	fi;
	if
	:: atomic { assert(cell == seat); cell = 0 }
	:: parked
	fi;
gone:	atomic { parked -> here[process] = 0;
		if
		:: lives_as == process -> living = 0
		:: else
		fi }
}

/* Nothing else can happen: what is not swept now never is. */
proctype quiet()
{
	atomic { timeout && !UNSWEPT && !IS_ALIVE(life) && cell == 0 && !stands -> over = 1 }
}

init {
	atomic {
		kills = 1;
		if
		:: SCENE(1) -> kills_more = 1; run thread(0, THREAD, 1, 0); run thread(1, THREAD, 1, 0); run thread(2, RECOVERS, 1, 0)
		:: SCENE(2) -> run thread(0, THREAD, 0, 1); run thread(1, THREAD, 0, 0); run thread(2, RECOVERS, 1, 0)
		:: SCENE(3) -> kills_more = 1; run thread(0, THREAD, 0, 1); run thread(1, RECOVERS, 1, 0); run thread(2, RECOVERS, 1, 0)
		:: SCENE(4) -> run thread(0, PROCESS, 0, 0); run sibling(0); run thread(1, THREAD, 1, 0); run thread(2, RECOVERS, 1, 0)
		:: SCENE(5) -> kills = 2; run thread(0, THREAD, 1, 0); run thread(1, PROCESS, 0, 0); run sibling(1); run thread(2, RECOVERS, 1, 0)
		fi;
		run quiet()
	}
}
