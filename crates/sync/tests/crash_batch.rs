//! Batches, explored: the waiters of an object, kept in the order of arrival. Kill (in a private arena: a thread that ends by itself) and stop
//! at every operation of the arriving waiters, of the drainers that give and build, and of their reapers. What must hold: of the waiters in line
//! before an `up` none is served while an earlier one that lives still waits; each waiter that is left is served all the same; and all units
//! are accounted for. In a named arena each process has batches of its own.

use crate::counted::Counted;
use crate::crash::{Stage, searched_in, stopped_in};
use chappe_arena::Map;
use chappe_crashsim::{Fate, Process, Search, World, process, reached};
use chappe_plat::atomic::{Ordering, pause};
use chappe_sync::model::SemaphoreAt;
use std::collections::BTreeSet;

/// For each search.
const SCHEDULES: u64 = 2_000;

/// Adds a unit; of those in line before, the first that lives is served first.
fn up_in_order(s: &Counted, who: &[(u32, Process)]) {
    // Relaxed: for an observer.
    let wait = |m: u32| (s.semaphore.map.member(m).ticket.load(Ordering::Relaxed), m);
    // A waiter may go on to its next wait in the middle of a look. What two looks have in common was in line between them.
    let waits = || {
        let look = || s.semaphore.waiters().into_iter().map(wait).collect::<BTreeSet<_>>();
        let mut last = look();
        loop {
            match std::mem::replace(&mut last, look()) {
                before if before == last => return last,
                _ => pause(),
            }
        }
    };
    let before = waits();
    s.up();
    let still = waits();
    let lives = |(_, member): &&(u64, u32)| who.iter().any(|(m, p)| m == member && p.fate() == Fate::Alive);
    let mut rest = before.iter().filter(lives).map(|w| still.contains(w)).skip_while(|waits| !waits);
    assert!(rest.all(|waits| waits), "one of {before:?} was passed over: {still:?} still wait");
}

/// A named arena whose processes keep batches.
fn named(world: &World, members: u32, objects: u32) -> Stage {
    let (stage, _) = Stage::with_blocks(world, members, &[], objects, 1);
    stage.map.keep_batches();
    stage
}

fn three(world: &World) {
    three_on(world, Stage::private(world, 8, 1), 1);
}

/// The processes do not share a batch: two give, each with its own.
fn three_named(world: &World) {
    three_on(world, named(world, 10, 1), 2);
}

/// Three come, one of them twice, and each gets a unit; the units come one by one from so many processes, once two are in line.
fn three_on(world: &World, stage: Stage, uppers: usize) {
    let semaphore = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let s = Counted::of(world, semaphore, "s", 1);
    let who = ["a", "b", "c"].map(|name| {
        let process = world.prepare(name);
        let me = s.downer(&stage, process, name);
        let come = move || {
            // One comes twice: its first entry is not its second wait's.
            for _ in 0..if name == "a" { 2 } else { 1 } {
                s.down(&me, None).expect("a unit");
                reached(name);
            }
        };
        // In a named arena a process ends: the reapers of those that stay would go on looking.
        stage.reaper(if uppers > 1 { process.run(come) } else { stage.lasting(process, come) });
        (me.member(), process)
    });
    for name in ["upper", "other upper"].into_iter().take(uppers) {
        let p = world.prepare(name);
        let _ = stage.member(p, name);
        p.on_death(move || crate::counted::more(&s.books.perhaps_up));
        stage.lasting(p, move || {
            let alive = || who.iter().filter(|(_, p)| p.fate() == Fate::Alive).count();
            // Two that spin in turn would keep the others from coming: then each looks a few times only.
            let looks = if uppers > 1 { 20 } else { usize::MAX };
            let are_there = || s.semaphore.waiters().len() >= 2.min(alive());
            (0..looks).take_while(|_| !are_there()).for_each(|_| pause());
            for _ in 0..4 / uppers {
                up_in_order(&s, &who);
            }
            reached("raised");
        });
    }
    crate::counted::enough(world, &[s]);
    crate::counted::last(world, stage, &[s]);
    world.check(move || nobody_enlists(stage.map));
}

/// Of a member of which nothing is left no thread believes that it is just setting its bits: batches would end at its ticket.
fn nobody_enlists(map: &Map) {
    for i in 0..map.members_used() {
        // SeqCst, these: for an observer.
        let (ident, swept) = (map.member(i).ident.load(Ordering::SeqCst), map.member(i).swept.load(Ordering::SeqCst));
        let enlisting = map.enlisting(i).map_or(0, |word| word.load(Ordering::SeqCst)); // SeqCst: as above.
        assert!(
            enlisting == 0 || swept != (ident >> 32) as u32,
            "member {i} is gone, and enlists with ticket {enlisting}"
        );
    }
}

