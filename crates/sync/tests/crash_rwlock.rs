//! Readers-writer locks, explored: kill and stop at every operation of read and write (free, blocked, timed), unlock, downgrade, condemn, removal.
//! What must hold: a writer is alone; the process that finds the data as a dead writer left it is told, and no other; a dead reader excludes nobody;
//! no thread sleeps while it is its turn; no thread enters past the waiters; at the end no bit and no flag stands.

use crate::crash::{Stage, searched_in, sleep};
use chappe_crashsim::{Process, Search, Shared, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, step};
use chappe_sync::model::{self, Actor, Dropped, Refusal, RwLockAt, TaskEnd, Turn};
use std::cell::Cell;

/// For each search.
const SCHEDULES: u64 = 400;

/// What the lock guards, and which processes believe to be inside.
#[derive(Default)]
struct Data {
    left: Cell<u32>,
    right: Cell<u32>,
    /// The writer: a process number.
    writer: Cell<u32>,
    /// The readers: one bit a process.
    readers: Cell<u64>,
    /// How many writers have died, or may have.
    gone: Cell<u32>,
    /// How many have read or written.
    served: Cell<u32>,
}

#[derive(Clone, Copy)]
struct Guarded {
    lock: RwLockAt,
    data: Shared<Data>,
}

impl Guarded {
    fn new(world: &World, stage: &Stage) -> Guarded {
        let lock = RwLockAt::make(stage.map, "l").expect("a lock");
        let (place, line, inside) = lock.places();
        let o = stage.map.object(place.index);
        world.name_with(&o.slot.word, "word of l", model::rwlock_in_words);
        world.name(&o.waiting[0], "writers of l");
        world.name(&o.head, "head of l");
        world.name(&stage.map.object(line.index).waiting[0], "readers of l");
        world.name(&stage.map.object(inside).waiting[0], "inside of l");
        let all = Guarded { lock, data: world.share(Data::default()) };
        world.invariant(move || {
            let d = &all.data;
            assert!(d.writer.get() == 0 || d.readers.get() == 0, "somebody reads beside a writer");
        });
        all
    }

    fn member(&self, stage: &Stage, p: Process, name: &'static str) -> Actor {
        let (me, data, pid) = (stage.member(p, name), self.data, p.pid());
        p.on_death(move || {
            if data.writer.get() == pid {
                data.writer.set(0);
            }
            data.readers.set(data.readers.get() & !(1u64 << (pid % 64)));
            data.gone.set(data.gone.get() + 1);
        });
        me
    }

    fn enter(&self, turn: Turn) {
        let (d, pid) = (&self.data, chappe_plat::process::pid());
        if turn.writes {
            assert_eq!(d.writer.replace(pid), 0, "two write");
            assert_eq!(d.readers.get(), 0, "somebody reads beside a writer");
        } else {
            assert_eq!(d.writer.get(), 0, "somebody writes beside a reader");
            d.readers.set(d.readers.get() | 1u64 << (pid % 64));
        }
        if turn.torn {
            assert!(d.gone.get() > 0, "nobody died, and the data is torn");
            reached("torn");
        }
        if turn.torn && turn.writes {
            step!("repairs");
            d.right.set(d.left.get());
            self.lock.mend(turn);
        }
        assert!(turn.torn || d.left.get() == d.right.get(), "not told");
    }

    /// Does something with the data, and unlocks.
    fn work(&self, turn: Turn) {
        let (d, pid) = (&self.data, chappe_plat::process::pid());
        if turn.writes {
            d.left.set(d.left.get() + 1);
            step!("writes");
            d.right.set(d.right.get() + 1);
            step!("has written");
            d.writer.set(0);
        } else {
            step!("reads");
            assert!(turn.torn || d.left.get() == d.right.get(), "read while it was written");
            d.readers.set(d.readers.get() & !(1u64 << (pid % 64)));
        }
        d.served.set(d.served.get() + 1);
        assert!(self.lock.leave(turn), "somebody took the lock away");
    }

    /// A process that locks, does something, unlocks, so many times, and lives on; with its reaper.
    fn customer(&self, stage: &Stage, world: &World, name: &'static str, writes: bool, times: u32) -> Process {
        let p = world.prepare(name);
        let (me, all) = (self.member(stage, p, name), *self);
        stage.reaper(stage.lasting(p, move || {
            for _ in 0..times {
                let turn = all.lock.enter(&me, writes, None).expect("a turn");
                all.enter(turn);
                all.work(turn);
            }
            reached(name);
        }))
    }

