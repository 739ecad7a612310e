/*
 * The ring of a named tube: records in memory that processes share, any of which may die or be stopped anywhere.
 *
 * Source: crates/structures/src/record.rs (below: record), record/recovery.rs (recovery). What is sent, received and recovered; how one
 * sleeps for it is as in spsc.pml.
 *
 *   word[slot]  lap | owner:2 | EMPTY, WRITING, FULL, READING, AGAIN, REREADING or SKIPPED:3
 *   head, tail  positions (lap and slot), that may be behind
 *   orphans, settled
 *   dropped     count | the dead member whose drop is announced, + 1:3 | slot:1
 *
 * Checked:
 *   record I1, I7   what is received was sent, and is whole: asserted. So is what one sender sends in order.
 *   record I3 to I5 the answer that nothing is there, or no hole, was right at some moment of the look, even if others are
 *                   slow then, or stopped: asserted. (A full slot means no hole, though there be one behind it.) So also I8: that
 *                   of what comes again, unless a recovery is under way; and I9, R6: both at one moment.
 *   record I10, R5  only the dead are robbed: asserted.
 *   deaths          what was committed is received once; if its receiver died, once more, and marked; then it is dropped, and
 *                   counted once: asserted. No slot is left: Spin's invalid end states.
 *   recovery I1, I2 drops.
 *
 * Scenes, one after the other: two send, one of them reserves and commits, and one receives; one sends, one looks at records in
 * place, and one receives; two send beside a record that is to come again; one has died with what had come again, and has a successor,
 * two recover, and one dies; two have died while they looked, with the same recoverers; only one sender and one receiver, which die,
 * and have successors; two send, two receive; one sends, and two look, die, and have successors; two have died while they looked, and
 * records are dropped; two send and one receives, with a death, and that of a recoverer.
 * Kills: at each step.
 *
 * Left out: lengths (they are part of the record); three slots or more (and so `Full`, of a sender that was passed over);
 * wrap-around of laps; `put_back`, `keep_from_all`, `count`; waiting (spsc.pml); attaching and leaving (member.pml, object.pml).
 * See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_COMMITS_BLINDLY       a commit is a store (record R2). Found: assertion
 *   MISTAKE_COPIES_TOO_LATE       a sender that was passed over gives up its slot, and copies then (record I7). Found: assertion
 *   MISTAKE_PASSES_UNMARKED       a sender walks past a slot in use without a mark (record I5). Found: assertion
 *   MISTAKE_WAITS_FOR_A_SENDER    a receiver waits for a sender that is just writing. Found: assertion
 *   MISTAKE_WAITS_FOR_A_READER    a sender waits for the owner of a slot. Found: assertion
 *   MISTAKE_ORPHANS_BLOCK         senders do not pass what is to come again. Found: assertion
 *   MISTAKE_NOTHING_TOO_SOON      a receiver that finds nothing behind a sender does not look at that again (record I3). Found: assertion
 *   MISTAKE_WALKS_ON_AT_OLD_LAP   a receiver walks on at an older lap (record I3). Found: invalid end state
 *   MISTAKE_TAKEN_BY_STORE        a receiver stores EMPTY (record I7). Found: assertion
 *   MISTAKE_RELEASE_IS_A_STORE    a receiver that gives back does not see that its slot was passed (record R3). Found: assertion
 *   MISTAKE_SHUNS_ITS_OWN_SLOT    a sender that was passed over does not take its own slot once more. Found: assertion
 *   MISTAKE_OF_THE_DEAD_IS_SENT   recovery sends what the dead was writing. Found: assertion
 *   MISTAKE_DEAD_SLOTS_STAY       recovery leaves what the dead had. Found: invalid end state
 *   MISTAKE_AGAIN_FOR_EVER        what came again comes once more (G3). Found: assertion
 *   MISTAKE_SEEKS_NO_ORPHANS      a receiver finds what comes again in line only (record I8). Found: assertion
 *   MISTAKE_ORPHAN_SAID_FIRST     a recoverer says that something comes again before it does (record I8). Found: assertion
 *   MISTAKE_OWN_ORPHANS_ONLY      a recoverer says nothing of what another one, now dead, made come again. Found: assertion
 *   MISTAKE_SETTLES_TOO_SOON      a receiver that looks for what comes again says first that there is none (record I8). Found: assertion
 *   MISTAKE_ONE_LOOK              a receiver that found nothing to come again does not look at the line again (record I9). Found: assertion
 *   MISTAKE_COUNTED_TWICE         each recoverer counts a drop, before it is made. Found: assertion
 *   MISTAKE_LEAVES_A_DROP         recovery ends while its drop is announced (recovery I2). Found: assertion
 *   MISTAKE_FINISHES_BLINDLY      a recoverer that finishes a drop does not look again whether it is announced. Found: assertion
 *   MISTAKE_ROBS_A_NEW_OWNER      a recoverer does not look whether the number is still the dead one's (record I10). Found: assertion
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define EMPTY 0
#define WRITING 1
#define FULL 2
#define READING 3
#define AGAIN 4
#define REREADING 5
#define SKIPPED 6
#define IN(w) ((w) & 7)
#define OWNER(w) (((w) >> 3) & 3)
#define LAP(w) ((w) >> 5)
#define WORD(lap, m, state) (((lap) << 5) | ((m) << 3) | (state))
#define OF_LAP(w, p) (((w) & 31) | (LAP_OF(p) << 5))
#define FREED(w) WORD(LAP(w) + 1, 0, EMPTY)
#define IS_LENT(w) (IN(w) == READING || IN(w) == REREADING)
#define HELD_BY(w, m) ((IN(w) == WRITING || IN(w) == SKIPPED || IS_LENT(w)) && OWNER(w) == (m))

/* A sender's predecessor. */
#define OTHER (1 - me)

