//! Slots that are used again: an operation that was meant for the last occupant, and comes late, does nothing to the next.

use crate::crash::{Stage, searched_in};
use chappe_arena::layout::Head;
use chappe_crashsim::{Fate, Search, World, process, reached};
use chappe_plat::atomic::{Ordering::SeqCst, pause};
use chappe_plat::{clock, step};
use chappe_sync::model::{
    self, Actor, Came, CondvarAt, Got, Locking, MutexAt, NamedAt, PoolAt, Refusal, RwLockAt, SemaphoreAt, TubeAt,
};
use std::cell::{Cell, OnceCell};

/// A member was granted a unit and is dead; a recoverer is late. Another one has the member's slot by then, waits for
/// the same semaphore, and is granted a unit of its own.
fn recovered_late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = SemaphoreAt::make(stage.map, "s", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(s.place.index).slot.word, "word of s", model::units_in_words);
    let (map, taken) = (stage.map, world.share(Cell::new(0u32)));
    let dead = world.prepare("dead");
    let dead_one = stage.member(dead, "dead");
    dead.before(|| {
        dead_one.get_in_line(s);
        assert!(s.up(1));
    });
    dead.run(|| ());
    let recoverer = world.prepare("recoverer").immortal();
    stage.member(recoverer, "recoverer");
    stage.lasting(recoverer, move || _ = map.recover_dead());
    world.prepare("next").immortal().run(move || {
        let next = Actor::join(map, "next").expect("a slot");
        if next.member() == dead_one.member() {
            reached("the same slot");
        }
        // What the dead one left, if anything, and one more.
        for _ in 0..2 {
            if next.down(s, Some(clock::now() + 1000)).is_ok() {
                taken.set(taken.get() + 1);
            }
        }
        process::linger();
    });
    let upper = world.prepare("upper").immortal();
    stage.member(upper, "upper");
    stage.lasting(upper, move || assert!(s.up(1)));
    world.invariant(move || {
        assert!(s.units() + taken.get() <= 2, "{} units and {} taken of two", s.units(), taken.get());
    });
    world.may_wait(|| true);
}

#[test]
fn a_late_recoverer_takes_nothing_of_the_next_occupant() {
    Search::depth("recovered_late", 2)
        .schedules(100_000)
        .run(recovered_late)
        .assert_clean()
        .assert_reached(&["the same slot"]);
}

/// A notification comes late; a semaphore has the condition variable's slot by then, and a unit on its way to a waiter.
fn notified_late(world: &World, before: u32) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let map = stage.map;
    let gone = CondvarAt::make(map, "c").expect("a condition variable");
    gone.remove();
    (0..before).for_each(|_| SemaphoreAt::make(map, "s", 0, false).expect("a semaphore").remove());
    let s = SemaphoreAt::make(map, "s", 0, false).expect("a semaphore, in the only slot");
    world.name_with(&map.object(s.place.index).slot.word, "word of s", model::units_in_words);
    let taken = world.share(Cell::new(0u32));
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    stage.lasting(w, move || {
        if waiter.down(s, Some(clock::now() + 1000)).is_ok() {
            taken.set(1);
            reached("a unit");
        }
    });
    let u = world.prepare("upper").immortal();
    stage.member(u, "upper");
    stage.lasting(u, move || assert!(s.up(1)));
    let n = world.prepare("late").immortal();
    stage.member(n, "late");
    stage.lasting(n, move || _ = gone.notify_one());
    world.check(move || assert_eq!(s.units() + taken.get(), 1, "one unit was made"));
}

#[test]
fn a_late_notification_is_nothing_to_who_waits_for_something_else() {
    // The number of the unit on its way may look as if it was to be woken, or not.
    for before in 0..2 {
        let search = Search::priorities(&format!("notified_late_{before}"), 3).schedules(20_000);
        search.run(|world| notified_late(world, before)).assert_clean().assert_reached(&["a unit"]);
    }
}

