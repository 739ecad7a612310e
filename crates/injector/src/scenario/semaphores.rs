//! Semaphores: nothing returns with a death, and nothing may vanish with one. See the ledger.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{DownError, Pool, Select, Semaphore};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::ledger::weigh;
use super::world::{World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

/// A semaphore `s`, beside pool `p` by which the victim joins the arena.
pub fn build(w: &World, value: u32, barging: bool) -> Verdict {
    w.make("p", 1)?;
    w.make_semaphore("s", value, barging)
}

/// Joins the arena, and leaves the semaphore as it is.
pub fn warm(w: &World) -> &'static Semaphore {
    w.warm("p");
    w.semaphore("s").expect("the keeper has made it")
}

/// For a victim that wants one unit: one too many where others are to have one past it, none where helpers wait.
fn build_wanted(w: &World, barging: bool) -> Verdict {
    let value = match w.scene() {
        Waiters | StoppedWaiter => 0,
        Stopped => 2,
        Alone | Met => 1,
    };
    build(w, value, barging)?;
    if w.scene().waits() { w.owe_unit("s") } else { Ok(()) }
}

/// The stopped one has one of two at most.
fn one_is_left(w: &World) -> Verdict {
    if w.try_unit("s")? { Ok(()) } else { fault(Fault::Wedged, "of two units the stopped one keeps both away") }
}

/// The victim has added one of these numbers of units, and nothing is out of use.
fn check(w: &World, allowed: &[i64]) -> Verdict {
    w.balance("s", allowed)?;
    w.in_order(&["p", "s"])
}

fn down(barging: bool) -> Operation {
    Operation::of(if barging { "down, barging" } else { "down" }, &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        .victim_sleeps(true)
        .held_up_by(Reason::Unit)
        .build(move |w| build_wanted(w, barging))
        .perform(|w| {
            let s = warm(w);
            w.stage().begin();
            let got = s.down();
            w.stage().end(got.is_ok());
        })
        .wait(|w| w.pass_unit("s"))
        .others(|w| {
            if w.scene() == StoppedWaiter {
                w.let_go();
                return w.first_through();
            }
            one_is_left(w)
        })
        .provide(|w| w.provide_unit("s", 1))
        .check(|w| check(w, w.of_a_down()))
}

/// All the units are added, or none. Helpers use up one each.
/// `joined`: The victim is a member of the arena before it begins.
fn up(n: u32, barging: bool, joined: bool) -> Operation {
    Operation::of(
        match (n, barging, joined) {
            (_, _, false) => "up, first use",
            (1, true, _) => "up, barging",
            (1, ..) => "up",
            (_, true, _) => "up_many(2), barging",
            _ => "up_many(2)",
        },
        match (n, barging, joined) {
            (_, _, false) => &[Waiters],
            (1, ..) => &[Alone, Waiters, Met, Stopped, StoppedWaiter],
            _ => &[Alone, Waiters, StoppedWaiter],
        },
    )
    .build(move |w| build(w, 0, barging))
    .perform(move |w| {
        let s = if joined { warm(w) } else { w.semaphore("s").expect("the keeper has made it") };
        w.stage().begin();
        let done = s.up_many(n);
        w.stage().end(done.is_ok());
    })
    .wait(|w| w.take_unit("s"))
    .meet(|w| w.give_unit("s"))
    .others(|w| {
        w.give_unit("s")?;
        if w.scene() == StoppedWaiter {
            return w.through("the waiter gets no unit past the stopped one:");
        }
        if w.try_unit("s")? { Ok(()) } else { fault(Fault::Wedged, "what was just added is not to be had") }
    })
    .provide(move |w| {
        if !joined {
            // A victim that died before it had told any process that it is a member is swept at the next look: it has nothing.
            // A failure leaves it there, which is found.
            let _ = chappe::doctor();
        }
        w.provide_unit("s", 2);
    })
    .check(move |w| {
        let all = i64::from(n);
        let least = if w.was_done() { all } else { 0 };
        check(w, &[least, all])
    })
}

const DOWNS: [&str; 2] = ["a", "b"];
/// The arm that the victim's choice took, counted from 1.
const ARM: usize = 16;

fn pool(w: &World) -> &'static Pool {
    w.open("p").expect("the keeper has made it")
}