#[test]
fn batches_keep_the_order_of_arrival() {
    searched_in(SCHEDULES, "batch", three, &["raised", "a", "b", "c"]);
}

#[test]
fn each_process_keeps_the_order_of_arrival() {
    searched_in(SCHEDULES / 2, "batch_named", three_named, &["raised", "a", "b", "c"]);
}

#[test]
fn a_process_with_a_batch_may_be_stopped_or_killed() {
    stopped_in(SCHEDULES / 8, "batch_named", three_named);
}

#[test]
fn a_stopped_builder_holds_nobody_up() {
    stopped_in(SCHEDULES / 4, "batch", three);
}

/// Those in line, by their tickets.
fn in_order(s: SemaphoreAt, members: &[u32]) -> Vec<u32> {
    let mut all = members.to_vec();
    // Relaxed: for an observer.
    all.sort_by_key(|m| s.map.member(*m).ticket.load(Ordering::Relaxed));
    let waiters = s.waiters();
    all.retain(|m| waiters.contains(m));
    all
}

/// Four are in line, the last member first. Two processes give at once, so that one may find the batch that the other
/// builds. The batch was another object's before, which has used its first entry.
fn two_drainers(world: &World) {
    let stage = Stage::private(world, 12, 3);
    let [other, _, s] = [(); 3].map(|()| SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore"));
    let crowd = world.prepare("crowd");
    let others = ["x", "y", "z"].map(|name| stage.member(crowd, name));
    let members = ["a", "b", "c", "d"].map(|name| stage.member(crowd, name));
    crowd.before(|| {
        others.iter().for_each(|me| _ = me.get_in_line(other));
        (0..2).for_each(|_| assert!(other.up(1)));
        members.iter().rev().for_each(|me| _ = me.get_in_line(s));
    });
    crowd.run(process::linger);
    let order = members.map(|me| me.member());
    for name in ["one", "other"] {
        let p = world.prepare(name);
        stage.member(p, name);
        stage.lasting(p, move || {
            assert!(s.up(1));
            reached("raised");
        });
    }
    world.check(move || {
        let left = in_order(s, &order);
        let first: Vec<u32> = order.iter().rev().copied().skip(4 - left.len()).collect();
        assert_eq!(left, first, "those that wait on are not those that came last");
    });
    world.may_wait(|| true);
}

#[test]
fn a_batch_that_is_being_built_serves_nobody() {
    for search in [
        Search::depth("two_drainers_depth", 2).schedules(20_000),
        Search::uniform("two_drainers_dice").schedules(2_000),
    ] {
        search.run(two_drainers).assert_clean().assert_reached(&["raised"]);
    }
}

/// A waiter has its ticket, and gets in line once others have come, and have been kept in order. In a named arena another process keeps them.
fn late_comer(world: &World, stage: Stage) {
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    let p = world.prepare("late");
    let late = stage.member(p, "late");
    let member = late.member();
    stage.lasting(p, move || _ = late.get_in_line(s));
    let crowd = world.prepare("crowd");
    let members = ["a", "b", "c"].map(|name| stage.member(crowd, name));
    // SeqCst: the late one has taken its ticket.
    let tickets = move || s.map.header().ticket.load(Ordering::SeqCst);
    let before = tickets();
    stage.lasting(crowd, move || {
        while tickets() == before {
            pause();
        }
        members.iter().for_each(|me| _ = me.get_in_line(s));
        assert!(s.up(1));
        while !s.waiters().contains(&member) && members.iter().filter(|m| s.waiters().contains(&m.member())).count() < 3
        {
            pause();
        }
        if s.waiters().contains(&member) {
            reached("in line");
            assert!(s.up(1));
            assert!(!s.waiters().contains(&member), "the first was passed over");
        }
    });
    world.may_wait(|| true);
}

#[test]
fn a_waiter_with_an_early_ticket_is_not_passed_over() {
    let private = |world: &World| late_comer(world, Stage::private(world, 8, 1));
    Search::depth("late_comer", 2).schedules(100_000).run(private).assert_clean().assert_reached(&["in line"]);
    let shared = |world: &World| late_comer(world, named(world, 8, 1));
    Search::depth("late_comer_named", 2).schedules(100_000).run(shared).assert_clean().assert_reached(&["in line"]);
}