/// A swap of a semaphore's word comes late; a mutex, and then another semaphore, have the slot by then.
fn made_anew(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 2);
    let a = SemaphoreAt::make(stage.map, "a", 0, false).expect("a semaphore");
    let gate = SemaphoreAt::make(stage.map, "gate", 0, false).expect("a semaphore");
    world.name_with(&stage.map.object(a.place.index).slot.word, "word", model::units_in_words);
    let map = stage.map;
    let t = world.prepare("taker");
    let me = stage.member(t, "taker");
    stage.lasting(t, move || {
        // A wait that comes to nothing moves the word on as far as small numbers reach.
        let _ = me.down(a, Some(clock::now() + 1));
        a.up(1);
        gate.up(1);
        let _ = me.try_down(a);
    });
    let m = world.prepare("maker");
    let maker = stage.member(m, "maker");
    stage.lasting(m, move || {
        maker.down(gate, None).expect("a unit");
        a.remove();
        let Ok(other) = MutexAt::make(map, "other") else { return };
        other.remove();
        let Ok(anew) = SemaphoreAt::make(map, "anew", 1, false) else { return };
        for _ in 0..3 {
            step!("later");
            assert_eq!(anew.value(), 1, "a fresh semaphore has what it was made with");
        }
        reached("made anew");
    });
    world.may_wait(|| true);
}

#[test]
fn a_late_swap_takes_nothing_of_the_next_object() {
    Search::priorities("reuse_object", 4)
        .schedules(20_000)
        .run(made_anew)
        .assert_clean()
        .assert_reached(&["made anew"]);
}

/// A process is about to wait for a semaphore that is removed; in its slot a tube's senders' object is made, and the
/// tube after it; a recoverer runs meanwhile.
fn tube_begun(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 20);
    let map = stage.map;
    let gone = SemaphoreAt::make(map, "gone", 0, false).expect("a semaphore");
    let dead = world.prepare("dead");
    stage.member(dead, "dead");
    dead.run(|| ());
    let w = world.prepare("waiter").immortal();
    let waiter = stage.member(w, "waiter");
    stage.lasting(w, move || _ = waiter.down(gone, Some(clock::now() + 1000)));
    let m = world.prepare("maker").immortal();
    let maker = stage.member(m, "maker");
    stage.lasting(m, move || {
        gone.remove();
        let Ok(tube) = NamedAt::make(map, "t", 1, [false; 2], false) else { return };
        maker.attach(tube, true).and_then(|()| maker.attach(tube, false)).expect("both ends");
        if tube.objects().contains(&gone.place.index) {
            reached("in the same slot");
        }
        assert_eq!(maker.put(tube, 1, None), Came::Sent);
        assert_eq!(maker.put(tube, 2, Some(clock::now() + 1)), Came::Nothing, "it is full, and lives");
    });
    let r = world.prepare("recoverer").immortal();
    stage.member(r, "recoverer");
    stage.lasting(r, move || _ = map.recover_dead());
    world.may_wait(|| true);
}

#[test]
fn recovery_leaves_a_tube_alone_that_is_being_made() {
    Search::priorities("tube_begun", 4)
        .schedules(60_000)
        .run(tube_begun)
        .assert_clean()
        .assert_reached(&["in the same slot"]);
}

/// The bit of a thread that came late stands in the slot where a tube's senders' object is made; another process drains all objects meanwhile.
fn tube_drained(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 2, 20);
    let map = stage.map;
    let late = world.prepare("late").immortal();
    let its = stage.member(late, "late").member();
    // SeqCst: as a waiter sets it.
    map.waiting(0, 0).fetch_or(1 << its, SeqCst);
    stage.lasting(late, || ());
    let m = world.prepare("maker").immortal();
    stage.member(m, "maker");
    stage.lasting(m, move || {
        let tube = NamedAt::make(map, "t", 1, [false; 2], false).expect("room for it");
        assert_eq!(tube.objects()[0], 0, "the slot with the bit");
    });
    world.prepare("drains").immortal().run(move || model::drain_all(map));
    world.prepare("last").last().run(move || assert_eq!(map.objects().len(), 2, "a tube without its senders' object"));
}

#[test]
fn a_late_waiter_does_not_cost_a_new_tube_its_senders() {
    Search::depth("tube_drained_depth", 2).schedules(40_000).run(tube_drained).assert_clean();
}

