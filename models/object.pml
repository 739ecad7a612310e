/*
 * Arenas by name in a directory, and objects by name in an arena: made, attached, removed.
 *
 * Source: crates/arena/src/map/create.rs (below: map), object.rs (object) and admin.rs there, and of crates/plat/src/real/dir.rs the lock,
 * the unnamed file and the link. The heads of the first two have the invariants below.
 *
 *   name       which file has the arena's name; 0: none
 *   state      of a file: SERVING, REMOVING, REMOVED
 *   head       of an object's slot: generation:3 | FREE, LIVE or DEAD:2
 *   table      the table of names: name:2 | slot + 1:2
 *   admin      the robust lock: WATCHED | whose, FREE_LOCK, or DEAD_LOCK
 *
 * Checked:
 *   map I1        whatever has the name is whole: asserted at each attach. A maker that dies before the link leaves nothing.
 *   map I2        two arenas of the name never serve at once; one that was removed is not joined: asserted.
 *   map I3        without force none that is in use is removed: asserted. A remover that died undecided is undone.
 *   map bury_all  by force, all waiters are told, though the remover dies half-way: Spin's invalid end states.
 *   dir lock      the kernel drops a dead one's: invalid end states.
 *   object I1, I3 a name leads to one object, to that which has it, and to it at once: asserted.
 *   object I4     a slot is used again only when nobody waits there; a waiter on a removed object is told: asserted, and invalid end
 *                 states. Below `objects_low` nothing is free: asserted.
 *   object admin  nobody waits for ever for a lock whose holder has died, at whatever step; until somebody dies the wakes
 *                 suffice: invalid end states.
 *
 * Scenes, one after the other: two openers or makers of the arena, and a remover; an opener and two removers, one of these by
 * force; a waiter in it, and a remover by force; three members that take the lock; two openers or makers of an object, and a remover
 * of it, or of another one; a waiter on an object, its remover, and the maker of another in its slot; the same, when the waiter
 * looks for what is made.
 * Kills: none, or one, of any process but recovery, at any step. At the end one comes that opens or makes the arena, and must get in.
 *
 * Left out: how the table is emptied again, and storage for more objects (object I7, I8: the explorer, tests); a file that is taken
 * away by other means (a look now and then finds that); garbage, truncated files, other versions and owners (tests); cells, blocks,
 * and objects still used (`used`); life words and sweeps (member.pml), in whose place a recovery comes here after the death; other
 * kinds of wake-ups (the wait queue's). See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_NAMED_FIRST       the file is named before it is whole (map I1). Found: assertion
 *   MISTAKE_JOINS_REMOVED     a joiner does not look whether the arena was removed (map I3). Found: assertion
 *   MISTAKE_LOOKS_FIRST       the remover looks for members, and says REMOVING afterwards (map I3). Found: assertion
 *   MISTAKE_NAMED_AND_REMOVED an opener that finds a removed arena still named attaches it (map I2). Found: assertion
 *   MISTAKE_BURIER_UNSEEN     a remover by force is no member. Found: invalid end state
 *   MISTAKE_DIR_LOCK_STAYS    the directory's lock stays that of a dead process. Found: invalid end state
 *   MISTAKE_LOCK_OF_THE_DEAD  admin stays that of a dead member. Found: invalid end state
 *   MISTAKE_ADMIN_UNWATCHED   the holder of admin does not mark it as watched. Found: invalid end state
 *   MISTAKE_NO_LOOK_AGAIN     a sleep for admin has no end. Found: invalid end state
 *   MISTAKE_HEAD_SEEN_ONCE    a search does not look at the head again (object I3). Found: assertion
 *   MISTAKE_NO_SECOND_SEARCH  a maker has searched without the lock only (object I1). Found: assertion
 *   MISTAKE_USED_AGAIN_AT_ONCE a slot is used again while a bit stands there (object I4). Found: assertion
 *   MISTAKE_HEAD_BEFORE_BIT   a waiter looks at the head, and sets its bit afterwards (object I4). Found: invalid end state
 *   MISTAKE_LOW_FORGOTTEN     the remover does not lower `objects_low`. Found: assertion
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define NOBODY 7

bool kills;             /* to be done */
bool deaths;            /* done */
byte died = NOBODY;     /* the dead member, until it is recovered */
bool over;

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && me < 3 -> kills = 0; deaths = 1; goto dies
	:: true
	fi
}

