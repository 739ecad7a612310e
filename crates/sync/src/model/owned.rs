//! Owned semaphores as the explorer drives them. A thread waits for its process; another thread may have joined the arena for that process.

use super::{Actor, Refusal};
use crate::Interrupt;
use crate::owned::pair::{Ending, Pair, make, sweep};
use crate::semaphore_word;
use chappe_arena::layout::Object;
use chappe_arena::{ArenaError, Map};
use chappe_wait::cell::{Tag, Word};

/// An owned semaphore in an arena.
#[derive(Clone, Copy)]
pub struct OwnedAt(Pair);

impl OwnedAt {
    /// Makes an owned semaphore, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str) -> Result<OwnedAt, ArenaError> {
        let admin = map.admin();
        match OwnedAt::find(map, name) {
            Some(it) => Ok(it),
            None => make(map, &admin, name).map(OwnedAt),
        }
    }

    /// Finds an owned semaphore by name.
    pub fn find(map: &'static Map, name: &str) -> Option<OwnedAt> {
        map.find(name).and_then(|place| Pair::of(map, place)).map(OwnedAt)
    }

    /// Takes a unit if one is there and no member waits for it.
    ///
    /// # Errors
    /// `NoneFree`, `Dead`.
    pub fn try_wait(self, process: &Actor) -> Result<(), Refusal> {
        let process = process.party(self.0.map);
        if self.0.take_one(Some(process)) { Ok(()) } else { Ok(self.0.take(process)?) }
    }

    /// The same, where the first look was in vain.
    ///
    /// # Errors
    /// As [`OwnedAt::try_wait`].
    pub fn try_again(self, process: &Actor) -> Result<(), Refusal> {
        Ok(self.0.take(process.party(self.0.map))?)
    }

    /// Takes a unit without being a member.
    ///
    /// # Errors
    /// As [`OwnedAt::try_wait`].
    pub fn try_wait_unseen(self) -> Result<(), Refusal> {
        Ok(self.0.take_unseen()?)
    }

    /// Takes a unit for a process. Its thread `me` sleeps at once if there is none, until `deadline`.
    ///
    /// # Errors
    /// `TimedOut`, `Dead`.
    pub fn wait(self, me: &Actor, process: &Actor, deadline: Option<u64>) -> Result<(), Refusal> {
        match self.try_wait(process) {
            Err(Refusal::NoneFree) => {}
            other => return other,
        }
        let arms = self.0.arms(process.party(self.0.map));
        me.choose_as(&arms.each_ref(), deadline, false)?;
        Ok(())
    }

    /// As [`OwnedAt::wait`], and a signal or `by` ends the wait.
    ///
    /// # Errors
    /// `Interrupted`, `Dead`.
    pub fn wait_interruptible(self, me: &Actor, process: &Actor, by: &Interrupt) -> Result<(), Refusal> {
        match self.try_wait(process) {
            Err(Refusal::NoneFree) => {}
            other => return other,
        }
        let arms = self.0.arms(process.party(self.0.map));
        me.choose_until(&arms.each_ref(), None, false, Some(by))?;
        Ok(())
    }

    /// The step of a thread after it has taken a unit for its process.
    pub fn taken(self, process: &Actor, end: &EndAt) {
        self.0.taken(&end.0, || Some(*process.party(self.0.map)));
    }

    /// Declares that the process ends in good order.
    pub fn ends(self, process: &Actor, end: &EndAt) {
        end.0.say(chappe_plat::process::incarnation(), || _ = self.keep(process));
    }

    /// Gives back what the process holds, or adds a unit that it does not. False: it was removed.
    pub fn post(self, process: &Actor) -> bool {
        match self.0.give_back(process.party(self.0.map)) {
            Ok(false) => self.0.pay_in().is_ok(),
            given => given.is_ok(),
        }
    }

    /// Declares that the semaphore is no lock.
    pub fn demote(self) -> bool {
        self.0.demote()
    }

    /// Declares that the process ends in good order. False: it has not got the permit.
    pub fn keep(self, process: &Actor) -> bool {
        self.0.keep(process.party(self.0.map))
    }

    /// Whether the holder of the permit has declared that.
    pub fn is_kept(self) -> bool {
        self.0.word().is_kept()
    }

    /// Whether the semaphore is no lock.
    pub fn is_plain(self) -> bool {
        self.0.is_plain()
    }

    /// How many units there are to be had.
    pub fn value(self) -> u32 {
        self.0.value()
    }

    /// Whether it was removed.
    pub fn is_removed(self) -> bool {
        self.0.is_dead()
    }

    /// The units that do not have the permit: saved, under way, or granted and not yet taken. For onlookers, between two steps.
    pub fn count(self) -> u32 {
        semaphore_word::all(self.0.map, self.0.count.index)
    }

    /// The permit's cell. For onlookers, as the next two.
    pub fn cell(self) -> u64 {
        self.0.word().0
    }

    /// Whether the process has the permit.
    pub fn is_held_by(self, process: &Actor) -> bool {
        self.0.is_held_by(process.party(self.0.map))
    }

    /// Whether nobody gets the permit any more.
    pub fn is_retired(self) -> bool {
        self.0.word().is_retired()
    }

    /// Whether the permit is free, or reserved for a waiter.
    pub fn is_there(self) -> bool {
        matches!(self.0.word().tag(), Tag::Free | Tag::Reserved)
    }

    /// Removes it.
    pub fn remove(self) {
        let admin = self.0.map.admin();
        self.0.unmake(&admin);
    }

    /// The waiters, in order: member slots.
    pub fn waiters(self) -> Vec<u32> {
        self.0.arrived()
    }

    /// Whether any member's bit stands on one of its parts.
    pub fn is_awaited(self) -> bool {
        self.parts().iter().any(|part| self.0.map.anybody_waits(*part))
    }

    /// Where its parts lie: the permit, the count.
    pub fn parts(self) -> [u32; 2] {
        [self.0.permit.index, self.0.count.index]
    }

    /// The objects there.
    pub fn objects(self) -> [&'static Object; 2] {
        self.parts().map(|part| self.0.map.object(part))
    }
}

/// What a process declares of its end.
#[derive(Debug, Default)]
pub struct EndAt(Ending);

/// How many times a cell had become free when it held this value.
pub fn times_freed(cell: u64) -> u64 {
    Word(cell).version()
}

/// Removes what killed makers and removers have left of owned semaphores. Returns how many there were.
pub fn sweep_parts(map: &'static Map) -> u32 {
    let admin = map.admin();
    sweep(map, &admin)
}
