//! Several permits at once, explored: kill and stop at every operation of acquire_many (free, blocked, timed), of its competitors, of force and
//! resize. What must hold: all or none; nobody overtakes the first; a waiter that gives up, dies or is refused delays nobody; everything is
//! there again at the end.

use crate::crash::{Stage, searched_in, stopped_in};
use chappe_crashsim::{Fate, Process, World, note, reached};
use chappe_plat::clock;
use chappe_sync::model::{Dropped, PoolAt, Refusal, TaskEnd};
use std::cell::Cell;

/// For each search.
const SCHEDULES: u64 = 3_000;

/// A process that takes so many at once, gives them back, and lives on; with its reaper.
fn many(stage: &Stage, world: &World, name: &'static str, pool: PoolAt, n: u32) -> Process {
    let p = world.prepare(name);
    let (stage, me) = (*stage, stage.member(p, name));
    stage.reaper(stage.lasting(p, move || {
        let all = stage.enter_many(&me, pool, n, None).expect("permits");
        reached(name);
        for hold in all {
            assert!(stage.leave(&me, hold) || stage.inside.force.get());
        }
    }))
}

/// A process that takes one, gives it back, and lives on; with its reaper.
fn single(stage: &Stage, world: &World, name: &'static str, pool: PoolAt) -> Process {
    let p = world.prepare(name);
    let (stage, me) = (*stage, stage.member(p, name));
    stage.reaper(stage.lasting(p, move || {
        let hold = stage.enter(&me, &[pool], None).expect("a permit");
        reached(name);
        assert!(stage.leave(&me, hold) || stage.inside.force.get());
    }))
}

/// A process that has so many from the start, gives them back one by one, and lives on.
fn giver(stage: &Stage, world: &World, pool: PoolAt, n: usize) -> Process {
    let (p, me, holds) = stage.holder(world, "giver", &vec![pool; n]);
    let stage = *stage;
    stage.lasting(p, move || {
        for hold in holds {
            assert!(stage.leave(&me, hold) || stage.inside.force.get());
        }
        reached("given back");
    })
}

fn last(world: &World, stage: Stage, pools: &[PoolAt]) {
    let pools = pools.to_vec();
    world.prepare("last").last().run(move || stage.settled(&pools));
}

/// Two of three, all three, and one.
fn mix(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[3], 0);
    many(&stage, world, "two", pools[0], 2);
    many(&stage, world, "three", pools[0], 3);
    single(&stage, world, "one", pools[0]);
    last(world, stage, &pools);
}

#[test]
fn several_at_once_survive_kills() {
    searched_in(SCHEDULES, "many_mix", mix, &["two", "three", "one"]);
    stopped_in(SCHEDULES / 2, "many_mix", mix);
}

/// Two permits are given back one by one, to a waiter that needs both, and one behind it.
fn half(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    giver(&stage, world, pools[0], 2);
    many(&stage, world, "two", pools[0], 2);
    single(&stage, world, "one", pools[0]);
    last(world, stage, &pools);
}

#[test]
fn being_served_by_halves_survives_kills() {
    searched_in(SCHEDULES, "half", half, &["given back", "two", "one"]);
    stopped_in(SCHEDULES / 2, "half", half);
}

/// The first of the queue needs two and gives up, with one permit reserved for it: that permit is for the waiter behind
/// it. The other permit never comes.
fn time_out(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    let k = world.prepare("keeper").immortal();
    let keeper = stage.member(k, "keeper");
    let kept = k.before(|| stage.try_enter(&keeper, pool).expect("free"));
    let over = world.share(Cell::new(0u32));
    giver(&stage, world, pool, 1);
    let h = world.prepare("hasty");
    let hasty = stage.member(h, "hasty");
    stage.reaper(stage.lasting(h, move || {
        match stage.enter_many(&hasty, pool, 2, Some(clock::now() + 1000)) {
            Err(Refusal::TimedOut) => reached("too late"),
            // The other one died, so the keeper has given it back.
            Ok(all) => all.into_iter().for_each(|hold| assert!(stage.leave(&hasty, hold))),
            Err(e) => panic!("{e:?}"),
        }
    }));
    let s = world.prepare("one");
    let me = stage.member(s, "one");
    s.on_death(move || over.set(1));
    stage.reaper(stage.lasting(s, move || {
        let hold = stage.enter(&me, &[pool], None).expect("a permit");
        reached("one");
        assert!(stage.leave(&me, hold));
        over.set(1);
    }));
    stage.lasting(k, move || {
        while over.get() == 0 {
            crate::crash::sleep(10_000);
        }
        assert!(stage.leave(&keeper, kept));
    });
    last(world, stage, &pools);
}

#[test]
fn giving_up_survives_kills() {
    searched_in(SCHEDULES, "many_time_out", time_out, &["given back", "too late", "one"]);
    stopped_in(SCHEDULES / 2, "many_time_out", time_out);
}

/// As it is given back, the permit that is reserved for the first is taken away by force.
fn force(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    stage.inside.force.set(true);
    giver(&stage, world, pool, 2);
    many(&stage, world, "two", pool, 2);
    single(&stage, world, "one", pool);
    let f = world.prepare("forcer");
    let _ = stage.member(f, "forcer");
    stage.lasting(f, move || {
        let cell = pool.cell(0);
        if cell.starts_with("Reserved") {
            reached("takes what is set aside");
        }
        stage.inside.taken.set(1);
        pool.force(0);
    });
    last(world, stage, &pools);
}

