//! Mutexes, explored: kill and stop at every operation of lock (free, blocked, timed, overdue), unlock, condemn, removal. What must hold: one
//! holder; the process that finds the data as a dead holder left it is told, and no other; no thread sleeps while the lock is free; no thread is
//! overtaken for ever; at the end no bit and no flag stands.

use crate::crash::guarded::{Guarded, last, word};
use crate::crash::{Stage, searched_in, sleep, stopped_in};
use chappe_crashsim::{Fate, Process, Search, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, step};
use chappe_sync::model::{self, Actor, Dropped, Locking, MutexAt, PoolAt, Refusal, SemaphoreAt, TaskEnd};
use std::cell::Cell;

/// For each search.
const SCHEDULES: u64 = 3_000;

/// Three processes want the mutex, one of them twice.
fn trio(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    m.customer(&stage, world, "a", 2);
    m.customer(&stage, world, "b", 1);
    m.customer(&stage, world, "c", 1);
    last(world, stage, &[m]);
}

#[test]
fn lock_and_unlock_survive_kills() {
    searched_in(SCHEDULES, "trio", trio, &["a", "b", "c", "told, and torn", "told for nothing"]);
}

/// WAITERS stands after a waiter has given up. The next locker clears it and dies, while two have begun to wait.
fn flag(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    let o = stage.map.object(m.mutex.place.index);
    let p = world.prepare("hasty");
    let me = m.member(&stage, p, "hasty");
    p.before(|| model::mark(m.mutex));
    stage.lasting(p, move || {
        assert!(m.enter(&me, me.try_lock(m.mutex)));
        m.work(&me);
    });
    let held = move || m.mutex.holder().is_some();
    for name in ["first", "second"] {
        let q = world.prepare(name).immortal();
        let me = m.member(&stage, q, name);
        stage.reaper(stage.lasting(q, move || {
            while !held() && m.data.done.get() == 0 && p.fate() == Fate::Alive {
                chappe_plat::atomic::pause();
            }
            assert!(m.enter(&me, me.lock(m.mutex, None)));
            m.work(&me);
            reached(name);
        }));
    }
    world.name(&o.waiting[0], "waiters of m");
    last(world, stage, &[m]);
}

#[test]
fn the_flag_of_the_dead_stands() {
    for changes in [3, 4] {
        let name = format!("mutex_flag_{changes}");
        Search::priorities(&name, changes).kills(1).schedules(100_000).run(flag).assert_clean();
    }
}

/// A holder, and two waiters behind it.
fn queue(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    m.holder(&stage, world);
    m.customer(&stage, world, "first", 1);
    m.customer(&stage, world, "second", 1);
    last(world, stage, &[m]);
}

#[test]
fn a_queue_survives_kills() {
    // For a process that records late that a waiter was told: all live, and many steps must meet.
    Search::priorities("mutex_told_late", 4).schedules(20_000).run(queue).assert_clean();
    searched_in(SCHEDULES, "mutex_queue", queue, &["holder", "first", "second", "told, and torn", "told for nothing"]);
}

/// The time may be up at any moment, also while the lock is being handed on.
fn time_out(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    m.holder(&stage, world);
    let p = world.prepare("hasty");
    let me = m.member(&stage, p, "hasty");
    stage.reaper(stage.lasting(p, move || {
        for _ in 0..2 {
            if m.enter(&me, me.lock(m.mutex, Some(clock::now() + 1000))) {
                reached("in time");
                m.work(&me);
            } else {
                reached("too late");
            }
        }
    }));
    m.customer(&stage, world, "patient", 1);
    last(world, stage, &[m]);
}

#[test]
fn a_time_out_survives_kills() {
    searched_in(SCHEDULES, "mutex_time_out", time_out, &["holder", "in time", "too late", "patient"]);
}

/// One process keeps the lock for long and takes it again at once, until two others, which are overtaken each time,
/// have had it: the one with a deadline may go before it is given the lock.
fn overdue(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    let served = world.share(Cell::new(0));
    let mut others = Vec::new();
    for (name, patience) in [("patient", None), ("hasty", Some(2_700_000))] {
        let p = world.prepare(name);
        let me = m.member(&stage, p, name);
        p.on_death(move || served.set(served.get() + 1));
        others.push(stage.reaper(stage.lasting(p, move || {
            if m.enter(&me, me.lock(m.mutex, patience.map(|ns| clock::now() + ns))) {
                m.work(&me);
                reached(name);
            } else {
                reached("too late");
            }
            served.set(served.get() + 1);
        })));
    }
    let p = world.prepare("greedy");
    let me = m.member(&stage, p, "greedy");
    stage.reaper(stage.lasting(p, move || {
        while served.get() < 2 {
            assert!(m.enter(&me, me.lock(m.mutex, None)));
            sleep(600_000);
            m.work(&me);
        }
    }));
    last(world, stage, &[m]);
}

