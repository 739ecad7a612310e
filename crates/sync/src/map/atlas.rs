//! A map of an arena as a protocol: a table in the arena's blocks, who may be changing it, and who waits for it to change.
//!
//! ```text
//!  MapHead: shape, what keys and values are | users' bits | table
//! ```
//!
//! A member's bit says that it may be in the middle of a change, or have been killed there. It is set, under `admin`, before the
//! member's first change, and stays until the thread ends, or finds the map removed: a change looks at its bit, and sets nothing.
//! Who only looks at the map has no bit.
//!
//! - I1: a member sets its bit only under `admin`, with the map in service, and changes the table only after it has seen its bit, and
//!   then the map in service. Removal is under `admin`, and the blocks are used again only when no bit stands. So the blocks of a removed map become another's only when nobody can change them as
//!   the map's.
//! - I2: who looked at the table, and then at the map, found in service, has seen the map's words: the blocks were its own.
//! - I3: a dead member's bit goes only with its life word in the hands of who clears it, after recovery: see `clear`. So a later
//!   member of that number, which may set the bit anew, is not there yet.
//! - I4: who waits for a change has its bit in the wait queue set before it looks; who changes looks at those bits afterwards. So one
//!   of the two sees the other. A changer that dies in between is made up for: recovery tells all who wait, and they look.
//!
//! Who waits is told as with a condition variable, all at once.
//!
//! Explored: the table, `tests/crash_table.rs`. Left out there: removal and reuse, of which `crates/chappe/tests/maps.rs` holds that a bit
//! keeps the blocks.

use crate::condvar;
use crate::table::{Shape, Table};
use chappe_arena::layout::{BLOCK, Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{clock, process, step};
use std::mem::size_of;
use std::ptr::NonNull;

/// The word of the object: as if reserved, of the mutex's tags, for nobody.
const WORD: u64 = 7 | 0xfff << 28;

/// What a map has besides its table.
#[repr(C, align(64))]
struct MapHead {
    entries: AtomicU32,
    key: AtomicU32,
    value: AtomicU32,
    spare: AtomicU32,
    /// Of the types of its keys and values.
    keys: AtomicU64,
    values: AtomicU64,
}

/// What the keys and values of a map are: a hash of their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Of keys.
    pub keys: u64,
    /// Of values.
    pub values: u64,
}

/// A map of an arena, as one process sees it.
#[derive(Clone, Copy)]
pub struct Atlas<'m> {
    map: &'m Map,
    place: Place,
    object: &'m Object,
    /// The table.
    pub table: Table<'m>,
    /// What is in it.
    pub types: Types,
    users: &'m [AtomicU64],
}

fn words(map: &Map) -> usize {
    map.geometry().members.div_ceil(64) as usize
}

/// Where the table begins.
fn table_at(members: u32) -> usize {
    size_of::<MapHead>() + (members.div_ceil(64) as usize * 8).next_multiple_of(64)
}

