//! Somebody is stopped for ever in the middle of telling a waiter: whoever does the same after it makes up for it. (For
//! pools and strong semaphores see their own suites; here is what no object's word knows of.)

mod crash;

use chappe_arena::Place;
use chappe_crashsim::{Fate, Search, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_sync::model::{self, Actor, CondvarAt, Locking, MutexAt, SemaphoreAt};
use crash::Stage;
use std::cell::Cell;

/// Of each search.
const SCHEDULES: u64 = 3_000;

fn explored(name: &str, world: impl Fn(&World) + Sync) {
    let all = [
        Search::sweep(&format!("{name}_sweep")).stops(1),
        Search::depth(&format!("{name}_depth"), 2).stops(1).schedules(SCHEDULES),
        Search::priorities(&format!("{name}_pct"), 4).stops(1).schedules(SCHEDULES),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["got on", "past a stopped one"] {
        assert!(all.iter().any(|r| r.outcomes().contains_key(outcome)), "{name} never came to `{outcome}`");
    }
}

/// One waits; one wakes it, and may be stopped for ever; another one wakes it once that one has done it, or is stopped.
fn play<W: FnOnce(&Actor) + 'static, V: FnOnce(&Actor) + 'static, K: FnOnce(&Actor) + 'static>(
    world: &World,
    stage: Stage,
    place: Place,
    held: Option<MutexAt>,
    (wait, first, second): (W, V, K),
) -> Actor {
    let waiter = world.prepare("waiter").immortal();
    let me = stage.member(waiter, "waiter");
    let o = stage.map.object(place.index);
    let says = move |what: &str| {
        let word = stage.map.member(me.member()).state.load(Ordering::SeqCst);
        model::state_in_words(word).starts_with(what)
    };
    let enlisted = move || says("waiting") && o.waiting[0].load(Ordering::SeqCst) & 1 << me.member() != 0;
    let (over, done) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    waiter.run(move || {
        wait(&me);
        over.set(true);
        reached("got on");
    });
    let v = world.prepare("first");
    let one = stage.member(v, "first");
    if let Some(m) = held {
        v.before(|| assert_eq!(one.try_lock(m), Locking::Locked));
    }
    v.run(move || {
        while !enlisted() {
            chappe_plat::atomic::pause();
        }
        first(&one);
        done.set(true);
    });
    let k = world.prepare("second").immortal();
    let other = stage.member(k, "second");
    k.run(move || {
        let told = || !says("idle") && !says("waiting");
        while v.fate() == Fate::Alive && !done.get() || !(enlisted() || told() || over.get()) {
            chappe_plat::atomic::pause();
        }
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
        second(&other);
    });
    one
}

fn condvar(world: &World, all: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let c = CondvarAt::make(stage.map, "c").expect("a condition variable");
    let notify = move |_: &Actor| {
        if all {
            c.notify_all();
        } else {
            c.notify_one();
        }
    };
    let wait = move |me: &Actor| {
        assert_eq!(me.lock(m, None), Locking::Locked);
        assert_eq!(me.wait(c, m, None), (true, Locking::Locked));
        assert!(me.unlock(m));
    };
    play(world, stage, c.place, None, (wait, notify, notify));
}

#[test]
fn a_stopped_notifier_holds_up_nobody() {
    explored("stopped_one", |world| condvar(world, false));
    explored("stopped_all", |world| condvar(world, true));
}

fn barging(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, true).expect("a semaphore");
    let up = move |_: &Actor| assert!(s.up(1));
    play(world, stage, s.place, None, (move |me: &Actor| me.down(s, None).expect("a unit"), up, up));
}

#[test]
fn a_stopped_poster_holds_up_nobody() {
    explored("stopped_poster", barging);
}

fn unlocker(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let wait = move |me: &Actor| {
        assert_eq!(me.lock(m, None), Locking::Locked);
        assert!(me.unlock(m));
    };
    let first = move |me: &Actor| assert!(me.unlock(m));
    let second = move |me: &Actor| {
        if me.try_lock(m) == Locking::Locked {
            assert!(me.unlock(m));
        }
    };
    let one = play(world, stage, m.place, Some(m), (wait, first, second));
    // The stopped one still has it.
    world.may_wait(move || m.holder() == Some(one.member()));
}

#[test]
fn a_stopped_unlocker_holds_up_nobody() {
    explored("stopped_unlocker", unlocker);
}
