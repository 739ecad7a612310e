//! Bringing free permits and waiters together.
//!
//! Whoever makes a permit free, or sets a wait bit, drains the object afterwards; so does recovery. Any number of
//! drainers may be at it at once, and any of them may die or stop at any step:
//!
//! ```text
//!   for each cell:
//!     FREE     -> the oldest waiter w: cell := RESERVED(w, wait n); word of w := GRANTED(cell); wake
//!                    the word said otherwise meanwhile: cell := FREE, again
//!     RESERVED -> finish it for whoever began it, or, if it is no longer valid, cell := FREE, again
//!     HELD     -> next
//! ```
//!
//! - I1: a drain that returns has seen each cell once when it was neither free with a waiter there, nor reserved and
//!   unresolved. What becomes free later is its maker's business.
//! - Dying after the reservation leaves a reservation; after the grant, a granted sleeper: see the wait queue, R5.
//!
//! Lock-free: a compare-and-swap that fails has been overtaken by one that succeeded.

use crate::cell::{Tag, Word};
use crate::wait::{State, grant, oldest, waits_on, word_of};
use chappe_arena::Map;
use chappe_arena::layout::Head;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{futex, step};

/// A permit's cell, wherever it lies.
#[derive(Clone, Copy)]
pub(crate) struct CellRef<'a> {
    pub word: &'a AtomicU64,
    pub since: &'a AtomicU64,
}

impl CellRef<'_> {
    /// Reads the cell.
    pub fn load(&self) -> Word {
        // SeqCst: E1 of the wait queue, after the caller's bit.
        Word(self.word.load(Ordering::SeqCst))
    }
    /// Swaps the exact word; false if it was another by then.
    pub fn swap(&self, from: Word, to: Word) -> bool {
        // SeqCst: E1 of the wait queue, before the caller's look at the bits.
        self.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// The cell of permit `position`, if the object has that many.
pub(crate) fn cell_at(map: &Map, object: u32, position: u32) -> Option<CellRef<'_>> {
    let o = map.object(object);
    if position == 0 {
        return Some(CellRef { word: &o.cell, since: &o.since });
    }
    let mut left = position - 1;
    for (first, len) in map.extents(object) {
        if left < len {
            let c = map.cell(first + left);
            return Some(CellRef { word: &c.word, since: &c.since });
        }
        left -= len;
    }
    None
}

/// Every cell of the object, in order, those beyond its present number of permits included.
pub(crate) fn cells(map: &Map, object: u32) -> impl Iterator<Item = (u32, CellRef<'_>)> {
    let o = map.object(object);
    let own = std::iter::once(CellRef { word: &o.cell, since: &o.since });
    let table = map.extents(object).flat_map(move |(first, len)| {
        (first..first + len).map(move |i| {
            let c = map.cell(i);
            CellRef { word: &c.word, since: &c.since }
        })
    });
    own.chain(table).zip(0..).map(|(cell, position)| (position, cell))
}

/// How many permits the pool has now.
pub(crate) fn permits(map: &Map, object: u32) -> u32 {
    // SeqCst: a take looks again after its swap; pairs with resize.
    map.object(object).permits.load(Ordering::SeqCst)
}

/// Grants what is free to who waits, and resolves what somebody left half-done.
pub(crate) fn drain(map: &Map, object: u32) {
    // Acquire: the object as its maker left it.
    let head = Head(map.object(object).head.load(Ordering::Acquire));
    if !head.in_service() {
        return;
    }
    let count = permits(map, object);
    for (position, cell) in cells(map, object) {
        loop {
            let seen = cell.load();
            match seen.tag() {
                Tag::Held | Tag::Leased => break,
                Tag::Reserved => {
                    if resolve(map, object, position, cell, seen) {
                        break;
                    }
                }
                Tag::Free if position >= count => break,
                Tag::Free => {
                    let Some(next) = oldest(map, object) else { break };
                    let reserved = seen.reserved(next.member, next.state.wait());
                    if !cell.swap(seen, reserved) {
                        continue;
                    }
                    step!("reserved, not yet granted");
                    if grant(map, next.member, next.state, object, position, false) {
                        break;
                    }
                    // I3 of the wait queue: it was granted something else, or gave up.
                    cell.swap(reserved, reserved.freed());
                }
            }
        }
    }
}

/// Finishes or undoes a reservation. False: the cell has changed, look again.
pub(crate) fn resolve(map: &Map, object: u32, position: u32, cell: CellRef<'_>, seen: Word) -> bool {
    let member = seen.member();
    if member < map.geometry().members {
        let (word, _) = word_of(map, member);
        // SeqCst: I2 of the wait queue, after the cell was read.
        let state = State(word.load(Ordering::SeqCst));
        if state.wait() == seen.aux() {
            if state.is_waiting() && waits_on(map, object, member) {
                return grant(map, member, state, object, position, false);
            }
            let private = map.scope() == futex::Scope::Private;
            if state
                .grant()
                .is_some_and(|g| !g.dead && g.object == object && g.permit == position && g.private == private)
            {
                // Its granter may have died or been stopped before the wake.
                crate::wait::wake_granted(map, member);
                return cell.load() == seen;
            }
        }
    }
    // No longer valid, and never again.
    cell.swap(seen, seen.freed());
    false
}
