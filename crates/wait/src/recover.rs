//! Recovery: gives back what a dead member had, and finishes what it had begun.
//!
//! A reaper that sees the death starts it, or a thread that sweeps (terms: `book/src/glossary.md`).
//! Recovery is a look at all objects. Any thread may do it, any number of times, and may be killed
//! or stopped at every step: until the member is swept (arena, member.rs: I4), each thread that
//! looks for the dead begins again.
//!
//! 1. The dead member's wait word goes to IDLE, so that no grant to it wins any more and every reservation for it is void (wait queue, I2):
//!    else a drainer would give the dead member what step 2 frees. Before that, a grant goes back that only this word records: a
//!    semaphore's unit (see `semaphore_word`), a notification.
//! 2. Each cell it held becomes free; each reserved for it is resolved. A cell with a lease becomes an orphan: the
//!    job may go on (see `lease`). A mutex it held becomes free, and its word says that its holder died (see `lock`).
//! 3. Every object is drained: what the dead member had begun (a permit made free and not handed on, a reservation made
//!    and not granted, a semaphore raised) is finished for it.
//! 4. Every granted member is woken: its granter may have died before the wake.
//!
//! Steps 2 to 4 act on exact words, or within a visit (arena, visit.rs): the recoverer may be stopped for any time, and the object may have gone
//! meanwhile. Step 1 checks, after reading the wait word, that the slot still is the dead generation's: a later occupant writes `ident` before it
//! ever touches the word.

use crate::kinds;
use crate::wait::{self, State, change_granted, wake_granted};
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

/// Gives back everything that `generation` of a member slot held. Its owner is gone, or is leaving. If `me` has left something out, that is
/// still to be done.
pub fn recover(map: &'static Map, member: u32, generation: u32, me: &mut Visitor<'_>) {
    let m = map.member(member);
    loop {
        // SeqCst: before the word. If the slot has another occupant when both are swapped, that one's ticket differs.
        let ticket = m.ticket.load(Ordering::SeqCst);
        // SeqCst: before the look at ident.
        let state = State(m.state.load(Ordering::SeqCst));
        // SeqCst: a later occupant's ident comes before anything it writes to the word.
        if state.is_idle() || (m.ident.load(Ordering::SeqCst) >> 32) as u32 != generation {
            break;
        }
        kinds::take_back(map, member, state, Some(generation));
        // Acquire: after the word, whose wait it is of; the number goes on in the slot's next use.
        let number = state.number(|| m.era.load(Ordering::Acquire));
        // I2 of the wait queue. A failure: `take_back` changed the word, or a grant came first: look again.
        if change_granted(m, ticket, state, State::idle(number)) {
            break;
        }
    }
    step!("dead member can be granted nothing more");
    let mut lease = false;
    for object in 0..map.objects_used() {
        lease |= kinds::recover(map, object, Dead { member, generation }, me);
    }
    step!("cells given back, not yet handed on");
    for object in 0..map.objects_used() {
        // Acquire: the object as its maker left it.
        let head = Head(map.object(object).head.load(Ordering::Acquire));
        if head.is_dead() {
            map.through(Place { index: object, head });
            wait::notify_dead(map, object, head, me);
        } else {
            kinds::drain(map, object);
        }
    }
    for other in 0..map.members_used() {
        if other != member {
            wake_granted(map, other);
        }
    }
    if lease {
        // Every reaper has a new thing to watch.
        map.call_reapers();
    }
}

/// Wakes all waiters of a dead object.
pub fn notify_dead(map: &'static Map, object: u32, me: &mut Visitor<'_>) {
    // Acquire: the object as its remover left it.
    let head = Head(map.object(object).head.load(Ordering::Acquire));
    if head.is_dead() {
        map.through(Place { index: object, head });
        wait::notify_dead(map, object, head, me);
    }
}

/// Whether this generation holds anything.
#[cfg(not(feature = "sim"))]
pub fn owns(map: &Map, member: u32, generation: u32) -> bool {
    (0..map.objects_used()).any(|object| kinds::is_held(map, object, member, generation))
}
