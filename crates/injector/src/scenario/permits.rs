//! Acquire, release, choice, timeout, owned permits, leases, and recovery itself.

use std::mem::forget;
use std::time::Duration;

use chappe::{AcquireError, Select, acquire_any};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::{World, fine};
use super::{Operation, Reason, Row};
use crate::board::{Fault, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![
        Box::new(Acquire),
        Box::new(TryAcquire),
        Box::new(Release),
        Box::new(Choice),
        Box::new(Forgone),
        Box::new(TimedOut),
        Box::new(AcquireOwned),
        Box::new(ReleaseOwned),
        Box::new(TakeLease),
        Box::new(EndLease { job: true }),
        Box::new(EndLease { job: false }),
        Box::new(Leave),
        Box::new(Recover),
    ]
}

const NAMES: [&str; 3] = ["a", "b", "c"];

struct Acquire;

impl Operation for Acquire {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("acquire", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let got = pool.acquire();
        w.stage().end(got.is_ok());
        forget(got);
    }
}

struct TryAcquire;

impl Operation for TryAcquire {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Permit), ..Row::of("try_acquire", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let got = pool.try_acquire();
        w.stage().end(matches!((&got, w.scene()), (Err(AcquireError::WouldBlock), Waiters) | (Ok(_), _)));
        forget(got);
    }
}

struct Release;

impl Operation for Release {
    fn row(&self) -> Row {
        Row {
            victim_holds: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("release", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1).map(|_| ())
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let permit = pool.acquire().expect("it is free");
        w.holding(pool);
        w.stage().begin();
        drop(permit);
        w.stage().end(true);
    }
}

struct Choice;

impl Operation for Choice {
    fn row(&self) -> Row {
        Row { victim_sleeps: true, ..Row::of("choice of 3", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        NAMES.iter().try_for_each(|name| w.make_held(name, 1))
    }
    fn perform(&self, w: &World) {
        let pools = NAMES.map(|name| w.warm(name));
        w.stage().begin();
        let got = acquire_any(&pools);
        w.stage().end(got.is_ok());
        forget(got);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        let pools = [w.open("a")?, w.open("b")?, w.open("c")?];
        w.pass_through(acquire_any(&pools).map(|(_, permit)| permit))
    }
    fn others(&self, w: &mut World) -> Verdict {
        let mut victims = 0;
        for name in NAMES {
            w.take_or_victim_has(name)?;
            victims += u32::from(w.victim_has(w.open(name)?));
        }
        if victims > 1 { Err((Fault::Doubled, format!("a choice took {victims} permits"))) } else { Ok(()) }
    }
    fn check(&self, w: &mut World) -> Verdict {
        for name in NAMES {
            w.audit(name, 1)?;
        }
        w.full_house("default", &NAMES)
    }
}

/// A choice that has taken a permit, and is dropped: the permit is free again.
struct Forgone;

impl Operation for Forgone {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("choice of a pool, dropped", &[Alone, Waiters, Met, Stopped])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let mut select = Select::new();
        select.acquire(pool);
        w.stage().begin();
        let got = select.wait();
        let done = got.is_ok();
        drop(got);
        w.stage().end(done);
    }
}

struct TimedOut;

impl Operation for TimedOut {
    fn row(&self) -> Row {
        Row::of("acquire, timed out", &[Alone, Waiters, Stopped])
    }
    fn build(&self, w: &mut World) -> Verdict {
        let pool = w.make("p", 1)?;
        w.hold(pool)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        // Starts what a first wait starts.
        drop(pool.acquire_timeout(Duration::from_micros(1)));
        w.stage().begin();
        let got = pool.acquire_timeout(Duration::from_millis(1));
        // The permit comes free while the victim is stopped.
        w.stage().end(matches!(got, Err(AcquireError::Timeout)) || got.is_ok() && w.scene() == Stopped);
        forget(got);
    }
    fn others(&self, w: &mut World) -> Verdict {
        w.let_go();
        w.take_or_victim_has("p")
    }
}

struct AcquireOwned;

impl Operation for AcquireOwned {
    fn row(&self) -> Row {
        Row { victim_sleeps: true, ..Row::of("acquire_owned, first", &[Alone, Waiters, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let got = pool.acquire_owned();
        w.stage().end(got.is_ok());
        forget(got);
    }
}

/// Another thread of the victim has acquired it.
struct ReleaseOwned;

impl Operation for ReleaseOwned {
    fn row(&self) -> Row {
        Row {
            victim_holds: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("release owned, handed on", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1).map(drop)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let other = std::thread::spawn(|| pool.acquire_owned().expect("it is free"));
        let permit = other.join().expect("it has acquired it");
        w.holding(pool);
        w.stage().begin();
        drop(permit);
        w.stage().end(true);
    }
}

struct TakeLease;

impl Operation for TakeLease {
    fn row(&self) -> Row {
        Row { victim_holds: true, ..Row::of("lease", &[Alone, Waiters, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1).map(|_| ())
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let mut permit = pool.acquire().expect("it is free");
        w.holding(pool);
        w.stage().begin();
        let lease = permit.lease();
        w.stage().end(lease.is_ok());
        forget((permit, lease));
    }
}

/// The holder is done, and a job that inherited the lease goes on: the permit must stay away until the job ends.
struct EndLease {
    job: bool,
}

impl Operation for EndLease {
    fn row(&self) -> Row {
        // Looks at every process of the machine, for the mark that a job may bear.
        Row {
            victim_holds: true,
            long: !self.job,
            ..Row::of(if self.job { "release, job goes on" } else { "release, job gone" }, &[Alone, Waiters])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1).map(|_| ())
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let mut permit = pool.acquire().expect("it is free");
        let lease = permit.lease().expect("a lease");
        if self.job {
            w.leave_a_job();
        }
        w.holding(pool);
        w.stage().begin();
        drop(lease);
        drop(permit);
        w.stage().end(true);
    }
    fn bereaved(&self, w: &mut World) -> Verdict {
        if self.job { w.end_the_job("p") } else { Ok(()) }
    }
}

struct Leave;

impl Operation for Leave {
    fn row(&self) -> Row {
        Row { victim_holds: true, ..Row::of("leave, holding", &[Alone, Waiters, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1).map(|_| ())
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let arena = chappe::Arena::open("default").expect("it is there");
        forget(pool.acquire().expect("it is free"));
        w.holding(pool);
        w.stage().begin();
        arena.leave();
        w.stage().end(true);
    }
}

/// The recoverer is killed.
struct Recover;

impl Operation for Recover {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Permit), ..Row::of("recover a dead holder", &[Alone, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        let take = || {
            let pool = w.open("p").expect("the keeper has made it");
            forget(fine("taking", pool.try_acquire()).expect("it is free"));
        };
        w.die_with(take, "did not get its permit")
    }
    fn perform(&self, w: &World) {
        let pool = w.open("p").expect("the keeper has made it");
        w.stage().begin();
        let got = pool.try_acquire();
        // Others may have recovered it, and had it, meanwhile.
        w.stage().end(got.is_ok() || w.scene() != Alone && matches!(got, Err(AcquireError::WouldBlock)));
        forget(got);
    }
}
