//! The protocols without the conveniences of a process: what the explorer drives.
//!
//! `Pool` and its guards keep seats in thread-local storage and drop what they hold; a virtual process has
//! neither, because a kill runs no destructor. Everything below the seats is the same source.

use crate::cell::Word;
use crate::drain::{cell_at, cells, drain, permits};
use crate::permit::{self, Refused, Taken};
use crate::wait::{Arm, Parties, Party, Patience, queue};
use chappe_arena::layout::{Geometry, Kind};
use chappe_arena::{ArenaError, Hooks, Joined, Map, Place, Seat};
use chappe_plat::dir::Dir;
use std::cell::Cell;

/// What the arena calls back. Leases are locks of the system and not explored.
pub const HOOKS: Hooks = Hooks { recover: crate::recover, bury: crate::bury, leases: |_| {} };

/// A pool in an arena.
#[derive(Clone, Copy)]
pub struct PoolAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

impl Arm for PoolAt {
    fn map(&self) -> &'static Map {
        self.map
    }
    fn place(&self) -> Place {
        self.place
    }
}

/// A permit that its holder believes to have.
#[derive(Clone, Copy)]
pub struct Held {
    pool: PoolAt,
    taken: Taken,
}

impl Held {
    /// Which permit of the pool.
    pub fn index(&self) -> u32 {
        self.taken.position
    }
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// None free, or they belong to waiters.
    NoneFree,
    /// The time was up.
    TimedOut,
    /// This arm's pool is gone.
    Dead(usize),
}

impl From<Refused> for Refusal {
    fn from(r: Refused) -> Refusal {
        match r {
            Refused::NoneFree => Refusal::NoneFree,
            Refused::TimedOut => Refusal::TimedOut,
            Refused::Dead(arm) => Refusal::Dead(arm),
        }
    }
}

/// Makes an arena.
///
/// # Errors
/// As [`Map::create`].
pub fn create(dir: &Dir, name: &str, geometry: Geometry) -> Result<&'static Map, ArenaError> {
    Map::create(dir, name, geometry, HOOKS)
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
    Map::remove(dir, name, force, HOOKS)
}

/// A private arena, for mixed choices.
///
/// # Errors
/// As [`Map::private`].
pub fn private(geometry: Geometry) -> Result<&'static Map, ArenaError> {
    Map::private(geometry, HOOKS)
}

/// A thread that has joined an arena, and perhaps its process's private one.
#[derive(Clone, Copy)]
pub struct Actor {
    who: Parties,
    joined: Joined,
}

impl Actor {
    /// Joins.
    ///
    /// # Errors
    /// As [`Map::join`].
    pub fn join(map: &'static Map, label: &str) -> Result<Actor, ArenaError> {
        let joined = map.join(Seat::Thread, label)?;
        let main = Party { map, member: joined.index, generation: joined.generation };
        Ok(Actor { who: Parties { main, private: None }, joined })
    }

    /// Joins the private arena as well: from now on choices may be mixed.
    ///
    /// # Errors
    /// As [`Map::join`].
    pub fn join_private(mut self, map: &'static Map) -> Result<Actor, ArenaError> {
        let joined = map.join(Seat::Thread, "private")?;
        self.who.private = Some(Party { map, member: joined.index, generation: joined.generation });
        Ok(self)
    }

    /// Its slot.
    pub fn member(&self) -> u32 {
        self.joined.index
    }

    /// Gives the slot up, and what it still owns.
    pub fn leave(self) {
        self.who.main.map.leave(self.joined);
    }

    /// Takes a permit if one is free and nobody waits.
    ///
    /// # Errors
    /// `NoneFree`, `Dead`.
    pub fn try_acquire(&self, pool: PoolAt) -> Result<Held, Refusal> {
        let me = self.party(pool.map);
        let taken = match permit::take_one(pool.map.object(pool.place.index), pool.place, me) {
            Some(taken) => taken,
            None => match permit::take_last(pool.map.object(pool.place.index), pool.place, me) {
                Some(taken) => taken,
                None => permit::take(pool.place, me)?,
            },
        };
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
        for (at, pool) in pools.iter().enumerate() {
            match self.try_acquire(*pool) {
                Ok(held) => return Ok((at, held)),
                Err(Refusal::Dead(_)) => return Err(Refusal::Dead(at)),
                Err(_) => {}
            }
        }
        let budget = Cell::new(0);
        let patience = Patience { budget: &budget, forever: spin, none: !spin };
        let who = match self.who.private {
            // The wait word of a wait in the private arena alone is the private one.
            Some(p) if pools.iter().all(|a| std::ptr::eq(a.map, p.map)) => Parties { main: p, private: None },
            Some(p) if pools.iter().all(|a| !std::ptr::eq(a.map, p.map)) => {
                Parties { main: self.who.main, private: None }
            }
            _ => self.who,
        };
        let (at, taken) = permit::wait_for(&who, pools, 0, deadline, &patience)?;
        Ok((at, Held { pool: pools[at], taken }))
    }

