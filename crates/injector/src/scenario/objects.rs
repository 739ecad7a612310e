//! Making, resizing and removing pools and arenas, and attaching.

use std::mem::forget;

use chappe::tube::named::{Kind, Tube};
use chappe::{Arena, ArenaError, Condvar, Pool, PoolError, Semaphore};

use super::Scene::{Alone, Met, Stopped, Waiters};
use super::messages::Message;
use super::world::{OPTIONS, World, fault, fine};
use super::{Operation, Reason, Row};
use crate::board::{Fault, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![
        Box::new(Attach),
        Box::new(Open::Semaphore),
        Box::new(Open::Condvar),
        Box::new(Open::Tube),
        Box::new(CreatePool),
        Box::new(Resize { from: 1, to: 4 }),
        Box::new(Resize { from: 4, to: 1 }),
        Box::new(RemovePool),
        Box::new(CreateArena),
        Box::new(RemoveArena),
    ]
}

struct Attach;

impl Operation for Attach {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("attach, join, acquire", &[Alone, Waiters, Met, Stopped])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        w.stage().begin();
        let pool = Pool::open("p");
        let got = pool.as_ref().map(Pool::acquire);
        w.stage().end(matches!(got, Ok(Ok(_))));
        forget(got);
        forget(pool);
    }
}

/// Mutexes have a scenario of their own.
enum Open {
    Semaphore,
    Condvar,
    Tube,
}

impl Operation for Open {
    fn row(&self) -> Row {
        Row::of(
            match self {
                Open::Semaphore => "open semaphore",
                Open::Condvar => "open condvar",
                Open::Tube => "open tube",
            },
            &[Alone, Stopped],
        )
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        match self {
            Open::Semaphore => fine("making it", Semaphore::create("s", 1)).map(drop),
            Open::Condvar => fine("making it", Condvar::create("s")).map(drop),
            Open::Tube => w.make_tube("s", Kind::Mpmc, 2),
        }
    }
    fn perform(&self, w: &World) {
        w.stage().begin();
        let opened = match self {
            Open::Semaphore => Semaphore::open("s").map(forget).is_ok(),
            Open::Condvar => Condvar::open("s").map(forget).is_ok(),
            Open::Tube => Tube::<Message>::open("s").map(forget).is_ok(),
        };
        w.stage().end(opened);
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.in_order(&["p", "s"])
    }
}

struct CreatePool;

impl Operation for CreatePool {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Arena), ..Row::of("create pool", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        w.warm("p");
        w.stage().begin();
        let made = Pool::create("new", 4);
        w.stage().end(made.is_ok());
    }
    fn meet(&self, w: &World) -> Verdict {
        let pool = fine("making the pool too", Pool::open_or_create("new", 4))?;
        w.pass_through(pool.acquire())
    }
    fn check(&self, w: &mut World) -> Verdict {
        match Pool::open("new") {
            Ok(_) => {}
            Err(PoolError::Unknown { .. }) if !w.was_done() => {
                fine("making it anew", Pool::create("new", 4))?;
            }
            Err(e) => return fault(Fault::Torn, format!("after its creation: {e}")),
        }
        w.audit("new", 4)?;
        w.in_order(&["new", "p"])
    }
}

struct Resize {
    from: u32,
    to: u32,
}

