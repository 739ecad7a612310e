//! Semaphores, explored: kill and stop at every operation of up, down (saved, blocked, timed), choice, removal. What must hold after every step: no
//! unit comes from nowhere; at the end: no unit is gone except with a process that may have taken it, and no thread sleeps while one is there.

use crate::counted::{Counted, enough, last, more};
use crate::crash::{Stage, searched, stopped};
use chappe_crashsim::{Fate, Search, World, reached};
use chappe_sync::model::{self, Actor, AnyAt, PoolAt, Refusal, SemaphoreAt};
use std::cell::Cell;

/// One unit is there, two more are added by two processes; three want one each.
fn pairs(world: &World, barging: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 1, 1, barging);
    s.upper(&stage, world, "one", 1);
    s.upper(&stage, world, "other", 1);
    for (name, served) in [("a", "a served"), ("b", "b served"), ("c", "c served")] {
        s.customer(&stage, world, name, served);
    }
    enough(world, &[s]);
    last(world, stage, &[s]);
}

fn strong_pairs(world: &World) {
    pairs(world, false);
}

fn barging_pairs(world: &World) {
    pairs(world, true);
}

const SERVED: [&str; 4] = ["raised", "a served", "b served", "c served"];

#[test]
fn up_and_down_survive_kills() {
    searched("units", strong_pairs, &SERVED);
}

#[test]
fn barging_up_and_down_survive_kills() {
    searched("barging", barging_pairs, &SERVED);
}

/// Two units are added at once, for two waiters.
fn lot(world: &World, barging: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 2, barging);
    s.upper(&stage, world, "upper", 1);
    for (name, served) in [("a", "a served"), ("b", "b served")] {
        // Waiters that may be overtaken live on: their ends do not tell each other.
        if barging {
            s.lasting_customer(&stage, world, name, served);
        } else {
            s.customer(&stage, world, name, served);
        }
    }
    enough(world, &[s]);
    last(world, stage, &[s]);
}

fn strong_lot(world: &World) {
    lot(world, false);
}

fn barging_lot(world: &World) {
    lot(world, true);
}

#[test]
fn up_many_survives_kills() {
    searched("lot", strong_lot, &["raised", "a served", "b served"]);
    searched("barging_lot", barging_lot, &["raised", "a served", "b served"]);
}

/// A unit goes to a waiter that dies with it; its recoverer dies as well, at each step of that; the next finds it.
fn half_way(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("customer");
    let me = s.downer(&stage, p, "customer");
    let served = world.share(Cell::new(false));
    stage.lasting(p, move || {
        s.down(&me, None).expect("a unit");
        served.set(true);
        reached("served");
    });
    s.upper(&stage, world, "upper", 1).immortal();
    let r = world.prepare("recoverer");
    stage.member(r, "recoverer");
    stage.lasting(r, move || {
        while p.fate() == Fate::Alive && !served.get() {
            chappe_plat::atomic::pause();
        }
        stage.map.recover_dead();
        reached("recovered");
    });
    last(world, stage, &[s]);
}

#[test]
fn bringing_a_unit_back_survives_kills() {
    Search::sweep("half_way").kills(2).run(half_way).assert_clean().assert_reached(&["served", "recovered"]);
}

/// The time may be up at any moment, also while the unit is on its way; then the next gets it.
fn time_out(world: &World, barging: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, barging);
    s.sure_upper(&stage, world, "upper", 2);
    let p = world.prepare("hasty");
    let me = s.downer(&stage, p, "hasty");
    stage.reaper(stage.lasting(p, move || {
        let soon = || Some(chappe_plat::clock::now() + 1000);
        for _ in 0..2 {
            match s.down(&me, soon()) {
                Ok(()) => {
                    reached("in time");
                    s.up();
                }
                Err(Refusal::TimedOut) => reached("too late"),
                Err(e) => panic!("{e:?}"),
            }
        }
    }));
    p.on_death(move || more(&s.books.perhaps_up));
    // The units that it took along if it died.
    s.sure_upper(&stage, world, "another upper", 1);
    s.customer(&stage, world, "patient", "patient served");
    s.customer(&stage, world, "other", "other served");
    last(world, stage, &[s]);
}

fn strong_time_out(world: &World) {
    time_out(world, false);
}

fn barging_time_out(world: &World) {
    time_out(world, true);
}

const TIMED: [&str; 5] = ["raised", "in time", "too late", "patient served", "other served"];

