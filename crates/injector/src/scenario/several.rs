//! Several permits of one pool at once.

use std::mem::forget;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{AcquireError, Permits};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::{FIRST, SECOND, VICTIM, World, claim_index, fault, fine, unclaim_index};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

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
            fault(Fault::Wedged, format!("the waiter for two of three keeps all away: {}", w.describe()))
        }
        got => w.pass_through(got),
    }
}

fn check(w: &World) -> Verdict {
    w.audit("p", ALL)?;
    w.full_house("default", &["p"])
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("acquire_many(2) of 3", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_sleeps(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", ALL))
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let got = pool.acquire_many(2);
                w.stage().end(got.is_ok());
                forget(got);
            })
            .wait(pass_two)
            .others(|w| {
                if w.scene() != StoppedWaiter {
                    return one_is_left(w);
                }
                w.let_go();
                w.first_through()
            })
            .check(check),
        Operation::of("try_acquire_many(2) of 3", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", ALL))
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let got = pool.try_acquire_many(2);
                w.stage().end(matches!((&got, w.scene()), (Err(AcquireError::WouldBlock), Waiters) | (Ok(_), _)));
                forget(got);
            })
            .wait(pass_two)
            .others(one_is_left)
            .check(check),
        Operation::of("release 2 of 3", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_holds(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make("p", ALL).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let permits = pool.acquire_many(2).expect("they are free");
                w.holding(pool);
                w.stage().begin();
                drop(permits);
                w.stage().end(true);
            })
            .wait(pass_two)
            .others(|w| {
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
                w.demand(through, "the waiter for two does not get what the stopped one gave:")
            })
            .check(check),
        // The keeper has one of three, so the victim at the head never gets the three that it
        // wants. Those behind it want one each.
        Operation::of("acquire_many, timed out", &[Alone, Waiters, Met])
            .victim_holds(true)
            .victim_sleeps(true)
            .held_up_by(Reason::Head)
            .build(|w| {
                let pool = w.make("p", ALL)?;
                w.hold(pool)
            })
            .perform(|w| {
                let pool = w.warm("p");
                // Starts what a first wait starts.
                drop(pool.acquire_many_timeout(ALL, Duration::from_micros(1)));
                // Long enough for helpers to come behind it; if they do not, less was tried.
                let time = Duration::from_millis(if w.scene().waits() { 10 } else { 1 });
                w.stage().begin();
                let got = pool.acquire_many_timeout(ALL, time);
                w.stage().end(matches!(got, Err(AcquireError::Timeout)));
            })
            .asleep(|_| Ok(()))
            .bereaved(|w| {
                w.call(FIRST);
                w.call(SECOND);
                let all = w.helpers();
                w.demand(|| w.done_helpers() == all, "those behind wait for what the head no longer wants:")
            })
            .check(check),
        // Those that have no lease yet come back at the death; those that have one do too, as no
        // job goes on.
        Operation::of("lease of 2", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(|w| w.make("p", ALL).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let mut permits = pool.acquire_many(2).expect("they are free");
                w.holding(pool);
                w.stage().begin();
                let lease = permits.lease();
                w.stage().end(lease.is_ok());
                forget((permits, lease));
            })
            .wait(pass_two)
            .others(one_is_left)
            .check(check),
    ]
}