    /// Gives a permit back. False: it had been taken away.
    pub fn release(&self, held: Held) -> bool {
        let (map, index) = (held.pool.map, held.pool.place.index);
        permit::give(map, index, map.object(index), held.taken)
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

    fn party(&self, map: &Map) -> &Party {
        match &self.who.private {
            Some(p) if std::ptr::eq(p.map, map) => p,
            _ => &self.who.main,
        }
    }
}

impl PoolAt {
    /// Makes a pool, or finds the one of this name.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, count: u32) -> Result<PoolAt, ArenaError> {
        let admin = map.admin();
        if let Some(place) = map.find(name) {
            return Ok(PoolAt { map, place });
        }
        let place = permit::make_pool(map, &admin, name, count)?;
        Ok(PoolAt { map, place })
    }

    /// Finds a pool by name.
    pub fn find(map: &'static Map, name: &str) -> Option<PoolAt> {
        map.find(name).filter(|p| p.head.is_live(Kind::Pool)).map(|place| PoolAt { map, place })
    }

    /// Removes it.
    pub fn remove(self) {
        let admin = self.map.admin();
        self.map.unmake(&admin, self.place);
    }

    /// Removes it unless somebody holds or waits. False: somebody does.
    pub fn remove_idle(self, me: &Actor) -> bool {
        let admin = self.map.admin();
        let idle = permit::take_all(self.place, me.party(self.map));
        if idle {
            self.map.unmake(&admin, self.place);
        }
        idle
    }

    /// Gives it another number of permits.
    ///
    /// # Errors
    /// As [`Map::claim_cells`].
    pub fn resize(self, count: u32) -> Result<(), ArenaError> {
        let admin = self.map.admin();
        permit::resize(self.map, &admin, self.place, count)
    }

    /// Takes a permit from whoever has it.
    pub fn force(self, index: u32) -> bool {
        permit::force(self.map, self.place, index).is_some()
    }

    /// The end of an orphan's job. False: it is no orphan.
    pub fn job_ends(self, index: u32) -> bool {
        let Some(cell) = cell_at(self.map, self.place.index, index) else { return false };
        let seen = cell.load();
        let freed = seen.is_orphan() && cell.swap(seen, seen.freed());
        if freed && self.map.anybody_waits(self.place.index) {
            drain(self.map, self.place.index);
        }
        freed
    }

    /// How many permits it has.
    pub fn permits(self) -> u32 {
        permits(self.map, self.place.index)
    }

    /// How many are free.
    pub fn free(self) -> u32 {
        let count = self.permits() as usize;
        cells(self.map, self.place.index).take(count).filter(|(_, c)| c.load().is_free()).count() as u32
    }

    /// Who waits, in order: member slots.
    pub fn waiters(self) -> Vec<u32> {
        queue(self.map, self.place.index)
    }

    /// What one of its cells says, in words.
    pub fn cell(self, index: u32) -> String {
        cell_at(self.map, self.place.index, index).map_or_else(|| "none".into(), |c| format!("{:?}", c.load()))
    }
}

/// A cell's value in words, for stories.
pub fn cell_in_words(value: u64) -> String {
    format!("{:?}", Word(value))
}

/// A wait word's value in words, for stories.
pub fn state_in_words(value: u64) -> String {
    let state = crate::wait::State(value);
    match state.grant() {
        Some(g) if g.dead => format!("granted an error in wait {}", state.wait()),
        Some(g) => format!("granted permit {} of object {} in wait {}", g.permit, g.object, state.wait()),
        None if state.is_idle() => format!("idle after wait {}", state.wait()),
        None => format!("waiting, wait {}", state.wait()),
    }
}
