//! Owned semaphores as a protocol: semaphores that return what a dead process held, until they prove to be no lock.
//!
//! POSIX has no owner for a semaphore's unit, as Nix (nix-semaphores-tubes, 2.1) and Plan 9 have none: whoever is killed between
//! `sem_wait` and `sem_post` takes it along, and who uses a semaphore as a lock waits for ever. Here one that starts at 1 keeps
//! its first unit in a pool of one *permit*, whose cell names the process that has it; further ones are in a semaphore beside
//! it, the *count*, which has none at first. Who waits, waits for either. Who posts gives the permit back if its process holds it; else the semaphore
//! is no lock: it is *demoted* for good, and the count gets one more. From then on a death returns nothing, as POSIX has it.
//!
//! | the permit's cell | PLAIN | what it is | a death of its holder leaves |
//! |---|---|---|---|
//! | FREE, or RESERVED for a waiter | any | a unit to be had | the same |
//! | HELD by a process's member | no | a lock, held | FREE: the next gets it |
//! | HELD by a process's member, KEEPS | no | a lock, held by who ends in good order | RETIRED, and PLAIN |
//! | HELD by a process's member | yes | a unit, consumed | RETIRED |
//! | RETIRED: HELD by nobody | yes | that unit is gone for good, or had by who can be no member | - |
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
//! The word `run` of the two objects says what they are (in a private arena it is the bias'; there are no owned ones there):
//!
//! | object | bits | field |
//! |---|---|---|
//! | permit | 0-20 | one more than the index of its count |
//! | | 21-30 | the low bits of its own generation |
//! | | 31 | PLAIN: demoted |
//! | count | 0-31 | one more than the index of its permit, whose generation is in `more`; all ones: that is not yet there |
//!
//! Invariants:
//! - I1: a unit is in the cell (FREE, RESERVED), in the count (its own I1), or consumed. `wait` takes one, `post` adds one, by one
//!   swap each; a death adds one by HELD to FREE, or none.
//! - I2: the count has had no unit before PLAIN is set. PLAIN is never taken away.
//! - I3: who finds a dead holder's cell reads the cell, then PLAIN, then swaps the exact word. So a death that comes after PLAIN
//!   returns nothing. One that came before returns its permit, or, if PLAIN was set before anybody had looked, nothing: as if it
//!   had come later. Of several recoverers one decides. If the word says KEEPS, PLAIN is set between the two, while the dead holder still has
//!   the cell: nobody else can give it back, so it was no lock.
//! - I4: a permit is given back, or marked KEEPS, by a swap from the exact word that names the poster's process, which was read before the head was
//!   looked at. Of two posts at once one gives it back; the other finds another word, and is somebody else's.
//! - I5: a permit is taken for the process in the swap that takes it, also where it was granted to a thread: at each moment it is
//!   that thread's reservation or the process's.
//! - I6: one arrival, two queues: the wait queue's I3 and I5 hold for each. So of those who stand in both lines the first is
//!   served, by whichever has a unit.
//! - I7: "there is none" is said if the cell had the same word before and after the look at the count, and neither had one for
//!   us: at that look there was none.
//! - I8: the permit's head publishes both. The count is in service before and after; one that no permit in service names, and
//!   names back, belongs to nobody, and goes when the next is made or removed.
//! - I9: PLAIN is set by a swap from flags that were read before the head was looked at, and name the generation: a late one does not
//!   demote the next in the slot.
//!
//! Races, by name: R1 two posts by one process: I4. - R2 demotion against death: I3. - R3 demotion against a grant: they do not
//! meet; what is reserved is no holder's, and goes on to the next if its waiter dies, PLAIN or not. - R4 death against post: the process
//! that posts lives; a permit of a dead one is not its own, so it demotes. - R5 two grants to one waiter: the wait queue's I3. - R6 a grant from
//! the one part, its granter stopped before the wake, against a unit in the other: the wait queue's I9.
//!
//! Ordering edges: E1 (SeqCst): PLAIN before the unit that somebody else adds; the cell before PLAIN in recovery. E2: a process
//! that marks its permit and then ends has done so before the kernel marks its word, which recovery has seen. E3 (SeqCst): who ends says so,
//! then looks at the cells; who takes one swaps it, then looks whether its process ends: one of the two marks it.
//!
//! Death at each step: waiting: nothing. Granted and not taken: the reservation is void, or the unit goes back (units), and
//! either goes to the next. Taken: the table above. Posting, the permit given back or the unit added, and not yet
//! handed on: recovery drains. Posting, PLAIN and no unit yet: demoted, and not posted. Taking as no member (the arena has no slot
//! left), PLAIN and nothing taken yet: demoted. Taken so: nobody knows, and nothing returns, which is why it is demoted first. Recovering: whoever comes next decides, also
//! with PLAIN set for a word that says KEEPS. Making or
//! removing: I8.
//!
//! Progress: as pools and semaphores: lock-free, the sleep aside. `post` takes no lock and allocates nothing.
//!
//! Left open:
//! - A process that ends without having been asked (the system call alone) returns its permit as a killed one does, and so does one that
//!   calls exec. If somebody else then posts for it, or the next program itself does, there is one unit more than POSIX would have.
//! - A thread that its process's end stops between its swap and its look (E3) returns what it took, as a killed one does.
//! - A holder in another PID namespace is known to be dead by the mark on its life word and the end of its presence (member.rs of the arena):
//!   its pid says nothing here. If the kernel has not marked the word (a list that was damaged), the permit is not returned until a process of
//!   its own namespace looks.
//! - A child made by clone with the memory of its parent (CLONE_VM, vfork aside) is taken for its parent: what the one takes, the other may
//!   give back; and it ends without a word, since its number is not its parent's.
//!
//! Explored: `tests/crash_owned.rs`. Left out there: weak memory (a flag and swaps, all sequentially consistent); 1,024 uses of a
//! slot, with the same count beside it, within one stopped swap of PLAIN.

