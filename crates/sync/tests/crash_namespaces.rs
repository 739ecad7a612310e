//! Members in several PID namespaces, explored. Threads of different namespaces have the same numbers. When a thread dies, the kernel marks the
//! word that it was just claiming or releasing if its number is in there: no living thread may be taken for dead for it.

use crate::crash::directory;
use chappe_arena::layout::Geometry;
use chappe_arena::{Map, Watch, watch};
use chappe_crashsim::{Process, Report, Search, Shared, World, process, reached};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU32, Ordering::SeqCst};
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{self, Actor, PoolAt};
use std::cell::Cell;

/// The process inside the one permit: an identity, which no two processes have in common whatever their numbers; 0 for
/// none.
type Inside = Shared<Cell<u32>>;

const NAMESPACES: [u64; 3] = [0x4000_000a, 0x4000_000b, 0x4000_000c];

#[derive(Clone, Copy)]
struct Scene {
    map: &'static Map,
    pool: PoolAt,
    inside: Inside,
}

impl Scene {
    fn new(world: &World, members: u32) -> Scene {
        let map = model::create(&directory(), "default", Geometry { members, objects: 3, cells: 2, blocks: 1 })
            .expect("an arena");
        let pool = PoolAt::make(map, "p", 1).expect("a pool");
        world.name_with(&map.object(pool.place.index).slot.word, "cell of p", model::cell_in_words);
        world.name(map.header().admin.word(), "admin");
        for i in 0..members {
            let m = map.member(i);
            world.name_with(&m.state, format!("wait word of member {i}"), model::state_in_words);
            world.name(&m.ident, format!("ident of member {i}"));
            world.name(&m.swept, format!("swept of member {i}"));
            world.name(m.life.word(), format!("life of member {i}"));
        }
        Scene { map, pool, inside: world.share(Cell::new(0)) }
    }

    /// Number 1 of the n-th namespace.
    fn first(&self, world: &World, name: &str, n: usize) -> Process {
        let p = world.prepare(name).in_namespace(NAMESPACES[n], 1);
        let (inside, who) = (self.inside, p.identity());
        p.on_death(move || {
            if inside.get() == who {
                inside.set(0);
            }
        });
        p
    }

    /// Joins, works with the permit if it is free, and leaves.
    fn turn(&self, who: u32, name: &str) {
        let me = Actor::join(self.map, name).expect("a slot");
        if let Ok(held) = me.try_acquire(self.pool) {
            assert_eq!(self.inside.replace(who), 0, "two are inside");
            chappe_plat::step!("works");
            assert_eq!(self.inside.replace(0), who, "another is inside");
            assert!(me.release(held), "it was taken from a living member");
        }
        me.leave();
    }

    fn settled(&self) {
        self.map.recover_dead();
        let me = Actor::join(self.map, "last").expect("a slot");
        let held = me.try_acquire(self.pool).expect("what the dead held is back");
        assert!(me.release(held));
        me.leave();
        for i in 0..self.map.geometry().members {
            assert_eq!(self.map.dead(i), None, "slot {i} stays out of use");
            assert!(!matches!(self.map.member(i).life.probe(), Life::Alive(_)), "slot {i} stays out of use");
        }
        drop(self.map.admin());
    }

    fn finally(self, world: &World) {
        world.prepare("last").in_namespace(NAMESPACES[2], 1).last().run(move || self.settled());
    }
}

fn explored(name: &str, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all: [Report; 5] = [
        Search::sweep(&format!("{name}_sweep")).kills(1),
        Search::depth(&format!("{name}_depth"), 2).kills(1).schedules(10_000),
        Search::priorities(&format!("{name}_pct"), 4).kills(1).schedules(10_000),
        Search::priorities(&format!("{name}_pct_two"), 5).kills(2).schedules(5_000),
        Search::uniform(&format!("{name}_dice")).kills(2).schedules(5_000),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    let missed: Vec<_> = outcomes.iter().filter(|o| !all.iter().any(|r| r.outcomes().contains_key(**o))).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
}

/// Three come and go, all of them number 1. If one finds the gate of its slot shut when it leaves, it keeps the slot
/// until it ends.
fn comers(world: &World) {
    let scene = Scene::new(world, 4);
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        let p = scene.first(world, name, n);
        let who = p.identity();
        p.run(move || {
            for _ in 0..2 {
                scene.turn(who, name);
            }
            reached(name);
        });
    }
    world.prepare("sweeper").in_namespace(NAMESPACES[2], 1).run(move || {
        if scene.map.recover_dead() > 0 {
            reached("found dead");
        }
    });
    scene.finally(world);
}

#[test]
fn threads_of_one_number_come_and_go_in_the_same_slots() {
    explored("comers", comers, &["a", "b", "found dead"]);
}