#define SLOTS 2
#define SLOT(p) ((p) & 1)
#define LAP_OF(p) ((p) >> 1)
#define NEXT(p) ((p) + 1)
/* The position, or the same slot's so many laps before the word's, if that is later. */
#define NOT_BEFORE(p, w, n) ((LAP(w) > LAP_OF(p) + (n)) -> (((LAP(w) - (n)) << 1) | SLOT(p)) : (p))

#define COUNT(d) ((d) >> 4)
#define ANNOUNCED(d) (((d) >> 1) & 7)
#define WITH_DROP(d, m, s) (((COUNT(d) + 1) << 4) | (((m) + 1) << 1) | (s))

#define NONE 15
#define UNREAD 255
#define SENDS 0         /* `try_send` */
#define COMMITS 1       /* `reserve`, `commit` */
#define TAKES 2         /* `try_recv` */
#define BORROWS 3       /* `borrow`, `release` */

short word[2];
byte record[2];
byte head, tail;
byte orphans, settled;
byte dropped;
bool one_sender, one_receiver, drops;

bool gone[4];           /* is dead, and not recovered */
bool died[4];           /* no successor dies */
bool had[4];            /* was recovered: the number may be another's */
byte kills;             /* to be done, of members */
bool kills_more;        /* of a recoverer */
byte vain;              /* how often a receiver looks though there is nothing */

/* For the assertions alone. */
byte sending;           /* how many senders are not done */
byte own[2] = NONE;     /* the slot of a sender that was passed over */
byte last[2];           /* what of each sender was received last */
bool is_sent[8];
bool is_had[8];         /* somebody had it */
bool is_again[8];       /* and once more */
bool is_over[8];
byte lost;              /* were dropped */
bool was_empty[4];      /* at some moment of this look of a receiver's: nothing at all */
bool was_full[2];       /* and of a sender's */

