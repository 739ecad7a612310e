//! A named tube as a protocol: a ring of records in an arena, the processes at its ends, and how they are told that there is something.
//!
//! Sent records are in the ring (see `record`). Besides it a tube has two objects, where its users wait: its own, which has its name, for
//! receivers, and one without a name for senders, which names the tube. What belongs to both lies in the arena's blocks:
//!
//! ```text
//!  TubeHead: shape, hash, end, sealed, two sides, schema's hash | senders' bits | receivers' bits | ring | schema's text
//! ```
//!
//! A bit says that a process has a handle of that end; the bit's number is the member that stands for the process. A word has the bits of
//! 32 members, and counts the arrivals that have not ended well: `count:32 | bits:32`. At an end that may have only one handle, `only`
//! names its owner: `generation:32 | member + 1:32`.
//!
//! ```text
//!   waiter:      bit on the object -- fence -- look at the ring, and at the other end's bits -- tell itself, or sleep
//!   sender:      swap of the slot's word -- bits on the tube? -- tell the first of them
//!   receiver:    swap of the slot's word -- bits on the end? -- a hole? -- tell the first of them
//!   leaver:      bit of the side goes -- nobody left? -- tell all at the other end
//! ```
//!
//! An end that may have only one handle stores plainly, and the waiter at the other end makes the fence (`fence::process_shared`). This needs that
//! the tube's maker could have such a fence (said in `flags` for good), and that the handle's process is registered.
//!
//! The arena has no count of waiters: a kill would leave it wrong for ever. The wait bits are the waiters' own, and the bits of dead
//! members mean nothing.
//!
//! Invariants:
//! - I1: a waiter sets its bit before its fence, and then looks; a sender swaps the slot's word before it looks at the bits. Both are
//!   sequentially consistent, or have a fence in between where an only sender or receiver stores plainly. So one of the two sees the
//!   other. The same holds with a hole, and with the bits of a side and the waiters at the other. If the plain side has no fence in between
//!   either, the waiter has made one for all processes that store so; a waiter that may not make that fence looks again each millisecond.
//! - I2: a waiter that was told and took something looks for more, and tells the next. A send may leave a hole (its own slot, where it
//!   was passed over), a loan may open one (I4 of `record`), and what is put back may be dropped: so each of them is followed by a look at the
//!   waiters for holes too. A sender with its unsent record in a slot of its own can use more holes than others: it is told of everything.
//! - I3: if a process dies between the change and the telling, recovery makes up for it: it drains every object, and tells the first for
//!   which there is something. A thread that walks the wait bits and finds a waiter that was told and may not have been woken wakes it.
//! - I4: the bit of a side is set before `had` is counted up, and is cleared before its owner looks whether the side is empty. So if no bit
//!   was found, in looks at one word after the other, and `had` is as before and not 0, then all that had come by then have gone: no
//!   process came and handed over behind the look. The bit of a dead process counts for nothing. The owner of the dead's life word clears
//!   it before the number is given anew: so no bit of a successor is cleared. A thread that sees a bit, and then no death, looks at the bit
//!   again: it may have been a dead member's, which has been swept since. `only` is freed by a swap from the exact generation.
//! - I8: an arriving process sets its bit and counts itself in one step; one that leaves and has ended well takes back both in one step;
//!   of a dead one only the bit is taken. So the count of a word, less the living whose bits are in it, says at each instant how many have
//!   died, or broken off. It never goes back, nothing has to be written for the dead, and no death is counted twice. A reader of the number
//!   looks twice: it counts only if the word, and which of its bits are dead members', were the same in both looks.
//! - I5: attaching, sealing, making and removing are done under `admin`. So no process is refused, or let in, by what has changed
//!   meanwhile. Only recovery is outside, and it only takes away.
//! - I6: the tube's head publishes it (objects, I1). The senders' object is made before it, and goes after it. A senders' object whose
//!   tube does not live is abandoned, and goes when the next tube is made. The thread that finds it tells its waiters.
//! - I7: the blocks of a removed tube are used again only when no bit of a side stands: whatever touches the ring has a handle, and so a
//!   bit, or recovers the dead. A process that has just left still looks whether others are there. If the memory is another tube's by
//!   then, it would at most tell a waiter to look in vain. It has freed `only` before.
//! - I9: a thread that recovers a member, or tells waiters on behalf of the dead, or leaves the arena, looks at every tube, and has no bit there.
//!   The memory may be another object's before it is done. So its looks change nothing (I12 of `record`), and it changes words within a visit
//!   (arena, visit.rs).
//!
//! Deaths: of a sender or receiver in the ring, see `record`. A dead process counts as gone from the end. If a maker or a remover dies in
//! the middle, it leaves a senders' object (I6). If a told waiter dies: I3.
//!
//! Progress: sending and receiving are lock-free; attaching waits for a living holder of `admin`.
//!
//! Explored: `tests/crash_named.rs`. Left out there: weak memory.

