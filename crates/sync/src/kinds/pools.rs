//! In the table of kinds: pools; and owned semaphores, which are shown under their pool.

use super::{Dead, Protocol, biased_to_another};
use crate::{bias, drain as pool};
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Visitor};

#[cfg(not(any(feature = "sim", feature = "loom")))]
use super::Failure;
#[cfg(not(feature = "sim"))]
use crate::{
    cell::{Tag, Word},
    drain::{cells, left_by_the_dead, permits},
    examine::{Had, is_over},
    inspect::{self, ObjectState},
    owned::{self, Pair},
};

pub(super) struct Pools;

/// Whether it is biased to another member. (In a pool of several permits the word is its first permit's, and tells nothing of the others: false.)
fn is_anothers(map: &Map, object: u32, member: u32) -> bool {
    let one = pool::permits(map, object) == 1 && map.extents(object).next().is_none();
    one && biased_to_another(map, object, member)
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
        let its = |w: Word| matches!(w.tag(), Tag::Held | Tag::Leased) && w.member() == member && w.aux() == generation;
        cells(map, object).any(|(_, cell)| its(cell.load()))
    }

    #[cfg(not(feature = "sim"))]
    fn line(&self, map: &'static Map, place: Place) -> Vec<(u32, u32)> {
        // Each waiter of an owned semaphore stands in both lines.
        let all = Pair::of(map, place).map_or_else(|| super::arrived(map, place.index), |pair| pair.arrived());
        all.into_iter().map(|member| (place.index, member)).collect()
    }

    #[cfg(not(feature = "sim"))]
    fn look(&self, map: &'static Map, place: Place, name: &str) -> Option<ObjectState> {
        if owned::name_of(map, place).is_none() {
            return Some(ObjectState::Pool(inspect::info(map, place, name.to_owned())?));
        }
        let pair = Pair::of(map, place)?;
        let (value, holder, demoted) = (pair.value(), inspect::holder(map, pair.word()), pair.is_plain());
        Some(ObjectState::Owned { value, holder, demoted })
    }

    #[cfg(not(feature = "sim"))]
    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        let broken = owned::is_part(map, map.object(place.index)) && Pair::of(map, place).is_none();
        broken.then_some("its parts do not belong together")
    }

    #[cfg(not(feature = "sim"))]
    fn nonsense(&self, map: &'static Map, place: Place) -> Option<String> {
        let (there, count) = (cells(map, place.index).count(), permits(map, place.index) as usize);
        let alien = cells(map, place.index).filter(|(_, cell)| !cell.load().is_ours()).count();
        if alien > 0 {
            return Some(format!("{alien} of its permits have words that are none"));
        }
        (count > there).then(|| format!("it has {count} permits, and words for {there}"))
    }

    #[cfg(not(feature = "sim"))]
    fn had(&self, map: &Map, place: Place, member: u32, generation: u32) -> Vec<Had> {
        let with = |tag| {
            let its = move |word: Word| word.tag() == tag && word.member() == member && word.aux() == generation;
            cells(map, place.index).filter(|(_, c)| its(c.load())).map(|(position, _)| position).collect::<Vec<_>>()
        };
        let (held, leased) = (with(Tag::Held), with(Tag::Leased));
        let o = map.object(place.index);
        if owned::is_part(map, o) && !held.is_empty() {
            let kept = cells(map, place.index).any(|(_, cell)| cell.load().is_kept());
            return vec![Had::Owned { demoted: kept || owned::is_plain(map, o) }];
        }
        let some = |list: Vec<u32>, had: fn(Vec<u32>) -> Had| (!list.is_empty()).then(|| had(list));
        [some(held, Had::Permits), some(leased, Had::Leased)].into_iter().flatten().collect()
    }

    #[cfg(not(feature = "sim"))]
    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let mut positions = Vec::new();
        for (position, cell) in cells(map, place.index) {
            let seen = cell.load();
            let owned = matches!(seen.tag(), Tag::Held | Tag::Leased) && !seen.is_orphan() && !seen.is_retired();
            // A lease whose holder is gone belongs to its job.
            let next = || match seen.tag() {
                Tag::Leased => seen.orphaned(),
                _ => left_by_the_dead(map, place, position, seen),
            };
            if owned && is_over(map, seen.member(), seen.aux()) && cell.swap(seen, next()) {
                positions.push(position);
            }
        }
        if positions.is_empty() {
            return Vec::new();
        }
        super::drain(map, place.index);
        vec![Had::Permits(positions)]
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    fn remove(&self, map: &'static Map, place: Place, name: &str, force: bool) -> Result<(), Failure> {
        if owned::name_of(map, place).is_none() {
            return Ok(crate::Pool::remove(name, force)?);
        }
        let arena = crate::Arena::open(map.name())?;
        Ok(owned::RobustSemaphore::in_arena(&arena, &map.name_of(map.object(place.index)))?.remove(force)?)
    }
}
