//! Readers-writer locks, and their parts, in the table of kinds; how they are made, and how what killed makers and removers leave is cleared.
//! Invariants: those of `word`.

use super::word::Parts;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Admin, ArenaError, Dead, Map, Place, Protocol, Visitor};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::kinds;
#[cfg(not(feature = "sim"))]
use chappe_wait::owner::KEPT;
use chappe_wait::owner::{TORN, free_word, held_by, is_had, lay_data, load, pass, store_words, unheld};
use chappe_wait::part::{MAKING, head_of, is_being_made, whole, whole_in_service};
use chappe_wait::wait::{notify_dead, waits_on};

/// Makes a lock with `bytes` of data. The caller holds `admin` and has seen that the name is free; `fill` writes the data.
pub(crate) fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    (bytes, hash): (usize, u32),
    fill: impl FnOnce(*mut u8),
) -> Result<Place, ArenaError> {
    sweep(map, admin);
    let make_part = |kind| {
        map.make(admin, "", kind, |index, generation| {
            let o = map.object(index);
            o.permits.store(0, Ordering::Relaxed); // Relaxed: published by the head.
            o.more.store(0, Ordering::Relaxed); // Relaxed: as above.
            o.hint.store(MAKING, Ordering::Relaxed); // Relaxed: as above.
            store_words(o, unheld(generation), 1);
            Ok(())
        })
    };
    let line = make_part(Kind::Line)?;
    step!("line made, lock not yet");
    let made = make_part(Kind::Inside).and_then(|inside| {
        let made = map.make(admin, name, Kind::RwLock, |index, generation| {
            lay_data(map, (index, generation), bytes, hash, fill)?;
            let both = u64::from(line.index + 1) | u64::from(inside.index + 1) << 32;
            for its in [line, inside].map(|part| map.object(part.index)) {
                its.permits.store(generation, Ordering::Relaxed); // Relaxed: as above.
                its.hint.store(index + 1, Ordering::Release); // Release: after the generation.
            }
            store_words(map.object(index), free_word(Head::live(generation, Kind::RwLock)), both);
            Ok(())
        });
        if made.is_err() {
            map.unmake(admin, inside);
        }
        made
    });
    if made.is_err() {
        map.unmake(admin, line);
    }
    made
}

/// I7: removes parts whose locks are not in service. Answers how many of the parts were in service.
pub(crate) fn sweep(map: &'static Map, admin: &Admin) -> u32 {
    let mut swept = 0;
    for index in 0..map.objects_used() {
        let head = head_of(map, index);
        let Some(kind) = head.kind().filter(|kind| matches!(kind, Kind::Line | Kind::Inside)) else { continue };
        if head.in_service() && lock_of(map, index).is_none() {
            map.unmake(admin, Place { index, head: Head::live(head.generation(), kind) });
            swept += 1;
        }
    }
    swept
}

/// The lock of a part, if that is in service.
fn lock_of(map: &Map, part: u32) -> Option<Place> {
    whole_in_service(map, part, Kind::RwLock)
}

/// Drains a part in service: drains its lock, or, if the lock has gone, takes the part out of service.
fn drain_part(map: &Map, object: u32, head: Head) {
    // I7. This order: a lock that was made between the two looks is found by the second.
    if is_being_made(map, object) {
        return;
    }
    step!("seen that the lock of a part is not being made");
    if let Some(lock) = lock_of(map, object) {
        return kinds::drain(map, lock.index);
    }
    // SeqCst: before the look at the bits. A failure: another thread did it.
    let _ = map.object(object).head.compare_exchange(head.0, head.dead().0, Ordering::SeqCst, Ordering::SeqCst);
    notify_dead(map, object, head.dead(), &mut map.visitor());
}

/// I7: whether the lock of a removed part is not yet cleared.
fn is_part_used(map: &Map, object: u32) -> bool {
    let its = |(lock, generation)| {
        let now = head_of(map, lock);
        now.kind() == Some(Kind::RwLock) && !now.is_free() && now.generation() == generation
    };
    whole(map, object).is_some_and(its)
}

