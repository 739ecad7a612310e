//! Acquire, release, choice, timeout, owned permits, leases, and recovery itself.

use std::mem::forget;
use std::time::Duration;

use chappe::{AcquireError, Select, acquire_any};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::fine;
use super::{Operation, Reason};
use crate::board::Fault;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The holder is done, and a job that inherited the lease goes on: the permit must stay away until the job ends.
fn end_lease(job: bool) -> Operation {
    Operation::of(if job { "release, job goes on" } else { "release, job gone" }, &[Alone, Waiters])
        // Looks at every process of the machine, for the mark that a job may bear.
        .victim_holds(true)
        .long(!job)
        .build(|w| w.make("p", 1).map(drop))
        .perform(move |w| {
            let pool = w.warm("p");
            let mut permit = pool.acquire().expect("it is free");
            let lease = permit.lease().expect("a lease");
            if job {
                w.leave_a_job();
            }
            w.holding(pool);
            w.stage().begin();
            drop(lease);
            drop(permit);
            w.stage().end(true);
        })
        .bereaved(move |w| if job { w.end_the_job("p") } else { Ok(()) })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("acquire", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_sleeps(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let got = pool.acquire();
                w.stage().end(got.is_ok());
                forget(got);
            }),
        Operation::of("try_acquire", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let got = pool.try_acquire();
                w.stage().end(matches!((&got, w.scene()), (Err(AcquireError::WouldBlock), Waiters) | (Ok(_), _)));
                forget(got);
            }),
        Operation::of("release", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_holds(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let permit = pool.acquire().expect("it is free");
                w.holding(pool);
                w.stage().begin();
                drop(permit);
                w.stage().end(true);
            }),
        Operation::of("choice of 3", &[Alone, Waiters, Met, Stopped])
            .victim_sleeps(true)
            .build(|w| NAMES.iter().try_for_each(|name| w.make_held(name, 1)))
            .perform(|w| {
                let pools = NAMES.map(|name| w.warm(name));
                w.stage().begin();
                let got = acquire_any(&pools);
                w.stage().end(got.is_ok());
                forget(got);
            })
            .wait(|w| {
                let pools = [w.open("a")?, w.open("b")?, w.open("c")?];
                w.pass_through(acquire_any(&pools).map(|(_, permit)| permit))
            })
            .others(|w| {
                let mut victims = 0;
                for name in NAMES {
                    w.take_or_victim_has(name)?;
                    victims += u32::from(w.victim_has(w.open(name)?));
                }
                if victims > 1 { Err((Fault::Doubled, format!("a choice took {victims} permits"))) } else { Ok(()) }
            })
            .check(|w| {
                for name in NAMES {
                    w.audit(name, 1)?;
                }
                w.full_house("default", &NAMES)
            }),
        // A choice that has taken a permit, and is dropped: the permit is free again.
        Operation::of("choice of a pool, dropped", &[Alone, Waiters, Met, Stopped])
            .victim_sleeps(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                let pool = w.warm("p");
                let mut select = Select::new();
                select.acquire(pool);
                w.stage().begin();
                let got = select.wait();
                let done = got.is_ok();
                drop(got);
                w.stage().end(done);
            }),
        Operation::of("acquire, timed out", &[Alone, Waiters, Stopped])
            .build(|w| {
                let pool = w.make("p", 1)?;
                w.hold(pool)
            })
            .perform(|w| {
                let pool = w.warm("p");
                // Starts what a first wait starts.
                drop(pool.acquire_timeout(Duration::from_micros(1)));
                w.stage().begin();
                let got = pool.acquire_timeout(Duration::from_millis(1));
                // The permit comes free while the victim is stopped.
                w.stage().end(matches!(got, Err(AcquireError::Timeout)) || got.is_ok() && w.scene() == Stopped);
                forget(got);
            })
            .others(|w| {
                w.let_go();
                w.take_or_victim_has("p")
            }),
        Operation::of("acquire_owned, first", &[Alone, Waiters, Stopped])
            .victim_sleeps(true)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                let pool = w.warm("p");
                w.stage().begin();
                let got = pool.acquire_owned();
                w.stage().end(got.is_ok());
                forget(got);
            }),
        // Another thread of the victim has acquired it.
        Operation::of("release owned, handed on", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_holds(true)
            .held_up_by(Reason::Permit)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let other = std::thread::spawn(|| pool.acquire_owned().expect("it is free"));
                let permit = other.join().expect("it has acquired it");
                w.holding(pool);
                w.stage().begin();
                drop(permit);
                w.stage().end(true);
            }),
        Operation::of("lease", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let mut permit = pool.acquire().expect("it is free");
                w.holding(pool);
                w.stage().begin();
                let lease = permit.lease();
                w.stage().end(lease.is_ok());
                forget((permit, lease));
            }),
        end_lease(true),
        end_lease(false),
        Operation::of("leave, holding", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                let pool = w.warm("p");
                let arena = chappe::Arena::open("default").expect("it is there");
                forget(pool.acquire().expect("it is free"));
                w.holding(pool);
                w.stage().begin();
                arena.leave();
                w.stage().end(true);
            }),
        // The recoverer is killed.
        Operation::of("recover a dead holder", &[Alone, Met, Stopped])
            .held_up_by(Reason::Permit)
            .build(|w| {
                w.make("p", 1)?;
                let take = || {
                    let pool = w.open("p").expect("the keeper has made it");
                    forget(fine("taking", pool.try_acquire()).expect("it is free"));
                };
                w.die_with(take, "did not get its permit")
            })
            .perform(|w| {
                let pool = w.open("p").expect("the keeper has made it");
                w.stage().begin();
                let got = pool.try_acquire();
                // Others may have recovered it, and had it, meanwhile.
                w.stage().end(got.is_ok() || w.scene() != Alone && matches!(got, Err(AcquireError::WouldBlock)));
                forget(got);
            }),
    ]
}