#[test]
fn a_time_out_survives_kills() {
    searched("sem_time_out", strong_time_out, &TIMED);
}

#[test]
fn a_barging_time_out_survives_kills() {
    searched("barging_time_out", barging_time_out, &TIMED);
}

/// A choice of two semaphores (one of them twice) and a pool, each of which a process makes ready; others want the
/// same.
fn choice(world: &World) {
    let (stage, pools) = Stage::new(world, 10, &[1], 2);
    let pool = pools[0];
    let a = Counted::new(world, &stage, "left", 0, 1, false);
    let b = Counted::new(world, &stage, "right", 0, 1, false);
    a.upper(&stage, world, "raiser of left", 1);
    b.upper(&stage, world, "raiser of right", 1);
    stage.giver(world, "holder", &pools);
    let c = world.prepare("chooser");
    let me = b.downer(&stage, c, "chooser");
    let (map, books, member) = (stage.map, a.books, me.member());
    c.on_death(move || {
        let word = &map.member(member).state;
        if model::state_in_words(word.load(chappe_plat::atomic::Ordering::SeqCst)).starts_with("idle") {
            more(&books.perhaps_down);
        }
    });
    let (left, right) = (AnyAt::Semaphore(a.semaphore), AnyAt::Semaphore(b.semaphore));
    stage.reaper(stage.lasting(c, move || {
        let arms = [left, right, left, AnyAt::Pool(pool)];
        for _ in 0..2 {
            match me.choose(&arms, None).expect("one of them") {
                (0 | 2, None) => {
                    more(&a.books.downs);
                    reached("chose left");
                }
                (1, None) => {
                    more(&b.books.downs);
                    reached("chose right");
                }
                (3, Some(held)) => {
                    reached("chose the pool");
                    assert!(me.release(held));
                }
                other => panic!("arm {}", other.0),
            }
        }
    }));
    a.customer(&stage, world, "single", "single served");
    stage.customer(world, "pool's customer", "pool's customer served", &pools);
    // Three ready things for three: left may have gone to the chooser twice, or right stays.
    world.may_wait(move || a.semaphore.units() == 0);
    world.prepare("last").last().run(move || {
        a.settled(&stage);
        b.settled(&stage);
        stage.settled(&pools);
    });
}

#[test]
fn a_choice_of_semaphores_and_a_pool_survives_kills() {
    searched("sem_choice", choice, &["chose left", "chose right", "chose the pool", "single served"]);
}

/// A private semaphore and a named one in one choice; the private one is raised by a sibling.
fn mixed(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let named = Counted::new(world, &stage, "named", 0, 1, false);
    let c = world.prepare("chooser");
    let me = named.downer(&stage, c, "chooser");
    let small = chappe_arena::layout::Geometry { members: 4, objects: 1, cells: 1, blocks: 1 };
    let (me, own) = c.before(|| {
        let private = model::private(small).expect("memory");
        let own = SemaphoreAt::make(private, "own", 0, false).expect("a semaphore");
        (me.join_private(private).expect("a slot"), own)
    });
    c.thread("sibling", move || {
        assert!(own.up(1));
    });
    stage.reaper(stage.lasting(c, move || {
        let arms = [AnyAt::Semaphore(own), AnyAt::Semaphore(named.semaphore)];
        for _ in 0..2 {
            match me.choose(&arms, None).expect("one of them").0 {
                0 => reached("its own"),
                _ => {
                    more(&named.books.downs);
                    reached("the named");
                }
            }
        }
        assert_eq!(own.units(), 0);
    }));
    named.upper(&stage, world, "upper", 1);
    enough(world, &[named]);
    last(world, stage, &[named]);
}

#[test]
fn a_mixed_choice_survives_kills() {
    searched("sem_mixed", mixed, &["its own", "the named"]);
}

