//! Condition variables: a notification reaches one waiter, one to all reaches all or none.

use std::mem::forget;
use std::time::Duration;

use chappe::{Condvar, LockError};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::mutexes::{self, check, enter};
use super::world::{ABSENT, FIRST, SECOND, World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

const HOUSES: [&str; 3] = ["m", "p", "v"];

fn open() -> Result<&'static Condvar, (Fault, String)> {
    Ok(Box::leak(Box::new(fine("opening the condition variable", Condvar::open("v"))?)))
}

/// `v` beside mutex `m`; the keeper counts the waiters of `v`.
fn build(w: &World) -> Verdict {
    mutexes::build(w)?;
    fine("making the condition variable", Condvar::create("v"))?;
    w.count_waiters_of("v");
    Ok(())
}

/// A survivor waits for one notification.
fn wait(w: &World) -> Verdict {
    let (mutex, condvar) = (mutexes::open()?, open()?);
    let guard = enter(w.stage(), mutex.lock())?;
    enter(w.stage(), condvar.wait(guard)).map(drop)
}

/// The dead victim may have heard what was for others.
fn provide(w: &World) {
    if w.is_stuck(|| true)
        && w.may_provide(2)
        && let Ok(condvar) = open()
    {
        condvar.notify_one();
    }
}

fn notify(all: bool) -> Operation {
    Operation::of(if all { "notify_all" } else { "notify_one" }, &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        .build(build)
        .perform(move |w| {
            mutexes::warm(w);
            let condvar = open().expect("the keeper has made it");
            w.stage().begin();
            if all {
                condvar.notify_all();
            } else {
                condvar.notify_one();
            }
            w.stage().end(true);
        })
        .wait(wait)
        .meet(|_| {
            open()?.notify_all();
            Ok(())
        })
        .others(|w| {
            open()?.notify_all();
            if w.scene() != StoppedWaiter {
                return Ok(());
            }
            w.through("the notified waiter waits for the stopped one:")
        })
        .bereaved(move |w| {
            let helpers = if w.scene() == Waiters { 2 } else { 0 };
            let heard = if all { helpers } else { helpers.min(1) };
            if w.was_done() && !w.stage().until(|| w.done_helpers() >= heard) {
                return fault(Fault::Lost, format!("{heard} should have heard: {}", w.describe()));
            }
            // Once both are through, no process may be left that looks after the dead.
            let settled = || w.done_helpers() == helpers || w.is_recovered() && w.waiting() != 1;
            if all && helpers == 2 && !w.stage().until(settled) {
                return fault(Fault::Torn, format!("one of two has heard what was for all: {}", w.describe()));
            }
            Ok(())
        })
        .provide(provide)
        .check(|w| check(w, &[0], &HOUSES))
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        // Killed before it was notified, it takes nothing from those that wait with it; killed
        // later, it may have heard one.
        Operation::of("condvar wait", &[Alone, Waiters, Stopped])
            .victim_sleeps(true)
            .build(|w| {
                build(w)?;
                let (condvar, waits) = (open()?, w.scene().waits());
                w.owe(move || {
                    condvar.notify_one();
                    if waits {
                        condvar.notify_one();
                    }
                });
                Ok(())
            })
            .perform(|w| {
                let (mutex, condvar) = (mutexes::warm(w), open().expect("the keeper has made it"));
                let guard = mutex.lock().expect("it is free, or soon is");
                w.stage().begin();
                let got = condvar.wait(guard);
                w.stage().end(got.is_ok());
                forget(got);
            })
            .wait(wait)
            .others(mutexes::lock_or_victim_has)
            .bereaved(|w| {
                if w.scene() != Waiters || w.was_woken() {
                    return Ok(());
                }
                // Both wait before either is notified: no other has heard anything.
                w.call(FIRST);
                w.call(SECOND);
                w.demand(|| w.waiting() == 2, ABSENT)
            })
            .provide(provide)
            .check(|w| {
                let most = u64::from(w.was_woken());
                if w.provided() > most {
                    return fault(
                        Fault::Lost,
                        format!("{} notifications were lost, at most {most} can be", w.provided()),
                    );
                }
                check(w, if w.was_done() { &[1] } else { &[0, 1] }, &HOUSES)
            }),
        // It gives up before any notification: both helpers that wait with it hear what is said
        // afterwards, whether it has left or died.
        Operation::of("condvar wait, timed out", &[Alone, Waiters, Stopped])
            .build(|w| {
                build(w)?;
                let (condvar, helpers) = (open()?, w.helpers());
                w.owe(move || (0..helpers).for_each(|_| condvar.notify_one()));
                Ok(())
            })
            .perform(|w| {
                let (mutex, condvar) = (mutexes::warm(w), open().expect("the keeper has made it"));
                let pause = |ms| match mutex.lock() {
                    Ok(guard) => condvar.wait_timeout(guard, Duration::from_millis(ms)),
                    other => (other, false),
                };
                // Starts what a first wait starts.
                drop(pause(1));
                w.stage().begin();
                let got = pause(1);
                w.stage().end(matches!(got, (Ok(_), true)));
                forget(got);
            })
            .wait(wait)
            .others(mutexes::lock_or_victim_has)
            .provide(provide)
            .check(|w| {
                if w.provided() > 0 {
                    return fault(Fault::Lost, format!("{} notifications were lost, none may be", w.provided()));
                }
                check(w, if w.was_done() { &[1] } else { &[0, 1] }, &HOUSES)
            }),
        notify(false),
        notify(true),
        Operation::of("create condvar", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                mutexes::build(w)?;
                if w.scene() == Waiters {
                    let pool = w.open("p")?;
                    w.hold(pool)?;
                    w.count_waiters_of("p");
                }
                Ok(())
            })
            .perform(|w| {
                mutexes::warm(w);
                w.stage().begin();
                let made = Condvar::create("v");
                w.stage().end(made.is_ok());
            })
            .meet(|_| fine("making it too", Condvar::open_or_create("v")).map(drop))
            .others(|w| w.take_or_victim_has("p"))
            .check(|w| {
                if !w.has_made(Condvar::open("v"))? {
                    fine("making it anew", Condvar::create("v"))?;
                }
                check(w, &[0], &HOUSES)
            }),
        // With waiters it is by force.
        Operation::of("remove condvar", &[Alone, Waiters, Stopped])
            .build(build)
            .perform(|w| {
                mutexes::warm(w);
                w.stage().begin();
                let gone = Condvar::remove("v", w.scene() == Waiters);
                w.stage().end(gone.is_ok());
            })
            .wait(|w| {
                let (mutex, condvar) = (mutexes::open()?, open()?);
                let guard = enter(w.stage(), mutex.lock())?;
                match condvar.wait(guard) {
                    Err(LockError::CondvarDead { .. }) => Ok(()),
                    other => {
                        drop(enter(w.stage(), other)?);
                        fault(Fault::Torn, "notified by nobody")
                    }
                }
            })
            .bereaved(|w| {
                if w.has_removed(Condvar::open("v"))? {
                    return Ok(());
                }
                fine("removing it all the same", Condvar::remove("v", w.scene() == Waiters))
            })
            .check(|w| check(w, &[0], &["m", "p"])),
    ]
}
