//! A broadcast tube as a protocol: its ring (see `ring`), its publishers and subscriptions, and how they wake each
//! other.
//!
//! ```text
//!  CastHead: shape, hashes, room, changes, publishers | ring | schema's text
//! ```
//!
//! All waiters wait on the tube's one object. A subscription's record names its waiter (`waiter`), so that a publisher
//! wakes only waiters whose subscriptions got the record. A publisher that waits for room sets `room`; all such
//! publishers are woken when there may be room.
//!
//! ```text
//!   subscriber waits:   bit on the object -- its member in `waiter` -- fence -- a record? all publishers gone? -- sleep
//!   publisher sends:    commit in the ring -- `waiter` of each subscription that got it -- wake it
//!   publisher waits:    bit on the object -- `room` -- fence -- room? -- sleep
//!   subscriber takes:   swap of the word of bits -- `room`? -- wake all publishers that wait for it
//! ```
//!
//! Invariants:
//! - I1: a waiter announces itself before it checks its condition; a member that changes the condition does so before
//!   it reads the waiters. Both are sequentially consistent, so at least one sees the other.
//! - I2: a publisher's entry is written before `had` is counted up, and removed before its owner checks whether any is
//!   left. If a check finds no entry, and `had` is unchanged and not 0, all publishers that had come by then have gone.
//!   Entries of dead members do not count. A look at an entry, then at its member's death, ends with another look at the entry: a dead member
//!   that was swept since the first look does not seem dead any more, and its entry has gone.
//! - I3: entries and subscriptions are given under `admin`; they go by a swap from the exact generation, by their owner or by recovery. A subscription's
//!   owner holds `admin` then too, since it writes to the tube afterwards (I4).
//! - I7: an entry counts, for as long as the tube lasts, how many of its publishers have died, or broken off; the swap by which one of them
//!   goes counts it. So the counts and the dead whose entries stand are, at each instant, all there have been: the sum never goes back.
//! - I4: `changes` is counted up after a subscription's record is whole, and after it has gone. A publisher reads it
//!   first, so a subscription gets every message that is sent after `subscribe` has returned.
//! - I5: if a member dies between a change and the wake, recovery wakes in its place: it drains every object.
//! - I6: the blocks of a tube that was removed are used again only when no entry and no subscription stands. A thread that recovers a dead member
//!   has neither, and comes to all tubes: it looks first, and visits (arena, visit.rs) those where the dead one has left something.
//!
//! Deaths: a publisher's is recovered in the ring, see there. A subscriber's subscription is removed, and the records
//! that were there for it block no publisher.
//!
//! Progress: publishing, taking: lock-free; coming and going waits for a living holder of `admin`.
//!
//! Explored: `tests/crash_broadcast.rs`. Paper: synthesis, 3.2.3 (what all subscriptions are to a publisher), 5.2.

use crate::named::arms::Not;
use chappe_arena::Dead;
use chappe_arena::layout::{BLOCK, Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place, Sort, Visitor};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use chappe_plat::step;
use chappe_structures::broadcast::NoRoom;
use chappe_structures::broadcast::place::{MOST_TEXT, Mask, Ring, Shape, Terms, each};
use chappe_structures::slot::store;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Nature, Refused, Site};
use chappe_wait::owner::unheld;
use chappe_wait::wait::{Grant, Party, RETRY, State, each as each_waiter, make_up, tell, waits_at, word_of};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What a publisher needs that waits for room.
pub(super) const ROOM: u32 = 3;
/// The most publishers.
pub const MOST_PUBLISHERS: usize = if cfg!(feature = "sim") { 3 } else { 128 };

