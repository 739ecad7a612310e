//! The body of an object: for objects whose whole state lies in the arena's blocks, and which their members change without waiting: maps,
//! stacks, counters, words, servers.
//!
//! ```text
//!  BodyHead: four numbers (its shape), two hashes (its types) | users' bits | what the kind has
//! ```
//!
//! A member's bit says that the member may be in the middle of a change, or have been killed there. It is set, under `admin` (the right to
//! change the set of objects), before the member's first change, and stays until the thread ends. At a removed object it goes before that, when
//! the thread next opens, makes or removes an object (I4). A change only looks at the bit, and sets nothing. A member that only reads has no bit.
//!
//! - I1: a member sets its bit only under `admin`, with the object in service, and changes the body only after it has seen its bit, and
//!   then the object in service. Removal is under `admin`, and the blocks are used again only when no bit stands. So the blocks of a removed
//!   object go to another only when no member can change them as the first one's.
//! - I2: a member that looked at the body, and then found the object in service, has seen the object's words: the blocks were its own.
//! - I3: a dead member's bit is cleared only by the owner of its life word, after recovery: see `clear`. So a later
//!   member of that number, which may set the bit anew, is not there yet.
//! - I5: a thread that recovers a dead member has no bit. It looks for the dead one's, and changes the body within a visit (arena, visit.rs).
//! - I4: a living member's bit goes only where its thread is in the middle of no change, nor inside of a section, of any body. A signal handler
//!   that finds an object removed may have interrupted a change of it; so may a function that the change calls; and a thread that finds a lock
//!   removed may have it locked. So a thread keeps a list of its bits (`Attachments::entered`), and clears those at removed objects where it
//!   opens, makes or removes an object, which no handler does, unless it is inside of something (`attachment::Within`).
//!
//! Explored: left out; `crates/chappe/tests/maps.rs` and `slots_in_use.rs` hold that a bit keeps the blocks, and that it goes.

use crate::owner::{store_words, unheld};
use chappe_arena::layout::{BLOCK, Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place, Sort, Visit, Visitor};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::step;
use std::mem::size_of;
use std::ptr::NonNull;

#[repr(C, align(64))]
struct BodyHead {
    numbers: [AtomicU32; 4],
    types: [AtomicU64; 2],
}

/// What an object is made for: the kind says what each number means. All users of an object must give the same form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Its shape.
    pub numbers: [u32; 4],
    /// Hashes of the types that are in it.
    pub types: [u64; 2],
}

/// Such an object, as one process sees it.
#[derive(Clone, Copy)]
pub struct Body<'m> {
    map: &'m Map,
    place: Place,
    object: &'m Object,
    /// What it was made for.
    pub form: Form,
    /// Where the part of the kind begins: a multiple of 64.
    pub at: NonNull<u8>,
    /// How many bytes the part of the kind has.
    pub room: usize,
    users: &'m [AtomicU64],
}

// SAFETY: it leads to memory that is touched by atomic words only.
unsafe impl Send for Body<'_> {}
// SAFETY: as above.
unsafe impl Sync for Body<'_> {}

/// Where the part of the kind begins.
fn begins_at(members: u32) -> usize {
    size_of::<BodyHead>() + (members.div_ceil(64) as usize * 8).next_multiple_of(64)
}

