//! Draining: brings the free permits of a pool and its waiters together.
//!
//! Terms: `book/src/glossary.md`. A thread that makes a permit free, or sets a wait bit, drains the
//! pool afterwards; so does recovery. Any number of drainers may be at work at once, and any of
//! them may die or stop at any step:
//!
//! ```text
//!   for each cell:
//!     FREE     -> the oldest waiter w: cell := RESERVED(w, wait n); word of w := GRANTED(cell); wake
//!                 the swap of w's word failed:
//!                   it says GRANTED(cell): another drainer did it: repeat the wake; next cell
//!                   it says otherwise: the reservation is void: cell := FREE; this cell again
//!     RESERVED -> valid: finish another drainer's grant; void: cell := FREE; this cell again
//!     HELD, LEASED -> next cell (and note since when, for listings)
//! ```
//!
//! A waiter may need several permits at once (its record's `need`). Then the cells are reserved for
//! it one by one as they come free; a drainer that finds as many cells reserved as the waiter needs
//! grants them. So the head of the queue waits until all are there, and the waiters behind it wait
//! as well. If it gives up, its reservations are no longer valid, and it drains; if it dies,
//! recovery drains. A waiter that arrived first may set its bit late, when cells are already
//! reserved for a later arrival that waits for more. Then any drainer that comes to such a cell
//! frees it, and the first waiter gets it; or both would stay half-served for ever. Two drainers
//! may reserve one cell too many: the waiter gives back what it does not need. A waiter that needs
//! more than the pool has (the pool was shrunk) is granted an error, [`TOO_MANY`], or it would
//! block the others.
//!
//! - I1: a drain that returns has seen of each cell, at some moment, one of three: it was held or
//!   leased; it was free, and no waiter was there for it; it was reserved for a waiter that was
//!   granted it, or that waits for more. A cell that becomes free later is drained by the thread
//!   that frees it, or by recovery.
//! - A drainer that dies after the reservation leaves a reservation; after the grant, a granted
//!   sleeper: see the wait queue, R5.
//!
//! Lock-free: a compare-and-swap that fails has been overtaken by one that succeeded.

use crate::bias;
use crate::owned;
use chappe_arena::layout::{Head, Object, Slot};
use chappe_arena::{Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_plat::{ROBUST, clock, step};
use chappe_wait::cell::{Tag, Word};
use chappe_wait::wait::{
    Candidate, NUMBER, State, TOO_MANY, candidate, each, grant, is_still, make_up, make_up_now, next, waits_on,
    wake_elsewhere, word_of,
};

/// A permit's cell, in its object or in the arena's table.
#[derive(Clone, Copy)]
pub(crate) struct CellRef<'a> {
    slot: &'a Slot,
    /// The object whose first cell it is, if it may be biased.
    home: Option<(&'a Map, &'a Object)>,
}

impl<'a> CellRef<'a> {
    /// The first cell of a pool.
    #[inline(always)]
    pub fn first(map: &'a Map, o: &'a Object) -> CellRef<'a> {
        CellRef { slot: &o.slot, home: map.is_private().then_some((map, o)) }
    }
    /// A cell of the table.
    pub fn further(slot: &'a Slot) -> CellRef<'a> {
        CellRef { slot, home: None }
    }
}

impl CellRef<'_> {
    /// Reads the cell; revokes a bias first.
    #[inline]
    pub fn load(&self) -> Word {
        match self.home {
            Some((map, o)) => Word(bias::settled(map, o)),
            // SeqCst: E1 of the wait queue, after the caller's bit.
            None => Word(self.slot.word.load(Ordering::SeqCst)),
        }
    }
    /// Reads the cell as it is. A biased cell reads as one that is not free.
    #[inline(always)]
    pub fn plain(&self) -> Word {
        // SeqCst: as in `load`.
        let seen = Word(self.slot.word.load(Ordering::SeqCst));
        match self.home {
            Some(_) if bias::is_biased(seen) => Word::alien(),
            _ => seen,
        }
    }
    /// Swaps the exact word. False: it was another word by then.
    #[inline(always)]
    pub fn swap(&self, from: Word, to: Word) -> bool {
        // SeqCst: E1 of the wait queue, before the caller's look at the bits.
        self.slot.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            || (self.home.is_some() && self.swap_settled(from, to))
    }
    /// The same where the cell is biased: its owner's word is there only once the bias is settled.
    #[cold]
    fn swap_settled(&self, from: Word, to: Word) -> bool {
        // SeqCst: as in `swap`.
        self.load() == from && self.slot.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
    /// Publishes the cell for its pool.
    pub fn publish(&self, word: Word) {
        // Release: after all that its last user did with the cell.
        self.slot.word.store(word.0, Ordering::Release);
    }
    /// The word as it is, biased or not: for the maker of its pool.
    #[inline(always)]
    pub fn last(&self) -> Word {
        // Relaxed: under admin, and nobody has the cell.
        Word(self.slot.word.load(Ordering::Relaxed))
    }
    /// Makes the cell free, if it still says `taken`. False: the permit was taken away, by recovery or by force.
    #[inline]
    pub fn free(&self, taken: Word) -> bool {
        if ROBUST {
            return self.swap(taken, taken.freed());
        }
        // SeqCst: as in `swap`.
        self.slot.word.swap(taken.freed().0, Ordering::SeqCst);
        true
    }
}