    /// A process that is inside from the start, comes out, and lives on.
    fn holder(&self, stage: &Stage, world: &World, name: &'static str, writes: bool) -> Process {
        let p = world.prepare(name);
        let (me, all) = (self.member(stage, p, name), *self);
        let turn = p.before(|| {
            let turn = all.lock.try_enter(&me, writes).expect("free");
            all.enter(turn);
            turn
        });
        stage.lasting(p, move || {
            all.work(turn);
            reached(name);
        })
    }

    /// At the end: free, and nothing forgotten.
    fn last(self, world: &World, stage: Stage) {
        world.prepare("last").last().run(move || {
            stage.map.recover_dead();
            let me = Actor::join(stage.map, "last").expect("a slot for the last");
            let (place, line, inside) = self.lock.places();
            for at in [place.index, line.index, inside] {
                assert!(!stage.map.anybody_waits(at), "somebody's bit still stands");
            }
            if self.lock.word() != "condemned" {
                self.lock.mark();
                let turn = self.lock.try_enter(&me, true).expect("free");
                self.enter(turn);
                self.work(turn);
                assert_eq!(self.lock.word(), "free", "a flag still stands");
            }
            me.leave();
        });
    }
}

/// Two writers and a reader, all at once.
fn trio(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    l.customer(&stage, world, "a", true, 2);
    l.customer(&stage, world, "b", true, 1);
    l.customer(&stage, world, "r", false, 1);
    l.last(world, stage);
}

#[test]
fn reading_and_writing_survive_kills() {
    searched_in(SCHEDULES, "rwlock_trio", trio, &["a", "b", "r", "torn"]);
}

/// A reader inside, a writer and a reader behind it: if the one inside dies, or gives the lock up, the next comes in.
fn line(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    l.holder(&stage, world, "inside", false);
    l.customer(&stage, world, "writer", true, 1);
    l.customer(&stage, world, "reader", false, 1);
    l.last(world, stage);
}

#[test]
fn a_line_behind_a_reader_survives_kills() {
    searched_in(SCHEDULES, "rwlock_line", line, &["inside", "writer", "reader", "torn"]);
}

/// A writer inside, two readers and a writer behind it.
fn behind_a_writer(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    l.holder(&stage, world, "inside", true);
    for name in ["first", "second"] {
        l.customer(&stage, world, name, false, 1);
    }
    l.customer(&stage, world, "writer", true, 1);
    l.last(world, stage);
}

#[test]
fn a_line_behind_a_writer_survives_kills() {
    searched_in(SCHEDULES, "rwlock_behind", behind_a_writer, &["inside", "first", "second", "writer", "torn"]);
}

/// The writer's time may be up at any moment, also while it is its turn; a reader waits behind it.
fn time_out(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    let p = world.prepare("inside").immortal();
    let me = l.member(&stage, p, "inside");
    let turn = p.before(|| {
        let turn = l.lock.try_enter(&me, false).expect("free");
        l.enter(turn);
        turn
    });
    let served = l.data;
    // Stays until the reader behind the writer has read, or is dead: so the writer's going lets it in.
    let q = world.prepare("reader");
    let behind = l.member(&stage, q, "reader");
    stage.reaper(stage.lasting(q, move || {
        let turn = l.lock.enter(&behind, false, None).expect("a turn");
        l.enter(turn);
        l.work(turn);
        reached("reader");
    }));
    stage.reaper(stage.lasting(p, move || {
        while served.served.get() == 0 && q.fate() == chappe_crashsim::Fate::Alive {
            sleep(500);
        }
        l.work(turn);
    }));
    let p = world.prepare("hasty");
    let me = l.member(&stage, p, "hasty");
    stage.reaper(stage.lasting(p, move || match l.lock.enter(&me, true, Some(clock::now() + 1000)) {
        Ok(turn) => {
            l.enter(turn);
            l.work(turn);
            reached("in time");
        }
        Err(Refusal::TimedOut) => reached("too late"),
        Err(e) => panic!("{e:?}"),
    }));
    l.last(world, stage);
}

