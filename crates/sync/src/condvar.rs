//! Condition variables as a protocol: a thread gives a mutex up and waits until another thread notifies it.
//!
//! Each waiter is a member with its bit on the object, as everywhere (see the wait queue). To notify is to grant, to the
//! oldest waiter, or to all. There is no count: a notification that finds no waiter is lost.
//!
//! ```text
//!   wait:    begin (bit set) -- unlock -- rest -- end -- lock
//!   notify:              the oldest waiter's word: WAITING -> GRANTED; wake
//!   notify all:          `since` := the next arrival's ticket;  grant to all with an earlier one
//! ```
//!
//! - I1: the bit is set before the mutex is given up: a thread that locks it afterwards and notifies finds the waiter.
//! - I2: `since` grows. Any drainer grants to each waiter that came before it and still waits: if a notifier dies half-way
//!   through a notification of all, it has notified all of them, once recovery drains.
//! - I3: a notification is not lost with its waiter: if a waiter dies before it has seen its grant, recovery passes the grant on
//!   to the next waiter. A task that is dropped with a grant does so itself. (A recoverer that dies may have passed it on: then two wake up for one notification. A waiter looks at its
//!   condition again in any case: the user's loop allows for wake-ups without a cause.)
//! - I4: a notifier that is stopped before the wake delays no waiter that a later notifier would have woken.
//! - I5: a notifier may be late: nothing of its own keeps the slot from the next object. So it raises `since` in one swap with the word beside it,
//!   which has the number of the slot's use: it changes no other object. Each maker stores the word first, and `since` then: a swap that came before the
//!   word is overwritten.
//!
//! Lock-free except for the sleep and the mutex.
//!
//! Explored: `tests/crash_condvar.rs`.

use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::interrupt::Interrupt;
use chappe_wait::operation::Site;
use chappe_wait::owner::{store_words, unheld};
use chappe_wait::wait::{
    Candidate, Ended, Parties, Patience, Terms, arrive, begin, each, end, finish, next, rest, tell, wake_told,
};

/// What a waiter is granted.
const NOTIFIED: u32 = 0;

/// How a wait for a notification ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Notified,
    TimedOut,
    /// See [`crate::interruptible`].
    Interrupted,
    Dead,
}

/// Waits for a notification. `unlock` gives the mutex up, once a notification would be heard (I1).
pub(crate) fn wait(
    who: &Parties,
    condvar: &Site,
    deadline: Option<u64>,
    patience: &Patience<'_>,
    unlock: impl FnOnce(),
) -> Heard {
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let terms = Terms { first: 0, arrival: arrive(who, patience), need: 1, packet: 0, deadline, patience };
    let begun = begin(who, &[condvar], terms);
    unlock();
    rest(who, &begun, terms);
    match end(who, &[condvar], &begun) {
        Ended::Granted(..) => {
            finish(who, &[condvar], &begun);
            Heard::Notified
        }
        Ended::TimedOut if patience.is_interrupted() => Heard::Interrupted,
        Ended::TimedOut => Heard::TimedOut,
        _ => Heard::Dead,
    }
}

/// Wakes the waiter that came first. False: there is none.
pub(crate) fn notify(map: &Map, place: Place) -> bool {
    map.through(place);
    while let Some(first) = next(map, place) {
        if tell(map, first.member, first.state, place.index, NOTIFIED) {
            return true;
        }
    }
    // I4.
    each(map, place, |c| wake_notified(map, place.index, c));
    false
}

/// I4: repeats the wake of a notified waiter, whose notifier may have been stopped before it.
fn wake_notified(map: &Map, object: u32, told: Candidate) {
    if told.state.grant().is_some_and(|g| !g.dead && !g.returned && g.of(map, object)) {
        wake_told(map, told.member, told.state);
    }
}

/// Wakes all that wait now, at a condition variable or a map.
pub(crate) fn notify_all(map: &Map, at: Place) {
    map.through(at);
    // SeqCst: I2, after the bits of those that must be woken.
    let next = map.header().ticket.load(Ordering::SeqCst);
    raise(map.object(at.index), at.head, next);
    step!("all notified, none woken yet");
    chappe_wait::kinds::drain(map, at.index);
}

/// I2: `since` is so much at least from here on, unless the slot is another object's by now (I5).
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
fn raise(o: &Object, head: Head, to: u64) {
    let word = unheld(head.generation());
    // SeqCst: I2, before the look at the waiters.
    let mut seen = o.slot.since.load(Ordering::SeqCst);
    // A swap of both is a full fence, as SeqCst.
    while seen < to
        && let Err([there, since]) = o.slot.pair().compare_exchange([word, seen], [word, to])
        && there == word
    {
        seen = since;
    }
}

/// loom has no such swap, and in its searches no slot is used twice.
#[cfg(all(feature = "loom", not(feature = "sim")))]
fn raise(o: &Object, _head: Head, to: u64) {
    o.slot.since.fetch_max(to, Ordering::SeqCst); // SeqCst: I2.
}

/// Wakes the waiters that an unfinished notification of all was for. The object is a condition variable in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    // SeqCst: as in `notify_all`.
    let before = map.object(object).slot.since.load(Ordering::SeqCst);
    each(map, Place { index: object, head }, |c| {
        if !c.state.is_waiting() {
            wake_notified(map, object, c);
        } else if c.ticket < before {
            tell(map, c.member, c.state, object, NOTIFIED);
        }
    });
}

/// I3: passes a notification on to the next waiter, by whatever condition variable is in the slot.
pub(crate) fn pass_on(map: &Map, object: u32) {
    // Acquire: the object as its maker left it.
    let head = Head(map.object(object).head.load(Ordering::Acquire));
    if head.is_live(Kind::Condvar) {
        notify(map, Place { index: object, head });
    }
}

/// Makes a condition variable. The caller holds `admin` and has seen that the name is free.
pub(crate) fn make(map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
    map.make(admin, name, Kind::Condvar, |index, generation| {
        let o = map.object(index);
        o.permits.store(0, Ordering::Relaxed); // Relaxed: published by the head.
        o.more.store(0, Ordering::Relaxed); // Relaxed: published by the head.
        // No later than any ticket; and not what a pool may have had there: see `CellRef::note`.
        store_words(o, unheld(generation), 1);
        Ok(())
    })
}
