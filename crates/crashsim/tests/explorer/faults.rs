//! Double faults, numbers that are used again, workers, and what a search says of the places it came to.

use chappe_crashsim::atomic::{AtomicU32, Ordering::SeqCst, pause};
use chappe_crashsim::{Fate, Process, Report, Search, World, process, reached, recovering};

/// A holder of two words; a process that finds it dead gives both back, in two steps.
fn house(finishes: bool) -> impl Fn(&World) {
    move |world| {
        let held = world.share([const { AtomicU32::new(1) }; 2]);
        let holder = world.process("holder", || {
            (0..3).for_each(|_| pause());
            process::linger();
        });
        world.may_wait(move || holder.fate() == Fate::Alive);
        for name in ["first", "second", "third"] {
            let p = world.process(name, move || {
                let gone = process::watch_exit(holder.pid()).expect("it is there");
                process::poll_readable(&[&gone], -1);
                recovering(|| {
                    // One that trusts the first word alone does not see what a recoverer left behind.
                    if held[0].swap(0, SeqCst) == 1 || finishes {
                        held[1].store(0, SeqCst);
                    }
                });
            });
            if name == "third" {
                p.immortal();
            }
        }
        world.check(move || {
            assert!(holder.fate() == Fate::Alive || held[1].peek() == 0, "half given back");
            reached("given back");
        });
    }
}

#[test]
fn a_recovery_that_cannot_be_finished_by_another_is_found_by_killing_the_recoverer() {
    Search::sweep("half").kills(1).run(house(false)).assert_clean();
    Search::sweep("half_twice").kills(2).of_recoverers().run(house(false)).assert_caught();
    Search::uniform("half_dice").kills(2).run(house(false)).assert_caught();
    let clean = Search::sweep("whole_twice").kills(2).of_recoverers().run(house(true));
    assert!(clean.assert_clean().complete());
    assert!(clean.counts().doubles > 0);
}

#[test]
fn the_recoverers_recoverer_is_killed_too() {
    let twice = Search::sweep("twice").kills(2).of_recoverers().run(house(true)).assert_clean().counts();
    let thrice = Search::sweep("thrice").kills(3).of_recoverers().run(house(true)).assert_clean().counts();
    assert!(thrice.doubles > twice.doubles, "{} and {}", twice.doubles, thrice.doubles);
}

#[test]
fn a_share_of_a_sweep_takes_other_first_kills_in_each_order() {
    let whole = Search::sweep("whole").kills(1).run(house(true));
    let share = Search::sweep("share").kills(1).share(5).run(house(true));
    let (whole, share) = (whole.assert_clean().counts().kills, share.assert_clean().counts().kills);
    assert!(share * 4 < whole && share * 7 > whole, "{share} of {whole}");
}

#[test]
fn a_number_is_used_again_when_nothing_is_left_of_the_dead() {
    let report = Search::depth("reused", 1).kills(1).run(|world| {
        let first = world.process("first", || (0..2).for_each(|_| pause()));
        let born = process::start_time(first.pid());
        let old = process::watch_exit(first.pid()).expect("it is there");
        world.successor("next", first).immortal().run(move || {
            assert_eq!(process::pid(), first.pid());
            assert_eq!(process::tid(), first.pid());
            assert_ne!(first.fate(), Fate::Alive);
            assert_eq!(process::name(first.pid()).as_deref(), Some("next"));
            assert_ne!(process::start_time(first.pid()), born, "when it started tells them apart");
            reached("used again");
        });
        world.process("watcher", move || {
            process::poll_readable(&[&old], -1);
            // What was opened for the dead process stays the dead one's, whichever process has the number.
            assert!(process::poll_readable(&[&old], 0)[0]);
        });
    });
    report.assert_clean().assert_reached(&["used again"]);
}

#[test]
fn a_successor_of_one_that_stays_never_begins_and_nobody_waits_for_it() {
    let report = Search::depth("stays", 0).run(|world| {
        let first = world.prepare("first");
        first.run(process::linger);
        world.successor("next", first).run(|| reached("began"));
    });
    assert!(report.assert_clean().outcomes().is_empty());
}

/// How far the first two of a chain come, where two processes are killed.
const KILLED: [&str; 9] = ["0 0", "0 1", "0 3", "1 0", "1 1", "1 3", "3 0", "3 1", "3 3"];
/// Where one is stopped.
const STOPPED: [&str; 5] = ["0 0", "1 0", "3 0", "3 1", "3 3"];

