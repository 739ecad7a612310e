//! A thread's token and its pending events in one word, so that the thread checks for an event and parks in one atomic
//! step.
//!
//! | bits | values | meaning |
//! |---|---|---|
//! | 0-1 | EMPTY | the thread runs or is ready |
//! | | PARKED | the thread waits; its proc runs others |
//! | | NOTIFIED | the thread has a token: its next park does not wait |
//! | | ASLEEP | the thread is away and waits; its kernel thread sleeps on this word |
//! | 8-31 | events | told and not yet taken |
//!
//! - E1: a thread parks by a compare-exchange of a word that holds none of its events. A notifier tells an event before
//!   that, and the compare-exchange fails; or after it, and the notifier finds PARKED or ASLEEP and wakes the thread.
//!   No event is lost between the check and the sleep.
//!
//! Visibility: `give` and `tell` release, `park` and `look` acquire: the thread sees what the waker did before. The
//! waker that changes PARKED to EMPTY must put the thread into a queue (I1 of `proc`).
//!
//! Deaths: the word is private to the process and ends with it.
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

/// What the waker must do after it has given a thread its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wakes {
    /// Nothing: the thread runs, or will read the word before it waits.
    Nobody,
    /// The thread was parked: the waker puts it into a queue.
    Parked,
    /// The thread's kernel thread sleeps on the word: the waker wakes it.
    Asleep,
}

/// What `look` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// These events were pending; they are taken now.
    Told(u32),
    /// No event, but a token, which is consumed now.
    Token,
    /// Neither: the thread is parked now.
    Parks,
}

/// The state that a word holds.
pub(crate) fn state(word: u32) -> u32 {
    word & STATE
}

/// Consumes the token, or parks. True: parked.
#[inline(always)]
pub(crate) fn park(token: &AtomicU32, how: u32) -> bool {
    // AcqRel: I1 of the proc, the record is published before a waker can take it. Acquire: what the waker did before it
    // gave the token.
    token.compare_exchange(EMPTY, how, Ordering::AcqRel, Ordering::Acquire).is_ok()
        || look(token, 0, how) == Look::Parks
}

/// Takes those of `events` that are pending; else consumes the token; else parks. E1.
#[cold]
pub(crate) fn look(token: &AtomicU32, events: u32, how: u32) -> Look {
    // Acquire: what the waker did before it gave the token or told the event.
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

/// The kernel thread of an ASLEEP thread is awake, whatever woke it.
pub(crate) fn is_up(token: &AtomicU32) {
    token.fetch_and(!STATE, Ordering::AcqRel); // AcqRel: as in `park`.
}

/// Gives a thread its token.
#[inline(always)]
pub(crate) fn give(token: &AtomicU32) -> Wakes {
    // AcqRel: I1 of the proc; what the waker did is visible to the thread when it goes on. Relaxed: `change` retries.
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

/// Changes the word by `to`. A parked thread becomes ready by the same step.
#[cold]
fn change(token: &AtomicU32, to: impl Fn(u32) -> u32) -> Wakes {
    // Relaxed: the compare-exchange decides.
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
