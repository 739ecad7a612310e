//! What happens to pools when a member dies.
//!
//! Recovery is a look at everything, by anybody, any number of times, and may be killed or stopped at every step:
//!
//! 1. The dead member's wait word goes to IDLE, so that no grant to it wins any more and every reservation for it
//!    is void (wait queue, I2).
//! 2. Each cell it held becomes free; each reserved for it is resolved. A cell with a lease becomes an orphan: the
//!    job may go on (see `lease`).
//! 3. Every object is drained: whatever the dead began (a permit made free and not handed on, a reservation made
//!    and not granted) is finished for it.
//! 4. Every granted member is woken: its granter may have died before the wake.
//!
//! Steps 2 to 4 act on exact words; step 1 checks, after reading the wait word, that the slot still is the
//! dead generation's: a later occupant writes `ident` before it ever touches the word.

use crate::cell::Tag;
use crate::drain::{cells, drain, resolve};
use crate::wait::{State, bury, wake_granted};
use chappe_arena::Map;
use chappe_arena::layout::Head;
use chappe_plat::atomic::Ordering;
use chappe_plat::step;

/// Gives back everything that `generation` of a member slot held. Its owner is gone, or is leaving.
pub fn recover(map: &'static Map, member: u32, generation: u32) {
    let m = map.member(member);
    loop {
        // SeqCst: before the look at ident.
        let state = State(m.state.load(Ordering::SeqCst));
        // SeqCst: a later occupant's ident comes before anything it writes to the word.
        if state.is_idle() || (m.ident.load(Ordering::SeqCst) >> 32) as u32 != generation {
            break;
        }
        // SeqCst: I2 of the wait queue; or a grant got in first.
        if m.state.compare_exchange(state.0, State::idle(state.wait()).0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            break;
        }
    }
    step!("dead member can be granted nothing more");
    let mut lease = false;
    for object in 0..map.objects_used() {
        // Acquire: the object as its maker left it.
        let head = Head(map.object(object).head.load(Ordering::Acquire));
        if head.is_free() {
            continue;
        }
        for (position, cell) in cells(map, object) {
            let mut seen = cell.load();
            while seen.member() == member {
                let done = match seen.tag() {
                    Tag::Held if seen.aux() == generation => cell.swap(seen, seen.freed()),
                    Tag::Reserved => resolve(map, object, position, cell, seen),
                    Tag::Leased if seen.aux() == generation => {
                        lease = true;
                        cell.swap(seen, seen.orphaned())
                    }
                    _ => true,
                };
                if done {
                    break;
                }
                seen = cell.load();
            }
        }
    }
    step!("cells given back, not yet handed on");
    for object in 0..map.objects_used() {
        // Acquire: as above.
        let head = Head(map.object(object).head.load(Ordering::Acquire));
        if head.is_dead() {
            bury(map, object);
        } else if head.in_service() {
            drain(map, object);
        }
    }
    for other in 0..map.members_used() {
        if other != member {
            wake_granted(map, other);
        }
    }
    if lease {
        // Every reaper has a new thing to watch.
        map.ring_roster();
    }
}

/// Whether any cell is this generation's.
#[cfg(not(feature = "sim"))]
pub(crate) fn owns(map: &Map, member: u32, generation: u32) -> bool {
    (0..map.objects_used()).any(|object| {
        // Acquire: as above.
        let head = Head(map.object(object).head.load(Ordering::Acquire));
        let its = |w: crate::cell::Word| !w.is_free() && w.member() == member && w.aux() == generation;
        head.in_service() && cells(map, object).any(|(_, cell)| its(cell.load()))
    })
}
