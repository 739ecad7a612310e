//! A member that acts, and the objects that it acts on: pools, semaphores, mutexes.

use super::arms::{AnyAt, PoolAt, SemaphoreAt};
use crate::bias::Holds;
use crate::contend::contend;
use crate::drain::{cell_at, cells, permits};
use crate::lock::{self, Try};
use crate::many::{Many, take_many, wait_many};
use crate::{permit, semaphore_word};
use chappe_arena::layout::{Geometry, Kind};
use chappe_arena::{ArenaError, Hooks, Joined, Map, MemberKind, Place};
use chappe_plat::dir::Dir;
use chappe_wait::claim::wait_for;
use chappe_wait::interrupt::Interrupt;
use chappe_wait::kinds::{arrived, drain};
use chappe_wait::operation::{Arm, Refused, Site, Taken, WaitSpec};
use chappe_wait::owner;
use chappe_wait::wait;
use chappe_wait::wait::{Discipline, Parties, Party, Patience};
use std::cell::Cell;

/// The arena's callbacks. Leases are locks of the system and not explored.
pub const HOOKS: Hooks = Hooks {
    recover: chappe_wait::recover::recover,
    clear: chappe_wait::kinds::clear,
    notify_dead: chappe_wait::recover::notify_dead,
    used: chappe_wait::kinds::used,
    wake_after_death: chappe_tube::kinds::wake_after_death,
    leases: |_| {},
    kinds: &crate::kinds::table::TABLE,
};

/// A mutex in an arena.
#[derive(Clone, Copy)]
pub struct MutexAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

/// How an attempt to lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// Locked, and whole.
    Locked,
    /// Locked; an earlier holder left the data torn.
    Torn,
    /// Not locked: another member has it, or the time was up.
    Busy,
    /// The mutex was given up for ever.
    Condemned,
    /// The mutex was removed.
    Dead,
}

impl From<Try> for Locking {
    fn from(t: Try) -> Locking {
        match t {
            Try::Locked => Locking::Locked,
            Try::Torn => Locking::Torn,
            Try::Busy => Locking::Busy,
            Try::Condemned => Locking::Condemned,
            Try::Dead => Locking::Dead,
        }
    }
}

/// A permit that the actor took, and may have lost since.
#[derive(Clone, Copy)]
pub struct Held {
    pub(super) pool: PoolAt,
    pub(super) taken: Taken,
}

impl Held {
    /// Which permit of the pool.
    pub fn index(&self) -> u32 {
        self.taken.position
    }

    /// Whether the permit is still the actor's: it may have been taken away.
    pub fn is_there(&self) -> bool {
        let cell = cell_at(self.pool.map, self.pool.place.index, self.taken.position);
        cell.is_some_and(|c| c.load() == self.taken.word)
    }
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// None free, or they belong to waiters.
    NoneFree,
    /// The time was up.
    TimedOut,
    /// This arm's object was removed.
    Dead(usize),
    /// The pool has not so many permits.
    TooMany,
    /// The wait was interrupted.
    Interrupted,
}

impl From<Refused> for Refusal {
    fn from(r: Refused) -> Refusal {
        match r {
            Refused::NoneFree => Refusal::NoneFree,
            Refused::TimedOut => Refusal::TimedOut,
            Refused::Dead(arm) => Refusal::Dead(arm),
            Refused::TooMany => Refusal::TooMany,
            Refused::Interrupted => Refusal::Interrupted,
            #[cfg(not(feature = "sim"))]
            Refused::Inherited(_) => unreachable!("there are no handles here"),
        }
    }
}

/// Makes an arena.
///
/// # Errors
/// As [`Map::create`].
pub fn create(dir: &Dir, name: &str, geometry: Geometry) -> Result<&'static Map, ArenaError> {
    Map::create(dir, name, geometry, false, HOOKS)
}

/// Attaches an arena.
///
/// # Errors
/// As [`Map::attach`].
pub fn attach(dir: &Dir, name: &str) -> Result<&'static Map, ArenaError> {
    Map::attach(dir, name, HOOKS)
}

/// Removes an arena.
///
/// # Errors
/// As [`Map::remove`].
pub fn remove(dir: &Dir, name: &str, force: bool) -> Result<(), ArenaError> {
    Map::remove(dir, name, force, |_, _, _| false, HOOKS)
}

/// A private arena, for mixed choices.
///
/// # Errors
/// As [`Map::private`].
pub fn private(geometry: Geometry) -> Result<&'static Map, ArenaError> {
    Map::private(geometry, HOOKS)
}

