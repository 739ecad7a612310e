//! Doorbells, explored: a waiter waits as a light thread or a task does, and sleeps where its proc, or the driver of tasks, does: at the bell of
//! another attachment of its process.
//! Kills and stops of the granter at every operation, between the grant and the bell, and between the bell and the wake.

use crate::counted::{Counted, enough, last, more};
use crate::crash::{Stage, searched, stopped};
use chappe_crashsim::{Search, World, reached};
use chappe_sync::model::{Dropped, Refusal, TaskEnd};

/// Waits for one unit at a bell, and lives on: its death would make up for what is forgotten.
fn guest(s: &Counted, stage: &Stage, world: &World, name: &'static str, served: &'static str) {
    let p = world.prepare(name);
    let bell = stage.member(p, "bell");
    let me = s.downer(stage, p, name).at_bell_of(&bell);
    let all = *s;
    stage.reaper(stage.lasting(p, move || {
        all.down(&me, None).expect("a unit");
        reached(served);
    }));
}

/// One waiter sleeps at a bell, another on its own word; one process raises units for both.
fn both_kinds(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "upper", 2);
    guest(&s, &stage, world, "guest", "guest served");
    s.lasting_customer(&stage, world, "customer", "customer served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn a_grant_reaches_who_sleeps_at_a_bell() {
    searched("bell", both_kinds, &["raised", "guest served", "customer served"]);
}

/// One process raises one unit, and no other could make up for what it forgets; there are wakes that are for nobody.
fn alone(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "upper", 1).immortal();
    let p = world.prepare("guest");
    let bell = stage.member(p, "bell");
    let me = s.downer(&stage, p, "guest").at_bell_of(&bell);
    stage.lasting(p.immortal(), move || {
        s.down(&me, None).expect("a unit");
        reached("served");
    });
    last(world, stage, &[s]);
}

#[test]
fn a_single_grant_is_not_lost() {
    for search in [
        Search::depth("bell_alone_depth", 3).spurious(1).schedules(20_000),
        Search::priorities("bell_alone_pct", 4).spurious(1).schedules(20_000),
        Search::uniform("bell_alone_dice").spurious(2).schedules(20_000),
    ] {
        search.run(alone).assert_clean().assert_reached(&["raised", "served"]);
    }
}

/// Two processes raise one unit each, for two waiters at bells of their own.
fn two_bells(world: &World) {
    let (stage, _) = Stage::new(world, 10, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "one", 1);
    s.upper(&stage, world, "other", 1);
    guest(&s, &stage, world, "a", "a served");
    guest(&s, &stage, world, "b", "b served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn two_bells_survive_stops() {
    stopped("two_bells", two_bells);
}

/// The time of a waiter that sleeps at a bell may be up at any moment.
fn time_out(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "upper", 1);
    let p = world.prepare("hasty");
    let bell = stage.member(p, "bell");
    let me = s.downer(&stage, p, "hasty").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let deadline = chappe_plat::clock::now() + 1000;
        match s.down(&me, Some(deadline)) {
            Ok(()) => {
                reached(if chappe_plat::clock::now() < deadline { "in time" } else { "granted late" });
                s.up();
            }
            Err(Refusal::TimedOut) => reached("too late"),
            Err(e) => panic!("{e:?}"),
        }
    }));
    p.on_death(move || more(&s.books.perhaps_up));
    s.lasting_customer(&stage, world, "patient", "patient served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn time_outs_at_a_bell_survive_kills() {
    let all = ["in time", "granted late", "too late", "patient served"];
    Search::priorities("bell_time_out_pct", 4)
        .kills(1)
        .schedules(10_000)
        .run(time_out)
        .assert_clean()
        .assert_reached(&all);
    for search in
        [Search::sweep("bell_time_out_sweep").kills(1), Search::uniform("bell_time_out_dice").kills(1).schedules(5_000)]
    {
        search.run(time_out).assert_clean().assert_reached(&["patient served"]);
    }
}

/// A task and a thread wait for the units of one process.
fn task_and_thread(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    s.upper(&stage, world, "upper", 2);
    let p = world.prepare("task");
    let bell = stage.member(p, "bell");
    let me = s.downer(&stage, p, "task").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let TaskEnd::Over(Ok(())) = me.down_as_task(s.semaphore, Dropped::Never) else { panic!("no unit") };
        more(&s.books.downs);
        reached("task served");
    }));
    s.lasting_customer(&stage, world, "customer", "customer served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn a_grant_reaches_a_task() {
    searched("task", task_and_thread, &["raised", "task served", "customer served"]);
}