/// A process has the place of a mutex that is gone, and tries to lock it; another mutex is in the slot, and is used.
fn locked_late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let map = stage.map;
    let gone = MutexAt::make(map, "gone").expect("a mutex");
    gone.remove();
    let there = MutexAt::make(map, "there").expect("a mutex, in the only slot");
    assert_eq!(gone.place.index, there.place.index);
    world.name_with(&map.object(there.place.index).slot.word, "word of there", model::lock_in_words);
    let p = world.prepare("late");
    let late = stage.member(p, "late");
    stage.lasting(p, move || {
        assert_eq!(late.try_lock(gone), Locking::Dead);
        reached("told that it is dead");
    });
    let p = world.prepare("user").immortal();
    let user = stage.member(p, "user");
    stage.reaper(stage.lasting(p, move || {
        for _ in 0..2 {
            map.recover_dead();
            assert_eq!(user.try_lock(there), Locking::Locked, "nobody else has ever had it");
            assert!(user.unlock(there));
        }
    }));
}

#[test]
fn a_stale_handle_of_a_mutex_locks_no_other_object() {
    let reached = ["told that it is dead"];
    Search::depth("locked_late", 2).kills(1).schedules(30_000).run(locked_late).assert_clean().assert_reached(&reached);
}

/// A process unlocks a mutex, and its note of when it was reserved last comes late; a readers-writer lock has the mutex's slot by then, and has there
/// where its parts are.
fn reserved_late(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 3, 4);
    let map = stage.map;
    let [a, b, mutex] = ["a", "b", "m"].map(|name| MutexAt::make(map, name).expect("a mutex"));
    a.remove();
    b.remove();
    let h = world.prepare("holder");
    let holder = stage.member(h, "holder");
    assert_eq!(h.before(|| holder.try_lock(mutex)), Locking::Locked);
    let w = world.prepare("waiter");
    let waiter = stage.member(w, "waiter");
    let begun = w.before(|| waiter.is_overdue_for(mutex));
    stage.lasting(h, move || _ = holder.unlock(mutex));
    stage.lasting(w, move || waiter.leaves_overdue(mutex, begun));
    let parts = world.share(Cell::new(None));
    let since = move || map.object(mutex.place.index).slot.since.load(SeqCst);
    let r = world.prepare("remover").immortal();
    stage.member(r, "remover");
    stage.lasting(r, move || {
        mutex.remove();
        if RwLockAt::make(map, "l").is_ok_and(|lock| lock.places().0.index == mutex.place.index) {
            parts.set(Some(since()));
            reached("a lock in its place");
        }
    });
    world.prepare("last").last().run(move || assert!(parts.get().is_none_or(|were| were == since()), "written over"));
}

#[test]
fn a_late_drainer_of_a_mutex_writes_nothing_into_the_next_object() {
    let search = Search::sweep("reserved_late").stops(1).resume();
    search.run(reserved_late).assert_clean().assert_reached(&["a lock in its place"]);
}

/// A process gives a permit back, and its hint where a permit is free comes late; a mutex has the pool's slot by then.
fn hinted_late(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[2], 0);
    let (map, pool) = (stage.map, pools[0]);
    let o = map.object(pool.place.index);
    world.name(&o.hint, "hint of the slot");
    let g = world.prepare("giver").immortal();
    let giver = stage.member(g, "giver");
    let held = g.before(|| {
        let both = giver.try_acquire_many(pool, 2).expect("two are free");
        assert!(giver.release(both[0]));
        both[1]
    });
    stage.lasting(g, move || assert!(giver.release(held)));
    let r = world.prepare("remover").immortal();
    let remover = stage.member(r, "remover");
    stage.lasting(r, move || {
        if pool.remove_idle(&remover) {
            MutexAt::make(map, "m").expect("a mutex, in the only slot");
            reached("a mutex in its place");
        }
    });
    world.prepare("last").last().run(move || {
        if map.find("m").is_some() {
            assert_eq!(
                o.hint.load(SeqCst),
                MutexAt::TYPE,
                "what says of which type the mutex's data is was written over"
            );
        }
    });
}

#[test]
fn a_hint_that_is_late_is_not_written_into_the_next_object() {
    Search::depth("hinted_late", 2)
        .schedules(20_000)
        .run(hinted_late)
        .assert_clean()
        .assert_reached(&["a mutex in its place"]);
}