#define IS_HOLE(m, s) (IN(word[s]) == EMPTY || own[m] == (s))
#define NO_HOLE(m) (IN(word[0]) == FULL || IN(word[1]) == FULL || !(IS_HOLE(m, 0) || IS_HOLE(m, 1)))
#define ALL_WELL (!gone[0] && !gone[1] && !gone[2] && !gone[3])
#define NONE_FULL (IN(word[0]) != FULL && IN(word[1]) != FULL)
#define NONE_AGAIN !(ALL_WELL && (IN(word[0]) == AGAIN || IN(word[1]) == AGAIN))
#define NOTHING (NONE_FULL && NONE_AGAIN)

/* After each change. */
inline noted() {
	was_empty[2] = was_empty[2] || NOTHING; was_empty[3] = was_empty[3] || NOTHING;
	was_full[0] = was_full[0] || NO_HOLE(0); was_full[1] = was_full[1] || NO_HOLE(1)
}

/* Records are numbered by sender: 1, 2, 3; 5, 6, 7. */
inline gets(r, again) {
	assert(is_sent[r] && !is_over[r]);
	if
	:: !(again) -> assert(!is_had[r] && r > last[r >> 2]); is_had[r] = 1; last[r >> 2] = r
	:: else -> assert(is_had[r] && !is_again[r]); is_again[r] = 1
	fi
}

/* Before each step: it may be killed here. */
inline mortal() {
	if
	:: kills && !died[me] -> kills--; died[me] = 1; gone[me] = 1; noted(); goto dies
	:: true
	fi
}