/// Locks in the table of kinds.
pub(crate) struct RwLocks;

impl Protocol for RwLocks {
    fn drain(&self, map: &Map, index: u32, head: Head) {
        if let Some(parts) = Parts::of(map, Place { index, head }) {
            parts.drain();
        }
    }

    fn announce(&self, map: &Map, index: u32) {
        let lock = Place { index, head: head_of(map, index) };
        if let Some(parts) = Parts::of(map, lock) {
            parts.mark();
        }
    }

    fn left(&self, map: &Map, object: u32, _member: u32) {
        // I4: it may have been the first.
        kinds::drain(map, object);
    }

    fn recover(&self, map: &Map, at: Place, dead: Dead, _me: &mut Visitor<'_>) -> bool {
        let head = Head::live(at.head.generation(), Kind::RwLock);
        if let Some(parts) = Parts::of(map, Place { head, ..at }) {
            pass(parts.object(), held_by(dead.member, dead.generation), parts.free | TORN);
        }
        false
    }

    fn is_used(&self, map: &Map, index: u32, head: Head) -> bool {
        let written = is_had(load(map.object(index)));
        let parts = Parts::of(map, Place { index, head: Head::live(head.generation(), Kind::RwLock) });
        // I7. The bits of dead members count too: the owners of their life words clear them.
        written || parts.is_some_and(|p| map.has_a_bit(p.line.index) || map.has_a_bit(p.inside))
    }

    #[cfg(not(feature = "sim"))]
    fn is_held(&self, map: &Map, index: u32, head: Head, member: u32, generation: u32) -> bool {
        let parts = Parts::of(map, Place { index, head: Head::live(head.generation(), Kind::RwLock) });
        let writes = load(map.object(index)) & !KEPT == held_by(member, generation);
        parts.is_some_and(|parts| writes || parts.reads(member))
    }

    #[cfg(not(feature = "sim"))]
    fn abandon(&self, map: &Map, at: Place, leaver: Dead, _me: &mut Visitor<'_>) {
        let head = Head::live(at.head.generation(), Kind::RwLock);
        if let Some(parts) = Parts::of(map, Place { head, ..at }) {
            parts.abandon(leaver.member, held_by(leaver.member, leaver.generation));
        }
    }

    #[cfg(not(feature = "sim"))]
    fn line(&self, map: &'static Map, place: Place) -> Option<Vec<(u32, u32)>> {
        let mut all = Vec::new();
        for at in [Some(place.index), Parts::of(map, place).map(|parts| parts.line.index)].into_iter().flatten() {
            all.extend(kinds::arrived(map, at).into_iter().map(|member| (at, member)));
        }
        all.sort_by_key(|(_, member)| chappe_wait::wait::ticket_of(map, *member));
        Some(all)
    }
}

/// The parts of locks in the table of kinds.
pub(crate) struct LockParts {
    /// Whether a bit that stands is that of a waiter.
    pub is_line: bool,
}

impl Protocol for LockParts {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        drain_part(map, object, head);
    }

    fn announce(&self, map: &Map, object: u32) {
        if let Some(lock) = lock_of(map, object) {
            RwLocks.announce(map, lock.index);
        }
    }

    fn left(&self, map: &Map, object: u32, _member: u32) {
        kinds::drain(map, object);
    }

    fn clear(&self, map: &Map, at: Place, member: u32, _me: &mut Visitor<'_>) {
        let object = at.index;
        if !self.is_line && waits_on(map, object, member) {
            // I5: while its cleaner owns its life word, a dead reader counts.
            // SeqCst: E1, before the look at the word.
            map.waiting(object, member as usize / 64).fetch_and(!(1 << (member % 64)), Ordering::SeqCst);
            if let Some(parts) = lock_of(map, object).and_then(|lock| Parts::of(map, lock)) {
                parts.drain_after();
            }
        }
    }

    fn is_queue(&self) -> bool {
        self.is_line
    }

    fn is_used(&self, map: &Map, object: u32, _head: Head) -> bool {
        is_part_used(map, object)
    }
}
