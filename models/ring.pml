/*
 * The ring of a private tube: many senders, many receivers, and nobody waits for one that is not running.
 *
 * Source: crates/structures/src/ring.rs, on a track of a fixed number of slots; crates/plat/src/real/fence.rs. How one sleeps for a
 * message or a hole is in spsc.pml.
 *
 *   word[slot]    lap, and EMPTY, WRITING, FULL or READING:2
 *   passed[slot]  lap, and PENDING:1
 *   head, tail    positions (lap and slot), that may be behind
 *
 * The store that says FULL is delayed as on x86: it gets to memory when it likes, but before the sender's next swap. So a sender
 * may look at the mark before its message is there. All else is in order.
 *
 * Checked:
 *   I1, I6   messages are received whole, and once: asserted.
 *   I4       what one sender sends is received in order: asserted, where one takes.
 *   I2, I3   none is lost: asserted at each look in vain, and Spin's invalid end states.
 *   I5       the answer that nothing is there, or no hole, was right at some moment of the look, even if others are slow
 *            then, or stopped: asserted. (A full slot means no hole, though there be one behind it.)
 *   I7       one sender that does not claim.
 *   E2       the fence for all threads.
 *
 * Scenes, one after the other: two slots, two senders of one message each, and a receiver; the same with two receivers; a sender
 * of two messages and one of one, and a receiver; a receiver that claims its message and reads it later, and one that receives at
 * once; one sender alone, and two receivers; three slots, two senders, one of which is stopped when it has claimed, a receiver, and
 * a receiver that is slow to read.
 * Kills: none. A ring is of one process, and its threads die together. A stopped thread is as a slow one.
 *
 * Left out: waiting (spsc.pml); `count`; a claim that a choice holds (it is as one that is slow); the unbounded track (loom and crashsim explore it);
 * four slots or more; wrap-around of the lap. A machine that delays more than this store: loom's scenes. See also the README of the
 * models.
 *
 * Mistakes:
 *   MISTAKE_CLAIMS_WHAT_WAS_PASSED  a sender claims a position that was passed over (I4). Found: assertion
 *   MISTAKE_COMMITS_BLINDLY         a sender does not look whether its position was passed over (I3). Found: assertion
 *   MISTAKE_NO_HEAVY_FENCE          a thread that passes a sender over does not fence for it (E2). Found: assertion
 *   MISTAKE_GOOD_BEFORE_FENCE       a mark is good at once (I3). Found: assertion
 *   MISTAKE_WALKS_PAST_A_MESSAGE    a receiver that has passed over does not look whether the message has come (I2). Found: assertion
 *   MISTAKE_NOTHING_TOO_SOON        a receiver that finds nothing behind a sender does not look at that again (I5). Found: assertion
 *   MISTAKE_WAITS_FOR_A_SENDER      a receiver waits for a sender that is just writing. Found: assertion
 *   MISTAKE_WAITS_FOR_A_SLOT        a sender waits for a thread that is just writing, or reading. Found: assertion
 *   MISTAKE_READING_HOLDS_UP        a receiver waits for one that is just reading. Found: assertion
 *   MISTAKE_TAKEN_BY_STORE          a receiver stores EMPTY (I6). Found: assertion
 *   MISTAKE_TAKEN_BACK_BY_STORE     a sender that takes its message back stores EMPTY (I3). Found: assertion
 *   MISTAKE_COPIES_LATE             a receiver copies the message when it has taken it (I6). Found: assertion
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
#define PENDING 1
#define IN(w) ((w) & 3)
#define LAP(w) ((w) >> 2)
#define WORD(lap, of) (((lap) << 2) | (of))

#define SLOT(p) ((p) % slots)
#define LAP_OF(p) ((p) / slots)
#define NEXT(p) ((p) + 1)
#define IS_PASSED(p) ((passed[SLOT(p)] >> 1) > LAP_OF(p))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

#define SENDS 0
#define ALONE 1
#define TAKES 2
#define READS 3
#define STOPPED 4       /* has claimed position 1, goes on for one step, and stays there */
#define HAS 5           /* one message, at position 0, and reads it */

byte slots = 2;
byte word[3];
byte passed[3];
byte message[3];
byte head, tail;
byte held[2];           /* the store that says FULL, not yet in memory: its position + 1 */

/* For the assertions alone. */
byte total, received;
byte there;             /* sent, in memory, and not received */
byte last[2];           /* what of each sender was received last */
bool is_sent[8];        /* its sender has said so */
bool is_received[8];
bool was_empty[2];      /* at some moment of this look of a receiver's */
bool was_full[2];       /* and of a sender's */