fn choose<R>(w: &World, then: impl FnOnce(&Select, &Pool) -> R) -> R {
    let [a, b] = DOWNS.map(|name| w.semaphore(name).expect("the keeper has made it"));
    let mut select = Select::new();
    select.down(a);
    select.down(b);
    // The operation is completed with the very pool of its arm.
    let pool = pool(w);
    select.acquire(pool);
    then(&select, pool)
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        down(false),
        down(true),
        Operation::of("try_down", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Unit)
            .build(|w| build_wanted(w, false))
            .perform(|w| {
                let s = warm(w);
                w.stage().begin();
                let got = s.try_down();
                w.stage().end(matches!((got, w.scene()), (Err(DownError::WouldBlock), Waiters) | (Ok(()), _)));
            })
            .wait(|w| w.pass_unit("s"))
            .others(one_is_left)
            .provide(|w| w.provide_unit("s", u64::from(w.scene() == Met)))
            .check(|w| {
                let allowed: &[i64] = match (w.scene(), w.was_done()) {
                    (Waiters, _) => &[0],
                    (_, true) => &[-1],
                    (_, false) => &[-1, 0],
                };
                check(w, allowed)
            }),
        Operation::of("down, timed out", &[Alone, Waiters, Stopped])
            .build(|w| {
                build(w, 0, false)?;
                w.owe_unit("s")
            })
            .perform(|w| {
                let s = warm(w);
                // Starts what a first wait starts.
                let _ = s.down_timeout(Duration::from_micros(1));
                w.stage().begin();
                let got = s.down_timeout(Duration::from_millis(1));
                // Units come while the victim is stopped.
                w.stage().end(matches!(got, Err(DownError::Timeout)) || got.is_ok() && w.scene() == Stopped);
            })
            .wait(|w| w.pass_unit("s"))
            .others(|w| {
                w.let_go();
                w.give_unit("s")?;
                one_is_left(w)
            })
            .check(|w| check(w, if w.scene() == Stopped { &[-1, 0] } else { &[0] })),
        up(1, false, true),
        up(1, true, true),
        up(2, false, true),
        up(2, true, true),
        up(1, false, false),
        // Two semaphores and a pool; exactly one arm happens.
        Operation::of("choice of 2 downs and a pool", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_sleeps(true)
            .build(|w| {
                w.make_held("p", 1)?;
                let value = u32::from(!w.scene().waits());
                for name in DOWNS {
                    w.make_semaphore(name, value, false)?;
                }
                if w.scene().waits() { w.owe_unit("b") } else { Ok(()) }
            })
            .perform(|w| {
                w.warm("p");
                choose(w, |select, _| {
                    w.stage().begin();
                    let got = select.wait();
                    if let Ok(chosen) = &got {
                        w.stage().word(ARM).store(chosen.index() as u64 + 1, SeqCst);
                    }
                    w.stage().end(got.is_ok());
                    std::mem::forget(got);
                });
            })
            .wait(|w| {
                choose(w, |select, pool| {
                    let chosen = fine("choosing", select.wait())?;
                    match DOWNS.get(chosen.index()) {
                        Some(name) => {
                            w.note_taken(name);
                            w.give_unit(name)
                        }
                        None => w.pass_through(chosen.permit(pool)),
                    }
                })
            })
            .others(|w| {
                if w.scene() == StoppedWaiter {
                    // Two of its arms can happen then, and the stopped one takes one at most.
                    w.let_go();
                    return w.first_through();
                }
                let mut gone = 0;
                for name in DOWNS {
                    gone += u32::from(!w.try_unit(name)?);
                }
                w.take_or_victim_has("p")?;
                gone += u32::from(w.victim_has(w.open("p")?));
                if gone > 1 { fault(Fault::Doubled, format!("a choice took {gone} arms")) } else { Ok(()) }
            })
            .check(|w| {
                let taken = w.stage().word(ARM).load(SeqCst);
                let mut all = 0;
                for (arm, name) in (1..).zip(DOWNS) {
                    let one = w.difference(name)?;
                    all += one;
                    match taken {
                        0 => weigh(name, one, &[-1, 0])?,
                        _ => weigh(name, one, &[-i64::from(taken == arm)])?,
                    }
                }
                weigh("both", all, &[-1, 0])?;
                w.in_order(&["a", "b", "p"])
            }),
        Operation::of("create semaphore", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let made = Semaphore::create("s", 3);
                w.stage().end(made.is_ok());
            })
            .meet(|_| {
                let s = fine("making it too", Semaphore::open_or_create("s", 3))?;
                fine("taking of it", s.down())?;
                fine("adding to it", s.up())
            })
            .check(|w| {
                if !w.has_made(Semaphore::open("s"))? {
                    fine("making it anew", Semaphore::create("s", 3))?;
                }
                w.note_given("s", 3);
                check(w, &[0])
            }),
        // With waiters it is by force.
        Operation::of("remove semaphore", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                // First, so that its slot is not the last that was taken.
                w.make_semaphore("s", 0, false)?;
                w.make("p", 1)?;
                w.count_waiters_of("s");
                Ok(())
            })
            .perform(|w| {
                warm(w);
                w.stage().begin();
                let gone = Semaphore::remove("s", w.scene() == Waiters);
                w.stage().end(gone.is_ok());
            })
            .wait(|w| match w.semaphore("s")?.down() {
                Err(DownError::Dead { .. }) => Ok(()),
                other => fault(Fault::Torn, format!("waiting for what is removed and never given: {other:?}")),
            })
            .meet(|_| {
                loop {
                    let s = fine("making it again", Semaphore::open_or_create("s", 0))?;
                    if s.up().is_ok() {
                        return Ok(());
                    }
                }
            })
            .bereaved(|w| {
                if w.has_removed(Semaphore::open("s"))? || w.scene() != Waiters {
                    return Ok(());
                }
                fine("removing it all the same", Semaphore::remove("s", true))
            })
            .check(|w| {
                let s = fine("making it again", Semaphore::open_or_create("s", 0))?;
                if s.value() > u32::from(w.scene() == Met) {
                    return fault(Fault::Torn, format!("made again, its value is {}", s.value()));
                }
                w.note_given("s", s.value());
                check(w, &[0])
            }),
    ]
}