/// A chain: each begins once nothing of the one before is left. All but the last can be killed and stopped; one is idle.
fn chain(world: &World) {
    let stage = world.share([const { AtomicU32::new(0) }; 3]);
    let body = move |at: usize| {
        move || {
            stage[at].store(1, SeqCst);
            stage[at].store(2, SeqCst);
        }
    };
    let first = world.process("first", body(0));
    let next = world.successor("next", first).run(body(1));
    world.successor("idle", next).immortal();
    world.successor("last", next).immortal().run(body(2));
    world.invariant(move || {
        assert!(first.fate() != Fate::Alive || next.fate() == Fate::Alive, "one fell before it had begun");
        assert!(next.fate() != Fate::Alive || stage[2].peek() == 0, "the last began too early");
    });
    world.check(move || {
        let fell = |p: Process, at: usize| if p.fate() == Fate::Exited { 3 } else { stage[at].peek() };
        reached(format!("{} {}", fell(first, 0), fell(next, 1)));
        let stays = [first, next].iter().any(|p| p.fate() == Fate::Stopped);
        assert_eq!(stage[2].peek(), if stays { 0 } else { 2 });
    });
}

#[test]
fn a_process_is_killed_or_stopped_once_it_has_begun_and_not_before() {
    let kills = |search: Search| {
        search.kills(2).run(chain).assert_clean().assert_reached(&KILLED);
    };
    kills(Search::depth("chain", 1));
    kills(Search::sweep("chain_sweep"));
    kills(Search::uniform("chain_dice").schedules(20_000));
    let stops = |search: Search| {
        search.stops(1).run(chain).assert_clean().assert_reached(&STOPPED);
    };
    stops(Search::depth("chain_stops", 1));
    stops(Search::sweep("chain_stops_sweep"));
    stops(Search::uniform("chain_stops_dice").schedules(5_000));
}

fn counted(search: Search) -> Report {
    search.run(|world| {
        let sum = world.share(AtomicU32::new(0));
        for name in ["a", "b", "c"] {
            world.process(name, move || {
                let seen = sum.load(SeqCst);
                sum.store(seen + 1, SeqCst);
            });
        }
        world.check(move || reached(sum.peek().to_string()));
    })
}

#[test]
fn several_workers_come_to_what_one_comes_to() {
    let outcomes = |r: &Report| r.assert_clean().outcomes().keys().cloned().collect::<Vec<_>>();
    let depth = |workers| counted(Search::depth("depth", 3).kills(1).workers(workers));
    let sweep = |workers| counted(Search::sweep("sweep").kills(2).workers(workers));
    for run in [&depth as &dyn Fn(u32) -> Report, &sweep] {
        let (one, three) = (run(1), run(3));
        assert_eq!(outcomes(&one), outcomes(&three));
        assert!(one.complete() && three.complete());
    }
    // Each of the sweep's kills is one worker's alone; what all of them play is the order without a kill.
    assert_eq!(sweep(1).counts().kills, sweep(3).counts().kills);
    // Not a number: the gate plays a part of the schedules only.
    let dice = |workers| counted(Search::uniform("dice").schedules(3_000).workers(workers)).assert_clean().schedules();
    assert!(dice(1) > 0);
    assert_eq!(dice(1), dice(3));
}

#[test]
fn one_of_several_workers_that_finds_a_mistake_is_enough() {
    for workers in [1, 4] {
        Search::sweep("found").kills(2).of_recoverers().workers(workers).run(house(false)).assert_caught();
    }
}

#[test]
fn a_search_says_where_it_has_killed_and_where_it_has_not() {
    let report = Search::sweep("sites").kills(2).of_recoverers().run(house(true));
    let here = report.assert_clean().coverage().iter().filter(|((file, ..), _)| file.ends_with("explorer/faults.rs"));
    let all: Vec<_> = here.map(|(_, hits)| *hits).collect();
    assert!(all.iter().any(|h| h.doubles > 0 && h.doubles < h.kills), "a swap or a store of a recoverer: {all:?}");
    assert_eq!(all.iter().map(|h| h.doubles).sum::<u64>(), report.counts().doubles);
    let none = counted(Search::depth("no_kills", 0));
    assert!(none.coverage().len() >= 2 && none.coverage().values().all(|h| h.kills == 0));
}
