//! This process's own arena: which it is, and its copy in a forked child.

use crate::kinds;
use crate::wait::State;
use chappe_arena::{ArenaError, Map};
use chappe_plat::atomic::Ordering;
use chappe_plat::{Made, light, process};
use std::sync::Mutex;

/// What [`PRIVATE`] said first, and in which incarnation of the process: readable without its lock. A forked child takes the lock.
static FIRST: Made<(u64, &'static Map)> = Made::new();

pub static PRIVATE: Mutex<Option<(u64, &'static Map)>> = Mutex::new(None);

/// The arena, if it was made: in a forked child its copy, which this makes usable first.
pub fn usable() -> Option<&'static Map> {
    first().or_else(|| of_slot(&mut light::lock(&PRIVATE)))
}

/// The arena, if it was made in this incarnation of the process. Takes no lock.
pub fn first() -> Option<&'static Map> {
    let (incarnation, map) = FIRST.get()?;
    (*incarnation == process::incarnation()).then_some(map)
}

/// The arena, which is made if there is none.
pub fn found(make: impl FnOnce() -> Result<&'static Map, ArenaError>) -> Result<&'static Map, ArenaError> {
    let mut slot = light::lock(&PRIVATE);
    let map = match of_slot(&mut slot) {
        Some(map) => map,
        None => {
            let (map, now) = (make()?, process::incarnation());
            // No member outlives the process here, so nobody need notice its death.
            map.cover(now);
            *slot = Some((now, map));
            map
        }
    };
    FIRST.get_or(|| (process::incarnation(), map));
    Ok(map)
}

fn of_slot(slot: &mut Option<(u64, &'static Map)>) -> Option<&'static Map> {
    let (incarnation, map) = slot.as_mut()?;
    let now = process::incarnation();
    if *incarnation != now {
        purge(map);
        map.cover(now);
        *incarnation = now;
    }
    Some(map)
}

/// In a forked child: removes all members from its copy of the private arena; they are threads of another process.
fn purge(map: &'static Map) {
    // The child has one thread at its first use of the arena: the one that forked.
    map.reset_locks();
    // No wait goes on here. This comes first, or a permit that goes back would be granted to one of the parent's threads:
    // the word of a mixed choice lies in memory that the parent shares.
    let idle = |i: u32, state: State| {
        let m = map.member(i);
        let number = state.number(|| m.era.load(Ordering::Relaxed)); // Relaxed: nobody else runs here.
        m.state.store(State::idle(number).0, Ordering::Relaxed); // Relaxed: as above.
    };
    let states = |of: fn(State) -> bool| {
        let load = move |i: u32| (i, State(map.member(i).state.load(Ordering::Relaxed))); // Relaxed: as above.
        (0..map.members_used()).map(load).filter(move |(_, state)| of(*state))
    };
    map.forget_parents_batches();
    for i in 0..map.members_used() {
        map.member(i).alias.store(0, Ordering::Relaxed); // Relaxed: as above.
    }
    states(State::is_waiting).for_each(|(i, state)| idle(i, state));
    for object in 0..map.objects_used() {
        for (first, _) in map.enlisted(object) {
            map.waiting(object, first as usize / 64).store(0, Ordering::Relaxed); // Relaxed: as above.
        }
    }
    // What a thread was granted and had not taken goes back.
    states(State::is_granted).for_each(|(i, state)| {
        kinds::take_back(map, i, state, None);
        idle(i, state);
    });
    for i in 0..map.members_used() {
        let m = map.member(i);
        // Relaxed, both: nobody else runs here.
        let generation = (m.ident.load(Ordering::Relaxed) >> 32) as u32;
        if generation != 0 && m.swept.load(Ordering::Relaxed) != generation {
            map.sweep(i, generation);
        }
    }
}
