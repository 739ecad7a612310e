//! Pools, explored: kill and stop at every operation of acquire (free, blocked, choice), release, time-out, force and resize, with two to four
//! processes. What must hold: one holder a permit, no thread sleeps for ever, everything of the dead comes back, and no backstop is needed.

use crate::crash::{Stage, searched, stopped};
use chappe_crashsim::{Search, World, reached};
use chappe_sync::model::{Actor, PoolAt, Refusal};

/// One process takes a free permit and gives it back, and so does another; either may have to wait.
fn pair(world: &World) {
    let (stage, pools) = Stage::new(world, 6, &[1], 0);
    stage.customer(world, "left", "left done", &pools);
    stage.customer(world, "right", "right done", &pools);
    last(world, stage, &pools);
}

fn last(world: &World, stage: Stage, pools: &[PoolAt]) {
    let pools = pools.to_vec();
    world.prepare("last").last().run(move || stage.settled(&pools));
}

#[test]
fn acquire_and_release_survive_kills() {
    searched("pair", pair, &["left done", "right done"]);
}

/// A holder, and two waiters behind it: the first may die after it was granted, or while it waits.
fn queue(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    stage.giver(world, "holder", &pools);
    stage.customer(world, "first", "first served", &pools);
    stage.customer(world, "second", "second served", &pools);
    last(world, stage, &pools);
}

#[test]
fn a_queue_survives_kills() {
    searched("queue", queue, &["given back", "first served", "second served"]);
}

/// A choice of three pools, held by two other processes, which give back at once; one more waits for one of them alone.
fn choice(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1, 1], 0);
    stage.giver(world, "holder", &pools[..1]);
    stage.giver(world, "another", &pools[1..]);
    let c = world.prepare("chooser");
    let chooser = stage.member(c, "chooser");
    let arms = pools.clone();
    stage.reaper(stage.lasting(c, move || {
        let hold = stage.enter(&chooser, &arms, None).expect("a permit");
        reached("chose");
        assert!(stage.leave(&chooser, hold));
    }));
    stage.customer(world, "single", "single served", &[pools[0]]);
    last(world, stage, &pools);
}

#[test]
fn a_choice_of_three_survives_kills() {
    searched("choice", choice, &["chose", "single served"]);
}

/// Two permits that others have; one of them comes back.
fn second_only(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    let (p, ..) = stage.holder(world, "keeps", &pools[..1]);
    stage.lasting(p.immortal(), || {});
    stage.giver(world, "gives", &pools[1..]);
    let c = world.prepare("chooser").immortal();
    let me = stage.member(c, "chooser");
    stage.reaper(stage.lasting(c, move || {
        let hold = stage.enter(&me, &pools, None).expect("the second");
        assert!(stage.leave(&me, hold));
        reached("served");
    }));
}

/// Nix's `semalt` queued on one only (evidence, fault 1).
#[test]
fn a_choice_is_served_by_whichever_comes_back() {
    searched("second_only", second_only, &["served"]);
}

/// The time may be up at any moment, also while the permit is being granted.
fn time_out(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    stage.giver(world, "holder", &pools);
    let w = world.prepare("hasty");
    let hasty = stage.member(w, "hasty");
    let arms = pools.clone();
    stage.reaper(stage.lasting(w, move || {
        let until = chappe_plat::clock::now() + 1000;
        match stage.enter(&hasty, &arms, Some(until)) {
            Ok(hold) => {
                reached("in time");
                assert!(stage.leave(&hasty, hold));
            }
            Err(Refusal::TimedOut) => reached("too late"),
            Err(e) => panic!("{e:?}"),
        }
    }));
    stage.customer(world, "patient", "patient served", &[pools[0]]);
    last(world, stage, &pools);
}

#[test]
fn a_time_out_survives_kills() {
    searched("time_out", time_out, &["in time", "too late", "patient served"]);
}

/// Three permits, and four processes that want them; the pool grows and shrinks meanwhile.
fn several(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    for name in ["a", "b", "c"] {
        stage.customer(world, name, name, &pools);
    }
    let r = world.prepare("resizer");
    let _ = stage.member(r, "resizer");
    r.run(move || {
        pool.resize(3).expect("room");
        pool.resize(1).expect("no room needed");
        reached("resized");
    });
    last(world, stage, &pools);
}