/* ---- Arenas ---- */

#define OPENS 0
#define WAITS 1
#define REMOVES 2
#define FORCES 3
#define RECOVERS 4

#define SERVING 0
#define REMOVING 1
#define REMOVED 2

byte name;
byte files;             /* how many were made */
bool whole[5];
byte state[5];
bool buried[5];         /* the object in it is dead */
byte lock = NOBODY;     /* the directory's */
byte member_of[5];      /* whose life words: in which file */
bool stands[3];         /* wait bits, of arenas and of objects */
bool told[3];           /* the wait word */
bool asleep[3];
byte works[5];          /* for the assertions alone */

/* None other that serves is at work with this. */
#define ALONE(f, p) (works[p] == 0 || works[p] == f || state[works[p]] == REMOVED)
#define UNUSED(f) (works[0] != f && works[1] != f && works[2] != f)

proctype process(byte me; byte role)
{
	byte file, at, refused_by;

	if
	:: role == OPENS || role == WAITS -> goto open
	:: role == REMOVES || role == FORCES -> goto remove
	:: role == RECOVERS -> goto watch
	fi;

	/* -- map `attach`, `attach_under_lock`, `check` -- */
open:	atomic { mortal(); file = name;
		if
		:: file == 0 -> goto create
		:: else
		fi };
	atomic { mortal(); assert(whole[file]);
		if
#ifndef MISTAKE_NAMED_AND_REMOVED
		:: state[file] == REMOVED -> file = 0; goto create
#endif
		:: else
		fi };
	/* the name may have gone to another file */
	atomic { mortal();
		if
		:: name == file -> goto join
		:: else -> file = 0; goto open
		fi };

	/* -- map `create`; dir.rs `lock` -- */
create:	atomic { lock == NOBODY -> mortal(); lock = me };
	atomic { mortal(); file = name;
		if
		:: file == 0 -> goto make
		:: else
		fi };
	atomic { mortal(); assert(whole[file]);
		if
		:: state[file] == REMOVED
		:: else -> file = 0; lock = NOBODY; goto open
		fi };
	atomic { mortal(); name = 0 };
	/* dir.rs `create_unnamed` */
make:	atomic { mortal(); files++; file = files; assert(file < 5) };
#ifdef MISTAKE_NAMED_FIRST
	atomic { mortal(); name = file };
#endif
	atomic { mortal(); whole[file] = 1 };
	atomic { mortal(); assert(name == 0 || name == file); name = file };
	atomic { mortal(); lock = NOBODY };

	/* -- member.rs `join`: the claim; map `is_removed` -- */
join:	atomic { mortal(); member_of[me] = file };
#ifdef MISTAKE_JOINS_REMOVED
	goto joined;
#endif
	atomic { mortal();
		if
		:: state[file] == SERVING -> goto joined
		:: state[file] == REMOVED -> goto refused
		:: state[file] == REMOVING
		fi };
	atomic { lock == NOBODY -> mortal(); lock = me };
	atomic { mortal(); state[file] = (state[file] == REMOVING -> SERVING : state[file]) };
	atomic { mortal(); lock = NOBODY;
		if
		:: state[file] != REMOVED -> goto joined
		:: else
		fi };
refused:
	atomic { mortal(); assert(file != refused_by); refused_by = file; member_of[me] = 0; file = 0; goto open };
joined:	atomic { mortal(); works[me] = file;
		assert(state[file] == REMOVED || (ALONE(file, 0) && ALONE(file, 1) && ALONE(file, 2) && ALONE(file, 3)));
		if
		:: role == OPENS -> goto leave
		:: role == WAITS
		fi };
	/* wait.rs `begin`, `rest` */
	atomic { mortal(); stands[me] = 1 };
	atomic { mortal();
		if
		:: buried[file] -> goto waited
		:: else
		fi };
	atomic { mortal();
		if
		:: told[me] -> goto waited
		:: else -> asleep[me] = 1
		fi };
	if
	:: atomic { !asleep[me] -> skip }
	:: atomic { kills && asleep[me] -> kills = 0; deaths = 1; goto dies }
	:: atomic { over && asleep[me] -> asleep[me] = 0 }
	fi;
waited:	atomic { mortal(); stands[me] = 0; told[me] = 0 };
leave:	atomic { mortal(); works[me] = 0; member_of[me] = 0; goto out };

	/* -- map `remove` -- */
remove:	atomic { lock == NOBODY -> mortal(); lock = me };
	atomic { mortal(); file = name;
		if
		:: file == 0 -> goto unlock
		:: else
		fi };
	atomic { mortal(); assert(whole[file]);
		if
		:: state[file] == REMOVED -> goto unlink
		:: else
		fi };
	atomic { mortal(); state[file] = (state[file] == REMOVING -> SERVING : state[file]);
		if
		:: role == FORCES -> goto bury
		:: else
		fi };
#ifndef MISTAKE_LOOKS_FIRST
	atomic { mortal(); state[file] = REMOVING };
#endif
	/* `living` */
	do
	:: atomic { at < 3 -> mortal();
		if
		:: member_of[at] == file -> at = 0; goto in_use
		:: else -> at++
		fi }
	:: atomic { at == 3 -> at = 0; break }
	od;
#ifdef MISTAKE_LOOKS_FIRST
	atomic { mortal(); state[file] = REMOVING };
#endif
	atomic { mortal(); state[file] = REMOVED; assert(UNUSED(file)); goto unlink };
in_use:	atomic { mortal(); state[file] = SERVING; goto unlock };

	/* by force: as a member, so that its death is seen */
bury:
#ifndef MISTAKE_BURIER_UNSEEN
	atomic { mortal(); member_of[me] = file };
#endif
	atomic { mortal(); state[file] = REMOVED };
	/* `bury_all` */
bury_all:
	atomic { mortal(); buried[file] = 1 };
	do
	:: atomic { at < 3 -> mortal();
		if
		:: stands[at] && works[at] == file && !told[at] -> told[at] = 1
		:: else -> at++; goto next
		fi };
		atomic { mortal(); asleep[at] = 0; at++ };
next:		skip
	:: atomic { at == 3 -> at = 0; break }
	od;
	if
	:: role == RECOVERS -> goto watch
	:: else
	fi;
	atomic { mortal(); member_of[me] = 0 };
unlink:	atomic { mortal(); name = 0 };
unlock:	atomic { mortal(); lock = NOBODY; goto out };

	/* -- member.rs `sweep`, of the dead member; and recover.rs, the waiters that were told and not woken -- */
watch:	atomic { file = 0;
		if
		:: died != NOBODY -> file = member_of[died]; member_of[died] = 0; died = NOBODY
		:: over -> goto out
		fi;
		asleep[0] = asleep[0] && !told[0]; asleep[1] = asleep[1] && !told[1]; asleep[2] = asleep[2] && !told[2];
		if
		:: file && state[file] == REMOVED -> goto bury_all
		:: else -> goto watch
		fi };

	/* -- the kernel: death -- */
dies:	atomic { works[me] = 0; asleep[me] = 0; stands[me] = 0; told[me] = 0;
		if
		:: member_of[me] -> died = me
		:: else
		fi };
#ifndef MISTAKE_DIR_LOCK_STAYS
	atomic {
		if
		:: lock == me -> lock = NOBODY
		:: else
		fi };
#endif
out:	atomic { file = 0; at = 0; refused_by = 0 }
}

