/*
 * The line: a ring of one sender and one receiver with plain stores, and how its two ends sleep.
 *
 * Source: crates/structures/src/ring/spsc.rs (below: line), crates/wait/src/end.rs (end), the line's share of tube/body.rs,
 * tube/single.rs and tube/wait.rs, and the two fences of crates/plat/src/real/fence.rs. Waiting is that of crates/wait/src/wait.rs.
 *
 * Stores are delayed as on x86: each thread has a buffer, first in, first out, that drains at any time; a locked operation waits
 * until its own is empty. So a look may overtake the stores before it. The messages and the two indices are stored plainly; all
 * else is locked.
 *
 *   index[end]    head: what was received; tail: what was sent (memory's)
 *   waiting[end]  the end's word: how many wait, and GONE and EVENT beside it
 *   word[member]  phase:2 | what was told:2 | number of the wait:4
 *
 * Checked:
 *   line I1, I2   messages are received in the order in which they were sent, none twice, none torn: asserted at each.
 *   end I1        a waiter finds the message, or is told; the last message too: Spin's invalid end states.
 *   end I3        each wait is counted off once; a waiter told by recovery, which knows no end (STIR), counts itself off: asserted.
 *   end I4        nobody sleeps at an end whose other end has gone: invalid end states. What was sent before is received: asserted.
 *   wait.rs R2    a wake against a time-out; the number of the wait: a late wake is not for the next one.
 *   fence         both ways: the kernel's fence for all threads, or a full one in each; and where the kernel has come to
 *                 refuse it, a waiter looks again by itself.
 *   count         never less than none: asserted.
 *
 * Processes: one sends, one receives, the two buffers, and recovery that has all look again. In one scene a descriptor is
 * watched instead.
 * Kills: none. A line is of one process, and its threads die together.
 *
 * Left out: looking for a while before one sleeps; a thread that only looks (rendezvous.pml); a choice (choice.pml); many waiters, and passing on
 * what one does not use (`pass_on_hole`, `pass_on_message`: at each end of a line there is one); wrap-around of the index. A machine
 * that delays more than stores: loom's scenes. See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_NO_HEAVY_FENCE      a waiter drains no buffer but its own (end I1). Found: invalid end state
 *   MISTAKE_NO_LIGHT_FENCE      the frequent side has no fence where there is no heavy one either. Found: invalid end state
 *   MISTAKE_NO_SECOND_LOOK      a waiter does not look again (end I1). Found: invalid end state
 *   MISTAKE_FLAG_AFTER_LOOK     a waiter is counted and has its bit after it has looked (end I1). Found: invalid end state
 *   MISTAKE_COUNTED_LATE        a waiter is counted after its bit was set (end I3). Found: assertion
 *   MISTAKE_STIRRED_UNCOUNTED   a waiter that was stirred is not counted off (end I3). Found: assertion
 *   MISTAKE_GONE_AFTER_TELLING  an end goes after it has told those at the other one (end I4). Found: invalid end state
 *   MISTAKE_LAST_UNSEEN         a receiver that finds the senders gone does not look once more. Found: assertion
 *   MISTAKE_INDEX_FIRST         the tail is stored before the message (line I2). Found: assertion
 *   MISTAKE_HEAD_FIRST          the head is stored before the message is copied (line I2). Found: assertion
 */

/* -DONLY=n: that scene alone. */
#ifndef ONLY
#define ONLY 0
#endif
#define SCENE(n) (ONLY == 0 || ONLY == n)

#define RECEIVER 0
#define SENDER 1
#define RECOVERY 2
#define ALL 9           /* receives until the end */

#define IDLE 0
#define WAITING 1
#define ASLEEP 2
#define GRANTED 3
#define STIR 4          /* else NUDGE */
#define WOKEN 8
#define PHASE(w) ((w) & 3)
#define WAIT(w) ((w) >> 4)
#define STATE(phase, n) ((phase) | ((n) << 4))
#define IS_WAITING(w) (PHASE(w) == WAITING || PHASE(w) == ASLEEP)

/* Where a store goes, if not to a slot. */
#define INDEX 2