proctype sender(byte me; byte role; byte done; byte most)
{
	byte position;
	byte slot;      /* its own, at that position: what it has reserved */
	byte from;      /* that from which it moves its record; or NONE */
	byte at;
	short seen;     /* its slot's word, as it was read */
	short other;    /* that of the slot behind */

	from = NONE;
end_succeeds:
	if
	:: atomic { done == NONE && had[OTHER] -> done = 0; had[OTHER] = 0; sending++ }
	:: atomic { done != NONE }
	fi;

again:	if
	:: atomic { done == most -> goto out }
	:: atomic { done < most -> mortal(); position = tail; was_full[me] = NO_HOLE(me) }
	fi;

	/* -- record.rs `hole` -- */
hole:	atomic { mortal(); seen = word[SLOT(position)];
		if
		:: seen == WORD(LAP_OF(position), 0, EMPTY) -> goto claim
#ifndef MISTAKE_SHUNS_ITS_OWN_SLOT
		:: from == SLOT(position) && HELD_BY(seen, me) && LAP(seen) < LAP_OF(position) -> goto claim
#endif
		:: else
		fi;
		if
		:: LAP(seen) >= LAP_OF(position) -> position = NEXT(NOT_BEFORE(position, seen, 1)); seen = 0; goto hole
		:: LAP(seen) < LAP_OF(position) && IN(seen) == FULL -> goto no_hole
#ifdef MISTAKE_ORPHANS_BLOCK
		:: LAP(seen) < LAP_OF(position) && IN(seen) == AGAIN -> goto no_hole
#endif
		:: else -> at = NEXT(position)
		fi;
#ifdef MISTAKE_WAITS_FOR_A_READER
		at = 0; goto same
#endif
		};
	/* `past_one_in_use`, `is_hole_behind`: of two slots, the other one */
	atomic { mortal(); other = word[SLOT(at)];
		if
		:: other == WORD(LAP_OF(at), 0, EMPTY)
		:: from == SLOT(at) && HELD_BY(other, me) && LAP(other) < LAP_OF(at)
		:: else -> at = 0; other = 0; goto same
		fi;
		at = 0; other = 0 };
#ifdef MISTAKE_PASSES_UNMARKED
	atomic { position = NEXT(position); seen = 0; goto hole };
#endif
	atomic { mortal();
		if
		:: word[SLOT(position)] == seen && IN(seen) == WRITING -> word[SLOT(position)] = WORD(LAP_OF(position), OWNER(seen), SKIPPED); noted()
		:: word[SLOT(position)] == seen && IN(seen) != WRITING -> word[SLOT(position)] = OF_LAP(seen, position); noted()
		:: else
		fi;
		seen = 0; goto hole };
same:	atomic { mortal();
		if
		:: word[SLOT(position)] != seen -> seen = 0; goto hole
		:: else
		fi };
no_hole:
	atomic { seen = 0; position = 0; assert(was_full[me] && from == NONE) };
	/* somebody tells it of a hole; a sender that was passed over has one of two slots */
	if
	:: atomic { !NO_HOLE(me) -> goto again }
	:: atomic { kills && !died[me] -> kills--; died[me] = 1; gone[me] = 1; noted(); goto dies }
	fi;

	/* -- `claim` -- */
claim:	if
	:: atomic { one_sender -> slot = SLOT(position); seen = 0; goto write }
	:: atomic { !one_sender -> mortal();
		if
		:: word[SLOT(position)] == seen -> assert(LAP_OF(position) < 15);
			seen = 0; slot = SLOT(position); word[slot] = WORD(LAP_OF(position), me, WRITING); noted()
		:: word[SLOT(position)] != seen -> seen = 0; position = tail; goto hole
		fi }
	fi;
	atomic { mortal(); tail = NEXT(position);
		if
		:: from == NONE
		:: from != NONE && from == slot -> from = NONE; own[me] = NONE; goto commit
		:: from != NONE && from != slot -> goto move
		fi };
write:	atomic { mortal(); record[slot] = (me << 2) + done + 1 };

	/* -- `is_sent` -- */
commit:	atomic { mortal();
		if
		:: one_sender -> word[slot] = WORD(LAP_OF(position), 0, FULL)
#ifdef MISTAKE_COMMITS_BLINDLY
		:: !one_sender -> word[slot] = WORD(LAP_OF(position), 0, FULL)
#else
		:: !one_sender && word[slot] == WORD(LAP_OF(position), me, WRITING) -> word[slot] = WORD(LAP_OF(position), 0, FULL)
		:: !one_sender && word[slot] != WORD(LAP_OF(position), me, WRITING) ->
			assert(IN(word[slot]) == SKIPPED && OWNER(word[slot]) == me);
			if
			:: role == COMMITS -> from = slot; own[me] = slot; position = tail; was_full[me] = NO_HOLE(me); goto hole
			:: role == SENDS -> from = slot; goto abandon
			fi
#endif
		fi;
		done++; is_sent[(me << 2) + done] = 1; noted() };
	if
	:: atomic { one_sender -> mortal(); tail = NEXT(position); position = 0; slot = 0; goto again }
	:: atomic { !one_sender -> position = 0; slot = 0; goto again }
	fi;

	/* -- `commit`: the record moves to another slot -- */
move:	own[me] = NONE;
#ifndef MISTAKE_COPIES_TOO_LATE
	atomic { mortal(); record[slot] = record[from] };
#endif
	/* -- `abandon`, `give_up`, of the slot `from`. It was passed, and may have been so once more. -- */
abandon:
	atomic { mortal(); seen = word[from] };
	atomic { mortal();
		if
		:: word[from] == seen -> assert(HELD_BY(seen, me)); word[from] = FREED(seen); seen = 0; noted()
		:: else -> seen = 0; goto abandon
		fi };
#ifdef MISTAKE_COPIES_TOO_LATE
	if
	:: role == COMMITS -> atomic { mortal(); record[slot] = record[from] }
	:: role == SENDS
	fi;
#endif
	atomic { from = NONE;
		if
		:: role == COMMITS -> goto commit
		:: role == SENDS -> slot = 0; goto again
		fi };

dies:	own[me] = NONE;
out:	atomic { sending--; position = 0; slot = 0; from = 0; at = 0; seen = 0; other = 0; done = 0 }
}