/// How many blocks a map takes in an arena of so many members.
pub(crate) fn blocks_wanted(shape: Shape, members: u32) -> u32 {
    u32::try_from((table_at(members) + shape.bytes()).div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

impl<'m> Atlas<'m> {
    /// The map at a place, in service or removed; none if there is no such map any more.
    pub fn of(map: &'m Map, place: Place) -> Option<Atlas<'m>> {
        let object = map.object(place.index);
        // Acquire, both: written before the object was in service.
        let (more, blocks) = (object.more.load(Ordering::Acquire), object.permits.load(Ordering::Acquire));
        let (first, bytes) = (more.checked_sub(1)?, blocks as usize * BLOCK);
        if first.checked_add(blocks)? > map.geometry().blocks || bytes < table_at(map.geometry().members) {
            return None;
        }
        let at = NonNull::new(map.blocks(first, blocks))?;
        // SAFETY: within the mapping, and aligned as every block; any bytes are a `MapHead`.
        let head = unsafe { at.cast::<MapHead>().as_ref() };
        // SAFETY: as above: the bits come after it.
        let users = unsafe { std::slice::from_raw_parts(at.add(size_of::<MapHead>()).cast().as_ptr(), words(map)) };
        let read = |word: &AtomicU32| word.load(Ordering::Relaxed); // Relaxed: before the second look.
        let (entries, key) = (read(&head.entries), read(&head.key));
        let shape = Shape { entries, key, value: read(&head.value), spare: read(&head.spare) };
        // Relaxed, both: before the second look.
        let types = Types { keys: head.keys.load(Ordering::Relaxed), values: head.values.load(Ordering::Relaxed) };
        let room = bytes - table_at(map.geometry().members);
        // The second look, after all the others: what was read is this map's.
        if !shape.is_possible() || shape.bytes() > room || !is_place_of(object, place) {
            return None;
        }
        // SAFETY: within the blocks, as was just seen; they were zeroed when the map was made, and are touched by atomic words only.
        let table = unsafe { Table::new(at.add(table_at(map.geometry().members)), shape) };
        Some(Atlas { map, place, object, table, types, users })
    }

    /// Whether it is in service; after a look at the table: whether what was seen was its own (I2).
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        // SeqCst: I1, after the bit. Acquire would do for I2.
        self.object.head.load(Ordering::SeqCst) == self.place.head.0
    }

    fn bit(&self, member: u32) -> (&AtomicU64, u64) {
        (&self.users[member as usize / 64 % self.users.len()], 1 << (member % 64))
    }

    /// I1: whether a member may begin a change. If not, it has not come yet, or the map was removed.
    #[inline(always)]
    pub fn may_change(&self, member: u32) -> bool {
        let (word, bit) = self.bit(member);
        // Relaxed: only the member sets its bit, and only who has its life word clears it. What was read is the map's word if the map
        // is then found in service.
        word.load(Ordering::Relaxed) & bit != 0 && self.is_live()
    }

    /// I1: before a member's first change. False: it was removed.
    #[cold]
    pub fn enter(&self, _admin: &Admin, member: u32) -> bool {
        if !self.is_live() {
            self.leave(member);
            return false;
        }
        let (word, bit) = self.bit(member);
        step!("in service, and stays so while we have the right to change the set of objects");
        // SeqCst: I1, before a remover's look.
        word.fetch_or(bit, Ordering::SeqCst);
        true
    }

    /// The member is in the middle of no change. The blocks may be another's: then its bit was not set.
    pub fn leave(&self, member: u32) {
        let (word, bit) = self.bit(member);
        // Relaxed: our own. While it stands, the blocks are the map's.
        if word.load(Ordering::Relaxed) & bit != 0 && is_place_of(self.object, self.place) {
            word.fetch_and(!bit, Ordering::SeqCst); // SeqCst: I1.
        }
    }

    /// I4: tells all who wait for a change.
    #[inline(always)]
    pub fn changed(&self) {
        if self.map.waits_on(self.place.index, self.object) {
            condvar::notify_all(self.map, self.place.index);
        }
    }

    /// The members that have a bit.
    pub fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.users.iter().enumerate().flat_map(|(i, word)| {
            // SeqCst: I1.
            let word = word.load(Ordering::SeqCst);
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| i as u32 * 64 + bit)
        })
    }
}

/// Whether the place is this map's, in service or removed.
fn is_place_of(object: &Object, place: Place) -> bool {
    // Acquire: after what was read, before what is changed.
    let now = Head(object.head.load(Ordering::Acquire));
    now == place.head.dead() || now.0 == place.head.0
}

fn at(map: &Map, object: u32, head: Head) -> Option<Atlas<'_>> {
    Atlas::of(map, Place { index: object, head })
}

/// Wakes whom an unfinished telling was for. The object is a map in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    condvar::drain(map, object, head);
}