#[test]
fn a_writer_that_gives_up_lets_the_next_in() {
    searched_in(SCHEDULES, "rwlock_time_out", time_out, &["in time", "too late", "reader"]);
}

/// Readers that come again and again, one of them always inside, until the writer has had its turn: no reader passes
/// it.
fn persistent(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 4);
    let l = Guarded::new(world, &stage);
    let written = world.share(Cell::new(false));
    let p = world.prepare("writer").immortal();
    let me = l.member(&stage, p, "writer");
    let (place, ..) = l.lock.places();
    stage.reaper(stage.lasting(p, move || {
        let turn = l.lock.enter(&me, true, None).expect("a turn");
        l.enter(turn);
        written.set(true);
        l.work(turn);
        reached("writer");
    }));
    // Two, so that one may be inside while the other comes.
    for name in ["reader", "other reader"] {
        let p = world.prepare(name).immortal();
        let me = l.member(&stage, p, name);
        stage.reaper(stage.lasting(p, move || {
            while !written.get() {
                let waits = l.lock.word().contains("waiters") && stage.map.anybody_waits(place.index);
                match l.lock.try_enter(&me, false) {
                    Some(turn) => {
                        let still = l.lock.word().contains("waiters") && !written.get();
                        assert!(!(waits && still), "a writer waits, and is overtaken");
                        l.enter(turn);
                        l.work(turn);
                    }
                    None => chappe_plat::atomic::pause(),
                }
            }
            reached(name);
        }));
    }
    l.last(world, stage);
}

#[test]
fn no_reader_passes_a_waiting_writer() {
    let report = Search::priorities("rwlock_persistent", 3).schedules(SCHEDULES).run(persistent);
    report.assert_clean();
    report.assert_reached(&["writer", "reader", "other reader"]);
}

/// A writer goes on as a reader while another waits, and a third.
fn downgrade(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    let p = world.prepare("down");
    let me = l.member(&stage, p, "down");
    let pid = p.pid();
    stage.lasting(p, move || {
        let Some(turn) = l.lock.try_enter(&me, true) else { return reached("late") };
        l.enter(turn);
        let d = &l.data;
        d.left.set(d.left.get() + 1);
        d.right.set(d.right.get() + 1);
        d.writer.set(0);
        d.readers.set(d.readers.get() | 1u64 << (pid % 64));
        let turn = l.lock.downgrade(turn);
        l.work(turn);
        reached("down");
    });
    l.customer(&stage, world, "writer", true, 1);
    l.customer(&stage, world, "reader", false, 1);
    l.last(world, stage);
}

#[test]
fn a_downgrade_survives_kills() {
    searched_in(SCHEDULES, "rwlock_downgrade", downgrade, &["down", "writer", "reader"]);
}

/// The lock is condemned, or removed, with a reader and a writer in line.
fn ended(world: &World, removed: bool) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let l = Guarded::new(world, &stage);
    let p = world.prepare("ends it");
    let me = l.member(&stage, p, "ends it");
    let turn = p.before(|| {
        let turn = l.lock.try_enter(&me, true).expect("free");
        l.enter(turn);
        turn
    });
    stage.lasting(p, move || {
        if removed {
            l.lock.remove();
            l.data.writer.set(0);
            l.lock.leave(turn);
        } else {
            l.data.writer.set(0);
            l.lock.condemn(turn);
        }
        reached("ended");
    });
    for (name, writes) in [("reader", false), ("writer", true)] {
        let p = world.prepare(name);
        let me = l.member(&stage, p, name);
        stage.reaper(stage.lasting(p, move || match l.lock.enter(&me, writes, None) {
            Ok(turn) => {
                l.enter(turn);
                l.work(turn);
                reached("after a death");
            }
            Err(Refusal::Dead(_)) => reached(name),
            Err(e) => panic!("{e:?}"),
        }));
    }
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        RwLockAt::sweep(stage.map);
        let (place, line, inside) = l.lock.places();
        for at in [place.index, line.index, inside] {
            assert!(!stage.map.anybody_waits(at), "somebody's bit still stands");
            let live = chappe_arena::layout::Head(stage.map.object(at).head.load(Ordering::SeqCst)).in_service();
            let whole =
                chappe_arena::layout::Head(stage.map.object(place.index).head.load(Ordering::SeqCst)).in_service();
            assert_eq!(live, whole, "a part without the whole");
        }
    });
}