#define LOCKED (held[me] == 0)
#define NO_HOLE (IN(word[0]) == FULL || IN(word[1]) == FULL || IN(word[2]) == FULL || \
	(IN(word[0]) != EMPTY && IN(word[1]) != EMPTY && (slots == 2 || IN(word[2]) != EMPTY)))

/* After each change. */
inline noted() {
	was_empty[0] = was_empty[0] || there == 0; was_empty[1] = was_empty[1] || there == 0;
	was_full[0] = was_full[0] || NO_HOLE; was_full[1] = was_full[1] || NO_HOLE
}

/* Messages are numbered by sender: 1, 2, ..; 5, 6, .. */
inline gets(m) {
	assert(m != 0 && !is_received[m] && m > last[m >> 2]);
	is_received[m] = 1; last[m >> 2] = m; received++;
	if
	:: is_sent[m] -> there--
	:: else
	fi
}

inline is_done(m) {
	is_sent[m] = 1;
	if
	:: !is_received[m] && held[m >> 2] == 0 -> there++
	:: else
	fi;
	noted()
}

/* The delayed stores get to memory. */
proctype drains(byte whose)
{
	byte at;

	do
	:: atomic { held[whose] -> at = held[whose] - 1; held[whose] = 0; word[SLOT(at)] = WORD(LAP_OF(at), FULL);
		if
		:: is_sent[message[SLOT(at)]] -> is_done(message[SLOT(at)])
		:: else -> noted()
		fi;
		at = 0 }
	:: received == total && held[whose] == 0 -> break
	od
}

/* Marks the positions of this slot up to `position` as passed over. */
#define PASS(position) ((LAP_OF(position) + 1) << 1)

proctype sender(byte me; byte role; byte sent; byte most)
{
	byte position;
	byte seen;      /* its slot's word, as it was read, or its mark */
	byte at;        /* a position behind */
	byte other;     /* its slot's word */

	if
	:: atomic { role == STOPPED -> position = 1; goto hint }
	:: role != STOPPED
	fi;

	/* -- `push` -- */
again:	atomic {
		if
		:: sent == most -> goto out
		:: else -> LOCKED; position = tail; was_full[me] = NO_HOLE
		fi };

	/* -- `back` -- */
back:	atomic { seen = word[SLOT(position)];
		if
		:: IN(seen) == EMPTY && LAP(seen) <= LAP_OF(position)
		:: !(IN(seen) == EMPTY && LAP(seen) <= LAP_OF(position)) && LAP(seen) >= LAP_OF(position) -> goto onward
		:: !(IN(seen) == EMPTY && LAP(seen) <= LAP_OF(position)) && LAP(seen) < LAP_OF(position) -> goto behind
		fi };
#ifndef MISTAKE_CLAIMS_WHAT_WAS_PASSED
	atomic {
		if
		:: IS_PASSED(position) -> goto onward
		:: !IS_PASSED(position) && role == ALONE -> goto write
		:: else
		fi };
#endif
	/* `claim` */
	atomic {
		if
		:: word[SLOT(position)] == seen -> word[SLOT(position)] = WORD(LAP_OF(position), WRITING); noted()
		:: else -> goto back
		fi };
hint:	atomic { tail = NEXT(position);
		if
		:: role == STOPPED -> goto out
		:: else -> goto write
		fi };
onward:	atomic { position = MAX(NEXT(position), tail); goto back };
behind:	atomic {
		if
		:: IS_PASSED(position) -> goto onward
		:: else
		fi };
	/* `past_a_stopped_one` */
	atomic {
		if
		:: IN(seen) == FULL && (passed[SLOT(position)] >> 1) <= LAP(seen) -> goto no_hole
		:: else
		fi };
#ifdef MISTAKE_WAITS_FOR_A_SLOT
	goto no_hole;
#endif
	at = position;
further:
	atomic { at = NEXT(at);
		if
		:: at == position + slots -> goto same
		:: else -> other = word[SLOT(at)]
		fi;
		if
		:: IN(other) == EMPTY && LAP(other) <= LAP_OF(at)
		:: IN(other) == FULL && LAP(other) < LAP_OF(at) -> goto filled
		:: else -> goto further
		fi };
	atomic {
		if
		:: IS_PASSED(at) -> goto further
		:: else -> at = 0; other = 0; goto pass
		fi };
filled:	atomic {
		if
		:: (passed[SLOT(at)] >> 1) <= LAP(other) -> goto same
		:: else -> goto further
		fi };
same:	atomic { at = 0; other = 0;
		if
		:: word[SLOT(position)] != seen -> goto back
		:: else
		fi };
	atomic {
		if
		:: IS_PASSED(position) -> goto back
		:: else
		fi };
no_hole:
	atomic { assert(was_full[me]); seen = 0; position = 0 };
	atomic { !NO_HOLE -> goto again };

	/* -- `pass_over` -- */
pass:	atomic { seen = passed[SLOT(position)];
		if
		:: seen >= PASS(position) && !(seen & PENDING) -> seen = 0; position = NEXT(position); goto back
		:: seen >= PASS(position) && (seen & PENDING) -> goto heavy
		:: seen < PASS(position)
		fi };
	atomic {
#ifdef MISTAKE_GOOD_BEFORE_FENCE
		if
		:: passed[SLOT(position)] == seen -> seen = PASS(position); passed[SLOT(position)] = seen
		:: else -> goto pass
		fi };
#else
		if
		:: passed[SLOT(position)] == seen -> seen = PASS(position) | PENDING; passed[SLOT(position)] = seen
		:: else -> goto pass
		fi };
