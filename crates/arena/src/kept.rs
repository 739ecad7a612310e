//! The parts of an arena that a process locks in memory, so that no operation is a page fault.

use crate::Map;
use crate::blocks::Sort;
use crate::layout::{BLOCK, FAR, INLINE_MEMBERS, LINE, Member, Object, PANEL_MEMBERS, STEP};

impl Map {
    /// The memory that is in use now: addresses and lengths. What is made later may lie elsewhere.
    pub fn ranges_in_use(&self) -> Vec<(usize, usize)> {
        let g = self.geometry();
        let objects = self.objects_used().next_multiple_of(STEP).min(g.objects);
        let members = self.members_used().next_multiple_of(INLINE_MEMBERS).min(g.members);
        let panels = members.saturating_sub(INLINE_MEMBERS).div_ceil(PANEL_MEMBERS);
        let last = (0..panels).map(|panel| (g.line_at(panel, g.objects), LINE));
        let lines = (0..panels).map(|panel| (g.line_at(panel, 0), objects as usize * LINE)).chain(last);
        let [words, data] = [Sort::Words, Sort::Data].map(|sort| self.blocks_used(sort) as usize * BLOCK);
        let parts = [
            (0, g.members_at() + members as usize * size_of::<Member>()),
            (g.visits_at(), members as usize * 8),
            (g.rosters_at(), g.rosters() as usize * 4),
            (g.far_at(0), if panels > 0 { objects as usize * FAR } else { 0 }),
            (g.far_at(g.objects), if panels > 0 { FAR } else { 0 }),
            (g.objects_at(), objects as usize * size_of::<Object>()),
            (g.blocks_at(), words),
            (g.blocks_at() + g.blocks as usize * BLOCK - data, data),
        ];
        let base = std::ptr::from_ref(self.header()).addr();
        parts.into_iter().chain(lines).map(|(at, len)| (base + at, len)).collect()
    }
}
