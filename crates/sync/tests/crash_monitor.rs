//! Named monitors, explored: every process killed and stopped at every step, recoverers as well; the lock around is the explorer's robust one.
//! What must hold: two are never inside; a signal reaches a waiter, and another one if that one dies before it is inside; if a process dies
//! inside, all waiters are told; no thread sleeps while there is something for it.

use chappe_arena::Visit;
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_plat::{clock, step};
use chappe_structures::room::{Member, Room, Shape};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const MEMBERS: usize = 6;
const ITEMS: u32 = 0;
const OTHER: u32 = 1;

#[derive(Clone, Copy)]
struct Stage {
    room: Room<'static>,
    lock: Shared<AtomicU32>,
    /// Whether a process is inside; what there is to take; whether a holder left it half done.
    inside: Shared<Cell<bool>>,
    items: Shared<Cell<u32>>,
    half: Shared<Cell<bool>>,
    /// A process has learned of that.
    told: Shared<Cell<bool>>,
    lives: Shared<[[AtomicU32; MEMBERS]; 2]>,
    who: Shared<RefCell<Vec<(Member, Process)>>>,
}

fn member(index: u16) -> Member {
    Member { index, generation: 1 }
}

impl Stage {
    fn new(world: &World) -> Stage {
        let shape = Shape { members: MEMBERS as u32, conditions: 2, bytes: 0 };
        let place = world.zeroed(shape.room());
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let room: Room<'static> = unsafe { Room::new(NonNull::new(place).expect("memory"), shape) };
        room.each_word(&mut |word, name, show| world.name_with(word, name, show));
        let lock = world.share(AtomicU32::new(0));
        world.name(&*lock, "the lock");
        Stage {
            room,
            lock,
            inside: world.share(Cell::new(false)),
            items: world.share(Cell::new(0)),
            half: world.share(Cell::new(false)),
            told: world.share(Cell::new(false)),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    fn enter(&self, me: Member) {
        if robust::claim_inherited(&self.lock) == robust::Claim::AfterDeath {
            reached("told of a death inside");
            self.inside.set(false);
            self.told.set(self.told.get() || self.half.replace(false));
        }
        self.room.enter(me);
        assert!(!self.inside.replace(true), "two are inside");
        assert!(!self.half.get(), "torn, and not told");
    }

    fn leave(&self) {
        self.inside.set(false);
        self.room.leave();
        robust::release(&self.lock);
    }

    /// Waits until there is something, and takes it. False: the time was up.
    fn take(&self, me: Member, condition: u32, limit: Option<u64>) -> bool {
        let deadline = limit.map(|limit| clock::now() + limit);
        self.enter(me);
        while self.items.get() == 0 {
            let wait = self.room.announce(me, condition);
            self.leave();
            let called = self.room.rest(me, wait, deadline);
            self.enter(me);
            self.room.heard(me);
            if !called {
                reached("gave up");
                self.leave();
                return false;
            }
        }
        let left = self.items.get().checked_sub(1);
        self.items.set(left.unwrap_or(0));
        self.leave();
        left.is_some()
    }

    /// Puts one more there.
    fn put(&self, me: Member, condition: u32) {
        self.enter(me);
        self.half.set(true);
        self.items.set(self.items.get() + 1);
        step!("half done");
        self.half.set(false);
        self.room.signal(condition);
        self.leave();
    }

    /// A member whose death the recoverers see. It does not end with what it does.
    fn member(&self, world: &World, name: &str, me: u16, act: impl FnOnce(Stage, Member) + 'static) {
        let p = world.prepare(name);
        let (stage, lives) = (*self, self.lives);
        p.before(|| {
            lives.iter().for_each(|l| assert_eq!(robust::try_claim(&l[usize::from(me)]), robust::Claim::Fresh));
        });
        self.who.borrow_mut().push((member(me), p));
        p.run(move || {
            act(stage, member(me));
            process::linger();
        });
    }

    fn recoverers(&self, world: &World, members: &[u16], both: bool) {
        for (i, name) in ["recoverer", "another"].into_iter().enumerate().take(1 + usize::from(both)) {
            let p = world.prepare(name);
            for me in members.iter().copied() {
                let stage = *self;
                p.daemon(&format!("of {me}"), move || {
                    robust::claim(&stage.lives[i][usize::from(me)]);
                    chappe_plat::recovering(|| stage.room.recover(&Visit::of_own_memory(), member(me), || true));
                    process::linger();
                });
            }
        }
    }

    /// A waiter may wait for ever while there is nothing to take. (Behind a process that is stopped inside, too.)
    fn rest(&self, world: &World) {
        let stage = *self;
        world.may_wait(move || {
            let stopped = stage.who.borrow().iter().any(|(_, p)| p.fate() == Fate::Stopped);
            stage.items.get() == 0 || stopped
        });
        world.check(move || {
            if stage.who.borrow().iter().any(|(_, p)| p.fate() == Fate::Killed) {
                reached("past a dead one");
            }
        });
    }
}

fn searched(name: &str, schedules: u64, world: impl Fn(&World) + Copy + Send + Sync + 'static) -> Vec<Report> {
    let all: Vec<Report> = [
        Search::depth(&format!("{name}_depth"), 2).schedules(schedules),
        Search::sweep(&format!("{name}_kill")).kills(1),
        Search::sweep(&format!("{name}_kills")).kills(2).schedules(schedules),
        Search::priorities(&format!("{name}_kills_pct"), 5).kills(2).schedules(schedules),
        Search::uniform(&format!("{name}_spurious")).kills(1).spurious(2).schedules(schedules / 2),
        Search::priorities(&format!("{name}_resume_pct"), 5).stops(1).kills(1).resume().schedules(schedules / 2),
    ]
    .iter()
    .map(|search| search.run(world))
    .collect();
    for report in &all {
        report.assert_clean();
    }
    all
}

fn assert_reached(all: &[Report], outcomes: &[&str]) {
    for outcome in outcomes {
        assert!(
            all.iter().any(|r| r.outcomes().contains_key(*outcome)) || std::env::var_os("CRASHSIM_REPLAY").is_some(),
            "never came to `{outcome}`"
        );
    }
}

#[test]
fn a_waiter_of_a_monitor_gets_the_item_whichever_member_dies() {
    let all = searched("monitor", 2_000, |world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "one", 1, |s, me| _ = s.take(me, ITEMS, None));
        stage.member(world, "other", 2, |s, me| _ = s.take(me, ITEMS, None));
        stage.member(world, "puts", 3, |s, me| {
            s.put(me, ITEMS);
            s.put(me, ITEMS);
        });
        stage.recoverers(world, &[1, 2, 3], true);
        stage.rest(world);
    });
    assert_reached(&all, &["past a dead one", "told of a death inside"]);
}