/// A private arena that all of the explorer's processes have in common.
///
/// # Errors
/// As [`Map::private`].
#[cfg(feature = "sim")]
pub fn private_of_all(geometry: Geometry) -> Result<&'static Map, ArenaError> {
    Map::private_of_all(geometry, HOOKS)
}

/// A thread that has joined an arena, and perhaps its process's private one.
#[derive(Clone, Copy)]
pub struct Actor {
    pub(super) who: Parties,
    pub(super) joined: Joined,
    /// The member at whose bell the actor sleeps.
    pub(super) bell: Option<u32>,
    /// The priority of its waits.
    pub(super) priority: u8,
}

impl Actor {
    /// Joins.
    ///
    /// # Errors
    /// As [`Map::join`].
    pub fn join(map: &'static Map, label: &str) -> Result<Actor, ArenaError> {
        Actor::join_as(map, MemberKind::Thread, label)
    }

    /// Joins on behalf of the whole process: the calling thread is its process_member, and other threads act for it.
    ///
    /// # Errors
    /// As [`Map::join`].
    pub fn join_for_process(map: &'static Map, label: &str) -> Result<Actor, ArenaError> {
        Actor::join_as(map, MemberKind::Process, label)
    }

    pub(super) fn join_as(map: &'static Map, attachment: MemberKind, label: &str) -> Result<Actor, ArenaError> {
        let joined = map.join(attachment, label)?;
        let main =
            Party { map, member: joined.index, generation: joined.generation, holds: Holds::of(map, joined.index) };
        Ok(Actor { who: Parties { main, private: None }, joined, bell: None, priority: 0 })
    }

    /// Joins the private arena as well: from now on choices may be mixed.
    ///
    /// # Errors
    /// As [`Map::join`].
    pub fn join_private(mut self, map: &'static Map) -> Result<Actor, ArenaError> {
        let joined = map.join(MemberKind::Thread, "private")?;
        self.who.private = Some(Party {
            map,
            member: joined.index,
            generation: joined.generation,
            holds: Holds::of(map, joined.index),
        });
        Ok(self)
    }

    /// From now on the actor sleeps at the bell of another one, as a light thread does.
    pub fn at_bell_of(self, bell: &Actor) -> Actor {
        Actor { bell: Some(bell.member()), ..self }
    }

    /// The actor's member slot.
    pub fn member(&self) -> u32 {
        self.joined.index
    }

    /// Gives up the slot, and what its member still owns.
    pub fn leave(self) {
        self.who.main.map.leave(self.joined);
    }

    /// Takes a permit if one is free and no member waits.
    ///
    /// # Errors
    /// `NoneFree`, `Dead`.
    pub fn try_acquire(&self, pool: PoolAt) -> Result<Held, Refusal> {
        let taken = pool.attempt(self.party(pool.map), false)?;
        Ok(Held { pool, taken })
    }

    /// Takes a permit of any of the pools, sleeping at once if there is none, until `deadline`.
    ///
    /// # Errors
    /// `TimedOut`, `Dead`.
    pub fn acquire(&self, pools: &[PoolAt], deadline: Option<u64>) -> Result<(usize, Held), Refusal> {
        self.acquire_as(pools, deadline, false)
    }

    /// As [`Actor::acquire`], spinning instead of sleeping.
    ///
    /// # Errors
    /// As [`Actor::acquire`].
    pub fn acquire_spinning(&self, pools: &[PoolAt], deadline: Option<u64>) -> Result<(usize, Held), Refusal> {
        self.acquire_as(pools, deadline, true)
    }

    fn acquire_as(&self, pools: &[PoolAt], deadline: Option<u64>, spin: bool) -> Result<(usize, Held), Refusal> {
        let arms: Vec<&PoolAt> = pools.iter().collect();
        let (at, taken) = self.choose_as(&arms, deadline, spin)?;
        Ok((at, Held { pool: pools[at], taken }))
    }

    /// Completes one of several arms, sleeping at once if none is ready, until `deadline`. Returns which, and the
    /// permit.
    ///
    /// # Errors
    /// `TimedOut`, `Dead`.
    pub fn choose(&self, arms: &[AnyAt], deadline: Option<u64>) -> Result<(usize, Option<Held>), Refusal> {
        let operations: Vec<&dyn Arm> = arms.iter().map(AnyAt::operation).collect();
        let (at, taken) = self.choose_as(&operations, deadline, false)?;
        let held = match arms[at] {
            AnyAt::Pool(pool) => Some(Held { pool, taken }),
            AnyAt::Semaphore(_) => None,
        };
        Ok((at, held))
    }