#[test]
fn taking_by_force_survives_kills() {
    searched_in(SCHEDULES, "many_force", force, &["given back", "two", "one", "takes what is set aside"]);
}

/// The pool shrinks below the need of the first: it is told, and the waiter behind it gets what was reserved.
fn resize(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    giver(&stage, world, pool, 2);
    let p = world.prepare("two");
    let me = stage.member(p, "two");
    stage.reaper(stage.lasting(p, move || match stage.enter_many(&me, pool, 2, None) {
        Ok(all) => {
            reached("two");
            for hold in all {
                assert!(stage.leave(&me, hold));
            }
        }
        Err(Refusal::TooMany) => {
            reached("told that it is too many");
            // Some time after that, both are there again.
            if pool.permits() == 2 {
                match stage.enter_many(&me, pool, 2, None) {
                    Ok(all) => all.into_iter().for_each(|hold| assert!(stage.leave(&me, hold))),
                    Err(e) => panic!("two of two: {e:?}"),
                }
            }
        }
        Err(e) => panic!("{e:?}"),
    }));
    single(&stage, world, "one", pool);
    let r = world.prepare("resizer");
    let _ = stage.member(r, "resizer");
    stage.lasting(r, move || {
        pool.resize(1).expect("no room needed");
        pool.resize(2).expect("room");
        reached("resized");
    });
    last(world, stage, &pools);
}

#[test]
fn shrinking_survives_kills() {
    searched_in(SCHEDULES, "many_resize", resize, &["given back", "two", "one", "told that it is too many", "resized"]);
    stopped_in(SCHEDULES / 2, "many_resize", resize);
}

/// A process that comes while the first is waiting is served after it, though there were enough permits for it long
/// before.
fn order(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    giver(&stage, world, pool, 2);
    let first = world.prepare("two");
    let me = stage.member(first, "two");
    let served = world.share(Cell::new(false));
    stage.reaper(stage.lasting(first, move || {
        let all = stage.enter_many(&me, pool, 2, None).expect("permits");
        served.set(true);
        reached("two");
        for hold in all {
            assert!(stage.leave(&me, hold));
        }
    }));
    let p = world.prepare("one");
    let single = stage.member(p, "one");
    stage.reaper(stage.lasting(p, move || {
        let behind = pool.waiters().contains(&me.member());
        let hold = stage.enter(&single, &[pool], None).expect("a permit");
        if behind {
            reached("came second");
            note("came second");
            assert!(served.get() || first.fate() != Fate::Alive, "it was overtaken");
        }
        assert!(stage.leave(&single, hold));
        reached("one");
    }));
    last(world, stage, &pools);
}

#[test]
fn no_waiter_overtakes_the_first() {
    searched_in(9 * SCHEDULES, "many_order", order, &["two", "one", "came second"]);
}

/// Two waiters need both permits: the one that arrived first may be seen last, when one permit is reserved for the
/// other.
fn crossed(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    giver(&stage, world, pools[0], 2);
    many(&stage, world, "two", pools[0], 2);
    many(&stage, world, "two more", pools[0], 2);
    last(world, stage, &pools);
}

#[test]
fn two_half_served_do_not_block_each_other() {
    searched_in(SCHEDULES, "many_crossed", crossed, &["given back", "two", "two more"]);
    stopped_in(SCHEDULES / 2, "many_crossed", crossed);
}

/// A task needs both permits, which are given back one by one: they are its process's, not its member's. It may be dropped at any moment, with one
/// set aside for it, or both; then they are for the waiter behind it.
fn task(world: &World, is_dropped: bool) {
    let (stage, pools) = Stage::new(world, 10, &[2], 0);
    let pool = pools[0];
    giver(&stage, world, pool, 2);
    let p = world.prepare("task");
    let (bell, process) = (stage.member(p, "bell"), stage.member(p, "process"));
    let me = stage.member(p, "task").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let dropped = if is_dropped { Dropped::At(clock::now() + 1000) } else { Dropped::Never };
        let (end, all) = me.acquire_many_as_task(pool, 2, &process, dropped);
        match end {
            TaskEnd::Over(Ok(())) => assert_eq!(all.len(), 2),
            TaskEnd::Over(Err(e)) => panic!("{e:?}"),
            TaskEnd::Dropped => reached("dropped"),
            TaskEnd::GaveBack => reached("gave back"),
        }
        let all: Vec<_> = all.into_iter().map(|held| stage.inside.enter(pool, held)).collect();
        for hold in all {
            reached("both");
            assert!(stage.leave(&me, hold));
        }
    }));
    single(&stage, world, "one", pool);
    last(world, stage, &pools);
}

#[test]
fn a_task_that_needs_several_survives_kills() {
    searched_in(SCHEDULES / 3, "many_task", |world| task(world, false), &["given back", "both", "one"]);
    let all = ["given back", "both", "one", "dropped", "gave back"];
    searched_in(SCHEDULES / 3, "many_task_dropped", |world| task(world, true), &all);
    stopped_in(SCHEDULES / 6, "many_task_dropped", |world| task(world, true));
}