byte slots = 1;
byte slot[2];
byte index[2];
byte word[2];
bool stands[2];
byte waiting[2];
bool gone[2];
bool in_futex[2];
bool both;              /* the kernel has no fence for all threads: both sides have their own */
bool refused;           /* it has one, and refuses it now */
bool watched;           /* the receiver has a descriptor */
bool armed;             /* EVENT */
bool readable;
byte running;
byte sent;              /* for the assertions alone */

chan buffer[3] = [4] of { byte, byte };

#define LOCKED (len(buffer[me]) == 0)
#define OTHER (1 - me)
#define THERE (me == RECEIVER -> at != seen : at - seen < slots)

/* What is stored gets to memory. */
proctype drains(byte whose)
{
	byte at, what;

	do
	:: atomic { buffer[whose]?at,what;
		if
		:: at == INDEX -> index[whose] = what
		:: else -> slot[at] = what
		fi;
		at = 0; what = 0 }
	:: running == 0 && len(buffer[whose]) == 0 -> break
	od
}

/* The teller goes on. */
inline told() {
	its = 0;
	if
	:: me == RECOVERY && to == RECEIVER -> to = SENDER; goto each
	:: me == RECOVERY && to == SENDER -> goto out
	:: me != RECOVERY && leaves -> goto left
	:: me != RECOVERY && !leaves -> goto next
	fi
}

