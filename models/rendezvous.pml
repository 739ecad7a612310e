/*
 * A tube without slots: a message goes from its sender to its receiver when both are there.
 *
 * Source: crates/tube/src/rendezvous.rs (below: meet), and its share of tube/body.rs, tube/end.rs and claim.rs. Waiting and telling are
 * those of wait.rs.
 *
 *   state     phase:2 | MET, else told to try | which end:1 | number of the wait    (`State`: a member's wait word)
 *   bits[e]   members that stand at end e: 0 for senders, 1 for receivers
 *   packet    OPEN, AWAITED, OFFERED or DONE
 *
 * Checked:
 *   meet I1      a packet that somebody acts on is that of a party that waits for it: asserted. So is that it is still there.
 *   meet I2, I4  nobody sleeps for good while somebody waits at the other end: Spin's invalid end states.
 *   meet I3      a message has one receiver, and a receiver one message: asserted.
 *   wait.rs R2   a meeting and a time-out.
 *   looking      a party that only looks (a looker) is met by nobody: asserted; it is told when there is somebody: invalid end states.
 *
 * Scenes, one after the other: a sender and a receiver that say where the message is, or is to go; two senders that sleep, and two
 * receivers; the same, when these have looked already; two choices that say so later; a choice that would send or receive, a sender
 * and a receiver; two senders and a receiver, one of these may time out; a sender and a looker; the same, and a receiver.
 * Kills: none. A tube without slots is of one process, and its threads die together.
 *
 * Left out: fences, the count of the waiters, and an end that goes (spsc.pml); looking for a while before one sleeps; a choice with
 * other objects (choice.pml). See also the README of the models.
 *
 * Mistakes:
 *   MISTAKE_NO_SECOND_LOOK  a waiter does not look at the other end again (meet I2). Found: invalid end state
 *   MISTAKE_BOTH_WAIT       the later of two tells nobody, and waits as well (meet I2). Found: invalid end state
 *   MISTAKE_FIRST_ONLY      a new waiter tells the first, and no other one if that has met somebody. Found: invalid end state
 *   MISTAKE_NO_REMATCH      a party that was told to act, and has met another, tells nobody else (meet I4). Found: invalid end state
 *   MISTAKE_ITSELF          a party that waits at both ends finds itself. Found: assertion
 *   MISTAKE_LOOKER_MET      a looker is met. Found: assertion
 *   MISTAKE_LOOKERS_UNTOLD  a new waiter does not tell the lookers. Found: invalid end state
 *   MISTAKE_MET_BY_STORE    the actor stores MET instead of swapping the word (meet I3). Found: assertion
 *   MISTAKE_GOES_AT_ONCE    a waiter that was met does not wait for the last word in its packet. Found: assertion
 *   MISTAKE_UNHEARD         the actor says the last word, and does not look whether somebody sleeps. Found: invalid end state
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
#define MET 4
#define PHASE(s) ((s) & 3)
#define AT(s) (((s) >> 3) & 1)
#define WAIT(s) ((s) >> 4)
#define STATE(phase, n) ((phase) | ((n) << 4))
#define IS_WAITING(s) (PHASE(s) == WAITING || PHASE(s) == ASLEEP)

#define OPEN 0
#define AWAITED 1
#define OFFERED 2
#define DONE 3

#define SENDERS 0
#define RECEIVERS 1
#define NOBODY 7

byte state[4];
byte bits[2];
byte tickets;
byte ticket[4];
bool in_futex[4];
bool looks[4];          /* need is 0 */
bool begins[4];         /* it has looked in vain, and is about to wait */
byte packet[4];
bool knows[4];          /* it has said where */
byte other[4];          /* the actor's packet */
bool in_packet[4];      /* sleeps until something is said in its packet */

/* For the assertions alone: whether its packet is there; the sender, + 1, of the message that it has; whether its own is gone. */
bool is_there[4];
byte has[4];
bool given[4];