/// One leaves its slot and comes back; another process of its number, in another namespace, comes for the same slot and
/// stays.
fn heirs(world: &World) {
    let scene = Scene::new(world, 1);
    let a = scene.first(world, "leaver", 0);
    let me = a.before(|| Actor::join(scene.map, "leaver").expect("a slot"));
    a.run(move || {
        me.leave();
        reached(if Actor::join(scene.map, "leaver").is_ok() { "back" } else { "no slot for the leaver" });
        process::linger();
    });
    let came = world.share(Cell::new(false));
    scene.first(world, "heir", 1).immortal().run(move || {
        came.set(Actor::join(scene.map, "heir").is_ok());
        reached(if came.get() { "came" } else { "no slot for the heir" });
        process::linger();
    });
    world.prepare("last").in_namespace(NAMESPACES[2], 1).last().run(move || {
        if came.get() {
            let life = scene.map.member(0).life.probe();
            assert_eq!((life, scene.map.dead(0)), (Life::Alive(1), None), "the heir lives, and is taken for dead");
        }
    });
}

#[test]
fn a_slot_goes_from_one_thread_to_another_of_its_number() {
    let report = Search::depth("heirs", 1).kills(1).schedules(1_000_000).whole().run(heirs);
    report.assert_clean().assert_reached(&["came", "back", "no slot for the leaver", "no slot for the heir"]);
    assert!(report.complete(), "some order of events was left out");
}

/// The right to change objects: taken and given back by three of one number, which notice if two have it.
fn admins(world: &World) {
    let scene = Scene::new(world, 2);
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let p = scene.first(world, name, n);
        let who = p.identity();
        p.run(move || {
            let admin = scene.map.admin();
            assert_eq!(scene.inside.replace(who), 0, "two have the right to change objects");
            chappe_plat::step!("changes objects");
            assert_eq!(scene.inside.replace(0), who, "another has the right to change objects");
            drop(admin);
            reached(name);
        });
    }
    scene.finally(world);
}

#[test]
fn the_right_to_change_objects_is_one_threads_whatever_its_number() {
    explored("admins", admins, &["a", "b", "c"]);
}

/// One has the right to change objects and gives it up; another of its number, in another namespace, takes it and keeps it.
fn admins_heir(world: &World) {
    let scene = Scene::new(world, 1);
    let leaver = scene.first(world, "leaver", 0);
    let admin = leaver.before(|| scene.map.admin());
    leaver.run(move || drop(admin));
    scene.first(world, "heir", 1).immortal().run(move || {
        std::mem::forget(scene.map.admin());
        reached("came");
        process::linger();
    });
    world.prepare("last").in_namespace(NAMESPACES[2], 1).last().run(move || {
        assert_eq!(scene.map.header().admin.probe(), Life::Alive(1), "the heir lives, and has lost its right");
    });
}

#[test]
fn the_right_to_change_objects_goes_from_one_thread_to_another_of_its_number() {
    let report = Search::depth("admins_heir", 1).kills(1).schedules(1_000_000).whole().run(admins_heir);
    report.assert_clean().assert_reached(&["came"]);
    assert!(report.complete(), "some order of events was left out");
}

/// One holds; another of its number, in another namespace, waits with its reaper; a third comes and goes.
fn waiter(world: &World) {
    let scene = Scene::new(world, 5);
    let h = scene.first(world, "holder", 0);
    let who = h.identity();
    let (me, held) = h.before(|| {
        let me = Actor::join(scene.map, "holder").expect("a slot");
        (me, me.try_acquire(scene.pool).expect("it is free"))
    });
    scene.inside.set(who);
    h.run(move || {
        chappe_plat::step!("works");
        assert_eq!(scene.inside.replace(0), who, "another is inside");
        assert!(me.release(held), "it was taken from a living member");
        process::linger();
    });
    let w = scene.first(world, "waiter", 1);
    let who = w.identity();
    let me = w.before(|| Actor::join(scene.map, "waiter").expect("a slot"));
    let watched: &'static Watch = Box::leak(Box::default());
    w.daemon("reaper", move || watch(watched, scene.map));
    w.run(move || {
        let (_, held) = me.acquire(&[scene.pool], None).expect("a permit");
        assert_eq!(scene.inside.replace(who), 0, "two are inside");
        chappe_plat::step!("works");
        assert_eq!(scene.inside.replace(0), who, "another is inside");
        assert!(me.release(held), "it was taken from a living member");
        reached("served");
        process::linger();
    })
    .immortal();
    let c = scene.first(world, "comer", 2);
    let who = c.identity();
    c.run(move || scene.turn(who, "comer"));
}

#[test]
fn a_waiter_is_served_when_the_holder_of_another_namespace_has_died_and_not_before() {
    explored("waiter", waiter, &["served"]);
}

