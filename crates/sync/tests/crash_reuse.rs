//! Slots that are used again: whoever is late with what it meant for the last occupant does nothing to the next.

mod crash;

use chappe_crashsim::{Search, World, process, reached};
use chappe_plat::{clock, step};
use chappe_sync::model::{self, Actor, CondvarAt, MutexAt, SemaphoreAt};
use crash::Stage;
use std::cell::Cell;

/// One was granted a unit and is dead; a recoverer is late; another one has the member's slot by then, waits for the same
/// semaphore, and is granted a unit of its own.
fn recovered_late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(s.place.index).slot.word, "word of s", model::units_in_words);
    let (map, taken) = (stage.map, world.share(Cell::new(0u32)));
    let dead = world.prepare("dead");
    let dead_one = stage.member(dead, "dead");
    dead.before(|| {
        dead_one.get_in_line(s);
        assert!(s.up(1));
    });
    dead.run(|| ());
    let recoverer = world.prepare("recoverer").immortal();
    stage.member(recoverer, "recoverer");
    stage.lasting(recoverer, move || _ = map.recover_dead());
    world.prepare("next").immortal().run(move || {
        let next = Actor::join(map, "next").expect("a slot");
        if next.member() == dead_one.member() {
            reached("the same slot");
        }
        // What the dead one left, if anything, and one more.
        for _ in 0..2 {
            if next.down(s, Some(clock::now() + 1000)).is_ok() {
                taken.set(taken.get() + 1);
            }
        }
        process::linger();
    });
    let upper = world.prepare("upper").immortal();
    stage.member(upper, "upper");
    stage.lasting(upper, move || assert!(s.up(1)));
    world.invariant(move || {
        assert!(s.units() + taken.get() <= 2, "{} units and {} taken of two", s.units(), taken.get());
    });
    world.may_wait(|| true);
}

#[test]
fn a_late_recoverer_takes_nothing_of_the_next_occupant() {
    Search::depth("recovered_late", 2)
        .schedules(100_000)
        .run(recovered_late)
        .assert_clean()
        .assert_reached(&["the same slot"]);
}

/// One is late with its notification; a semaphore has the condition variable's slot by then, and a unit on its way to a waiter.
fn notified_late(world: &World, before: u32) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let map = stage.map;
    let gone = CondvarAt::make(map, "c").expect("a condition variable");
    gone.remove();
    (0..before).for_each(|_| SemaphoreAt::make(map, "s", 0, false).expect("a semaphore").remove());
    let s = SemaphoreAt::make(map, "s", 0, false).expect("a semaphore, in the only slot");
    world.name_with(&map.object(s.place.index).slot.word, "word of s", model::units_in_words);
    let taken = world.share(Cell::new(0u32));
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    stage.lasting(w, move || {
        if waiter.down(s, Some(clock::now() + 1000)).is_ok() {
            taken.set(1);
            reached("a unit");
        }
    });
    let u = world.prepare("upper").immortal();
    stage.member(u, "upper");
    stage.lasting(u, move || assert!(s.up(1)));
    let n = world.prepare("late").immortal();
    stage.member(n, "late");
    stage.lasting(n, move || _ = gone.notify_one());
    world.check(move || assert_eq!(s.units() + taken.get(), 1, "one unit was made"));
}

#[test]
fn a_late_notification_is_nothing_to_who_waits_for_something_else() {
    // The number of the unit on its way may look as if it was to be woken, or not.
    for before in 0..2 {
        let search = Search::priorities(&format!("notified_late_{before}"), 3).schedules(20_000);
        search.run(|world| notified_late(world, before)).assert_clean().assert_reached(&["a unit"]);
    }
}

/// One is late with its swap of a semaphore's word; a mutex, and then another semaphore, have the slot by then.
fn made_anew(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let a = SemaphoreAt::make(stage.map, "a", 0, false).expect("a semaphore");
    let gate = SemaphoreAt::make(stage.map, "gate", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(a.place.index).slot.word, "word", model::units_in_words);
    let map = stage.map;
    let t = world.prepare("taker");
    let me = stage.member(t, "taker");
    stage.lasting(t, move || {
        // A wait that comes to nothing moves the word on as far as small numbers reach.
        let _ = me.down(a, Some(clock::now() + 1));
        a.up(1);
        gate.up(1);
        let _ = me.try_down(a);
    });
    let m = world.prepare("maker");
    let maker = stage.member(m, "maker");
    stage.lasting(m, move || {
        maker.down(gate, None).expect("a unit");
        a.remove();
        let Ok(other) = MutexAt::make(map, "other") else { return };
        other.remove();
        let Ok(anew) = SemaphoreAt::make(map, "anew", 1, false) else { return };
        for _ in 0..3 {
            step!("later");
            assert_eq!(anew.value(), 1, "a fresh semaphore has what it was made with");
        }
        reached("made anew");
    });
    world.may_wait(|| true);
}

#[test]
fn a_late_swap_takes_nothing_of_the_next_object() {
    Search::priorities("reuse_object", 4)
        .schedules(20_000)
        .run(made_anew)
        .assert_clean()
        .assert_reached(&["made anew"]);
}
