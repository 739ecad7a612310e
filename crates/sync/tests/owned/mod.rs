//! An owned semaphore with books of its units, and its users.

#![allow(dead_code, reason = "each suite uses a part of it")]

use crate::crash::{self, Stage};
use chappe_arena::Map;
use chappe_crashsim::{Process, Shared, World, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_sync::Interrupt;
use chappe_sync::model::{self, Actor, OwnedAt, Refusal, times_freed};
use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Nothing,
    Waits,
    Posts,
}

/// What has happened to the units, as an observer sees it.
#[derive(Default)]
pub struct Books {
    pub posts: Cell<u32>,
    pub perhaps_posts: Cell<u32>,
    pub waits: Cell<u32>,
    pub perhaps_waits: Cell<u32>,
    /// Deaths of holders of the permit of a semaphore that was not demoted, where the holder had not declared to end in
    /// good order.
    pub returns: Cell<u32>,
    /// How many times the cell had become free when the holder of a demoted semaphore's permit died, or ended.
    pub kept: Cell<Option<u64>>,
    pub was_plain: Cell<bool>,
    /// The process that believes to be inside the lock.
    pub inside: Cell<u32>,
}

pub fn more(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

/// An owned semaphore with books.
#[derive(Clone, Copy)]
pub struct Owned {
    pub it: OwnedAt,
    pub map: &'static Map,
    pub books: Shared<Books>,
}

/// A thread and the member that stands for its process.
#[derive(Clone, Copy)]
pub struct Actors {
    pub owned: Owned,
    pub me: Actor,
    pub process: Actor,
    pub doing: Shared<Cell<Doing>>,
}

impl Owned {
    /// An arena with room for one owned semaphore, and that.
    pub fn new(world: &World, members: u32) -> (Stage, Owned) {
        let (stage, _) = Stage::new(world, members, &[], 2);
        let it = OwnedAt::make(stage.map, "s").expect("room for one");
        let owned = Owned { it, map: stage.map, books: world.share(Books::default()) };
        let [permit, count] = it.objects();
        world.name_with(&permit.slot.word, "cell of s", model::cell_in_words);
        world.name_with(&count.slot.word, "count of s", model::units_in_words);
        world.name(&permit.run, "flags of s");
        for (part, name) in [(permit, "permit"), (count, "count")] {
            world.name(&part.waiting[0], format!("waiters of the {name}"));
            world.name(&part.head, format!("head of the {name}"));
        }
        world.invariant(move || owned.holds());
        (stage, owned)
    }

    pub fn holds(&self) {
        let (b, it) = (&self.books, self.it);
        if it.is_removed() {
            return;
        }
        let plain = it.is_plain();
        assert!(plain || !b.was_plain.replace(plain), "it is owned again");
        assert!(plain || it.count() == 0, "a unit is there that nobody gave back, and it is not demoted");
        assert!(plain || !it.is_retired(), "a permit is retired that is to come back");
        if let Some(times) = b.kept.get() {
            assert_eq!(times_freed(it.cell()), times, "what a dead process held comes back, though it was demoted");
        }
    }

    /// The process dies, or ends, and has the permit.
    pub fn gone(&self) {
        match self.it.is_plain() || self.it.is_kept() {
            true => self.books.kept.set(Some(times_freed(self.it.cell()))),
            false => more(&self.books.returns),
        }
    }

    /// A thread, and its process, joined before the schedule begins.
    pub fn actors(&self, world: &World, p: Process, name: &'static str) -> Actors {
        let (owned, map) = (*self, self.map);
        let (me, process) = p.before(|| {
            // A process that no longer maps the arena has called exec, as far as others see.
            model::attach(&crash::directory(), "default").expect("it is there");
            let process = Actor::join_for_process(map, name).expect("a slot");
            (Actor::join(map, name).expect("a slot"), process)
        });
        let actors = Actors { owned, me, process, doing: world.share(Cell::new(Doing::Nothing)) };
        let pid = p.pid();
        p.on_death(move || {
            actors.dies();
            if owned.books.inside.get() == pid {
                owned.books.inside.set(0);
            }
        });
        actors
    }

    /// A process that has the permit from the start.
    pub fn holder(&self, world: &World, p: Process, name: &'static str) -> Actors {
        let actors = self.actors(world, p, name);
        p.before(|| assert_eq!(actors.try_wait(), Ok(())));
        actors
    }

    /// A process that has the permit from the start, gives it back, and lives on.
    pub fn giver(&self, world: &World, stage: &Stage, name: &'static str) -> Process {
        let p = world.prepare(name);
        let a = self.holder(world, p, name);
        stage.lasting(p, move || {
            assert!(a.post());
            reached("given back");
        })
    }

    /// A process that waits, is inside, posts, and ends; with its reaper.
    pub fn locker(&self, world: &World, stage: &Stage, name: &'static str, done: &'static str) -> Process {
        let p = world.prepare(name);
        let (a, books, pid) = (self.actors(world, p, name), self.books, p.pid());
        stage.reaper(p.run(move || {
            a.wait(None).expect("the lock");
            assert_eq!(books.inside.replace(pid), 0, "two are inside");
            chappe_plat::step!("is inside");
            assert_eq!(books.inside.replace(0), pid);
            assert!(a.post());
            reached(done);
        }))
    }

    /// A process that waits, keeps what it gets, and lives on; with its reaper.
    pub fn taker(&self, world: &World, stage: &Stage, name: &'static str, served: &'static str) -> Process {
        let p = world.prepare(name);
        let a = self.actors(world, p, name);
        stage.reaper(stage.lasting(p, move || {
            a.wait(None).expect("a unit");
            reached(served);
        }))
    }

    /// A process that posts what it has not got, and lives on.
    pub fn foreigner(&self, world: &World, stage: &Stage, name: &'static str) -> Process {
        let p = world.prepare(name);
        let a = self.actors(world, p, name);
        stage.lasting(p, move || {
            assert!(a.post());
            reached("posted");
        })
    }

    /// No sleeping thread has overlooked anything.
    pub fn may_wait_for_nothing(&self, world: &World) {
        let it = self.it;
        world.may_wait(move || !it.is_there() && it.count() == 0);
    }

    /// At the end: everything of the dead is recovered, and the books balance.
    pub fn last(&self, world: &World) {
        let owned = *self;
        let p = world.prepare("last").last();
        p.run(move || owned.settled());
    }

    pub fn settled(&self) {
        let (b, it) = (&self.books, self.it);
        let process = Actor::join_for_process(self.map, "last").expect("a slot for the last");
        // Processes that live on with what they have may be killed meanwhile.
        let (there, returns) = loop {
            let returns = b.returns.get();
            self.map.recover_dead();
            let there = it.value();
            if b.returns.get() == returns {
                break (there, returns);
            }
        };
        let sure = if it.is_plain() { 0 } else { returns };
        let (gave, took) = (1 + b.posts.get(), b.waits.get());
        let (least, most) = (gave + sure, gave + returns + b.perhaps_posts.get());
        let perhaps = b.perhaps_waits.get();
        assert!(there + took <= most, "{there} units, {took} taken, of {most} at most");
        assert!(there + took + perhaps >= least, "{there} units, {took} taken, {perhaps} perhaps, of {least} at least");
        assert!(!it.is_awaited(), "somebody's wait bit still stands");
        for unit in 0..there {
            assert_eq!(it.try_wait(&process), Ok(()), "unit {unit}");
        }
        let more = it.try_wait(&process);
        assert!(more == Err(Refusal::NoneFree) || b.returns.get() > returns, "more units than there are");
        if there > 0 {
            reached(if it.is_plain() { "settled, demoted" } else { "settled, owned" });
        }
    }
}

impl Actors {
    pub fn during<R>(&self, doing: Doing, act: impl FnOnce() -> R) -> R {
        self.doing.set(doing);
        let done = act();
        self.doing.set(Doing::Nothing);
        done
    }

    pub fn wait(&self, deadline: Option<u64>) -> Result<(), Refusal> {
        let got = self.during(Doing::Waits, || self.owned.it.wait(&self.me, &self.process, deadline));
        self.note(got)
    }

    /// As [`Actors::wait`] for ever; a signal or `by` ends it.
    pub fn wait_interruptible(&self, by: &Interrupt) -> Result<(), Refusal> {
        let got = self.during(Doing::Waits, || self.owned.it.wait_interruptible(&self.me, &self.process, by));
        self.note(got)
    }

    pub fn try_wait(&self) -> Result<(), Refusal> {
        let got = self.during(Doing::Waits, || self.owned.it.try_wait(&self.process));
        self.note(got)
    }

    pub fn note(&self, got: Result<(), Refusal>) -> Result<(), Refusal> {
        if got.is_ok() {
            more(&self.owned.books.waits);
        }
        got
    }

    pub fn post(&self) -> bool {
        let it = self.owned.it;
        let held = it.is_held_by(&self.process);
        let given = self.during(Doing::Posts, || it.post(&self.process));
        if given {
            more(&self.owned.books.posts);
            assert!(held || it.is_plain(), "somebody has posted what it does not hold, and it is a lock still");
        }
        given
    }

    /// At the moment of its death.
    pub fn dies(&self) {
        let (b, it) = (&self.owned.books, self.owned.it);
        let held = it.is_held_by(&self.process);
        let word = &self.owned.map.member(self.me.member()).state;
        // SeqCst: an observer's look, which is no step of the schedule.
        let idle = model::state_in_words(word.load(SeqCst)).starts_with("idle");
        match self.doing.get() {
            Doing::Waits if held => more(&b.waits),
            Doing::Waits if idle => more(&b.perhaps_waits),
            Doing::Posts if !held => more(&b.perhaps_posts),
            _ => {}
        }
        if held {
            self.owned.gone();
        }
    }
}