mod bits;
mod endings;
pub mod made;
#[cfg(not(feature = "sim"))]
mod schema;

use self::bits::{PER_WORD, bit, members_in, words};
use chappe_arena::Dead;
use chappe_arena::layout::{BLOCK, Head, Kind, Object};
use chappe_arena::{Admin, Map, Place, Visitor};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use chappe_plat::fence::process_shared;
use chappe_plat::{Life, ROBUST, probe, step};
use chappe_structures::record::{Head as RingHead, MOST_SLOTS, Ring, Shape};
use chappe_wait::mark::Mark;
use chappe_wait::wait::{Candidate, RETRY, each, make_up, tell};
use std::mem::size_of;
use std::ptr::NonNull;

/// The need of a waiter that has its record in a slot already, and wants to commit it.
pub(crate) const TO_COMMIT: u32 = 2;

const ONE_SENDER: u32 = 1;
const ONE_RECEIVER: u32 = 2;
const DROPS: u32 = 4;
/// An only sender or receiver may go without fences.
const SWIFT: u32 = 8;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Senders = 0,
    Receivers = 1,
}

impl Side {
    pub fn other(self) -> Side {
        if self == Side::Senders { Side::Receivers } else { Side::Senders }
    }
}

/// What a tube has for a side, besides the bits.
#[repr(C)]
struct SideHead {
    /// The owner of the only handle.
    only: AtomicU64,
    /// How many times a process has come.
    had: AtomicU32,
}

/// What a tube has besides its ring.
#[repr(C, align(64))]
struct TubeHead {
    slots: AtomicU32,
    size: AtomicU32,
    align: AtomicU32,
    flags: AtomicU32,
    /// The hash of its messages' type.
    hash: AtomicU64,
    /// Where senders wait: `generation:32 | object:32`.
    end: AtomicU64,
    /// 1: no sender may come any more.
    sealed: AtomicU32,
    /// Bytes of the schema's text, which comes behind the ring.
    schema_len: AtomicU32,
    sides: [SideHead; 2],
    /// The schema's hash; 0: it has none.
    schema: AtomicU64,
    /// Of how many deaths of senders receivers were told.
    told: AtomicU32,
}

/// A tube, as one process sees it.
#[derive(Clone, Copy)]
pub struct Pipe<'m> {
    pub map: &'m Map,
    /// The tube: where receivers wait.
    pub place: Place,
    /// Where senders wait.
    pub end: Place,
    pub ring: Ring<'m>,
    object: &'m Object,
    head: &'m TubeHead,
    bits: &'m [AtomicU64],
    /// As it was when the pipe was looked up. The head's is another's once the tube was removed.
    shape: Shape,
    /// An only sender or receiver may go without fences.
    is_swift: bool,
    /// The caller's handle goes without fences.
    is_plain: bool,
}

/// Why a process cannot come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattached {
    /// The tube was removed.
    Dead,
    /// No sender may come any more.
    Sealed,
    /// This member's process has the only handle.
    Taken(u32),
}

/// Where the ring begins.
fn ring_at(members: u32) -> usize {
    size_of::<TubeHead>() + (2 * words(members) * 8).next_multiple_of(64)
}

/// How many blocks a tube takes in an arena of so many members; `None` if that overflows.
pub fn blocks_wanted(shape: Shape, members: u32) -> Option<u32> {
    let bytes = chappe_structures::record::bytes_wanted(shape)?.checked_add(ring_at(members))?;
    u32::try_from(bytes.div_ceil(BLOCK)).ok()
}