    pub(super) fn choose_as<A: Arm + ?Sized>(
        &self,
        arms: &[&A],
        deadline: Option<u64>,
        spin: bool,
    ) -> Result<(usize, Taken), Refusal> {
        self.choose_until(arms, deadline, spin, None)
    }

    pub(super) fn choose_until<A: Arm + ?Sized>(
        &self,
        arms: &[&A],
        deadline: Option<u64>,
        spin: bool,
        interrupt: Option<&Interrupt>,
    ) -> Result<(usize, Taken), Refusal> {
        for (at, arm) in arms.iter().enumerate() {
            match arm.attempt(self.party(arm.site().map), false) {
                Ok(taken) => return Ok((at, taken)),
                Err(Refused::Dead(_)) => return Err(Refusal::Dead(at)),
                Err(_) => {}
            }
        }
        let budget = Cell::new(0);
        let patience = Patience { forever: spin, none: !spin, interrupt, bell: self.bell, ..self.patience(&budget) };
        let who = match self.who.private {
            // The wait word of a wait in the private arena alone is the private one.
            Some(p) if arms.iter().all(|a| std::ptr::eq(a.site().map, p.map)) => Parties { main: p, private: None },
            Some(p) if arms.iter().all(|a| !std::ptr::eq(a.site().map, p.map)) => {
                Parties { main: self.who.main, private: None }
            }
            _ => self.who,
        };
        Ok(wait_for(&who, arms, WaitSpec::to_take(deadline, &patience))?)
    }

    /// Consumes a unit if one is there and no member waits.
    ///
    /// # Errors
    /// `NoneFree`, `Dead`.
    pub fn try_down(&self, semaphore: SemaphoreAt) -> Result<(), Refusal> {
        semaphore.attempt(self.party(semaphore.map), false)?;
        Ok(())
    }

    /// Consumes a unit, sleeping at once if there is none, until `deadline`.
    ///
    /// # Errors
    /// `TimedOut`, `Dead`.
    pub fn down(&self, semaphore: SemaphoreAt, deadline: Option<u64>) -> Result<(), Refusal> {
        self.choose_as(&[&semaphore], deadline, false)?;
        Ok(())
    }

    /// As [`Actor::down`], and a signal or `by` ends the wait.
    ///
    /// # Errors
    /// `Interrupted`; else as [`Actor::down`].
    pub fn down_interruptible(
        &self,
        semaphore: SemaphoreAt,
        deadline: Option<u64>,
        by: &Interrupt,
    ) -> Result<(), Refusal> {
        self.choose_until(&[&semaphore], deadline, false, Some(by))?;
        Ok(())
    }

    /// Takes `n` permits of a pool at once if so many are free.
    ///
    /// # Errors
    /// `NoneFree`, `Dead`, `TooMany`.
    pub fn try_acquire_many(&self, pool: PoolAt, n: u32) -> Result<Vec<Held>, Refusal> {
        let mut many = Many::new();
        take_many(pool.place, self.party(pool.map), n, &mut many)?;
        Ok(many.all().map(|taken| Held { pool, taken }).collect())
    }

    /// Takes `n` permits of a pool at once, sleeping at once if there are too few, until `deadline`.
    ///
    /// # Errors
    /// `TimedOut`, `Dead`, `TooMany`.
    pub fn acquire_many(&self, pool: PoolAt, n: u32, deadline: Option<u64>) -> Result<Vec<Held>, Refusal> {
        let mut many = Many::new();
        match take_many(pool.place, self.party(pool.map), n, &mut many) {
            Err(Refused::NoneFree) => {
                let budget = Cell::new(0);
                let patience = self.patience(&budget);
                let who = Parties { private: None, ..self.who };
                wait_many(&who, &pool.site(), n, deadline, &patience, &mut many)?;
            }
            other => other?,
        }
        Ok(many.all().map(|taken| Held { pool, taken }).collect())
    }