#[cfg(not(feature = "sim"))]
mod semaphore;

#[cfg(not(feature = "sim"))]
pub(crate) use semaphore::name_of;
#[cfg(not(feature = "sim"))]
pub use semaphore::{NotPosted, OwnedSemaphore, ending};

use crate::cell::Word;
use crate::claim::{Collected, Operation, Refused, Taken};
use crate::drain::CellRef;
use crate::units::{self, MAX, Unwanted};
use crate::wait::{Arm, Discipline, Grant, Party, foremost, is_still};
use crate::{kinds, permit};
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{process, step};

const LINK: u32 = (1 << 21) - 1;
const PLAIN: u32 = 1 << 31;
/// A count's word while its permit is not yet there.
const MAKING: u32 = u32::MAX;

fn flags(count: u32, generation: u32) -> u32 {
    (count + 1) | (generation << 21) & !PLAIN
}

/// Whether an object, a pool or a semaphore, is a part of an owned semaphore.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_part(map: &Map, o: &Object) -> bool {
    // Acquire: written before the object was in service.
    !map.is_private() && o.run.load(Ordering::Acquire) != 0
}

/// I3: whether a dead holder of this pool's first permit takes it along.
pub(crate) fn is_plain(map: &Map, o: &Object) -> bool {
    // SeqCst: E1, after the cell.
    !map.is_private() && o.run.load(Ordering::SeqCst) & PLAIN != 0
}

/// I3: whether a dead holder's first permit, whose word is `seen`, goes with it.
pub(crate) fn takes_along(map: &Map, place: Place, seen: Word) -> bool {
    let o = map.object(place.index);
    // Acquire: as its maker left it.
    if seen.is_kept() && !map.is_private() && o.run.load(Ordering::Acquire) & LINK != 0 {
        demote(map, place);
        step!("demoted for a dead holder, not yet retired");
    }
    is_plain(map, o)
}

/// Says that it is no lock. False: it was removed.
fn demote(map: &Map, permit: Place) -> bool {
    let flags = &map.object(permit.index).run;
    loop {
        // SeqCst: I9, before the head.
        let seen = flags.load(Ordering::SeqCst);
        if !is_still(map, permit.index, permit.head) {
            return false;
        }
        // SeqCst: E1, before the unit, or the permit is retired.
        let set = || flags.compare_exchange(seen, seen | PLAIN, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if seen & PLAIN != 0 || set() {
            return true;
        }
    }
}

/// The incarnation of the process that has said that it ends in good order; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Ending(AtomicU64);

impl Ending {
    /// E3: the process `here` ends; `mark` marks what it has.
    pub fn say(&self, here: u64, mark: impl FnOnce()) {
        // SeqCst: E3, before the look at the cells.
        self.0.store(here, Ordering::SeqCst);
        mark();
    }
}

/// Both parts, and whose they are.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub map: &'static Map,
    pub permit: Place,
    pub count: Place,
}

