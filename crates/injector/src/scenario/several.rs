//! Several permits of one pool at once.

use std::mem::forget;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{AcquireError, Permits};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::{FIRST, SECOND, VICTIM, World, claim_index, fault, fine, unclaim_index};
use super::{Operation, Reason, Row};
use crate::board::{Fault, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![Box::new(Take), Box::new(TryTake), Box::new(GiveBack), Box::new(TimedOut), Box::new(Lend)]
}

/// How many permits there are.
const ALL: u32 = 3;

/// Makes sure that no other process has them, and gives them back.
fn pass(w: &World, got: Result<Permits<'_>, AcquireError>) -> Verdict {
    let permits = fine("waiting for two permits", got)?;
    for index in permits.indices() {
        claim_index(w.stage(), permits.pool(), index)?;
    }
    permits.indices().for_each(|index| unclaim_index(w.stage(), permits.pool(), index));
    if permits.len() == 2 { Ok(()) } else { fault(Fault::Torn, format!("two wanted, {permits:?} got")) }
}

fn pass_two(w: &World) -> Verdict {
    pass(w, w.open("p")?.acquire_many(2))
}

/// The stopped one has two of three at most.
fn one_is_left(w: &World) -> Verdict {
    match w.open("p")?.try_acquire() {
        Err(AcquireError::WouldBlock) => {
            fault(Fault::Wedged, format!("who wants two of three keeps all away: {}", w.describe()))
        }
        got => w.pass_through(got),
    }
}

fn check(w: &World) -> Verdict {
    w.audit("p", ALL)?;
    w.full_house("default", &["p"])
}

struct Take;

impl Operation for Take {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("acquire_many(2) of 3", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", ALL)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let got = pool.acquire_many(2);
        w.stage().end(got.is_ok());
        forget(got);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        pass_two(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        if w.scene() != StoppedWaiter {
            return one_is_left(w);
        }
        w.let_go();
        w.demand(|| w.done_helpers() > 0, "who came first waits for the stopped one:")
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w)
    }
}

struct TryTake;

impl Operation for TryTake {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Permit), ..Row::of("try_acquire_many(2) of 3", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", ALL)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        w.stage().begin();
        let got = pool.try_acquire_many(2);
        w.stage().end(matches!((&got, w.scene()), (Err(AcquireError::WouldBlock), Waiters) | (Ok(_), _)));
        forget(got);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        pass_two(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        one_is_left(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w)
    }
}

struct GiveBack;

impl Operation for GiveBack {
    fn row(&self) -> Row {
        Row {
            victim_holds: true,
            held_up_by: Some(Reason::Permit),
            ..Row::of("release 2 of 3", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", ALL).map(drop)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let permits = pool.acquire_many(2).expect("they are free");
        w.holding(pool);
        w.stage().begin();
        drop(permits);
        w.stage().end(true);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        pass_two(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        if w.scene() != StoppedWaiter {
            return one_is_left(w);
        }
        let (pool, victim) = (w.open("p")?, w.stage().word(VICTIM).load(SeqCst));
        // Any process that comes by finishes what the stopped one began. There is a waiter: no permit is free.
        if let Ok(permit) = pool.try_acquire() {
            drop(permit);
        }
        let held = || pool.holders().iter().filter(|h| u64::from(h.who.pid) == victim).count();
        let through = || w.done_helpers() > 0 || held() == 2;
        w.demand(through, "who waits for two does not get what the stopped one gave:")
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w)
    }
}

/// The keeper has one of three, so the victim at the head never gets the three that it wants. Those behind it want one each.
struct TimedOut;

impl Operation for TimedOut {
    fn row(&self) -> Row {
        Row {
            victim_holds: true,
            victim_sleeps: true,
            held_up_by: Some(Reason::Head),
            ..Row::of("acquire_many, timed out", &[Alone, Waiters, Met])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        let pool = w.make("p", ALL)?;
        w.hold(pool)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        // Starts what a first wait starts.
        drop(pool.acquire_many_timeout(ALL, Duration::from_micros(1)));
        // Long enough for helpers to come behind it; if they do not, less was tried.
        let time = Duration::from_millis(if w.scene().waits() { 10 } else { 1 });
        w.stage().begin();
        let got = pool.acquire_many_timeout(ALL, time);
        w.stage().end(matches!(got, Err(AcquireError::Timeout)));
    }
    fn asleep(&self, _w: &mut World) -> Verdict {
        Ok(())
    }
    fn bereaved(&self, w: &mut World) -> Verdict {
        w.call(FIRST);
        w.call(SECOND);
        let all = w.helpers();
        w.demand(|| w.done_helpers() == all, "those behind wait for what the head no longer wants:")
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w)
    }
}

/// Those that have no lease yet come back at the death; those that have one do too, as no job goes on.
struct Lend;

impl Operation for Lend {
    fn row(&self) -> Row {
        Row { victim_holds: true, ..Row::of("lease of 2", &[Alone, Waiters, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", ALL).map(drop)
    }
    fn perform(&self, w: &World) {
        let pool = w.warm("p");
        let mut permits = pool.acquire_many(2).expect("they are free");
        w.holding(pool);
        w.stage().begin();
        let lease = permits.lease();
        w.stage().end(lease.is_ok());
        forget((permits, lease));
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        pass_two(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        one_is_left(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w)
    }
}
