//! The protocol of owned semaphores: a death returns what the dead process held, until the semaphore proves to be no lock.
//!
//! A POSIX semaphore's unit has no owner, nor has one in Nix (nix-semaphores-tubes, 2.1) or Plan 9: a process killed between
//! `sem_wait` and `sem_post` takes the unit with it, and a program that uses the semaphore as a lock waits for ever. Here a semaphore
//! that starts at 1 keeps its first unit in a pool of one *permit*, whose cell names the process that holds it. Further units are in a
//! semaphore beside it, the *count*, which starts at 0. A waiter waits for either. A post gives the permit back if the poster's
//! process holds it. Otherwise the semaphore is no lock: it is *demoted* for good, and the count gets one more. From then on a death
//! returns nothing, as in POSIX.
//!
//! | the permit's cell | PLAIN | what it is | a death of its holder leaves |
//! |---|---|---|---|
//! | FREE, or RESERVED for a waiter | any | an available unit | the same |
//! | HELD by a process's member | no | a lock, held | FREE: the next gets it |
//! | HELD by a process's member, KEEPS | no | a lock; its holder is exiting normally | RETIRED, and PLAIN |
//! | HELD by a process's member | yes | a unit, consumed | RETIRED |
//! | RETIRED: HELD by nobody | yes | that unit is gone for good, or taken by a process that cannot be a member | - |
//!
//! ```text
//!             wait, for the process       post by that process
//!   permit: FREE ----------------> HELD p ----------------> FREE
//!                                    |---- p dies --------> FREE      the next one's
//!                                    +---- p dies, PLAIN -> RETIRED
//!   p ends in good order: HELD p -> HELD p, KEEPS; a post as before; p dies: PLAIN, then RETIRED
//!   count:  n   wait: n - 1             post by another: PLAIN, then n + 1
//! ```
//!
//! The word `run` of the two objects says what they are (a private arena uses it for the bias; it has no owned semaphores):
//!
//! | object | bits | field |
//! |---|---|---|
//! | permit | 0-20 | one more than the index of its count |
//! | | 21-30 | the low bits of its own generation |
//! | | 31 | PLAIN: demoted |
//! | count | 0-31 | one more than the index of its permit, whose generation is in `more`; all ones: there is no permit yet |
//!
//! Invariants:
//! - I1: a unit is in the cell (FREE, RESERVED), in the count (its own I1), or consumed. `wait` takes one and `post` adds one, by one
//!   swap each. A death adds one (HELD to FREE), or none.
//! - I2: the count has no unit before PLAIN is set. PLAIN is never cleared.
//! - I3: a recoverer of a dead holder's cell reads the cell, then PLAIN, then swaps the exact word. So a death after PLAIN
//!   returns nothing. A death before PLAIN returns the permit; if PLAIN was set before any recoverer looked, it returns nothing, as if
//!   the death had come later. Of several recoverers one decides. If the word says KEEPS, the recoverer sets PLAIN between the two,
//!   while the dead holder still has the cell: nobody else can give it back, so it was no lock.
//! - I4: a permit is given back, or marked KEEPS, by a swap from the exact word that names the poster's process; that word was read
//!   before the head. Of two posts at once one gives the permit back; the other finds another word, and counts as a post by another.
//! - I5: the swap that takes a permit takes it for the process, also if it was granted to a thread: at each moment it is
//!   that thread's reservation or the process's.
//! - I6: one arrival, two queues: the wait queue's I3 and I5 hold for each. So the first of the waiters that are in both lines is
//!   served, by whichever part has a unit. Both parts serve by priority without aging, and by arrival among equals. So a waiter
//!   of low priority can wait for ever. A thread has priority 0 unless it sets another (`Priority`; `chappe run` does so for
//!   real-time threads).
//! - I7: a caller is told that there is no unit only if the cell had the same word before and after the look at the count, and neither
//!   had a unit for it: at that look there was none.
//! - I8: the permit's head publishes both parts. The count is in service before and after the permit. A count that no permit in service
//!   names, and names back, belongs to nobody; the next making or removal removes it.
//! - I9: PLAIN is set by a swap from flags that name the generation and were read before the head. So a late swap does not
//!   demote the next owned semaphore in the slot.
//!
//! Races, by name: R1 two posts by one process: I4. - R2 demotion against death: I3. - R3 demotion against a grant: they do not
//! meet. A reserved permit has no holder, and goes on to the next waiter if its waiter dies, PLAIN or not. - R4 death against post: the
//! posting process lives; a dead process's permit is not its own, so it demotes. - R5 two grants to one waiter: the wait queue's I3. -
//! R6 a grant from one part, its granter stopped before the wake, against a unit in the other part: the wait queue's I9.
//!
//! Ordering edges: E1 (SeqCst): PLAIN before the unit that another process adds; the cell before PLAIN in recovery. E2: a process
//! that marks its permit and then ends has done so before the kernel marks its word, which recovery has seen. E3 (SeqCst): an exiting
//! process says so, then looks at the cells; a taking thread swaps the cell, then looks whether its process is exiting. One of the two
//! marks the cell.
//!
//! Death at each step. Waiting: nothing is lost. Granted and not taken: the reservation is void, or the unit goes back (`semaphore_word`);
//! either goes to the next waiter. Taken: the table above. Posting, the permit given back or the unit added, and not yet
//! handed on: recovery drains. Posting, PLAIN set and no unit yet: demoted, and not posted. Taking without being a member (the arena has
//! no slot left), PLAIN set and nothing taken yet: demoted. Taken so: the death goes unnoticed and nothing returns, which is why the
//! semaphore is demoted first. Recovering: the next recoverer decides, also with PLAIN set for a word that says KEEPS. Making or
//! removing: I8.
//!
//! Progress: as pools and semaphores: lock-free, except for the sleep. `post` takes no lock and allocates nothing.
//!
//! Left open:
//! - A process that exits without running its exit handlers (the system call alone) returns its permit as a killed one does, and so does
//!   one that calls exec. If another process then posts for it, or the next program itself, there is one unit more than in POSIX.
//! - A thread that its process's exit stops between its swap and its look (E3) returns what it took, as a killed one does.
//! - A holder in another PID namespace is known to be dead by the mark on its life word and the end of its presence (member.rs of the arena):
//!   its pid says nothing here. If the kernel has not marked the word (a damaged list), the permit is not returned until a process of
//!   its own namespace looks.
//! - A child made by clone with the memory of its parent (CLONE_VM, except vfork) is taken for its parent: each may give back what the
//!   other took. Its exit marks nothing, since its pid is not its parent's.
//!
//! Explored: `tests/crash_owned.rs`. Left out there: weak memory (a flag and swaps, all sequentially consistent); 1,024 uses of a
//! slot, with the same count beside it, within one stopped swap of PLAIN.

