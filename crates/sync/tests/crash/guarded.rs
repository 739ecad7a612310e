//! A mutex with data, and its users: the process that finds the data torn is told, and no other; one is inside at a time.

use super::Stage;
use chappe_crashsim::{Process, Shared, World, reached};
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_sync::model::{self, Actor, Locking, MutexAt};
use std::cell::Cell;

/// What the mutex guards: two numbers that differ only while a process changes them.
#[derive(Default)]
pub struct Data {
    pub left: Cell<u32>,
    pub right: Cell<u32>,
    /// The process inside: its number.
    pub inside: Cell<u32>,
    /// How many have gone with the lock in their hands, by death or otherwise.
    pub gone: Cell<u32>,
    /// What the processes that did not die know of having done.
    pub done: Cell<u32>,
    /// How many of the gone have done half of it.
    pub half: Cell<u32>,
    /// The lock was seen reserved.
    pub reserved: Cell<bool>,
}

#[derive(Clone, Copy)]
pub struct Guarded {
    pub mutex: MutexAt,
    pub data: Shared<Data>,
}

/// The word as text.
pub fn word(mutex: MutexAt) -> String {
    model::lock_in_words(mutex.map.object(mutex.place.index).slot.word.load(Ordering::SeqCst))
}

impl Guarded {
    /// A guarded mutex of this name.
    pub fn new(world: &World, stage: &Stage, name: &str) -> Guarded {
        Guarded::of(MutexAt::make(stage.map, name).expect("a mutex"), world, name)
    }

    /// A mutex that is there, guarded.
    pub fn of(mutex: MutexAt, world: &World, name: &str) -> Guarded {
        let o = mutex.map.object(mutex.place.index);
        world.name_with(&o.slot.word, format!("word of {name}"), model::lock_in_words);
        world.name(&o.waiting[0], format!("waiters of {name}"));
        world.name(&o.head, format!("head of {name}"));
        let all = Guarded { mutex, data: world.share(Data::default()) };
        world.invariant(move || {
            if !all.data.reserved.get() && word(mutex).starts_with("reserved") {
                all.data.reserved.set(true);
                reached("reserved");
            }
        });
        all
    }

    /// A member that may die inside.
    pub fn member(&self, stage: &Stage, p: Process, name: &'static str) -> Actor {
        let (me, data, pid) = (stage.member(p, name), self.data, p.pid());
        p.on_death(move || data.abandoned(pid));
        me
    }

    /// Comes in, unless it was refused; if it is told that the data is torn, it repairs the data first.
    pub fn enter(&self, me: &Actor, how: Locking) -> bool {
        let d = &self.data;
        if !matches!(how, Locking::Locked | Locking::Torn) {
            return false;
        }
        let pid = chappe_plat::process::pid();
        assert_eq!(d.inside.replace(pid), 0, "two are inside");
        assert_eq!(self.mutex.holder(), Some(me.member()));
        if how == Locking::Torn {
            assert!(d.gone.get() > 0, "nobody died, and the data is torn");
            reached(if d.left.get() == d.right.get() { "told for nothing" } else { "told, and torn" });
            step!("repairs");
            d.right.set(d.left.get());
            me.tear(self.mutex, false);
        }
        assert_eq!(d.left.get(), d.right.get(), "not told");
        true
    }

    /// Does something with the data, and unlocks.
    pub fn work(&self, me: &Actor) {
        let d = &self.data;
        d.left.set(d.left.get() + 1);
        step!("is inside");
        d.right.set(d.right.get() + 1);
        d.done.set(d.done.get() + 1);
        step!("has done it");
        d.inside.set(0);
        assert!(me.unlock(self.mutex), "somebody took the lock away");
    }

    /// A process that locks, does something, unlocks, so many times, and lives on; with its reaper.
    pub fn customer(&self, stage: &Stage, world: &World, name: &'static str, times: u32) -> Process {
        let p = world.prepare(name);
        let (me, all) = (self.member(stage, p, name), *self);
        stage.reaper(stage.lasting(p, move || {
            for _ in 0..times {
                assert!(all.enter(&me, me.lock(all.mutex, None)), "refused");
                all.work(&me);
            }
            reached(name);
        }))
    }

    /// A process that is inside from the start, comes out, and lives on.
    pub fn holder(&self, stage: &Stage, world: &World) -> Process {
        let p = world.prepare("holder");
        let (me, all) = (self.member(stage, p, "holder"), *self);
        p.before(|| assert!(all.enter(&me, me.try_lock(all.mutex))));
        stage.lasting(p, move || {
            all.work(&me);
            reached("holder");
        })
    }

    /// At the end: free, as torn as it must be, and nothing forgotten.
    pub fn settled(&self, stage: &Stage) {
        stage.map.recover_dead();
        let me = Actor::join(stage.map, "last").expect("a slot for the last");
        let d = &self.data;
        assert!(!self.mutex.map.anybody_waits(self.mutex.place.index), "somebody's wait bit still stands");
        let how = me.try_lock(self.mutex);
        if how == Locking::Condemned {
            assert!(word(self.mutex).starts_with("condemned"));
        } else {
            assert!(self.enter(&me, how), "{how:?}");
            assert!((d.done.get()..=d.done.get() + d.half.get()).contains(&d.left.get()), "somebody's work is lost");
            d.inside.set(0);
            assert!(me.unlock(self.mutex));
            assert_eq!(word(self.mutex), "free", "a flag still stands");
        }
        me.leave();
    }
}

impl Data {
    pub fn abandoned(&self, pid: u32) {
        if self.inside.get() == pid {
            self.inside.set(0);
            self.half.set(self.half.get() + u32::from(self.left.get() != self.right.get()));
        }
        // Only the process knew whether it had the lock already, or still.
        self.gone.set(self.gone.get() + 1);
    }
}

/// The world's last process: all is settled.
pub fn last(world: &World, stage: Stage, all: &[Guarded]) {
    let all = all.to_vec();
    world.prepare("last").last().run(move || all.iter().for_each(|m| m.settled(&stage)));
}
