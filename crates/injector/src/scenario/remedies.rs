//! What puts right what others have left: `doctor`, `settle`, `force_release`.

use std::mem::forget;
use std::time::Duration;

use chappe::{Arena, Pool};

use super::Scene::{Alone, Met, Stopped, Waiters};
use super::world::{World, fine};
use super::{Operation, Reason, Row};
use crate::board::Verdict;

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![
        Box::new(Doctor { puts_right: false }),
        Box::new(Doctor { puts_right: true }),
        Box::new(Settle),
        Box::new(Force),
    ]
}

fn held_by_another(w: &World, then: impl FnOnce(&'static Pool)) -> Verdict {
    let take = || then(w.open("p").expect("the keeper has made it"));
    w.die_with(take, "did not get its permit")
}

/// A holder has died. One arena: for what is around them, doctor looks at every process of the machine, and changes nothing.
struct Doctor {
    /// Only the part that a thread of its own does: it frees what no live process accounts for, under the arena's lock.
    puts_right: bool,
}

impl Operation for Doctor {
    fn row(&self) -> Row {
        Row::of(if self.puts_right { "doctor, puts right" } else { "doctor" }, &[Alone, Met, Stopped])
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        held_by_another(w, |pool| forget(fine("taking", pool.try_acquire()).expect("it is free")))
    }
    fn perform(&self, w: &World) {
        w.attach_all();
        let arena = Arena::open("default").expect("it is there");
        w.stage().begin();
        let done = if self.puts_right {
            arena.put_right(Duration::from_secs(1)).is_ok()
        } else {
            chappe::doctor::examine("default").error.is_none()
        };
        w.stage().end(done);
    }
    fn others(&self, w: &mut World) -> Verdict {
        let pool = w.open("p")?;
        w.pass_through(pool.acquire_timeout(w.stage().limit))
    }
}

/// A holder has died with a lease, and no job goes on.
struct Settle;

impl Operation for Settle {
    fn row(&self) -> Row {
        // Looks at every process of the machine, for the mark that a job may bear.
        Row { long: true, ..Row::of("settle", &[Alone]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        held_by_another(w, |pool| {
            let mut permit = pool.try_acquire().expect("it is free");
            let lease = permit.lease().expect("a lease");
            forget((permit, lease));
        })
    }
    fn perform(&self, w: &World) {
        let pool = w.open("p").expect("the keeper has made it");
        // The permit has no holder from now on, and its job's until it is looked for.
        Arena::open("default").expect("it is there").map().recover_dead();
        w.stage().begin();
        pool.reclaim();
        w.stage().end(true);
    }
}

/// The keeper has the permit, which is taken from it; a waiter gets it then, or when the keeper gives it back.
struct Force;

impl Operation for Force {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Keeper), ..Row::of("force_release", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        let pool = w.make("p", 1)?;
        let permit = fine("taking a free permit", pool.try_acquire())?;
        // Nothing happens if it is the keeper's no more.
        w.owe(move || drop(permit));
        Ok(())
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let done = pool.force_release(0);
        // Stopped: there may be nothing to take any more, since the keeper has given it back.
        w.stage().end(done.is_ok() || w.scene() == Stopped);
    }
    fn others(&self, w: &mut World) -> Verdict {
        w.let_go();
        w.take_or_victim_has("p")
    }
}
