//! Who waits on an object: read from its bits and the members' words, which go on meanwhile. Invariants and edges: the wait
//! queue's.

use super::{State, make_up, wake_told, word_of};
use chappe_arena::Map;
use chappe_arena::layout::Head;
use chappe_plat::Life;
use chappe_plat::atomic::Ordering;

/// A member that may be granted.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub member: u32,
    pub state: State,
    pub ticket: u64,
    /// How much it waits for; of a mutex, whether it has been overtaken enough.
    pub need: u32,
}

/// The waiter of the object that arrived first, the dead aside.
pub(crate) fn oldest(map: &Map, object: u32) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    each_waiter(map, object, |c| {
        if best.is_none_or(|b| c.ticket < b.ticket) && map.member(c.member).life.probe() != Life::Dead {
            best = Some(c);
        }
    });
    best
}

/// The waiter of the object that arrived first, to be granted something: only if the object still is the one with this
/// head. A wait that was seen, bit and all, before that look is on this object, since a slot is used again only without
/// bits; so a grant to exactly this wait is for no other's.
pub(crate) fn next(map: &Map, object: u32, head: Head) -> Option<Candidate> {
    oldest(map, object).filter(|_| is_still(map, object, head))
}

/// Whether the slot is still that object's.
pub(crate) fn is_still(map: &Map, object: u32, head: Head) -> bool {
    // SeqCst: after the look at the bits.
    map.object(object).head.load(Ordering::SeqCst) == head.0
}

/// Whether the slot still is that object's, in service or removed: a grant that was made there, to a wait whose bit stands, is its
/// own, and who was granted has it though the object be gone by now.
pub(crate) fn is_no_others(map: &Map, object: u32, head: Head) -> bool {
    // SeqCst: after the member's word.
    let now = map.object(object).head.load(Ordering::SeqCst);
    now == head.0 || now == head.dead().0
}

/// Everybody who waits on the object, by arrival.
pub(crate) fn queue(map: &Map, object: u32) -> Vec<u32> {
    by_arrival(map, object, State::is_waiting)
}

/// As [`queue`], and who was granted something by the object and has not woken up yet.
#[cfg(not(feature = "sim"))]
pub(crate) fn in_line(map: &Map, object: u32) -> Vec<u32> {
    by_arrival(map, object, |state| state.is_waiting() || state.grant().is_some_and(|g| g.of(map, object)))
}

fn by_arrival(map: &Map, object: u32, which: impl Fn(State) -> bool) -> Vec<u32> {
    let mut all = Vec::new();
    each(map, object, |c| {
        if which(c.state) {
            all.push((c.ticket, c.member));
        }
    });
    all.sort_unstable();
    all.into_iter().map(|(_, member)| member).collect()
}

/// How many of the object's waiters have been told to try again and have not tried yet, and who of the others came
/// first; the dead aside.
pub(crate) fn tried_and_next(map: &Map, object: u32, head: Head) -> (u32, Option<Candidate>) {
    let (mut trying, mut best) = (0, None::<Candidate>);
    each(map, object, |c| {
        let first = c.state.is_waiting() && best.is_none_or(|b| c.ticket < b.ticket);
        let nudged = c.state.grant().is_some_and(|g| g.is_nudge() && g.of(map, object));
        if (first || nudged) && map.member(c.member).life.probe() != Life::Dead {
            trying += u32::from(nudged);
            best = if first { Some(c) } else { best };
            if nudged {
                wake_told(map, c.member, c.state);
            }
        }
    });
    (trying, best.filter(|_| is_still(map, object, head)))
}

/// I9: there is something here, and nobody to grant it to: wakes those who were granted by another object.
pub(crate) fn wake_elsewhere(map: &Map, object: u32) {
    each(map, object, |c| {
        if c.state.grant().is_some_and(|g| !g.of(map, object)) {
            make_up(map, c.member, c.state);
        }
    });
}

fn each_waiter(map: &Map, object: u32, mut see: impl FnMut(Candidate)) {
    each(map, object, |c| {
        if c.state.is_waiting() {
            see(c);
        }
    });
}

/// Everybody whose bit stands on the object and who is not idle.
pub(crate) fn each(map: &Map, object: u32, mut see: impl FnMut(Candidate)) {
    for i in 0..map.waiting_words() {
        let word = map.waiting(object, i);
        // SeqCst: E1.
        let mut bits = word.load(Ordering::SeqCst);
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            bits ^= bit;
            let member = i as u32 * 64 + bit.trailing_zeros();
            if member >= map.geometry().members {
                break;
            }
            // SeqCst: after the bit, before the second look at it, I1.
            let state = State(word_of(map, member).0.load(Ordering::SeqCst));
            if state.is_idle() {
                continue;
            }
            let m = map.member(member);
            // Acquire, both: E2.
            let (ticket, need) = (m.ticket.load(Ordering::Acquire), m.need.load(Ordering::Acquire));
            // SeqCst: I1, the bit belongs to the wait that the word names.
            if word.load(Ordering::SeqCst) & bit != 0 {
                see(Candidate { member, state, ticket, need });
            }
        }
    }
}

/// Whether the member's bit stands on the object.
pub(crate) fn waits_on(map: &Map, object: u32, member: u32) -> bool {
    // SeqCst: I1, read after the member's word.
    map.waiting(object, member as usize / 64).load(Ordering::SeqCst) & 1 << (member % 64) != 0
}