    /// The actor sleeps at once.
    pub(super) fn patience<'a>(&self, budget: &'a Cell<u32>) -> Patience<'a> {
        Patience { budget, forever: false, none: true, interrupt: None, priority: self.priority, bell: None }
    }

    pub(super) fn mine(&self) -> u64 {
        owner::held_by(self.who.main.member, self.who.main.generation)
    }

    /// Locks a mutex if it is free.
    pub fn try_lock(&self, mutex: MutexAt) -> Locking {
        let o = mutex.map.object(mutex.place.index);
        if self.enter(mutex) {
            return Locking::Locked;
        }
        if lock::take_one(mutex.map, o, mutex.place, lock::free_word(mutex.place), self.mine()) {
            self.locked(mutex, self.mine());
            return Locking::Locked;
        }
        lock::take(mutex.map, mutex.place, self.mine()).into()
    }

    /// Locks a mutex, sleeping at once if it is held, until `deadline`.
    pub fn lock(&self, mutex: MutexAt, deadline: Option<u64>) -> Locking {
        match self.try_lock(mutex) {
            Locking::Busy => {
                let budget = Cell::new(0);
                let patience = self.patience(&budget);
                let who = Parties { private: None, ..self.who };
                contend(&who, &Site::of(mutex.map, mutex.place), self.mine(), deadline, &patience).into()
            }
            other => other,
        }
    }

    /// Unlocks. False: the mutex was not ours any more.
    pub fn unlock(&self, mutex: MutexAt) -> bool {
        let (place, o) = (mutex.place, mutex.map.object(mutex.place.index));
        lock::give(mutex.map, place, o, lock::free_word(place), self.mine())
    }

    /// Marks the data as torn, or as whole again.
    pub fn tear(&self, mutex: MutexAt, torn: bool) {
        mutex.map.through(mutex.place);
        lock::tear(mutex.map, mutex.map.object(mutex.place.index), self.mine(), torn);
    }

    /// Gives the mutex up for ever.
    pub fn condemn(&self, mutex: MutexAt) {
        mutex.map.through(mutex.place);
        lock::condemn(mutex.map, mutex.place.index, mutex.map.object(mutex.place.index), self.mine());
    }

    /// Gives a permit back. False: it had been taken away.
    pub fn release(&self, held: Held) -> bool {
        let PoolAt { map, place } = held.pool;
        permit::give(map, place, map.object(place.index), held.taken)
    }

    /// Makes a held permit a lease: its holder's death leaves an orphan. False: it had been taken away.
    pub fn lease(&self, held: &mut Held) -> bool {
        let leased = held.taken.word.leased();
        let cell = cell_at(held.pool.map, held.pool.place.index, held.taken.position);
        let done = cell.is_some_and(|c| c.swap(held.taken.word, leased));
        if done {
            held.taken.word = leased;
        }
        done
    }

    pub(super) fn party(&self, map: &Map) -> &Party {
        match &self.who.private {
            Some(p) if std::ptr::eq(p.map, map) => p,
            _ => &self.who.main,
        }
    }
}

impl SemaphoreAt {
    /// Makes a semaphore, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, value: u32, barging: bool) -> Result<SemaphoreAt, ArenaError> {
        SemaphoreAt::make_as(map, name, value, if barging { wait::BARGING } else { semaphore_word::STRONG })
    }

    pub(super) fn make_as(map: &'static Map, name: &str, value: u32, how: u32) -> Result<SemaphoreAt, ArenaError> {
        let admin = map.admin();
        if let Some(place) = map.find(name) {
            return Ok(SemaphoreAt { map, place });
        }
        let place = semaphore_word::make(map, &admin, name, value, how)?;
        Ok(SemaphoreAt { map, place })
    }

    /// Adds units. False: refused, the semaphore is dead or would overflow.
    pub fn up(self, n: u32) -> bool {
        let o = self.map.object(self.place.index);
        semaphore_word::give_one(o, self.place, n).is_some() || semaphore_word::give(self.map, self.place, o, n).is_ok()
    }

    /// Marks that a member may wait, as a waiter that has given up leaves it.
    pub fn mark(self) {
        semaphore_word::mark(self.map, self.place.index);
    }

    /// Grants units to waiters, as any member that touches the object does.
    pub fn drain(self) {
        drain(self.map, self.place.index);
    }

    /// The semaphore's value.
    pub fn value(self) -> u32 {
        semaphore_word::value(self.map.object(self.place.index))
    }

    /// Whether WAITERS is set: from then on no taker overtakes a waiter.
    pub fn is_awaited(self) -> bool {
        semaphore_word::is_awaited(self.map.object(self.place.index))
    }

    /// All the units there are: saved, under way, or granted and not yet taken. For onlookers, between two steps.
    pub fn units(self) -> u32 {
        semaphore_word::all(self.map, self.place.index)
    }

    /// Whether waiters may be overtaken.
    #[cfg(feature = "sim")]
    pub fn may_be_overtaken(self) -> bool {
        wait::is_barging(self.map.object(self.place.index))
    }

    /// Removes the semaphore.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }

    /// Removes the semaphore by where it is, as a C program does: another thread may just come to wait for it.
    #[cfg(feature = "sim")]
    pub fn condemn(self) {
        assert!(self.map.condemn(self.place));
    }

    /// The waiters, in order: member slots.
    pub fn waiters(self) -> Vec<u32> {
        arrived(self.map, self.place.index)
    }
}

