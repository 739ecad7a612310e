//! Fork and exec of a process that has an end of a tube, or a mutex locked: see also `lives`.
//!
//! A forked child has an end from its first use on, and uses none here: a waiter is told when the parent has gone. A process that calls
//! exec is another one afterwards: what it had is recovered while it lives on.

use std::mem::forget;

use chappe::tube::named::Kind;

use super::super::Scene::{Alone, Stopped, Waiters};
use super::super::lives::{alive, become_another, fork_away, has_become_another};
use super::super::messages::{Found, Part};
use super::super::world::{World, fault, waiters_of};
use super::super::{Operation, mutexes};
use super::setting::{FEW, attended, check, sender};
use crate::board::{Fault, Verdict};

/// The last sender has gone, and nothing was sent.
fn is_told(w: &World) -> Verdict {
    match w.fetch_slowly("t")? {
        Found::Ended => Ok(()),
        other => fault(Fault::Torn, format!("nobody sends, and there is {other:?}")),
    }
}

/// `mutex`: It has a mutex locked; or a sender.
fn exec(mutex: bool) -> Operation {
    Operation::of(if mutex { "exec, mutex locked" } else { "exec, with a sender" }, &[Alone, Waiters])
        .victim_holds(true)
        .led(false)
        .build(move |w| {
            if mutex {
                return mutexes::build(w);
            }
            w.make("p", 1)?;
            w.make_tube("t", Kind::Mpmc, FEW)
        })
        .perform(move |w| {
            if mutex {
                forget(mutexes::warm(w).lock().expect("it is free"));
                w.holding_while(|| waiters_of("m"));
            } else {
                forget(sender(w));
                attended(w, true);
            }
            become_another(w);
        })
        .wait(move |w| {
            if mutex {
                return mutexes::enter(w.stage(), mutexes::open()?.lock()).map(drop);
            }
            w.expect_to_leave();
            is_told(w)
        })
        .others(has_become_another)
        .check(move |w| {
            w.expect_to_leave();
            if mutex { mutexes::check(w, &[1], &["m", "p"]) } else { check(w, FEW, Part::Nothing) }?;
            alive(w, true)
        })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("fork, with a sender", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(|w| {
                w.make("p", 1)?;
                w.make_tube("t", Kind::Mpmc, FEW)
            })
            .perform(|w| {
                let out = sender(w);
                attended(w, true);
                w.stage().begin();
                let done = fork_away(w, || {});
                w.stage().end(done);
                forget(out);
            })
            .wait(is_told)
            .check(|w| check(w, FEW, Part::Nothing)),
        exec(false),
        exec(true),
    ]
}