/// A waiter waits for one semaphore, then for the other, then for both, while units of its earlier waits are on their
/// way.
fn wander(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let a = Counted::new(world, &stage, "left", 0, 1, false);
    let b = Counted::new(world, &stage, "right", 0, 1, false);
    a.upper(&stage, world, "raiser of left", 4).immortal();
    b.upper(&stage, world, "raiser of right", 1).immortal();
    let w = world.prepare("wanderer");
    let me = b.downer(&stage, w, "wanderer");
    let (map, books, member) = (stage.map, a.books, me.member());
    w.on_death(move || {
        let word = &map.member(member).state;
        if model::state_in_words(word.load(chappe_plat::atomic::Ordering::SeqCst)).starts_with("idle") {
            more(&books.perhaps_down);
        }
    });
    let arms = [AnyAt::Semaphore(a.semaphore), AnyAt::Semaphore(b.semaphore)];
    stage.reaper(stage.lasting(w, move || {
        let soon = || Some(chappe_plat::clock::now() + 1000);
        for (which, offset) in [(&arms[..1], 0), (&arms[1..], 1), (&arms[..], 0), (&arms[..1], 0)] {
            match me.choose(which, soon()) {
                Ok((at, None)) => {
                    more(if at + offset == 0 { &a.books.downs } else { &b.books.downs });
                    reached("served on the way");
                }
                Err(Refusal::TimedOut) => reached("went on"),
                other => panic!("{:?}", other.map(|o| o.0)),
            }
        }
    }));
    a.customer(&stage, world, "patient", "patient served");
    last(world, stage, &[a, b]);
}

#[test]
fn wandering_survives_kills() {
    searched("sem_wander", wander, &["served on the way", "went on", "patient served"]);
}

/// The first of two waiters is served first, if it lives.
fn order(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    // The second has the first slot: the first comer is not the one with the first slot.
    let second = world.prepare("second");
    let its = s.downer(&stage, second, "second");
    let first = world.prepare("first");
    let me = s.downer(&stage, first, "first");
    let early = world.share(Cell::new(false));
    stage.reaper(stage.lasting(first, move || {
        s.down(&me, None).expect("a unit");
        early.set(true);
        reached("first served");
    }));
    stage.reaper(stage.lasting(second, move || {
        while s.semaphore.waiters().is_empty() && first.fate() == Fate::Alive && !early.get() {
            chappe_plat::atomic::pause();
        }
        s.down(&its, None).expect("a unit");
        let still = first.fate() == Fate::Alive;
        // What it was granted before it was served here it may not have seen yet.
        assert!(early.get() || !still || s.semaphore.waiters().is_empty(), "the second was served before the first");
        reached("second served");
    }));
    s.upper(&stage, world, "upper", 2);
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn hand_off_is_fifo() {
    searched("sem_order", order, &["first served", "second served"]);
}

/// The semaphore is removed under its waiters by a process that it has woken, and its slot is used again, for any kind.
fn removal(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(0).slot.word, "word of s", model::units_in_words);
    let u = world.prepare("upper");
    let _ = stage.member(u, "upper");
    stage.lasting(u, move || {
        // Removed or not: it must not disturb what comes after.
        s.up(1);
        reached("raised");
    });
    for (name, kind) in [("a", 0), ("b", 1)] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.reaper(stage.lasting(p, move || match me.down(s, None) {
            Ok(()) => {
                reached("woken");
                s.remove();
                let made = match kind {
                    0 => PoolAt::make(stage.map, "again", 1).is_ok(),
                    _ => SemaphoreAt::make(stage.map, "again", 0, false).is_ok(),
                };
                if made {
                    reached("made anew");
                }
            }
            Err(Refusal::Dead(_)) => reached("told"),
            Err(e) => panic!("{e:?}"),
        }));
    }
    world.may_wait(move || u.fate() != Fate::Alive || s.units() == 0);
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        let me = Actor::join(stage.map, "last").expect("a slot for the last");
        if let Some(pool) = PoolAt::find(stage.map, "again") {
            let held = me.try_acquire(pool).expect("a fresh pool has its permit");
            assert_eq!(me.try_acquire(pool).map(|_| ()), Err(Refusal::NoneFree));
            assert!(me.release(held));
        } else if let Some(place) = stage.map.find("again") {
            let fresh = SemaphoreAt { map: stage.map, place };
            assert_eq!((fresh.value(), fresh.units()), (0, 0), "a fresh semaphore has what it was made with");
        }
        me.leave();
    });
}

#[test]
fn post_then_destroy_survives_kills() {
    searched("sem_removal", removal, &["raised", "woken", "told", "made anew"]);
    stopped("sem_removal", removal);
}