#[test]
fn a_timed_out_wait_consumes_no_signal() {
    let all = searched("monitor_limit", 1_000, |world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "hasty", 1, |s, me| _ = s.take(me, ITEMS, Some(100)));
        stage.member(world, "patient", 2, |s, me| _ = s.take(me, ITEMS, None));
        stage.member(world, "puts", 3, |s, me| s.put(me, ITEMS));
        stage.recoverers(world, &[1, 2, 3], true);
        stage.rest(world);
    });
    assert_reached(&all, &["gave up"]);
}

/// Small enough to be searched whole.
#[test]
fn a_call_is_not_lost_with_the_called() {
    let report = Search::depth("monitor_called", 0).kills(1).whole().run(|world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "one", 1, |s, me| _ = s.take(me, ITEMS, None));
        let s = stage;
        world.process("other", move || _ = s.take(member(2), ITEMS, None)).immortal();
        world.process("puts", move || s.put(member(3), ITEMS)).immortal();
        stage.recoverers(world, &[1], false);
        stage.rest(world);
    });
    report.assert_clean().assert_reached(&["past a dead one"]);
    assert!(report.complete());
}

/// The same.
#[test]
fn a_call_is_not_lost_with_the_caller() {
    let report = Search::depth("monitor_caller", 0).kills(1).whole().run(|world: &World| {
        let stage = Stage::new(world);
        let s = stage;
        world.process("waits", move || _ = s.take(member(1), ITEMS, None)).immortal();
        stage.member(world, "puts", 2, |s, me| s.put(me, ITEMS));
        stage.recoverers(world, &[2], false);
        stage.rest(world);
    });
    report.assert_clean().assert_reached(&["past a dead one"]);
    assert!(report.complete());
}

/// No process comes inside after the death: a waiter learns of it all the same.
#[test]
fn all_who_wait_are_told_of_a_death_inside() {
    let report = Search::depth("monitor_told", 0).kills(1).whole().run(|world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "waits", 1, move |s, me| {
            s.enter(me);
            let wait = s.room.announce(me, OTHER);
            s.leave();
            s.room.rest(me, wait, None);
            s.enter(me);
            s.room.heard(me);
            s.leave();
        });
        stage.member(world, "dies", 2, |s, me| {
            s.enter(me);
            s.half.set(true);
            step!("half done");
            step!("and still");
            s.half.set(false);
            s.leave();
        });
        stage.recoverers(world, &[1, 2], false);
        let died_inside = move || stage.half.get() && stage.who.borrow()[1].1.fate() == Fate::Killed;
        world.may_wait(move || !died_inside());
        world.check(move || {
            if stage.told.get() {
                reached("told in its sleep");
            }
        });
    });
    report.assert_clean().assert_reached(&["told in its sleep"]);
    assert!(report.complete());
}

/// A thread that recovers a death inside is late: the death was made up for, and all slots are others' by now. It changes none of them.
#[test]
fn one_that_is_late_calls_nobody_else() {
    const WORD: u64 = 0x501 << 32 | 0x501;
    let report = Search::depth("monitor_of_others", 1).whole().run(move |world: &World| {
        let shape = Shape { members: 4, conditions: 1, bytes: 0 };
        let place = NonNull::new(world.zeroed(shape.room())).expect("memory");
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let room: Room<'static> = unsafe { Room::new(place, shape) };
        let (is_left, words) = (world.share(Cell::new(true)), shape.room() / 8);
        for i in [1, 2] {
            room.announce(member(i), 0);
        }
        // One that was called, and died inside.
        room.enter(member(1));
        room.signal(0);
        world.process("late", move || room.recover(&Visit::of_own_memory(), member(1), || is_left.get()));
        world.process("next", move || {
            room.recover(&Visit::of_own_memory(), member(1), || true);
            is_left.set(false);
            // SAFETY: the room's memory; no other process of the explorer's runs meanwhile.
            unsafe { std::slice::from_raw_parts_mut(place.cast::<u64>().as_ptr(), words).fill(WORD) };
            reached("another's");
        });
        world.prepare("last").last().run(move || {
            // SAFETY: as above.
            let now = unsafe { std::slice::from_raw_parts(place.cast::<u64>().as_ptr(), words) };
            assert!(now.iter().all(|now| *now == WORD), "changed: {now:x?}");
        });
    });
    report.assert_clean().assert_reached(&["another's"]);
    assert!(report.complete());
}