#[repr(C, align(64))]
struct CastHead {
    slots: AtomicU32,
    size: AtomicU32,
    align: AtomicU32,
    subscriptions: AtomicU32,
    /// Of the type of its records.
    hash: AtomicU64,
    /// Of the schema; 0: it has none.
    schema: AtomicU64,
    /// Bytes of the schema's text, which comes last.
    schema_len: AtomicU32,
    /// Not 0: somebody may wait for room.
    room: AtomicU32,
    /// How many times a subscription has come, gone or changed.
    changes: AtomicU32,
    /// How many times a publisher has come.
    had: AtomicU32,
    /// `generation:24 | deaths:24 | member + 1:16` of each publisher: I7.
    publishers: [AtomicU64; MOST_PUBLISHERS],
}

/// In an entry of `publishers`: where the deaths are counted, and the most that they come to before they begin anew.
const DEATH: u64 = 1 << 16;
const DEATHS: u64 = 0xff_ffff << 16;
const GENERATION_AT: u32 = 40;
const _: () = assert!((chappe_arena::layout::MAX_MEMBERS as u64) < DEATH);

/// Whose an entry is.
fn owner_of(entry: u64) -> u64 {
    entry & !DEATHS
}

/// What stands where an entry's owner has gone.
fn left_by(entry: u64, well: bool) -> u64 {
    entry.wrapping_add(if well { 0 } else { DEATH }) & DEATHS
}

/// A broadcast tube, as one process sees it.
#[derive(Clone, Copy)]
pub struct Cast<'m> {
    pub map: &'m Map,
    pub place: Place,
    pub ring: Ring<'m>,
    object: &'m Object,
    head: &'m CastHead,
}

/// One of this process's mappings, which last as long as it.
pub type Mapped = Cast<'static>;

/// Why somebody could not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattached {
    Dead,
    /// As many as there may be are there.
    Full,
    /// So many records of those that drop the newest are not free; more must be.
    Crowded(u32),
}

/// How many blocks a tube takes; none if there are not so many.
pub fn blocks_wanted(shape: Shape, schema: usize) -> Option<u32> {
    let bytes = shape.is_possible().then(|| size_of::<CastHead>() + shape.bytes() + schema)?;
    u32::try_from(bytes.div_ceil(BLOCK)).ok()
}

pub fn by(member: u32, generation: u32) -> u64 {
    u64::from(generation) << GENERATION_AT | u64::from(member + 1)
}

fn is_place_of(object: &Object, place: Place) -> bool {
    let now = Head(object.head.load(Ordering::Acquire)); // Acquire: after whatever was read before.
    now.kind() == Some(Kind::Broadcast) && now.stands() && now.generation() == place.head.generation()
}