impl Pair {
    /// What has its permit there, if it is in service.
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
        // I8: while the permit is, the count is.
        let there = is_still(map, permit.index, permit.head) && head.kind() == Some(Kind::Semaphore);
        there.then_some(Pair {
            map,
            permit,
            count: Place { index, head: Head::live(head.generation(), Kind::Semaphore) },
        })
    }

    fn object(&self) -> &'static Object {
        self.map.object(self.permit.index)
    }

    /// Everybody who waits, by arrival (I6). Who stands in the permit's line alone has not arrived: one that comes later may be before it
    /// in the count's, which is looked at second, since one comes to it second.
    pub fn arrived(&self) -> Vec<u32> {
        let mut all = kinds::arrived(self.map, self.permit.index);
        step!("sees who stands in the permit's line");
        let there = kinds::arrived(self.map, self.count.index);
        all.retain(|member| there.contains(member));
        all
    }

    fn cell(&self) -> CellRef<'static> {
        CellRef::first(self.map, self.object())
    }

    /// Whether it is a lock no more.
    pub fn is_plain(&self) -> bool {
        is_plain(self.map, self.object())
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        !is_still(self.map, self.permit.index, self.permit.head)
    }

    /// Takes a unit if one is there and nobody waits: the commonest cases. False says nothing.
    #[inline(always)]
    pub fn take_one(&self, process: Option<&Party>) -> bool {
        let (o, n) = (self.object(), self.map.object(self.count.index));
        process.is_some_and(|process| permit::take_one(o, self.permit, process).is_some())
            || units::take_one(n, self.count).is_some()
    }

    /// Takes a unit if one is there and nobody waits for it. Never sleeps.
    pub fn take(&self, process: &Party) -> Result<(), Refused> {
        let arms = self.arms(process);
        loop {
            let before = self.cell().load();
            for arm in &arms {
                match arm.attempt(process) {
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

    /// As [`Pair::take`], by who can be no member: nobody could return it for him, so what he takes is a lock no more. He has no place in the
    /// line, and hands on to nobody, since nobody would notice if he died over it: whoever waits is served first.
    pub fn take_unseen(&self) -> Result<(), Refused> {
        loop {
            let seen = self.cell().load();
            match units::take(self.map, self.count) {
                Err(Refused::NoneFree) => {}
                other => return other,
            }
            if seen.is_free() && foremost(self.map, self.permit.index).is_none() {
                // I2; and behind the cell's load, I4 of pools.
                if !self.demote() {
                    return Err(Refused::Dead(0));
                }
                step!("demoted by who is no member, not yet taken");
                if self.cell().swap(seen, seen.retired()) {
                    return Ok(());
                }
            } else if self.cell().load() == seen {
                // I7.
                return Err(Refused::NoneFree);
            }
        }
    }

    /// What one waits for. The permit first: it is tried first as well.
    pub fn arms<'a>(&'a self, process: &'a Party) -> [Part<'a>; 2] {
        [Part::Permit(self, process), Part::Count(self)]
    }

    /// Gives the permit back, if this process holds it. False: it does not.
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
            // The count has none unless it is demoted, I2.
            if self.is_plain() && units::value(self.map.object(self.count.index)) >= MAX {
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

    /// Adds a unit that this process does not hold. Whoever calls this must be seen to die: see `seat`.
    pub fn pay_in(&self) -> Result<(), Unwanted> {
        let o = self.map.object(self.count.index);
        // The unit in the cell counts, too.
        let most = MAX - u32::from(self.cell().load().is_free());
        if units::value(o) >= most {
            // After the count, which may be another's since it was removed.
            return Err(if self.is_dead() { Unwanted::Dead } else { Unwanted::Overflow(MAX) });
        }
        // I2: before the unit.
        if !self.demote() {
            return Err(Unwanted::Dead);
        }
        step!("demoted, nothing added yet");
        if units::give_one(o, self.count, 1).is_none() {
            units::give(self.map, self.count, o, 1)?;
        }
        Ok(())
    }

    /// Says that it is no lock. False: it was removed.
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

    /// Somebody of this process, or of one that it was forked from, has said that it ends.
    #[cold]
    fn taken_late(&self, ending: &Ending, process: impl FnOnce() -> Option<Party>) {
        // SeqCst: as in `taken`.
        let ends = ending.0.load(Ordering::SeqCst) == process::incarnation();
        if ends && let Some(process) = process() {
            self.keep(&process);
        }
    }

    /// What this process has of it goes with it, unless it gives it back first. False: it has nothing.
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

    /// Whether this process has the permit.
    #[cfg(any(feature = "sim", feature = "loom"))]
    pub fn is_held_by(&self, process: &Party) -> bool {
        let seen = self.cell().load();
        // After the cell, I4.
        holds(seen, process) && is_still(self.map, self.permit.index, self.permit.head)
    }

    /// How many units there were at one moment, those on their way aside.
    pub fn value(&self) -> u32 {
        loop {
            let before = self.cell().load();
            let count = units::value(self.map.object(self.count.index));
            // I7.
            if self.cell().load() == before {
                return count.saturating_add(before.is_free().into()).min(MAX);
            }
        }
    }

    /// What its permit's cell says.
    pub fn word(&self) -> Word {
        self.cell().load()
    }

    /// Takes both out of service. The caller holds `admin`.
    pub fn unmake(&self, admin: &Admin) {
        self.map.unmake(admin, self.permit);
        step!("its permit dead, its count not yet");
        self.map.unmake(admin, self.count);
    }
}

fn holds(word: Word, process: &Party) -> bool {
    word.unkept() == word.held(process.member, process.generation)
}

/// One of the two things that a waiter waits for.
pub(crate) enum Part<'a> {
    /// The permit, for this process.
    Permit(&'a Pair, &'a Party),
    /// A unit.
    Count(&'a Pair),
}

impl Arm for Part<'_> {
    fn map(&self) -> &'static Map {
        match self {
            Part::Permit(pair, _) | Part::Count(pair) => pair.map,
        }
    }
    fn place(&self) -> Place {
        match self {
            Part::Permit(pair, _) => pair.permit,
            Part::Count(pair) => pair.count,
        }
    }
}

impl Operation for Part<'_> {
    fn attempt(&self, _me: &Party) -> Result<Taken, Refused> {
        match self {
            Part::Permit(pair, process) => match permit::take_one(pair.object(), pair.permit, process) {
                Some(taken) => Ok(taken),
                None => permit::take(pair.permit, process),
            },
            Part::Count(pair) => {
                if units::take_one(pair.map.object(pair.count.index), pair.count).is_some() {
                    return Ok(Taken::UNIT);
                }
                units::take(pair.map, pair.count).map(|()| Taken::UNIT)
            }
        }
    }
    fn collect(&self, me: &Party, grant: Grant, number: u32) -> Collected {
        match self {
            // I5.
            Part::Permit(pair, process) => permit::collect_for(me, process, pair.permit, grant, number),
            Part::Count(_) => units::collect(grant),
        }
    }
    #[cfg(not(feature = "sim"))]
    fn revive(&self) -> bool {
        let (map, gone) = match self {
            Part::Permit(pair, _) => {
                let seen = pair.word();
                (pair.map, !seen.is_free() && !seen.is_retired() && pair.map.dead(seen.member()).is_some())
            }
            Part::Count(pair) => (pair.map, units::haunted(pair.map, pair.count.index)),
        };
        if gone {
            // Whoever else is at it: what the dead held is back when this returns.
            map.recover_dead();
        }
        gone
    }
}

/// What waits with the same priority, as all do but real-time threads under `chappe run`, is served in the order of arrival.
const BY_RANK: Discipline = Discipline::Priority { aging: None };

/// Makes one. The caller holds `admin` and has seen that the name is free.
pub(crate) fn make(map: &'static Map, admin: &Admin, name: &str) -> Result<Pair, ArenaError> {
    sweep(map, admin);
    let count = units::make_part(map, admin, "", 0, BY_RANK.code(), MAKING)?;
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

/// I8: removes counts that belong to nobody. Tells how many were in service.
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
    // What has a name is no count, whatever somebody has written over it.
    if map.is_private() || link == 0 || !map.name_of(o).is_empty() {
        return false;
    }
    let permit = Place { index: link - 1, head: Head::live(generation, Kind::Pool) };
    Pair::of(map, permit).is_none_or(|pair| pair.count.index != index)
}
