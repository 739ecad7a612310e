//! Arenas, explored: create, attach, remove, join, leave and reap, with a kill or a stop at every operation.

use crate::crash::{Stage, directory, searched, stopped};
use chappe_arena::layout::Geometry;
use chappe_arena::{ArenaError, Map, Standing};
use chappe_crashsim::{Search, World, reached};
use chappe_plat::Life;
use chappe_plat::atomic::Ordering;
use chappe_sync::model::{self, Actor, PoolAt, Refusal, SemaphoreAt};
use std::sync::OnceLock;

const SMALL: Geometry = Geometry { members: 4, objects: 2, cells: 2, blocks: 1 };

/// As users' code does it: the first process that comes makes the arena.
fn open_or_create() -> &'static Map {
    let dir = directory();
    loop {
        match model::attach(&dir, "lab") {
            Ok(map) => return map,
            Err(ArenaError::NotFound { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        match model::create(&dir, "lab", SMALL) {
            Ok(map) => return map,
            Err(ArenaError::Exists { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Three processes come at once to a place where there is nothing yet; all meet in one arena and one pool.
fn create(world: &World) {
    let inside = world.share(std::cell::Cell::new(0u32));
    for name in ["a", "b", "c"] {
        let p = world.prepare(name);
        let pid = p.pid();
        p.on_death(move || {
            if inside.get() == pid {
                inside.set(0);
            }
        });
        p.run(move || {
            let map = open_or_create();
            let me = Actor::join(map, name).expect("a slot");
            let pool = PoolAt::make(map, "p", 1).expect("a pool");
            if let Ok(held) = me.try_acquire(pool) {
                assert_eq!(inside.replace(pid), 0, "two arenas of one name serve");
                inside.set(0);
                assert!(me.release(held));
            }
            me.leave();
            reached(name);
        });
    }
    world.prepare("last").last().run(|| {
        let map = open_or_create();
        map.recover_dead();
        let me = Actor::join(map, "last").expect("a slot");
        let pool = PoolAt::make(map, "p", 1).expect("a pool");
        let held = me.try_acquire(pool).expect("what the dead held is back");
        assert!(me.release(held));
        me.leave();
        assert_eq!(slots_in_use(map), 0, "a slot stays out of use");
        model::remove(&directory(), "lab", false).expect("nobody is there");
        assert!(matches!(model::attach(&directory(), "lab"), Err(ArenaError::NotFound { .. })));
    });
}

fn slots_in_use(map: &Map) -> usize {
    let taken = |i: &u32| map.dead(*i).is_some() || matches!(map.member(*i).life.probe(), Life::Alive(_));
    (0..map.geometry().members).filter(taken).count()
}

#[test]
fn creating_and_attaching_survive_kills() {
    searched("create", create, &["a", "b", "c"]);
    stopped("create", create);
}

/// One removes an arena without force while another joins it and works there: not both.
fn remove(world: &World) {
    let map = open_or_create();
    let pool = PoolAt::make(map, "p", 1).expect("a pool");
    world.process("remover", || match model::remove(&directory(), "lab", false) {
        Ok(()) => reached("removed"),
        Err(ArenaError::InUse { .. }) => reached("refused"),
        Err(ArenaError::NotFound { .. }) => reached("already gone"),
        Err(e) => panic!("{e}"),
    });
    world.process("forcer", || match model::remove(&directory(), "lab", true) {
        Ok(()) => reached("removed by force"),
        Err(ArenaError::NotFound { .. }) => {}
        Err(e) => panic!("{e}"),
    });
    let (gentle, joiner) = (world.share(std::cell::Cell::new(false)), world.prepare("joiner"));
    joiner.run(move || {
        match Actor::join(map, "joiner") {
            Ok(me) => {
                // A member keeps the arena from being removed, unless by force.
                if let Ok(held) = me.try_acquire(pool) {
                    me.release(held);
                    reached("worked");
                }
                me.leave();
            }
            Err(ArenaError::Removed { .. }) => reached("came too late"),
            Err(e) => panic!("{e}"),
        }
        gentle.set(true);
    });
    world.prepare("last").last().run(|| {
        // Whatever was left half-done, the name serves one whole arena.
        let map = open_or_create();
        let me = Actor::join(map, "last").expect("a slot");
        let pool = PoolAt::make(map, "p", 1).expect("a pool");
        assert_eq!(map.standing(), Standing::Serving);
        map.recover_dead();
        let held = me.try_acquire(pool).expect("free");
        assert!(me.release(held));
        me.leave();
        model::remove(&directory(), "lab", false).expect("nobody is there");
    });
}

#[test]
fn removing_survives_kills() {
    searched("remove", remove, &["removed", "refused", "removed by force", "worked", "came too late"]);
    stopped("remove", remove);
}

/// Without force: the joiner that is in, is in an arena that serves.
fn gentle(world: &World) {
    let map = open_or_create();
    let removed = world.share(std::cell::Cell::new(false));
    world.process("remover", move || {
        if model::remove(&directory(), "lab", false).is_ok() {
            removed.set(true);
            reached("removed");
        } else {
            reached("refused");
        }
    });
    world.process("joiner", move || {
        if let Ok(me) = Actor::join(map, "joiner") {
            assert!(!removed.get(), "in an arena that was removed as unused");
            let pool = PoolAt::make(map, "p", 1).expect("a pool");
            let held = me.try_acquire(pool).expect("free, and the arena serves");
            assert!(me.release(held));
            reached("joined");
            me.leave();
        } else {
            reached("too late");
        }
    });
}

#[test]
fn removal_without_force_and_joining_exclude_each_other() {
    searched("gentle", gentle, &["removed", "refused", "joined", "too late"]);
}

/// Fewer slots than comers: slots of the dead are used again, and their next generation is another owner.
fn slots(world: &World) {
    let (stage, pools) = Stage::new(world, 3, &[2], 0);
    let pool = pools[0];
    for name in ["a", "b"] {
        let p = world.prepare(name);
        let inside = stage.inside;
        let pid = p.pid();
        p.on_death(move || inside.forget(pid));
        p.run(move || {
            for _ in 0..2 {
                let me = Actor::join(stage.map, name).expect("a slot");
                if let Ok(hold) = stage.try_enter(&me, pool) {
                    assert!(stage.leave(&me, hold));
                }
                me.leave();
            }
            reached(name);
        });
    }
    // Two processes that recover all the dead they find.
    for name in ["sweeper", "sweeper too"] {
        world.process(name, move || {
            if stage.map.recover_dead() > 0 {
                reached("found dead");
            }
        });
    }
    world.prepare("last").last().run(move || {
        stage.settled(&[pool]);
        assert_eq!(slots_in_use(stage.map), 0, "a slot stays out of use");
    });
}

#[test]
fn slots_and_sweeps_survive_kills() {
    searched("slots", slots, &["a", "b", "found dead"]);
    stopped("slots", slots);
}

/// A holder dies holding; a waiter's reaper sees it, and is itself killed; another waiter's takes over.
fn reap(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let (h, ..) = stage.holder(world, "holder", &pools);
    // Ends with the permit in its hands.
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid));
    for name in ["first", "second"] {
        stage.customer(world, name, name, &pools);
    }
    world.prepare("last").last().run(move || stage.settled(&pools));
}

#[test]
fn reaping_survives_kills() {
    searched("reap", reap, &["first", "second"]);
    stopped("reap", reap);
}

/// Two recover the same dead holder, and each takes what came back: one after the other.
fn twice(world: &World) {
    let (stage, pools) = Stage::new(world, 6, &[1], 0);
    let pool = pools[0];
    let (h, ..) = stage.holder(world, "holder", &pools);
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid));
    for name in ["one", "other"] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.lasting(p, move || {
            stage.map.recover_dead();
            if let Ok(hold) = stage.try_enter(&me, pool) {
                reached(name);
                assert!(stage.leave(&me, hold));
            }
        });
    }
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn recovering_twice_survives_kills() {
    // Two preemptions and the kernel's mark between them: all of it.
    Search::depth("twice_all", 3).schedules(120_000).run(twice).assert_clean();
    searched("twice", twice, &["one", "other"]);
}

/// One recovers a dead holder, slowly; another joins in the very slot meanwhile, and takes what came back.
fn heir(world: &World) {
    let (stage, pools) = Stage::new(world, 3, &[1], 0);
    let pool = pools[0];
    let (h, ..) = stage.holder(world, "holder", &pools);
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid));
    let r = world.prepare("recoverer");
    stage.lasting(r, move || {
        if stage.map.recover_dead() > 0 {
            reached("found dead");
        }
    });
    let p = world.prepare("heir");
    let pid = p.pid();
    p.on_death(move || inside.forget(pid));
    stage.lasting(p, move || {
        let me = Actor::join(stage.map, "heir").expect("a slot");
        if let Ok(hold) = stage.try_enter(&me, pool) {
            reached(if me.member() == 0 { "in the same slot" } else { "in another slot" });
            assert!(stage.leave(&me, hold), "it was taken away");
        }
        me.leave();
    });
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_slow_recoverer_takes_nothing_from_the_next_occupant() {
    Search::depth("heir_all", 3).schedules(60_000).run(heir).assert_clean();
    searched("heir", heir, &["found dead", "in the same slot", "in another slot"]);
}

/// Threads that do not lead their processes: one ends with its slot, another joins there, while a third recovers the
/// dead. The marks of the first are not taken for the second's.
fn successor(world: &World) {
    let map = model::create(&directory(), "lab", Geometry { members: 1, ..SMALL }).expect("an arena");
    world.prepare("first").thread("of the first", move || std::mem::forget(Actor::join(map, "first"))).run(|| ());
    let second = move || {
        let Ok(me) = Actor::join(map, "second") else { return };
        // Acquire: ours.
        let generation = map.member(0).ident.load(Ordering::Acquire) >> 32;
        for _ in 0..3 {
            assert_eq!(map.dead(0), None, "who lives is taken for dead");
        }
        reached(if generation == 1 { "came first" } else { "came second" });
        me.leave();
    };
    world.prepare("second").thread("of the second", second).run(|| ());
    world.process("sweeper", move || {
        if map.recover_dead() > 0 {
            reached("found dead");
        }
    });
    world.prepare("last").last().run(move || {
        map.recover_dead();
        assert_eq!(slots_in_use(map), 0, "a slot stays out of use");
    });
}

#[test]
fn a_member_in_a_dead_members_slot_is_not_taken_for_the_dead_one() {
    Search::depth("successor_all", 3).schedules(60_000).run(successor).assert_clean();
    searched("successor", successor, &["came first", "came second", "found dead"]);
    stopped("successor", successor);
}

/// An arena is removed by force under a holder and a waiter; the remover may die at any point.
fn forced(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    let pool = pools[0];
    let (h, ..) = stage.holder(world, "holder", &pools);
    // Alive, and keeps it.
    stage.lasting(h, || ());
    let remove = || match model::remove(&directory(), "default", true) {
        Ok(()) => reached("removed"),
        Err(ArenaError::NotFound { .. }) => reached("gone already"),
        Err(e) => panic!("{e}"),
    };
    world.process("remover", remove);
    world.process("again", remove).immortal();
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    stage.reaper(w.run(move || match stage.enter(&waiter, &[pool], None) {
        Err(Refusal::Dead(_)) => reached("told"),
        Ok(hold) => {
            // The holder died before.
            stage.leave(&waiter, hold);
            reached("served");
        }
        Err(e) => panic!("{e:?}"),
    }));
}

#[test]
fn removal_by_force_tells_all_who_wait() {
    searched("forced", forced, &["removed", "gone already", "told", "served"]);
}

/// An arena is removed by force while a member makes an object there, and then waits for it: the waiter is told, at once.
fn made_in_a_grave(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    world
        .process("remover", || {
            model::remove(&directory(), "default", true).expect("it is there");
            reached("removed");
        })
        .immortal();
    let w = world.prepare("maker").immortal();
    let maker = stage.member(w, "maker");
    stage.reaper(w.run(move || {
        let made = SemaphoreAt::make(stage.map, "s", 0, false).expect("room");
        assert!(maker.down(made, None).is_err(), "a unit that nobody gave");
        reached("told");
    }));
}

#[test]
fn an_object_that_is_made_while_its_arena_is_removed_is_dead() {
    let all = Search::depth("made_in_a_grave", 2).schedules(10_000).run(made_in_a_grave);
    all.assert_clean().assert_reached(&["removed", "told"]);
}

const ROOM: Geometry = Geometry { members: 4, objects: 4, cells: 2, blocks: 1 };

/// Names whose search begins at one place of the table, and one whose search begins at the next.
fn neighbours() -> &'static [String; 4] {
    static NAMES: OnceLock<[String; 4]> = OnceLock::new();
    NAMES.get_or_init(|| {
        let place = |name: &str| chappe_arena::hash(name) as usize & (ROOM.names() - 1);
        let called = |at: usize| (0..).map(|n| format!("n{n}")).filter(move |name| place(name) == at);
        let mut first = called(1);
        let [a, b, c] = [(); 3].map(|()| first.next().expect("there is no end of names"));
        [a, b, c, called(2).next().expect("as above")]
    })
}

/// Names come and go at one place of the table. Wherever a process is killed: what is there is found, and what is not
/// is not.
fn names(world: &World) {
    let map = model::create(&directory(), "lab", ROOM).expect("it is made");
    let all = neighbours();
    let [first, stays, comes, next] = all;
    for name in [first, stays, next] {
        PoolAt::make(map, name, 1).expect("room");
    }
    let found = move |name: &str| PoolAt::find(map, name).is_some();
    world.process("remover", move || {
        if let Some(pool) = PoolAt::find(map, next) {
            pool.remove();
        }
        if let Some(pool) = PoolAt::find(map, first) {
            pool.remove();
        }
        assert!(!found(first) && !found(next));
        reached("removed");
    });
    world.process("maker", move || {
        let pool = PoolAt::make(map, comes, 1).expect("room");
        assert!(found(comes), "what was just made is not found");
        pool.remove();
        assert!(!found(comes));
        reached("made and removed");
    });
    world.process("looker", move || {
        for _ in 0..3 {
            assert!(found(stays), "what is there all the time is not found");
        }
        reached("found");
    });
    world.prepare("last").last().run(move || {
        for name in all {
            if let Some(pool) = PoolAt::find(map, name) {
                pool.remove();
            }
        }
        for name in all {
            assert!(!found(name));
            PoolAt::make(map, name, 1).expect("room").remove();
        }
        // A kill leaves places that do not count. They go with the next name that goes beside them.
        let left = (0..map.geometry().names()).filter(|i| map.name_place(*i).load(Ordering::SeqCst) != 0).count();
        assert_eq!(left, 0, "places of the table are not empty");
    });
}

#[test]
fn names_are_found_while_others_come_and_go() {
    searched("names", names, &["removed", "made and removed", "found"]);
    stopped("names", names);
}

/// Names of which each has its own place in the table, with an empty one behind all but the last three.
fn apart() -> &'static [String; 6] {
    static NAMES: OnceLock<[String; 6]> = OnceLock::new();
    NAMES.get_or_init(|| {
        let place = |name: &str| chappe_arena::hash(name) as usize & (ROOM.names() - 1);
        [(1, "a"), (3, "b"), (3, "c"), (5, "d"), (6, "e"), (7, "f")].map(|(at, begin)| {
            (0..).map(|n| format!("{begin}{n}")).find(|name| place(name) == at).expect("there is no end of names")
        })
    })
}