impl<'m> Cast<'m> {
    /// The tube at a place, in service or removed; none if there is no such tube any more.
    pub fn of(map: &'m Map, place: Place) -> Option<Cast<'m>> {
        let object = map.reach(place);
        // Acquire, both: written before the object was in service.
        let (more, blocks) = (object.more.load(Ordering::Acquire), object.permits.load(Ordering::Acquire));
        let first = more.checked_sub(1)?;
        if first.checked_add(blocks)? > map.geometry().blocks || (blocks as usize * BLOCK) < size_of::<CastHead>() {
            return None;
        }
        let at = NonNull::new(map.blocks(first, blocks))?;
        // SAFETY: within the mapping, and aligned as every block; any bytes are a `CastHead`.
        let head = unsafe { at.cast::<CastHead>().as_ref() };
        // Acquire, all: written before the object was in service; whether it still is, is looked at below.
        let get = |word: &AtomicU32| word.load(Ordering::Acquire);
        let shape = Shape {
            slots: get(&head.slots),
            size: get(&head.size),
            align: get(&head.align),
            subscriptions: get(&head.subscriptions),
        };
        let wanted = blocks_wanted(shape, get(&head.schema_len) as usize);
        if wanted.is_none_or(|wanted| wanted > blocks) || !is_place_of(object, place) {
            return None;
        }
        // SAFETY: within the blocks, as was just seen; they were zeroed when the tube was made, and nothing else touches them until
        // nobody is there any more (I6).
        let ring = unsafe { Ring::new(at.add(size_of::<CastHead>()), shape) };
        Some(Cast { map, place, ring, object, head })
    }

    /// Of the type of its records.
    pub fn hash(&self) -> u64 {
        self.head.hash.load(Ordering::Relaxed) // Relaxed: written before the object was in service.
    }

    /// Of its schema; 0: it has none.
    pub fn schema_hash(&self) -> u64 {
        self.head.schema.load(Ordering::Relaxed) // Relaxed: as above.
    }

    /// The text of its schema.
    pub fn schema(&self) -> Option<String> {
        // Acquire, both: written before the object was in service.
        let len = self.head.schema_len.load(Ordering::Acquire) as usize;
        let blocks = self.object.permits.load(Ordering::Acquire);
        if len == 0 || blocks_wanted(self.ring.shape(), len)? > blocks || !is_place_of(self.object, self.place) {
            return None;
        }
        let at = std::ptr::from_ref(self.head).cast::<u8>();
        let mut text = vec![0; len];
        // SAFETY: the text comes behind the ring, within the tube's blocks, as was just seen. No thread writes there after the tube was made,
        // unless the tube is removed and the memory is another object's: then the copy is discarded.
        unsafe {
            text.as_mut_ptr().copy_from_nonoverlapping(at.add(size_of::<CastHead>() + self.ring.shape().bytes()), len)
        };
        // After the copy: it is of this tube.
        is_place_of(self.object, self.place).then(|| String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether it is in service.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        // Acquire: what its remover did before.
        self.object.head.load(Ordering::Acquire) == self.place.head.0
    }

    /// How many times a subscription has come, gone or changed.
    #[inline(always)]
    pub fn changes(&self) -> u32 {
        self.head.changes.load(Ordering::SeqCst) // SeqCst: I4.
    }

    /// How many times a publisher has come.
    pub fn came(&self) -> u32 {
        self.head.had.load(Ordering::SeqCst) // SeqCst: I2.
    }

    fn changed(&self) {
        self.head.changes.fetch_add(1, Ordering::SeqCst); // SeqCst: I4.
    }

    /// Whose subscriptions there are, by number; the dead aside.
    pub fn subscriptions(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.ring.shape().subscriptions).filter_map(|who| {
            let stands = || self.ring.sub(who).owner.load(Ordering::SeqCst); // SeqCst: I4.
            let owner = stands();
            let member = (owner as u32).checked_sub(1)?;
            // Once more, after the look at the death: of a dead one that was swept meanwhile it does not stand any more.
            (!self.is_over(owner) && stands() == owner).then_some((who, member))
        })
    }

    /// Whether an owner is dead, or was.
    fn is_over(&self, owner: u64) -> bool {
        let member = (owner as u32).wrapping_sub(1);
        if member >= self.map.geometry().members {
            return true;
        }
        let m = self.map.member(member);
        // SeqCst: after the entry was read.
        m.ident.load(Ordering::SeqCst) >> 32 != owner >> GENERATION_AT || self.map.dead(member).is_some()
    }

    /// The members that publish, the dead aside.
    pub fn publishers(&self) -> impl Iterator<Item = u32> + '_ {
        self.head.publishers.iter().filter_map(|entry| {
            let stands = || owner_of(entry.load(Ordering::SeqCst)); // SeqCst: I2.
            let owner = stands();
            // I2: once more, after the look at the death.
            (owner != 0 && !self.is_over(owner) && stands() == owner).then(|| owner as u32 - 1)
        })
    }

    /// How many publishers have died, or broken off, since the tube was made (I7), modulo 2^24.
    pub fn died(&self) -> u32 {
        let sum = self.head.publishers.iter().map(|entry| self.died_at(entry)).fold(0, u64::wrapping_add);
        ((sum & DEATHS) / DEATH) as u32
    }