/* ---- Objects ---- */

#define MAKES 0
#define UNMAKES 2
#define LOCKS 3
#define A 1
#define B 2

#define FREE 0
#define LIVE 1
#define DEAD 2
#define IS(h, what) (((h) & 3) == (what))
#define GENERATION(h) ((h) >> 2)
#define HEAD(generation, what) (((generation) << 2) | (what))

#define FREE_LOCK 0
#define DEAD_LOCK 7
#define WATCHED 8
#define WHOSE(w) ((w) & 7)
#define IS_HELD(w) (WHOSE(w) != FREE_LOCK && WHOSE(w) != DEAD_LOCK)

byte slots = 1;
byte head[2];
byte named[2];          /* the name in the slot, and its hash */
byte table[4];
byte low;
byte admin;
bool in_futex[3];       /* for admin */
bool unlocks[3];        /* the robust list's pending entry */
byte waits_at[3];       /* one more than the slot; for the rest see above */

/* For the assertions alone: which name each generation had. */
byte was[16];

#define NAME_OF(slot, h) was[((slot) << 3) | GENERATION(h)]
#define TWICE(n) (slots == 2 && IS(head[0], LIVE) && IS(head[1], LIVE) && named[0] == n && named[1] == n)

/* A wake of one of the sleepers. */
inline wake_one() {
	if
	:: in_futex[0] -> in_futex[0] = 0
	:: in_futex[1] -> in_futex[1] = 0
	:: in_futex[2] -> in_futex[2] = 0
	:: !in_futex[0] && !in_futex[1] && !in_futex[2]
	fi
}

