//! A thread's token, and the events that it has been told of: one word, so that looking for an event and giving up the proc is one step.
//!
//! | bits | | |
//! |---|---|---|
//! | 0-1 | EMPTY, PARKED, NOTIFIED, ASLEEP | whether the thread waits, and how; or that it need not |
//! | 8-31 | events | which have been told and not been taken |
//!
//! - E1: a thread parks by one swap of the word in which it has found none of its events. So an event is told before that, and the swap fails; or
//!   after it, and whoever tells finds PARKED. None is lost between look and sleep.
//!
//! Paper: nonblocking-real-time, 4.3 and figure 3 (the ready flag and the conditions of a thread in one word).

use chappe_plat::atomic::{AtomicU32, Ordering};

/// A thread that runs, or is ready.
pub(crate) const EMPTY: u32 = 0;
/// It waits, and its proc has others.
pub(crate) const PARKED: u32 = 1;
/// The token is there.
pub(crate) const NOTIFIED: u32 = 2;
/// It waits, and its kernel thread sleeps on this word: it is away from its proc.
pub(crate) const ASLEEP: u32 = 3;
const STATE: u32 = 3;
/// The first event.
const EVENTS: u32 = 8;

/// What is to be done for a thread that was given its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wakes {
    /// Nothing: it runs, or is going to look.
    Nobody,
    /// It was parked; the caller has it, to put it into a queue.
    Parked,
    /// Its kernel thread sleeps on the word.
    Asleep,
}

/// What a thread came to that looked for events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// These were there, and are taken.
    Told(u32),
    /// None, but the token, which is taken.
    Token,
    /// Nothing: it is parked.
    Parks,
}

/// How a word reads to others.
pub(crate) fn state(word: u32) -> u32 {
    word & STATE
}

/// Takes the token, or parks. True: parked.
#[inline(always)]
pub(crate) fn park(token: &AtomicU32, how: u32) -> bool {
    // AcqRel: I1 of the proc. Acquire: what was done before the token came.
    token.compare_exchange(EMPTY, how, Ordering::AcqRel, Ordering::Acquire).is_ok()
        || look(token, 0, how) == Look::Parks
}

/// Takes those of some events that have been told; else takes the token, or parks. E1.
#[cold]
pub(crate) fn look(token: &AtomicU32, events: u32, how: u32) -> Look {
    // Acquire: what was done before the token, or the event, came.
    let mut now = token.load(Ordering::Acquire);
    loop {
        let there = now >> EVENTS & events;
        let (to, found) = if there != 0 {
            (now & !(there << EVENTS), Look::Told(there))
        } else if now & STATE == NOTIFIED {
            (now & !STATE, Look::Token)
        } else {
            (now & !STATE | how, Look::Parks)
        };
        // AcqRel, Acquire: as in `park`.
        match token.compare_exchange(now, to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return found,
            Err(other) => now = other,
        }
    }
}

/// A thread that was asleep is not any more, whatever woke it.
pub(crate) fn is_up(token: &AtomicU32) {
    token.fetch_and(!STATE, Ordering::AcqRel); // AcqRel: as in `park`.
}

/// Gives a thread its token.
#[inline(always)]
pub(crate) fn give(token: &AtomicU32) -> Wakes {
    // AcqRel: I1 of the proc; what was done before comes before it goes on. Relaxed: once more.
    if token.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        return Wakes::Parked;
    }
    change(token, |now| now & !STATE | NOTIFIED)
}

/// Tells a thread of events.
pub(crate) fn tell(token: &AtomicU32, events: u32) -> Wakes {
    let told = move |now: u32| now | events << EVENTS;
    change(token, move |now| if now & STATE == ASLEEP { told(now) & !STATE | NOTIFIED } else { told(now) })
}

/// Makes something of the word of a thread that is not parked; one that is becomes ready by that, too.
#[cold]
fn change(token: &AtomicU32, to: impl Fn(u32) -> u32) -> Wakes {
    // Relaxed: the swap decides.
    let mut now = token.load(Ordering::Relaxed);
    loop {
        let (next, wakes) = match now & STATE {
            PARKED => (to(now) & !STATE, Wakes::Parked),
            ASLEEP => (to(now), Wakes::Asleep),
            _ => (to(now), Wakes::Nobody),
        };
        // AcqRel, Relaxed: as in `give`.
        match token.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return wakes,
            Err(other) => now = other,
        }
    }
}