#endif
heavy:
#ifndef MISTAKE_NO_HEAVY_FENCE
	atomic { held[0] == 0 && held[1] == 0 };
#endif
	atomic {
		if
		:: passed[SLOT(position)] == seen -> passed[SLOT(position)] = seen & ~PENDING
		:: else
		fi;
		goto pass };

	/* -- `fill`, `commit`; `push_alone` -- */
write:	atomic { seen = 0; message[SLOT(position)] = (me << 2) + sent + 1 };
	atomic {
		if
		:: role == ALONE -> word[SLOT(position)] = WORD(LAP_OF(position), FULL); sent++; is_done((me << 2) + sent)
		:: role == SENDS -> held[me] = position + 1
		fi };
	atomic {
		if
		:: role == ALONE -> tail = NEXT(position); position = 0; goto again
#ifndef MISTAKE_COMMITS_BLINDLY
		:: role == SENDS && IS_PASSED(position) -> seen = passed[SLOT(position)] >> 1
#endif
		:: else -> sent++; is_done((me << 2) + sent); position = 0; goto again
		fi };
	/* `take_back` */
	atomic { LOCKED ->
		if
#ifdef MISTAKE_TAKEN_BACK_BY_STORE
		:: true -> word[SLOT(position)] = WORD(seen, EMPTY); noted()
#else
		:: word[SLOT(position)] == WORD(LAP_OF(position), FULL) -> word[SLOT(position)] = WORD(seen, EMPTY); noted()
		:: else -> sent++; is_done((me << 2) + sent)
#endif
		fi;
		seen = 0; position = 0; goto again };
out:	skip
}

proctype receiver(byte me; byte role)
{
	byte position;
	byte seen;      /* its slot's word, as it was read, or its mark */
	byte at;        /* a position behind */
	byte other;     /* its slot's word */
	byte copy;

	if
	:: atomic { role == HAS -> copy = message[0]; goto reads }
	:: role != HAS
	fi;

	/* -- `take`, `claim_message` -- */
again:	atomic { position = head; was_empty[me] = (there == 0) };

	/* -- `front` -- */
front:	atomic { seen = word[SLOT(position)];
		if
		:: seen == WORD(LAP_OF(position), FULL) && role == TAKES -> goto copies
		:: seen == WORD(LAP_OF(position), FULL) && role == READS -> goto claims
#ifdef MISTAKE_READING_HOLDS_UP
		:: LAP(seen) > LAP_OF(position) -> goto onward
		:: seen == WORD(LAP_OF(position), READING) -> goto nothing
#else
		:: LAP(seen) > LAP_OF(position) || seen == WORD(LAP_OF(position), READING) -> goto onward
#endif
		:: LAP(seen) < LAP_OF(position) || (LAP(seen) == LAP_OF(position) && (IN(seen) == EMPTY || IN(seen) == WRITING))
		fi };
	/* `past_an_unwritten_one` */
	atomic {
		if
		:: IS_PASSED(position) -> goto pass
		:: !IS_PASSED(position) && seen != WORD(LAP_OF(position), WRITING) -> goto nothing
		:: !IS_PASSED(position) && seen == WORD(LAP_OF(position), WRITING)
		fi };
#ifdef MISTAKE_WAITS_FOR_A_SENDER
	goto nothing;
#endif
	at = position;
further:
	atomic { at = NEXT(at);
		if
		:: at == position + slots -> goto same
		:: else -> other = word[SLOT(at)]
		fi;
		if
		:: other == WORD(LAP_OF(at), FULL) -> at = 0; other = 0; goto pass
		:: IN(other) == EMPTY && LAP(other) <= LAP_OF(at)
		:: else -> goto further
		fi };
	atomic {
		if
		:: IS_PASSED(at) -> goto further
		:: else
		fi };
same:
#ifdef MISTAKE_NOTHING_TOO_SOON
	goto nothing;
#endif
	atomic { at = 0; other = 0;
		if
		:: word[SLOT(position)] != seen -> goto front
		:: else
		fi };
	atomic {
		if
		:: IS_PASSED(position) -> goto front
		:: else
		fi };
nothing:
	atomic { assert(was_empty[me]); seen = 0; position = 0; at = 0; other = 0 };
	atomic {
		if
		:: there -> goto again
		:: received == total -> goto out
		fi };
onward:	atomic { position = MAX(NEXT(position), head); goto front };

	/* -- `pass_over`, and one more look -- */
pass:	atomic { seen = passed[SLOT(position)];
		if
		:: seen >= PASS(position) && !(seen & PENDING) -> goto passed_over
		:: seen >= PASS(position) && (seen & PENDING) -> goto heavy
		:: seen < PASS(position)
		fi };
	atomic {
#ifdef MISTAKE_GOOD_BEFORE_FENCE
		if
		:: passed[SLOT(position)] == seen -> seen = PASS(position); passed[SLOT(position)] = seen
		:: else -> goto pass
		fi };
#else
		if
		:: passed[SLOT(position)] == seen -> seen = PASS(position) | PENDING; passed[SLOT(position)] = seen
		:: else -> goto pass
		fi };
