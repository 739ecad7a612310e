//! Serving by priority, explored: kill and stop at every operation of two waiters, of a higher and a lower priority, and of the giver of what they
//! wait for. What must hold: once both are in line the higher is served first, unless it died, or the lower has waited for the aging time; each
//! that is left is served all the same; and everything is there again at the end.

use crate::counted::Counted;
use crate::crash::{Stage, searched_in, stopped_in};
use chappe_crashsim::{Fate, Process, Shared, World, reached};
use chappe_plat::atomic::{Ordering, pause};
use chappe_plat::clock;
use chappe_sync::Discipline;
use chappe_sync::model::{Actor, PoolAt, SemaphoreAt};
use std::cell::Cell;
use std::time::Duration;

/// For each search.
const SCHEDULES: u64 = 1_500;

const MS: u64 = 1_000_000;
const STRICT: Discipline = Discipline::Priority { aging: None };

/// What one of two knows of the other.
#[derive(Clone, Copy)]
struct Other {
    process: Process,
    member: u32,
    served: Shared<Cell<bool>>,
}

impl Other {
    /// Whether it is neither served, nor granted anything, nor dead.
    fn still_waits(&self, waiters: impl Fn() -> Vec<u32>) -> bool {
        !self.served.get() && self.process.fate() == Fate::Alive && waiters().contains(&self.member)
    }
}

/// Two processes, with these priorities; what they need of the pool, and when each comes.
struct Two {
    names: [&'static str; 2],
    priorities: [u8; 2],
    needs: [u32; 2],
    comes: [u64; 2],
}

impl Two {
    const HIGH_AND_LOW: Two = Two { names: ["high", "low"], priorities: [200, 3], needs: [1, 1], comes: [0, 0] };