/// What a dead member's death leaves of a map.
pub(crate) fn recover(map: &Map, object: u32, head: Head, member: u32, generation: u32) {
    let Some(atlas) = at(map, object, head) else { return };
    let (word, bit) = atlas.bit(member);
    // SeqCst: I1. Without its bit it was in the middle of nothing.
    if word.load(Ordering::SeqCst) & bit == 0 {
        return;
    }
    let m = map.member(member);
    let is_dead = || {
        // Acquire, both: R5 of the table, after the state.
        (m.ident.load(Ordering::Acquire) >> 32) as u32 == generation && m.swept.load(Ordering::Acquire) != generation
    };
    atlas.table.recover(member as u16, || is_dead() && is_place_of(atlas.object, atlas.place));
    if head.in_service() {
        // I4: it may have changed something, and told nobody.
        atlas.changed();
    }
}

/// I3: with a dead member's life word ours.
pub(crate) fn clear(map: &Map, object: u32, head: Head, member: u32) {
    if let Some(atlas) = at(map, object, head) {
        atlas.leave(member);
    }
}

/// I1: whether somebody may be in the middle of a change.
pub(crate) fn is_used(map: &Map, object: u32, head: Head) -> bool {
    at(map, object, head).is_some_and(|atlas| atlas.users().next().is_some())
}

/// Makes one. The caller holds `admin` and has seen that the name is free. Without a shape it has no table: a private one's is
/// elsewhere.
pub fn make(map: &'static Map, admin: &Admin, name: &str, shape: Option<(Shape, Types)>) -> Result<Place, ArenaError> {
    let blocks = shape.map_or(0, |(shape, _)| blocks_wanted(shape, map.geometry().members));
    let most = map.geometry().blocks;
    if blocks > most {
        return Err(ArenaError::BlocksFull { name: map.name().into(), wanted: blocks, capacity: most });
    }
    map.make(admin, name, Kind::Map, |index, generation| {
        let o = map.object(index);
        let first = match shape {
            Some((shape, types)) => {
                let first = map.claim_blocks(index, generation, blocks)?;
                fill(map, first, blocks, shape, types);
                first + 1
            }
            None => 0,
        };
        o.more.store(first, Ordering::Relaxed); // Relaxed: published by the head.
        o.permits.store(blocks, Ordering::Relaxed); // Relaxed: as above.
        o.hint.store(0, Ordering::Relaxed); // Relaxed: as above.
        // No later than any ticket; and not what a pool may have had there: see `CellRef::note`.
        o.slot.since.store(1, Ordering::Relaxed); // Relaxed: as above.
        // Release: whatever its last user did with the slot comes before.
        o.slot.word.store(WORD, Ordering::Release);
        Ok(())
    })
}

fn fill(map: &Map, first: u32, blocks: u32, shape: Shape, types: Types) {
    let at = map.blocks(first, blocks);
    // SAFETY: the blocks are ours, and nobody else knows of them yet; they may have been another object's before.
    unsafe { at.write_bytes(0, blocks as usize * BLOCK) };
    // SAFETY: as above; zeros are a `MapHead`.
    let head = unsafe { &*at.cast::<MapHead>() };
    head.entries.store(shape.entries, Ordering::Relaxed); // Relaxed, here and below: published by the head.
    head.key.store(shape.key, Ordering::Relaxed); // Relaxed: as above.
    head.value.store(shape.value, Ordering::Relaxed); // Relaxed: as above.
    head.spare.store(shape.spare, Ordering::Relaxed); // Relaxed: as above.
    head.keys.store(types.keys, Ordering::Relaxed); // Relaxed: as above.
    head.values.store(types.values, Ordering::Relaxed); // Relaxed: as above.
    // SAFETY: so many bytes, zeroed, from a multiple of 64.
    let table = unsafe { Table::new(NonNull::new_unchecked(at.add(table_at(map.geometry().members))), shape) };
    table.seed_with(clock::now() ^ u64::from(process::pid()) << 40);
}