/* A message goes from one to the other. */
inline hands(from, to) {
	assert(is_there[from] && is_there[to] && !given[from] && has[to] == 0); given[from] = 1; has[to] = from + 1
}

/* -- end.rs `first_but` is done: it is `first`, and its state `best`. -- */
inline found() {
	its = 0;
	if
	:: look -> goto each
	:: !look && asks == 1 -> asks = 0; goto meet
	:: !look && asks == 2 -> asks = 0; goto looked
	:: !look && asks == 3 -> asks = 0; goto first_sender
	:: !look && asks == 4 -> asks = 0; goto its_receiver
	:: !look && asks == 5 -> asks = 0; goto any_receiver
	:: !look && asks == 6 -> asks = 0; goto its_sender
	:: !look && asks == 7 -> asks = 0; goto lookers_told
	fi
}

/* wait/word.rs `tell`, `decide`: from the state that was seen, or from ASLEEP in the same wait. A sleeper is woken in the next step. */
#define STILL(m, seen) (state[m] == seen || (PHASE(seen) == WAITING && state[m] == STATE(ASLEEP, WAIT(seen))))

inline decides(m, what) {
	wakes = PHASE(state[m]) == ASLEEP; state[m] = GRANTED | (what) | (end << 3) | (WAIT(state[m]) << 4)
}