proctype receiver(byte me; byte role; bool next)
{
	byte position;
	byte slot;
	byte at;
	short seen;     /* a slot's word, as it was read */
	short other;    /* that of the slot behind */
	byte onward;    /* where receivers are when it was taken */
	byte known = UNREAD; /* what was settled before the line was looked at */
	byte copy;

end_succeeds:
	if
	:: atomic { next && had[me] -> next = 0; had[me] = 0 }
	:: atomic { !next }
	fi;
end_waits:
	if
	:: atomic { !NOTHING -> skip }
	:: atomic { vain -> vain-- }
	:: atomic { kills && !died[me] -> kills--; died[me] = 1; gone[me] = 1; noted(); goto dies }
	fi;
again:	atomic { mortal(); position = head; known = UNREAD; was_empty[me] = NOTHING };

	/* -- `in_line` -- */
front:	atomic { mortal(); slot = SLOT(position); seen = word[slot];
		if
		:: LAP(seen) == LAP_OF(position) && (IN(seen) == FULL || IN(seen) == AGAIN) -> onward = NEXT(position); known = UNREAD; goto found
		:: LAP(seen) == LAP_OF(position) && IN(seen) == WRITING
		:: LAP(seen) > LAP_OF(position) || (LAP(seen) == LAP_OF(position) && (IN(seen) == SKIPPED || IS_LENT(seen))) ->
			position = NEXT(NOT_BEFORE(position, seen, 2)); seen = 0; goto front
		:: LAP(seen) < LAP_OF(position) && IN(seen) == AGAIN -> onward = position; known = UNREAD; goto found
#ifdef MISTAKE_WALKS_ON_AT_OLD_LAP
		:: LAP(seen) < LAP_OF(position) && IN(seen) != AGAIN && IN(seen) != FULL -> position = NEXT(position); seen = 0; goto front
#else
		:: LAP(seen) < LAP_OF(position) && IN(seen) != AGAIN -> goto orphan
#endif
		:: LAP(seen) == LAP_OF(position) && IN(seen) == EMPTY -> goto orphan
		fi };
	/* `past_an_unwritten_one`, `is_message_behind`: of two slots, the other one */
#ifdef MISTAKE_WAITS_FOR_A_SENDER
	goto same;
#endif
	atomic { mortal(); at = NEXT(position); other = word[SLOT(at)];
		if
		:: other == WORD(LAP_OF(at), 0, FULL) -> at = 0; other = 0
		:: else -> at = 0; other = 0; goto same
		fi };
	atomic { mortal();
		if
		:: word[slot] == seen -> word[slot] = WORD(LAP(seen), OWNER(seen), SKIPPED); noted()
		:: else
		fi;
		seen = 0; goto front };
same:	atomic { mortal();
		if
#ifndef MISTAKE_NOTHING_TOO_SOON
		:: word[slot] != seen -> seen = 0; goto front
#endif
		:: else
		fi };

	/* -- recovery.rs `orphan`; `orphan_or_later`, with what was settled before the line was looked at once more -- */
orphan:	atomic { mortal(); seen = 0; slot = 0; onward = position;
		if
#ifdef MISTAKE_SEEKS_NO_ORPHANS
		:: true -> goto nothing
#else
		:: known == UNREAD && orphans == 0 -> goto nothing
		:: known == UNREAD && orphans != 0 -> goto later
		:: known == orphans -> goto nothing
		:: known != UNREAD && known != orphans -> other = orphans
#endif
#ifdef MISTAKE_SETTLES_TOO_SOON
			; settled = other
#endif
		fi };
orphan_since:
	atomic { mortal(); seen = word[slot];
		if
		:: IN(seen) == AGAIN -> other = 0; known = UNREAD; goto found
		:: else -> seen = 0; slot++
		fi;
		if
		:: slot < SLOTS -> goto orphan_since
		:: else
		fi };
	atomic { mortal(); settled = other; slot = 0; onward = 0; known = other; other = 0;
#ifdef MISTAKE_ONE_LOOK
		goto nothing
#else
		position = head; goto front
#endif
		};
later:	atomic { mortal(); slot = 0; onward = 0; known = settled; position = head; goto front };
nothing:
	atomic { assert(was_empty[me]); known = UNREAD; position = 0; slot = 0; onward = 0; other = 0; goto end_waits };

	/* -- `take`, of the word that was seen -- */
found:	if
	:: role == BORROWS -> goto borrow
	:: role == TAKES
	fi;
	atomic { mortal(); copy = record[slot] };
	atomic { mortal();
		if
#ifdef MISTAKE_TAKEN_BY_STORE
		:: true ->
#else
		:: word[slot] == seen || (one_receiver && IN(seen) == FULL) ->
#endif
			gets(copy, IN(seen) == AGAIN); is_over[copy] = 1; word[slot] = FREED(seen); noted()
		:: else -> copy = 0; seen = 0; onward = 0; position = head; goto front
		fi };
	atomic { mortal(); head = onward; position = 0; slot = 0; onward = 0; copy = 0; seen = 0; goto end_waits };

	/* -- `borrow` -- */
borrow:	atomic { mortal();
		if
		:: word[slot] == seen || (one_receiver && IN(seen) == FULL) ->
			copy = record[slot]; gets(copy, IN(seen) == AGAIN);
			seen = WORD(LAP(seen), me, (IN(seen) == AGAIN -> REREADING : READING)); word[slot] = seen; noted()
		:: else -> seen = 0; onward = 0; position = head; goto front
		fi };
	atomic { mortal(); head = onward; onward = 0; position = 0 };
	atomic { mortal(); assert(record[slot] == copy) };
	/* -- `release`, `give_up` -- */
give_up:
	atomic { mortal();
		if
#ifdef MISTAKE_RELEASE_IS_A_STORE
		:: true -> is_over[copy] = 1; word[slot] = FREED(seen); noted()
#else
		:: word[slot] == seen -> is_over[copy] = 1; word[slot] = FREED(seen); noted()
		:: else -> assert(HELD_BY(word[slot], me)); seen = word[slot]; goto give_up
#endif
		fi;
		slot = 0; copy = 0; seen = 0; goto end_waits };

dies:	atomic { position = 0; slot = 0; onward = 0; copy = 0; seen = 0; other = 0; at = 0 }
}