/// As [`hinted_late`]; a tube's senders' object has the pool's slot, and has there which tube it belongs to: as small a number as where a permit is free.
fn hinted_late_at_a_tube(world: &World) {
    let (stage, pools) = Stage::with_blocks(world, 8, &[3], 1, 20);
    let (map, pool) = (stage.map, pools[0]);
    let o = map.object(pool.place.index);
    world.name(&o.hint, "hint of the slot");
    let g = world.prepare("giver").immortal();
    let giver = stage.member(g, "giver");
    let held = g.before(|| {
        let all = giver.try_acquire_many(pool, 3).expect("three are free");
        assert!(giver.release(all[0]) && giver.release(all[2]));
        all[1]
    });
    stage.lasting(g, move || assert!(giver.release(held)));
    let r = world.prepare("remover").immortal();
    let remover = stage.member(r, "remover");
    let tube = world.share(Cell::new(None));
    stage.lasting(r, move || {
        if pool.remove_idle(&remover) {
            let made = NamedAt::make(map, "t", 1, [false; 2], false).expect("room for it");
            assert_eq!(made.objects()[0], pool.place.index, "its senders' object, in the pool's slot");
            tube.set(Some(o.hint.load(SeqCst)));
            reached("a tube in its place");
        }
    });
    let is_as_made = move || tube.get().is_none_or(|its| its == o.hint.load(SeqCst));
    world.prepare("last").last().run(move || assert!(is_as_made(), "what says of which tube it is was written over"));
}

#[test]
fn a_hint_that_is_late_takes_no_senders_from_a_tube() {
    let search = Search::depth("hinted_late_at_a_tube", 2).schedules(20_000);
    search.run(hinted_late_at_a_tube).assert_clean().assert_reached(&["a tube in its place"]);
}

/// A thread comes late to wait for a semaphore that was removed; a tube is made, and has ends where threads wait.
fn told_late(world: &World, slots: usize) {
    let stage = Stage::private(world, 8, 3);
    let map = stage.map;
    let gone = SemaphoreAt::make(map, "", 0, false).expect("a semaphore");
    let w = world.prepare("late");
    let late = stage.member(w, "late");
    stage.lasting(w, move || {
        assert!(late.down(gone, None).is_err(), "a unit of an object that had none");
        reached("told that it is dead");
    });
    let tube = world.share(OnceCell::new());
    let m = world.prepare("maker").immortal();
    stage.member(m, "maker");
    stage.lasting(m, move || {
        gone.condemn();
        let made = tube.get_or_init(|| TubeAt::bounded(map, slots));
        assert!(!made.objects().contains(&gone.place.index), "in the slot to which a thread may come late");
        if SemaphoreAt::make(map, "", 0, false).is_ok_and(|other| other.place.index == gone.place.index) {
            reached("another has the slot");
        }
    });
    let s = world.prepare("sender").immortal();
    let sender = stage.member(s, "sender");
    stage.lasting(s, move || {
        let tube = made(&tube);
        [1, 2].iter().for_each(|message| assert_eq!(sender.send(tube, *message, None), Got::Sent));
        reached("sent");
    });
    let r = world.prepare("receiver").immortal();
    let receiver = stage.member(r, "receiver");
    stage.lasting(r, move || {
        let tube = made(&tube);
        [1, 2].iter().for_each(|message| assert_eq!(receiver.recv(tube, None), Got::Message(*message)));
    });
}

/// The tube, once it was made.
fn made(tube: &OnceCell<TubeAt>) -> &TubeAt {
    loop {
        match tube.get() {
            Some(tube) => return tube,
            None => pause(),
        }
    }
}

#[test]
fn a_thread_late_at_a_removed_object_takes_no_word_from_a_tubes_waiter() {
    let reached = ["told that it is dead", "another has the slot", "sent"];
    for slots in 0..2 {
        let search = Search::sweep(&format!("told_late_{slots}")).stops(1).resume();
        search.run(|world| told_late(world, slots)).assert_clean().assert_reached(&reached);
    }
}

/// A thread comes late to wait for a semaphore that was removed; the readers of a lock have their bits in the semaphore's slot by then, and the lock's
/// writer takes the late process for a reader.
fn waited_late(world: &World) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 3, 4);
    let map = stage.map;
    let [first, gone] = ["first", "gone"].map(|name| SemaphoreAt::make(map, name, 0, false).expect("a semaphore"));
    let w = world.prepare("late");
    let late = stage.member(w, "late");
    stage.lasting(w, move || assert!(late.down(gone, None).is_err(), "a unit of an object that had none"));
    let m = world.prepare("writer").immortal();
    let writer = stage.member(m, "writer");
    stage.lasting(m, move || {
        first.remove();
        gone.remove();
        let Ok(lock) = RwLockAt::make(map, "l") else { return };
        if lock.places().2 == gone.place.index {
            reached("in the same slot");
        }
        let turn = lock.enter(&writer, true, None).expect("nobody else has ever had it");
        assert!(lock.leave(turn));
        reached("written");
    });
}