#[test]
fn an_overdue_waiter_is_given_the_lock() {
    searched_in(SCHEDULES, "overdue", overdue, &["patient", "hasty", "too late", "reserved", "told, and torn"]);
    stopped_in(SCHEDULES / 2, "overdue", overdue);
}

/// The holder condemns the mutex while others wait, or come.
fn condemn(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    let p = world.prepare("holder");
    let me = m.member(&stage, p, "holder");
    p.before(|| assert!(m.enter(&me, me.try_lock(m.mutex))));
    stage.lasting(p, move || {
        m.data.left.set(7);
        m.data.half.set(7);
        m.data.inside.set(0);
        me.condemn(m.mutex);
        assert_eq!(me.try_lock(m.mutex), Locking::Condemned);
    });
    for name in ["first", "second"] {
        let p = world.prepare(name);
        let me = m.member(&stage, p, name);
        stage.reaper(stage.lasting(p, move || match me.lock(m.mutex, None) {
            Locking::Condemned => reached("told that it is condemned"),
            how => {
                assert!(m.enter(&me, how), "{how:?}");
                m.work(&me);
                reached("its holder died");
            }
        }));
    }
    last(world, stage, &[m]);
}

#[test]
fn condemning_survives_kills() {
    searched_in(SCHEDULES, "condemn", condemn, &["told that it is condemned", "its holder died"]);
    stopped_in(SCHEDULES / 2, "condemn", condemn);
}

/// A holder that leaves the arena without unlocking is as good as dead.
fn leaver(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    let p = world.prepare("leaver");
    let me = m.member(&stage, p, "leaver");
    p.before(|| assert!(m.enter(&me, me.try_lock(m.mutex))));
    let pid = p.pid();
    stage.reaper(stage.lasting(p, move || {
        m.data.left.set(7);
        m.data.half.set(6);
        m.data.abandoned(pid);
        me.leave();
        // Its slot is another member's from now on.
        let again = Actor::join(stage.map, "again").expect("a slot");
        assert!(m.enter(&again, again.lock(m.mutex, None)));
        m.work(&again);
        reached("came again");
    }));
    m.customer(&stage, world, "other", 1);
    last(world, stage, &[m]);
}

#[test]
fn leaving_with_the_lock_survives_kills() {
    searched_in(SCHEDULES, "leaver", leaver, &["came again", "other", "told, and torn"]);
}

#[test]
fn stops_that_are_resumed_lose_nothing() {
    stopped_in(SCHEDULES / 2, "trio", trio);
    stopped_in(SCHEDULES / 2, "mutex_queue", queue);
    stopped_in(SCHEDULES / 2, "mutex_time_out", time_out);
}

/// The mutex is removed under its holder and its waiter, and its slot is used again, as any kind.
fn removal(world: &World, make: fn(Stage) -> bool) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let o = stage.map.object(m.place.index);
    world.name_with(&o.slot.word, "word of m", model::lock_in_words);
    world.name(&o.head, "head of m");
    world.name(&o.waiting[0], "waiters of m");
    // As a guard does it.
    let unlock = move |me: &Actor| {
        me.unlock(m);
    };
    let r = world.prepare("remover");
    let remover = stage.member(r, "remover");
    r.before(|| assert_eq!(remover.try_lock(m), Locking::Locked));
    stage.lasting(r, move || {
        step!("is inside");
        unlock(&remover);
        m.remove();
        if make(stage) {
            reached("made anew");
        }
    });
    for name in ["first", "second"] {
        let p = world.prepare(name);
        let me = stage.member(p, name);
        stage.reaper(stage.lasting(p, move || match me.lock(m, None) {
            Locking::Locked | Locking::Torn => {
                // Removed, perhaps; but not another object's slot, which it becomes only after this unlock.
                let head = o.head.load(Ordering::SeqCst);
                assert!([m.place.head.0, m.place.head.dead().0].contains(&head), "the lock of the next mutex");
                reached("served before");
                unlock(&me);
            }
            Locking::Dead => reached("told that it is dead"),
            other => panic!("{other:?}"),
        }));
    }
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        let me = Actor::join(stage.map, "last").expect("a slot for the last");
        let Some(place) = stage.map.find("again") else { return };
        let map = stage.map;
        assert!(!map.anybody_waits(place.index), "somebody's wait bit still stands");
        if let Some(pool) = PoolAt::find(map, "again") {
            let held = me.try_acquire(pool).expect("a fresh pool has its permit");
            assert_eq!(me.try_acquire(pool).map(|_| ()), Err(Refusal::NoneFree));
            assert!(me.release(held));
        } else if place.head.is_live(chappe_arena::layout::Kind::Mutex) {
            let again = MutexAt { map, place };
            // Torn: a process that took the wrong mutex by mistake died before it had given it back.
            assert!(matches!(me.try_lock(again), Locking::Locked | Locking::Torn), "a fresh mutex: {}", word(again));
            assert!(me.unlock(again));
        } else {
            let fresh = SemaphoreAt { map, place };
            assert_eq!((fresh.value(), fresh.units()), (0, 0), "a fresh semaphore has what it was made with");
        }
        me.leave();
    });
}

