//! The members whose bits stand on an object, one by one: read from the bits and the members' words, which change meanwhile. Invariants and
//! edges: the wait queue's.

use super::discipline::Ranks;
use super::state::State;
use super::word::word_of;
use chappe_arena::layout::{Head, Member};
use chappe_arena::{Map, Place};
use chappe_plat::atomic::Ordering;
use std::cmp;

/// A member that may be granted. The smallest candidate is served first.
#[derive(Clone, Copy)]
pub struct Candidate {
    pub member: u32,
    pub state: State,
    /// By priority, where the object is served so: see the discipline.
    pub rank: u32,
    /// The arrival.
    pub ticket: u64,
    /// How many units or permits it waits for; of a mutex, whether it has been overtaken enough.
    pub need: u32,
}

impl Candidate {
    /// The order in which waiters are served. A ticket is one wait's, so no two waiters are equal.
    fn turn(&self) -> (u32, u64) {
        (self.rank, self.ticket)
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> cmp::Ordering {
        self.turn().cmp(&other.turn())
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.turn() == other.turn()
    }
}

impl Eq for Candidate {}

/// Whether the slot is still that object's.
#[inline]
pub fn is_still(map: &Map, object: u32, head: Head) -> bool {
    // SeqCst: after the look at the bits.
    map.object(object).head.load(Ordering::SeqCst) == head.0
}

/// Whether the slot still is that object's, in service or removed. A grant that was made there to a wait whose bit stands is this object's,
/// and the granted member keeps it even if the object has been removed by now.
pub fn is_no_others(map: &Map, object: u32, head: Head) -> bool {
    // SeqCst: after the member's word.
    let now = map.object(object).head.load(Ordering::SeqCst);
    now == head.0 || now == head.dead().0
}

/// All members whose bit stands on the object and that are not idle.
pub fn each(map: &Map, at: Place, see: impl FnMut(Candidate)) {
    each_worth(map, at, Ranks::of(map, at.index), |_| true, see);
}

/// As [`each`], for members that are `worth` a look.
#[inline]
pub(crate) fn each_worth(
    map: &Map,
    at: Place,
    ranks: Ranks,
    worth: impl Fn(&Member) -> bool,
    mut see: impl FnMut(Candidate),
) {
    for (first, bits) in map.enlisted(at.index) {
        let mut bits = bits;
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            bits ^= bit;
            let member = first + bit.trailing_zeros();
            if member >= map.geometry().members {
                break;
            }
            let m = map.member(member);
            if !worth(m) {
                continue;
            }
            // SeqCst: after the bit, before the second look at it, I1.
            let state = State(word_of(map, member).0.load(Ordering::SeqCst));
            if state.is_idle() {
                continue;
            }
            // Acquire, both: E2.
            let (ticket, need) = (m.ticket.load(Ordering::Acquire), m.need.load(Ordering::Acquire));
            let rank = ranks.rank(m);
            if waits_at(map, at, member) {
                see(Candidate { member, state, rank, ticket, need });
            }
        }
    }
}

/// The candidate for a member that was seen to wait on the object. It is valid if the member's word and bit, read after this, still say so.
#[inline]
pub fn candidate(map: &Map, object: u32, member: u32, state: State) -> Candidate {
    let m = map.member(member);
    // Acquire, both: E2; they are this wait's while the word says so.
    let (need, ticket) = (m.need.load(Ordering::Acquire), m.ticket.load(Ordering::Acquire));
    Candidate { member, state, rank: Ranks::of(map, object).rank(m), ticket, need }
}

/// Whether the wait that the member's word was seen to name is on this object: its bit stands (I1), and the slot still is the object's. It then is so
/// until the wait ends, since a slot is used again only without bits; so what is granted to exactly this wait cannot reach another object's waiter.
#[inline(always)]
pub fn waits_at(map: &Map, at: Place, member: u32) -> bool {
    waits_on(map, at.index, member) && is_still(map, at.index, at.head)
}

/// Whether the member's bit stands on the object.
#[inline]
pub fn waits_on(map: &Map, object: u32, member: u32) -> bool {
    // SeqCst: I1, read after the member's word.
    map.waiting(object, member as usize / 64).load(Ordering::SeqCst) & 1 << (member % 64) != 0
}
