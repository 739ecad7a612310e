//! Every way to give something, beside a thread that waits for it, in a world that asks nothing: every thread may sleep for good. That no wake is owed
//! in the end is what each stage looks at by itself (`crash/owed.rs`). A new way to give joins by one row.

use crate::crash::Stage;
use chappe_arena::Map;
use chappe_crashsim::{Search, World, reached};
use chappe_sync::model::{Actor, CastAt, CondvarAt, MutexAt, NamedAt, OwnedAt, PoolAt, RwLockAt, SemaphoreAt, When};

/// What one thread waits for, and what another does then.
struct Row {
    waits: Box<dyn FnOnce()>,
    gives: Box<dyn FnOnce()>,
}

fn row(waits: impl FnOnce() + 'static, gives: impl FnOnce() + 'static) -> Row {
    Row { waits: Box::new(waits), gives: Box::new(gives) }
}

/// Made by the waiter and the giver, before the world begins.
type Way = (&'static str, fn(&'static Map, Actor, Actor) -> Row);

/// A tube of one slot: it drops what a receiver gives back twice, or does not.
fn tube(map: &'static Map, all: [Actor; 2], drops: bool) -> NamedAt {
    let tube = NamedAt::make(map, "t", 1, [false; 2], drops).expect("room");
    for member in all {
        assert!(member.attach(tube, true).is_ok() && member.attach(tube, false).is_ok());
    }
    tube
}

fn cast(map: &'static Map, publisher: Actor, subscriber: Actor) -> (CastAt, usize, u32) {
    let tube = CastAt::make(map, "b", 2, 2).expect("room");
    let at = publisher.publishes(tube).expect("room");
    (tube, at, subscriber.subscribes(tube, When::Block).expect("room"))
}

