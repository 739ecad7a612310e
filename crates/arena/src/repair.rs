//! Repair: finds cells, blocks and marks that were lost, and takes them back.
//!
//! By the protocols nothing is lost for good, but some of it comes back only when it is needed, and in the right place. Cells that a killed
//! resizer had claimed count as its pool's until that pool is resized again. Blocks and cells that a killed maker had claimed count as used
//! if an object then lives in the same slot, in the same generation. Words that were written over may have any value. So [`Map::reclaim`]
//! goes through all of them.
//!
//! - I1: under `admin`, an object has exactly the cells of its chain, and the blocks from its first on. A cell or block whose owner word
//!   names a living object, but which is not among those, belongs to nobody.
//! - I2: a life word that names a thread of this PID namespace which does not exist has lost its mark: the kernel marks a word before the
//!   thread's id goes.
//! - I3: a slot whose life word the caller has claimed has no occupant.

use crate::admin::Admin;
use crate::blocks::Sort;
use crate::gate::{self, Gates};
use crate::layout::{BLOCK, Extent, Head, Kind};
use crate::map::{Map, Place};
use crate::member::Who;
use crate::object::{check_name, hash};
use chappe_plat::atomic::Ordering;
use chappe_plat::{Life, clock, process};

/// Up to so many members, each is checked once a second.
const ALL: u32 = 64;
/// Up to so many, [`SOME`] of them are; of more, one.
const MANY: u32 = 512;
const SOME: u32 = 8;

/// What was lost, and is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Cells of permits.
    pub cells: u32,
    /// Blocks of data.
    pub blocks: u32,
}

/// The right to a member slot that has no occupant; given back on drop, and at any death.
pub struct Vacant {
    map: &'static Map,
    slot: u32,
    gates: Gates,
}

impl Drop for Vacant {
    fn drop(&mut self) {
        let _pass = self.gates.pass(gate::slot(self.slot));
        self.map.member(self.slot).life.release();
    }
}

/// Which of `used` members a process checks in a second: the first of them, to be taken modulo `used`, and how many.
fn some_of(used: u32, second: u32, pid: u32) -> (u32, u32) {
    if used <= ALL {
        return (0, used);
    }
    let count = if used <= MANY { SOME } else { 1 };
    // Steps of the golden ratio: successive processes begin far apart, and evenly.
    let begins = (u64::from(pid.wrapping_mul(0x9e37_79b9)) * u64::from(used)) >> 32;
    (second.wrapping_mul(count).wrapping_add(begins as u32), count)
}

impl Map {
    /// The thread that holds `admin`, if it is alive.
    pub fn admin_holder(&self) -> Option<u32> {
        match self.header().admin.probe() {
            Life::Alive(tid) => Some(tid),
            _ => None,
        }
    }

    /// The member that this thread is, if any.
    pub fn member_of(&self, tid: u32) -> Option<Who> {
        // Acquire: as in `who`.
        let is_it =
            |i: &u32| self.member(*i).ident.load(Ordering::Acquire) as u32 == tid && self.occupant(*i).is_some();
        (0..self.members_used()).find(is_it).map(|i| self.who(i))
    }

    /// The generation that occupies slot `i`: alive, or dead and not yet swept.
    pub fn occupant(&self, i: u32) -> Option<u32> {
        if i >= self.geometry().members {
            return None;
        }
        let m = self.member(i);
        // Acquire: as in `dead`.
        let generation = (m.ident.load(Ordering::Acquire) >> 32) as u32;
        // Acquire: as in `dead`.
        (generation != 0 && m.swept.load(Ordering::Acquire) != generation).then_some(generation)
    }

    /// I2: if the occupant of slot `i` no longer exists although its life word has no mark: marks it, and describes the occupant.
    pub fn mark_lost(&self, i: u32) -> Option<Who> {
        let m = self.member(i);
        // Acquire, both: as in `dead`.
        let ident = m.ident.load(Ordering::Acquire);
        let same = || m.ident.load(Ordering::Acquire) == ident;
        let tid = ident as u32;
        let is_it =
            || m.life.probe() == Life::Alive(tid) && self.occupant(i).is_some() && self.dead(i).is_none() && same();
        // Relaxed: published by ident.
        let here = process::namespace() != 0 && m.namespace.load(Ordering::Relaxed) == process::namespace();
        // Relaxed: as above.
        if tid == 0 || !here || !is_it() || process::is_thread_of(tid, m.pid.load(Ordering::Relaxed)) {
            return None;
        }
        // In the gate nobody joins: the mark is this occupant's, however long the caller is stopped.
        let gates = self.gates().ok()?;
        let _pass = gates.try_pass(gate::slot(i)).filter(|_| is_it())?;
        let who = self.who(i);
        m.life.mark_dead(tid);
        Some(who)
    }

