//! Biased mutexes and pools, explored: kill and stop at every operation of entering, leaving, granting and revoking. What must hold: what
//! holds of unbiased ones. Killing single threads of one process is harsher than reality.

use crate::crash::guarded::{Guarded, last};
use crate::crash::{Stage, searched_in, stopped_in};
use chappe_crashsim::{Fate, Process, Search, World, reached};
use chappe_plat::atomic::pause;
use chappe_plat::step;
use chappe_sync::model::{Actor, Locking, MutexAt, PoolAt};
use std::cell::Cell;

/// For each search.
const SCHEDULES: u64 = 3_000;

fn stage(world: &World) -> (Stage, Guarded) {
    let stage = Stage::private(world, 8, 2);
    let m = Guarded::of(MutexAt::biased(stage.map).expect("a mutex"), world, "m");
    (stage, m)
}

/// A process that has the bias, and is not inside.
fn owner(m: Guarded, stage: &Stage, world: &World, name: &'static str) -> (Process, Actor) {
    let p = world.prepare(name);
    let me = m.member(stage, p, name);
    p.before(|| {
        assert_eq!(me.try_lock(m.mutex), Locking::Locked);
        assert!(me.unlock(m.mutex));
        assert_eq!(m.mutex.bias(), Some(me.member()));
    });
    (p, me)
}

/// It enters and leaves so many times, and lives on.
fn uses(m: Guarded, stage: &Stage, (p, me): (Process, Actor), name: &'static str, times: u32) {
    stage.reaper(stage.lasting(p, move || {
        for _ in 0..times {
            let by_bias = m.mutex.bias() == Some(me.member());
            assert!(m.enter(&me, me.lock(m.mutex, None)), "refused");
            if by_bias && m.mutex.bias() == Some(me.member()) {
                reached("entered by the bias");
            }
            m.work(&me);
        }
        reached(name);
    }));
}

/// The owner uses the lock, and another thread comes.
fn two(world: &World) {
    let (stage, m) = stage(world);
    uses(m, &stage, owner(m, &stage, world, "owner"), "owner", 2);
    m.customer(&stage, world, "other", 2);
    last(world, stage, &[m]);
}

#[test]
fn a_bias_survives_kills() {
    searched_in(SCHEDULES, "bias_two", two, &["owner", "other", "entered by the bias", "told, and torn"]);
}

/// The owner comes twice, another thread once, a third only looks, and nobody waits: a small world, to be searched
/// deep. One of the others is stopped when it has seen that the owner is outside. When it goes on, the lock is biased
/// anew, and the third is just revoking that.
fn late(world: &World) {
    let (stage, m) = stage(world);
    let tries = |(p, me): (Process, Actor), times: u32| {
        stage.lasting(p, move || {
            for _ in 0..times {
                let how = me.try_lock(m.mutex);
                if m.enter(&me, how) {
                    m.work(&me);
                }
            }
        });
    };
    tries(owner(m, &stage, world, "owner"), 2);
    let p = world.prepare("first");
    tries((p, m.member(&stage, p, "first")), 1);
    let p = world.prepare("second");
    let _ = m.member(&stage, p, "second");
    stage.lasting(p, move || m.mutex.settle());
    last(world, stage, &[m]);
}

#[test]
fn a_late_revocation_does_not_touch_the_next_bias() {
    Search::depth("bias_late", 3).schedules(400_000).run(late).assert_clean();
}

/// Two threads revoke at once.
fn three(world: &World) {
    let (stage, m) = stage(world);
    uses(m, &stage, owner(m, &stage, world, "owner"), "owner", 2);
    m.customer(&stage, world, "b", 1);
    m.customer(&stage, world, "c", 1);
    last(world, stage, &[m]);
}

#[test]
fn revocations_at_once_survive_kills() {
    searched_in(SCHEDULES, "bias_three", three, &["owner", "b", "c", "entered by the bias"]);
}

