//! Permits of a whole process: its process_member's word is marked while another of its threads may still be at work, and its number goes to another
//! process when it is gone.

use crate::crash::Stage;
use chappe_crashsim::{Process, Search, World, process, reached};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU32, Ordering::SeqCst, pause};
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{self, Actor, PoolAt};

/// A process with a process_member, whose other thread takes a permit of the pool, works, gives it back, and ends.
fn owner(world: &World, stage: &Stage, name: &'static str, p: Process, pool: PoolAt, done: &'static str) {
    let (stage, map) = (*stage, stage.map);
    let me: std::rc::Rc<std::cell::Cell<Option<Actor>>> = std::rc::Rc::default();
    let (attachment, hands) = (me.clone(), me);
    let began = world.share(AtomicU32::new(0));
    // A process that no longer maps the arena has called exec, as far as others see.
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    let pid = p.pid();
    let inside = stage.inside;
    p.daemon("process_member", move || {
        attachment.set(Some(Actor::join_for_process(map, name).expect("a slot")));
        began.store(1, SeqCst);
        futex::wake(&began, 1, Scope::Private);
        process::linger();
    });
    p.on_death(move || inside.forget(pid));
    p.run(move || {
        while began.load(SeqCst) == 0 {
            futex::wait(&began, 0, None, Scope::Private);
        }
        let me = hands.take().expect("it has joined");
        let hold = stage.enter(&me, &[pool], None).expect("a permit");
        chappe_plat::step!("works");
        assert!(stage.leave(&me, hold));
        reached(done);
    });
    stage.reaper(p);
}