fn removal_to_pool(world: &World) {
    removal(world, |stage| PoolAt::make(stage.map, "again", 1).is_ok());
}

fn removal_to_semaphore(world: &World) {
    removal(world, |stage| SemaphoreAt::make(stage.map, "again", 0, false).is_ok());
}

fn removal_to_mutex(world: &World) {
    removal(world, |stage| MutexAt::make(stage.map, "again").is_ok());
}

const REMOVED: [&str; 3] = ["made anew", "served before", "told that it is dead"];

#[test]
fn removal_survives_kills() {
    // Many steps must meet, while all live.
    Search::priorities("mutex_next", 6).schedules(20_000).run(removal_to_mutex).assert_clean();
    searched_in(SCHEDULES, "mutex_to_pool", removal_to_pool, &REMOVED);
    searched_in(SCHEDULES, "mutex_to_semaphore", removal_to_semaphore, &REMOVED);
    searched_in(SCHEDULES, "mutex_to_mutex", removal_to_mutex, &REMOVED);
    stopped_in(SCHEDULES / 2, "mutex_to_mutex", removal_to_mutex);
}

/// A process comes so late that another mutex is in the slot by now: it must not take away what is meant for that one's
/// waiter.
fn late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let m = MutexAt::make(stage.map, "m").expect("a mutex");
    let o = stage.map.object(m.place.index);
    world.name_with(&o.slot.word, "word of the slot", model::lock_in_words);
    world.name(&o.waiting[0], "waiters of the slot");
    let r = world.prepare("remover");
    let remover = stage.member(r, "remover");
    r.before(|| assert_eq!(remover.try_lock(m), Locking::Locked));
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    let p = world.prepare("late");
    let me = stage.member(p, "late");
    let anew = world.share(Cell::new(None::<MutexAt>));
    let (over, too_late) = (world.share(Cell::new(false)), world.share(Cell::new(false)));
    stage.reaper(stage.lasting(r, move || {
        let idle =
            || model::state_in_words(stage.map.member(me.member()).state.load(Ordering::SeqCst)).starts_with("idle");
        while idle() && p.fate() == Fate::Alive && !too_late.get() {
            chappe_plat::atomic::pause();
        }
        m.remove();
        // Until then its slot is kept for the remover.
        assert!(remover.unlock(m));
        if let Ok(again) = MutexAt::make(stage.map, "again") {
            // The late process may have it by mistake for a moment, and die.
            assert!(matches!(remover.lock(again, None), Locking::Locked | Locking::Torn));
            anew.set(Some(again));
            let enlisted = |me: &Actor| o.waiting[0].load(Ordering::SeqCst) & 1 << me.member() != 0;
            let here = |p: Process, done: bool| p.fate() == Fate::Alive && !done;
            while here(w, over.get()) && !enlisted(&waiter) || here(p, too_late.get()) && !enlisted(&me) {
                chappe_plat::atomic::pause();
            }
            assert!(remover.unlock(again));
            // Once more, overtaking a waiter that the unlock may have told to try again.
            assert!(matches!(remover.lock(again, None), Locking::Locked | Locking::Torn));
            while here(p, too_late.get()) {
                chappe_plat::atomic::pause();
            }
            assert!(remover.unlock(again));
        }
        over.set(true);
    }));
    stage.reaper(stage.lasting(p, move || {
        match me.lock(m, None) {
            Locking::Dead => reached("late"),
            // The remover died before that.
            Locking::Torn => assert!(me.unlock(m)),
            other => panic!("{other:?}"),
        }
        too_late.set(true);
    }));
    stage.reaper(stage.lasting(w, move || {
        while !over.get() && r.fate() == Fate::Alive && anew.get().is_none() {
            chappe_plat::atomic::pause();
        }
        let Some(again) = anew.get() else { return over.set(true) };
        assert!(matches!(waiter.lock(again, None), Locking::Locked | Locking::Torn));
        assert!(waiter.unlock(again));
        reached("waiter served");
    }));
}