/* Before each step of a recoverer. */
inline killable() {
	if
	:: kills_more -> kills_more = 0; goto dies
	:: true
	fi
}

/* record.rs I10. What a slot says of a number that is another's by now is nothing to a recoverer. */
inline robs(m) {
	assert(gone[m])
}

proctype recoverer()
{
	byte whom, slot;
	byte count;     /* `dropped`, as it was read */
	short seen;     /* a slot's word, as it was read */
	byte at, mine;  /* the slot whose drop is announced, and its dead owner */
	bool again, ends;

watch:
end_watch:
	if
	:: atomic { gone[0] -> whom = 0 }
	:: atomic { gone[1] -> whom = 1 }
	:: atomic { gone[2] -> whom = 2 }
	:: atomic { gone[3] -> whom = 3 }
	fi;
#ifdef MISTAKE_ORPHAN_SAID_FIRST
	atomic { killable(); orphans++ };
#endif

	/* -- recovery.rs `recover_slot` -- */
each:	atomic { killable(); count = dropped };
	atomic { killable(); seen = word[slot];
		if
#ifdef MISTAKE_OWN_ORPHANS_ONLY
		:: IN(seen) == AGAIN -> goto next_slot
#else
		:: IN(seen) == AGAIN -> again = 1; goto next_slot
#endif
		:: IN(seen) != AGAIN && !HELD_BY(seen, whom) -> goto next_slot
		:: HELD_BY(seen, whom)
		fi };
#ifndef MISTAKE_ROBS_A_NEW_OWNER
	atomic { killable();
		if
		:: gone[whom]
		:: else -> goto next_slot
		fi };
#endif
#ifdef MISTAKE_DEAD_SLOTS_STAY
	goto next_slot;
#endif
	if
#ifdef MISTAKE_AGAIN_FOR_EVER
	:: IS_LENT(seen) && drops -> goto drop
	:: !(IS_LENT(seen) && drops)
#else
	:: IS_LENT(seen) && (drops || IN(seen) == REREADING) -> goto drop
	:: !(IS_LENT(seen) && (drops || IN(seen) == REREADING))
#endif
	fi;
	atomic { killable();
		if
		:: word[slot] == seen && IS_LENT(seen) -> robs(whom); word[slot] = WORD(LAP(seen), 0, AGAIN); noted();
#ifdef MISTAKE_OWN_ORPHANS_ONLY
			again = 1
#endif
#ifdef MISTAKE_OF_THE_DEAD_IS_SENT
		:: word[slot] == seen && !IS_LENT(seen) -> robs(whom); word[slot] = WORD(LAP(seen), 0, (IN(seen) == WRITING -> FULL : EMPTY)); noted()
#else
		:: word[slot] == seen && !IS_LENT(seen) -> robs(whom); word[slot] = FREED(seen); noted()
#endif
		:: else
		fi;
		seen = 0; count = 0; goto each };

	/* -- `drop` -- */
drop:
#ifdef MISTAKE_COUNTED_TWICE
	atomic { killable(); dropped = dropped + 16 };
	atomic { killable();
		if
		:: word[slot] == seen -> is_over[record[slot]] = 1; lost++; word[slot] = FREED(seen); noted()
		:: else
		fi;
		seen = 0; count = 0; goto each };
#endif
	if
	:: ANNOUNCED(count) -> goto finish
	:: else
	fi;
	atomic { killable(); seen = 0;
		if
		:: dropped == count -> count = WITH_DROP(count, whom, slot); dropped = count
		:: else -> count = 0; goto each
		fi };

	/* -- `finish`, of what `count` announces -- */
finish:	atomic { mine = ANNOUNCED(count); seen = 0;
		if
		:: mine -> mine--; at = count & 1
		:: else -> goto finished
		fi };
finishing:
	atomic { killable(); seen = word[at] };
#ifndef MISTAKE_FINISHES_BLINDLY
	atomic { killable();
		if
		:: dropped == count
		:: else -> goto finished
		fi };
#endif
	atomic { killable();
		if
		:: IS_LENT(seen) && OWNER(seen) == mine && word[at] == seen ->
			robs(mine); is_over[record[at]] = 1; lost++; word[at] = FREED(seen); noted()
		:: IS_LENT(seen) && OWNER(seen) == mine && word[at] != seen -> goto finishing
		:: else
		fi };
	atomic { killable();
		if
		:: dropped == count -> dropped = COUNT(count) << 4
		:: else
		fi };
finished:
	atomic { seen = 0; mine = 0; at = 0; count = 0;
		if
		:: ends -> ends = 0; goto said
		:: else -> goto each
		fi };

next_slot:
	atomic { seen = 0; count = 0; slot++;
		if
		:: slot < SLOTS -> goto each
		:: else -> slot = 0
		fi };
#ifndef MISTAKE_LEAVES_A_DROP
	atomic { killable(); count = dropped; ends = 1; goto finish };
#endif
said:
#ifndef MISTAKE_ORPHAN_SAID_FIRST
	if
	:: atomic { again -> killable(); again = 0; orphans++ }
	:: atomic { !again }
	fi;
#endif
	/* member.rs: it is swept, if nobody else has done it */
	atomic { killable(); again = 0;
		if
		:: gone[whom] -> assert(ANNOUNCED(dropped) != whom + 1); gone[whom] = 0; had[whom] = 1; noted()
		:: else
		fi;
		whom = 0; goto watch };

dies:	atomic { whom = 0; slot = 0; count = 0; seen = 0; at = 0; mine = 0; again = 0; ends = 0 }
}