impl<'m> Pipe<'m> {
    /// The tube at a place, in service or removed; `None` if there is no such tube any more.
    pub fn of(map: &'m Map, place: Place) -> Option<Pipe<'m>> {
        let object = map.reach(place);
        // Acquire, both: written before the object was in service.
        let (more, blocks) = (object.more.load(Ordering::Acquire), object.permits.load(Ordering::Acquire));
        let (first, bytes) = (more.checked_sub(1)?, blocks as usize * BLOCK);
        if first.checked_add(blocks)? > map.geometry().blocks || bytes < ring_at(map.geometry().members) {
            return None;
        }
        let at = NonNull::new(map.blocks(first, blocks))?;
        // SAFETY: within the mapping, and aligned as every block; any bytes are a `TubeHead`.
        let head = unsafe { at.cast::<TubeHead>().as_ref() };
        // SAFETY: as above: the bits come after it.
        let bits = unsafe {
            std::slice::from_raw_parts(at.add(size_of::<TubeHead>()).cast().as_ptr(), 2 * words(map.geometry().members))
        };
        let shape = head.shape();
        // Acquire: written before the object was in service.
        let end = head.end.load(Ordering::Acquire);
        let room = bytes - ring_at(map.geometry().members);
        let fits = (1..=MOST_SLOTS).contains(&shape.slots)
            && shape.align.is_power_of_two()
            && shape.align <= BLOCK as u32
            && chappe_structures::record::bytes_wanted(shape).is_some_and(|wanted| wanted <= room);
        // The second look, after all the others: what was read is this tube's.
        if !fits || end as u32 >= map.geometry().objects || !is_place_of(object, place) {
            return None;
        }
        const { assert!(align_of::<RingHead>() <= BLOCK) };
        // SAFETY: within the blocks, as was just seen; they were zeroed when the tube was made, and nothing else
        // touches them until it has gone, and no process has a handle (I7).
        let ring = unsafe { Ring::new(at.add(ring_at(map.geometry().members)), shape) };
        let end = Place { index: end as u32, head: Head::live((end >> 32) as u32, Kind::End) };
        // Relaxed: written before the object was in service.
        let is_swift = head.flags.load(Ordering::Relaxed) & SWIFT != 0;
        Some(Pipe { map, place, end, ring, object, head, bits, shape, is_swift, is_plain: false })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The hash of its messages' type.
    #[cfg(not(feature = "sim"))]
    pub fn hash(&self) -> u64 {
        // Relaxed: written before the object was in service.
        self.head.hash.load(Ordering::Relaxed)
    }

    /// Whether it is in service.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        // Acquire: what its remover did before.
        self.object.head.load(Ordering::Acquire) == self.place.head.0
    }

    /// Whether its blocks are still its own, after what was read of them: it is in service, or removed and not yet cleared away.
    #[cfg(not(feature = "sim"))]
    pub fn has_blocks(&self) -> bool {
        is_place_of(self.object, self.place)
    }

    /// Whether no sender may come any more.
    pub fn is_sealed(&self) -> bool {
        // SeqCst: I4.
        self.head.sealed.load(Ordering::SeqCst) != 0
    }

    fn side(&self, side: Side) -> &SideHead {
        &self.head.sides[side as usize]
    }

    fn bits(&self, side: Side) -> &[AtomicU64] {
        let half = self.bits.len() / 2;
        let used = if ROBUST { words(self.map.members_used()).min(half) } else { 1 };
        &self.bits[side as usize * half..][..used]
    }

    /// Whether the end may have one handle only.
    pub fn is_single(&self, side: Side) -> bool {
        if side == Side::Senders { self.ring.one_sender() } else { self.ring.one_receiver() }
    }

    /// Whether a waiter at an end must make a fence for the threads at the other.
    pub fn is_fenced(&self, side: Side) -> bool {
        self.is_swift && self.is_single(side.other())
    }

    /// The pipe of an only handle, which goes without fences if it can.
    #[inline]
    pub fn registered(self, side: Side) -> Pipe<'m> {
        Pipe { is_plain: self.is_swift && self.is_single(side) && process_shared::register(), ..self }
    }

