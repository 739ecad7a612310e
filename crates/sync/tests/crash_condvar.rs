//! Condition variables, explored: kill and stop at every operation of wait (with and without a deadline), notify one, notify all, removal,
//! together with the mutex. What must hold: a notification reaches a waiter, and another waiter if the first dies before it has heard it; a
//! notification of all wakes all, though its sender dies; no thread sleeps on something that is there.

use crate::crash::{Stage, searched_in, stopped_in};
use chappe_crashsim::{Fate, Process, Search, Shared, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, step};
use chappe_sync::model::{self, Actor, CondvarAt, Dropped, Locking, MutexAt, PoolAt, Refusal, SemaphoreAt, TaskEnd};
use std::cell::Cell;

/// For each search.
const SCHEDULES: u64 = 3_000;

fn mutex(world: &World, stage: &Stage) -> MutexAt {
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let o = stage.map.object(m.place.index);
    world.name_with(&o.slot.word, "word of m", model::lock_in_words);
    world.name(&o.waiting[0], "waiters of m");
    m
}

fn condvar(world: &World, stage: &Stage, name: &str) -> CondvarAt {
    let c = CondvarAt::make(stage.map, name).expect("a condition variable");
    let o = stage.map.object(c.place.index);
    world.name(&o.slot.since, format!("notified of {name}"));
    world.name(&o.waiting[0], format!("waiters of {name}"));
    world.name(&o.head, format!("head of {name}"));
    c
}

/// Whether a member waits on it, or was granted by it and has not heard it.
fn waits(c: CondvarAt, me: &Actor) -> bool {
    let idle = model::state_in_words(c.map.member(me.member()).state.load(Ordering::SeqCst)).starts_with("idle");
    !idle && c.map.object(c.place.index).waiting[0].load(Ordering::SeqCst) & 1 << me.member() != 0
}

/// Counts, at their deaths, the processes that may have heard a notification and not acted on it: all that do not wait.
fn deaf(stage: &Stage, p: Process, name: &'static str, c: CondvarAt, gone: Shared<Cell<u32>>) -> Actor {
    let me = stage.member(p, name);
    p.on_death(move || {
        if !waits(c, &me) {
            gone.set(gone.get() + 1);
        }
    });
    me
}

/// Repairs what was torn; returns whether it was.
fn whole(me: &Actor, m: MutexAt, how: Locking) {
    match how {
        Locking::Locked => {}
        Locking::Torn => {
            me.tear(m, false);
            reached("told that it is torn");
        }
        other => panic!("{other:?}"),
    }
}

fn settled(stage: &Stage, m: MutexAt, all: &[CondvarAt]) {
    stage.map.recover_dead();
    let me = Actor::join(stage.map, "last").expect("a slot for the last");
    whole(&me, m, me.try_lock(m));
    assert!(me.unlock(m));
    for c in all {
        assert!(!c.map.anybody_waits(c.place.index), "somebody's wait bit still stands");
        assert!(!c.notify_one(), "nobody waits");
    }
    me.leave();
}

/// A flag; two wait for it, one sets it and notifies all; the one of the two holds the mutex at first.
fn flag(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let (m, c) = (mutex(world, &stage), condvar(world, &stage, "c"));
    let flag = world.share(Cell::new(false));
    for (name, done) in [("one", "one saw it"), ("other", "other saw it")] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.reaper(stage.lasting(p, move || {
            whole(&me, m, me.lock(m, None));
            while !flag.get() {
                let (notified, how) = me.wait(c, m, None);
                assert!(notified);
                whole(&me, m, how);
            }
            assert!(me.unlock(m));
            reached(done);
        }));
    }
    let p = world.prepare("setter");
    let me = stage.member(p, "setter");
    stage.reaper(stage.lasting(p, move || {
        whole(&me, m, me.lock(m, None));
        flag.set(true);
        step!("set");
        assert!(me.unlock(m));
        c.notify_all();
        reached("set");
    }));
    let since = &stage.map.object(c.place.index).slot.since;
    // It died before that.
    let fresh = since.load(Ordering::SeqCst);
    world.may_wait(move || p.fate() == Fate::Killed && since.load(Ordering::SeqCst) == fresh);
    world.prepare("last").last().run(move || settled(&stage, m, &[c]));
}

