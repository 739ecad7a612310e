//! The slots of a private arena to which threads may come late: see I12 of object.rs.

use super::Map;
use chappe_plat::atomic::{Ordering, fence};

impl Map {
    /// The object of this slot is about to be taken out of service, and threads may still have its place.
    pub(crate) fn note_late_ones(&self, index: u32) {
        if let Some(word) = self.late.get(index as usize / 64) {
            // Release: with the swap of the head, which comes next.
            word.fetch_or(1 << (index % 64), Ordering::Release);
        }
    }

    /// Whether a thread may come that has the place of an object which was in this slot. The caller has seen that the slot is free, or done
    /// with.
    pub(crate) fn has_late_ones(&self, index: u32) -> bool {
        // Acquire: behind the head.
        fence(Ordering::Acquire);
        // Relaxed: after the fence.
        self.late.get(index as usize / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 != 0)
    }
}
