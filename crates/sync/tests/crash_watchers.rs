//! The watcher of an arena: one process's reaper watches for all, in threads of a group of members each, and the others stand by. It is killed at every
//! step, and so is the reaper that takes its place: no death stays unfound, and no backstop finds it.

use crate::crash::{Stage, doubles};
use chappe_arena::{Watch, watch};
use chappe_crashsim::{Fate, Search, World, process, reached};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU32, Ordering::SeqCst, pause};
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{self, Actor};

/// The bytes by which process members show that they are there: as the gates have it.
const PRESENCE: u64 = (1 << 56) + (1 << 17);

fn explored(name: &str, schedules: u64, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all = [
        Search::sweep(&format!("{name}_sweep")).kills(1),
        doubles(name, schedules),
        Search::depth(&format!("{name}_depth"), 2).kills(1).schedules(schedules),
        Search::priorities(&format!("{name}_pct"), 4).kills(2).schedules(schedules),
        Search::priorities(&format!("{name}_three"), 5).kills(3).schedules(schedules),
        Search::uniform(&format!("{name}_dice")).kills(3).schedules(schedules / 2),
    ]
    .map(|search| search.run(&world));
    for report in &all {
        report.assert_clean();
    }
    let missed: Vec<_> = outcomes.iter().filter(|o| !all.iter().any(|r| r.outcomes().contains_key(**o))).collect();
    assert!(missed.is_empty() || std::env::var_os("CRASHSIM_REPLAY").is_some(), "{name} never came to {missed:?}");
}

/// A holder ends with the permit; so many wait for it, whose reapers watch in groups of so many slots.
fn handed_over(world: &World, waiting: usize, group: u32) {
    let (stage, pools) = Stage::new(world, 14, &[1], 0);
    stage.map.in_groups_of(group);
    world.name(stage.map.header().watch.word(), "watch");
    world.name(&stage.map.header().baton, "baton");
    let (h, ..) = stage.holder(world, "holder", &pools);
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid));
    for name in ["first", "second", "third", "fourth"].into_iter().take(waiting) {
        stage.customer(world, name, name, &pools);
    }
    world.prepare("last").last().run(move || stage.settled(&pools));
}

#[test]
fn a_standby_takes_the_place_of_a_dead_watcher() {
    explored("watcher", 4_000, |world| handed_over(world, 3, 60), &["first", "second", "third"]);
}

#[test]
fn of_those_who_take_its_place_some_die_as_well() {
    for search in [
        Search::priorities("watcher_heirs", 5).kills(3).schedules(20_000),
        Search::depth("watcher_heirs_depth", 2).kills(2).schedules(20_000),
    ] {
        search.run(|world| handed_over(world, 4, 60)).assert_clean();
    }
}

#[test]
fn groups_are_handed_over_with_their_watcher() {
    explored("watcher_groups", 4_000, |world| handed_over(world, 3, 2), &["first", "second", "third"]);
}

/// The watcher is killed. Its threads die one after the other, the one that watches the holder's group last, perhaps:
/// it may take along the wake for the holder, which ends when the watcher's place is taken.
fn late_to_die(world: &World) {
    let (stage, pools) = Stage::new(world, 12, &[1], 0);
    let map = stage.map;
    map.in_groups_of(2);
    world.name(map.header().watch.word(), "watch");
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    stage.member(w, "another");
    let (h, ..) = stage.holder(world, "holder", &pools);
    let watcher = world.prepare("watcher");
    stage.reaper(watcher.run(process::linger));
    let (inside, pid) = (stage.inside, h.pid());
    // The slot of the new watcher's thread for the holder's group, while the old one's is in its own still.
    let taken = move || matches!(map.member(4).life.probe(), Life::Alive(_));
    h.run(move || {
        // Time passes where all processes only give way: not for long.
        for _ in 0..12 {
            if watcher.fate() != Fate::Killed || taken() {
                break;
            }
            pause();
        }
        inside.forget(pid);
    })
    .immortal();
    stage.reaper(stage.lasting(w, move || {
        let hold = stage.enter(&me, &pools, None).expect("a permit");
        reached("served");
        assert!(stage.leave(&me, hold));
    }));
}

#[test]
fn a_thread_that_watched_a_group_takes_no_wake_along() {
    for search in [
        Search::depth("watcher_late_depth", 2).kills(1).schedules(20_000),
        Search::priorities("watcher_late_pct", 4).kills(1).schedules(60_000),
    ] {
        search.run(late_to_die).assert_clean().assert_reached(&["served"]);
    }
}

/// The system refuses the thread that would watch the holder's group.
fn refused(world: &World) {
    let (stage, pools) = Stage::new(world, 10, &[1], 0);
    stage.map.in_groups_of(2);
    world.refuses_threads("chappe-watcher");
    let w = world.prepare("waiter").immortal();
    let me = stage.member(w, "waiter");
    stage.member(w, "another");
    let (h, ..) = stage.holder(world, "holder", &pools);
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid)).immortal();
    stage.reaper(stage.lasting(w, move || {
        let hold = stage.enter(&me, &pools, None).expect("a permit");
        reached("served");
        assert!(stage.leave(&me, hold));
    }));
}