#[test]
fn notifying_all_survives_kills() {
    searched_in(SCHEDULES, "flag", flag, &["one saw it", "other saw it", "set", "told that it is torn"]);
    stopped_in(SCHEDULES / 2, "flag", flag);
}

/// A place for one thing: one process puts two there, two take one each.
fn buffer(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let m = mutex(world, &stage);
    let (full, empty) = (condvar(world, &stage, "full"), condvar(world, &stage, "empty"));
    let (there, gone) = (world.share(Cell::new(0u32)), world.share(Cell::new(0u32)));
    let consumers = ["one", "other"].map(|name| world.prepare(name));
    for (p, (name, done)) in consumers.into_iter().zip([("one", "one took"), ("other", "other took")]) {
        let me = deaf(&stage, p, name, full, gone);
        stage.reaper(stage.lasting(p, move || {
            whole(&me, m, me.lock(m, None));
            while there.get() == 0 {
                let (notified, how) = me.wait(full, m, None);
                assert!(notified);
                whole(&me, m, how);
            }
            there.set(there.get() - 1);
            assert!(me.unlock(m));
            empty.notify_one();
            reached(done);
        }));
    }
    let p = world.prepare("producer");
    let me = deaf(&stage, p, "producer", empty, gone);
    stage.reaper(stage.lasting(p, move || {
        for _ in 0..2 {
            whole(&me, m, me.lock(m, None));
            while there.get() == 1 {
                let (notified, how) = me.wait(empty, m, None);
                assert!(notified);
                whole(&me, m, how);
            }
            there.set(1);
            assert!(me.unlock(m));
            full.notify_one();
        }
        reached("put two");
    }));
    // What the dead have heard, or not yet put, or not taken.
    world.may_wait(move || {
        let nobody = |all: &[Process]| all.iter().all(|p| p.fate() == Fate::Killed);
        gone.get() > 0 || there.get() == 0 && nobody(&[p]) || there.get() == 1 && nobody(&consumers)
    });
    world.prepare("last").last().run(move || settled(&stage, m, &[full, empty]));
}

#[test]
fn a_buffer_survives_kills() {
    searched_in(SCHEDULES, "buffer", buffer, &["one took", "other took", "put two"]);
    stopped_in(SCHEDULES / 2, "buffer", buffer);
}

/// Two wait, one of them with a deadline. One notification comes, once both wait or have gone. A waiter that hears it
/// and is not the last passes it on. So the patient waiter hears it in any case, unless the waiter that heard it before
/// has died with it.
fn time_out(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let (m, c) = (mutex(world, &stage), condvar(world, &stage, "c"));
    let gone = world.share(Cell::new(0u32));
    let (early, notified) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    let h = world.prepare("hasty");
    let hasty = deaf(&stage, h, "hasty", c, gone);
    stage.reaper(stage.lasting(h, move || {
        whole(&hasty, m, hasty.lock(m, None));
        let (heard, how) = hasty.wait(c, m, Some(clock::now() + 1000));
        whole(&hasty, m, how);
        assert!(hasty.unlock(m));
        early.set(true);
        if heard {
            reached("in time");
            c.notify_one();
        } else {
            reached("too late");
        }
    }));
    let p = world.prepare("patient");
    let patient = stage.member(p, "patient");
    stage.reaper(stage.lasting(p, move || {
        whole(&patient, m, patient.lock(m, None));
        let (heard, how) = patient.wait(c, m, None);
        assert!(heard);
        whole(&patient, m, how);
        assert!(patient.unlock(m));
        reached("patient heard");
    }));
    let n = world.prepare("notifier");
    let _ = stage.member(n, "notifier");
    stage.lasting(n, move || {
        let ready = || waits(c, &patient) && (early.get() || waits(c, &hasty));
        while !ready() && p.fate() == Fate::Alive && h.fate() == Fate::Alive {
            chappe_plat::atomic::pause();
        }
        if ready() || waits(c, &patient) {
            notified.set(c.notify_one());
        }
    });
    world.may_wait(move || !notified.get() || gone.get() > 0);
    world.prepare("last").last().run(move || settled(&stage, m, &[c]));
}