#[test]
fn a_late_waiter_takes_nothing_of_the_next_object() {
    Search::priorities("late_alive", 5).schedules(40_000).run(late).assert_clean();
    searched_in(SCHEDULES, "late", late, &["late", "waiter served"]);
    stopped_in(SCHEDULES / 2, "late", late);
}

/// A task that locks the mutex for its process, once, and gives up at some moment if it is `dropped`.
fn tasks(m: Guarded, stage: &Stage, world: &World, dropped: Option<u64>) -> Process {
    let p = world.prepare("task");
    let (process, bell) = (m.member(stage, p, "process"), stage.member(p, "bell"));
    let me = stage.member(p, "task").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || {
        let dropped = dropped.map_or(Dropped::Never, |ns| Dropped::At(clock::now() + ns));
        match me.lock_as_task(m.mutex, &process, dropped) {
            (TaskEnd::Over(Ok(())), how) => {
                assert!(m.enter(&process, how), "refused");
                m.work(&process);
                reached("task");
            }
            (TaskEnd::Dropped, _) => reached("dropped"),
            (TaskEnd::GaveBack, _) => reached("gave back"),
            (end, how) => panic!("{end:?}, {how:?}"),
        }
    }))
}

/// A task in line behind a holder, and a thread.
fn behind(world: &World, dropped: Option<u64>) -> (Stage, Guarded) {
    let (stage, _) = Stage::new(world, 10, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    m.holder(&stage, world);
    tasks(m, &stage, world, dropped);
    m.customer(&stage, world, "patient", 1);
    (stage, m)
}

fn task(world: &World, dropped: Option<u64>) {
    let (stage, m) = behind(world, dropped);
    last(world, stage, &[m]);
}

#[test]
fn a_tasks_lock_survives_kills() {
    let all = ["holder", "task", "patient", "told, and torn"];
    searched_in(SCHEDULES, "mutex_task", |world| task(world, None), &all);
    let all = ["holder", "task", "dropped", "gave back", "patient"];
    searched_in(SCHEDULES, "mutex_task_dropped", |world| task(world, Some(1000)), &all);
    stopped_in(SCHEDULES / 2, "mutex_task_dropped", |world| task(world, Some(1000)));
    // A death would excuse a waiter that is not told: none here.
    let search = Search::priorities("mutex_task_dropped_alive", 4).schedules(5_000);
    search.run(|world: &World| task(world, Some(1000))).assert_clean().assert_reached(&["dropped", "gave back"]);
    // Nor is the next waiter forgotten, whichever holder unlocks once behind the drop.
    let crowded = |world: &World| {
        let (stage, m) = behind(world, Some(1000));
        m.customer(&stage, world, "other", 1);
        last(world, stage, &[m]);
    };
    let search = Search::priorities("mutex_task_dropped_crowd", 5).schedules(10_000);
    search.run(crowded).assert_clean().assert_reached(&["dropped", "gave back", "patient", "other"]);
}

/// As [`overdue`], with a task in the place of the waiter that gives up.
fn overdue_task(world: &World) {
    let (stage, _) = Stage::new(world, 10, &[], 1);
    let m = Guarded::new(world, &stage, "m");
    let task = tasks(m, &stage, world, Some(2_700_000));
    let patient = m.customer(&stage, world, "patient", 1);
    let p = world.prepare("greedy");
    let me = m.member(&stage, p, "greedy");
    let over = move || m.data.done.get() >= 20 || [task, patient].iter().all(|p| p.fate() == Fate::Killed);
    stage.reaper(stage.lasting(p, move || {
        while !over() {
            assert!(m.enter(&me, me.lock(m.mutex, None)));
            sleep(600_000);
            m.work(&me);
        }
    }));
    last(world, stage, &[m]);
}

#[test]
fn an_overdue_task_is_given_the_lock() {
    searched_in(
        SCHEDULES / 3,
        "overdue_task",
        overdue_task,
        &["patient", "task", "reserved", "gave back", "told, and torn"],
    );
}
