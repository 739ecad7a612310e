//! The parts of an arena that a process locks in memory, so that no operation is a page fault.

use crate::Map;
use crate::layout::{BLOCK, Object, STEP};

impl Map {
    /// The memory that is in use now: addresses and lengths. What is made later may lie elsewhere.
    pub fn ranges_in_use(&self) -> [(usize, usize); 3] {
        let (g, objects) =
            (self.geometry(), self.objects_used().next_multiple_of(STEP).min(self.geometry().objects) as usize);
        let base = std::ptr::from_ref(self.header()).addr();
        let waiting = objects * g.outside_words() * 8;
        let used = self.blocks_used() as usize * BLOCK;
        [
            (base, g.objects_at() + objects * size_of::<Object>()),
            (base + g.waiting_at(), waiting),
            (base + g.blocks_at(), used),
        ]
    }
}
