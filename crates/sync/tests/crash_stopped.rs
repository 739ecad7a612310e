//! A process is stopped for ever in the middle of telling a waiter: the next process that does the same makes up for it. (For pools and strong
//! semaphores see their own suites; here is what no object's word records.)

use crate::crash::Stage;
use chappe_arena::Place;
use chappe_crashsim::{Fate, Process, Search, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_sync::model::{
    self, Actor, AnyAt, Came, CondvarAt, Locking, MutexAt, NamedAt, PoolAt, Refusal, SemaphoreAt,
};
use std::cell::Cell;

/// Of each search but those in depth.
const SCHEDULES: u64 = 3_000;

fn explored(name: &str, world: impl Fn(&World) + Sync) {
    explored_in(SCHEDULES, name, world);
}

/// As [`explored`], with so many schedules of the search that goes by chance, and of the one in depth if they are more.
fn explored_in(schedules: u64, name: &str, world: impl Fn(&World) + Sync) {
    let all = [
        Search::sweep(&format!("{name}_sweep")).stops(1),
        Search::depth(&format!("{name}_depth"), 2).stops(1).schedules(schedules.max(20_000)),
        Search::priorities(&format!("{name}_pct"), 6).stops(1).schedules(schedules),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["got on", "past a stopped one"] {
        assert!(all.iter().any(|r| r.outcomes().contains_key(outcome)), "{name} never came to `{outcome}`");
    }
}

/// One process waits; another wakes it, and may be stopped for ever; a third wakes it once the second has done it, or
/// is stopped.
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

/// Two processes raise at once, the second by so many, and one of them is stopped; a third waits, wherever it was when
/// they came.
fn raised_at_once(world: &World, barging: bool, lot: u32) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, barging).expect("a semaphore");
    let v = world.prepare("first");
    stage.member(v, "first");
    stage.lasting(v, move || assert!(s.up(1)));
    let k = world.prepare("second").immortal();
    stage.member(k, "second");
    stage.lasting(k, move || {
        assert!(s.up(lot));
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    stage.reaper(stage.lasting(w, move || {
        me.down(s, None).expect("a unit");
        reached("got on");
    }));
}

#[test]
fn of_two_who_raise_at_once_one_may_be_stopped() {
    // A single unit may be sent at once; several are added first.
    explored("stopped_strong", |world| raised_at_once(world, false, 1));
    explored("stopped_strong_lot", |world| raised_at_once(world, false, 2));
    explored("stopped_barging", |world| raised_at_once(world, true, 1));
}

/// Two processes notify at once, and one of them is stopped: of those that waited before the other began, it wakes as
/// many as it must.
fn notified_at_once(world: &World, all: [bool; 2]) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let c = CondvarAt::make(stage.map, "c").expect("a condition variable");
    let notify = move |all: bool| if all { c.notify_all() } else { _ = c.notify_one() };
    let v = world.prepare("first");
    stage.member(v, "first");
    stage.lasting(v, move || notify(all[0]));
    let names = if all[1] { &["one", "other"][..] } else { &["one"][..] };
    let (waiting, meant) = (world.share(Cell::new(0)), world.share(Cell::new(false)));
    for name in names {
        let w = world.prepare(name).immortal();
        let me = stage.member(w, name);
        stage.reaper(stage.lasting(w, move || {
            assert_eq!(me.lock(m, None), Locking::Locked);
            waiting.set(waiting.get() + 1);
            assert!(me.wait(c, m, None).0);
            assert!(me.unlock(m));
            reached("got on");
        }));
    }
    let k = world.prepare("second").immortal();
    let me = stage.member(k, "second");
    stage.reaper(stage.lasting(k, move || {
        assert_eq!(me.lock(m, None), Locking::Locked);
        meant.set(waiting.get() == names.len());
        assert!(me.unlock(m));
        notify(all[1]);
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    }));
    // A waiter that was not there yet is not meant.
    world.may_wait(move || !meant.get());
}

#[test]
fn of_two_who_notify_at_once_one_may_be_stopped() {
    for (name, all) in [("11", [false, false]), ("1a", [false, true]), ("a1", [true, false]), ("aa", [true, true])] {
        explored_in(20_000, &format!("stopped_{name}"), |world| notified_at_once(world, all));
    }
}

/// The oldest waiter is stopped, told or not: the one behind it gets on when the lock is given up after a while.
fn told_and_stopped(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let h = world.prepare("holder").immortal();
    let holder = stage.member(h, "holder");
    h.before(|| assert_eq!(holder.try_lock(m), Locking::Locked));
    let over = world.share(Cell::new(false));
    let v = world.prepare("first");
    let first = stage.member(v, "first");
    stage.lasting(v, move || {
        assert_eq!(first.lock(m, None), Locking::Locked);
        assert!(first.unlock(m));
    });
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    stage.reaper(stage.lasting(w, move || {
        assert_eq!(waiter.lock(m, None), Locking::Locked);
        assert!(waiter.unlock(m));
        over.set(true);
        reached("got on");
    }));
    let o = stage.map.object(m.place.index);
    let came = world.share(Cell::new(false));
    stage.lasting(h, move || {
        assert!(holder.unlock(m));
        // Comes back now and then, until the waiter has been served, but not for ever.
        let mut before = false;
        for _ in 0..4 {
            crate::crash::sleep(10_000_000);
            if !over.get() && holder.try_lock(m) == Locking::Locked {
                // The waiter has looked itself, and sleeps, or is about to: before that, it may still tell the stopped
                // one in vain.
                let me = stage.map.member(waiter.member());
                let waits = me.slept.load(Ordering::SeqCst) != 0
                    && o.waiting[0].load(Ordering::SeqCst) & 1 << waiter.member() != 0;
                let past = v.fate() == Fate::Stopped && waits;
                assert!(holder.unlock(m));
                // The first time it may be this unlock that has told the stopped one.
                if past && before {
                    came.set(true);
                    reached("past a stopped one");
                }
                before = past;
            }
        }
    });
    // No process came by after that; or the lock is reserved for the stopped one.
    world.may_wait(move || !came.get() || model::is_reserved(m, first.member()));
}

#[test]
fn a_stopped_waiter_holds_up_nobody() {
    explored("stopped_waiter", told_and_stopped);
}

/// A process that gives a permit back is stopped when it has reserved it for a waiter that then gives up: a mere try
/// gets the permit.
fn set_aside_for_nobody(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let pool = pools[0];
    let (g, giver, holds) = stage.holder(world, "giver", &pools);
    stage.lasting(g, move || assert!(stage.leave(&giver, holds[0])));
    let w = world.prepare("hasty").immortal();
    let me = stage.member(w, "hasty");
    stage.lasting(w, move || match stage.enter(&me, &[pool], Some(chappe_plat::clock::now() + 1000)) {
        Ok(hold) => assert!(stage.leave(&me, hold)),
        Err(e) => assert_eq!(e, Refusal::TimedOut),
    });
    let t = world.prepare("trier");
    let trier = stage.member(t, "trier");
    t.last().run(move || {
        let many = trier.try_acquire_many(pool, 1).map(|_| ());
        if many.is_ok() {
            reached("got on");
            if g.fate() == Fate::Stopped {
                reached("past a stopped one");
            }
        } else {
            assert_eq!(
                trier.try_acquire(pool).map(|_| ()),
                many,
                "one of one is there, and several of several are not"
            );
        }
    });
}

#[test]
fn a_stopped_granter_holds_up_nobody_who_tries() {
    explored("stopped_set_aside", set_aside_for_nobody);
}

/// What a chooser may be given.
#[derive(Clone, Copy)]
enum Gift {
    Unit(SemaphoreAt),
    Permit(PoolAt),
    /// The semaphore's removal.
    End(SemaphoreAt),
}

impl Gift {
    fn make(stage: Stage, name: &str, kind: &str) -> Gift {
        match kind {
            "permit" => Gift::Permit(PoolAt::make(stage.map, name, 1).expect("a pool")),
            "end" => Gift::End(SemaphoreAt::make(stage.map, name, 0, false).expect("a semaphore")),
            _ => Gift::Unit(SemaphoreAt::make(stage.map, name, 0, kind == "barging").expect("a semaphore")),
        }
    }
    fn arm(self) -> AnyAt {
        match self {
            Gift::Unit(s) | Gift::End(s) => AnyAt::Semaphore(s),
            Gift::Permit(p) => AnyAt::Pool(p),
        }
    }
    /// A process that gives it.
    fn giver(self, stage: Stage, process: Process, name: &'static str, then: impl FnOnce() + 'static) {
        let me = stage.member(process, name);
        match self {
            Gift::Unit(s) => stage.lasting(process, move || {
                assert!(s.up(1));
                then();
            }),
            Gift::End(s) => stage.lasting(process, move || {
                s.remove();
                then();
            }),
            Gift::Permit(p) => {
                let held = process.before(|| me.try_acquire(p).expect("it is free"));
                stage.lasting(process, move || {
                    assert!(me.release(held));
                    then();
                })
            }
        };
    }
}

/// A chooser waits for either of two; two processes give it both, and one of them is stopped: it gets what the other
/// one gives.
fn chosen_past(world: &World, kinds: [&str; 2]) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let gifts = [Gift::make(stage, "a", kinds[0]), Gift::make(stage, "b", kinds[1])];
    let w = world.prepare("chooser").immortal();
    let me = stage.member(w, "chooser");
    stage.reaper(stage.lasting(w, move || {
        match me.choose(&gifts.map(Gift::arm), None) {
            Ok(_) => {}
            Err(why) => assert!(why == Refusal::Dead(1) && matches!(gifts[1], Gift::End(_)), "{why:?}"),
        }
        reached("got on");
    }));
    let v = world.prepare("first");
    gifts[0].giver(stage, v, "first", || {});
    let k = world.prepare("second").immortal();
    gifts[1].giver(stage, k, "second", move || {
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
}

#[test]
fn a_stopped_granter_keeps_no_chooser_from_what_others_give() {
    for (name, kinds) in [
        ("chosen_ss", ["strong", "strong"]),
        ("chosen_sb", ["strong", "barging"]),
        ("chosen_bs", ["barging", "strong"]),
        ("chosen_bp", ["barging", "permit"]),
        ("chosen_sp", ["strong", "permit"]),
        ("chosen_ps", ["permit", "strong"]),
        ("chosen_se", ["strong", "end"]),
    ] {
        explored(name, |world| chosen_past(world, kinds));
    }
}

/// The same of a unit and a message; the unit's giver is stopped, or the message's.
fn chosen_past_a_tube(world: &World, unit_first: bool) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 6, 32);
    let tube = NamedAt::make(stage.map, "t", 2, [false, false], false).expect("a tube");
    let unit = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let w = world.prepare("chooser").immortal();
    let me = stage.member(w, "chooser");
    w.before(|| me.attach(tube, false).expect("room"));
    stage.reaper(stage.lasting(w, move || {
        me.get_or_down(tube, unit);
        reached("got on");
    }));
    let v = world.prepare("first");
    let k = world.prepare("second").immortal();
    let (up, send) = if unit_first { (v, k) } else { (k, v) };
    let past = move |who: Process| {
        if who.pid() == k.pid() && v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    };
    stage.member(up, "up");
    stage.lasting(up, move || {
        assert!(unit.up(1));
        past(up);
    });
    let sender = stage.member(send, "send");
    send.before(|| sender.attach(tube, true).expect("room"));
    stage.lasting(send, move || {
        assert_eq!(sender.put(tube, 1, None), Came::Sent);
        past(send);
    });
}

