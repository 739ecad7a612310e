//! A semaphore with books of its units: what the living know to have added and taken, and what the dead may have done.

#![allow(dead_code, reason = "each suite uses a part of it")]

use crate::crash::Stage;
use chappe_crashsim::{Fate, Process, Shared, World, reached};
use chappe_sync::model::{self, Actor, Refusal, SemaphoreAt};
use std::cell::Cell;

/// What has happened to the units of one semaphore, as an observer sees it.
#[derive(Default)]
pub struct Books {
    /// How many there were after the last step.
    pub there: Cell<u32>,
    /// Steps that added `lot`, and steps that took one.
    pub added: Cell<u32>,
    pub taken: Cell<u32>,
    /// What the processes that did not die know of.
    pub ups: Cell<u32>,
    pub downs: Cell<u32>,
    /// What the processes that died may have done.
    pub perhaps_up: Cell<u32>,
    pub perhaps_down: Cell<u32>,
}

/// A semaphore whose units are counted after every step, and all of whose ups add the same lot.
#[derive(Clone, Copy)]
pub struct Counted {
    pub semaphore: SemaphoreAt,
    pub books: Shared<Books>,
    pub lot: u32,
}

pub fn more(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

impl Counted {
    pub fn new(world: &World, stage: &Stage, name: &str, value: u32, lot: u32, barging: bool) -> Counted {
        let semaphore = SemaphoreAt::make(stage.map, name, value, barging).expect("a semaphore");
        Counted::of(world, semaphore, name, lot)
    }

    pub fn of(world: &World, semaphore: SemaphoreAt, name: &str, lot: u32) -> Counted {
        let o = semaphore.map.object(semaphore.place.index);
        world.name_with(&o.slot.word, format!("word of {name}"), model::units_in_words);
        world.name(&o.waiting[0], format!("waiters of {name}"));
        world.name(&o.head, format!("head of {name}"));
        let books = world.share(Books::default());
        books.there.set(semaphore.units());
        world.invariant(move || {
            let (before, now) = (books.there.replace(semaphore.units()), semaphore.units());
            match now {
                n if n == before => {}
                n if n == before + lot => more(&books.added),
                n if n + 1 == before => more(&books.taken),
                _ => panic!("the units went from {before} to {now} in one step"),
            }
        });
        Counted { semaphore, books, lot }
    }

    pub fn up(&self) {
        assert!(self.semaphore.up(self.lot), "refused");
        more(&self.books.ups);
    }

    pub fn down(&self, me: &Actor, deadline: Option<u64>) -> Result<(), Refusal> {
        let got = me.down(self.semaphore, deadline);
        if got.is_ok() {
            more(&self.books.downs);
        }
        got
    }

    /// A member that will down: if it dies with its wait not over, it has taken nothing.
    pub fn downer(&self, stage: &Stage, p: Process, name: &'static str) -> Actor {
        let me = stage.member(p, name);
        let (map, books) = (stage.map, self.books);
        let word = &map.member(me.member()).state;
        p.on_death(move || {
            let idle = model::state_in_words(word.load(chappe_plat::atomic::Ordering::SeqCst)).starts_with("idle");
            if idle {
                more(&books.perhaps_down);
            }
        });
        me
    }

    /// A process that ups so many times, and lives on.
    pub fn upper(&self, stage: &Stage, world: &World, name: &'static str, times: u32) -> Process {
        let p = world.prepare(name);
        let _ = stage.member(p, name);
        let all = *self;
        p.on_death(move || more(&all.books.perhaps_up));
        stage.lasting(p, move || {
            for _ in 0..times {
                all.up();
            }
            reached("raised");
        })
    }

    /// As `upper`; if it is killed, another adds what it may not have added: no waiter is left without.
    pub fn sure_upper(&self, stage: &Stage, world: &World, name: &'static str, times: u32) {
        let done = world.share(Cell::new(false));
        let p = world.prepare(name);
        let _ = stage.member(p, name);
        let all = *self;
        p.on_death(move || more(&all.books.perhaps_up));
        stage.lasting(p, move || {
            for _ in 0..times {
                all.up();
            }
            done.set(true);
            reached("raised");
        });
        let reserve = world.prepare("reserve").immortal();
        let _ = stage.member(reserve, "reserve");
        reserve.run(move || {
            while !done.get() && p.fate() == Fate::Alive {
                chappe_plat::atomic::pause();
            }
            if !done.get() {
                for _ in 0..times {
                    all.up();
                }
            }
        });
    }

    /// A process that downs once, and lives on: its death would make up for what is forgotten.
    pub fn lasting_customer(&self, stage: &Stage, world: &World, name: &'static str, served: &'static str) {
        let p = world.prepare(name);
        let me = self.downer(stage, p, name);
        let all = *self;
        stage.reaper(stage.lasting(p, move || {
            all.down(&me, None).expect("a unit");
            reached(served);
        }));
    }

    /// A process that downs once, and ends; with its reaper.
    pub fn customer(&self, stage: &Stage, world: &World, name: &'static str, served: &'static str) -> Process {
        let p = world.prepare(name);
        let me = self.downer(stage, p, name);
        let all = *self;
        stage.reaper(p.run(move || {
            all.down(&me, None).expect("a unit");
            reached(served);
        }))
    }

    /// At the end, everything of the dead recovered: the books balance, except for what the dead may have done.
    pub fn settled(&self, stage: &Stage) {
        stage.map.recover_dead();
        let (b, s) = (&self.books, self.semaphore);
        let within = |what: &str, n: u32, sure: u32, perhaps: u32| {
            assert!((sure..=sure + perhaps).contains(&n), "{what}: {n}, known are {sure}, {perhaps} more at most");
        };
        within("units added", b.added.get(), b.ups.get(), b.perhaps_up.get());
        within("units taken", b.taken.get(), b.downs.get(), b.perhaps_down.get());
        assert_eq!(s.value(), s.units(), "one is still under way, or granted to nobody");
        assert!(!s.map.anybody_waits(s.place.index), "somebody's wait bit still stands");
        let me = Actor::join(stage.map, "last").expect("a slot for the last");
        for i in 0..s.value() {
            assert_eq!(me.try_down(s), Ok(()), "unit {i}");
        }
        assert_eq!(me.try_down(s), Err(Refusal::NoneFree));
        me.leave();
    }
}

pub fn last(world: &World, stage: Stage, all: &[Counted]) {
    let all = all.to_vec();
    world.prepare("last").last().run(move || all.iter().for_each(|s| s.settled(&stage)));
}

/// Only the dead can have left a waiter asleep: as many units as customers, so all are served, or fewer if uppers died.
pub fn enough(world: &World, all: &[Counted]) {
    let all = all.to_vec();
    world.may_wait(move || all.iter().all(|s| s.semaphore.units() == 0 && s.books.perhaps_up.get() > 0));
}