proctype party(byte me; byte ends; bool timed)
{
	byte at_end;         /* of which of its arms it is about */
	byte end;            /* whose members it looks at */
	byte its, best, first, but;
	byte look, at;
	byte asks;           /* the caller of `first_but` */
	byte s, s_state;     /* rematch: the sender */
	byte with;           /* the party that it has met */
	bool wakes, told, came;

	if
	:: atomic { PHASE(state[me]) != IDLE -> came = 1; goto sleep }
	:: atomic { begins[me] -> begins[me] = 0; goto begin }
	:: atomic { PHASE(state[me]) == IDLE && !begins[me] }
	fi;

	/* -- body.rs `attempt`: of each arm, rendezvous.rs `meet` -- */
attempt:
	if
	:: atomic { ends & (1 << at_end) -> end = 1 - at_end; but = me; look = bits[end]; first = NOBODY; asks = 1; found() }
	:: atomic { !(ends & (1 << at_end)) -> goto next_arm }
	fi;
meet:	atomic {
		if
		:: first == NOBODY -> first = 0; goto next_arm
		:: first != NOBODY && looks[me] -> first = 0; best = 0; goto out
		:: first != NOBODY && !looks[me]
		fi };
	atomic {
#ifdef MISTAKE_MET_BY_STORE
		if
		:: true -> decides(first, MET)
#else
		if
		:: STILL(first, best) -> decides(first, MET)
		:: else -> first = 0; best = 0; goto attempt
#endif
		fi;
		with = first; first = 0; best = 0 };
	atomic { in_futex[with] = in_futex[with] && !wakes; wakes = 0; is_there[me] = 1; goto act };
next_arm:
	atomic { at_end++;
		if
		:: at_end < 2 -> goto attempt
		:: else -> at_end = 0; told = 0
		fi };

	/* -- wait.rs `begin` -- */
begin:	atomic {
		if
		:: !came -> ticket[me] = tickets; tickets++; came = 1
		:: came
		fi;
		packet[me] = OPEN; is_there[me] = 1; assert(WAIT(state[me]) < 15); state[me] = STATE(WAITING, WAIT(state[me]) + 1) };
enlist:	if
	:: atomic { ends & 1 -> bits[SENDERS] = bits[SENDERS] | (1 << me) }
	:: atomic { !(ends & 1) }
	fi;
	if
	:: atomic { ends & 2 -> bits[RECEIVERS] = bits[RECEIVERS] | (1 << me) }
	:: atomic { !(ends & 2) }
	fi;
	/* wait.rs R4 */
	atomic {
		if
		:: PHASE(state[me]) == GRANTED -> goto waited
		:: else
		fi };
#ifdef MISTAKE_NO_SECOND_LOOK
	goto rest;
#endif

	/* -- wait.rs `look`: of each arm, rendezvous.rs `look` -- */
arm:	if
	:: atomic { !(ends & (1 << at_end)) -> goto look_on }
	:: atomic { (ends & (1 << at_end)) -> end = 1 - at_end;
		if
		:: looks[me] -> goto look_again
		:: else
		fi;
#ifdef MISTAKE_LOOKERS_UNTOLD
		goto look_again;
#endif
		look = bits[end]; first = NOBODY; but = NOBODY; asks = 7; found() }
	fi;
	/* `tell_lookers`: there is one at most */
lookers_told:
	atomic {
		if
		:: first == NOBODY -> first = 0; goto look_again
		:: first != NOBODY && STILL(first, best) -> decides(first, 0)
		:: else -> first = 0; best = 0; goto look_again
		fi };
	atomic { in_futex[first] = in_futex[first] && !wakes; wakes = 0; first = 0; best = 0 };
look_again:
#ifdef MISTAKE_ITSELF
	atomic { look = bits[end]; first = NOBODY; but = NOBODY; asks = 2; found() };
#else
	atomic { look = bits[end]; first = NOBODY; but = me; asks = 2; found() };
#endif
looked:	atomic {
		if
		:: first == NOBODY -> first = 0; goto look_on
		:: first != NOBODY && looks[me] -> first = 0; best = 0; goto stir
		:: first != NOBODY && !looks[me]
		fi;
		assert(first != me);
		if
		:: ticket[first] > ticket[me] -> first = 0; best = 0; goto stir
		:: else
		fi;
#ifdef MISTAKE_BOTH_WAIT
		first = 0; best = 0; goto look_on
#endif
		};
	atomic {
		if
		:: STILL(first, best) -> decides(first, 0)
#ifdef MISTAKE_FIRST_ONLY
		:: else -> first = 0; best = 0; goto look_on
#else
		:: else -> first = 0; best = 0; goto look_again
#endif
		fi };
	atomic { in_futex[first] = in_futex[first] && !wakes; wakes = 0; first = 0; best = 0 };
look_on:
	atomic { at_end++;
		if
		:: at_end < 2 -> goto arm
		:: else -> at_end = 0; goto rest
		fi };
stir:	atomic { at_end = 0;
		if
		:: PHASE(state[me]) == WAITING -> state[me] = GRANTED | (WAIT(state[me]) << 4)
		:: else
		fi };

	/* -- wait/rest.rs `rest` -- */
rest:	atomic {
		if
		:: PHASE(state[me]) == WAITING -> state[me] = STATE(ASLEEP, WAIT(state[me]))
		:: else -> goto waited
		fi };
sleep:	atomic {
		if
		:: PHASE(state[me]) == ASLEEP -> in_futex[me] = 1
		:: else -> goto waited
		fi };
end_asleep:
	if
	:: atomic { !in_futex[me] -> goto sleep }
	:: atomic { in_futex[me] && timed -> in_futex[me] = 0 }
	fi;

	/* -- wait.rs `end`, `finish` -- */
waited:	atomic {
		if
		:: PHASE(state[me]) == GRANTED && (state[me] & MET) -> with = me; at_end = AT(state[me])
		:: PHASE(state[me]) == GRANTED && !(state[me] & MET) -> told = 1
		:: else -> state[me] = STATE(IDLE, WAIT(state[me])); ends = 0
		fi };
	atomic { assert(!(looks[me] && with == me && (state[me] & MET))); state[me] = STATE(IDLE, WAIT(state[me])) };
	bits[SENDERS] = bits[SENDERS] & ~(1 << me);
	atomic { bits[RECEIVERS] = bits[RECEIVERS] & ~(1 << me);
		if
		:: with == me && !(told || ends == 0) && knows[me] -> goto hear
		:: with == me && !(told || ends == 0) && !knows[me] -> goto hear
		:: ends == 0 -> is_there[me] = 0; goto out
		:: told && ends -> is_there[me] = 0; with = 0; goto attempt
		fi };

	/* -- rendezvous.rs `hear`, of the thread that was met, and of the thread that has acted and waits for the answer -- */
hear:
#ifdef MISTAKE_GOES_AT_ONCE
	if
	:: atomic { with == me && knows[me] -> goto done }
	:: with != me || !knows[me]
	fi;
#endif
	atomic {
		if
		:: packet[me] == OPEN -> packet[me] = AWAITED
		:: else
		fi };
hears:	if
	:: atomic { packet[me] == AWAITED -> in_packet[me] = 1 }
	:: atomic { packet[me] != AWAITED -> goto heard }
	fi;
	atomic { !in_packet[me] -> goto hears };
heard:	if
	:: atomic { with == me && packet[me] == OFFERED -> goto answer }
	:: atomic { packet[me] == DONE -> goto done }
	fi;

	/* -- rendezvous.rs `act` -- */
act:	if
	:: atomic { knows[with] -> assert(is_there[with]);
		if
		:: at_end == SENDERS -> hands(me, with)
		:: at_end == RECEIVERS -> hands(with, me)
		fi };
		/* `say` */
		atomic { assert(is_there[with]); wakes = (packet[with] == AWAITED); packet[with] = DONE };
#ifndef MISTAKE_UNHEARD
		atomic { in_packet[with] = in_packet[with] && !wakes };
#endif
		atomic { wakes = 0; goto done }
	:: atomic { !knows[with] -> packet[me] = OPEN; assert(is_there[with]); other[with] = me };
		atomic { assert(is_there[with]); wakes = (packet[with] == AWAITED); packet[with] = OFFERED };
		atomic { in_packet[with] = in_packet[with] && !wakes; wakes = 0; goto hear }
	fi;
	/* -- `answer` -- */
answer:	atomic { with = other[me];
		if
		:: at_end == SENDERS -> hands(me, with)
		:: at_end == RECEIVERS -> hands(with, me)
		fi };
	atomic { assert(is_there[with]); wakes = (packet[with] == AWAITED); packet[with] = DONE };
	atomic { in_packet[with] = in_packet[with] && !wakes; wakes = 0 };
done:	atomic { is_there[me] = 0; with = 0; at_end = 0; assert(has[me] || given[me]);
#ifdef MISTAKE_NO_REMATCH
		told = 0;
#endif
		if
		:: told -> goto rematch
		:: else -> goto out
		fi };

	/* -- `rematch` -- */
rematch:
	atomic { end = SENDERS; look = bits[end]; first = NOBODY; but = NOBODY; asks = 3; found() };
first_sender:
	atomic { s = first; s_state = best; best = 0; but = s;
		if
		:: s == NOBODY -> goto out
		:: else -> end = RECEIVERS; look = bits[end]; first = NOBODY; asks = 4; found()
		fi };
its_receiver:
	atomic {
		if
		:: first != NOBODY -> goto pair
		:: else -> look = bits[end]; but = NOBODY; asks = 5; found()
		fi };
any_receiver:
	atomic {
		if
		:: first == NOBODY -> goto out
		:: else -> s = first; s_state = best; best = 0; but = first; end = SENDERS; look = bits[end]; first = NOBODY; asks = 6; found()
		fi };
	/* here `s` is the receiver */
its_sender:
	atomic {
		if
		:: first == NOBODY -> goto out
		:: else
		fi };
pair:	atomic {
		if
		:: ticket[s] < ticket[first] -> first = s; best = s_state; end = 1 - end
		:: else
		fi };
	atomic { s = 0; s_state = 0;
		if
		:: STILL(first, best) -> decides(first, 0)
		:: else -> first = 0; best = 0; goto rematch
		fi };
	atomic { in_futex[first] = in_futex[first] && !wakes; goto out };

	/* -- wait/line.rs `each`: of the members in `look`, at the end `end` -- */
each:	atomic { at = ((look & 1) -> 0 : ((look & 2) -> 1 : ((look & 4) -> 2 : 3))); look = look & ~(1 << at); its = state[at];
		if
		:: IS_WAITING(its)
		:: else -> at = 0; found()
		fi };
	atomic {
		if
#ifdef MISTAKE_LOOKER_MET
		:: (bits[end] & (1 << at)) && at != but && (first == NOBODY || ticket[at] < ticket[first]) && (asks != 7 || looks[at]) -> first = at; best = its
#else
		:: (bits[end] & (1 << at)) && at != but && (first == NOBODY || ticket[at] < ticket[first]) && looks[at] == (asks == 7) -> first = at; best = its
#endif
		:: else
		fi;
		at = 0; found() };

out:	atomic { at_end = 0; end = 0; its = 0; best = 0; first = 0; but = 0; look = 0; at = 0; asks = 0; s = 0; s_state = 0; with = 0;
		wakes = 0; told = 0; came = 0; timed = 0; ends = 0 }
}

