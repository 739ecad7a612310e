//! What observers see of pools; and of owned semaphores, which are shown under their pool.

use super::row::{Had, Inspected, ObjectState};
use crate::drain::{cells, left_by_the_dead, permits};
use crate::holders;
use crate::owned::{self, Pair};
use chappe_arena::{Map, Place};
use chappe_wait::cell::{Tag, Word};
use chappe_wait::kinds;

#[cfg(not(feature = "loom"))]
use super::row::Failure;

pub(super) struct Pools;

impl Inspected for Pools {
    fn look(&self, map: &'static Map, place: Place, name: &str) -> Option<ObjectState> {
        if owned::name_of(map, place).is_none() {
            return Some(ObjectState::Pool(holders::info(map, place, name.to_owned())?));
        }
        let pair = Pair::of(map, place)?;
        let (value, holder, demoted) = (pair.value(), holders::holder(map, pair.word()), pair.is_plain());
        Some(ObjectState::Owned { value, holder, demoted })
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        let broken = owned::is_part(map, map.object(place.index)) && Pair::of(map, place).is_none();
        broken.then_some("its parts do not belong together")
    }

    fn nonsense(&self, map: &'static Map, place: Place) -> Option<String> {
        let (there, count) = (cells(map, place.index).count(), permits(map, place.index) as usize);
        let alien = cells(map, place.index).filter(|(_, cell)| !cell.load().is_ours()).count();
        if alien > 0 {
            return Some(format!("{alien} of its permits have words that are none"));
        }
        (count > there).then(|| format!("it has {count} permits, and words for {there}"))
    }

    fn had(&self, map: &Map, place: Place, member: u32, generation: u32) -> Vec<Had> {
        let with = |tag| {
            let its = move |word: Word| word.tag() == tag && word.member() == member && word.is_of(generation);
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
            let is_over = || map.occupant(seen.member()).is_none_or(|generation| !seen.is_of(generation));
            if owned && is_over() && cell.swap(seen, next()) {
                positions.push(position);
            }
        }
        if positions.is_empty() {
            return Vec::new();
        }
        kinds::drain(map, place.index);
        vec![Had::Permits(positions)]
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, map: &'static Map, place: Place, name: &str, force: bool) -> Result<(), Failure> {
        if owned::name_of(map, place).is_none() {
            return Ok(crate::Pool::remove(name, force)?);
        }
        let arena = crate::Arena::open(map.name())?;
        Ok(owned::RobustSemaphore::in_arena(&arena, &map.name_of(map.object(place.index)))?.remove(force)?)
    }
}
