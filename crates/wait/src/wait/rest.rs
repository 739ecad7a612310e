//! How a waiter passes the time of its wait: it spins, then sleeps on the member's own word, or, as a light thread, at its proc's bell.
//! Invariants and edges: the wait queue's.

use super::parties::Parties;
use super::state::{ASLEEP, State, WAITING, short};
use super::terms::{Begun, Terms};
use super::word::note;
use crate::interrupt::Interrupt;
use chappe_plat::atomic::{Ordering, low_half, pause};
use chappe_plat::clock;
use chappe_plat::futex::{self, Scope, Wait};
#[cfg(any(feature = "sim", feature = "loom"))]
use chappe_plat::light::Chime;
use chappe_plat::light::{self, Record, Waits};

const SPIN_MOST: u32 = 500;
/// How long a waiter sleeps that could not execute its fence, before it looks again: a millisecond.
const BLIND: u64 = 1_000_000;
const SPIN_PROBE: u32 = 64;

/// The middle part of a wait: passes the time until the wait is decided, or until the deadline.
pub fn rest(who: &Parties, begun: &Begun, terms: Terms<'_>) {
    if begun.dead.is_some() {
        return;
    }
    let Terms { deadline, patience, .. } = terms;
    let soon = begun.is_blind.then(|| clock::now().saturating_add(BLIND));
    let deadline = [deadline, soon].into_iter().flatten().min();
    let (word, scope) = (&who.main.map.member(who.main.member).state, who.main.map.scope());
    let number = begun.number;
    // SeqCst, here and below: R2 and R4, our own word after our bits.
    let waiting = || State(word.load(Ordering::SeqCst)).is_waiting();
    let due = || deadline.is_some_and(|d| clock::now() >= d);
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    let me = light::current();
    #[cfg(any(feature = "sim", feature = "loom"))]
    let me = None::<&'static Record>;
    // A light thread neither spins nor keeps its proc to itself.
    let is_light = me.is_some();
    if patience.forever && !is_light {
        let mut turns = 0u32;
        while waiting() {
            pause();
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(64) && (due() || patience.is_interrupted()) {
                return;
            }
        }
        return;
    }
    if !patience.none && !is_light {
        let budget = patience.budget.get();
        // A budget that has fallen to nothing is tried again every SPIN_PROBE waits: its low bits count them.
        let turns = if budget < SPIN_PROBE { if budget == 0 { SPIN_PROBE } else { 0 } } else { budget };
        for _ in 0..turns {
            if !waiting() {
                patience.budget.set((turns * 2).min(SPIN_MOST));
                return;
            }
            pause();
        }
        let next = if budget >= SPIN_PROBE { (budget / 2).max(SPIN_PROBE - 1) } else { budget.wrapping_sub(1) };
        patience.budget.set(if budget == 0 { SPIN_PROBE - 1 } else { next });
    }
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    let bell = me.filter(|_| scope == Scope::Shared).and_then(|_| crate::bell::here(who.main.map));
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    let _enlisted = bell.map(|bell| bell.enlist(who.main.member));
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    let at = bell.map(|bell| bell.member);
    #[cfg(any(feature = "sim", feature = "loom"))]
    let at = patience.bell;
    #[cfg(any(feature = "sim", feature = "loom"))]
    let chime = at.map(|at| Chime::new(&who.main.map.member(at).bell, |_, _| {}));
    if is_light || at.is_some() {
        names_bell(who, at);
    }
    let asleep = State::new(ASLEEP, number);
    if !falls_asleep(who, number) {
        return;
    }
    note(|lately| lately.slept = true);
    if let Some(me) = me {
        if scope == Scope::Private || at.is_some() {
            let what = if at.is_some() { Waits::Named } else { Waits::Object };
            let by = patience.interrupt;
            by.into_iter().for_each(|by| by.parks(me));
            let goes_on = || waiting() && !patience.is_interrupted();
            let sleep = || rest_lightly(me, (what, who.main.member), deadline, goes_on);
            if at.is_some() {
                light::from_outside(sleep)
            } else {
                sleep()
            }
            by.into_iter().for_each(Interrupt::left);
        } else {
            light::blocking(|| {
                patience.interrupt.into_iter().for_each(|by| by.sleeps(low_half(word), scope));
                while waiting() && !due() && !patience.is_interrupted() {
                    futex::wait(low_half(word), asleep.0 as u32, deadline, scope);
                }
                patience.interrupt.into_iter().for_each(Interrupt::left);
            });
        }
        return;
    }
    #[cfg(any(feature = "sim", feature = "loom"))]
    if let Some(chime) = chime {
        return rest_at(&chime, deadline, waiting);
    }
    if let Some(interrupt) = patience.interrupt {
        interrupt.sleeps(low_half(word), scope);
    }
    while waiting() && !patience.is_interrupted() {
        match (futex::wait(low_half(word), asleep.0 as u32, deadline, scope), patience.interrupt) {
            (Wait::TimedOut, _) => break,
            (Wait::Interrupted, Some(interrupt)) => interrupt.come(),
            _ => {}
        }
    }
    if let Some(interrupt) = patience.interrupt {
        interrupt.left();
    }
}

/// I10, before the word says ASLEEP.
fn names_bell(who: &Parties, at: Option<u32>) {
    // Relaxed: I10, published by the swap that follows.
    who.main.map.member(who.main.member).bell_of.store(at.map_or(0, |at| at + 1), Ordering::Relaxed);
}

/// Says that the member sleeps from now on. False: the wait is decided.
fn falls_asleep(who: &Parties, number: u64) -> bool {
    let me = who.main.map.member(who.main.member);
    // Relaxed: I8, published by the swap below.
    me.slept.store(short(number), Ordering::Relaxed);
    let (waiting, asleep) = (State::new(WAITING, number).0, State::new(ASLEEP, number).0);
    // SeqCst: from here on the granter must wake us.
    me.state.compare_exchange(waiting, asleep, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// A task's member sleeps, or has slept since an earlier poll: its granter calls the task's waker, or rings this bell. False: the wait is
/// decided.
pub fn sleeps(who: &Parties, number: u64, bell: Option<u32>) -> bool {
    // SeqCst: R4, and I1 of the tasks: after the waker was noted.
    let now = State(who.main.map.member(who.main.member).state.load(Ordering::SeqCst));
    if now == State::new(ASLEEP, number) {
        return true;
    }
    names_bell(who, bell);
    falls_asleep(who, number)
}

/// The sleep of a light thread, at an object of this process.
fn rest_lightly(me: &'static Record, (what, member): (Waits, u32), deadline: Option<u64>, waiting: impl Fn() -> bool) {
    me.waits.set(what);
    me.at.set(u64::from(member));
    while waiting() && deadline.is_none_or(|at| clock::now() < at) {
        light::park(deadline);
    }
    me.waits.set(Waits::Nothing);
}

/// What a proc does for a light thread that sleeps at its bell, for the explorer, in the order of `Proc::idle`'s steps.
#[cfg(any(feature = "sim", feature = "loom"))]
fn rest_at(chime: &Chime, deadline: Option<u64>, waiting: impl Fn() -> bool) {
    let due = || deadline.is_some_and(|at| clock::now() >= at);
    // The thread's last look before it parks.
    if !waiting() {
        return;
    }
    while !due() {
        if let Some((word, value)) = chime.sleeps() {
            futex::wait(word, value, deadline, Scope::Shared);
        }
        chime.is_up();
        if chime.is_rung() && !waiting() {
            return;
        }
    }
}