#[test]
fn a_time_out_survives_kills() {
    searched_in(SCHEDULES, "condvar_time_out", time_out, &["in time", "too late", "patient heard"]);
    stopped_in(SCHEDULES / 2, "condvar_time_out", time_out);
}

/// The condition variable is removed under its waiter and its notifier, and its slot is used again, as any kind: there,
/// nothing comes from nowhere and nothing gets lost.
fn removal(world: &World, again: fn(&Actor, Stage)) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let (m, c) = (mutex(world, &stage), condvar(world, &stage, "c"));
    let o = stage.map.object(c.place.index);
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    stage.reaper(w.run(move || {
        whole(&waiter, m, waiter.lock(m, None));
        let (notified, how) = waiter.wait(c, m, None);
        whole(&waiter, m, how);
        assert!(waiter.unlock(m));
        reached(if notified { "heard before" } else { "told that it is dead" });
    }));
    let n = world.prepare("notifier");
    let _ = stage.member(n, "notifier");
    stage.lasting(n, move || {
        // As a handle does it.
        if o.head.load(Ordering::SeqCst) == c.place.head.0 {
            c.notify_one();
        }
    });
    let r = world.prepare("remover");
    let remover = stage.member(r, "remover");
    stage.reaper(stage.lasting(r, move || {
        step!("is about to remove it");
        c.remove();
        again(&remover, stage);
    }));
    world.may_wait(move || r.fate() == Fate::Killed);
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        assert!(!stage.map.anybody_waits(c.place.index), "somebody's wait bit still stands");
        if let Some(place) = stage.map.find("again").filter(|p| p.head.is_live(chappe_arena::layout::Kind::Semaphore)) {
            assert_eq!(SemaphoreAt { map: stage.map, place }.units(), 0, "a unit from nowhere");
        }
    });
}

fn removal_to_semaphore(world: &World) {
    removal(world, |me, stage| {
        if let Ok(s) = SemaphoreAt::make(stage.map, "again", 0, false) {
            reached("made anew");
            assert_eq!(me.down(s, Some(clock::now() + 1000)), Err(Refusal::TimedOut), "a unit from nowhere");
        }
    });
}

fn removal_to_pool(world: &World) {
    removal(world, |me, stage| {
        if let Ok(pool) = PoolAt::make(stage.map, "again", 1) {
            reached("made anew");
            let (_, held) = me.acquire(&[pool], None).expect("a permit");
            assert_eq!(me.try_acquire(pool).map(|_| ()), Err(Refusal::NoneFree));
            assert!(me.release(held));
        }
    });
}

const REMOVED: [&str; 3] = ["made anew", "heard before", "told that it is dead"];

#[test]
fn removal_survives_kills() {
    searched_in(SCHEDULES, "condvar_to_semaphore", removal_to_semaphore, &REMOVED);
    stopped_in(SCHEDULES / 2, "condvar_to_semaphore", removal_to_semaphore);
    searched_in(SCHEDULES, "condvar_to_pool", removal_to_pool, &REMOVED);
}

