//! Batches, explored: the waiters of an object of a private arena, kept in the order of arrival. Kill (a thread that ends by itself) and stop at
//! every operation of those that come, of whoever gives and builds, and of their reapers. What must hold: of those in line before an `up`
//! none is served while an earlier one that lives still waits; whoever is left is served all the same; and all units are accounted for.

mod counted;
mod crash;

use chappe_crashsim::{Fate, Process, World, reached};
use chappe_plat::atomic::{Ordering, pause};
use chappe_sync::model::SemaphoreAt;
use counted::Counted;
use crash::{Stage, searched_in, stopped_in};

/// Of each search.
const SCHEDULES: u64 = 2_000;

/// Adds a unit; of those in line before, the first that lives is served first.
fn up_in_order(s: &Counted, who: &[(u32, Process)]) {
    // Relaxed: between two steps of theirs.
    let wait = |m: u32| (m, s.semaphore.map.member(m).ticket.load(Ordering::Relaxed));
    let waits = || s.semaphore.waiters().into_iter().map(wait).collect::<Vec<_>>();
    let before = waits();
    s.up();
    let still = waits();
    let lives = |(member, _): &&(u32, u64)| who.iter().any(|(m, p)| m == member && p.fate() == Fate::Alive);
    let mut rest = before.iter().filter(lives).map(|w| still.contains(w)).skip_while(|waits| !waits);
    assert!(rest.all(|waits| waits), "one of {before:?} was passed over: {still:?} still wait");
}

/// Three come, one of them twice, and each gets a unit; the units come one by one, once two are in line.
fn three(world: &World) {
    let stage = Stage::private(world, 8, 1);
    let semaphore = SemaphoreAt::make(stage.map, "", 0, false).expect("a semaphore");
    let s = Counted::of(world, semaphore, "s", 1);
    let who = ["a", "b", "c"].map(|name| {
        let process = world.prepare(name);
        let me = s.downer(&stage, process, name);
        stage.reaper(stage.lasting(process, move || {
            // One comes twice: its first entry is not its second wait's.
            for _ in 0..if name == "a" { 2 } else { 1 } {
                s.down(&me, None).expect("a unit");
                reached(name);
            }
        }));
        (me.member(), process)
    });
    let p = world.prepare("upper");
    let _ = stage.member(p, "upper");
    p.on_death(move || counted::more(&s.books.perhaps_up));
    stage.lasting(p, move || {
        let alive = || who.iter().filter(|(_, p)| p.fate() == Fate::Alive).count();
        while s.semaphore.waiters().len() < 2.min(alive()) {
            pause();
        }
        for _ in 0..4 {
            up_in_order(&s, &who);
        }
        reached("raised");
    });
    counted::enough(world, &[s]);
    counted::last(world, stage, &[s]);
}

#[test]
fn batches_keep_the_order_of_arrival() {
    searched_in(SCHEDULES, "batch", three, &["raised", "a", "b", "c"]);
}

#[test]
fn a_stopped_builder_holds_nobody_up() {
    stopped_in(SCHEDULES / 4, "batch", three);
}