/// A task may be dropped at any moment, also when it was granted a unit: then the next waiter has it.
fn dropped(world: &World, barging: bool, at_once: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, barging);
    let p = world.prepare("hasty");
    let bell = stage.member(p, "bell");
    let me = s.downer(&stage, p, "hasty").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let when = if at_once { Dropped::AfterPoll } else { Dropped::At(chappe_plat::clock::now() + 1000) };
        match me.down_as_task(s.semaphore, when) {
            TaskEnd::Over(over) => {
                over.expect("a unit");
                more(&s.books.downs);
                reached("in time");
                s.up();
            }
            TaskEnd::Dropped => reached("dropped"),
            TaskEnd::GaveBack => reached("gave back"),
        }
    }));
    p.on_death(move || more(&s.books.perhaps_up));
    // Behind the task: of the schedules with few switches, in some the grant comes between its poll and its drop.
    s.upper(&stage, world, "upper", 1);
    s.lasting_customer(&stage, world, "patient", "patient served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn a_dropped_tasks_grant_is_not_lost() {
    for (name, barging) in [("task_dropped", false), ("task_dropped_barging", true)] {
        for (name, at_once) in [(format!("{name}_at_once"), true), (format!("{name}_late"), false)] {
            let world = move |world: &World| dropped(world, barging, at_once);
            // A death would excuse a unit that is lost: none here. And by priorities, since a grant has more steps than there are between
            // the poll and the drop: by dice, where all threads go at one pace, none comes in between in 5,000 schedules; depth first, none
            // in the first 10,000.
            let search = Search::priorities(&format!("{name}_pct"), 4).schedules(5_000);
            search.run(world).assert_clean().assert_reached(&["in time", "dropped", "gave back", "patient served"]);
            for search in [
                Search::sweep(&format!("{name}_sweep")).kills(1),
                Search::priorities(&format!("{name}_kill_pct"), 4).kills(1).schedules(5_000),
                Search::uniform(&format!("{name}_dice")).kills(1).schedules(3_000),
            ] {
                search.run(world).assert_clean();
            }
        }
    }
}

/// A task chooses among the units of two processes, and may be dropped at any moment: whatever it was granted, and no more, is its own or the next one's.
fn chooses(world: &World, when: Option<Dropped>) {
    let (stage, _) = Stage::new(world, 10, &[], 2);
    let both = [Counted::new(world, &stage, "a", 0, 1, false), Counted::new(world, &stage, "b", 0, 1, false)];
    let p = world.prepare("task");
    let bell = stage.member(p, "bell");
    let me = both[0].downer(&stage, p, "task").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let dropped = when.unwrap_or(Dropped::At(chappe_plat::clock::now() + 1000));
        match me.down_any_as_task(&both.map(|s| s.semaphore), dropped) {
            (TaskEnd::Over(over), at) => {
                over.expect("a unit");
                let at = at.expect("of one of the two");
                more(&both[at].books.downs);
                reached(["took a", "took b"][at]);
                both[at].up();
            }
            (TaskEnd::Dropped, _) => reached("dropped"),
            (TaskEnd::GaveBack, _) => reached("gave back"),
        }
    }));
    p.on_death(move || {
        both.iter().for_each(|s| more(&s.books.perhaps_up));
        more(&both[1].books.perhaps_down);
    });
    // Two of each: the task may die with one.
    both[0].sure_upper(&stage, world, "upper a", 2);
    both[1].sure_upper(&stage, world, "upper b", 2);
    both[0].lasting_customer(&stage, world, "patient a", "patient a served");
    both[1].lasting_customer(&stage, world, "patient b", "patient b served");
    last(world, stage, &both);
}

#[test]
fn a_tasks_choice_takes_one_unit_and_loses_none() {
    // The first that gives a unit back is among the first 360; the gate takes 15 in a hundred.
    for (name, many, when, how) in [
        ("task_choice", 800, Some(Dropped::Never), &["took a", "took b"][..]),
        ("task_choice_dropped", 4_000, None, &["took a", "took b", "dropped", "gave back"]),
    ] {
        let world = move |world: &World| chooses(world, when);
        let search = Search::priorities(&format!("{name}_pct"), 4).schedules(many);
        search.run(world).assert_clean().assert_reached(&[how, &["patient a served", "patient b served"]].concat());
        for search in [
            Search::priorities(&format!("{name}_kill_pct"), 4).kills(1).schedules(400),
            Search::uniform(&format!("{name}_dice")).kills(1).schedules(200),
        ] {
            search.run(world).assert_clean();
        }
    }
}