/// The cell of permit `position`, if the object has that many.
pub(crate) fn cell_at(map: &Map, object: u32, position: u32) -> Option<CellRef<'_>> {
    let o = map.object(object);
    if position == 0 {
        return Some(CellRef::first(map, o));
    }
    let mut left = position - 1;
    for (first, len) in map.extents(object) {
        if left < len {
            return Some(CellRef::further(&map.cell(first + left).slot));
        }
        left -= len;
    }
    None
}

/// The cell of a permit that was taken from this pool, which may have been removed since. None: the slot belongs to another object
/// by now, which has other cells. (The exact word distinguishes only users of the same cell.)
pub(crate) fn cell_of(map: &Map, place: Place, position: u32) -> Option<CellRef<'_>> {
    let cell = cell_at(map, place.index, position)?;
    // Acquire: after the way to the cell, which was this pool's if the slot still is.
    let same = || Head(map.object(place.index).head.load(Ordering::Acquire)).generation() == place.head.generation();
    (position == 0 || same()).then_some(cell)
}

impl CellRef<'_> {
    /// Notes when the permit was taken. A take without waiting reads no clock (that would cost as much as
    /// both swaps); the first thread that sees the permit held notes the time instead, as "at least since".
    ///
    /// Layout: `version:24 | exact:1 | milliseconds:38`. For listings only, so not explored.
    pub fn note(&self, word: Word, exact: bool) {
        // Acquire: before the second look at the cell.
        let there = self.slot.since.load(Ordering::Acquire);
        let explored = cfg!(any(feature = "sim", feature = "loom"));
        // Nothing is noted if the cell is not this pool's any more: it still was after `there` was read.
        if explored || (!exact && there >> 39 == word.version()) || self.load() != word {
            return;
        }
        let stamp = word.version() << 39 | u64::from(exact) << 38 | milliseconds();
        // By a swap: another kind of object may have the slot by now, whose word we must not write.
        let _ = self.slot.since.compare_exchange(there, stamp, Ordering::Relaxed, Ordering::Relaxed); // Relaxed: as above.
    }

    /// For how many milliseconds it has been held, and whether that is exact or a lower bound.
    #[cfg(not(feature = "sim"))]
    pub fn held_for(&self, word: Word) -> (u64, bool) {
        self.note(word, false);
        // Relaxed: for showing only.
        let stamp = self.slot.since.load(Ordering::Relaxed);
        (milliseconds().saturating_sub(stamp & STAMP_MASK), stamp >> 38 & 1 == 1)
    }
}

const STAMP_MASK: u64 = (1 << 38) - 1;

fn milliseconds() -> u64 {
    (clock::common_coarse() / 1_000_000) & STAMP_MASK
}