impl Operation for Resize {
    fn row(&self) -> Row {
        Row {
            held_up_by: Some(Reason::Arena),
            ..Row::of(
                if self.from < self.to { "resize 1 to 4" } else { "resize 4 to 1" },
                &[Alone, Waiters, Met, Stopped],
            )
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", self.from)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let done = pool.resize(self.to);
        w.stage().end(done.is_ok());
    }
    fn meet(&self, w: &World) -> Verdict {
        fine("resizing too", w.open("p")?.resize(self.to))
    }
    fn check(&self, w: &mut World) -> Verdict {
        let pool = w.open("p")?;
        let now = pool.permits();
        if now != self.to && (now != self.from || w.was_done()) {
            return fault(Fault::Torn, format!("{now} permits after a resize from {} to {}", self.from, self.to));
        }
        w.audit("p", now)?;
        fine("resizing again", pool.resize(self.to))?;
        w.audit("p", self.to)?;
        w.full_house("default", &["p"])
    }
}

/// With waiters it is by force.
struct RemovePool;

impl Operation for RemovePool {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Arena), ..Row::of("remove pool", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("q", 2)?;
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        w.warm("p");
        w.stage().begin();
        let gone = Pool::remove("p", w.scene() == Waiters);
        // Met: the process that came meanwhile may hold it.
        w.stage().end(gone.is_ok() || w.scene() == Met);
    }
    fn others(&self, w: &mut World) -> Verdict {
        w.take_or_victim_has("q")
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.pass_or_dead("p", false)
    }
    fn meet(&self, w: &World) -> Verdict {
        w.pass_or_dead("p", true)
    }
    fn check(&self, w: &mut World) -> Verdict {
        match Pool::open("p") {
            Ok(_) if w.was_done() && w.scene() != Met => return fault(Fault::Torn, "removed, it is still there"),
            Ok(_) => {}
            Err(PoolError::Unknown { .. }) => {
                fine("making it anew", Pool::create("p", 1))?;
            }
            Err(e) => return fault(Fault::Torn, format!("after its removal: {e}")),
        }
        w.audit("p", 1)?;
        w.audit("q", 2)?;
        w.full_house("default", &["p", "q"])
    }
}

struct CreateArena;

impl Operation for CreateArena {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Directory), ..Row::of("create arena", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        // What is not the operation's is made ready before.
        w.warm("p");
        w.stage().begin();
        let made = Arena::create("new", &OPTIONS);
        w.stage().end(made.is_ok() || w.scene() == Met);
    }
    fn meet(&self, w: &World) -> Verdict {
        fine("making the arena too", Arena::open_or_create("new", &OPTIONS))?;
        let pool = fine("making a pool in it", Pool::create("new/x", 1))?;
        w.pass_through(pool.acquire())
    }
    fn check(&self, w: &mut World) -> Verdict {
        match Arena::open("new") {
            Ok(_) => w.files(&["default", "new"])?,
            Err(ArenaError::NotFound { .. }) if !w.was_done() => {
                w.files(&["default"])?;
                fine("making it anew", Arena::create("new", &OPTIONS))?;
            }
            Err(e) => return fault(Fault::Torn, format!("after its creation: {e}")),
        }
        fine("making a pool in it", Pool::open_or_create("new/x", 1))?;
        w.audit("new/x", 1)?;
        w.full_house("new", &["x"])?;
        w.in_order(&["p"])
    }
}

/// With waiters it is by force, and they wait in it.
struct RemoveArena;

impl Operation for RemoveArena {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Directory), ..Row::of("remove arena", &[Alone, Waiters, Met]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        let pool = w.make("old/x", 1)?;
        if w.scene().waits() {
            return w.hold(pool);
        }
        // The keeper's own attachment would keep it.
        fine("opening the arena", Arena::open("old"))?.leave();
        Ok(())
    }
    fn perform(&self, w: &World) {
        w.stage().begin();
        let gone = Arena::remove("old", w.scene() == Waiters);
        w.stage().end(gone.is_ok() || w.scene() == Met);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.pass_or_dead("old/x", false)
    }
    fn meet(&self, w: &World) -> Verdict {
        w.pass_or_dead("old/x", true)
    }
    fn check(&self, w: &mut World) -> Verdict {
        match Arena::open("old") {
            Ok(_) if w.was_done() && w.scene() != Met => return fault(Fault::Torn, "removed, it is still there"),
            Ok(_) => {}
            Err(ArenaError::NotFound { .. }) => {
                fine("making it anew", Arena::open_or_create("old", &OPTIONS))?;
            }
            Err(e) => return fault(Fault::Torn, format!("after its removal: {e}")),
        }
        fine("making a pool in it", Pool::open_or_create("old/x", 1))?;
        w.files(&["old"])?;
        w.audit("old/x", 1)?;
        w.full_house("old", &["x"])
    }
}
