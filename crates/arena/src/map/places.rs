//! Where the parts of a mapped arena lie, and how much of each is in use. Creating, attaching and removing are in the parent module.

use super::Map;
use crate::error::ArenaError;
use crate::layout::{BLOCK, Cell, Geometry, Header, Member, Object, STEP};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::futex::Scope;
use chappe_plat::{dir, process};
use std::io;
use std::path::Path;

impl Map {
    pub(super) fn at<T>(&self, offset: usize) -> &T {
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
    /// An object slot.
    #[inline]
    pub fn object(&self, i: u32) -> &Object {
        assert!(i < self.geometry.objects);
        self.at(self.geometry.objects_at() + i as usize * size_of::<Object>())
    }
    /// A table cell.
    #[inline]
    pub fn cell(&self, i: u32) -> &Cell {
        assert!(i < self.geometry.cells);
        self.at(self.geometry.cells_at() + i as usize * size_of::<Cell>())
    }
    /// A word of an object's wait set: the bits of members `64 * i ..`.
    #[inline]
    pub fn waiting(&self, object: u32, i: usize) -> &AtomicU64 {
        if i < 4 {
            return &self.object(object).waiting[i];
        }
        let outside = self.geometry.outside_words();
        assert!(i - 4 < outside && object < self.geometry.objects);
        self.at(self.geometry.waiting_at() + (object as usize * outside + i - 4) * 8)
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
    /// The owner word of a block.
    pub(crate) fn block_owner(&self, i: u32) -> &AtomicU64 {
        assert!(i < self.geometry.blocks);
        self.at(self.geometry.owners_at() + i as usize * 8)
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
    /// Stores which member represents this process, for threads that may neither block nor allocate. 0 at first.
    pub fn keep_process_member(&self, process_member: u64) {
        // Release: the member is one.
        self.process_member.store(process_member, Ordering::Release);
    }
    /// The process_member stored last, by this process or by the one from which it was forked.
    #[inline(always)]
    pub fn process_member(&self) -> u64 {
        // Acquire: as in `keep_process_member`.
        self.process_member.load(Ordering::Acquire)
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
    /// Provides storage for the objects from `first` on, as many as get it at once.
    ///
    /// # Errors
    /// `NoSpace`, or the system's.
    pub(crate) fn back(&self, first: u32) -> Result<(), ArenaError> {
        let g = &self.geometry;
        let count = STEP.min(g.objects - first) as usize;
        let parts = [(g.objects_at(), size_of::<Object>()), (g.waiting_at(), g.outside_words() * 8)];
        for (at, each) in parts {
            let len = count * each;
            // SAFETY: within the mapping, since `first` is an object.
            let there = unsafe { self.base.add(at + first as usize * each) };
            if len > 0 {
                dir::back(there, len).map_err(|e| self.no_room(len as u64, e))?;
            }
        }
        Ok(())
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

    /// One more than the highest block ever used. What lies beyond may have no storage, and is not touched.
    pub fn blocks_used(&self) -> u32 {
        // Acquire: pairs with the claimer's raise, so that there is storage below.
        self.header().blocks_high.load(Ordering::Acquire).min(self.geometry.blocks)
    }

    pub(super) fn no_room(&self, bytes: u64, e: io::Error) -> ArenaError {
        let dir = self.directory().map_or_else(String::new, |dir| dir.display().to_string());
        match e.raw_os_error() {
            Some(28) => ArenaError::NoSpace { name: self.name().into(), bytes, dir },
            _ => ArenaError::Io { what: format!("cannot have more memory for arena `{}`", self.name()), source: e },
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