    /// The same at one entry, where an entry counts it.
    fn died_at(&self, entry: &AtomicU64) -> u64 {
        loop {
            let seen = entry.load(Ordering::SeqCst); // SeqCst: I7.
            let owner = owner_of(seen);
            if owner == 0 {
                return seen & DEATHS;
            }
            let over = self.is_over(owner);
            step!("an entry's publisher looked at, the entry not yet again");
            // SeqCst: I7. It still stands: a dead owner has died with it, and does not come back; a living one was no dead one that has been
            // swept since.
            if entry.load(Ordering::SeqCst) == seen {
                return if over { left_by(seen, false) } else { seen & DEATHS };
            }
        }
    }

    /// Whether all publishers have gone, and there was one.
    pub fn is_gone(&self) -> bool {
        loop {
            let before = self.head.had.load(Ordering::SeqCst); // SeqCst: I2.
            if before == 0 || self.publishers().next().is_some() {
                return false;
            }
            step!("no publisher there, looked at one after the other");
            // SeqCst: I2.
            if self.head.had.load(Ordering::SeqCst) == before {
                return true;
            }
        }
    }

    /// A publisher comes. Its entry.
    pub fn enter(&self, _admin: &Admin, owner: u64) -> Result<usize, Unattached> {
        if !self.is_live() {
            return Err(Unattached::Dead);
        }
        for (at, entry) in self.head.publishers.iter().enumerate() {
            let seen = entry.load(Ordering::SeqCst); // SeqCst: I3.
            if owner_of(seen) != 0 {
                continue;
            }
            // SeqCst, both: I2, I3. A failure: nobody else gives entries, and of one that is nobody's none is taken.
            if entry.compare_exchange(seen, seen | owner, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                step!("there, as if nobody had ever been");
                // SeqCst: I2. 0 is nobody.
                if self.head.had.fetch_add(1, Ordering::SeqCst) == u32::MAX {
                    self.head.had.fetch_add(1, Ordering::SeqCst); // SeqCst: as above.
                }
                return Ok(at);
            }
        }
        Err(Unattached::Full)
    }