#[test]
fn resizing_survives_kills() {
    searched("several", several, &["a", "b", "c", "resized"]);
}

/// A permit is taken away by force while its holder gives it back and another waits.
fn force(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let pool = pools[0];
    let (h, holder, holds) = stage.holder(world, "holder", &pools);
    h.run(move || reached(if stage.leave(&holder, holds[0]) { "in time" } else { "too late" }));
    let f = world.prepare("forcer");
    let _ = stage.member(f, "forcer");
    let inside = stage.inside;
    f.run(move || {
        // The permit is nobody's from the moment on; the holder may not know.
        inside.who[0][0].set(0);
        inside.force.set(true);
        if pool.force(0) {
            reached("forced");
        }
    });
    stage.customer(world, "waiter", "waiter served", &[pool]);
    last(world, stage, &pools);
}

#[test]
fn a_forced_release_survives_kills() {
    searched("force", force, &["in time", "too late", "forced", "waiter served"]);
}

/// The pool is removed under its holder and its waiters, and made anew.
fn removal(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let pool = pools[0];
    let (h, holder, holds) = stage.holder(world, "holder", &pools);
    stage.lasting(h, move || {
        stage.leave(&holder, holds[0]);
    });
    let r = world.prepare("remover");
    let _ = stage.member(r, "remover");
    stage.lasting(r, move || {
        pool.remove();
        reached("removed");
        // The only slot: used again as soon as no bit stands on it.
        if PoolAt::make(stage.map, "again", 1).is_ok() {
            reached("made anew");
        }
    });
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    stage.reaper(w.run(move || match stage.enter(&waiter, &[pool], None) {
        Ok(hold) => {
            stage.leave(&waiter, hold);
            reached("served before");
        }
        Err(Refusal::Dead(_)) => reached("told"),
        Err(e) => panic!("{e:?}"),
    }));
    world.prepare("last").last().run(move || {
        // The remover may have died half-way.
        let pool = PoolAt::find(stage.map, "p0").or_else(|| PoolAt::find(stage.map, "again"));
        let pool = pool.unwrap_or_else(|| PoolAt::make(stage.map, "again", 1).expect("its slot is free again"));
        stage.settled(&[pool]);
    });
}

#[test]
fn removal_survives_kills() {
    searched("removal", removal, &["removed", "made anew", "told", "served before"]);
}

/// A leased permit outlives its holder until its job ends.
fn lease(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let pool = pools[0];
    let h = world.prepare("supervisor");
    let holder = stage.member(h, "supervisor");
    h.run(move || {
        let Ok(mut held) = holder.try_acquire(pool) else { return };
        assert!(holder.lease(&mut held));
        reached("leased");
        // Its end without giving back is a death like any other.
    });
    let j = world.prepare("job").immortal();
    let _ = stage.member(j, "job");
    stage.reaper(j.run(move || {
        while !pool.cell(0).starts_with("Leased(member 65535") {
            if pool.cell(0).starts_with("Free") && h.fate() != chappe_crashsim::Fate::Alive {
                return;
            }
            chappe_plat::atomic::pause();
        }
        assert!(pool.job_ends(0));
        reached("job ended");
    }));
    stage.customer(world, "waiter", "waiter served", &[pool]);
    last(world, stage, &pools);
}

#[test]
fn a_lease_survives_kills() {
    searched("lease", lease, &["leased", "job ended", "waiter served"]);
}

#[test]
fn stops_that_are_resumed_lose_nothing() {
    stopped("pair", pair);
    stopped("queue", queue);
    stopped("choice", choice);
    stopped("time_out", time_out);
}

/// A stopped bystander: it wants nothing that the others need to get on, and never goes on.
fn bystander(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let pool = pools[0];
    let s = world.prepare("stopped");
    let me = stage.member(s, "stopped");
    s.run(move || {
        // Gives back and takes: wherever it is stopped, it has one permit at most.
        if let Ok(hold) = stage.try_enter(&me, pool) {
            stage.leave(&me, hold);
        }
    });
    for name in ["left", "right"] {
        stage.customer(world, name, name, &pools).immortal();
    }
}