use super::flags::{LINK, PLAIN, demote, is_plain};
use crate::drain::CellRef;
use crate::permit;
use crate::semaphore_word::{self, MAX, Unwanted};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{process, step};
use chappe_wait::cell::Word;
use chappe_wait::kinds;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site, Taken, look_by_taking};
use chappe_wait::wait::{Discipline, Grant, Party, is_still, next};

/// A count's word while its permit is not yet there.
const MAKING: u32 = u32::MAX;

fn flags(count: u32, generation: u32) -> u32 {
    (count + 1) | (generation << 21) & !PLAIN
}

/// The incarnation of the process that has announced its normal exit; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Ending(pub(super) AtomicU64);

impl Ending {
    /// E3: the process `here` exits; `mark` marks what it holds.
    pub fn say(&self, here: u64, mark: impl FnOnce()) {
        // SeqCst: E3, before the look at the cells.
        self.0.store(here, Ordering::SeqCst);
        mark();
    }
}

/// Both parts of an owned semaphore, and their arena.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub map: &'static Map,
    pub permit: Place,
    pub count: Place,
}

impl Pair {
    /// The owned semaphore that has its permit at this place, if it is in service.
    #[inline(always)]
    pub fn of(map: &'static Map, permit: Place) -> Option<Pair> {
        if map.is_private() || permit.index >= map.geometry().objects || !permit.head.is_live(Kind::Pool) {
            return None;
        }
        // Acquire: the object as its maker left it.
        let link = map.object(permit.index).run.load(Ordering::Acquire) & LINK;
        let index = link.checked_sub(1).filter(|index| *index < map.geometry().objects)?;
        // Acquire: as above.
        let head = Head(map.object(index).head.load(Ordering::Acquire));
        // I8: while the permit is in service, the count is.
        let there = is_still(map, permit.index, permit.head) && head.kind() == Some(Kind::Semaphore);
        let count = Place { index, head: Head::live(head.generation(), Kind::Semaphore) };
        [permit, count].into_iter().for_each(|part| map.through(part));
        there.then_some(Pair { map, permit, count })
    }