/// The process that adds the unit removes the semaphore: the waiter that was granted the unit has it, though not yet
/// awake.
fn granted(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let given: std::rc::Rc<Cell<bool>> = std::rc::Rc::default();
    let u = world.prepare("upper");
    let _ = stage.member(u, "upper");
    let has_given = given.clone();
    stage.lasting(u, move || {
        s.up(1);
        // No other takes any.
        has_given.set(s.value() == 0);
        s.remove();
    });
    let p = world.prepare("waiter");
    let me = stage.member(p, "waiter");
    stage.lasting(p, move || match me.down(s, None) {
        Ok(()) => reached("served"),
        Err(e) => {
            assert_eq!((e, given.get()), (Refusal::Dead(0), false), "it was granted one");
            reached("told");
        }
    });
    world.may_wait(move || u.fate() != Fate::Alive);
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
    });
}

#[test]
fn a_granted_unit_survives_removal() {
    searched("sem_granted", granted, &["served", "told"]);
    stopped("sem_granted", granted);
}

#[test]
fn stops_that_are_resumed_lose_nothing() {
    stopped("units", strong_pairs);
    stopped("barging", barging_pairs);
    stopped("sem_time_out", strong_time_out);
    stopped("sem_choice", choice);
    stopped("sem_wander", wander);
}

/// A waiter gives up and waits again at once, while two raise and another waits: what was on its way to the earlier
/// wait.
fn again(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "one", 1);
    s.upper(&stage, world, "other", 1);
    let p = world.prepare("hasty");
    let me = s.downer(&stage, p, "hasty");
    stage.lasting(p, move || {
        if s.down(&me, Some(chappe_plat::clock::now() + 1000)).is_err() {
            reached("again");
            let _ = s.down(&me, Some(chappe_plat::clock::now() + 1000));
        }
    });
    let q = world.prepare("patient");
    let me = s.downer(&stage, q, "patient");
    stage.lasting(q, move || {
        let _ = s.down(&me, Some(chappe_plat::clock::now() + 5000));
    });
    last(world, stage, &[s]);
}

/// The same with the fewest processes: one raises, one gives up and waits again, behind one that came meanwhile.
fn again_behind(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("hasty");
    let me = s.downer(&stage, p, "hasty");
    stage.lasting(p, move || {
        if s.down(&me, Some(chappe_plat::clock::now() + 1000)).is_err() {
            reached("again");
            let _ = s.down(&me, None);
        }
    });
    let q = world.prepare("patient");
    let me = s.downer(&stage, q, "patient");
    stage.lasting(q, move || {
        while !s.semaphore.is_awaited() {
            chappe_plat::atomic::pause();
        }
        let _ = s.down(&me, None);
    });
    let u = world.prepare("upper");
    stage.member(u, "upper");
    stage.lasting(u, move || {
        while s.semaphore.waiters().len() < 2 {
            chappe_plat::atomic::pause();
        }
        s.up();
    });
    world.invariant(move || assert!(s.books.added.get() <= 1, "a unit is there twice"));
    world.may_wait(move || s.semaphore.units() == 0);
}

#[test]
fn waiting_again_at_once_gets_no_unit_twice() {
    Search::priorities("sem_again_behind", 6)
        .schedules(200_000)
        .run(again_behind)
        .assert_clean()
        .assert_reached(&["again"]);
    for changes in [5, 7] {
        Search::priorities(&format!("sem_again_{changes}"), changes).schedules(50_000).run(again).assert_clean();
    }
}

/// A waiter gives up and ends, and leaves WAITERS behind; the process that clears it meets one that has just begun to
/// wait.
fn late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("hasty");
    let me = s.downer(&stage, p, "hasty");
    p.run(move || {
        // It may have been given one before it gave up: then that unit is the other's.
        if s.down(&me, Some(chappe_plat::clock::now() + 1000)).is_ok() {
            s.up();
        }
    });
    s.lasting_customer(&stage, world, "patient", "patient served");
    s.upper(&stage, world, "upper", 1);
    last(world, stage, &[s]);
}

/// The same with the fewest processes: a waiter has given up and left WAITERS behind; a recoverer, of a member that
/// never waited, clears it.
fn late_recoverer(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("dead");
    let hasty = stage.member(p, "hasty");
    p.before(|| {
        let in_line = hasty.get_in_line(s.semaphore);
        hasty.leave_the_line(s.semaphore, in_line);
    });
    p.run(|| ());
    let map = stage.map;
    let p = world.prepare("recoverer").immortal();
    stage.member(p, "recoverer");
    stage.lasting(p, move || {
        while map.recover_dead() == 0 {
            chappe_plat::atomic::pause();
        }
    });
    let p = world.prepare("patient").immortal();
    let me = s.downer(&stage, p, "patient");
    stage.lasting(p, move || {
        s.down(&me, None).expect("a unit");
        reached("patient served");
    });
    s.upper(&stage, world, "upper", 1);
    last(world, stage, &[s]);
}