proctype member(byte me; byte role; byte wanted)
{
	byte at, entry, seen, slot;
	bool locked, again;

	if
	:: role == MAKES || role == WAITS -> goto search
	:: role == UNMAKES || role == LOCKS -> goto claim
	:: role == RECOVERS -> goto watch
	fi;

	/* -- object `find`, `place_named` -- */
search:	atomic { mortal(); entry = (at < 2 * slots -> table[at] : 0);
		if
		:: entry == 0 -> at = 0; goto not_found
		:: entry && entry >> 2 != wanted -> entry = 0; at++; goto search
		:: entry && entry >> 2 == wanted -> slot = (entry & 3) - 1; entry = 0
		fi };
	atomic { mortal(); seen = head[slot];
		if
		:: IS(seen, LIVE)
		:: else -> seen = 0; slot = 0; at++; goto search
		fi };
	atomic { mortal();
		if
		:: named[slot] == wanted
		:: else -> seen = 0; slot = 0; at++; goto search
		fi };
#ifndef MISTAKE_HEAD_SEEN_ONCE
	atomic { mortal();
		if
		:: head[slot] == seen
		:: else -> seen = 0; slot = 0; at++; goto search
		fi };
#endif
	atomic { assert(NAME_OF(slot, seen) == wanted); at = 0;
		if
		:: role == WAITS -> goto wait
		:: role == MAKES && locked -> goto release
		:: role == MAKES && !locked -> goto out
		:: role == UNMAKES -> goto unmake
		fi };
not_found:
	if
	:: role == WAITS -> goto out
	:: role == UNMAKES -> goto release
	:: role == MAKES && locked -> goto make
	:: role == MAKES && !locked -> goto claim
	fi;

	/* -- object `admin`: life.rs `try_claim`, `watch`, and the sleep -- */
claim:	atomic { mortal();
		if
		:: IS_HELD(admin)
		:: else -> admin = (me + 1) | (admin & WATCHED); goto claimed
		fi };
	atomic { mortal();
		if
		:: IS_HELD(admin) -> admin = admin | WATCHED; seen = admin
		:: else -> goto claim
		fi };
	atomic { mortal();
		if
		:: admin == seen -> seen = 0; in_futex[me] = 1
		:: else -> seen = 0; goto claim
		fi };
	if
	:: atomic { !in_futex[me] -> goto claim }
	:: atomic { in_futex[me] && kills -> kills = 0; deaths = 1; goto dies }
#ifndef MISTAKE_NO_LOOK_AGAIN
	/* ten milliseconds: that finds something, or changes nothing. Nobody needs it until somebody has died. */
	:: atomic { timeout && in_futex[me] && deaths && !IS_HELD(admin) -> in_futex[me] = 0; goto claim }
#endif
	fi;
claimed:
#ifndef MISTAKE_ADMIN_UNWATCHED
	atomic { mortal(); admin = admin | WATCHED };
#endif
	atomic { locked = 1;
		if
		:: role == LOCKS -> goto release
#ifdef MISTAKE_NO_SECOND_SEARCH
		:: role == MAKES -> goto make
#endif
		:: else -> goto search
		fi };

	/* -- object `make`: `free_slot` -- */
make:	atomic { mortal(); slot = low; entry = slots;
		do
		:: slot == slots -> break
#ifdef MISTAKE_USED_AGAIN_AT_ONCE
		:: slot < slots && !IS(head[slot], LIVE) -> break
#else
		:: slot < slots && (IS(head[slot], FREE) || (IS(head[slot], DEAD) && !(stands[0] && waits_at[0] == slot + 1) &&
			!(stands[1] && waits_at[1] == slot + 1) && !(stands[2] && waits_at[2] == slot + 1))) -> break
#endif
		:: else -> entry = (entry == slots && IS(head[slot], DEAD) -> slot : entry); slot++
		od;
		entry = (entry == slots -> slot : entry);
		/* none: once more without the dead, here when recovery has done it */
		if
		:: slot < slots
		:: slot == slots && died != NOBODY -> slot = 0; entry = 0; again = 1
		:: slot == slots && died == NOBODY -> slot = 0; entry = 0; goto release
		fi };
	if
	:: atomic { again && died == NOBODY -> again = 0; goto make }
	:: !again
	fi;
	atomic { mortal(); head[slot] = (IS(head[slot], DEAD) -> HEAD(GENERATION(head[slot]), FREE) : head[slot]) };
	atomic { mortal(); low = entry; assert(low == 0 || IS(head[0], LIVE)); entry = 0 };
	atomic { mortal(); named[slot] = wanted };
	/* `insert_name`, `entry_counts` */
	atomic { mortal();
		do
		:: table[at] && IS(head[(table[at] & 3) - 1], LIVE) && named[(table[at] & 3) - 1] == table[at] >> 2 -> at++
		:: else -> break
		od;
		assert(at < 2 * slots); table[at] = (wanted << 2) | (slot + 1); at = 0 };
	atomic { mortal(); seen = HEAD(GENERATION(head[slot]) + 1, LIVE);
		assert(GENERATION(seen) < 8 && !TWICE(wanted));
		assert(waits_at[0] != slot + 1 || !asleep[0] || told[0]);
		NAME_OF(slot, seen) = wanted; head[slot] = seen; assert(!TWICE(wanted)); goto release };

	/* -- object `unmake` -- */
unmake:	atomic { mortal();
#ifndef MISTAKE_LOW_FORGOTTEN
		low = (slot < low -> slot : low)
#endif
		};
	atomic { mortal(); assert(head[slot] == seen); head[slot] = HEAD(GENERATION(seen), DEAD);
		assert(slot >= low) };
	/* wait.rs `bury` */
bury:	do
	:: atomic { at < 3 -> mortal();
		if
		:: stands[at] && waits_at[at] == slot + 1 && !told[at] && IS(head[slot], DEAD) -> told[at] = 1
		:: else -> at++; goto next
		fi };
		atomic { mortal(); asleep[at] = 0; at++ };
next:		skip
	:: atomic { at == 3 -> at = 0; break }
	od;
	if
	:: role == RECOVERS -> goto buried_it
	:: else
	fi;

	/* -- the lock is given up: the C library's unlock -- */
release:
	atomic { mortal(); seen = 0; slot = 0; again = (admin & WATCHED) != 0; admin = FREE_LOCK; unlocks[me] = 1; locked = 0 };
	atomic { mortal(); unlocks[me] = 0;
		if
		:: again -> again = 0; wake_one()
		:: else
		fi;
		goto out };

	/* -- wait.rs: `begin` and `rest`, on the object that was found -- */
wait:
#ifdef MISTAKE_HEAD_BEFORE_BIT
	atomic { mortal();
		if
		:: head[slot] == seen
		:: else -> goto out
		fi };
	atomic { mortal(); waits_at[me] = slot + 1; stands[me] = 1 };
#else
	atomic { mortal(); waits_at[me] = slot + 1; stands[me] = 1 };
	atomic { mortal();
		if
		:: head[slot] == seen
		:: else -> goto waited
		fi };
#endif
	atomic { mortal();
		if
		:: told[me] -> goto waited
		:: else -> asleep[me] = 1
		fi };
	if
	:: atomic { !asleep[me] -> skip }
	:: atomic { kills && asleep[me] -> kills = 0; deaths = 1; goto dies }
	:: atomic { over && asleep[me] -> asleep[me] = 0 }
	fi;
waited:	atomic { mortal(); stands[me] = 0; told[me] = 0; waits_at[me] = 0; goto out };

	/* -- recovery: recover.rs `recover`, member.rs `clear_bits` -- */
watch:	atomic {
		if
		:: died != NOBODY
		:: over -> goto out
		fi };
	do
	:: atomic { slot < slots && IS(head[slot], DEAD) -> goto bury }
	:: atomic { slot < slots && !IS(head[slot], DEAD) -> slot++ }
	:: atomic { slot == slots -> slot = 0; break }
	:: false -> skip;
buried_it:	slot++
	od;
	atomic { asleep[0] = asleep[0] && !told[0]; asleep[1] = asleep[1] && !told[1]; asleep[2] = asleep[2] && !told[2] };
	atomic { stands[died] = 0; told[died] = 0; waits_at[died] = 0; died = NOBODY; goto watch };

	/* -- the kernel: death, and the robust list -- */
dies:	atomic { died = me; asleep[me] = 0; in_futex[me] = 0; at = 0; entry = 0; seen = 0; slot = 0; locked = 0; again = 0 };
	atomic {
		if
#ifndef MISTAKE_LOCK_OF_THE_DEAD
		:: WHOSE(admin) == me + 1 -> admin = DEAD_LOCK | (admin & WATCHED);
			if
			:: admin & WATCHED -> wake_one()
			:: else
			fi
#endif
		:: WHOSE(admin) != me + 1 && unlocks[me] && admin == FREE_LOCK -> wake_one()
		:: else
		fi;
		unlocks[me] = 0 };
out:	atomic { at = 0; entry = 0; seen = 0; slot = 0 }
}