#[test]
fn no_process_waits_for_a_stopped_bystander() {
    for search in [
        Search::sweep("bystander_sweep").stops(1),
        Search::depth("bystander_depth", 2).stops(1).schedules(5_000),
        Search::priorities("bystander_pct", 4).stops(1).schedules(5_000),
    ] {
        let report = search.run(bystander);
        report.assert_clean().assert_reached(&["left", "right"]);
    }
}

/// A choice between a pool of the chooser's own process and a named one; a thread of its own process gives back the
/// first, another process the second.
fn mixed(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1], 0);
    let named = pools[0];
    let c = world.prepare("chooser");
    let small = chappe_arena::layout::Geometry { members: 4, objects: 1, cells: 1, blocks: 1 };
    let (chooser, own) = c.before(|| {
        let private = chappe_sync::model::private(small).expect("memory");
        let own = PoolAt::make(private, "own", 1).expect("a pool");
        let me = chappe_sync::model::Actor::join(stage.map, "chooser").expect("a slot");
        (me.join_private(private).expect("a slot"), own)
    });
    let inside = stage.inside;
    let pid = c.pid();
    c.on_death(move || inside.forget(pid));
    let taken = world.share(std::cell::Cell::new(false));
    c.thread("sibling", move || {
        let me = chappe_sync::model::Actor::join(own.map, "sibling").expect("a slot");
        if let Ok(held) = me.try_acquire(own) {
            taken.set(true);
            assert!(me.release(held));
        }
        me.leave();
    });
    stage.reaper(c.run(move || {
        for _ in 0..2 {
            let (which, held) = chooser.acquire(&[own, named], None).expect("a permit");
            reached(["its own", "the named"][which]);
            assert!(chooser.release(held));
        }
        // Waits in one arena alone, with the same attachments, afterwards.
        let (_, held) = chooser.acquire(&[own], None).expect("a permit");
        assert!(chooser.release(held));
        let (_, held) = chooser.acquire(&[named], None).expect("a permit");
        assert!(chooser.release(held));
    }));
    let o = world.prepare("other");
    let other = stage.member(o, "other");
    stage.reaper(o.run(move || {
        for _ in 0..2 {
            let hold = stage.enter(&other, &[named], None).expect("a permit");
            assert!(stage.leave(&other, hold));
        }
        reached("other served");
    }));
    last(world, stage, &pools);
}

#[test]
fn a_mixed_choice_survives_kills() {
    searched("mixed", mixed, &["its own", "the named", "other served"]);
    stopped("mixed", mixed);
}

/// A waiter waits here for a while, then there, then for both: a late granter of one wait must not grant to the next.
fn wander(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    stage.giver(world, "holder", &pools);
    let w = world.prepare("wanderer");
    let wanderer = stage.member(w, "wanderer");
    let arms = pools.clone();
    stage.reaper(w.run(move || {
        let soon = || Some(chappe_plat::clock::now() + 1000);
        for which in [&arms[..1], &arms[1..], &arms[..]] {
            match stage.enter(&wanderer, which, soon()) {
                Ok(hold) => {
                    reached("served on the way");
                    assert!(which.iter().any(|p| p.place.index as usize == hold.pool), "served what it did not want");
                    assert!(stage.leave(&wanderer, hold));
                }
                Err(Refusal::TimedOut) => reached("went on"),
                Err(e) => panic!("{e:?}"),
            }
        }
    }));
    stage.customer(world, "patient", "patient served", &[pools[0]]);
    last(world, stage, &pools);
}

#[test]
fn wandering_survives_kills() {
    searched("wander", wander, &["served on the way", "went on", "patient served"]);
    stopped("wander", wander);
}