    /// A publisher goes, and has ended well; or it has not: it broke off, or died.
    pub fn leave(&self, at: usize, owner: u64, well: bool) {
        let entry = &self.head.publishers[at];
        let seen = entry.load(Ordering::SeqCst); // SeqCst: I3.
        // SeqCst, both: I2, I3, I7. A failure: recovery was there before.
        let goes = |seen| entry.compare_exchange(seen, left_by(seen, well), Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if owner_of(seen) == owner && goes(seen) {
            step!("gone, nobody told yet");
            if self.is_gone() {
                self.tell_all();
            }
        }
    }

    /// A subscription comes. Its number.
    pub fn subscribe(&self, _admin: &Admin, owner: u64, terms: Terms, text: &[u8]) -> Result<u32, Unattached> {
        if !self.is_live() {
            return Err(Unattached::Dead);
        }
        if let Terms::Newest(most) = terms {
            let kept = |who| match self.ring.terms(who) {
                Terms::Newest(most) => most,
                _ => 0,
            };
            let all: u32 = self.subscriptions().map(|(who, _)| kept(who)).sum();
            let room = (self.ring.shape().slots / 2).saturating_sub(all);
            if most > room {
                return Err(Unattached::Crowded(room));
            }
        }
        let free = |who: &u32| self.ring.sub(*who).owner.load(Ordering::SeqCst) == 0; // SeqCst: I3.
        let who = (0..self.ring.shape().subscriptions).find(free).ok_or(Unattached::Full)?;
        self.ring.begin(who, terms);
        self.write_text(who, text);
        step!("subscription whole, nobody's yet");
        self.ring.sub(who).owner.store(owner, Ordering::SeqCst); // SeqCst: I4.
        self.changed();
        Ok(who)
    }

    /// A subscription has another filter from now on. Its owner's.
    pub fn change(&self, who: u32, text: &[u8]) {
        self.write_text(who, text);
        self.changed();
    }

    fn write_text(&self, who: u32, text: &[u8]) {
        assert!(text.len() <= MOST_TEXT, "a filter of {} bytes", text.len());
        let sub = self.ring.sub(who);
        // Relaxed: only its owner writes it. One that is odd was left by the dead.
        let version = sub.version.load(Ordering::Relaxed) | 1;
        sub.version.store(version, Ordering::SeqCst); // SeqCst: before the text.
        fence(Ordering::SeqCst); // SeqCst: as above.
        store(&sub.text, text);
        sub.len.store(text.len() as u32, Ordering::Relaxed); // Relaxed: between the two versions.
        sub.version.store(version.wrapping_add(1), Ordering::SeqCst); // SeqCst: after the text.
    }

    /// The filter of a subscription, and its version; none while it is being written.
    pub fn text(&self, who: u32) -> Option<(u32, Vec<u8>)> {
        let sub = self.ring.sub(who);
        let before = sub.version.load(Ordering::SeqCst); // SeqCst: before the text.
        let len = (sub.len.load(Ordering::Relaxed) as usize).min(MOST_TEXT); // Relaxed: between the two looks.
        let mut text = Vec::with_capacity(len.next_multiple_of(8));
        for word in &sub.text[..len.div_ceil(8)] {
            text.extend(word.load(Ordering::Relaxed).to_ne_bytes()); // Relaxed: as above.
        }
        text.truncate(len);
        fence(Ordering::SeqCst); // SeqCst: after the text.
        let same = before & 1 == 0 && sub.version.load(Ordering::SeqCst) == before; // SeqCst: as above.
        same.then_some((before, text))
    }

    /// A subscription goes. The caller holds `admin`: until the publishers are told, the memory stays the tube's (I6).
    pub fn unsubscribe(&self, _admin: &Admin, who: u32, owner: u64) {
        if self.goes(who, owner) {
            self.changed();
            self.tell_room();
        }
    }

    /// Ends a subscription, if it still is that owner's.
    fn goes(&self, who: u32, owner: u64) -> bool {
        // SeqCst, both: I3. A failure: recovery was there before.
        let gone = self.ring.sub(who).owner.compare_exchange(owner, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        step!("subscription gone, not yet said");
        gone
    }

    /// Sends a record to the subscriptions in `wanted`, if there is room now.
    #[inline]
    pub fn publish(&self, me: u16, record: &[u8], wanted: &Mask) -> Result<(), Not> {
        if !self.is_live() {
            return Err(Not::Dead);
        }
        self.ring.publish(me, record, wanted).map_err(|NoRoom| Not::Now)?;
        step!("sent, nobody told yet");
        each(wanted).for_each(|who| self.tell_subscriber(who));
        Ok(())
    }

    /// Takes a subscription's next record, now.
    #[inline]
    pub fn take(&self, who: u32, buffer: &mut [MaybeUninit<u8>]) -> Result<usize, Not> {
        if !self.is_live() {
            return Err(Not::Dead);
        }
        if let Some(len) = self.ring.take(who, buffer) {
            self.took();
            return Ok(len);
        }
        self.take_last(who, buffer)
    }

    fn took(&self) {
        step!("taken, nobody told yet");
        // SeqCst: I1.
        if self.head.room.load(Ordering::SeqCst) != 0 {
            self.tell_room();
        }
    }

    #[cold]
    fn take_last(&self, who: u32, buffer: &mut [MaybeUninit<u8>]) -> Result<usize, Not> {
        if !self.is_gone() {
            return Err(Not::Now);
        }
        // One may have come in between.
        let len = self.ring.take(who, buffer).ok_or(Not::Ever)?;
        self.took();
        Ok(len)
    }

    /// Wakes the waiter of a subscription.
    #[inline(always)]
    fn tell_subscriber(&self, who: u32) {
        // SeqCst: I1.
        let waiter = self.ring.sub(who).waiter.load(Ordering::SeqCst);
        if waiter != 0 {
            self.tell_waiter(waiter - 1);
        }
    }

    #[cold]
    fn tell_waiter(&self, member: u32) {
        if member >= self.map.geometry().members {
            return;
        }
        // SeqCst: before the bit.
        let state = State(word_of(self.map, member).0.load(Ordering::SeqCst));
        if state.is_idle() || !waits_at(self.map, self.place, member) {
            return;
        }
        if !state.is_waiting() {
            make_up(self.map, member, state);
        } else {
            tell(self.map, member, state, self.place.index, RETRY);
        }
    }

    /// Tells all publishers that wait for room.
    #[cold]
    fn tell_room(&self) {
        // SeqCst: I1: a publisher that waits later sets it again.
        if self.head.room.swap(0, Ordering::SeqCst) == 0 {
            return;
        }
        step!("room, nobody told yet");
        self.tell_those(|need| need == ROOM);
    }

    fn tell_all(&self) {
        self.tell_those(|_| true);
    }

    fn tell_those(&self, which: impl Fn(u32) -> bool) {
        each_waiter(self.map, self.place, |c| {
            if !c.state.is_waiting() {
                make_up(self.map, c.member, c.state);
            } else if which(c.need) {
                tell(self.map, c.member, c.state, self.place.index, RETRY);
            }
        });
    }

    /// Whether there is something for a subscription, or never will be.
    pub fn is_ready(&self, who: u32) -> bool {
        self.ring.has(who) || self.is_gone()
    }

    /// A publisher is about to wait for room.
    pub(super) fn wants_room(&self) {
        // SeqCst: I1, before the look.
        self.head.room.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst); // SeqCst: I1.
    }
}

impl Mapped {
    /// Where it is, as an arm.
    pub(super) fn site(&self) -> Site {
        Site { map: self.map, place: self.place, nature: Nature::Shared { fenced: false } }
    }
}

/// The receiving end of a subscription as an arm of a choice. It takes no record: the waiter that is woken does.
#[derive(Clone, Copy)]
pub struct Ear {
    pub cast: Mapped,
    pub who: u32,
}

impl Arm for Ear {
    fn site(&self) -> Site {
        self.cast.site()
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        match how {
            Looking::Free if !self.cast.is_live() => return Err(Refused::Dead(0)),
            Looking::Waiting => {
                // SeqCst: I1, before the look.
                self.cast.ring.sub(self.who).waiter.store(me.member + 1, Ordering::SeqCst);
                fence(Ordering::SeqCst); // SeqCst: I1.
            }
            #[cfg(not(feature = "sim"))]
            Looking::Dead => return Ok((self.cast.map.recover_dead() > 0).into()),
            _ => {}
        }
        Ok(self.cast.is_ready(self.who).into())
    }
    fn collect(&self, _me: &Party, grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        if grant.is_none() {
            self.leave();
        }
        Collected::Nudged
    }
}

impl Ear {
    /// The member waits no longer.
    pub fn leave(&self) {
        // Relaxed: ours; a publisher that reads the old one wakes in vain.
        self.cast.ring.sub(self.who).waiter.store(0, Ordering::Relaxed);
    }
}

/// Makes a tube. The caller holds `admin`, and has seen that the name is free and that there can be such a tube.
pub fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    shape: Shape,
    hash: u64,
    schema: (u64, &str),
) -> Result<Place, ArenaError> {
    let most = map.geometry().blocks;
    let blocks = blocks_wanted(shape, schema.1.len()).unwrap_or(u32::MAX);
    if blocks > most {
        return Err(ArenaError::BlocksFull { name: map.name().into(), wanted: blocks, capacity: most });
    }
    map.make(admin, name, Kind::Broadcast, |index, generation| {
        let first = map.claim_blocks(index, generation, Sort::Words, blocks)?;
        let at = map.blocks(first, blocks);
        // SAFETY: the blocks are ours, and nobody else knows of them yet; they may have been another object's before.
        unsafe { at.write_bytes(0, blocks as usize * BLOCK) };
        // SAFETY: as above: the text comes behind the ring.
        unsafe {
            let text = at.add(size_of::<CastHead>() + shape.bytes());
            text.copy_from_nonoverlapping(schema.1.as_ptr(), schema.1.len());
        }
        // SAFETY: as above; zeros are a `CastHead`.
        let head = unsafe { &*at.cast::<CastHead>() };
        head.slots.store(shape.slots, Ordering::Relaxed); // Relaxed, here and below: published by the head.
        head.size.store(shape.size, Ordering::Relaxed); // Relaxed: as above.
        head.align.store(shape.align, Ordering::Relaxed); // Relaxed: as above.
        head.subscriptions.store(shape.subscriptions, Ordering::Relaxed); // Relaxed: as above.
        head.hash.store(hash, Ordering::Relaxed); // Relaxed: as above.
        head.schema.store(schema.0, Ordering::Relaxed); // Relaxed: as above.
        head.schema_len.store(schema.1.len() as u32, Ordering::Relaxed); // Relaxed: as above.
        let o = map.object(index);
        o.permits.store(blocks, Ordering::Relaxed); // Relaxed: as above.
        o.more.store(first + 1, Ordering::Relaxed); // Relaxed: as above.
        o.hint.store(0, Ordering::Relaxed); // Relaxed: as above.
        o.slot.word.store(unheld(generation), Ordering::Release); // Release: whatever its last user did with the slot comes before.
        Ok(())
    })
}