/// Two such processes, a third that waits, and one that begins with the number of the first when that is gone.
fn owners(world: &World) {
    let (stage, pools) = Stage::new(world, 12, &[1], 0);
    let pool = pools[0];
    let first = world.prepare("first");
    owner(world, &stage, "first", first, pool, "first done");
    let next = world.successor("next", first).immortal();
    owner(world, &stage, "next", next, pool, "next done");
    stage.customer(world, "customer", "served", &pools).immortal();
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn an_ended_process_returns_its_permit_although_its_number_is_used_again() {
    let all = [
        Search::sweep("process_sweep").kills(1).run(owners),
        Search::depth("process_depth", 2).kills(1).schedules(6_000).run(owners),
        Search::priorities("process_pct", 5).kills(1).schedules(10_000).run(owners),
        Search::uniform("process_dice").kills(1).spurious(1).schedules(10_000).run(owners),
        crate::crash::buffers("process", 5_000).run(owners),
    ];
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["first done", "next done", "served"] {
        assert!(
            all.iter().any(|r| r.outcomes().contains_key(outcome)) || std::env::var_os("CRASHSIM_REPLAY").is_some(),
            "never came to `{outcome}`"
        );
    }
}

/// A thread ends, alone, with a permit; the next owner of its slot stands for a whole process, and dies on the way.
fn thread_alone(world: &World) {
    let (stage, pools) = Stage::new(world, 12, &[1], 0);
    let (pool, map) = (pools[0], stage.map);
    let p = world.prepare("process").immortal();
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    let inside = stage.inside;
    let ended = world.share(AtomicU32::new(0));
    p.thread("ends", move || {
        let me = Actor::join(map, "ends").expect("a slot");
        let _held = me.try_acquire(pool).expect("it is free");
        inside.forget(process::pid());
        ended.store(1, SeqCst);
        futex::wake(&ended, u32::MAX, Scope::Shared);
    });
    stage.lasting(p, || {});
    let ended = move || {
        while ended.load(SeqCst) == 0 {
            futex::wait(&ended, 0, None, Scope::Shared);
        }
    };
    world.process("comes next", move || {
        ended();
        let me = Actor::join_for_process(map, "comes next").expect("a slot");
        reached("came next");
        me.leave();
    });
    let c = world.prepare("customer").immortal();
    let me = stage.member(c, "customer");
    stage.reaper(c.run(move || {
        ended();
        let hold = stage.enter(&me, &[pool], None).expect("a permit");
        assert!(stage.leave(&me, hold));
        reached("served");
    }));
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_member_that_dies_in_a_dead_threads_slot_does_not_hide_that_death() {
    for search in [
        Search::sweep("alone_sweep").kills(1),
        Search::depth("alone_depth", 2).kills(1).schedules(6_000),
        Search::priorities("alone_pct", 4).kills(1).schedules(10_000),
    ] {
        search.run(thread_alone).assert_clean().assert_reached(&["came next", "served"]);
    }
}

/// The number of a dead process goes to one that has the arena open, and does nothing with it.
fn namesake(world: &World) {
    let (stage, pools) = Stage::new(world, 12, &[1], 0);
    let pool = pools[0];
    let first = world.prepare("first");
    owner(world, &stage, "first", first, pool, "first done");
    let namesake = world.successor("namesake", first).immortal();
    namesake.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    namesake.run(|| {
        reached("namesake");
        process::linger();
    });
    stage.customer(world, "customer", "served", &pools).immortal();
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_namesake_of_the_dead_is_not_taken_for_it() {
    for search in
        [Search::sweep("namesake_sweep").kills(1), Search::priorities("namesake_pct", 4).kills(1).schedules(10_000)]
    {
        search.run(namesake).assert_clean().assert_reached(&["namesake", "served"]);
    }
}

/// A thread ends, another takes its slot, and a third, that has seen signs of the first one's death, is late.
fn seen_late(world: &World) {
    let (stage, pools) = Stage::new(world, 4, &[1], 0);
    let (pool, map) = (pools[0], stage.map);
    let over = world.share(AtomicU32::new(0));
    let first = world.prepare("first").immortal();
    first.thread("member", move || {
        let attachment = Actor::join(map, "first").expect("a slot");
        assert_eq!(attachment.member(), 0);
        over.store(1, SeqCst);
        futex::wake(&over, u32::MAX, Scope::Shared);
    });
    first.run(process::linger);
    let next = world.prepare("next").immortal();
    next.thread("member", move || {
        while over.load(SeqCst) == 0 {
            futex::wait(&over, 0, None, Scope::Shared);
        }
        // In the dead one's slot.
        while matches!(map.member(0).life.probe(), Life::Alive(_)) {
            pause();
        }
        let me = Actor::join(map, "next").expect("a slot");
        let hold = stage.try_enter(&me, pool).expect("it is free");
        chappe_plat::step!("holds it");
        assert!(stage.leave(&me, hold), "it was taken from a living member");
        reached("next");
        process::linger();
    });
    next.run(process::linger);
    world
        .process("third", move || {
            map.recover_dead();
            reached("looked");
        })
        .immortal();
}

#[test]
fn a_member_that_joined_meanwhile_is_not_taken_for_the_dead_one() {
    for search in [Search::depth("late_depth", 2).schedules(5_000), Search::priorities("late_pct", 3).schedules(30_000)]
    {
        search.run(seen_late).assert_clean().assert_reached(&["next", "looked"]);
    }
}

/// The thread that stands for a process ends before another, which does not wait any more, while a third is about to
/// take the slot, having seen it free.
fn seen_free(world: &World) {
    let (stage, pools) = Stage::new(world, 12, &[1], 0);
    let (pool, map) = (pools[0], stage.map);
    let p = world.prepare("process").immortal();
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    let me: std::rc::Rc<std::cell::Cell<Option<Actor>>> = std::rc::Rc::default();
    let (attachment, hands) = (me.clone(), me);
    let ended = world.share(AtomicU32::new(0));
    p.thread("process_member", move || {
        attachment.set(Some(Actor::join_for_process(map, "process").expect("a slot")));
        ended.store(1, SeqCst);
        futex::wake(&ended, 1, Scope::Private);
    });
    p.run(move || {
        while ended.load(SeqCst) == 0 {
            futex::wait(&ended, 0, None, Scope::Private);
        }
        let me = hands.take().expect("it has joined");
        let Ok(hold) = stage.try_enter(&me, pool) else { return };
        chappe_plat::step!("works");
        assert!(stage.leave(&me, hold), "it was taken from a process that is there");
        reached("done");
    });
    stage.customer(world, "customer", "served", &pools).immortal();
    world
        .process("comes", move || {
            let me = Actor::join(map, "comes").expect("a slot");
            reached("came");
            me.leave();
        })
        .immortal();
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_late_joiner_does_not_take_a_slot_that_is_in_use_again() {
    for search in [
        Search::depth("free_depth", 2).schedules(60_000),
        Search::depth("free_deep", 3).schedules(200_000),
        Search::priorities("free_pct", 5).schedules(100_000),
    ] {
        search.run(seen_free).assert_clean().assert_reached(&["done", "served", "came"]);
    }
}

/// A thread ends with the permit while the waiter's reaper looks; another thread takes its slot in that moment, and
/// dies.
fn taken_in_between(world: &World) {
    let (stage, pools) = Stage::new(world, 6, &[1], 0);
    let (map, pool, inside) = (stage.map, pools[0], stage.inside);
    let attachment = world.share(std::cell::Cell::new(u32::MAX));
    let p = world.prepare("process").immortal();
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    p.thread("ends", move || {
        let me = Actor::join(map, "ends").expect("a slot");
        let _held = me.try_acquire(pool);
        inside.forget(process::pid());
        attachment.set(me.member());
    });
    stage.lasting(p, || {});
    stage.customer(world, "customer", "served", &pools).immortal();
    world.process("comer", move || {
        let alive = |slot| slot == u32::MAX || matches!(map.member(slot).life.probe(), Life::Alive(_));
        while alive(attachment.get()) {
            pause();
        }
        let _me = Actor::join(map, "comer").expect("a slot");
        reached("came");
        process::linger();
    });
}

#[test]
fn a_member_that_dies_in_a_dead_threads_slot_is_seen_though_the_reaper_looks() {
    for search in [
        Search::depth("between_depth", 2).kills(1).schedules(20_000),
        Search::priorities("between_few", 4).kills(1).schedules(300_000),
        Search::priorities("between_pct", 5).kills(1).schedules(200_000),
    ] {
        search.run(taken_in_between).assert_clean().assert_reached(&["came", "served"]);
    }
}