    /// The first of them is to be served first, if `both` says so.
    fn wait_for(&self, world: &World, stage: &Stage, pool: PoolAt, both: Shared<Cell<bool>>) -> [Other; 2] {
        let made = [0, 1].map(|i| {
            let process = world.prepare(self.names[i]);
            let me = stage.member(process, self.names[i]).of_priority(self.priorities[i]);
            (Other { process, member: me.member(), served: world.share(Cell::new(false)) }, me)
        });
        let others = [made[0].0, made[1].0];
        for (i, (it, me)) in made.into_iter().enumerate() {
            let (stage, name, need, comes) = (*stage, self.names[i], self.needs[i], self.comes[i]);
            stage.reaper(stage.lasting(it.process, move || {
                if comes > 0 {
                    crate::crash::sleep(comes);
                }
                let holds = if need == 1 {
                    vec![stage.enter(&me, &[pool], None).expect("a permit")]
                } else {
                    stage.enter_many(&me, pool, need, None).expect("permits")
                };
                it.served.set(true);
                let overtaken = i == 1 && both.get() && others[0].still_waits(|| pool.waiters());
                assert!(!overtaken, "{} was served before {}", name, "the one that was to be first");
                reached(name);
                holds.into_iter().for_each(|hold| assert!(stage.leave(&me, hold)));
            }));
        }
        others
    }
}

/// A process that has all permits of the pool, and gives them back once both are in line and `then` says whether the first of them is to be
/// served first, or one is dead. Between two looks it lets time `pass`: the clock stands still while a process that does not sleep could
/// go on.
fn giver(
    world: &World,
    stage: &Stage,
    (pool, n): (PoolAt, usize),
    others: [Other; 2],
    both: Shared<Cell<bool>>,
    then: impl Fn() -> Option<bool> + 'static,
    pass: impl Fn() + 'static,
) {
    let (p, me, holds) = stage.holder(world, "giver", &vec![pool; n]);
    let stage = *stage;
    stage.lasting(p, move || {
        let in_line = || {
            let waiters = pool.waiters();
            others.iter().all(|other| waiters.contains(&other.member))
        };
        let lives = || others.iter().all(|other| other.process.fate() == Fate::Alive);
        let mut is_ordered = None;
        while lives() && is_ordered.is_none() {
            is_ordered = if in_line() { then() } else { None };
            if is_ordered.is_none() {
                pass();
            }
        }
        both.set(lives() && is_ordered == Some(true));
        for hold in holds {
            assert!(stage.leave(&me, hold));
        }
        reached("given back");
    });
}

fn last(world: &World, stage: Stage, pool: PoolAt) {
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

fn world_of(world: &World, permits: u32, discipline: Discipline) -> (Stage, PoolAt) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    (stage, PoolAt::make_by(stage.map, "p0", permits, discipline).expect("a pool"))
}

/// One permit, two that wait for it.
fn pool_order(world: &World) {
    let (stage, pool) = world_of(world, 1, STRICT);
    let both = world.share(Cell::new(false));
    let others = Two::HIGH_AND_LOW.wait_for(world, &stage, pool, both);
    giver(world, &stage, (pool, 1), others, both, || Some(true), pause);
    last(world, stage, pool);
}

#[test]
fn a_pool_serves_the_highest_first() {
    searched_in(SCHEDULES, "priority_pool", pool_order, &["given back", "high", "low"]);
    stopped_in(SCHEDULES / 3, "priority_pool", pool_order);
}

/// Two permits come one by one. The lower needs both, and may have one set aside when the higher comes, which needs one.
fn pool_many(world: &World) {
    let (stage, pool) = world_of(world, 2, STRICT);
    let both = world.share(Cell::new(false));
    let two = Two { needs: [1, 2], ..Two::HIGH_AND_LOW };
    let others = two.wait_for(world, &stage, pool, both);
    giver(world, &stage, (pool, 2), others, both, || Some(true), pause);
    last(world, stage, pool);
}

/// The higher needs both, and the lower one: that one is not for the lower.
fn pool_many_first(world: &World) {
    let (stage, pool) = world_of(world, 2, STRICT);
    let both = world.share(Cell::new(false));
    let two = Two { needs: [2, 1], ..Two::HIGH_AND_LOW };
    let others = two.wait_for(world, &stage, pool, both);
    giver(world, &stage, (pool, 2), others, both, || Some(true), pause);
    last(world, stage, pool);
}

/// The lower needs both, and has one set aside before the higher comes, which needs one: it gets that one, for no other comes before.
fn pool_half_served(world: &World) {
    let (stage, pool) = world_of(world, 2, STRICT);
    let both = world.share(Cell::new(false));
    let two = Two { needs: [1, 2], ..Two::HIGH_AND_LOW };
    let [high, low] = two.wait_for(world, &stage, pool, both);
    let (p, me, holds) = stage.holder(world, "giver", &[pool; 2]);
    stage.lasting(p, move || {
        let mut holds = holds.into_iter();
        let is_alive = |it: Other| it.process.fate() == Fate::Alive;
        let comes = |it: Other| is_alive(it) && !pool.waiters().contains(&it.member);
        while comes(low) {
            pause();
        }
        holds.next().into_iter().for_each(|hold| assert!(stage.leave(&me, hold)));
        reached("one given back");
        while is_alive(high) && !high.served.get() {
            pause();
        }
        holds.for_each(|hold| assert!(stage.leave(&me, hold)));
    });
    last(world, stage, pool);
}

#[test]
fn permits_set_aside_for_several_go_to_the_highest_priority() {
    let outcomes = ["one given back", "high", "low"];
    searched_in(SCHEDULES, "priority_half_served", pool_half_served, &outcomes);
}

#[test]
fn several_permits_at_once_are_for_the_highest_first() {
    searched_in(SCHEDULES, "priority_many", pool_many, &["given back", "high", "low"]);
    searched_in(SCHEDULES, "priority_many_first", pool_many_first, &["given back", "high", "low"]);
}

/// The lower comes first, and has waited for longer than the aging time when the permit comes; the higher has not.
fn aging(world: &World) {
    let most = 5 * MS;
    let (stage, pool) = world_of(world, 1, Discipline::Priority { aging: Some(Duration::from_nanos(most)) });
    let both = world.share(Cell::new(false));
    let two = Two { names: ["low", "high"], priorities: [3, 200], needs: [1, 1], comes: [0, 10 * MS] };
    let others = two.wait_for(world, &stage, pool, both);
    let (map, low, high) = (stage.map, others[0].member, others[1].member);
    // A sleep may end before a process that could go on has gone on: then the higher comes first.
    let low_is_aged_and_first = move || {
        // Relaxed: for an observer.
        let is_aged = map.member(low).waiting_since.load(Ordering::Relaxed) + most < clock::now();
        // Relaxed: as above.
        let came = |member| map.member(member).ticket.load(Ordering::Relaxed);
        let is_first = came(low) < came(high);
        if is_aged && is_first {
            reached("aged");
        }
        is_aged.then_some(is_first)
    };
    giver(world, &stage, (pool, 1), others, both, low_is_aged_and_first, || crate::crash::sleep(MS));
    last(world, stage, pool);
}

#[test]
fn a_waiter_past_the_aging_time_is_not_overtaken() {
    searched_in(SCHEDULES, "priority_aging", aging, &["aged", "given back", "high", "low"]);
}

/// A unit that is added while two wait, and then another.
fn units(world: &World, lot: u32) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let semaphore = SemaphoreAt::make_by(stage.map, "s", 0, STRICT).expect("a semaphore");
    let s = Counted::of(world, semaphore, "s", lot);
    let both = world.share(Cell::new(false));
    let made: [(Process, Actor); 2] = ["high", "low"].map(|name| {
        let process = world.prepare(name);
        let me = s.downer(&stage, process, name);
        (process, me.of_priority(if name == "high" { 200 } else { 3 }))
    });
    let others = [&made[0], &made[1]].map(|(process, me)| Other {
        process: *process,
        member: me.member(),
        served: world.share(Cell::new(false)),
    });
    for (i, (process, me)) in made.into_iter().enumerate() {
        stage.reaper(stage.lasting(process, move || {
            s.down(&me, None).expect("a unit");
            others[i].served.set(true);
            let overtaken = i == 1 && both.get() && others[0].still_waits(|| s.semaphore.waiters());
            assert!(!overtaken, "the lower was served before the higher");
            reached(["high", "low"][i]);
        }));
    }
    let p = world.prepare("upper");
    let _ = stage.member(p, "upper");
    p.on_death(move || crate::counted::more(&s.books.perhaps_up));
    stage.lasting(p, move || {
        let lives = || others.iter().all(|other| other.process.fate() == Fate::Alive);
        let in_line = || {
            let waiters = s.semaphore.waiters();
            others.iter().all(|other| waiters.contains(&other.member))
        };
        while lives() && !in_line() {
            pause();
        }
        both.set(lives());
        (0..2 / s.lot).for_each(|_| s.up());
        reached("raised");
    });
    crate::counted::enough(world, &[s]);
    crate::counted::last(world, stage, &[s]);
}

fn units_one_by_one(world: &World) {
    units(world, 1);
}

fn units_at_once(world: &World) {
    units(world, 2);
}

#[test]
fn a_semaphore_serves_the_highest_first() {
    searched_in(SCHEDULES, "priority_units", units_one_by_one, &["raised", "high", "low"]);
    searched_in(SCHEDULES, "priority_units_at_once", units_at_once, &["raised", "high", "low"]);
    stopped_in(SCHEDULES / 3, "priority_units", units_one_by_one);
}