#define DONE_WITH(r) (!is_sent[r] || is_over[r])

/* Nothing else can happen: nothing is left, and each drop is counted. */
proctype quiet()
{
	atomic { timeout && ALL_WELL && sending == 0 && IN(word[0]) == EMPTY && IN(word[1]) == EMPTY &&
		DONE_WITH(1) && DONE_WITH(2) && DONE_WITH(3) && DONE_WITH(5) && DONE_WITH(6) && DONE_WITH(7) -> assert(dropped == lost << 4) }
}

/* What was sent, and is in a slot. */
inline lies(r, s, w) {
	record[s] = r; is_sent[r] = 1; word[s] = w
}

/* A receiver has had it. */
inline lent(r, m) {
	is_had[r] = 1; last[r >> 2] = r; gone[m] = 1
}

init {
	atomic {
		sending = 1;
		if
		:: SCENE(1) -> sending = 2; run sender(0, SENDS, 0, 2); run sender(1, COMMITS, 0, 2); run receiver(2, TAKES, 0)
		:: SCENE(2) -> run sender(0, SENDS, 0, 3); run receiver(2, BORROWS, 0); run receiver(3, TAKES, 0)
		:: SCENE(3) -> sending = 2; lies(1, 0, WORD(0, 2, AGAIN)); lent(1, 2); gone[2] = 0; orphans = 1;
			run sender(0, COMMITS, 1, 2); run sender(1, SENDS, 0, 1); run receiver(2, TAKES, 0)
		:: SCENE(4) -> kills_more = 1; tail = 1; head = 1;
			lies(1, 0, WORD(0, 2, REREADING)); lent(1, 2); is_again[1] = 1;
			run sender(0, COMMITS, 1, 2); run receiver(2, BORROWS, 1); run recoverer(); run recoverer()
		:: SCENE(5) -> vain = 2; kills_more = 1; tail = 2; head = 2;
			lies(1, 0, WORD(0, 2, READING)); lent(1, 2); lies(2, 1, WORD(0, 3, READING)); lent(2, 3);
			run sender(0, SENDS, 2, 3); run receiver(2, TAKES, 1); run recoverer(); run recoverer()
		:: SCENE(6) -> one_sender = 1; one_receiver = 1; kills = 2;
			run sender(0, SENDS, 0, 2); run sender(1, SENDS, NONE, 1); run receiver(2, BORROWS, 0); run receiver(2, TAKES, 1); run recoverer()
		:: SCENE(7) -> sending = 2; run sender(0, SENDS, 0, 2); run sender(1, SENDS, 0, 1); run receiver(2, TAKES, 0); run receiver(3, TAKES, 0)
		:: SCENE(8) -> kills = 2; lies(1, 0, WORD(0, 0, FULL)); tail = 1;
			run sender(0, SENDS, 1, 2); run receiver(2, BORROWS, 0); run receiver(3, BORROWS, 0); run receiver(2, TAKES, 1); run receiver(3, TAKES, 1);
			run recoverer()
		:: SCENE(9) -> kills_more = 1; drops = 1; tail = 2; head = 2;
			lies(1, 0, WORD(0, 2, READING)); lent(1, 2); lies(2, 1, WORD(0, 3, READING)); lent(2, 3);
			run sender(0, SENDS, 2, 3); run receiver(2, BORROWS, 1); run recoverer(); run recoverer()
		:: SCENE(10) -> sending = 2; kills = 1; kills_more = 1;
			run sender(0, SENDS, 0, 1); run sender(1, COMMITS, 0, 1); run receiver(2, TAKES, 0); run receiver(2, TAKES, 1); run recoverer(); run recoverer()
		fi;
		run quiet()
	}
}