/// How many blocks so many bytes take, in an arena of so many members.
#[inline]
pub fn blocks_wanted(bytes: usize, members: u32) -> u32 {
    u32::try_from((begins_at(members).saturating_add(bytes)).div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

impl<'m> Body<'m> {
    /// The body of the object at a place, in service or removed; none if that object is not there any more.
    pub fn of(map: &'m Map, place: Place) -> Option<Body<'m>> {
        let object = map.reach(place);
        // Acquire, both: written before the object was in service.
        let (more, blocks) = (object.more.load(Ordering::Acquire), object.permits.load(Ordering::Acquire));
        let (first, bytes) = (more.checked_sub(1)?, blocks as usize * BLOCK);
        let members = map.geometry().members;
        if first.checked_add(blocks)? > map.geometry().blocks || bytes < begins_at(members) {
            return None;
        }
        let start = NonNull::new(map.blocks(first, blocks))?;
        // SAFETY: within the mapping, and aligned as every block; any bytes are a `BodyHead`.
        let head = unsafe { start.cast::<BodyHead>().as_ref() };
        let words = members.div_ceil(64) as usize;
        // SAFETY: as above: the bits come after it.
        let users = unsafe { std::slice::from_raw_parts(start.add(size_of::<BodyHead>()).cast().as_ptr(), words) };
        let numbers = head.numbers.each_ref().map(|n| n.load(Ordering::Relaxed)); // Relaxed: before the second look.
        let types = head.types.each_ref().map(|t| t.load(Ordering::Relaxed)); // Relaxed: as above.
        // SAFETY: as above: what the kind has comes after the bits.
        let at = unsafe { start.add(begins_at(members)) };
        let body =
            Body { map, place, object, form: Form { numbers, types }, at, room: bytes - begins_at(members), users };
        // The second look, after all the others: what was read is this object's.
        // Acquire: after what was read.
        let now = Head(object.head.load(Ordering::Acquire));
        (now.stands() && now.generation() == place.head.generation()).then_some(body)
    }

    /// The arena.
    #[inline]
    pub fn map(&self) -> &'m Map {
        self.map
    }

    /// Where the object is, as it was found.
    #[inline]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The object.
    #[inline]
    pub fn object(&self) -> &'m Object {
        self.object
    }

    /// Whether the object is in service. After a look at the body: whether what was seen was the object's own (I2).
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        // SeqCst: I1, after the bit. Acquire would do for I2.
        self.object.head.load(Ordering::SeqCst) == self.place.head.0
    }

    fn bit(&self, member: u32) -> (&AtomicU64, u64) {
        (&self.users[member as usize / 64 % self.users.len()], 1 << (member % 64))
    }

    /// I1: whether a member may begin a change. If not, it has not entered yet, or the object was removed.
    #[inline(always)]
    pub fn may_change(&self, member: u32) -> bool {
        self.has_bit(member) && self.is_live()
    }

    /// Whether a member's bit stands.
    #[inline]
    pub fn has_bit(&self, member: u32) -> bool {
        let (word, bit) = self.bit(member);
        // Relaxed: only the member sets its bit, and only the owner of its life word clears it. What was read is the object's word if
        // the object is then found in service.
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// I1: sets a member's bit, before its first change. False: the object was removed; the bit may stand still, I4.
    #[cold]
    pub fn enter(&self, _admin: &Admin, member: u32) -> bool {
        if !self.is_live() {
            return false;
        }
        let (word, bit) = self.bit(member);
        step!("in service, and stays so while we have the right to change the set of objects");
        // SeqCst: I1, before a remover's look.
        word.fetch_or(bit, Ordering::SeqCst);
        true
    }

    /// The members whose bit is set.
    pub fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.users.iter().enumerate().flat_map(|(i, word)| {
            // SeqCst: I1.
            let word = word.load(Ordering::SeqCst);
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| i as u32 * 64 + bit)
        })
    }
}

/// A body in which a member may be, or have died, in the middle of a change, within a visit. `None`: it is gone, or without the member's bit, which is
/// looked at first, so that no visit is made in vain.
#[inline]
pub fn unfinished_by<'m, 'v>(
    map: &'m Map,
    at: Place,
    member: u32,
    me: &'v mut Visitor<'_>,
) -> Option<(Body<'m>, Visit<'v>)> {
    let body = Body::of(map, at).filter(|body| body.has_bit(member))?;
    Some((body, me.visit(at)?))
}

/// Clears a member's bit: I3, a dead one's, by the owner of its life word; or I4, by the member itself.
#[inline]
pub fn clear(map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
    if let Some((body, _visit)) = unfinished_by(map, at, member, me) {
        let (word, bit) = body.bit(member);
        word.fetch_and(!bit, Ordering::SeqCst); // SeqCst: I1.
    }
}

/// I1: whether a member may be in the middle of a change.
#[inline]
pub fn is_used(map: &Map, object: u32, head: Head) -> bool {
    Body::of(map, Place { index: object, head }).is_some_and(|body| body.users().next().is_some())
}

/// Makes an object of so many bytes. The caller holds `admin` and has seen that the name is free. Without bytes it has no body: the state of
/// a private one is elsewhere. `fill` is given zeroed bytes that no other thread knows.
pub fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    kind: Kind,
    body: Option<(usize, Form)>,
    fill: impl Fn(NonNull<u8>),
) -> Result<Place, ArenaError> {
    let members = map.geometry().members;
    let blocks = body.map_or(0, |(bytes, _)| blocks_wanted(bytes, members));
    let most = map.geometry().blocks;
    if blocks > most {
        return Err(ArenaError::BlocksFull { name: map.name().into(), wanted: blocks, capacity: most });
    }
    map.make(admin, name, kind, |index, generation| {
        let o = map.object(index);
        let first = match body {
            Some((_, form)) => {
                let first = map.claim_blocks(index, generation, Sort::Words, blocks)?;
                let at = map.blocks(first, blocks);
                // SAFETY: the blocks are ours, and no other thread knows of them yet; they may have been another object's before.
                unsafe { at.write_bytes(0, blocks as usize * BLOCK) };
                // SAFETY: as above; zeros are a `BodyHead`.
                let head = unsafe { &*at.cast::<BodyHead>() };
                for (word, number) in head.numbers.iter().zip(form.numbers) {
                    word.store(number, Ordering::Relaxed); // Relaxed: published by the head.
                }
                for (word, hash) in head.types.iter().zip(form.types) {
                    word.store(hash, Ordering::Relaxed); // Relaxed: as above.
                }
                // SAFETY: within the blocks.
                fill(unsafe { NonNull::new_unchecked(at.add(begins_at(members))) });
                first + 1
            }
            None => 0,
        };
        o.more.store(first, Ordering::Relaxed); // Relaxed: published by the head.
        o.permits.store(blocks, Ordering::Relaxed); // Relaxed: as above.
        o.hint.store(0, Ordering::Relaxed); // Relaxed: as above.
        // No later than any ticket; and not what a pool may have had there: see `CellRef::note`.
        store_words(o, unheld(generation), 1);
        Ok(())
    })
}