#[test]
fn stops_of_owners_and_revokers_are_survived() {
    stopped_in(SCHEDULES / 2, "bias_two", two);
    stopped_in(SCHEDULES / 2, "bias_three", three);
}

/// Without deaths: the schedules around each step, and those with store buffers, which the fence is for.
#[test]
fn the_owner_sees_the_revoker_or_is_seen() {
    Search::depth("bias_order", 3).schedules(40_000).run(two).assert_clean();
    for seed in [1, 2] {
        let name = format!("bias_buffers_{seed}");
        Search::uniform(&name).store_buffers(4).schedules(20_000).run(two).assert_clean();
    }
}

/// The owner leaves with the lock in its hands, and another member has its slot afterwards.
fn leaver(world: &World) {
    let (stage, m) = stage(world);
    let (p, me) = owner(m, &stage, world, "leaver");
    let pid = p.pid();
    stage.reaper(stage.lasting(p, move || {
        assert!(m.enter(&me, me.lock(m.mutex, None)));
        m.data.left.set(m.data.left.get() + 7);
        m.data.abandoned(pid);
        me.leave();
        let again = Actor::join(stage.map, "again").expect("a slot");
        assert!(m.enter(&again, again.lock(m.mutex, None)));
        m.work(&again);
        reached("came again");
    }));
    m.customer(&stage, world, "other", 1);
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        assert!(!stage.map.anybody_waits(m.mutex.place.index), "somebody's wait bit still stands");
    });
}

#[test]
fn leaving_with_a_biased_lock_survives_kills() {
    searched_in(SCHEDULES, "bias_leaver", leaver, &["came again", "other", "told, and torn"]);
}