const WAYS: &[Way] = &[
    ("a permit", |map, w, g| {
        let pool = PoolAt::make(map, "p", 1).expect("room");
        let held = g.try_acquire(pool).expect("free");
        row(move || _ = w.acquire(&[pool], None), move || _ = g.release(held))
    }),
    ("two permits at once", |map, w, g| {
        let pool = PoolAt::make(map, "p", 2).expect("room");
        let held = g.acquire_many(pool, 2, None).expect("free");
        row(move || _ = w.acquire_many(pool, 2, None), move || held.into_iter().for_each(|h| _ = g.release(h)))
    }),
    ("a permit, by force", |map, w, g| {
        let pool = PoolAt::make(map, "p", 1).expect("room");
        _ = g.try_acquire(pool);
        row(move || _ = w.acquire(&[pool], None), move || _ = pool.force(0))
    }),
    ("a larger pool", |map, w, g| {
        let pool = PoolAt::make(map, "p", 1).expect("room");
        _ = g.try_acquire(pool);
        row(move || _ = w.acquire(&[pool], None), move || _ = pool.resize(2))
    }),
    ("a smaller pool", |map, w, g| {
        let pool = PoolAt::make(map, "p", 2).expect("room");
        _ = g.try_acquire(pool);
        row(move || _ = w.acquire_many(pool, 2, None), move || _ = pool.resize(1))
    }),
    ("a unit", |map, w, _| {
        let s = SemaphoreAt::make(map, "s", 0, false).expect("room");
        row(move || _ = w.down(s, None), move || _ = s.up(1))
    }),
    ("a unit that others may overtake", |map, w, _| {
        let s = SemaphoreAt::make(map, "s", 0, true).expect("room");
        row(move || _ = w.down(s, None), move || _ = s.up(1))
    }),
    ("an owned unit", |map, w, g| {
        let s = OwnedAt::make(map, "o").expect("room");
        assert!(s.try_wait(&g).is_ok());
        row(move || _ = s.wait(&w, &w, None), move || _ = s.post(&g))
    }),
    ("a lock", |map, w, g| {
        let m = MutexAt::make(map, "m").expect("room");
        g.try_lock(m);
        row(move || _ = w.lock(m, None), move || _ = g.unlock(m))
    }),
    ("a condemned lock", |map, w, g| {
        let m = MutexAt::make(map, "m").expect("room");
        g.try_lock(m);
        row(move || _ = w.lock(m, None), move || g.condemn(m))
    }),
    ("a lock of readers, to write", |map, w, g| {
        let l = RwLockAt::make(map, "l").expect("room");
        let turn = l.enter(&g, false, None).expect("free");
        row(move || _ = l.enter(&w, true, None), move || _ = l.leave(turn))
    }),
    ("a lock of readers, to read", |map, w, g| {
        let l = RwLockAt::make(map, "l").expect("room");
        let turn = l.enter(&g, true, None).expect("free");
        row(move || _ = l.enter(&w, false, None), move || _ = l.downgrade(turn))
    }),
    ("a notification", |map, w, _| {
        let (c, m) = (CondvarAt::make(map, "c").expect("room"), MutexAt::make(map, "m").expect("room"));
        w.try_lock(m);
        row(move || _ = w.wait(c, m, None), move || c.notify_all())
    }),
    ("a message", |map, w, g| {
        let t = tube(map, [w, g], false);
        row(move || _ = w.get(t, None), move || _ = g.put(t, 7, None))
    }),
    ("a reserved message", |map, w, g| {
        let t = tube(map, [w, g], false);
        let slot = g.reserve(t, 7).expect("room");
        row(move || _ = w.get(t, None), move || _ = g.commit(t, slot))
    }),
    ("room, of a message taken out", |map, w, g| {
        let t = tube(map, [w, g], false);
        g.put(t, 7, None);
        row(move || _ = w.put(t, 8, None), move || _ = g.get(t, None))
    }),
    ("room, of a message given up", |map, w, g| {
        let t = tube(map, [w, g], false);
        let slot = g.reserve(t, 7).expect("room");
        row(move || _ = w.put(t, 8, None), move || g.give_up(t, slot))
    }),
    ("room, of a loan", |map, w, g| {
        let t = tube(map, [w, g], false);
        g.put(t, 7, None);
        let (lent, ..) = g.borrow(t).expect("a message");
        row(move || _ = w.put(t, 8, None), move || _ = g.give_back(t, lent))
    }),
    ("a message that is put back", |map, w, g| {
        let t = tube(map, [w, g], false);
        g.put(t, 7, None);
        let (lent, ..) = g.borrow(t).expect("a message");
        row(move || _ = w.get(t, None), move || g.put_back(t, &lent, false))
    }),
    ("room, of a message that is put back and dropped", |map, w, g| {
        let t = tube(map, [w, g], true);
        g.put(t, 7, None);
        let (lent, ..) = g.borrow(t).expect("a message");
        row(move || _ = w.put(t, 8, None), move || g.put_back(t, &lent, false))
    }),
    ("the end of a tube", |map, w, g| {
        let t = NamedAt::make(map, "t", 1, [false; 2], false).expect("room");
        assert!(w.attach(t, false).is_ok() && g.attach(t, true).is_ok());
        row(move || _ = w.get(t, None), move || g.detach(t, true))
    }),
    ("the seal of a tube", |map, w, _| {
        let t = NamedAt::make(map, "t", 1, [false; 2], false).expect("room");
        assert!(w.attach(t, false).is_ok());
        row(move || _ = w.get(t, None), move || t.seal())
    }),
    ("news", |map, w, g| {
        let (t, _, who) = cast(map, g, w);
        row(move || _ = w.hears(t, who, None), move || _ = g.says(t, 7, None))
    }),
    ("room for news", |map, w, g| {
        let (t, _, who) = cast(map, w, g);
        (0..2).for_each(|m| _ = w.says(t, m, None));
        row(move || _ = w.says(t, 7, None), move || _ = g.hears(t, who, None))
    }),
    ("room for news, of one that hears no more", |map, w, g| {
        let (t, _, who) = cast(map, w, g);
        (0..2).for_each(|m| _ = w.says(t, m, None));
        row(move || _ = w.says(t, 7, None), move || g.unsubscribes(t, who))
    }),
    ("the end of news", |map, w, g| {
        let (t, at, who) = cast(map, g, w);
        row(move || _ = w.hears(t, who, None), move || g.publishes_no_more(t, at))
    }),
    ("a removal", |map, w, _| {
        let s = SemaphoreAt::make(map, "s", 0, false).expect("room");
        row(move || _ = w.down(s, None), move || s.remove())
    }),
];

fn given(world: &World, way: Way, dies: bool) {
    let (stage, _) = Stage::with_blocks(world, 4, &[], 3, 24);
    let (w, g) = (world.prepare("waits").immortal(), world.prepare("gives"));
    let (waiter, giver) = (stage.member(w, "waits"), stage.member(g, "gives"));
    let Row { waits, gives } = g.before(|| way.1(stage.map, waiter, giver));
    stage.lasting(w, move || {
        waits();
        reached("has it");
    });
    stage.lasting(g, gives);
    if dies {
        let r = world.prepare("recovers").immortal();
        stage.member(r, "recovers");
        stage.reaper(r);
    }
    world.may_wait(|| true);
}

#[test]
fn every_way_to_give_tells_the_waiter() {
    for (i, way) in WAYS.iter().enumerate() {
        let search = Search::depth(&format!("owed_{i}"), 1).schedules(300);
        let report = search.run(|world: &World| given(world, *way, false));
        println!("{}", way.0);
        report.assert_clean().assert_reached(&["has it"]);
    }
}

#[test]
fn no_wake_is_owed_by_a_giver_that_was_killed() {
    for (i, way) in WAYS.iter().enumerate() {
        let search = Search::sweep(&format!("owed_killed_{i}")).kills(1).schedules(300);
        let report = search.run(|world: &World| given(world, *way, true));
        println!("{}", way.0);
        report.assert_clean();
    }
}