#[test]
fn a_condemned_lock_lets_nobody_sleep() {
    searched_in(SCHEDULES, "rwlock_condemned", |world| ended(world, false), &["ended", "reader", "writer"]);
}

#[test]
fn a_removed_lock_lets_nobody_sleep() {
    searched_in(SCHEDULES, "rwlock_removed", |world| ended(world, true), &["ended", "reader", "writer"]);
}

/// A lock is made while another process drains all objects, as the recovery of a dead member does.
fn made(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let lock = world.share(Cell::new(None));
    let p = world.prepare("maker");
    stage.member(p, "maker");
    stage.lasting(p, move || {
        lock.set(Some(RwLockAt::make(stage.map, "l").expect("a lock")));
        reached("made");
    });
    world.prepare("recovers").run(move || model::drain_all(stage.map));
    world.prepare("last").last().run(move || {
        stage.map.recover_dead();
        RwLockAt::sweep(stage.map);
        let there = stage.map.objects().len();
        assert!(matches!(there, 0 | 3), "a lock of {there} parts");
        assert!(there == 3 || lock.get().is_none(), "the lock that was made is not there");
    });
}

#[test]
fn a_lock_keeps_its_parts_when_others_recover_while_it_is_made() {
    searched_in(8 * SCHEDULES, "rwlock_made", made, &["made"]);
}

/// A process has the place of a lock that is gone, and tries to read; another lock is in the same slots, and a process writes. Whatever the late process
/// does there, the writer gets its turn.
fn read_late(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 3);
    let removed = [(); 6].map(|()| {
        let lock = RwLockAt::make(stage.map, "gone").expect("a lock");
        lock.remove();
        lock
    });
    let l = Guarded::new(world, &stage);
    let slots = |lock: RwLockAt| [lock.places().0.index, lock.places().1.index, lock.places().2];
    let gone = removed.into_iter().find(|lock| slots(*lock) == slots(l.lock)).expect("one in the same three slots");
    let p = world.prepare("late");
    let me = l.member(&stage, p, "late");
    stage.lasting(p, move || {
        assert!(gone.try_enter(&me, false).is_none(), "a lock that is gone");
        reached("late");
    });
    l.customer(&stage, world, "writer", true, 1);
    l.last(world, stage);
}

#[test]
fn a_late_reader_of_a_lock_that_is_gone_lets_nobody_sleep() {
    searched_in(SCHEDULES, "rwlock_read_late", read_late, &["late", "writer"]);
}

/// A task in line behind a writer, with a reader and a writer behind it; it may be dropped at any moment.
fn task(world: &World, writes: bool) {
    let (stage, _) = Stage::new(world, 10, &[], 3);
    let l = Guarded::new(world, &stage);
    l.holder(&stage, world, "holder", true);
    let p = world.prepare("task");
    let bell = stage.member(p, "bell");
    let me = l.member(&stage, p, "task").at_bell_of(&bell);
    stage.reaper(stage.lasting(p, move || match l.lock.enter_as_task(&me, writes, Dropped::At(clock::now() + 1000)) {
        (TaskEnd::Over(Ok(())), Some(turn)) => {
            l.enter(turn);
            l.work(turn);
            reached("task");
        }
        (TaskEnd::Dropped, _) => reached("dropped"),
        (TaskEnd::GaveBack, _) => reached("gave back"),
        (end, _) => panic!("{end:?}"),
    }));
    l.customer(&stage, world, "r", false, 1);
    l.customer(&stage, world, "w", true, 1);
    l.last(world, stage);
}

#[test]
fn a_tasks_turn_survives_kills() {
    for (name, writes) in [("rwlock_task_reads", false), ("rwlock_task_writes", true)] {
        let world = move |world: &World| task(world, writes);
        searched_in(SCHEDULES / 2, name, world, &["holder", "task", "dropped", "r", "w", "torn"]);
        // A death would excuse a waiter that is not told: none here.
        let search = Search::priorities(&format!("{name}_alive"), 4).schedules(2_000);
        search.run(world).assert_clean().assert_reached(&["dropped", "gave back", "r", "w"]);
    }
}