#[test]
fn a_stopped_granter_keeps_no_chooser_from_a_message() {
    explored("chosen_past_unit", |world| chosen_past_a_tube(world, true));
    explored("chosen_past_message", |world| chosen_past_a_tube(world, false));
}

/// A waiter waits for this alone; a process is stopped while it tells it; another takes the object out of service.
fn removed_behind(world: &World, kind: &str) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let (wanted, v) = (Gift::make(stage, "a", kind), world.prepare("first"));
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    let first = stage.member(v, "first");
    match wanted {
        Gift::Unit(s) => stage.lasting(v, move || _ = s.up(1)),
        // A try on an object that is being removed tells the waiters.
        Gift::End(s) => stage.lasting(v, move || _ = first.try_down(s)),
        Gift::Permit(p) => {
            let held = v.before(|| first.try_acquire(p).expect("it is free"));
            stage.lasting(v, move || _ = first.release(held))
        }
    };
    stage.reaper(stage.lasting(w, move || {
        let _ = me.choose(&[wanted.arm()], None);
        reached("got on");
    }));
    let k = world.prepare("second").immortal();
    stage.member(k, "second");
    stage.lasting(k, move || {
        match wanted {
            Gift::Unit(s) | Gift::End(s) => s.remove(),
            Gift::Permit(p) => p.remove(),
        }
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
}

#[test]
fn a_removal_wakes_the_waiter_of_a_stopped_waker() {
    for kind in ["strong", "permit", "end"] {
        explored_in(20_000, &format!("removed_{kind}"), |world| removed_behind(world, kind));
    }
}

/// A waiter needs two permits of a pool that shrinks; a process that gives one back tells it so, and is stopped.
fn shrunk_behind(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let p = PoolAt::make(stage.map, "p", 2).expect("a pool");
    let v = world.prepare("first");
    let me = stage.member(v, "first");
    let held = v.before(|| me.try_acquire(p).expect("it is free"));
    let w = world.prepare("waiter").immortal();
    let my = stage.member(w, "waiter");
    stage.reaper(stage.lasting(w, move || {
        let _ = my.acquire_many(p, 2, None);
        reached("got on");
    }));
    stage.lasting(v, move || _ = me.release(held));
    let k = world.prepare("second").immortal();
    stage.member(k, "second");
    stage.lasting(k, move || {
        p.resize(1).expect("it shrinks");
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
}

#[test]
fn a_shrink_of_a_pool_wakes_the_waiter_of_a_stopped_waker() {
    explored("shrunk", shrunk_behind);
}

/// A choice of an object of the chooser's own process, to which a sibling gives, and of a named one, whose giver is
/// stopped.
fn chosen_past_at_home(world: &World, kinds: [&'static str; 2]) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let c = world.prepare("chooser").immortal();
    let geometry = chappe_arena::layout::Geometry { members: 4, objects: 1, cells: 1, blocks: 1 };
    let (me, own) = c.before(|| {
        let home = model::private(geometry).expect("memory");
        let me = Actor::join(stage.map, "chooser").expect("a slot").join_private(home).expect("a slot");
        (me, SemaphoreAt::make(home, "own", 0, kinds[0] == "barging").expect("a semaphore"))
    });
    let v = world.prepare("first");
    let named = Gift::make(stage, "named", kinds[1]);
    named.giver(stage, v, "first", || {});
    c.thread("sibling", move || {
        assert!(own.up(1));
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
    stage.lasting(c, move || {
        let _ = me.choose(&[AnyAt::Semaphore(own), named.arm()], None);
        reached("got on");
    });
}

#[test]
fn a_stopped_granter_keeps_no_chooser_from_what_a_sibling_gives() {
    for (name, kinds) in [
        ("home_ss", ["strong", "strong"]),
        ("home_bs", ["barging", "strong"]),
        ("home_sb", ["strong", "barging"]),
        ("home_sp", ["strong", "permit"]),
    ] {
        explored(name, |world| chosen_past_at_home(world, kinds));
    }
}

/// The last sender of a tube leaves; the process that gives the unit for which the receiver waits as well is stopped.
fn left_behind(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 6, 32);
    let tube = NamedAt::make(stage.map, "t", 2, [false, false], false).expect("a tube");
    let unit = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let w = world.prepare("chooser").immortal();
    let me = stage.member(w, "chooser");
    let over = world.share(Cell::new(false));
    // Both begin when the chooser has begun to wait: the search is over what they do to each other, not over how far
    // the chooser has come.
    let waits = move || {
        // SeqCst: as the waiter's own stores.
        let word = || stage.map.member(me.member()).state.load(Ordering::SeqCst);
        while model::state_in_words(word()).starts_with("idle") && !over.get() {
            chappe_plat::atomic::pause();
        }
    };
    w.before(|| me.attach(tube, false).expect("room"));
    let k = world.prepare("second").immortal();
    let sender = stage.member(k, "second");
    k.before(|| sender.attach(tube, true).expect("room"));
    stage.reaper(stage.lasting(w, move || {
        me.get_or_down(tube, unit);
        over.set(true);
        reached("got on");
    }));
    let v = world.prepare("first");
    stage.member(v, "first");
    stage.lasting(v, move || {
        waits();
        assert!(unit.up(1));
    });
    stage.lasting(k, move || {
        waits();
        sender.detach(tube, true);
        if v.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
    });
}

#[test]
fn the_last_end_that_leaves_wakes_the_waiter_of_a_stopped_waker() {
    explored_in(30_000, "left_behind", left_behind);
}
