//! Barriers in the table of kinds: what a death, the end of a thread and a removal do to one. The protocol, its invariants and races are in `round`.

use super::round::Rounds;
use super::word::{DEATH, State, TAKE_BACK, read};
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Protocol, Visit, Visitor};
use chappe_plat::step;
use chappe_wait::body;
use chappe_wait::body::Body;

/// Finishes what is under way, and lets a dead member die as a party, if it was one.
fn recover(body: &Body<'_>, _visit: &Visit<'_>, dead: Dead) {
    let Some(rounds) = Rounds::of(*body) else { return };
    // At a private one, also in a forked child's copy of it, only the arrival goes: its threads do not die alone.
    let how = if rounds.joins || rounds.breaks { DEATH } else { TAKE_BACK };
    loop {
        let seen = rounds.idle();
        step!("nothing is under way");
        // R3: in this order.
        let (is_party, there) = (rounds.is_party(dead.member), read(rounds.record(dead.member)));
        if !dead.is_unswept(body.map()) {
            return;
        }
        // I6: else what was read may be of a DEATH under way.
        if rounds.state_stamp() != seen.stamp {
            continue;
        }
        if !is_party {
            return rounds.free(dead.member, there);
        }
        if rounds.perform(seen, State(seen.word).to(how, dead.member)) {
            return;
        }
    }
}

/// In the table of kinds.
pub(crate) struct Barriers;

impl Protocol for Barriers {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        // I7: it changes no word of the barrier.
        if let Some(rounds) = Body::of(map, Place { index: object, head }).and_then(Rounds::of) {
            rounds.wake();
        }
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) -> bool {
        if let Some((body, visit)) = body::unfinished_by(map, at, dead.member, me) {
            recover(&body, &visit, dead);
        }
        false
    }

    fn clear(&self, map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
        body::clear(map, at, member, me);
    }

    fn is_used(&self, map: &Map, object: u32, head: Head) -> bool {
        body::is_used(map, object, head)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, _generation: u32) -> bool {
        let rounds = Body::of(map, Place { index: object, head }).and_then(Rounds::of);
        head.in_service() && rounds.is_some_and(|rounds| rounds.is_party(member))
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, me: &mut Visitor<'_>) {
        // Its thread ends, and has leaked its arrival, or that it has joined.
        if let Some((body, _visit)) = body::unfinished_by(map, at, leaver.member, me)
            && let Some(rounds) = Rounds::of(body)
        {
            rounds.leave(leaver.member);
        }
    }
}
