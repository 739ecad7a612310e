//! Blocks: the memory of an arena's objects that is more than a slot. Claimed under `admin`. The numbers go on from those of object.rs.
//!
//! - I5: blocks are owned as cells are (I2); the blocks of one object are neighbours.
//! - I9: blocks follow I7: a block that is neither below `blocks_high`, nor one of the last `data_high`, was never used. Neither it nor its owner word may have storage: both get it
//!   when the block is claimed, and are not touched before. So an arena has room for much data and uses only the memory that was once in
//!   use. Where there is no more memory, the claim fails.
//! - I13: a process that makes many small objects looks for their blocks where it found the last ones, and at all blocks only once it has
//!   claimed a quarter as many as there are. So the making of n objects costs some n looks, and not the square of it; and at most a quarter
//!   of the memory waits for such a look. Where to look is a hint: whether a block is free, its owner word says.
//! - I15: *words*, which threads change by the protocols, and *data*, a user's bytes behind a lock, lie in blocks of their own. Words are claimed from the
//!   first block upwards, data from the last one downwards; what was never used lies in between, for both. So a block that was one of them becomes
//!   the other only if there is no room but there: neither among the free blocks of the same sort, nor in between. Otherwise a late thread
//!   that writes by a protocol where it may not (visit.rs) writes into words, and into nobody's data. It is a second line: nothing relies on it.
//!   (A tube's records, and what is in maps and stacks, lie beside the words that say whose they are, and count as words.)

use crate::error::ArenaError;
use crate::map::Map;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::step;
use std::ops::Range;

/// The most blocks that are claimed without a look at all of them: I13.
const FEW: u32 = 16;

/// What lies in blocks: I15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Words of a protocol.
    Words,
    /// Bytes of a user's, behind a lock.
    Data,
}

impl Map {
    /// Finds `count` neighbouring blocks that no living object uses and marks them as the object's. Answers the first.
    /// The caller holds `admin`.
    ///
    /// # Errors
    /// `BlocksFull`; `NoSpace` if there is no memory for them.
    pub fn claim_blocks(
        &'static self,
        object: u32,
        generation: u32,
        sort: Sort,
        count: u32,
    ) -> Result<u32, ArenaError> {
        self.without_the_dead(|| {
            let wanted =
                || ArenaError::BlocksFull { name: self.name().into(), wanted: count, capacity: self.geometry().blocks };
            let from = self.free_blocks(sort, count).ok_or_else(wanted)?;
            self.take_blocks(sort, from, count, u64::from(generation) << 32 | u64::from(object + 1))
        })
    }

    /// Where a run of free blocks begins, as [`Map::block_from`] counts them.
    fn free_blocks(&self, sort: Sort, count: u32) -> Option<u32> {
        let ([next, budget], (used, border)) = (&self.blocks_next[sort as usize], self.bounds(sort));
        // The explorer's worlds share this process's memory, which is not undone between them.
        let is_kept = !cfg!(feature = "sim");
        let left = budget.load(Ordering::Relaxed); // Relaxed: I13, a hint, and under admin.
        let near = if is_kept && count <= FEW && count <= left {
            budget.store(left - count, Ordering::Relaxed); // Relaxed: as above.
            self.free_run(sort, next.load(Ordering::Relaxed)..border, count) // Relaxed: as above.
        } else {
            None
        };
        let found = near.or_else(|| {
            self.clear_dead();
            budget.store(used / 4, Ordering::Relaxed); // Relaxed: as above.
            self.free_run(sort, 0..self.geometry().blocks, count)
        })?;
        if is_kept {
            next.store(found + count, Ordering::Relaxed); // Relaxed: as above.
        }
        Some(found)
    }

    /// I15: the `n`th block of a sort, from the end at which it begins.
    fn block_from(&self, sort: Sort, n: u32) -> u32 {
        match sort {
            Sort::Words => n,
            Sort::Data => self.geometry().blocks - 1 - n,
        }
    }

    /// How many blocks of a sort were ever used, and of how many it can have without those that were ever of the other sort.
    fn bounds(&self, sort: Sort) -> (u32, u32) {
        let other = if sort == Sort::Words { Sort::Data } else { Sort::Words };
        (self.blocks_used(sort), self.geometry().blocks - self.blocks_used(other))
    }

    /// The first run of free blocks there. So it is of the sort's own if there is one, then of those that were never used, and of the other's last.
    fn free_run(&self, sort: Sort, within: Range<u32>, count: u32) -> Option<u32> {
        let (used, border) = self.bounds(sort);
        let (mut run, mut at) = (0, within.start.min(used));
        // Neighbours mostly have one owner, and under `admin` no owner comes or goes meanwhile: each is looked up once.
        let (mut last, mut last_lives) = (0, false);
        let owners = self.block_owners();
        while run < count && at < within.end {
            if at == used && used < border {
                // The free blocks at the end are continued by blocks that were never used.
                let more = (border - used).min(count - run);
                (run, at) = (run + more, at + more);
                continue;
            }
            // Relaxed: under admin.
            let owner = owners[self.block_from(sort, at) as usize].load(Ordering::Relaxed);
            if owner != last {
                (last, last_lives) = (owner, self.owner_lives(owner));
            }
            run = if last_lives { 0 } else { run + 1 };
            at += 1;
        }
        (run == count).then(|| at - count)
    }