#[test]
fn a_group_whose_thread_was_refused_is_watched_by_another() {
    for search in [
        Search::depth("watcher_refused_depth", 2).schedules(4_000),
        Search::priorities("watcher_refused_pct", 4).schedules(4_000),
    ] {
        search.run(refused).assert_clean().assert_reached(&["served"]);
    }
}

/// Two wait for the permit of a process that joins meanwhile, in a group that no reaper watches yet, and ends with it.
fn newcomer(world: &World) {
    let (stage, pools) = Stage::new(world, 10, &[1], 0);
    stage.map.in_groups_of(2);
    let pool = pools[0];
    for name in ["first", "second"] {
        stage.customer(world, name, name, &pools);
    }
    let p = world.prepare("newcomer");
    let (inside, pid) = (stage.inside, p.pid());
    p.on_death(move || inside.forget(pid));
    p.run(move || {
        let me = Actor::join(stage.map, "newcomer").expect("a slot");
        if stage.try_enter(&me, pool).is_ok() {
            reached("ended with it");
        }
        inside.forget(pid);
    });
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_member_that_joins_while_the_watcher_dies_is_watched() {
    explored("watcher_newcomer", 4_000, newcomer, &["first", "second", "ended with it"]);
}

/// A process of one PID namespace ends, and another keeps what shows that it is there. The watcher is in another
/// namespace; a reaper that stands by can tell.
fn kin(world: &World) {
    const HERE: u64 = 0x4000_000a;
    const THERE: u64 = 0x4000_000b;
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let (map, pool) = (stage.map, pools[0]);
    let watch_in = |p: chappe_crashsim::Process| {
        let w: &'static Watch = Box::leak(Box::default());
        p.daemon("reaper", move || watch(w, map))
    };
    let began = world.share(AtomicU32::new(0));
    let p = world.prepare("owner").in_namespace(HERE, 1).immortal();
    p.before(|| model::attach(&crate::crash::directory(), "default").expect("it is there"));
    p.daemon("process_member", move || {
        let me = Actor::join_for_process(map, "owner").expect("a slot");
        assert_eq!(me.member(), 1, "the slot whose byte the child has");
        _ = me.try_acquire(pool).expect("it is free");
        began.store(1, SeqCst);
        futex::wake(&began, u32::MAX, Scope::Shared);
        process::linger();
    });
    let begun = move || {
        while began.load(SeqCst) == 0 {
            futex::wait(&began, 0, None, Scope::Shared);
        }
    };
    // As a child that was made without the C library, and has the owner's descriptors.
    let child = world.prepare("child").in_namespace(HERE, 2).immortal();
    child.before(|| {
        let bytes = chappe_plat::dir::bytes_of(map.directory().expect("named"), map.name(), map.inode());
        let bytes = bytes.expect("a file").expect("a world of several namespaces");
        assert!(bytes.try_lock(PRESENCE + 1).expect("it is free"));
        #[allow(clippy::forget_non_drop, reason = "what ships has a descriptor there")]
        std::mem::forget(bytes);
    });
    child.run(process::linger);
    p.run(move || {
        begun();
        // It may end before the other thread has told every waiter.
        futex::wake(&began, u32::MAX, Scope::Shared);
    });
    let stranger = world.prepare("stranger").in_namespace(THERE, 1);
    watch_in(stranger);
    stranger.run(process::linger);
    let w = world.prepare("waiter").in_namespace(HERE, 3).immortal();
    let me = w.before(|| Actor::join(map, "waiter").expect("a slot"));
    watch_in(w);
    w.run(move || {
        begun();
        let (_, held) = me.acquire(&[pool], None).expect("a permit");
        assert!(me.release(held));
        reached("served");
        process::linger();
    });
}

#[test]
fn those_who_can_tell_judge_what_the_watcher_cannot() {
    for search in [
        Search::sweep("watcher_kin_sweep").kills(1),
        Search::depth("watcher_kin_depth", 2).kills(1).schedules(4_000),
        Search::uniform("watcher_kin_dice").kills(1).schedules(4_000),
    ] {
        search.run(kin).assert_clean().assert_reached(&["served"]);
    }
}

/// The watcher is stopped for ever. A process ends with the permit, and so does the next one that gets it.
fn stopped(world: &World) {
    // Of each word that it sleeps on the stopped one takes a wake along.
    world.backstops_at_most(8);
    let (stage, pools) = Stage::new(world, 10, &[1], 0);
    let (h, ..) = stage.holder(world, "holder", &pools);
    let (inside, pid) = (stage.inside, h.pid());
    h.run(move || inside.forget(pid)).immortal();
    let watcher = world.prepare("watcher");
    stage.reaper(watcher.run(process::linger));
    stage.customer(world, "first", "first", &pools).immortal();
    let p = world.prepare("second").immortal();
    let me = stage.member(p, "second");
    stage.reaper(stage.lasting(p, move || {
        let hold = stage.enter(&me, &pools, None).expect("a permit");
        if watcher.fate() == Fate::Stopped {
            reached("past a stopped one");
        }
        assert!(stage.leave(&me, hold));
    }));
}

#[test]
fn a_stopped_watcher_keeps_nobody_waiting_for_long() {
    for search in [
        Search::sweep("watcher_stop_sweep").stops(1),
        Search::priorities("watcher_stop_pct", 4).stops(1).schedules(4_000),
    ] {
        search.run(stopped).assert_clean().assert_reached(&["past a stopped one"]);
    }
}
