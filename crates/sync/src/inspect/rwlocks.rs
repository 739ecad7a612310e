//! What observers see of readers-writer locks, and of their parts. Invariants: those of `word`.

use super::row::{Had, Inspected, ObjectState, is_over};
use crate::lease::locks::{self, LockJob};
use crate::rwlock::word::Parts;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{LifeState, Map, Place, Who};
use chappe_wait::cell::NOBODY;
use chappe_wait::kinds;
use chappe_wait::owner::{FREE, HELD, KEPT, TORN, aux_of, held_by, is_condemned, load, member_of, pass};
use chappe_wait::part::{head_of, whole};
use chappe_wait::wait::queue;
use chappe_wait::waiters::{Waiter, bytes, waiters};

#[cfg(not(feature = "loom"))]
use super::row::Failure;

/// Locks.
pub(super) struct RwLocks;

impl Inspected for RwLocks {
    fn look(&self, map: &'static Map, place: Place, _name: &str) -> Option<ObjectState> {
        let (seen, inside) = Inside::look(map, place)?;
        let Inside { writer, readers, jobs, waits_for_jobs } = inside;
        Some(ObjectState::RwLock {
            writer,
            readers,
            jobs,
            waits_for_jobs,
            torn: seen & TORN != 0 && !is_condemned(seen),
            condemned: is_condemned(seen),
            bytes: bytes(map, place) as u32,
        })
    }

    fn line(&self, map: &'static Map, place: Place) -> Vec<Waiter> {
        let mut line = Inside::look(map, place).map(|(_, inside)| inside.waits_for_jobs).unwrap_or_default();
        line.append(&mut waiters(map, place));
        line
    }

    fn unreadable(&self, map: &'static Map, place: Place) -> Option<&'static str> {
        if Parts::of(map, place).is_none() {
            return Some("its parts do not belong together");
        }
        (load(map.object(place.index)) & 7 < FREE).then_some("its word is none of a readers-writer lock")
    }

    fn had(&self, map: &Map, place: Place, member: u32, generation: u32) -> Vec<Had> {
        let writes = load(map.object(place.index)) & !KEPT == held_by(member, generation);
        let reads = Parts::of(map, place).is_some_and(|parts| parts.reads(member));
        let some = |is: bool, had| is.then_some(had);
        [some(writes, Had::Writes), some(reads, Had::Reads)].into_iter().flatten().collect()
    }

    fn free(&self, map: &'static Map, place: Place) -> Vec<Had> {
        let Some(parts) = Parts::of(map, place) else { return Vec::new() };
        let mut had = Vec::new();
        let seen = load(parts.object());
        let (member, generation) = (member_of(seen), aux_of(seen));
        let names = seen & 7 == HELD && member != NOBODY && is_over(map, member, generation);
        if names && pass(parts.object(), held_by(member, generation), parts.free | TORN).is_some() {
            had.push(Had::Writes);
        }
        for member in parts.readers() {
            if map.occupant(member).is_none()
                && let Some(_vacant) = map.vacant(member)
            {
                parts.out(member);
                had.push(Had::Reads);
            }
        }
        kinds::drain(map, place.index);
        had
    }

    fn users(&self, map: &Map, place: Place) -> Option<Vec<u32>> {
        let lock = Place { index: place.index, head: Head::live(place.head.generation(), Kind::RwLock) };
        let (seen, parts) = (load(map.object(place.index)), Parts::of(map, lock)?);
        let writer = (seen & 7 == HELD && !is_condemned(seen)).then(|| member_of(seen));
        // The line may be removed as well.
        let line = Place { head: head_of(map, parts.line.index), ..parts.line };
        Some(parts.readers().chain(queue(map, line)).chain(writer).collect())
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, name: &str, force: bool) -> Result<(), Failure> {
        Ok(crate::RwLock::<()>::remove(name, force)?)
    }
}

/// Those that the lock's words have inside, and the jobs that keep some of them waiting there.
struct Inside {
    writer: Option<Who>,
    readers: Vec<Who>,
    jobs: Vec<LockJob>,
    waits_for_jobs: Vec<Waiter>,
}

impl Inside {
    /// And the lock's word.
    fn look(map: &'static Map, place: Place) -> Option<(u64, Inside)> {
        let parts = Parts::of(map, place)?;
        let seen = load(parts.object());
        let writes = seen & 7 == HELD && member_of(seen) < map.geometry().members;
        let mut writer = writes.then(|| map.who(member_of(seen)));
        let mut readers: Vec<Who> = parts.readers().map(|member| map.who(member)).collect();
        let jobs = locks::left(map, place, &writer.iter().chain(&readers).collect::<Vec<_>>());
        let mut waits_for_jobs = Vec::new();
        let mut waits = |who: &Who| {
            // One that has died waits for nothing, and its number may be another process's.
            let waiting = locks::heeds(who).filter(|_| who.life == LifeState::Alive);
            waits_for_jobs.extend(waiting.map(|waiting| Waiter::aside(who.clone(), waiting)));
            waiting.is_some()
        };
        // A reader waits for a writer's job alone.
        if !jobs.is_empty() {
            writer = writer.filter(|who| !waits(who));
        }
        if jobs.iter().any(|job| job.writes) {
            readers.retain(|who| !waits(who));
        }
        Some((seen, Inside { writer, readers, jobs, waits_for_jobs }))
    }
}

/// The parts of locks.
pub(super) struct LockParts;

impl Inspected for LockParts {
    fn is_part(&self, _map: &Map, _place: Place) -> bool {
        true
    }

    fn whole(&self, map: &Map, place: Place) -> Option<(u32, &'static str)> {
        whole(map, place.index).map(|(lock, _)| (lock, " (to read)"))
    }

    fn look(&self, _map: &'static Map, _place: Place, _name: &str) -> Option<ObjectState> {
        None
    }

    #[cfg(not(feature = "loom"))]
    fn remove(&self, _map: &'static Map, _place: Place, _name: &str, _force: bool) -> Result<(), Failure> {
        Err("a part of a readers-writer lock goes with its lock".into())
    }
}