impl MutexAt {
    /// The hash of the data's type.
    pub const TYPE: u32 = 0x9e37_79b9;

    /// Makes a mutex with 8 bytes of data, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str) -> Result<MutexAt, ArenaError> {
        let admin = map.admin();
        if let Some(place) = map.find(name) {
            return Ok(MutexAt { map, place });
        }
        let place = lock::make(map, &admin, name, 8, MutexAt::TYPE, |_| ())?;
        Ok(MutexAt { map, place })
    }

    /// The holder's member slot. Or the owner of the bias, which may be inside: a look that revokes the bias would
    /// change what is explored.
    pub fn holder(self) -> Option<u32> {
        self.bias().or_else(|| lock::holder(self.map, self.map.object(self.place.index)).map(|(member, _)| member))
    }

    /// Removes the mutex.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }
}

impl PoolAt {
    /// Makes a pool, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, count: u32) -> Result<PoolAt, ArenaError> {
        PoolAt::make_by(map, name, count, Discipline::Fifo)
    }

    /// Finds a pool by name.
    pub fn find(map: &'static Map, name: &str) -> Option<PoolAt> {
        map.find(name).filter(|p| p.head.is_live(Kind::Pool)).map(|place| PoolAt { map, place })
    }

    /// Removes the pool.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }

    /// Removes the pool unless a member holds a permit or waits. False: one does.
    pub fn remove_idle(self, me: &Actor) -> bool {
        let admin = self.map.admin();
        let idle = permit::take_all(self.place, me.party(self.map));
        if idle {
            self.map.unmake(&admin, self.place);
        }
        idle
    }

    /// Gives the pool another number of permits.
    ///
    /// # Errors
    /// As [`Map::claim_cells`].
    pub fn resize(self, count: u32) -> Result<(), ArenaError> {
        let admin = self.map.admin();
        permit::resize(self.map, &admin, self.place, count).map(|_| ())
    }

    /// Takes a permit away from its holder.
    pub fn force(self, index: u32) -> bool {
        permit::force(self.map, self.place, index).is_some()
    }

    /// The end of an orphan's job. False: the permit is no orphan.
    pub fn job_ends(self, index: u32) -> bool {
        self.map.through(self.place);
        let Some(cell) = cell_at(self.map, self.place.index, index) else { return false };
        let seen = cell.load();
        let freed = seen.is_orphan() && cell.swap(seen, seen.freed());
        if freed && self.map.anybody_waits(self.place.index) {
            drain(self.map, self.place.index);
        }
        freed
    }

    /// How many permits the pool has.
    pub fn permits(self) -> u32 {
        permits(self.map, self.place.index)
    }

    /// How many are free.
    pub fn free(self) -> u32 {
        let count = self.permits() as usize;
        cells(self.map, self.place.index).take(count).filter(|(_, c)| c.load().is_free()).count() as u32
    }

    /// The waiters, in order: member slots.
    pub fn waiters(self) -> Vec<u32> {
        arrived(self.map, self.place.index)
    }

    /// A cell's value, as text.
    pub fn cell(self, index: u32) -> String {
        cell_at(self.map, self.place.index, index).map_or_else(|| "none".into(), |c| format!("{:?}", c.load()))
    }
}

/// The wait word of a member that was granted an object's permit in wait `number`.
pub fn granted_word(number: u64, object: u32, permit: u32) -> u64 {
    let grant = chappe_wait::wait::Grant { private: false, dead: false, returned: false, object, permit };
    chappe_wait::wait::State::idle(number).granted(grant).0
}

/// Drains every object, as the recovery of a dead member does.
pub fn drain_all(map: &Map) {
    (0..map.objects_used()).for_each(|object| drain(map, object));
}

/// Marks that a member may wait for a mutex, as a waiter that has given up leaves it.
pub fn mark(mutex: MutexAt) {
    mutex.map.through(mutex.place);
    lock::mark(mutex.map, mutex.place.index);
}

/// Whether a mutex is reserved for a member.
pub fn is_reserved(mutex: MutexAt, member: u32) -> bool {
    lock::is_reserved(mutex.map.object(mutex.place.index), member)
}