    fn object(&self) -> &'static Object {
        self.map.object(self.permit.index)
    }

    /// All waiters, by arrival (I6). A waiter in the permit's line only has not fully arrived: a later one may be before it
    /// in the count's line. That line is looked at second, since waiters enter it second.
    pub fn arrived(&self) -> Vec<u32> {
        let mut all = kinds::arrived(self.map, self.permit.index);
        step!("sees the waiters in the permit's line");
        let there = kinds::arrived(self.map, self.count.index);
        all.retain(|member| there.contains(member));
        all
    }

    fn cell(&self) -> CellRef<'static> {
        CellRef::first(self.map, self.object())
    }

    /// Whether it was demoted.
    pub fn is_plain(&self) -> bool {
        is_plain(self.map, self.object())
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        !is_still(self.map, self.permit.index, self.permit.head)
    }

    /// Takes a unit if there is one and nobody waits: the commonest cases. False means only that this failed.
    #[inline(always)]
    pub fn take_one(&self, process: Option<&Party>) -> bool {
        let (o, n) = (self.object(), self.map.object(self.count.index));
        process.is_some_and(|process| permit::take_one(o, self.permit, process).is_some())
            || semaphore_word::take_one(n, self.count).is_some()
    }

    /// Takes a unit if there is one and nobody waits for it. Never sleeps.
    pub fn take(&self, process: &Party) -> Result<(), Refused> {
        let arms = self.arms(process);
        loop {
            let before = self.cell().load();
            for arm in &arms {
                match arm.attempt(process, false) {
                    Err(Refused::NoneFree) => {}
                    other => return other.map(|_| ()),
                }
            }
            // I7.
            if self.cell().load() == before {
                return Err(Refused::NoneFree);
            }
        }
    }

    /// As [`Pair::take`], for a process that cannot be a member. Its death would go unnoticed, so taking the permit demotes the semaphore.
    /// It has no place in the line. It also hands nothing on, since its death while doing so would go unnoticed: waiters go first.
    pub fn take_unseen(&self) -> Result<(), Refused> {
        loop {
            let seen = self.cell().load();
            match semaphore_word::take(self.map, self.count) {
                Err(Refused::NoneFree) => {}
                other => return other,
            }
            if seen.is_free() && next(self.map, self.permit).is_none() {
                // I2; and behind the cell's load, I4 of pools.
                if !self.demote() {
                    return Err(Refused::Dead(0));
                }
                step!("demoted by a process that is no member, not yet taken");
                if self.cell().swap(seen, seen.retired()) {
                    return Ok(());
                }
            } else if self.cell().load() == seen {
                // I7.
                return Err(Refused::NoneFree);
            }
        }
    }

    /// The two parts that a waiter waits for. The permit first: it is tried first as well.
    pub fn arms<'a>(&'a self, process: &'a Party) -> [Part<'a>; 2] {
        [Part::Permit(self, process), Part::Count(self)]
    }

    /// Gives the permit back, if this process holds it. False: it does not hold it.
    #[inline(always)]
    pub fn give_back(&self, process: &Party) -> Result<bool, Unwanted> {
        let (cell, o) = (self.cell(), self.object());
        loop {
            let seen = cell.load();
            // After the cell, I4.
            if !is_still(self.map, self.permit.index, self.permit.head) {
                return Err(Unwanted::Dead);
            }
            if !holds(seen, process) {
                return Ok(false);
            }
            // The count has no unit unless demoted, I2.
            if self.is_plain() && semaphore_word::value(self.map.object(self.count.index)) >= MAX {
                return Err(Unwanted::Overflow(MAX));
            }
            if cell.swap(seen, seen.freed()) {
                step!("given back, not yet handed on");
                if self.map.waits_on(self.permit.index, o) {
                    kinds::drain(self.map, self.permit.index);
                }
                return Ok(true);
            }
        }
    }

    /// Adds a unit that this process does not hold. The caller must be a thread whose death is noticed: see `attachment`.
    pub fn pay_in(&self) -> Result<(), Unwanted> {
        let o = self.map.object(self.count.index);
        // The unit in the cell counts too.
        let most = MAX - u32::from(self.cell().load().is_free());
        if semaphore_word::value(o) >= most {
            // After the count, which may have become another's since the removal.
            return Err(if self.is_dead() { Unwanted::Dead } else { Unwanted::Overflow(MAX) });
        }
        // I2: before the unit.
        if !self.demote() {
            return Err(Unwanted::Dead);
        }
        step!("demoted, nothing added yet");
        if semaphore_word::give_one(o, self.count, 1).is_none() {
            semaphore_word::give(self.map, self.count, o, 1)?;
        }
        Ok(())
    }

    /// Demotes: the semaphore is no lock. False: it was removed.
    pub fn demote(&self) -> bool {
        demote(self.map, self.permit)
    }

    /// E3: this process has taken a unit.
    #[inline(always)]
    pub fn taken(&self, ending: &Ending, process: impl FnOnce() -> Option<Party>) {
        // SeqCst: E3, after the swap of the cell.
        if ending.0.load(Ordering::SeqCst) != 0 {
            self.taken_late(ending, process);
        }
    }

    /// This process, or one that it was forked from, has announced its exit.
    #[cold]
    fn taken_late(&self, ending: &Ending, process: impl FnOnce() -> Option<Party>) {
        // SeqCst: as in `taken`.
        let ends = ending.0.load(Ordering::SeqCst) == process::incarnation();
        if ends && let Some(process) = process() {
            self.keep(&process);
        }
    }

    /// Marks what this process holds of it as lost with the process, unless it gives it back first. False: it holds nothing.
    pub fn keep(&self, process: &Party) -> bool {
        loop {
            let seen = self.cell().load();
            // After the cell, I4.
            if !holds(seen, process) || !is_still(self.map, self.permit.index, self.permit.head) {
                return false;
            }
            if self.cell().swap(seen, seen.kept()) {
                return true;
            }
        }
    }

    /// Whether this process holds the permit.
    #[cfg(any(feature = "sim", feature = "loom"))]
    pub fn is_held_by(&self, process: &Party) -> bool {
        let seen = self.cell().load();
        // After the cell, I4.
        holds(seen, process) && is_still(self.map, self.permit.index, self.permit.head)
    }

    /// How many units there were at one moment, without those in transit.
    pub fn value(&self) -> u32 {
        loop {
            let before = self.cell().load();
            let count = semaphore_word::value(self.map.object(self.count.index));
            // I7.
            if self.cell().load() == before {
                return count.saturating_add(before.is_free().into()).min(MAX);
            }
        }
    }

    /// The word of the permit's cell.
    pub fn word(&self) -> Word {
        self.cell().load()
    }

    /// Takes both parts out of service. The caller holds `admin`.
    pub fn unmake(&self, admin: &Admin) {
        self.map.unmake(admin, self.permit);
        step!("its permit dead, its count not yet");
        self.map.unmake(admin, self.count);
    }
}

