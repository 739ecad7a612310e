//! The waiters of an object, as an observer sees them, and the bytes that it has.
//!
//! Put together from single loads while other threads go on: each line was true at some moment during the call.

use crate::kinds;
use crate::wait::waits_on;
use chappe_arena::layout::{BLOCK, Extent, Kind};
use chappe_arena::{LifeState, Map, Place, Who};
use chappe_plat::atomic::Ordering;
use chappe_plat::clock;
use std::time::Duration;

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The member that waits.
    pub who: Who,
    /// For how long, to a clock tick.
    pub waiting: Duration,
    /// It is a light thread, asleep at its proc's bell, or a task, whose process's bell it names as well.
    pub light: bool,
    /// Its priority, which counts where waiters are served by priority.
    pub priority: u8,
}

impl Waiter {
    /// One that waits for something else than its turn: no light thread, and of no priority.
    #[doc(hidden)]
    pub fn aside(who: Who, waiting: Duration) -> Waiter {
        Waiter { who, waiting, light: false, priority: 0 }
    }
}

/// The waiters of an object, in the order in which they will be served.
#[doc(hidden)]
pub fn waiters(map: &'static Map, place: Place) -> Vec<Waiter> {
    kinds::line(map, place)
        .into_iter()
        .map(|(at, member)| {
            // Relaxed: for showing only.
            let began = map.member(member).waiting_since.load(Ordering::Relaxed);
            // Relaxed: as above.
            let light = map.member(member).bell_of.load(Ordering::Relaxed) != 0;
            let priority = map.member(member).priority.load(Ordering::Relaxed).min(u8::MAX.into()) as u8; // Relaxed: as above.
            (at, Waiter { who: map.who(member), waiting: since(began), light, priority })
        })
        // The bit of a dead member is cleared before the member is said to be swept.
        .filter(|(at, w)| w.who.life == LifeState::Alive && waits_on(map, *at, w.who.member))
        .map(|(_, waiter)| waiter)
        .collect()
}

fn since(at: u64) -> Duration {
    Duration::from_nanos(clock::common_coarse().saturating_sub(at))
}

/// How many bytes of data a lock guards in the arena, or the object's blocks have; 0 for objects without either.
pub fn bytes(map: &Map, place: Place) -> u64 {
    // Acquire: written before the object was in service.
    let count = map.object(place.index).permits.load(Ordering::Acquire);
    match place.head.kind().map_or(Extent::Nothing, Kind::extent) {
        Extent::Bytes => count.into(),
        Extent::Blocks => u64::from(count) * BLOCK as u64,
        Extent::Cells | Extent::Nothing => 0,
    }
}