    /// The processes at an end, by the members that stand for them; without the dead.
    pub fn attached(&self, side: Side) -> impl Iterator<Item = u32> + '_ {
        // I4: the bit once more, after the look at the death.
        self.all(side).filter(move |member| self.map.dead(*member).is_none() && self.has_bit(side, *member))
    }

    /// The same, with the dead.
    pub fn all(&self, side: Side) -> impl Iterator<Item = u32> + '_ {
        let bits = self.bits(side).iter().enumerate();
        bits.flat_map(|(i, word)| {
            // SeqCst: I4. A bit beyond the last member is none of this tube's.
            members_in(i, word.load(Ordering::SeqCst)).filter(|member| *member < self.map.geometry().members)
        })
    }

    /// Frees the only handle of an end, if its owner (member, generation) is over. False: it is not.
    #[cfg(not(feature = "sim"))]
    pub fn free_over(&self, side: Side, is_over: impl Fn(u32, u32) -> bool) -> bool {
        let only = &self.side(side).only;
        // SeqCst: I4.
        let seen = only.load(Ordering::SeqCst);
        let over = seen != 0 && is_over((seen as u32).wrapping_sub(1), (seen >> 32) as u32);
        // SeqCst, both: I4. A failure: it has changed.
        over && only.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn has_bit(&self, side: Side, member: u32) -> bool {
        // SeqCst: I4.
        self.word(side, member).load(Ordering::SeqCst) & bit(member) != 0
    }

    /// Whether the side is empty and will stay so until another process comes: one has been there (or none ever will), and a look at one
    /// bit after the other finds none now.
    #[inline(always)]
    fn is_empty(&self, side: Side, nobody: impl Fn() -> bool) -> bool {
        let had = &self.side(side).had;
        loop {
            // SeqCst: I4, before the look at the bits.
            let before = had.load(Ordering::SeqCst);
            if (before == 0 && !(side == Side::Senders && self.is_sealed())) || !nobody() {
                return false;
            }
            step!("nobody there, looked at one after the other");
            // SeqCst: I4, after the look at the bits.
            if had.load(Ordering::SeqCst) == before {
                return true;
            }
        }
    }

    /// Whether all have left an end, as far as the bits show: a process that died, and is not yet recovered, still
    /// counts as there.
    #[inline(always)]
    pub fn seems_gone(&self, side: Side) -> bool {
        // SeqCst: I4.
        self.is_empty(side, || self.bits(side).iter().all(|word| word.load(Ordering::SeqCst) as u32 == 0))
    }

    /// Whether all have left an end, or died.
    pub fn is_gone(&self, side: Side) -> bool {
        self.is_empty(side, || self.attached(side).next().is_none())
    }

    /// Attaches a process to an end. The caller has had the dead recovered.
    #[inline]
    pub fn attach(&self, _admin: &Admin, side: Side, member: u32, generation: u32) -> Result<(), Unattached> {
        if !self.is_live() {
            return Err(Unattached::Dead);
        }
        if side == Side::Senders && self.is_sealed() {
            return Err(Unattached::Sealed);
        }
        self.enter(side, member, generation)
    }

    /// As [`Pipe::attach`], where the process has a handle already.
    pub fn enter(&self, side: Side, member: u32, generation: u32) -> Result<(), Unattached> {
        if self.is_single(side) {
            let mine = by(member, generation);
            // SeqCst, both: I5, except for recovery, which frees it.
            match self.side(side).only.compare_exchange(0, mine, Ordering::SeqCst, Ordering::SeqCst) {
                Err(there) if there != mine => return Err(Unattached::Taken((there as u32).wrapping_sub(1))),
                _ => {}
            }
        }
        step!("the only one, not yet there");
        self.come(side, member);
        step!("there, as if nobody had ever been");
        // SeqCst: I4.
        if self.side(side).had.fetch_add(1, Ordering::SeqCst) == u32::MAX {
            // SeqCst: as above. 0 would say that no process ever came.
            self.side(side).had.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Detaches a process from an end. `well`: it has ended well; else it has broken off.
    pub fn detach(&self, side: Side, member: u32, generation: u32, well: bool) {
        // First, while our bit keeps the memory (I7).
        self.free(side, member, generation);
        self.go(side, member, well);
        step!("gone, nobody told yet");
        self.bring_end(side.other());
    }

    fn free(&self, side: Side, member: u32, generation: u32) {
        let mine = by(member, generation);
        // SeqCst, both: I4. A failure: another member's.
        let _ = self.side(side).only.compare_exchange(mine, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The object where threads wait at an end.
    pub fn waits(&self, side: Side) -> Place {
        if side == Side::Senders { self.end } else { self.place }
    }

    #[inline(always)]
    fn is_awaited(&self, side: Side) -> bool {
        let index = self.waits(side).index;
        let object = if side == Side::Senders { self.map.object(index) } else { self.object };
        self.map.waits_on(index, object)
    }

    /// Called after a record was sent: tells receivers, and senders if there may be a hole (I2).
    #[inline(always)]
    pub fn sent(&self) {
        let is_alone = self.ring.one_sender();
        if is_alone {
            // I1.
            process_shared::light(self.is_plain);
        }
        step!("sent, nobody told yet");
        if self.is_awaited(Side::Receivers) {
            self.bring(Side::Receivers);
        }
        // I2.
        if !is_alone && self.is_awaited(Side::Senders) {
            self.bring(Side::Senders);
        }
    }

    /// Called after a borrowed record was put back, or dropped: tells receivers, or senders.
    pub fn returned(&self) {
        // SeqCst: I1.
        fence(Ordering::SeqCst);
        step!("put back, nobody told yet");
        for side in [Side::Receivers, Side::Senders] {
            if self.is_awaited(side) {
                self.bring(side);
            }
        }
    }

    /// Called after a record was received, or borrowed, or a slot given back: tells senders.
    #[inline(always)]
    pub fn received(&self) {
        if self.ring.one_receiver() {
            // I1.
            process_shared::light(self.is_plain);
        }
        step!("received, nobody told yet");
        if self.is_awaited(Side::Senders) {
            self.bring(Side::Senders);
        }
    }

    /// Called by a waiter that was told that there is a message, and has taken one: there may be more.
    pub fn pass_on(&self) {
        step!("told, nobody else told yet");
        if self.is_awaited(Side::Receivers) {
            self.bring(Side::Receivers);
        }
    }

    /// Whether there is something for a waiter at an end: a message, a hole, or that the other end has gone.
    pub fn is_ready(&self, side: Side) -> bool {
        let now = if side == Side::Senders { self.ring.has_hole() } else { self.ring.has_message() };
        now || self.is_gone(side.other())
    }

    /// A look for a choice: see `lull`.
    pub fn mark(&self, side: Side) -> Mark {
        // SeqCst: I4, before the look at the bits.
        let had = self.side(side.other()).had.load(Ordering::SeqCst);
        if !self.is_live() || self.is_gone(side.other()) {
            return Mark::Something;
        }
        let end = if side == Side::Senders { self.ring.no_hole() } else { self.ring.no_message() };
        // Another number for each of the three that have grown.
        end.map_or(Mark::Something, |(at, again)| {
            Mark::Nothing(at ^ u64::from(had).rotate_left(24) ^ again.rotate_left(40))
        })
    }

    /// Tells the waiters at an end, if there is something for them.
    #[cold]
    #[inline(never)]
    pub fn bring(&self, side: Side) {
        // SeqCst: I1, of waiters, and of recoverers.
        fence(Ordering::SeqCst);
        let gone = self.is_gone(side.other());
        // The caller may be late: I9.
        let some = gone || if side == Side::Senders { self.ring.shows_hole() } else { self.ring.shows_message() };
        self.tell_those(side, gone, some);
    }

    /// Tells the waiters at an end, if the other end is empty. The caller has just left, and may no longer look into
    /// the ring (I7).
    fn bring_end(&self, side: Side) {
        // SeqCst: I1, as above.
        fence(Ordering::SeqCst);
        if self.is_gone(side.other()) {
            self.tell_those(side, true, true);
        }
    }

    fn tell_those(&self, side: Side, gone: bool, some: bool) {
        let at = self.waits(side);
        loop {
            let mut first: Option<Candidate> = None;
            each(self.map, at, |c| {
                if !c.state.is_waiting() {
                    make_up(self.map, c.member, c.state);
                } else if gone || c.need == TO_COMMIT || (some && c.need == 0) {
                    self.tell(at, c);
                } else if some && first.is_none_or(|f| c < f) && self.map.member(c.member).life.probe() != Life::Dead {
                    first = Some(c);
                }
            });
            match first {
                // It was granted something else, or gave up: the next one.
                Some(c) if !self.tell(at, c) => {}
                _ => return,
            }
        }
    }

    /// Tells a waiter. False: it no longer waits as was seen.
    fn tell(&self, at: Place, who: Candidate) -> bool {
        tell(self.map, who.member, who.state, at.index, RETRY)
    }
}

#[cfg(not(feature = "sim"))]
impl Pipe<'static> {
    /// Recovers the dead, if a process at either end has died. What they had may be all there is. False: none died.
    pub fn revive(&self) -> bool {
        let dead = |side| {
            let words = self.bits(side).iter().enumerate();
            // SeqCst: I4.
            let mut members = words.flat_map(|(i, word)| members_in(i, word.load(Ordering::SeqCst)));
            members.any(|member| self.map.dead(member).is_some())
        };
        let some = dead(Side::Senders) || dead(Side::Receivers);
        if some {
            self.map.recover_dead();
        }
        some
    }
}

impl TubeHead {
    fn shape(&self) -> Shape {
        // Acquire, all: written before the object was in service; the caller then looks whether it still is.
        let (slots, size) = (self.slots.load(Ordering::Acquire), self.size.load(Ordering::Acquire));
        // Acquire: as above.
        let (align, flags) = (self.align.load(Ordering::Acquire), self.flags.load(Ordering::Acquire));
        let has = |flag| flags & flag != 0;
        let (one_sender, one_receiver, drops) = (has(ONE_SENDER), has(ONE_RECEIVER), has(DROPS));
        Shape { slots, size, align, one_sender, one_receiver, drops }
    }
}

fn by(member: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(member + 1)
}

/// Tells receivers of messages. The object is a tube in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    if map.anybody_waits(object)
        && let Some(pipe) = Pipe::of(map, Place { index: object, head })
    {
        pipe.bring(Side::Receivers);
    }
}

/// Whether the slot is the tube's with which the place was filled: in service, or removed and not yet cleared away.
fn is_place_of(object: &Object, place: Place) -> bool {
    let now = Head(object.head.load(Ordering::Acquire)); // Acquire: after what was read before.
    now.kind() == Some(Kind::Tube) && now.stands() && now.generation() == place.head.generation()
}

impl Pipe<'_> {
    /// Reports, to a probe, that a record is to be delivered once more.
    pub(super) fn comes_again(&self, member: u32, slot: u32) {
        probe::redelivery(&self.map.header().name, &self.object.name, self.place.index, member, slot);
    }
}

/// Recovers what a dead member was doing in a tube.
pub(crate) fn recover(map: &Map, at: Place, dead: Dead, me: &mut Visitor<'_>) {
    let Some(pipe) = Pipe::of(map, at) else { return };
    let Dead { member, generation } = dead;
    let sides = [Side::Senders, Side::Receivers];
    // SeqCst: I4.
    let owns = |side: &Side| pipe.side(*side).only.load(Ordering::SeqCst) == by(member, generation);
    // I9: looks first.
    if !pipe.ring.is_left_by(member as u16) && !sides.iter().any(owns) {
        return;
    }
    let Some(visit) = me.visit(at) else { return };
    // After the slot's word; I9 of the ring.
    pipe.ring.recover(&visit, member as u16, || dead.is_unswept(map), |slot| pipe.comes_again(member, slot));
    sides.into_iter().for_each(|side| pipe.free(side, member, generation));
}

/// I4: clears a dead member's bits. The caller holds its life word.
pub(crate) fn clear(map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
    let Some(pipe) = Pipe::of(map, at) else { return };
    let words = [Side::Senders, Side::Receivers].map(|side| pipe.bits(side).get(member as usize / PER_WORD));
    // Relaxed: only the caller sets or clears this bit.
    let has_bit = |word: &&AtomicU64| word.load(Ordering::Relaxed) & bit(member) != 0;
    // I9: looks first.
    if words.into_iter().flatten().any(|word| has_bit(&word))
        && let Some(_visit) = me.visit(at)
    {
        for word in words.into_iter().flatten().filter(has_bit) {
            // SeqCst: I4.
            word.fetch_and(!bit(member), Ordering::SeqCst);
        }
    }
}

/// I7: whether a process has a handle.
pub fn is_attached(map: &Map, object: u32, head: Head) -> bool {
    let Some(pipe) = Pipe::of(map, Place { index: object, head }) else { return false };
    // SeqCst: I4.
    [Side::Senders, Side::Receivers]
        .into_iter()
        .any(|s| pipe.bits(s).iter().any(|w| w.load(Ordering::SeqCst) as u32 != 0))
}

/// Whether a member has a slot, written or looked at.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_used_by(map: &Map, object: u32, head: Head, member: u32) -> bool {
    Pipe::of(map, Place { index: object, head }).is_some_and(|pipe| pipe.ring.is_used_by(member as u16))
}

/// A leaving thread has leaked slots of its own: no thread gets them.
pub fn keep_from_all(map: &Map, at: Place, member: u32, me: &mut Visitor<'_>) {
    if let Some(pipe) = Pipe::of(map, at).filter(|pipe| pipe.ring.is_left_by(member as u16))
        && let Some(visit) = me.visit(at)
    {
        pipe.ring.keep_from_all(&visit, member as u16);
    }
}