    /// Checks whether the occupants whose life words have no mark still exist, and marks those that do not (I2). The kernel handles only
    /// 2,048 of a thread's robust locks: a thread that locked so many others after it had joined dies unmarked, and no thread is woken.
    ///
    /// `few`: only some of many, other ones in each second and in each process. Every process with a waiter checks once a second, and so
    /// does each process that joins: together they check each occupant about as often, however many there are.
    pub(crate) fn mark_all_lost(&self, few: bool) {
        let used = self.members_used();
        let second = (clock::now() / 1_000_000_000) as u32;
        let (from, count) = if few { some_of(used, second, process::pid()) } else { (0, used) };
        for i in 0..count {
            self.mark_lost(from.wrapping_add(i) % used);
        }
    }

    /// The right to slot `i`, if it has no occupant, and is a slot at all.
    pub fn vacant(&'static self, i: u32) -> Option<Vacant> {
        if i >= self.geometry().members || self.occupant(i).is_some() {
            return None;
        }
        // A slot that no member has had is zeros, and has no lock to claim.
        for slot in self.members_used()..=i {
            self.open_slot(slot).ok()?;
        }
        let gates = self.gates().ok()?;
        let claimed = gates.try_pass(gate::slot(i)).is_some_and(|pass| self.claim(i, &pass));
        let vacant = claimed.then(|| Vacant { map: self, slot: i, gates })?;
        // I3.
        self.occupant(i).is_none().then_some(vacant)
    }

    /// I1: takes back the cells and blocks that are marked as a living object's, and are not.
    pub fn reclaim(&self, _admin: &Admin) -> Reclaimed {
        let g = self.geometry();
        let (mut cells, mut blocks) = (vec![false; g.cells as usize], vec![false; g.blocks as usize]);
        for index in 0..self.objects_used() {
            let o = self.object(index);
            // Relaxed: under admin.
            let head = Head(o.head.load(Ordering::Relaxed));
            // Relaxed, both: as above.
            let (first, count) = (o.more.load(Ordering::Relaxed), o.permits.load(Ordering::Relaxed) as usize);
            let bytes = match head.kind().filter(|_| !head.is_free()).map_or(Extent::Nothing, Kind::extent) {
                Extent::Cells => {
                    for (first, len) in self.extents(index) {
                        cells[first as usize..(first + len) as usize].fill(true);
                    }
                    continue;
                }
                Extent::Bytes => count.div_ceil(BLOCK),
                Extent::Blocks => count,
                Extent::Nothing => continue,
            };
            if let Some(first) = first.checked_sub(1) {
                let its = blocks.iter_mut().skip(first as usize).take(bytes);
                its.for_each(|used| *used = true);
            }
        }
        let mut found = Reclaimed::default();
        for (i, _) in cells.iter().enumerate().filter(|(_, used)| !**used) {
            let owner = &self.cell(i as u32).owner;
            // Relaxed: under admin.
            if self.owner_lives(owner.load(Ordering::Relaxed)) {
                owner.store(0, Ordering::Relaxed); // Relaxed: as above.
                found.cells += 1;
            }
        }
        // The others were never used.
        let ever = (0..self.blocks_used(Sort::Words)).chain(g.blocks - self.blocks_used(Sort::Data)..g.blocks);
        for i in ever.filter(|i| !blocks[*i as usize]) {
            let owner = &self.block_owners()[i as usize];
            // Relaxed: under admin.
            if self.owner_lives(owner.load(Ordering::Relaxed)) {
                owner.store(0, Ordering::Relaxed); // Relaxed: as above.
                found.blocks += 1;
            }
        }
        found
    }

    /// Answers whether the object has a valid name by which it could not be found; makes it findable by that name again.
    pub fn name_again(&self, _admin: &Admin, place: Place) -> bool {
        let o = self.object(place.index);
        let name = self.name_of(o);
        if check_name(&name, "object").is_err() || self.find(&name).is_some() {
            return false;
        }
        o.hash.store(hash(&name), Ordering::Relaxed); // Relaxed: under admin.
        self.insert_name(hash(&name), place.index);
        true
    }
}

#[cfg(all(test, not(feature = "sim")))]
mod tests {
    use super::*;

    /// For a crowd in which each member looks, or joins, within one second: how many questions they ask the system, and about how many
    /// different members.
    fn asked(used: u32) -> (u32, usize) {
        let (mut asked, mut seen) = (0, vec![false; used as usize]);
        for pid in 1_000..1_000 + used {
            let (from, count) = some_of(used, 77, pid);
            asked += count;
            (0..count).for_each(|i| seen[(from.wrapping_add(i) % used) as usize] = true);
        }
        (asked, seen.iter().filter(|seen| **seen).count())
    }

    #[test]
    fn joining_members_each_check_a_part_of_the_slots_for_deaths() {
        for used in [65, 200, 512] {
            assert_eq!(asked(used), (used * SOME, used as usize));
        }
        for used in [513, 1_000, 4_000, 16_000] {
            let (asked, seen) = asked(used);
            assert_eq!(asked, used);
            assert!(seen * 2 > used as usize, "{seen} of {used}");
        }
        // One process alone reaches every member, in so many seconds.
        let mut seen = vec![false; 4_000];
        (0..4_000).for_each(|second| seen[(some_of(4_000, second, 1).0 % 4_000) as usize] = true);
        assert!(seen.into_iter().all(|seen| seen));
        assert_eq!(some_of(ALL, 77, 1_000), (0, ALL));
    }
}
