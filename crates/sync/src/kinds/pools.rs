//! In the table of kinds: pools; and owned semaphores, which are shown under their pool.

use crate::{bias, drain as pool};
use chappe_arena::layout::Head;
use chappe_arena::{Dead, Map, Place, Protocol, Visitor};

#[cfg(not(feature = "sim"))]
use crate::drain::cells;
#[cfg(not(feature = "sim"))]
use crate::owned::Pair;
#[cfg(not(feature = "sim"))]
use chappe_wait::cell::{Tag, Word};

pub(super) struct Pools;

/// Whether it is biased to another member. (In a pool of several permits the word is its first permit's, and tells nothing of the others: false.)
fn is_anothers(map: &Map, object: u32, member: u32) -> bool {
    let one = pool::permits(map, object) == 1 && map.extents(object).next().is_none();
    one && bias::is_anothers(map, object, member)
}

impl Protocol for Pools {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        pool::drain(map, object, head);
    }

    fn announce(&self, map: &Map, object: u32) {
        bias::settled(map, map.object(object));
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, _me: &mut Visitor<'_>) -> bool {
        if is_anothers(map, at.index, dead.member) {
            return false;
        }
        bias::settled_of(map, map.object(at.index), dead.member, dead.generation);
        pool::recover(map, at.index, at.head, dead.member, dead.generation)
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
        if is_anothers(map, object, member) || !head.in_service() {
            return false;
        }
        bias::settled_of(map, map.object(object), member, generation);
        let its = |w: Word| matches!(w.tag(), Tag::Held | Tag::Leased) && w.member() == member && w.is_of(generation);
        cells(map, object).any(|(_, cell)| its(cell.load()))
    }

    #[cfg(not(feature = "sim"))]
    fn line(&self, map: &'static Map, place: Place) -> Option<Vec<(u32, u32)>> {
        // Each waiter of an owned semaphore stands in both lines.
        let all = Pair::of(map, place)?.arrived();
        Some(all.into_iter().map(|member| (place.index, member)).collect())
    }
}