/* Nothing else can happen: a waiter now waits for good. */
proctype quiet(bool arenas)
{
	atomic { timeout && !in_futex[0] && !in_futex[1] && !in_futex[2] &&
		(!asleep[0] || (arenas -> state[works[0]] != REMOVED : IS(head[waits_at[0] - 1], LIVE)));
		kills = 0; over = 1 };
	/* Somebody comes at last, and gets in. */
	if
	:: atomic { timeout && arenas -> run process(3, OPENS) }
	:: !arenas
	fi
}

/* An object of this name is in the first slot. */
inline there(n) { head[0] = HEAD(1, LIVE); named[0] = n; was[1] = n }

init {
	atomic {
		if
		:: kills = 1
		:: true
		fi;
		if
		:: SCENE(1) -> run process(0, OPENS); run process(1, OPENS); run process(2, REMOVES); run quiet(1)
		:: SCENE(2) -> run process(0, OPENS); run process(1, REMOVES); run process(2, FORCES); run quiet(1)
		:: SCENE(3) -> run process(0, WAITS); run process(1, FORCES); run process(4, RECOVERS); run quiet(1)
		:: SCENE(4) -> run member(0, LOCKS, 0); run member(1, LOCKS, 0); run member(2, LOCKS, 0); run quiet(0)
		:: SCENE(5) -> slots = 2;
			run member(0, MAKES, A); run member(1, MAKES, A); run member(2, UNMAKES, A); run member(4, RECOVERS, 0); run quiet(0)
		:: SCENE(6) -> slots = 2; there(B); table[0] = (B << 2) | 1;
			run member(0, MAKES, A); run member(1, MAKES, A); run member(2, UNMAKES, B); run member(4, RECOVERS, 0); run quiet(0)
		:: SCENE(7) -> there(A); table[0] = (A << 2) | 1;
			run member(0, WAITS, A); run member(1, UNMAKES, A); run member(2, MAKES, B); run member(4, RECOVERS, 0); run quiet(0)
		/* an earlier A has left a hint */
		:: SCENE(8) -> there(B); table[0] = (A << 2) | 1; table[1] = (B << 2) | 1;
			run member(0, WAITS, A); run member(1, UNMAKES, B); run member(2, MAKES, A); run member(4, RECOVERS, 0); run quiet(0)
		fi
	}
}