/// Every cell of the object, in order, including those beyond its present number of permits.
pub(crate) fn cells(map: &Map, object: u32) -> impl Iterator<Item = (u32, CellRef<'_>)> + '_ {
    let o = map.object(object);
    let own = std::iter::once(CellRef::first(map, o));
    let further = move |i| CellRef::further(&map.cell(i).slot);
    let table = map.extents(object).flat_map(move |(first, len)| (first..first + len).map(further));
    own.chain(table).zip(0..).map(|(cell, position)| (position, cell))
}

/// How many permits the pool has now.
pub(crate) fn permits(map: &Map, object: u32) -> u32 {
    // SeqCst: a take looks again after its swap; pairs with resize.
    map.object(object).permits.load(Ordering::SeqCst) & NUMBER
}

/// Grants what is free to the waiters, and finishes or undoes what other drainers left half-done. The object is a pool in service.
pub(crate) fn drain(map: &Map, object: u32, head: Head) {
    let (count, at) = (permits(map, object), Place { index: object, head });
    let (mut shrunk, mut left) = (false, false);
    for (position, cell) in cells(map, object) {
        shrunk |= position >= count;
        if position == 0 && bias::owner_of(map, map.object(object)).is_some() {
            // Biased: each of its waiters has yet to look at the word itself.
            continue;
        }
        loop {
            let seen = cell.load();
            match seen.tag() {
                Tag::Held | Tag::Leased => {
                    cell.note(seen, false);
                    break;
                }
                Tag::Alien => break,
                Tag::Reserved => {
                    if resolve(map, object, head, position, cell, seen) {
                        break;
                    }
                }
                Tag::Free if position >= count => break,
                Tag::Free => {
                    let Some(next) = next(map, at) else {
                        // Unless another drainer has granted it meanwhile, and was stopped before the wake.
                        if cell.load() == seen {
                            left = true;
                            break;
                        }
                        continue;
                    };
                    if too_many(map, object, next) {
                        continue;
                    }
                    let reserved = seen.reserved(next.member, next.state.wait());
                    if !cell.swap(seen, reserved) {
                        continue;
                    }
                    step!("reserved, not yet granted");
                    // The waiter may need more than there is, and one before it may have been granted something elsewhere.
                    left |= next.need > 1;
                    if hand_over(map, object, position, next) {
                        break;
                    }
                    // I3 of the wait queue: the waiter was granted something else, or gave up.
                    cell.swap(reserved, reserved.freed());
                }
            }
        }
    }
    if left {
        wake_elsewhere(map, at);
    }
    // Only in a pool that was shrunk can a waiter need more than there is. No permit may be free for it, and it need not be
    // the first.
    if shrunk {
        each(map, at, |c| {
            if !c.state.is_waiting() {
                // Its granter may have been stopped before the wake.
                make_up(map, c.member, c.state);
            } else if c.need > count {
                too_many(map, object, c);
            }
        });
    }
}

/// Tells a waiter that needs more than the pool has. False: it does not.
fn too_many(map: &Map, object: u32, who: Candidate) -> bool {
    // After the look at the waiter: it may have come because there are more by now.
    let beyond = who.need > permits(map, object);
    if beyond && !grant(map, who.member, who.state, object, TOO_MANY, true) {
        // Another drainer has told it, perhaps, and was stopped before the wake.
        make_up_now(map, who.member);
    }
    beyond
}

/// One cell is reserved for the waiter: grants, if that is all it needs. False: the reservation is void.
///
/// A cell of the table may have been another pool's when it was reserved. Then the waiter, which was seen to wait for this one, waits no more: while
/// its word names that wait and is not IDLE, its bit stands, and the slot and its cells are this pool's.
fn hand_over(map: &Map, object: u32, position: u32, to: Candidate) -> bool {
    let count = || permits(map, object) as usize;
    let all =
        || cells(map, object).take(count()).filter(|(_, c)| c.load().is_reserved(to.member, to.state.wait())).count();
    let several = to.need > 1;
    let what = if several { 0 } else { position };
    if (!several || all() >= to.need as usize) && grant(map, to.member, to.state, object, what, false) {
        return true;
    }
    // SeqCst: I2 of the wait queue, as in `resolve`.
    let now = State(word_of(map, to.member).0.load(Ordering::SeqCst));
    if now.wait() != to.state.wait() {
        return false;
    }
    // Another drainer granted this very permit, or saw the rest come and granted all of them, this one included.
    if now.grant().is_some_and(|g| g.is(map, object, what)) {
        // Its granter may have died or been stopped before the wake.
        chappe_wait::wait::wake_granted(map, to.member);
        return true;
    }
    // It still waits for the rest.
    several && now.is_waiting()
}

/// Finishes or undoes a reservation. False: the cell has changed, look again.
pub(crate) fn resolve(map: &Map, object: u32, head: Head, position: u32, cell: CellRef<'_>, seen: Word) -> bool {
    let member = seen.member();
    if member < map.geometry().members {
        let (word, _) = word_of(map, member);
        // SeqCst: I2 of the wait queue, after the cell was read.
        let state = State(word.load(Ordering::SeqCst));
        if seen.is_of(state.wait()) {
            let it = candidate(map, object, member, state);
            if !is_still(map, object, head) {
                // A cell of the table may be another pool's by now.
                return true;
            }
            if state.is_waiting() && waits_on(map, object, member) {
                if it.need > 1 && next(map, Place { index: object, head }).is_some_and(|first| first < it) {
                    // The first waiter, which set its bit late, needs the cell for all of its own. (A later waiter is the first when this one
                    // has just been granted all.)
                    cell.swap(seen, seen.freed());
                    return false;
                }
                return hand_over(map, object, position, it);
            }
            let granted = if it.need > 1 { 0 } else { position };
            if state.grant().is_some_and(|g| g.is(map, object, granted)) {
                // Its granter may have died or been stopped before the wake.
                chappe_wait::wait::wake_granted(map, member);
                return cell.load() == seen;
            }
        }
    }
    // No longer valid, and never again.
    cell.swap(seen, seen.freed());
    false
}

/// What the cell of a dead holder becomes.
pub(crate) fn left_by_the_dead(map: &Map, place: Place, position: u32, seen: Word) -> Word {
    // After the cell was seen: what is read is of the same object, if the cell can be swapped.
    if position == 0 && owned::takes_along(map, place, seen) { seen.retired() } else { seen.freed() }
}

/// Gives back what a dead member held. Answers whether one of its permits is leased: a job may go on.
pub(crate) fn recover(map: &Map, object: u32, head: Head, member: u32, generation: u32) -> bool {
    let mut lease = false;
    for (position, cell) in cells(map, object) {
        let mut seen = cell.load();
        while seen.member() == member {
            let done = match seen.tag() {
                Tag::Held if seen.is_of(generation) && map.is_unswept(member, generation) => {
                    cell.swap(seen, left_by_the_dead(map, Place { index: object, head }, position, seen))
                }
                Tag::Reserved => resolve(map, object, head, position, cell, seen),
                Tag::Leased if seen.is_of(generation) && map.is_unswept(member, generation) => {
                    lease = true;
                    cell.swap(seen, seen.orphaned())
                }
                _ => true,
            };
            if done {
                break;
            }
            seen = cell.load();
        }
    }
    lease
}
