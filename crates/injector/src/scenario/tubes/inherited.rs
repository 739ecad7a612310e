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
use super::super::{Operation, Row, mutexes};
use super::{FEW, attended, check, sender};
use crate::board::{Fault, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![Box::new(Fork), Box::new(Exec { mutex: false }), Box::new(Exec { mutex: true })]
}

/// The last sender has gone, and nothing was sent.
fn is_told(w: &World) -> Verdict {
    match w.fetch_slowly("t")? {
        Found::Ended => Ok(()),
        other => fault(Fault::Torn, format!("nobody sends, and there is {other:?}")),
    }
}

struct Fork;

impl Operation for Fork {
    fn row(&self) -> Row {
        Row { victim_holds: true, ..Row::of("fork, with a sender", &[Alone, Waiters, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        w.make_tube("t", Kind::Mpmc, FEW)
    }
    fn perform(&self, w: &World) {
        let out = sender(w);
        attended(w, true);
        w.stage().begin();
        let done = fork_away(w, || {});
        w.stage().end(done);
        forget(out);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        is_told(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w, FEW, Part::Nothing)
    }
}

struct Exec {
    /// It has a mutex locked; or a sender.
    mutex: bool,
}

impl Operation for Exec {
    fn row(&self) -> Row {
        Row {
            victim_holds: true,
            led: false,
            ..Row::of(if self.mutex { "exec, mutex locked" } else { "exec, with a sender" }, &[Alone, Waiters])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        if self.mutex {
            return mutexes::build(w);
        }
        w.make("p", 1)?;
        w.make_tube("t", Kind::Mpmc, FEW)
    }
    fn perform(&self, w: &World) {
        if self.mutex {
            forget(mutexes::warm(w).lock().expect("it is free"));
            w.holding_while(|| waiters_of("m"));
        } else {
            forget(sender(w));
            attended(w, true);
        }
        become_another(w);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        if self.mutex {
            return mutexes::enter(w.stage(), mutexes::open()?.lock()).map(drop);
        }
        w.expect_to_leave();
        is_told(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        has_become_another(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.expect_to_leave();
        if self.mutex { mutexes::check(w, &[1], &["m", "p"]) } else { check(w, FEW, Part::Nothing) }?;
        alive(w, true)
    }
}
