//! Recovery of a member that has died in the middle of an operation: what becomes of the nodes and cells that it left.
//!
//! Recovery is a look at all states. Any thread may do it, any number of times, concurrently with others, and may be killed or stopped at
//! every step: each change is a swap from a state that was seen before the look at everything else.
//!
//! | state | then | becomes |
//! |---|---|---|
//! | node OWNED by the dead member | a search for its key comes to it | USED |
//! | | it does not, or the node was removed | FREE |
//! | node USED | its value or link is flagged, and a search for its key has unlinked it | FREE |
//! | cell OWNED by the dead member | the value of its node leads to it | USED |
//! | | it does not | FREE |
//! | cell USED | the value of its node does not lead to it | FREE |
//!
//! A node that is OWNED and has never been linked has a stale key: a search for that key does not come to it. Its value is flagged
//! before it is freed (I9 of the table): nodes come before cells, so that its cell is not taken for one that is in place.

use super::place::{Table, flagged, index, is_flagged};
use crate::turns::{OWNED, USED, freed, is_owned_by, kind, read, used};
use chappe_arena::Visit;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;

impl Table<'_> {
    /// Recovers a dead member. `is_dead` says that this is not yet done: the number is still the dead member's. When this has
    /// completed, the number may be reused.
    pub fn recover(&self, _: &Visit<'_>, member: u16, is_dead: impl Fn() -> bool) {
        self.look_at_all(&|state| is_owned_by(state, member), &is_dead);
    }

    /// Frees what dead members had taken out and not freed. Answers whether there was something.
    pub(super) fn sweep(&self) -> bool {
        self.look_at_all(&|_| false, &|| true)
    }

    /// `is_its`: whether a state says that the dead member has the piece; `is_left`: whether its recovery is still to be done.
    fn look_at_all(&self, is_its: &dyn Fn(u64) -> bool, is_left: &dyn Fn() -> bool) -> bool {
        let mut some = false;
        for node in 0..self.shape().nodes() {
            some |= self.look_at_node(node, is_its, is_left);
        }
        for cell in 0..self.shape().cells() {
            some |= self.look_at_cell(cell, is_its, is_left);
        }
        some
    }

    fn look_at_node(&self, node: u32, is_its: &dyn Fn(u64) -> bool, is_left: &dyn Fn() -> bool) -> bool {
        // Acquire: before everything else.
        let state = self.node_state(node).load(Ordering::Acquire);
        let left = kind(state) == OWNED && is_its(state);
        if !left && kind(state) != USED {
            return false;
        }
        // Acquire, both: I3 of the table.
        let value = self.value(node).load(Ordering::Acquire);
        let next = self.next(node).load(Ordering::Acquire);
        let over = is_flagged(value) || is_flagged(next);
        if !left && !over {
            return false;
        }
        // The search unlinks a node that was removed.
        let is_linked = self.comes_to(node) && !over;
        step!("looked for the dead's node");
        // R5, I11 of the table: after all that was read.
        if !is_left() {
            return false;
        }
        if !is_linked && !is_flagged(value) {
            // AcqRel, and Relaxed for a failure: I9 of the table; another thread recovers, or the node is not the dead member's any more.
            let _ = self.value(node).compare_exchange(value, flagged(value), Ordering::AcqRel, Ordering::Relaxed);
        }
        self.becomes(self.node_state(node), state, if is_linked { used(state) } else { freed(state) });
        !is_linked
    }

    /// Whether a search for its key comes to the node.
    fn comes_to(&self, node: u32) -> bool {
        // Acquire: as it stood after its state was read.
        let id = self.id(node).load(Ordering::Acquire);
        let mut bytes = vec![0; (id as u32).min(self.shape().key) as usize];
        read(self.key(node), &mut bytes);
        self.find(&self.locate(&bytes), false).node.is_some_and(|(found, _)| found == node)
    }

    fn look_at_cell(&self, cell: u32, is_its: &dyn Fn(u64) -> bool, is_left: &dyn Fn() -> bool) -> bool {
        // Acquire: before everything else.
        let state = self.cell_state(cell).load(Ordering::Acquire);
        let left = kind(state) == OWNED && is_its(state);
        if !left && kind(state) != USED {
            return false;
        }
        // Acquire: I8 of the table.
        let node = self.of(cell).load(Ordering::Acquire) as u32;
        // Acquire: as above.
        let value = self.value(node).load(Ordering::Acquire);
        let in_place = index(value) == Some(cell) && !is_flagged(value);
        if !left && in_place {
            return false;
        }
        step!("looked for the dead's cell");
        // R5, I11 of the table: as above.
        if !is_left() {
            return false;
        }
        self.becomes(self.cell_state(cell), state, if in_place { used(state) } else { freed(state) });
        !in_place
    }

    fn becomes(&self, at: &AtomicU64, from: u64, to: u64) {
        // AcqRel: E2 of the table. Relaxed, and a failure: another recoverer did, or it is another's.
        let _ = at.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }
}
