//! Wakes that are owed. When nothing more can happen, one more look at each object, which any thread may make at any time, must be in vain: if it ends
//! a wait, that thread slept beside what was there for it, and a thread that has gone, or sleeps itself, has not told it.
//!
//! No world says whose wake is missing, nor for what its threads wait: so this finds also what a world excuses, or has not thought of. It is no
//! verdict on threads behind a stopped one, which may be about to tell them, nor while a death is not made up for. A kill or stop after the look may
//! give a waiter what it waits for, and ends the look without a verdict; the next rest begins another one. Private ends of tubes are left out: only
//! the tube's users know what there is.

use chappe_arena::Map;
use chappe_crashsim::{World, falls};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_sync::model;
use std::cell::RefCell;

/// A wait: the member, which use of its number it is, and the ticket, which it keeps until the wait ends.
type Wait = (u32, u64, u64);

/// A look: the kills and stops before it, and which waits there were.
struct Look(u64, Vec<Wait>);

fn its(map: &Map, member: u32) -> Wait {
    let m = map.member(member);
    (member, m.ident.load(SeqCst), m.ticket.load(SeqCst))
}

impl Look {
    fn begin(map: &Map) -> Look {
        let waiting = (0..map.geometry().members).filter(|m| model::is_waiting(map, *m));
        let look = Look(falls(), waiting.map(|m| its(map, m)).collect());
        model::drain_all(map);
        look
    }

    /// Nothing but what the look has caused has happened since.
    fn judge(&self, map: &Map) {
        let Look(_, waits) = self;
        for wait in waits {
            let still = model::is_waiting(map, wait.0) && its(map, wait.0) == *wait;
            assert!(still, "a wake was owed: member {} slept beside what was there for it", wait.0);
        }
    }
}

pub fn nothing_is_owed(world: &World, map: &'static Map) {
    let last = world.share(RefCell::new(None::<Look>));
    world.at_rest(move || {
        if (0..map.geometry().members).any(|m| map.dead(m).is_some()) {
            return;
        }
        let mut last = last.borrow_mut();
        match &*last {
            Some(look) if look.0 == falls() => look.judge(map),
            _ => *last = Some(Look::begin(map)),
        }
    });
    // All threads are through, or sleep and are excused: what was told at the last rest has happened.
    world.check(move || {
        if let Some(look) = last.borrow().as_ref().filter(|look| look.0 == falls()) {
            look.judge(map);
        }
    });
}
