//! What puts right what others have left: `doctor`, `settle`, `force_release`.

use std::mem::forget;
use std::time::Duration;

use chappe::{Arena, Pool};

use super::Scene::{Alone, Met, Stopped, Waiters};
use super::world::{World, fine};
use super::{Operation, Reason};
use crate::board::Verdict;

fn held_by_another(w: &World, then: impl FnOnce(&'static Pool)) -> Verdict {
    let take = || then(w.open("p").expect("the keeper has made it"));
    w.die_with(take, "did not get its permit")
}

/// A holder has died. One arena: for what is around them, doctor looks at every process of the machine, and changes nothing.
/// `puts_right`: Only the part that a thread of its own does: it frees what no live process accounts for, under the arena's lock.
fn doctor(puts_right: bool) -> Operation {
    Operation::of(if puts_right { "doctor, puts right" } else { "doctor" }, &[Alone, Met, Stopped])
        .build(|w| {
            w.make("p", 1)?;
            held_by_another(w, |pool| forget(fine("taking", pool.try_acquire()).expect("it is free")))
        })
        .perform(move |w| {
            w.attach_all();
            let arena = Arena::open("default").expect("it is there");
            w.stage().begin();
            let done = if puts_right {
                arena.put_right(Duration::from_secs(1)).is_ok()
            } else {
                chappe::doctor::examine("default").error.is_none()
            };
            w.stage().end(done);
        })
        .others(|w| {
            let pool = w.open("p")?;
            w.pass_through(pool.acquire_timeout(w.stage().limit))
        })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        doctor(false),
        doctor(true),
        // A holder has died with a lease, and no job goes on.
        Operation::of("settle", &[Alone])
            // Looks at every process of the machine, for the mark that a job may bear.
            .long(true)
            .build(|w| {
                w.make("p", 1)?;
                held_by_another(w, |pool| {
                    let mut permit = pool.try_acquire().expect("it is free");
                    let lease = permit.lease().expect("a lease");
                    forget((permit, lease));
                })
            })
            .perform(|w| {
                let pool = w.open("p").expect("the keeper has made it");
                // The permit has no holder from now on, and its job's until it is looked for.
                Arena::open("default").expect("it is there").map().recover_dead();
                w.stage().begin();
                pool.reclaim();
                w.stage().end(true);
            }),
        // The keeper has the permit, which is taken from it; a waiter gets it then, or when the
        // keeper gives it back.
        Operation::of("force_release", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Keeper)
            .build(|w| {
                let pool = w.make("p", 1)?;
                let permit = fine("taking a free permit", pool.try_acquire())?;
                // Nothing happens if it is the keeper's no more.
                w.owe(move || drop(permit));
                Ok(())
            })
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let done = pool.force_release(0);
                // Stopped: there may be nothing to take any more, since the keeper has given it back.
                w.stage().end(done.is_ok() || w.scene() == Stopped);
            })
            .others(|w| {
                w.let_go();
                w.take_or_victim_has("p")
            }),
    ]
}