/// A process member of one namespace: the thread that stands for it ends first, and another namespace looks.
fn owner(world: &World) {
    let scene = Scene::new(world, 6);
    let p = world.prepare("owner").in_namespace(NAMESPACES[0], 1);
    let (inside, who) = (scene.inside, p.identity());
    p.on_death(move || inside.set(if inside.get() == who { 0 } else { inside.get() }));
    p.before(|| model::attach(&directory(), "default").expect("it is there"));
    let me: std::rc::Rc<Cell<Option<Actor>>> = std::rc::Rc::default();
    let (attachment, hands) = (me.clone(), me);
    let began = world.share(AtomicU32::new(0));
    p.daemon("process_member", move || {
        attachment.set(Some(Actor::join_for_process(scene.map, "owner").expect("a slot")));
        began.store(1, SeqCst);
        futex::wake(&began, 1, Scope::Private);
        process::linger();
    });
    p.run(move || {
        while began.load(SeqCst) == 0 {
            futex::wait(&began, 0, None, Scope::Private);
        }
        let me = hands.take().expect("it has joined");
        let (_, held) = me.acquire(&[scene.pool], None).expect("a permit");
        assert_eq!(scene.inside.replace(who), 0, "two are inside");
        chappe_plat::step!("works");
        assert_eq!(scene.inside.replace(0), who, "another is inside");
        assert!(me.release(held), "it was taken from a process that is there");
        reached("owner done");
    });
    let w = scene.first(world, "waiter", 1).immortal();
    let who = w.identity();
    let me = w.before(|| Actor::join(scene.map, "waiter").expect("a slot"));
    let watched: &'static Watch = Box::leak(Box::default());
    w.daemon("reaper", move || watch(watched, scene.map));
    w.run(move || {
        let (_, held) = me.acquire(&[scene.pool], None).expect("a permit");
        assert_eq!(scene.inside.replace(who), 0, "two are inside");
        chappe_plat::step!("works");
        assert_eq!(scene.inside.replace(0), who, "another is inside");
        assert!(me.release(held), "it was taken from a living member");
        reached("served");
    });
}

#[test]
fn a_process_of_another_namespace_is_gone_when_all_its_threads_are() {
    explored("owner", owner, &["owner done", "served"]);
}

/// The thread that stands for a process ends before another one of it, which is at work, while another namespace looks.
fn ending(world: &World) {
    let scene = Scene::new(world, 1);
    let p = world.prepare("owner").in_namespace(NAMESPACES[0], 1);
    p.before(|| Actor::join_for_process(scene.map, "owner").expect("a slot"));
    p.run(process::linger);
    let seen_dead = world.share(Cell::new(false));
    p.thread("worker", move || {
        chappe_plat::step!("works");
        assert!(!seen_dead.get(), "a process is taken for dead that has a thread at work");
    });
    scene.first(world, "looker", 1).immortal().run(move || {
        seen_dead.set(scene.map.dead(0).is_some());
        reached(if seen_dead.get() { "dead" } else { "alive" });
    });
}

#[test]
fn the_end_of_one_thread_is_not_its_processes_in_another_namespace() {
    let report = Search::depth("ending", 12).kills(1).schedules(1_000_000).whole().run(ending);
    report.assert_clean().assert_reached(&["dead", "alive"]);
    assert!(report.complete(), "some order of events was left out");
}

/// The holder ends with the permit. A thread of its number, in another namespace, comes, and may be stopped in its slot.
fn stopped_comer(world: &World) {
    // Stopped between giving the permit back and handing it on, it leaves the waiter to its reaper's next look, within a second.
    world.backstops_at_most(3);
    let scene = Scene::new(world, 5);
    let h = scene.first(world, "holder", 0);
    let me = h.before(|| Actor::join(scene.map, "holder").expect("a slot"));
    h.before(|| me.try_acquire(scene.pool).expect("it is free"));
    h.run(|| ()).immortal();
    let w = scene.first(world, "waiter", 1).immortal();
    let me = w.before(|| Actor::join(scene.map, "waiter").expect("a slot"));
    let watched: &'static Watch = Box::leak(Box::default());
    w.daemon("reaper", move || watch(watched, scene.map));
    w.run(move || {
        let (_, held) = me.acquire(&[scene.pool], None).expect("a permit");
        assert!(me.release(held), "it was taken from a living member");
        reached("served");
        process::linger();
    });
    let c = scene.first(world, "comer", 2);
    c.run(move || {
        let me = Actor::join(scene.map, "comer").expect("a slot");
        reached(if me.member() == 0 { "in the same slot" } else { "in another slot" });
        me.leave();
    });
}

#[test]
fn a_stopped_thread_of_the_dead_ones_number_keeps_nobody_waiting() {
    for search in [
        Search::depth("stopped_depth", 2).stops(1).schedules(20_000),
        Search::priorities("stopped_pct", 4).stops(1).schedules(20_000),
    ] {
        search.run(stopped_comer).assert_clean().assert_reached(&["served", "in the same slot", "in another slot"]);
    }
}