/// The owner of a pool's permit by bias, and a thread that waits for the permit in line.
fn pool(world: &World) {
    let stage = Stage::private(world, 8, 2);
    let pool = PoolAt::biased(stage.map).expect("a pool");
    let inside = stage.inside;
    let p = world.prepare("owner");
    let me = stage.member(p, "owner");
    p.before(|| {
        let held = me.take_biased(pool).expect("free");
        assert!(me.release(held));
        assert_eq!(pool.bias(), Some(me.member()));
    });
    stage.reaper(stage.lasting(p, move || {
        for _ in 0..3 {
            let by_bias = pool.bias() == Some(me.member());
            let held = me.take_biased(pool).or_else(|| me.acquire(&[pool], None).ok().map(|(_, held)| held));
            let hold = inside.enter(pool, held.expect("a permit"));
            if by_bias && pool.bias() == Some(me.member()) {
                reached("entered by the bias");
            }
            step!("is inside");
            assert!(stage.leave(&me, hold), "it was taken away");
        }
    }));
    for (name, served) in [("b", "b served"), ("c", "c served")] {
        stage.customer(world, name, served, &[pool]);
    }
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_pool_with_a_bias_survives_kills() {
    searched_in(SCHEDULES, "bias_pool", pool, &["b served", "c served", "entered by the bias"]);
    stopped_in(SCHEDULES / 2, "bias_pool", pool);
}

/// The owner gives the permit back when it has been told that another waits, and comes again: behind that one.
fn listed(world: &World) {
    let stage = Stage::private(world, 8, 2);
    let pool = PoolAt::biased(stage.map).expect("a pool");
    let served = world.share(Cell::new(false));
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    let p = world.prepare("owner");
    let me = stage.member(p, "owner");
    let held = p.before(|| {
        let held = me.take_biased(pool).expect("free");
        assert_eq!(pool.bias(), Some(me.member()));
        held
    });
    stage.reaper(stage.lasting(w, move || {
        let (_, held) = waiter.acquire(&[pool], None).expect("a permit");
        served.set(true);
        assert!(waiter.release(held));
        reached("waiter served");
    }));
    stage.reaper(stage.lasting(p, move || {
        while pool.waiters().is_empty() && w.fate() == Fate::Alive {
            pause();
        }
        assert!(me.release(held));
        let held = me.take_biased(pool).or_else(|| me.acquire(&[pool], None).ok().map(|(_, held)| held));
        assert!(served.get() || w.fate() != Fate::Alive, "the owner overtook who waited");
        assert!(me.release(held.expect("a permit")));
    }));
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_listed_waiter_is_not_overtaken() {
    searched_in(SCHEDULES, "bias_listed", listed, &["waiter served"]);
}

/// The permit is taken by force from the owner of the bias, which is just giving it back. Another has the permit, and
/// the bias, when it goes on.
fn forced(world: &World) {
    let stage = Stage::private(world, 8, 2);
    let pool = PoolAt::biased(stage.map).expect("a pool");
    let (inside, after) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    let p = world.prepare("owner");
    let me = stage.member(p, "owner");
    let held = p.before(|| {
        let held = me.take_biased(pool).expect("free");
        assert!(me.release(held));
        let held = me.take_biased(pool).expect("free");
        assert_eq!(pool.bias(), Some(me.member()));
        held
    });
    stage.lasting(p, move || _ = me.release(held));
    let f = world.prepare("forcer");
    let _ = stage.member(f, "forcer");
    stage.lasting(f, move || {
        if pool.force(0) {
            reached("forced");
        }
        after.set(true);
    });
    for name in ["third", "fourth"] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.lasting(p, move || {
            // From them it would be taken by right.
            if !after.get() {
                return;
            }
            if let Some(held) = me.take_biased(pool).or_else(|| me.try_acquire(pool).ok()) {
                assert!(!inside.replace(true), "two have the permit");
                step!("is inside");
                inside.set(false);
                me.release(held);
                reached(name);
            }
        });
    }
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_permit_taken_by_force_is_not_given_back_for_another() {
    let report = Search::depth("bias_forced", 3).schedules(400_000).run(forced);
    report.assert_clean();
    for what in ["forced", "third", "fourth"] {
        assert!(report.outcomes().contains_key(what), "never {what}");
    }
}

/// The permit is taken by force from a thread that is just being granted the bias. Another one has the permit, and the bias, when it goes on: what the
/// first one writes says nothing of the other one's bias, which is revoked as what it is.
fn forced_while_granted(world: &World) {
    let stage = Stage::private(world, 8, 2);
    let pool = PoolAt::biased(stage.map).expect("a pool");
    let (inside, after) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    let p = world.prepare("first");
    let me = stage.member(p, "first");
    // It has the permit by right until it is taken away, and does nothing under it.
    stage.lasting(p, move || {
        if !after.get()
            && let Some(held) = me.take_biased(pool)
        {
            let _ = me.release(held);
        }
    });
    let p = world.prepare("second");
    let me = stage.member(p, "second");
    stage.lasting(p, move || {
        if pool.force(0) {
            reached("forced");
        }
        after.set(true);
        if let Some(held) = me.take_biased(pool) {
            assert!(!inside.replace(true), "two have the permit");
            step!("is inside");
            inside.set(false);
            assert!(me.release(held), "it was taken away");
        }
    });
    let p = world.prepare("third");
    let me = stage.member(p, "third");
    stage.lasting(p, move || {
        if after.get()
            && let Ok(held) = me.try_acquire(pool)
        {
            assert!(!inside.replace(true), "two have the permit");
            step!("is inside");
            inside.set(false);
            assert!(me.release(held), "it was taken away");
            reached("third");
        }
    });
    world.prepare("last").last().run(move || stage.settled(&[pool]));
}

#[test]
fn a_bias_is_that_of_the_member_that_it_names() {
    let report = Search::depth("bias_forced_grant", 2).schedules(100_000).run(forced_while_granted);
    report.assert_clean();
    for what in ["forced", "third"] {
        assert!(report.outcomes().contains_key(what), "never {what}");
    }
}
