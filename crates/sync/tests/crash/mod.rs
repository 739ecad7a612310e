//! The stage on which pools are explored: an arena, its members, the processes inside, and what must hold at the end.

#![allow(dead_code, reason = "each suite uses a part of it")]

pub mod guarded;
pub mod late;
mod owed;

use chappe_arena::layout::Geometry;
use chappe_arena::{Map, Watch, watch};
use chappe_crashsim::{Process, Report, Search, Shared, World, note, reached};
use chappe_plat::atomic::AtomicU32;
use chappe_plat::clock;
use chappe_plat::dir::Dir;
use chappe_plat::futex::{self, Scope, Wait};
use chappe_sync::model::{self, Actor, Held, PoolAt, Refusal};
use std::cell::Cell;
use std::path::Path;

pub const PERMITS: usize = 4;
pub const POOLS: usize = 3;

/// The process that believes to be inside each permit of each pool: process numbers, 0 for none.
#[derive(Default)]
pub struct Inside {
    pub who: [[Cell<u32>; PERMITS]; POOLS],
    /// A holder may lose its permit by force without knowing.
    pub force: Cell<bool>,
    /// How many permits are about to be taken from holders that may not know: so many may be another's while one still
    /// believes to have them.
    pub taken: Cell<u32>,
}

#[derive(Clone, Copy)]
pub struct Stage {
    pub map: &'static Map,
    pub inside: Shared<Inside>,
}

/// A permit, noted as held by its process.
#[derive(Clone, Copy)]
pub struct Hold {
    held: Held,
    /// Which pool it is of.
    pub pool: usize,
    pid: u32,
}

pub fn directory() -> Dir {
    let path = Path::new("/dev/shm/chappe-0");
    Dir::make(path, 0o700).expect("the directory");
    Dir::open(path).expect("the directory")
}

impl Stage {
    /// An arena with one pool for each number of permits, and room for `more` objects.
    pub fn new(world: &World, members: u32, permits: &[u32], more: u32) -> (Stage, Vec<PoolAt>) {
        Stage::with_blocks(world, members, permits, more, 2)
    }

    /// The same, with so many blocks.
    pub fn with_blocks(world: &World, members: u32, permits: &[u32], more: u32, blocks: u32) -> (Stage, Vec<PoolAt>) {
        let geometry = Geometry { members, objects: permits.len() as u32 + more, cells: 8, blocks };
        let map = late::guarded(model::create(&directory(), "default", geometry).expect("an arena"));
        let stage = Stage { map, inside: world.share(Inside::default()) };
        let pools: Vec<PoolAt> =
            permits.iter().enumerate().map(|(i, n)| PoolAt::make(map, &format!("p{i}"), *n).expect("a pool")).collect();
        for (i, p) in pools.iter().enumerate() {
            let o = map.object(p.place.index);
            world.name_with(&o.slot.word, format!("cell 0 of p{i}"), model::cell_in_words);
            world.name(&o.waiting[0], format!("waiters of p{i}"));
            world.name(&o.head, format!("head of p{i}"));
            world.name(&o.permits, format!("permits of p{i}"));
        }
        for i in 0..8.min(geometry.cells) {
            world.name_with(&map.cell(i).slot.word, format!("table cell {i}"), model::cell_in_words);
        }
        for i in 0..members {
            let m = map.member(i);
            world.name_with(&m.state, format!("wait word of member {i}"), model::state_in_words);
            world.name(&m.ident, format!("ident of member {i}"));
            world.name(&m.swept, format!("swept of member {i}"));
            world.name(m.life.word(), format!("life of member {i}"));
            world.name(&m.ticket, format!("ticket of member {i}"));
        }
        owed::nothing_is_owed(world, map);
        (stage, pools)
    }

    /// A private arena.
    pub fn private(world: &World, members: u32, objects: u32) -> Stage {
        Stage::private_with_blocks(world, members, objects, 1)
    }

    /// The same, with so many blocks.
    pub fn private_with_blocks(world: &World, members: u32, objects: u32, blocks: u32) -> Stage {
        let geometry = Geometry { members, objects, cells: 1, blocks };
        let map = late::guarded(model::private_of_all(geometry).expect("memory"));
        for i in 0..members {
            let m = map.member(i);
            world.name_with(&m.state, format!("wait word of member {i}"), model::state_in_words);
            world.name(m.life.word(), format!("life of member {i}"));
        }
        Stage { map, inside: world.share(Inside::default()) }
    }