#[cfg(not(feature = "sim"))]
impl Pair {
    /// Gives back the permit of a dead holder. True: there was one.
    fn revive(&self) -> bool {
        let seen = self.word();
        let gone = !seen.is_free() && !seen.is_retired() && self.map.dead(seen.member()).is_some();
        if gone {
            // Even if another recovers at the same time: what the dead held is back when this returns.
            self.map.recover_dead();
        }
        gone
    }
}

fn holds(word: Word, process: &Party) -> bool {
    word.unkept() == word.held(process.member, process.generation)
}

/// One of the two parts that a waiter waits for.
pub(crate) enum Part<'a> {
    /// The permit, for this process.
    Permit(&'a Pair, &'a Party),
    /// A unit.
    Count(&'a Pair),
}

impl Arm for Part<'_> {
    fn site(&self) -> Site {
        match self {
            Part::Permit(pair, _) => Site::of(pair.map, pair.permit),
            Part::Count(pair) => Site::of(pair.map, pair.count),
        }
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        match self {
            Part::Permit(pair, process) => match permit::take_one(pair.object(), pair.permit, process) {
                Some(taken) => Ok(taken),
                None => permit::take(pair.permit, process),
            },
            Part::Count(pair) => {
                if semaphore_word::take_one(pair.map.object(pair.count.index), pair.count).is_some() {
                    return Ok(Taken::UNIT);
                }
                semaphore_word::take(pair.map, pair.count).map(|()| Taken::UNIT)
            }
        }
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, aim: Mode) -> Collected {
        match self {
            // I5.
            Part::Permit(pair, process) => {
                grant.map_or(Collected::Void, |grant| permit::collect_for(me, process, pair.permit, grant, number))
            }
            Part::Count(pair) => semaphore_word::arm::collect(me, pair.count, grant, aim),
        }
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        match self {
            Part::Count(pair) => semaphore_word::arm::look_at(pair.map, pair.count, how),
            #[cfg(not(feature = "sim"))]
            Part::Permit(pair, _) if how == Looking::Dead => Ok(pair.revive().into()),
            Part::Permit(..) => look_by_taking(self, me, how),
        }
    }
}

