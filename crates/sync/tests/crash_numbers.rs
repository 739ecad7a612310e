//! Numbers that wrap around: a process is delayed before its swap for so long that all the other numbers are again what it has seen.
//!
//! In the explorer a wait's number in a grant and in a reservation has one bit: it wraps with every second wait, in all suites. A semaphore's word does
//! not number the units at all. Here are the smallest worlds in which that did harm before there was something beside them that does not wrap: searched
//! whole.

use crate::crash::Stage;
use chappe_crashsim::{Search, World, process, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_plat::clock;
use chappe_sync::model::{self, Actor, SemaphoreAt};

fn searched_whole(name: &str, preemptions: u32, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let report = Search::depth(name, preemptions).schedules(2_000_000).whole().run(world);
    report.assert_clean().assert_reached(outcomes);
    assert!(report.complete(), "some order of events was left out");
}

/// A process sees that nobody waits, and is about to store that. Meanwhile another begins to wait, and the semaphore's
/// word is what it was.
fn nobody_waits(world: &World) {
    let (stage, _) = Stage::new(world, 4, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(s.place.index).slot.word, "semaphore", model::units_in_words);
    s.mark();
    world.prepare("drainer").immortal().run(move || s.drain());
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    w.run(move || {
        me.down(s, None).expect("a unit");
        reached("served");
    });
    let u = world.prepare("upper").immortal();
    stage.member(u, "upper");
    u.run(move || assert!(s.up(1)));
}

#[test]
fn a_late_clear_of_the_waiters_flag_hides_no_new_waiter() {
    searched_whole("nobody_waits", 1, nobody_waits, &["served"]);
}

/// A unit is sent to a waiter that has begun its first wait, and the sender is delayed before it grants it. The waiter
/// gives up, and waits again, and again.
fn late_grant(world: &World) {
    let (stage, _) = Stage::new(world, 4, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(s.place.index).slot.word, "semaphore", model::units_in_words);
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    world.name_with(&stage.map.member(me.member()).state, "wait word", model::state_in_words);
    let first = w.before(|| me.get_in_line(s));
    let u = world.prepare("upper").immortal();
    stage.member(u, "upper");
    u.run(move || assert!(s.up(1)));
    w.run(move || {
        me.leave_the_line(s, first);
        let got = (0..3).filter(|_| me.down(s, Some(clock::now())).is_ok()).count();
        assert!(got <= 1, "{got} units of one");
        reached(if got == 1 { "one" } else { "none" });
    });
}

#[test]
fn a_grant_to_one_wait_is_none_to_a_later_one() {
    searched_whole("late_grant", 2, late_grant, &["one", "none"]);
}

/// A recoverer of a member that died granted is delayed before it stores that its wait is over. The slot's next
/// occupant waits twice, and is granted the same.
fn late_recovery(world: &World) {
    let (stage, pools) = Stage::new(world, 2, &[1], 0);
    let (map, pool) = (stage.map, pools[0]);
    let d = world.prepare("dead").immortal();
    let dead = stage.member(d, "dead");
    assert_eq!(dead.member(), 0);
    map.member(0).ticket.store(map.header().ticket.fetch_add(1, SeqCst), SeqCst);
    map.member(0).state.store(model::granted_word(1, pool.place.index, 0), SeqCst);
    world.name_with(&map.member(0).state, "wait word", model::state_in_words);
    let h = world.prepare("holder").immortal();
    let holder = stage.member(h, "holder");
    let held = h.before(|| holder.try_acquire(pool).expect("it is free"));
    d.run(|| ());
    world.prepare("recoverer").immortal().run(move || _ = map.recover_dead());
    world.prepare("heir").immortal().run(move || {
        let Ok(me) = Actor::join(map, "heir") else { return reached("no slot") };
        if let Ok((_, held)) = me.acquire(&[pool], Some(clock::now())) {
            assert!(me.release(held));
        }
        let (_, held) = me.acquire(&[pool], None).expect("it waits for as long as need be");
        reached("served");
        assert!(me.release(held));
        process::linger();
    });
    h.run(move || {
        let waits_again = || {
            let word = map.member(0).state.load(SeqCst);
            map.dead(0).is_none() && model::state_in_words(word).starts_with("waiting")
        };
        if waits_again() {
            reached("while the heir waits");
        }
        assert!(holder.release(held));
        process::linger();
    });
}

#[test]
fn a_recoverer_ends_no_later_wait() {
    searched_whole("late_recovery", 1, late_recovery, &["served", "no slot", "while the heir waits"]);
}