/// Wakes the waiters that have a record to take, or may have room. The object is a broadcast tube in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    if map.anybody_waits(object)
        && let Some(cast) = Cast::of(map, Place { index: object, head })
    {
        if cast.is_gone() {
            cast.tell_all();
            return;
        }
        for (who, _) in cast.subscriptions().filter(|(who, _)| cast.ring.has(*who)) {
            cast.tell_subscriber(who);
        }
        // Whatever `room` says: the member that has swapped it may have died.
        cast.tell_those(|need| need == ROOM);
    }
}

/// Makes up for what a dead member was at.
pub(crate) fn recover(map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) {
    let Some(cast) = Cast::of(map, at) else { return };
    let owner = by(dead.member, dead.generation);
    // SeqCst: I2.
    let publishes = |at: &usize| owner_of(cast.head.publishers[*at].load(Ordering::SeqCst)) == owner;
    // SeqCst: I3.
    let subscribes = |at: &u32| cast.ring.sub(*at).owner.load(Ordering::SeqCst) == owner;
    let subscriptions = 0..cast.ring.shape().subscriptions;
    // I6: looks first, and changes nothing.
    if !cast.ring.is_used_by(dead.member as u16)
        && !(0..MOST_PUBLISHERS).any(|at| publishes(&at))
        && !subscriptions.clone().any(|at| subscribes(&at))
    {
        return;
    }
    let Some(visit) = me.visit(at) else { return };
    // After the slot's word; R5 of the ring.
    cast.ring.recover(&visit, dead.member as u16, || dead.is_unswept(map));
    (0..MOST_PUBLISHERS).filter(publishes).for_each(|at| cast.leave(at, owner, false));
    // The drain that follows in each recovery tells those that wait for room.
    for at in subscriptions.filter(subscribes) {
        if cast.goes(at, owner) {
            cast.changed();
        }
    }
}

/// I6: whether anybody is there.
pub(crate) fn is_attached(map: &Map, object: u32, head: Head) -> bool {
    let Some(cast) = Cast::of(map, Place { index: object, head }) else { return false };
    let stands = |word: &AtomicU64| word.load(Ordering::SeqCst) != 0; // SeqCst: I6.
    let publishes = |entry: &AtomicU64| owner_of(entry.load(Ordering::SeqCst)) != 0; // SeqCst: I6.
    cast.head.publishers.iter().any(publishes)
        || (0..cast.ring.shape().subscriptions).any(|who| stands(&cast.ring.sub(who).owner))
}

/// Whether a member has a slot.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_used_by(map: &Map, object: u32, head: Head, member: u32) -> bool {
    Cast::of(map, Place { index: object, head }).is_some_and(|cast| cast.ring.is_used_by(member as u16))
}

#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod tests;