proctype party(byte me; byte most; bool goes; bool timed)
{
	byte at;        /* line `own`: how many it has sent, or received */
	byte seen;      /* line `seen`: the other's index */
	byte to;        /* the party that is told */
	byte its;       /* and its word, as it was read */
	bool leaves;

	if
	:: me == RECOVERY -> goto each
	:: else -> to = OTHER
	fi;

	/* -- body.rs `try_send_alone`, `try_recv_alone`; `attempt` comes to the same -- */
again:	atomic {
		if
		:: me == SENDER && gone[OTHER] -> goto ever
		:: else
		fi };
	/* line `has_hole`, `has_message` */
	atomic { seen = (THERE -> seen : index[OTHER]);
		if
		:: THERE -> goto move
		:: else
		fi };
	atomic {
		if
		:: !gone[OTHER] && watched && me == RECEIVER -> goto arm
		:: !gone[OTHER] && !(watched && me == RECEIVER) -> goto wait
		:: gone[OTHER] && me == SENDER -> goto ever
		:: gone[OTHER] && me == RECEIVER
		fi };
	/* `try_recv_last` */
#ifndef MISTAKE_LAST_UNSEEN
	atomic { seen = index[OTHER];
		if
		:: THERE
		:: else -> goto ever
		fi };
#else
	goto ever;
#endif

	/* -- line `put`, `get`, `go_on` -- */
move:	if
#ifdef MISTAKE_INDEX_FIRST
	:: atomic { me == SENDER -> buffer[me]!INDEX,(at + 1) };
		atomic { buffer[me]!(at % slots),(at + 1); at++; sent = at; goto announce }
#endif
#ifdef MISTAKE_HEAD_FIRST
	:: atomic { me == RECEIVER -> buffer[me]!INDEX,(at + 1) };
		atomic { assert(slot[at % slots] == at + 1); at++; goto announce }
#endif
	:: atomic { me == SENDER -> buffer[me]!(at % slots),(at + 1) }
	:: atomic { me == RECEIVER -> assert(slot[at % slots] == at + 1) }
	fi;
	atomic { buffer[me]!INDEX,(at + 1); at++; sent = (me == SENDER -> at : sent) };

	/* -- end `announce`, `is_awaited`: fence.rs `light`, and the look -- */
announce:
#ifdef MISTAKE_NO_LIGHT_FENCE
	atomic { true ->
#else
	atomic { !both || LOCKED ->
#endif
		if
		:: waiting[OTHER] || (me == SENDER && armed) -> goto signal
		:: else
		fi };
next:	if
	:: at < most -> goto again
	:: at >= most && goes -> goto leave
	:: at >= most && !goes -> goto out
	fi;

	/* -- the other end has gone -- */
ever:	atomic { assert(me == SENDER || at == sent) };
	/* -- single.rs `drop`, end `leave` -- */
leave:	atomic { leaves = 1;
#ifdef MISTAKE_GONE_AFTER_TELLING
		goto signal
#endif
		};
	atomic { LOCKED -> gone[me] = 1 };

	/* -- end `tell_one`, `tell_all`, `signal`; of recovery `stir` -- */
signal:	atomic {
		if
		:: me == SENDER && watched -> LOCKED;
			if
			:: armed -> armed = 0
			:: else -> goto each
			fi
		:: else -> goto each
		fi };
	readable = 1;
	/* wait/line.rs `each` */
each:	atomic {
		if
		:: me == RECOVERY || waiting[to]
		:: else -> told()
		fi };
	atomic {
		if
		:: stands[to]
		:: else -> told()
		fi };
	atomic { its = word[to];
		if
		:: PHASE(its) != IDLE
		:: else -> told()
		fi };
	atomic {
		if
		:: stands[to] && IS_WAITING(its)
		:: stands[to] && !IS_WAITING(its) && !(its & WOKEN) -> goto wake /* `make_up` */
		:: stands[to] && !IS_WAITING(its) && (its & WOKEN) -> told()
		:: !stands[to] -> told()
		fi };
	/* wait/word.rs `tell`, `decide`: from the word that was seen, or from ASLEEP in the same wait */
	atomic { LOCKED ->
		if
		:: word[to] == its || (PHASE(its) == WAITING && word[to] == STATE(ASLEEP, WAIT(its))) ->
			its = STATE(GRANTED | (me == RECOVERY -> STIR : 0) | (PHASE(word[to]) == ASLEEP -> 0 : WOKEN), WAIT(its));
			word[to] = its;
			if
			:: !(its & WOKEN)
			:: (its & WOKEN) && me == RECOVERY -> told()
			:: (its & WOKEN) && me != RECOVERY -> its = 0; goto count_off
			fi
		/* `tell_one`: somebody else was faster, or it gave up: once more; `tell_all`: the same, here */
		:: else -> its = 0; goto each
		fi };
	in_futex[to] = 0;
	/* wait.rs `woken` */
	atomic { LOCKED ->
		if
		:: word[to] == its -> word[to] = its | WOKEN
		:: else
		fi;
		its = 0;
		if
		:: me == RECOVERY -> told()
		:: else
		fi };
count_off:
	atomic { LOCKED -> assert(waiting[to] > 0); waiting[to]--; told() };
	/* wait/word.rs `wake_told` */
wake:	in_futex[to] = 0;
	atomic { LOCKED ->
		if
		:: word[to] == its -> word[to] = its | WOKEN
		:: else
		fi;
		told() };

	/* -- wait.rs `begin` -- */
wait:	atomic { LOCKED -> assert(WAIT(word[me]) < 15); word[me] = STATE(WAITING, WAIT(word[me]) + 1)
#ifdef MISTAKE_FLAG_AFTER_LOOK
		; goto heavy
#endif
#ifdef MISTAKE_COUNTED_LATE
		; goto set_bit
#endif
		};
	/* end `enlists` */
count:	atomic { LOCKED -> waiting[me]++
#ifdef MISTAKE_COUNTED_LATE
		; goto fourth
#endif
		};
set_bit:
	atomic { LOCKED -> stands[me] = 1
#ifdef MISTAKE_FLAG_AFTER_LOOK
		; goto rest
#endif
#ifdef MISTAKE_COUNTED_LATE
		; goto count
#endif
		};
	/* wait.rs R4 */
fourth:	atomic {
		if
		:: PHASE(word[me]) == GRANTED -> goto waited
		:: else
		fi
#ifdef MISTAKE_NO_SECOND_LOOK
		; goto rest
#endif
		};
	/* -- wait.rs `look`: fence.rs `try_heavy`, then body.rs `may_recv`, `may_send` -- */
heavy:
#ifdef MISTAKE_NO_HEAVY_FENCE
	atomic { LOCKED };
#else
	atomic { LOCKED && (both || refused || len(buffer[OTHER]) == 0) };
#endif
	atomic {
		if
		:: me == RECEIVER && gone[OTHER] -> goto stirs
		:: me == RECEIVER && !gone[OTHER]
		:: me == SENDER -> seen = index[OTHER];
			if
			:: THERE -> goto stirs
			:: else
			fi
		fi };
	atomic {
		if
		:: me == SENDER && !gone[OTHER] -> goto unready
		:: me == SENDER && gone[OTHER]
		:: me == RECEIVER -> seen = index[OTHER];
			if
			:: THERE
			:: else -> goto unready
			fi
		fi };
stirs:	atomic { LOCKED ->
		if
		:: PHASE(word[me]) == WAITING -> word[me] = STATE(GRANTED | STIR | WOKEN, WAIT(word[me]))
		:: else
		fi };
unready:
#ifdef MISTAKE_FLAG_AFTER_LOOK
	goto count;
#endif

	/* -- wait/rest.rs `rest` -- */
rest:	atomic { LOCKED ->
		if
		:: PHASE(word[me]) == WAITING -> word[me] = STATE(ASLEEP, WAIT(word[me]))
		:: else -> goto waited
		fi };
sleep:	atomic {
		if
		:: PHASE(word[me]) == ASLEEP -> in_futex[me] = 1
		:: else -> goto waited
		fi };
	if
	:: atomic { !in_futex[me] -> goto sleep }
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0 }
	/* without the fence: a millisecond; that finds something, or changes nothing */
	:: atomic { timeout && in_futex[me] && refused && (me == RECEIVER -> at != index[OTHER] : at - index[OTHER] < slots) -> in_futex[me] = 0 }
	fi;

	/* -- wait.rs `end`, `finish`; end `left` -- */
waited:	atomic { LOCKED -> timed = 0;
		if
		:: PHASE(word[me]) == GRANTED
		:: else -> word[me] = STATE(IDLE, WAIT(word[me]))
		fi };
	atomic {
		if
		:: PHASE(word[me]) == GRANTED && !(word[me] & STIR) -> goto finish
#ifdef MISTAKE_STIRRED_UNCOUNTED
		:: PHASE(word[me]) == GRANTED && (word[me] & STIR) -> goto finish
#endif
		:: else -> assert(waiting[me] > 0); waiting[me]--
		fi };
finish:	word[me] = STATE(IDLE, WAIT(word[me]));
	atomic { stands[me] = 0; goto again };

	/* -- single.rs `rearm`: end `arm`, the look, `signal` -- */
arm:	readable = 0;
	atomic { LOCKED -> armed = 1 };
	atomic { LOCKED && (both || len(buffer[OTHER]) == 0) };
	atomic { seen = index[OTHER];
		if
		:: THERE
		:: else -> goto poll
		fi };
	atomic {
		if
		:: armed -> armed = 0
		:: else -> goto poll
		fi };
	readable = 1;
poll:	atomic { readable -> goto again };

left:
#ifdef MISTAKE_GONE_AFTER_TELLING
	gone[me] = 1;
#endif
out:	atomic { at = 0; seen = 0; to = 0; leaves = 0; running--;
		/* end I3 */
		assert(running || (waiting[RECEIVER] == 0 && waiting[SENDER] == 0 && !stands[RECEIVER] && !stands[SENDER])) }
}

/* line `count`, by anybody. */
proctype counts()
{
	byte head;

	head = index[RECEIVER];
	atomic { assert(index[SENDER] >= head); head = 0 }
}

init {
	atomic {
		if
		:: both = 1
		:: true
		fi;
		running = 2;
		run drains(RECEIVER); run drains(SENDER);
		if
		:: SCENE(1) -> run party(RECEIVER, 3, 0, 0); run party(SENDER, 3, 0, 0)
		:: SCENE(2) -> slots = 2; run party(RECEIVER, ALL, 0, 0); run party(SENDER, 3, 1, 0); run counts()
		:: SCENE(3) -> run party(RECEIVER, 1, 1, 0); run party(SENDER, 3, 0, 0)
		:: SCENE(4) -> running = 3; run party(RECEIVER, 2, 0, 1); run party(SENDER, 2, 0, 1); run party(RECOVERY, 0, 0, 0)
		:: SCENE(5) -> both = 0; refused = 1; run party(RECEIVER, 2, 0, 0); run party(SENDER, 2, 0, 0)
		:: SCENE(6) -> watched = 1; run party(RECEIVER, 2, 0, 0); run party(SENDER, 2, 0, 0)
		fi
	}
}