    /// Marks a run as an object's, with storage behind it. Answers the first block.
    fn take_blocks(&self, sort: Sort, from: u32, count: u32, owner: u64) -> Result<u32, ArenaError> {
        let (used, border) = self.bounds(sort);
        let first_of = |from: u32, count: u32| self.block_from(sort, from).min(self.block_from(sort, from + count - 1));
        // A run that goes on beyond what was used begins there, or before. One that begins behind it lies among the other sort's.
        let now = if from <= used { (from + count).min(border).max(used) } else { used };
        if now > used && !self.is_private() {
            self.back_blocks(first_of(used, now - used), now - used)?;
            step!("storage behind more blocks, nobody's yet");
        }
        let first = first_of(from, count);
        for word in &self.block_owners()[first as usize..(first + count) as usize] {
            word.store(owner, Ordering::Relaxed); // Relaxed: under admin; published by the head.
        }
        // Release: I9, after their storage.
        self.blocks_high(sort).fetch_max(now, Ordering::Release);
        Ok(first)
    }

    fn blocks_high(&self, sort: Sort) -> &AtomicU32 {
        match sort {
            Sort::Words => &self.header().blocks_high,
            Sort::Data => &self.header().data_high,
        }
    }

    /// How many blocks of a sort were ever used, from its end of the blocks. What lies beyond may have no storage, and is not touched.
    pub fn blocks_used(&self, sort: Sort) -> u32 {
        // Acquire: pairs with the claimer's raise, so that there is storage below.
        self.blocks_high(sort).load(Ordering::Acquire).min(self.geometry().blocks)
    }
}

#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod tests {
    use super::*;
    use crate::layout::{Geometry, Kind};
    use crate::map::{Hooks, Kinds, Place};
    use std::collections::BTreeMap;

    const NONE: Hooks = Hooks {
        recover: |_, _, _, _| {},
        wake_after_death: |_| {},
        clear: |_, _, _| {},
        notify_dead: |_, _, _| {},
        used: |_, _| false,
        leases: |_| {},
        kinds: &Kinds::NONE,
    };

    /// An arena, and what its blocks are.
    struct Area {
        map: &'static Map,
        /// Of which sorts each block was.
        were: Vec<[bool; 2]>,
        lives: BTreeMap<u32, (Place, Range<u32>)>,
        dice: u64,
    }

    impl Area {
        fn of(blocks: u32) -> Area {
            let map = Map::private(Geometry { members: 1, objects: 64, cells: 1, blocks }, NONE).expect("memory");
            Area { map, were: vec![[false; 2]; blocks as usize], lives: BTreeMap::new(), dice: 1 }
        }

        /// A number below `most`: Marsaglia's xorshift.
        fn roll(&mut self, most: u32) -> u32 {
            self.dice ^= self.dice << 13;
            self.dice ^= self.dice >> 7;
            self.dice ^= self.dice << 17;
            (self.dice % u64::from(most)) as u32
        }

        fn is_free(&self, block: u32) -> bool {
            !self.lives.values().any(|(_, its)| its.contains(&block))
        }

        /// Whether so many neighbours are free.
        fn has_run(&self, count: u32) -> bool {
            let mut run = 0;
            (0..self.were.len() as u32).any(|block| {
                run = if self.is_free(block) { run + 1 } else { 0 };
                run == count
            })
        }

        fn make(&mut self, sort: Sort, count: u32) -> bool {
            let mut its = 0..0;
            let made = self.map.make(&self.map.admin(), "", Kind::Mutex, |index, generation| {
                let first = self.map.claim_blocks(index, generation, sort, count)?;
                its = first..first + count;
                Ok(())
            });
            let Ok(place) = made else { return false };
            assert!(its.clone().all(|block| self.is_free(block)), "{its:?} is another's");
            its.clone().for_each(|block| self.were[block as usize][sort as usize] = true);
            self.lives.insert(place.index, (place, its));
            true
        }

        fn remove(&mut self, nth: u32) {
            let index = *self.lives.keys().nth(nth as usize).expect("one of those that live");
            let (place, _) = self.lives.remove(&index).expect("it lives");
            self.map.unmake(&self.map.admin(), place);
        }

        /// Makes and removes at random, so that at most so many live.
        fn turn(&mut self, most: usize) {
            let (sort, count) = (if self.roll(2) == 0 { Sort::Words } else { Sort::Data }, self.roll(6) + 1);
            if self.lives.len() >= most || !self.lives.is_empty() && self.roll(2) == 0 {
                let nth = self.roll(self.lives.len() as u32);
                self.remove(nth);
            } else {
                let (fits, is_made) = (self.has_run(count), self.make(sort, count));
                assert_eq!(fits, is_made, "{count} blocks of {sort:?}");
            }
        }
    }

    #[test]
    fn words_and_data_never_have_one_block_while_there_is_room_for_both() {
        let mut area = Area::of(256);
        (0..10_000).for_each(|_| area.turn(24));
        let used = area.were.iter().filter(|were| were.contains(&true)).count();
        assert!(used > 48, "only {used} were used");
        assert!(!area.were.contains(&[true; 2]), "a block was of both sorts");
    }

    #[test]
    fn a_full_arena_uses_every_free_block_of_either_sort() {
        let mut area = Area::of(48);
        (0..10_000).for_each(|_| area.turn(24));
        assert!(area.were.contains(&[true; 2]));
        while !area.lives.is_empty() {
            area.remove(0);
        }
        assert!(area.make(Sort::Data, 48) && !area.make(Sort::Words, 1));
        area.remove(0);
        assert!(area.make(Sort::Words, 48));
    }
}