#define SLEEPS(m, e) (in_futex[m] && !looks[m] && (bits[e] & (1 << (m))))
#define LOOKS_AT(m, e) (in_futex[m] && looks[m] && (bits[e] & (1 << (m))))
#define SENDER_SLEEPS (SLEEPS(0, 0) || SLEEPS(1, 0) || SLEEPS(2, 0) || SLEEPS(3, 0))
#define RECEIVER_SLEEPS (SLEEPS(0, 1) || SLEEPS(1, 1) || SLEEPS(2, 1) || SLEEPS(3, 1))
#define MEETS_ITSELF (SLEEPS(0, 0) && SLEEPS(0, 1) && !SLEEPS(1, 0) && !SLEEPS(2, 0) && !SLEEPS(3, 0) && !SLEEPS(1, 1) && !SLEEPS(2, 1) && !SLEEPS(3, 1))
#define IN_PACKET (in_packet[0] || in_packet[1] || in_packet[2] || in_packet[3])

/* Nothing else can happen: then no two sleep that could meet. */
proctype quiet()
{
	atomic { timeout && !IN_PACKET && (!(SENDER_SLEEPS && RECEIVER_SLEEPS) || MEETS_ITSELF) && !(SENDER_SLEEPS && LOOKS_AT(3, 1)) }
}

