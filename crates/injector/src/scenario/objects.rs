//! Making, resizing and removing pools and arenas, and attaching.

use std::mem::forget;

use chappe::tube::named::{Kind, Tube};
use chappe::{Arena, ArenaError, Condvar, Pool, PoolError, Semaphore};

use super::Scene::{Alone, Met, Stopped, Waiters};
use super::messages::Message;
use super::world::{OPTIONS, World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

/// Mutexes have a scenario of their own.
fn open(
    name: &'static str,
    make: impl Fn(&World) -> Verdict + 'static,
    open: impl Fn() -> bool + 'static,
) -> Operation {
    Operation::of(name, &[Alone, Stopped])
        .build(move |w| {
            w.make("p", 1)?;
            make(w)
        })
        .perform(move |w| {
            w.stage().begin();
            let opened = open();
            w.stage().end(opened);
        })
        .check(|w| w.in_order(&["p", "s"]))
}

fn resize(from: u32, to: u32) -> Operation {
    Operation::of(if from < to { "resize 1 to 4" } else { "resize 4 to 1" }, &[Alone, Waiters, Met, Stopped])
        .held_up_by(Reason::Arena)
        .build(move |w| w.make_held("p", from))
        .perform(move |w| {
            let pool = w.warm("p");
            w.stage().begin();
            let done = pool.resize(to);
            w.stage().end(done.is_ok());
        })
        .meet(move |w| fine("resizing too", w.open("p")?.resize(to)))
        .check(move |w| {
            let pool = w.open("p")?;
            let now = pool.permits();
            if now != to && (now != from || w.was_done()) {
                return fault(Fault::Torn, format!("{now} permits after a resize from {} to {}", from, to));
            }
            w.audit("p", now)?;
            fine("resizing again", pool.resize(to))?;
            w.audit("p", to)?;
            w.full_house("default", &["p"])
        })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("attach, join, acquire", &[Alone, Waiters, Met, Stopped])
            .victim_sleeps(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.stage().begin();
                let pool = Pool::open("p");
                let got = pool.as_ref().map(Pool::acquire);
                w.stage().end(matches!(got, Ok(Ok(_))));
                forget(got);
                forget(pool);
            }),
        open(
            "open semaphore",
            |_| fine("making it", Semaphore::create("s", 1)).map(drop),
            || Semaphore::open("s").map(forget).is_ok(),
        ),
        open(
            "open condvar",
            |_| fine("making it", Condvar::create("s")).map(drop),
            || Condvar::open("s").map(forget).is_ok(),
        ),
        open("open tube", |w| w.make_tube("s", Kind::Mpmc, 2), || Tube::<Message>::open("s").map(forget).is_ok()),
        Operation::of("create pool", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let made = Pool::create("new", 4);
                w.stage().end(made.is_ok());
            })
            .meet(|w| {
                let pool = fine("making the pool too", Pool::open_or_create("new", 4))?;
                w.pass_through(pool.acquire())
            })
            .check(|w| {
                match Pool::open("new") {
                    Ok(_) => {}
                    Err(PoolError::Unknown { .. }) if !w.was_done() => {
                        fine("making it anew", Pool::create("new", 4))?;
                    }
                    Err(e) => return fault(Fault::Torn, format!("after its creation: {e}")),
                }
                w.audit("new", 4)?;
                w.in_order(&["new", "p"])
            }),
        resize(1, 4),
        resize(4, 1),
        // With waiters it is by force.
        Operation::of("remove pool", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                w.make("q", 2)?;
                w.make_held("p", 1)
            })
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let gone = Pool::remove("p", w.scene() == Waiters);
                // Met: the process that came meanwhile may hold it.
                w.stage().end(gone.is_ok() || w.scene() == Met);
            })
            .others(|w| w.take_or_victim_has("q"))
            .wait(|w| w.pass_or_dead("p", false))
            .meet(|w| w.pass_or_dead("p", true))
            .check(|w| {
                match Pool::open("p") {
                    Ok(_) if w.was_done() && w.scene() != Met => {
                        return fault(Fault::Torn, "removed, it is still there");
                    }
                    Ok(_) => {}
                    Err(PoolError::Unknown { .. }) => {
                        fine("making it anew", Pool::create("p", 1))?;
                    }
                    Err(e) => return fault(Fault::Torn, format!("after its removal: {e}")),
                }
                w.audit("p", 1)?;
                w.audit("q", 2)?;
                w.full_house("default", &["p", "q"])
            }),
        Operation::of("create arena", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Directory)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                // What is not the operation's is made ready before.
                w.warm("p");
                w.stage().begin();
                let made = Arena::create("new", &OPTIONS);
                w.stage().end(made.is_ok() || w.scene() == Met);
            })
            .meet(|w| {
                fine("making the arena too", Arena::open_or_create("new", &OPTIONS))?;
                let pool = fine("making a pool in it", Pool::create("new/x", 1))?;
                w.pass_through(pool.acquire())
            })
            .check(|w| {
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
            }),
        // With waiters it is by force, and they wait in it.
        Operation::of("remove arena", &[Alone, Waiters, Met])
            .held_up_by(Reason::Directory)
            .build(|w| {
                let pool = w.make("old/x", 1)?;
                if w.scene().waits() {
                    return w.hold(pool);
                }
                // The keeper's own attachment would keep it.
                fine("opening the arena", Arena::open("old"))?.leave();
                Ok(())
            })
            .perform(|w| {
                w.stage().begin();
                let gone = Arena::remove("old", w.scene() == Waiters);
                w.stage().end(gone.is_ok() || w.scene() == Met);
            })
            .wait(|w| w.pass_or_dead("old/x", false))
            .meet(|w| w.pass_or_dead("old/x", true))
            .check(|w| {
                match Arena::open("old") {
                    Ok(_) if w.was_done() && w.scene() != Met => {
                        return fault(Fault::Torn, "removed, it is still there");
                    }
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
            }),
    ]
}