#[test]
fn a_wait_that_begins_while_another_ends_is_not_missed() {
    Search::depth("sem_late_recoverer", 2)
        .schedules(30_000)
        .run(late_recoverer)
        .assert_clean()
        .assert_reached(&["patient served"]);
    for changes in [4, 6] {
        let name = format!("sem_late_{changes}");
        Search::priorities(&name, changes)
            .schedules(60_000)
            .run(late)
            .assert_clean()
            .assert_reached(&["patient served"]);
    }
}

/// A unit on its way from a process that dies to a waiter that gives up: it is there, and a mere try gets it.
fn under_way(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let o = stage.map.object(s.place.index);
    world.name_with(&o.slot.word, "word of s", model::units_in_words);
    let gone = world.share(Cell::new(false));
    let h = world.prepare("hasty").immortal();
    let me = stage.member(h, "hasty");
    stage.lasting(h, move || {
        gone.set(me.down(s, Some(chappe_plat::clock::now() + 1000)) == Err(Refusal::TimedOut));
    });
    let u = world.prepare("upper");
    stage.member(u, "upper");
    stage.lasting(u, move || assert!(s.up(1)));
    let t = world.prepare("poller");
    let poller = stage.member(t, "poller");
    t.last().run(move || {
        if gone.get() && s.units() == 1 && !stage.map.anybody_waits(s.place.index) {
            reached("a unit is there, nobody waits");
            assert_eq!(poller.try_down(s), Ok(()), "it says that none is there");
        }
    });
    world.may_wait(|| true);
}

#[test]
fn a_unit_on_its_way_to_nobody_is_there() {
    for changes in [2, 3] {
        Search::priorities(&format!("sem_under_way_{changes}"), changes)
            .kills(1)
            .schedules(20_000)
            .run(under_way)
            .assert_clean()
            .assert_reached(&["a unit is there, nobody waits"]);
    }
}

/// The swap that adds a unit sends it to a waiter that gives up meanwhile: it goes on to the waiter that came next. No
/// other process does anything that would make up for it.
fn refused(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let h = world.prepare("hasty").immortal();
    let me = s.downer(&stage, h, "hasty");
    stage.lasting(h, move || match s.down(&me, Some(chappe_plat::clock::now() + 1000)) {
        Ok(()) => s.up(),
        Err(e) => {
            assert_eq!(e, Refusal::TimedOut);
            reached("too late");
        }
    });
    s.lasting_customer(&stage, world, "patient", "patient served");
    s.upper(&stage, world, "upper", 1).immortal();
    last(world, stage, &[s]);
}

#[test]
fn a_unit_sent_to_who_gives_up_goes_on() {
    let reached = ["too late", "patient served"];
    Search::depth("sem_refused", 2).schedules(30_000).run(refused).assert_clean().assert_reached(&reached);
    Search::priorities("sem_refused_3", 3)
        .kills(1)
        .schedules(10_000)
        .run(refused)
        .assert_clean()
        .assert_reached(&reached);
}

/// One process only looks whether there is a unit; another raises one, and a third takes it.
fn looked_at(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("onlooker");
    let me = stage.member(p, "onlooker");
    stage.lasting(p, move || {
        if me.wait_for_one(s.semaphore, Some(chappe_plat::clock::now() + 5000)) {
            reached("seen");
        }
    });
    s.upper(&stage, world, "upper", 1).immortal();
    let p = world.prepare("patient").immortal();
    let me = s.downer(&stage, p, "patient");
    stage.reaper(stage.lasting(p, move || {
        s.down(&me, None).expect("a unit");
        reached("patient served");
    }));
    world.check(move || assert_eq!(s.semaphore.units() + s.books.downs.get(), 1, "who only looked took it along"));
}

#[test]
fn a_look_consumes_no_unit() {
    let reached = ["seen", "patient served"];
    Search::depth("sem_looked_at", 1).kills(1).schedules(30_000).run(looked_at).assert_clean().assert_reached(&reached);
    Search::priorities("sem_looked_at_3", 3).kills(1).schedules(20_000).run(looked_at).assert_clean();
}