/* A waiter that has gone to sleep. */
inline asleep(m, e) {
	state[m] = STATE(ASLEEP, 1); ticket[m] = tickets; tickets++; bits[e] = bits[e] | (1 << m); is_there[m] = 1
}

init {
	atomic {
		if
		:: SCENE(1) -> knows[0] = 1; knows[1] = 1; run party(0, 1, 0); run party(1, 2, 1)
		:: SCENE(2) -> knows[0] = 1; knows[1] = 1; knows[2] = 1; knows[3] = 1;
			asleep(0, SENDERS); asleep(1, SENDERS); run party(0, 1, 0); run party(1, 1, 0); run party(2, 2, 0); run party(3, 2, 0)
		:: SCENE(8) -> knows[0] = 1; knows[1] = 1; knows[2] = 1; knows[3] = 1; begins[2] = 1; begins[3] = 1;
			asleep(0, SENDERS); asleep(1, SENDERS); run party(0, 1, 0); run party(1, 1, 0); run party(2, 2, 0); run party(3, 2, 0)
		:: SCENE(3) -> run party(0, 1, 1); run party(1, 2, 0)
		:: SCENE(4) -> run party(0, 3, 0); run party(1, 1, 0); run party(2, 2, 0)
		:: SCENE(5) -> knows[2] = 1; run party(0, 1, 1); run party(1, 1, 0); run party(2, 2, 0)
		:: SCENE(6) -> knows[0] = 1; looks[3] = 1; run party(0, 1, 0); run party(3, 2, 0)
		:: SCENE(7) -> knows[0] = 1; knows[1] = 1; looks[3] = 1; run party(0, 1, 0); run party(1, 2, 0); run party(3, 2, 0)
		fi;
		run quiet()
	}
}