#endif
heavy:
#ifndef MISTAKE_NO_HEAVY_FENCE
	atomic { held[0] == 0 && held[1] == 0 };
#endif
	atomic {
		if
		:: passed[SLOT(position)] == seen -> passed[SLOT(position)] = seen & ~PENDING
		:: else
		fi;
		goto pass };
passed_over:
#ifdef MISTAKE_WALKS_PAST_A_MESSAGE
	goto onward;
#endif
	atomic {
		if
		:: word[SLOT(position)] == WORD(LAP_OF(position), FULL) -> goto front
		:: else -> goto onward
		fi };

	/* -- `take`: the copy counts only if the swap succeeds -- */
copies:	atomic { copy = message[SLOT(position)] };
	atomic {
		if
#ifdef MISTAKE_TAKEN_BY_STORE
		:: true -> word[SLOT(position)] = WORD(LAP_OF(position) + 1, EMPTY); gets(copy); noted()
#else
#ifdef MISTAKE_COPIES_LATE
		:: word[SLOT(position)] == seen -> copy = message[SLOT(position)]; word[SLOT(position)] = WORD(LAP_OF(position) + 1, EMPTY); gets(copy); noted()
#else
		:: word[SLOT(position)] == seen -> word[SLOT(position)] = WORD(LAP_OF(position) + 1, EMPTY); gets(copy); noted()
#endif
		:: else -> copy = 0; goto front
#endif
		fi };
#ifdef MISTAKE_COPIES_LATE
	atomic { assert(message[SLOT(position)] == copy) };
#endif
	atomic { head = NEXT(position); seen = 0; position = 0; copy = 0; goto again };

	/* -- `claim_message`, and `read`: the message is chosen before it is copied -- */
claims:	atomic {
		if
		:: word[SLOT(position)] == seen -> word[SLOT(position)] = WORD(LAP_OF(position), READING); copy = message[SLOT(position)]; gets(copy); noted()
		:: else -> goto front
		fi };
	atomic { head = NEXT(position); seen = 0 };
reads:	atomic { assert(message[SLOT(position)] == copy) };
	atomic { word[SLOT(position)] = WORD(LAP_OF(position) + 1, EMPTY); noted(); position = 0; copy = 0;
		if
		:: role == READS -> goto again
		:: role == HAS
		fi };
out:	skip
}

init {
	atomic {
		run drains(0); run drains(1);
		if
		:: SCENE(1) -> total = 2; run sender(0, SENDS, 0, 1); run sender(1, SENDS, 0, 1); run receiver(0, TAKES)
		:: SCENE(2) -> total = 2; run sender(0, SENDS, 0, 1); run sender(1, SENDS, 0, 1); run receiver(0, TAKES); run receiver(1, TAKES)
		:: SCENE(3) -> total = 3; run sender(0, SENDS, 0, 2); run sender(1, SENDS, 0, 1); run receiver(0, TAKES)
		:: SCENE(4) -> total = 3; run sender(0, SENDS, 0, 3); run receiver(0, READS); run receiver(1, TAKES)
		:: SCENE(5) -> total = 3; run sender(0, ALONE, 0, 3); run receiver(0, TAKES); run receiver(1, TAKES)
		:: SCENE(6) -> slots = 3; total = 3; tail = 3; head = 3;
			word[0] = WORD(0, READING); message[0] = 5; is_sent[5] = 1; is_received[5] = 1; last[1] = 5; received = 1;
			word[1] = WORD(0, WRITING); passed[1] = 1 << 1; word[2] = WORD(1, EMPTY);
			run sender(0, SENDS, 0, 2); run sender(1, STOPPED, 1, 1); run receiver(0, HAS); run receiver(1, TAKES)
		fi
	}
}
