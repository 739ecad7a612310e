//! Where the parts of a mapped arena lie, and how much of each is in use. Creating, attaching and removing are in the parent module.

use super::Map;
use crate::batches::words;
use crate::error::ArenaError;
use crate::gate::Gates;
use crate::layout::{
    BLOCK, Cell, FAR, FIRST_VISITS, Geometry, Header, INLINE_MEMBERS, LINE, Member, Object, PANEL_MEMBERS, STEP,
};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::Scope;
use chappe_plat::{dir, process, room, step};
use std::io;
use std::path::Path;

impl Map {
    /// Its gates.
    ///
    /// # Errors
    /// `Unreachable`.
    pub(crate) fn gates(&self) -> Result<Gates, ArenaError> {
        let Some(directory) = self.directory() else { return Ok(Gates::NONE) };
        Gates::of(self.header(), directory, self.name(), self.inode())
    }

    pub(crate) fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.geometry.len());
        // SAFETY: the geometry was checked against the file's length when it was mapped; every T here is
        // made of atomics and life locks, for which any bytes are a valid value.
        unsafe { &*self.base.add(offset).cast::<T>() }
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base as usize) < self.geometry.len()
    }

    /// The first page.
    #[inline]
    pub fn header(&self) -> &Header {
        self.at(0)
    }
    /// A member slot.
    #[inline]
    pub fn member(&self, i: u32) -> &Member {
        assert!(i < self.geometry.members);
        self.at(self.geometry.members_at() + i as usize * size_of::<Member>())
    }
    /// The visit of the owner of a member slot's life word.
    pub(crate) fn visit_of(&self, i: u32) -> &AtomicU64 {
        assert!(i < self.geometry.members);
        self.at(self.geometry.visits_at() + i as usize * 8)
    }
    /// An object slot.
    #[inline]
    pub fn object(&self, i: u32) -> &Object {
        assert!(i < self.geometry.objects);
        self.at(self.objects_at + i as usize * size_of::<Object>())
    }
    /// A table cell.
    #[inline]
    pub fn cell(&self, i: u32) -> &Cell {
        assert!(i < self.geometry.cells);
        self.at(self.geometry.cells_at() + i as usize * size_of::<Cell>())
    }
    /// A word of an object's wait set: the bits of members `64 * i ..`. Behind the last object's, beyond the first members: far.rs.
    #[inline]
    pub fn waiting(&self, object: u32, i: usize) -> &AtomicU64 {
        const NEAR: usize = INLINE_MEMBERS as usize / 64;
        if i < NEAR {
            return &self.object(object).waiting[i];
        }
        let (panel, word) = ((i - NEAR) * 8 / LINE, (i - NEAR) * 8 % LINE);
        assert!((panel as u32) < self.geometry.panels() && object <= self.geometry.objects);
        self.at(self.geometry.line_at(panel as u32, object) + word)
    }
    /// The word of a group of members that changes when one joins there.
    pub(crate) fn roster(&self, group: u32) -> &AtomicU32 {
        assert!(group < self.geometry.rosters());
        self.at(self.geometry.rosters_at() + group as usize * 4)
    }
    /// How many tasks of this process have places at an object, in the terms of `crowd` of the wait queue, its only user. It lies in the memory of the
    /// process, and is 0 at first. `None`: the object is not made yet.
    #[inline]
    pub fn crowd(&self, object: u32) -> Option<&AtomicU64> {
        self.crowds.get_or(|| words(self.geometry.objects as usize)).get(object as usize)
    }
    /// How many words of a wait set can have bits set now.
    #[inline]
    pub fn waiting_words(&self) -> usize {
        self.members_used().div_ceil(64) as usize
    }
    /// A place in the table of names.
    pub fn name_place(&self, i: usize) -> &AtomicU64 {
        self.at(self.geometry.names_at() + (i & (self.geometry.names() - 1)) * 8)
    }
    /// The owner words of the blocks. An object has up to some 10^5 of them: what walks over them asks for their place once.
    pub fn block_owners(&self) -> &[AtomicU64] {
        let (at, count) = (self.geometry.owners_at(), self.geometry.blocks as usize);
        debug_assert!(at + count * size_of::<AtomicU64>() <= self.geometry.len());
        // SAFETY: as for `at`: the geometry was checked against the file's length, and any bytes are atomic words.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast(), count) }
    }
    /// Where `count` blocks begin.
    pub fn blocks(&self, first: u32, count: u32) -> *mut u8 {
        let end = first.checked_add(count).filter(|end| *end <= self.geometry.blocks);
        assert!(end.is_some(), "blocks {first} and {count} more");
        // SAFETY: the geometry was checked against the mapping's length, and the blocks are within the geometry.
        unsafe { self.base.add(self.geometry.blocks_at() + first as usize * BLOCK) }
    }
    /// Declares that any thread of this process may act in the arena without an attachment of its own from now on: a death of the process is
    /// detected by another member of the process that lives as long.
    pub fn cover(&self, incarnation: u64) {
        // Release: what made it so comes before.
        self.cover.store(incarnation, Ordering::Release);
    }
    /// Whether [`Map::cover`] was called for this incarnation.
    #[inline(always)]
    pub fn is_covered(&self, incarnation: u64) -> bool {
        // Acquire: as in `cover`.
        self.cover.load(Ordering::Acquire) == incarnation
    }
    /// Stores which member, of which generation, represents this incarnation of the process, for threads that may neither block nor allocate.
    pub fn keep_process_member(&self, (member, generation): (u32, u32), incarnation: u64) {
        // Release: the member is one.
        self.process_member.store(u64::from(generation) << 32 | u64::from(member), Ordering::Release);
        // Release: after the member: in a forked child, the parent's is not taken for its own.
        self.represented.store(incarnation, Ordering::Release);
    }
    /// The member stored last, and its generation, if that was in this incarnation.
    #[inline(always)]
    pub fn process_member(&self, incarnation: u64) -> Option<(u32, u32)> {
        // Acquire: as in `keep_process_member`.
        if self.represented.load(Ordering::Acquire) != incarnation {
            return None;
        }
        let kept = self.process_member.load(Ordering::Acquire); // Acquire: as above.
        (kept != 0).then_some((kept as u32, (kept >> 32) as u32))
    }
    pub(crate) fn keep_presence(&self, kept: i32) {
        let mine = u64::from(process::incarnation() as u32) << 32;
        // Release: pairs with `take_presence`.
        self.presence.store(mine | (kept as u32 as u64 + 1), Ordering::Release);
    }

    /// The descriptor kept last, if this process kept it (`mine`) or if a process from which it was forked did; it is kept no longer.
    pub(crate) fn take_presence(&self, mine: bool) -> Option<i32> {
        // Acquire: pairs with `keep_presence`.
        let now = self.presence.load(Ordering::Acquire);
        let is_wanted = now != 0 && ((now >> 32) as u32 == process::incarnation() as u32) == mine;
        // AcqRel: only one of several threads takes it.
        let took = is_wanted && self.presence.compare_exchange(now, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        took.then(|| (now as u32 - 1) as i32)
    }
    /// One more than the highest member ever.
    #[inline]
    pub fn members_used(&self) -> u32 {
        // SeqCst: a waiter raises this before it sets its bit; a thread that must see the bit must see this.
        self.header().members_high.load(Ordering::SeqCst).min(self.geometry.members)
    }
    /// How many member slots a group has.
    #[cfg(not(feature = "sim"))]
    #[inline(always)]
    pub fn group(&self) -> u32 {
        crate::layout::GROUP
    }
    /// The same; an explorer's world may have set it.
    #[cfg(feature = "sim")]
    pub fn group(&self) -> u32 {
        self.group.get()
    }
    /// Makes groups of so many slots, before anybody joins.
    #[cfg(feature = "sim")]
    pub fn in_groups_of(&self, slots: u32) {
        self.group.set(slots);
    }
    /// Provides storage for the objects from `first` on, as many as get it at once, and for their lines of the panels in use.
    ///
    /// # Errors
    /// `NoSpace`, or the system's.
    pub(crate) fn back_objects(&self, first: u32) -> Result<(), ArenaError> {
        let g = &self.geometry;
        let (panels, _) = self.raise_backed(0, first / STEP);
        step!("storage behind more objects announced");
        let count = STEP.min(g.objects - first);
        self.back(g.objects_at() + first as usize * size_of::<Object>(), count as usize * size_of::<Object>())?;
        if panels > 0 {
            self.back(g.far_at(first), count as usize * FAR)?;
        }
        (0..panels).try_for_each(|panel| self.back(g.line_at(panel, first), count as usize * LINE))
    }

    /// Provides storage for the member slots from `first` on, as many as get it at once, and for their panel of wait bits: its lines for all
    /// objects that have storage. Any number of threads may do so at once.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn back_members(&self, first: u32) -> Result<(), ArenaError> {
        let g = &self.geometry;
        let count = INLINE_MEMBERS.min(g.members - first) as usize;
        self.back(g.members_at() + first as usize * size_of::<Member>(), count * size_of::<Member>())?;
        if first >= FIRST_VISITS {
            self.back(g.visits_at() + first as usize * 8, count * 8)?;
        }
        let behind = first - INLINE_MEMBERS;
        if !behind.is_multiple_of(PANEL_MEMBERS) {
            return Ok(());
        }
        let panel = behind / PANEL_MEMBERS;
        let (_, steps) = self.raise_backed(panel + 1, 0);
        step!("storage behind a panel of wait bits announced");
        let lines = ((steps + 1) * STEP).min(g.objects) as usize;
        if panel == 0 {
            self.back(g.far_at(0), lines * FAR)?;
            self.back(g.far_at(g.objects), FAR)?;
        }
        self.back(g.line_at(panel, g.objects), LINE)?;
        self.back(g.line_at(panel, 0), lines * LINE)
    }

    /// Raises the halves of [`Header::backed`] to these; answers what they are then.
    fn raise_backed(&self, panels: u32, steps: u32) -> (u32, u32) {
        let halves = |word: u64| ((word >> 32) as u32, word as u32);
        let raised = |word: u64| {
            let (p, s) = halves(word);
            u64::from(p.max(panels)) << 32 | u64::from(s.max(steps))
        };
        let backed = &self.header().backed;
        // Acquire: as below.
        let mut seen = backed.load(Ordering::Acquire);
        loop {
            // AcqRel: each of two threads that raise a half sees the other's, or is seen by it.
            match backed.compare_exchange(seen, raised(seen), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return halves(raised(seen)),
                Err(now) => seen = now,
            }
        }
    }

    fn back(&self, at: usize, len: usize) -> Result<(), ArenaError> {
        // SAFETY: within the mapping: each caller's part is one of the geometry's.
        dir::back(unsafe { self.base.add(at) }, len).map_err(|e| self.no_room(len as u64, e))
    }

    /// Provides storage for blocks, and for their owner words.
    ///
    /// # Errors
    /// `NoSpace`, or the system's.
    pub(crate) fn back_blocks(&self, first: u32, count: u32) -> Result<(), ArenaError> {
        let parts = [(self.geometry.owners_at(), 8), (self.geometry.blocks_at(), BLOCK)];
        for (at, each) in parts {
            let len = count as usize * each;
            // SAFETY: within the mapping: the caller has seen that there are so many blocks.
            let there = unsafe { self.base.add(at + first as usize * each) };
            if let Err(e) = dir::back(there, len) {
                // Storage provided so far is given back for others.
                dir::unback(there, len);
                return Err(self.no_room(len as u64, e));
            }
        }
        Ok(())
    }

    pub(super) fn no_room(&self, bytes: u64, e: io::Error) -> ArenaError {
        let dir = self.directory().unwrap_or(Path::new(""));
        match room::missing(dir, &e) {
            Some(missing) => {
                let name = self.name();
                let missing = format!("{missing}, or remove objects that nobody needs (`chappe ls {name}` shows them)");
                ArenaError::NoSpace { name: name.into(), bytes, dir: dir.display().to_string(), missing }
            }
            None => ArenaError::Io { what: format!("cannot have more memory for arena `{}`", self.name()), source: e },
        }
    }

    /// One more than the highest object slot ever used; in a private arena, that is used (I11 of object.rs).
    #[inline]
    pub fn objects_used(&self) -> u32 {
        // Acquire: pairs with the creator's raise, so that the slots below are seen as it left them.
        self.header().objects_high.load(Ordering::Acquire).min(self.geometry.objects)
    }
    /// How large its parts are.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
    /// Which threads can sleep on its words: those of this process, or of several.
    #[inline]
    pub fn scope(&self) -> Scope {
        self.scope
    }
    /// Whether only this process has it.
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        self.dir.is_none()
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The directory it lies in, if it is a named one.
    pub fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }
    /// Its inode, 0 for a private one.
    pub fn inode(&self) -> u64 {
        self.inode
    }
    /// Which arena this is among all that ever had its name.
    pub fn id(&self) -> u64 {
        // Relaxed: written once, before the arena could be seen.
        self.header().id.load(Ordering::Relaxed)
    }
}