/// A waiter comes so late that another condition variable is in the slot by now: it must not take that one's
/// notification along.
fn late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let (m, c) = (mutex(world, &stage), condvar(world, &stage, "c"));
    let anew = world.share(Cell::new(None::<CondvarAt>));
    let r = world.prepare("remover");
    let remover = stage.member(r, "remover");
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    let (told, over) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    stage.reaper(stage.lasting(r, move || {
        c.remove();
        let Ok(again) = CondvarAt::make(stage.map, "again") else { return over.set(true) };
        anew.set(Some(again));
        while !waits(again, &waiter) && w.fate() == Fate::Alive && !over.get() {
            chappe_plat::atomic::pause();
        }
        whole(&remover, m, remover.lock(m, None));
        told.set(again.notify_one());
        assert!(remover.unlock(m));
    }));
    let p = world.prepare("late");
    let me = stage.member(p, "late");
    stage.reaper(stage.lasting(p, move || {
        whole(&me, m, me.lock(m, None));
        let (notified, how) = me.wait(c, m, None);
        assert!(!notified, "it was dead");
        whole(&me, m, how);
        assert!(me.unlock(m));
        reached("late");
    }));
    stage.reaper(stage.lasting(w, move || {
        while r.fate() == Fate::Alive && anew.get().is_none() && !over.get() {
            chappe_plat::atomic::pause();
        }
        let Some(again) = anew.get() else { return over.set(true) };
        whole(&waiter, m, waiter.lock(m, None));
        let (notified, how) = waiter.wait(again, m, None);
        assert!(notified);
        whole(&waiter, m, how);
        assert!(waiter.unlock(m));
        reached("waiter heard");
    }));
    world.may_wait(move || !told.get());
}

#[test]
fn a_late_waiter_takes_nothing_of_the_next_object() {
    searched_in(SCHEDULES, "condvar_late", late, &["late", "waiter heard"]);
}

/// A task is notified, and may be dropped at any moment: then the waiter behind it is notified, though the task's process dies in the middle of that. A
/// task that has heard and acts tells the other itself.
fn task(world: &World) {
    let (stage, _) = Stage::new(world, 10, &[], 2);
    let (m, c) = (mutex(world, &stage), condvar(world, &stage, "c"));
    let (there, gone) = (world.share(Cell::new(false)), world.share(Cell::new(0u32)));
    let p = world.prepare("task");
    let (process, bell) = (stage.member(p, "process"), stage.member(p, "bell"));
    let me = deaf(&stage, p, "task", c, gone).at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        whole(&process, m, process.lock(m, None));
        if there.get() {
            assert!(process.unlock(m));
            return;
        }
        match me.hear_as_task(c, m, &process, Dropped::At(clock::now() + 1000)) {
            TaskEnd::Over(Ok(())) => {
                reached("heard");
                c.notify_one();
            }
            TaskEnd::Over(Err(e)) => panic!("{e:?}"),
            TaskEnd::Dropped => reached("dropped"),
            TaskEnd::GaveBack => reached("passed on"),
        }
    }));
    let q = world.prepare("patient");
    let me = stage.member(q, "patient");
    stage.reaper(stage.lasting(q, move || {
        whole(&me, m, me.lock(m, None));
        while !there.get() {
            let (notified, how) = me.wait(c, m, None);
            assert!(notified);
            whole(&me, m, how);
        }
        assert!(me.unlock(m));
        reached("patient");
    }));
    let n = world.prepare("notifier").immortal();
    let me = stage.member(n, "notifier");
    stage.reaper(stage.lasting(n, move || {
        whole(&me, m, me.lock(m, None));
        there.set(true);
        assert!(me.unlock(m));
        c.notify_one();
    }));
    world.may_wait(move || gone.get() > 0);
    world.prepare("last").last().run(move || settled(&stage, m, &[c]));
}

#[test]
fn a_dropped_tasks_notification_is_passed_on() {
    searched_in(SCHEDULES / 3, "condvar_task", task, &["heard", "dropped", "passed on", "patient"]);
    let search = Search::priorities("condvar_task_alive", 4).schedules(3_000);
    search.run(task).assert_clean().assert_reached(&["heard", "dropped", "passed on", "patient"]);
}