/// An object is condemned where there is no room for another, while a process wants to make one: the next maker has its
/// slot, and no name of what is gone has a place in the table.
fn condemned(world: &World) {
    let map = model::create(&directory(), "lab", ROOM).expect("it is made");
    let [first, made, last, others @ ..] = apart();
    let make = move |name: &str| SemaphoreAt::make(map, name, 0, false).map(|it| it.place);
    let first = make(first).expect("room");
    others.iter().for_each(|name| _ = make(name).expect("room"));
    world.process("condemner", move || {
        assert!(map.condemn(first));
        reached("condemned");
    });
    world.process("maker", move || reached(if make(made).is_ok() { "made" } else { "full" }));
    world.prepare("last").last().run(move || {
        if map.is_there(first) {
            map.condemn(first);
        }
        if let Some(made) = map.find(made) {
            map.condemn(made);
        }
        make(last).expect("the slot of the one that was condemned");
        assert!(others.iter().all(|name| map.find(name).is_some()));
        // SeqCst: an observer's, after all is done.
        let places = (0..map.geometry().names()).filter(|i| map.name_place(*i).load(Ordering::SeqCst) != 0).count();
        assert_eq!(places, 4, "places in the table of names, of four objects");
    });
}

#[test]
fn a_condemned_objects_slot_is_used_again() {
    let all = [
        Search::depth("condemned_depth", 3).schedules(20_000).run(condemned),
        Search::sweep("condemned_kills").kills(1).run(condemned),
        Search::sweep("condemned_stops").stops(1).resume().run(condemned),
    ];
    all.iter().for_each(|report| _ = report.assert_clean());
    for outcome in ["condemned", "made", "full"] {
        assert!(all.iter().any(|report| report.outcomes().contains_key(outcome)), "it never came to {outcome}");
    }
}