    /// A member: joined before the schedule begins, and forgotten to be inside when it is killed.
    pub fn member(&self, process: Process, name: &'static str) -> Actor {
        let (map, inside, pid) = (self.map, self.inside, process.pid());
        process.on_death(move || inside.forget(pid));
        process.before(|| Actor::join(map, name).expect("a slot"))
    }

    /// A process that takes a permit of one of the pools, waiting if it must, gives it back, and ends; with its reaper.
    pub fn customer(&self, world: &World, name: &'static str, served: &'static str, pools: &[PoolAt]) -> Process {
        let p = world.prepare(name);
        let (stage, me, pools) = (*self, self.member(p, name), pools.to_vec());
        self.reaper(p.run(move || {
            let hold = stage.enter(&me, &pools, None).expect("a permit");
            reached(served);
            assert!(stage.leave(&me, hold) || stage.inside.force.get(), "it was taken away, and not by force");
        }))
    }

    /// A process that has a permit of each pool from the start.
    pub fn holder(&self, world: &World, name: &'static str, pools: &[PoolAt]) -> (Process, Actor, Vec<Hold>) {
        let p = world.prepare(name);
        let me = self.member(p, name);
        let holds = p.before(|| pools.iter().map(|pool| self.try_enter(&me, *pool).expect("free")).collect());
        (p, me, holds)
    }

    /// As `holder`, and it gives all of them back, and lives on.
    pub fn giver(&self, world: &World, name: &'static str, pools: &[PoolAt]) {
        let (p, me, holds) = self.holder(world, name, pools);
        let stage = *self;
        self.lasting(p, move || {
            for hold in holds {
                assert!(stage.leave(&me, hold));
            }
            reached("given back");
        });
    }

    /// A reaper in this process, with the attachment it takes for itself.
    pub fn reaper(&self, process: Process) -> Process {
        let (w, map): (&'static Watch, _) = (Box::leak(Box::default()), self.map);
        process.daemon("reaper", move || watch(w, map))
    }

    /// Runs `body` in a process that does not end with it: its death would make up for what it forgot.
    pub fn lasting(&self, process: Process, body: impl FnOnce() + 'static) -> Process {
        process.run(move || {
            body();
            chappe_crashsim::process::linger();
        })
    }

    /// Takes a permit of one of the pools and notes it.
    pub fn enter(&self, me: &Actor, pools: &[PoolAt], deadline: Option<u64>) -> Result<Hold, Refusal> {
        let (pool, held) = me.acquire(pools, deadline)?;
        Ok(self.inside.enter(pools[pool], held))
    }

    /// Takes several permits at once and notes them.
    pub fn enter_many(&self, me: &Actor, pool: PoolAt, n: u32, deadline: Option<u64>) -> Result<Vec<Hold>, Refusal> {
        let all = me.acquire_many(pool, n, deadline)?;
        assert_eq!(all.len(), n as usize);
        Ok(all.into_iter().map(|held| self.inside.enter(pool, held)).collect())
    }

    /// Takes a permit if one is free.
    pub fn try_enter(&self, me: &Actor, pool: PoolAt) -> Result<Hold, Refusal> {
        Ok(self.inside.enter(pool, me.try_acquire(pool)?))
    }

    /// Notes that it is out, and gives the permit back.
    pub fn leave(&self, me: &Actor, hold: Hold) -> bool {
        self.inside.leave(hold);
        me.release(hold.held)
    }

    /// At the end: everything of the dead comes back, and each pool has all its permits to give, once each; no bit
    /// stands.
    pub fn settled(&self, pools: &[PoolAt]) {
        self.map.recover_dead();
        let me = Actor::join(self.map, "last").expect("a slot for the last");
        for pool in pools {
            let all: Vec<Hold> = (0..pool.permits())
                .map(|i| self.try_enter(&me, *pool).unwrap_or_else(|e| panic!("permit {i}: {e:?}")))
                .collect();
            assert_eq!(self.try_enter(&me, *pool).map(|_| ()), Err(Refusal::NoneFree), "more permits than there are");
            for hold in all {
                assert!(self.leave(&me, hold));
            }
            assert!(!self.map.anybody_waits(pool.place.index), "somebody's wait bit still stands");
        }
        me.leave();
    }
}

impl Inside {
    /// Notes that a process is inside.
    pub fn enter(&self, pool: PoolAt, held: Held) -> Hold {
        let pid = chappe_plat::process::pid();
        let at = pool.place.index as usize;
        let who = &self.who[at][held.index() as usize];
        if who.get() == 0 {
            who.set(pid);
        } else {
            let taken_away = self.force.get() && !held.is_there();
            if !taken_away {
                let left = self.taken.get().checked_sub(1);
                self.taken.set(left.unwrap_or_else(|| panic!("permit {} of pool {at} has two holders", held.index())));
                who.set(pid);
            }
        }
        note(&format!("has permit {} of pool {at}", held.index()));
        // Time enough for another process to come in.
        chappe_plat::step!("is inside");
        Hold { held, pool: at, pid }
    }