/// By priority, and in the order of arrival among equals. A thread has priority 0 unless it sets another; `chappe run` does for real-time threads.
const BY_RANK: Discipline = Discipline::Priority { aging: None };

/// Makes an owned semaphore. The caller holds `admin` and has checked that the name is free.
pub(crate) fn make(map: &'static Map, admin: &Admin, name: &str) -> Result<Pair, ArenaError> {
    sweep(map, admin);
    let count = semaphore_word::make_part(map, admin, "", 0, BY_RANK.code(), MAKING)?;
    step!("count made, permit not yet");
    let made = map.make(admin, name, Kind::Pool, |index, generation| {
        let o = map.object(count.index);
        o.more.store(generation, Ordering::Relaxed); // Relaxed: published by the permit's head.
        o.run.store(index + 1, Ordering::Relaxed); // Relaxed: as above.
        permit::prepare(map, index, generation, 1, BY_RANK, flags(count.index, generation))
    });
    match made {
        Ok(permit) => Ok(Pair { map, permit, count }),
        Err(e) => {
            map.unmake(admin, count);
            Err(e)
        }
    }
}

/// I8: removes counts that belong to nobody. Returns how many were in service.
pub(crate) fn sweep(map: &'static Map, admin: &Admin) -> u32 {
    let mut swept = 0;
    for index in 0..map.objects_used() {
        let o = map.object(index);
        // Relaxed: under `admin`.
        let head = Head(o.head.load(Ordering::Relaxed));
        if head.is_live(Kind::Semaphore) && is_lost(map, index, o) {
            map.unmake(admin, Place { index, head });
            swept += 1;
        }
    }
    swept
}

/// Whether a semaphore in service is a count without a permit. The caller holds `admin`.
fn is_lost(map: &'static Map, index: u32, o: &Object) -> bool {
    // Relaxed, both: under `admin`.
    let (link, generation) = (o.run.load(Ordering::Relaxed), o.more.load(Ordering::Relaxed));
    // An object with a name is no count, whatever was written over it.
    if map.is_private() || link == 0 || !map.name_of(o).is_empty() {
        return false;
    }
    let permit = Place { index: link - 1, head: Head::live(generation, Kind::Pool) };
    Pair::of(map, permit).is_none_or(|pair| pair.count.index != index)
}
