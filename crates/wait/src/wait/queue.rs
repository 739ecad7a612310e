//! The waiters of an object in the order in which they will be served, and the first of them. Invariants and edges: the wait queue's.

use super::batch;
use super::discipline::Ranks;
use super::line::{Candidate, each, each_worth};
use super::state::State;
use super::word::{make_up, wake_told};
use chappe_arena::layout::Member;
use chappe_arena::{Map, Place};
use chappe_plat::Life;
use chappe_plat::atomic::Ordering;
use std::cell::Cell;

/// The waiter of the object that is to be served first, dead members excluded.
#[inline]
pub fn next(map: &Map, at: Place) -> Option<Candidate> {
    if let Some(first) = batch::next(map, at) {
        return Some(first);
    }
    let ranks = Ranks::of(map, at.index);
    let (best, all) = (Cell::new(None::<Candidate>), Cell::new(0));
    // In arrival order, most waiters are skipped by their ticket alone. It belongs to the wait whose bit was seen, or to a later wait, whose ticket
    // is not smaller.
    let worth = |m: &Member| {
        all.set(all.get() + 1);
        // Acquire: E2, after the bit.
        best.get().is_none_or(|b| !ranks.are_equal() || m.ticket.load(Ordering::Acquire) < b.ticket)
    };
    each_worth(map, at, ranks, worth, |c| {
        let is_first = c.state.is_waiting() && best.get().is_none_or(|b| c < b);
        if is_first && map.member(c.member).life.probe() != Life::Dead {
            best.set(Some(c));
        }
    });
    if all.get() > batch::FEW {
        batch::build(map, at);
    }
    best.get()
}

/// All members that wait on the object, in the order in which they will be served.
#[inline]
pub fn queue(map: &Map, at: Place) -> Vec<u32> {
    in_order(map, at, State::is_waiting)
}

/// As [`queue`], with the members that were granted something by the object and have not woken up yet.
#[cfg(not(feature = "sim"))]
#[inline]
pub fn in_line(map: &Map, at: Place) -> Vec<u32> {
    in_order(map, at, |state| state.is_waiting() || state.grant().is_some_and(|g| g.of(map, at.index)))
}

fn in_order(map: &Map, at: Place, which: impl Fn(State) -> bool) -> Vec<u32> {
    let mut all = Vec::new();
    each(map, at, |c| {
        if which(c.state) {
            all.push(c);
        }
    });
    all.sort_unstable();
    all.into_iter().map(|c| c.member).collect()
}

/// How many of the object's waiters have been told to try again and have not tried yet, and which of the others is to be
/// served first; dead members excluded.
#[inline]
pub fn tried_and_next(map: &Map, at: Place) -> (u32, Option<Candidate>) {
    let (mut trying, mut best) = (0, None::<Candidate>);
    each(map, at, |c| {
        let first = c.state.is_waiting() && best.is_none_or(|b| c < b);
        let told = c.state.grant().is_some_and(|g| g.is_retry() && g.of(map, at.index));
        if (first || told) && map.member(c.member).life.probe() != Life::Dead {
            trying += u32::from(told);
            best = if first { Some(c) } else { best };
            if told {
                wake_told(map, c.member, c.state);
            }
        }
    });
    (trying, best)
}

/// I9: something is free here, and no waiter can be granted it: repeats the wakes of waiters that another object granted.
#[inline]
pub fn wake_elsewhere(map: &Map, at: Place) {
    each(map, at, |c| {
        if c.state.grant().is_some_and(|g| !g.of(map, at.index)) {
            make_up(map, c.member, c.state);
        }
    });
}