    fn leave(&self, hold: Hold) {
        let who = &self.who[hold.pool][hold.held.index() as usize];
        if who.get() == hold.pid {
            who.set(0);
        } else {
            assert!(self.force.get(), "somebody else was inside");
        }
    }

    /// What a dead process believed is of no interest.
    pub fn forget(&self, pid: u32) {
        for cell in self.who.iter().flatten().filter(|c| c.get() == pid) {
            cell.set(0);
        }
    }
}

/// Sleeps for so many nanoseconds of the world's clock.
pub fn sleep(ns: u64) {
    let word = AtomicU32::new(0);
    while futex::wait(&word, 0, Some(clock::now() + ns), Scope::Private) != Wait::TimedOut {}
}

/// Double faults: for a share of first kills, the recoverer's death at each of its steps; all of them in a long run.
pub fn doubles(name: &str, schedules: u64) -> Search {
    Search::sweep(&format!("{name}_doubles")).kills(2).of_recoverers().share(8).schedules(schedules)
}

/// Random schedules with x86's store buffers.
pub fn buffers(name: &str, schedules: u64) -> Search {
    Search::uniform(&format!("{name}_buffers")).kills(1).store_buffers(4).schedules(schedules)
}

/// Several searches of one world: a kill at each step, and of recoverers, the schedules around a kill, random ones.
pub fn searched(name: &str, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    searched_in(10_000, name, world, outcomes);
}

/// As [`searched`], each search but the first with at most so many schedules.
pub fn searched_in(schedules: u64, name: &str, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all: [Report; 6] = [
        Search::sweep(&format!("{name}_sweep")).kills(1).run(&world),
        doubles(name, schedules).run(&world),
        Search::depth(&format!("{name}_depth"), 2).kills(1).schedules(schedules).run(&world),
        Search::priorities(&format!("{name}_pct"), 4).kills(1).schedules(schedules).run(&world),
        Search::uniform(&format!("{name}_dice")).kills(2).spurious(1).schedules(schedules / 2).run(&world),
        buffers(name, schedules / 4).run(&world),
    ];
    for report in &all {
        report.assert_clean();
    }
    let reached = |o: &&&str| all.iter().any(|r| r.outcomes().contains_key(**o));
    let missed: Vec<_> = outcomes.iter().filter(|o| !reached(o)).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
}

/// A process is stopped anywhere, and goes on when no other can: processes that do not need its permit are not delayed.
pub fn stopped(name: &str, world: impl Fn(&World) + Sync) {
    stopped_in(4_000, name, world);
}

/// As [`stopped`], with at most so many schedules of several.
pub fn stopped_in(schedules: u64, name: &str, world: impl Fn(&World) + Sync) {
    for search in [
        Search::sweep(&format!("{name}_stop_sweep")).stops(1).resume(),
        Search::sweep(&format!("{name}_stop_kill")).stops(1).kills(1).resume().schedules(schedules),
        Search::priorities(&format!("{name}_stop_pct"), 4).stops(1).kills(1).resume().schedules(schedules * 3 / 4),
    ] {
        let report = search.run(&world);
        report.assert_clean();
    }
}