/// A waiter waits here for a while, then there, and stays: a late granter of the first wait must not grant to the
/// second what is to go to the process that waits here now.
fn stray(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    let (g, giver, holds) = stage.holder(world, "giver", &pools);
    stage.lasting(g, move || assert!(stage.leave(&giver, holds[0])));
    let w = world.prepare("wanderer");
    let wanderer = stage.member(w, "wanderer");
    let arms = pools.clone();
    let over = world.share(std::cell::Cell::new(false));
    stage.lasting(w, move || {
        let first = stage.enter(&wanderer, &arms[..1], Some(chappe_plat::clock::now()));
        if let Ok(hold) = first {
            assert!(stage.leave(&wanderer, hold));
        } else {
            reached("went on");
            // For ever: no process comes by here again.
            over.set(true);
            let _ = stage.enter(&wanderer, &arms[1..], None);
        }
    });
    let p = world.prepare("patient");
    let (me, pool) = (stage.member(p, "patient"), pools[0]);
    stage.lasting(p, move || {
        let hold = stage.enter(&me, &[pool], None).expect("a permit");
        reached("patient served");
        assert!(stage.leave(&me, hold));
    });
    world.may_wait(move || over.get() && !stage.map.anybody_waits(pool.place.index));
}

#[test]
fn a_late_grant_holds_nobody_up() {
    Search::depth("stray", 3)
        .schedules(60_000)
        .run(stray)
        .assert_clean()
        .assert_reached(&["went on", "patient served"]);
}

/// One process removes a pool unless it is in use, over and over; two others make it if it is not there, and use it:
/// never both at once, in whichever pool of that name.
fn idle(world: &World) {
    // Room for a second one of its name.
    let (stage, pools) = Stage::new(world, 8, &[1, 1], 0);
    pools[1].remove();
    let inside = world.share(std::cell::Cell::new(0u32));
    for name in ["one", "other"] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        let pid = p.pid();
        p.on_death(move || {
            if inside.get() == pid {
                inside.set(0);
            }
        });
        stage.lasting(p, move || {
            let pool = PoolAt::make(stage.map, "p0", 1).expect("a slot");
            if let Ok(held) = me.try_acquire(pool) {
                assert_eq!(inside.replace(pid), 0, "two hold the pool of this name");
                chappe_plat::step!("is inside");
                inside.set(0);
                assert!(me.release(held));
                reached(name);
            }
        });
    }
    let r = world.prepare("remover");
    let remover = stage.member(r, "remover");
    stage.lasting(r, move || {
        if let Some(pool) = PoolAt::find(stage.map, "p0") {
            reached(if pool.remove_idle(&remover) { "removed" } else { "in use" });
        }
    });
}

/// Two processes remove the pool, and one makes another of its name: what is there in the end is nobody's.
fn removed_twice(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[1], 0);
    for name in ["one", "two"] {
        let r = world.prepare(name);
        let me = stage.member(r, name);
        stage.lasting(r.immortal(), move || {
            if let Some(pool) = PoolAt::find(stage.map, "p0") {
                reached(if pool.remove_idle(&me) { "removed" } else { "in use" });
            }
        });
    }
    let m = world.prepare("maker").immortal();
    stage.member(m, "maker");
    stage.lasting(m, move || _ = PoolAt::make(stage.map, "p0", 1));
    world.prepare("last").last().run(move || {
        if let Some(pool) = PoolAt::find(stage.map, "p0") {
            let me = Actor::join(stage.map, "last").expect("a slot");
            assert!(me.try_acquire(pool).is_ok(), "a living remover has kept the permit of another pool");
            reached("made anew");
        }
    });
}

#[test]
fn a_second_remover_takes_nothing_of_the_next_pool() {
    for search in [
        Search::depth("removed_twice", 3).schedules(60_000),
        Search::priorities("removed_twice_pct", 3).schedules(20_000),
    ] {
        search.run(removed_twice).assert_clean().assert_reached(&["removed", "made anew"]);
    }
}

#[test]
fn removal_of_an_idle_pool_excludes_its_use() {
    Search::depth("idle_all", 3).schedules(60_000).run(idle).assert_clean();
    searched("idle", idle, &["one", "other", "removed", "in use"]);
    stopped("idle", idle);
}
