//! A thread's token, and whether it was told of events, in one word, so that the thread checks for an event and parks in
//! one atomic step. Which events is in another word (`told`), with the generation of the thread that they are for.
//!
//! | bits | values | meaning |
//! |---|---|---|
//! | 0-1 | EMPTY | the thread runs or is ready |
//! | | PARKED | the thread waits; its proc runs others |
//! | | NOTIFIED | the thread has a token: its next park does not wait |
//! | | ASLEEP | the thread is away and waits; its kernel thread sleeps on this word |
//! | 8 | TOLD | there may be events that the thread has not looked for |
//!
//! - E1: a notifier first tells the event, then sets TOLD. A thread that waits for events clears TOLD, looks for them,
//!   and then parks by a compare-exchange of a word without TOLD. The notifier sets TOLD before that, and the
//!   compare-exchange fails; or after it, and the notifier finds PARKED or ASLEEP and wakes the thread. No event is lost
//!   between the check and the sleep.
//! - E2: `give` and `tell` may come late, to the next thread with the record: that one looks once more than it need, or
//!   goes on from a park for no reason, for which each waiter is prepared.
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
/// The thread may have been told of events.
const TOLD: u32 = 1 << 8;

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
    /// There may be events: the thread must look for them.
    Told,
    /// Not that, but a token, which is consumed now.
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
    token.compare_exchange(EMPTY, how, Ordering::AcqRel, Ordering::Acquire).is_ok() || go(token, 0, how) == Look::Parks
}

/// The thread is about to look for events: E1.
pub(crate) fn heard(token: &AtomicU32) {
    // Acquire, both: the events, and what the notifier did before.
    if token.load(Ordering::Acquire) & TOLD != 0 {
        token.fetch_and(!TOLD, Ordering::Acquire);
    }
}

/// A thread that has found none of its events: consumes the token, or parks, unless there may be others by now. E1.
pub(crate) fn look(token: &AtomicU32, how: u32) -> Look {
    go(token, TOLD, how)
}

/// Finds any of `heeds`; else consumes the token; else parks.
#[cold]
fn go(token: &AtomicU32, heeds: u32, how: u32) -> Look {
    // Acquire: what the waker did before it gave the token or told the event.
    let mut now = token.load(Ordering::Acquire);
    loop {
        let (to, found) = if now & heeds != 0 {
            return Look::Told;
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

/// A thread was told of events: E1.
pub(crate) fn tell(token: &AtomicU32) -> Wakes {
    change(token, |now| if now & STATE == ASLEEP { now & !STATE | NOTIFIED | TOLD } else { now | TOLD })
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