#[test]
fn a_thread_late_at_a_removed_object_lets_no_writer_sleep() {
    let reached = ["in the same slot", "written"];
    for search in [
        Search::priorities("waited_late", 4).schedules(20_000),
        Search::depth("waited_late_depth", 3).schedules(30_000),
    ] {
        search.run(waited_late).assert_clean().assert_reached(&reached);
    }
}

/// A thread comes late to wait for three permits of a pool that was removed; in its slot is a pool that has only one.
fn asked_late(world: &World) {
    let (stage, pools) = Stage::new(world, 8, &[3], 0);
    let (map, gone) = (stage.map, pools[0]);
    let h = world.prepare("holder").immortal();
    let holder = stage.member(h, "holder");
    h.before(|| assert!(holder.try_acquire(gone).is_ok()));
    stage.lasting(h, || ());
    let w = world.prepare("late");
    let late = stage.member(w, "late");
    stage.lasting(w, move || assert_eq!(late.acquire_many(gone, 3, None).map(|_| ()), Err(Refusal::Dead(0))));
    let m = world.prepare("maker").immortal();
    let maker = stage.member(m, "maker");
    stage.lasting(m, move || {
        gone.remove();
        if let Ok(next) = PoolAt::make(map, "next", 1) {
            let (_, held) = maker.acquire(&[next], None).expect("nobody else has ever had it");
            assert!(maker.release(held));
            reached("another pool in its slot");
        }
    });
}

#[test]
fn a_thread_late_at_a_removed_pool_is_told_that_it_is_dead() {
    let search = Search::priorities("asked_late", 4).schedules(20_000);
    search.run(asked_late).assert_clean().assert_reached(&["another pool in its slot"]);
}

/// Objects, I11: a private arena of three objects. The last is removed while two threads wait for it or come to it, and the remover makes another in
/// its slot, where a third thread waits. Any of them may end by itself at every step. A waiter of the removed object is told; the third gets its unit.
fn lowered(world: &World) {
    let stage = Stage::private(world, 8, 3);
    let map = stage.map;
    let [_, below, top] = [(); 3].map(|()| SemaphoreAt::make(map, "", 0, false).expect("a semaphore"));
    for name in ["waiter", "other"] {
        let w = world.prepare(name);
        let me = stage.member(w, name);
        stage.reaper(stage.lasting(w, move || {
            assert!(me.down(top, None).is_err(), "a unit of an object that had none");
            reached(name);
        }));
    }
    let next = world.share(Cell::new(None));
    let r = world.prepare("remover");
    stage.member(r, "remover");
    stage.reaper(stage.lasting(r, move || {
        top.remove();
        below.remove();
        if map.objects_used() == 1 {
            reached("lowered");
        }
        let made = SemaphoreAt::make(map, "", 0, false).expect("a slot");
        assert!(made.place.index < map.objects_used(), "a living object beyond the last");
        next.set(Some(made));
        assert!(made.up(1));
    }));
    let third = world.prepare("third");
    let me = stage.member(third, "third");
    stage.reaper(stage.lasting(third, move || {
        while next.get().is_none() && r.fate() == Fate::Alive {
            pause();
        }
        if let Some(made) = next.get() {
            me.down(made, None).expect("its unit");
            reached("served");
        }
    }));
    world.check(move || {
        let heads = (0..3).map(|i| Head(map.object(i).head.load(SeqCst)));
        let last = heads.enumerate().filter(|(_, head)| !head.is_free()).map(|(i, _)| i as u32 + 1).max();
        assert!(last <= Some(map.objects_used()), "a walk over all objects passes by one that is there");
    });
    world.may_wait(|| true);
}

#[test]
fn a_walk_over_fewer_objects_misses_none() {
    searched_in(1_000, "lowered", lowered, &["waiter", "other", "lowered", "served"]);
}
