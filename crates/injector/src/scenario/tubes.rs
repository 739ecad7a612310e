//! Named tubes: a message is sent or not, received once, or redelivered with a flag; and no process waits for a dead or stopped one.
//!
//! | the victim | other processes | past a stopped one |
//! |---|---|---|
//! | sends, there is room | receivers that wait; another sender, or the receiver, that comes | messages pass, if there may be another sender |
//! | sends, the tube is full | senders before and behind it | the sender before it gets its room |
//! | receives, a message is there | senders that wait for room; another that comes | messages pass, or fill what is left |
//! | receives, there is none | receivers before and behind it | the receiver before it gets its message |
//!
//! The keeper has no end of its own where the victim is the only one of its side: then a waiter at the other is to be told that it has
//! gone, which [`messages`](super::messages) holds against its death. See there for what is demanded after it.

mod bytes;
mod choices;
mod ends;
mod inherited;
mod mixed;
pub mod setting;
mod timed;
mod watched;

use chappe::tube::named::{Kind, NotSent, Receiver, Sender};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::messages::{ACTOR, Found, HELPER, KEEPER, Message, Part};
use super::world::{World, fault};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};
use How::{Copied, GivenUp, InPlace, Tried};
use Kind::{Mpmc, Mpsc, Spmc, Spsc};
use setting::{FEW, SLOTS, attended, check, many_receivers, many_senders, receiver, sender, without};

/// In which way a message goes in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Copied, waiting if need be.
    Copied,
    /// Copied, without waiting.
    Tried,
    /// Written, or looked at, in place.
    InPlace,
    /// A slot is reserved, written and given up; or a loan is dropped.
    GivenUp,
}

#[derive(Clone, Copy)]
struct Send {
    name: &'static str,
    kind: Kind,
    how: How,
    full: bool,
}

impl Send {
    fn slots(&self) -> u32 {
        if self.full { FEW } else { SLOTS }
    }

    /// Makes room in the full tube, once.
    fn make_room(&self, w: &World) -> Verdict {
        if !self.full || w.has_let_go() {
            return Ok(());
        }
        w.let_go();
        w.fetch_all("t", FEW)
    }

    fn perform_in(&self, out: &mut Sender<Message>, it: Message) -> Result<(), NotSent> {
        match self.how {
            Copied => out.send(it).map_err(without),
            Tried => out.try_send(it).map_err(without),
            InPlace | GivenUp => {
                let mut slot = out.reserve()?;
                *slot = it;
                if self.how == GivenUp { Ok(()) } else { slot.commit() }
            }
        }
    }
}

impl Send {
    fn operation(self) -> Operation {
        Operation::of(
            self.name,
            match (self.full, many_senders(self.kind)) {
                (false, true) => &[Alone, Waiters, Met, Stopped, StoppedWaiter],
                (false, false) => &[Alone, Waiters, Met, Stopped],
                (true, true) => &[Alone, Waiters, StoppedWaiter],
                (true, false) => &[Alone],
            },
        )
        .victim_holds(!self.full)
        .victim_sleeps(self.full)
        .held_up_by((!many_senders(self.kind)).then_some(Reason::Message))
        .retold(move |scene| {
            // The sleep is the same for all kinds, and what is sent in place for those with many receivers and with one.
            if self.full { matches!(self.kind, Mpsc | Spmc) } else { self.how == InPlace && scene == Stopped }
        })
        .build(move |w| {
            w.make("p", 1)?;
            w.make_tube("t", self.kind, self.slots())?;
            if !self.full {
                return Ok(());
            }
            w.receive_from("t")?;
            if many_senders(self.kind) { w.post_all("t", KEEPER, FEW) } else { Ok(()) }
        })
        .perform(move |w| {
            let mut out = sender(w);
            if self.full && !many_senders(self.kind) {
                (0..FEW).for_each(|_| out.try_send(w.write("t", ACTOR)).expect("there is room"));
            }
            if !self.full {
                attended(w, many_receivers(self.kind));
            }
            let it = w.try_write("t");
            w.stage().begin();
            let done = match self.perform_in(&mut out, it) {
                // The only receiver had its message while the victim was stopped.
                Err(NotSent::Disconnected { .. }) if w.scene() == StoppedWaiter => {
                    w.not_sent("t");
                    true
                }
                other => other.is_ok(),
            };
            w.stage().end(done);
            std::mem::forget(out);
        })
        .wait_each(move |w, which| {
            if self.full {
                return w.post_slowly("t", HELPER + which as u64);
            }
            if which > 0 && !many_receivers(self.kind) {
                return Ok(());
            }
            w.fetch_slowly("t").map(drop)
        })
        .meet(move |w| if many_senders(self.kind) { w.post_slowly("t", HELPER) } else { w.fetch_slowly("t").map(drop) })
        .others(move |w| {
            if w.scene() == StoppedWaiter {
                self.make_room(w)?;
                if !self.full
                    && let Err((Fault::Wedged, text)) = w.post_all("t", KEEPER, 1)
                {
                    return fault(Fault::Wedged, text);
                }
                // It was refused if the only receiver has gone: with the message of the stopped one.
                return w.first_through();
            }
            if many_senders(self.kind) {
                return w.messages_pass("t", 4, 2);
            }
            match w.copy_out("t")? {
                Found::Ended => fault(Fault::Torn, "the only sender is stopped, and is said to have gone"),
                Found::Nothing | Found::Message(_) => Ok(()),
            }
        })
        .asleep(move |w| self.make_room(w))
        .bereaved(move |w| self.make_room(w))
        .check(move |w| check(w, self.slots(), Part::Sends(self.how != GivenUp)))
    }
}

#[derive(Clone, Copy)]
struct Receive {
    name: &'static str,
    kind: Kind,
    how: How,
    empty: bool,
}

impl Receive {
    /// Where senders wait, as many as they are fill it.
    fn slots(w: &World) -> u32 {
        if w.scene().waits() { FEW } else { SLOTS }
    }

    /// Sends as many messages as there are receivers, once.
    fn deliver(&self, w: &World) -> Verdict {
        if !self.empty || w.has_let_go() {
            return Ok(());
        }
        w.let_go();
        if !many_receivers(self.kind) {
            // The only receiver may be dead, and that may be known.
            return w.offer("t", KEEPER);
        }
        w.post_all("t", KEEPER, 1 + w.helpers() as u32)
    }

    fn perform_in(&self, w: &World, into: &Receiver<Message>) -> bool {
        match self.how {
            InPlace => into.borrow().is_ok_and(|loan| {
                let it = *loan;
                let whole = w.hold_message("t", &it);
                whole && loan.release().is_ok() && w.keep_message("t", &it)
            }),
            GivenUp => into.borrow().is_ok_and(|loan| {
                let it = *loan;
                let whole = w.hold_message("t", &it);
                // That is to release it.
                drop(loan);
                whole && w.keep_message("t", &it)
            }),
            Tried => into.try_recv().is_ok_and(|it| w.keep_message("t", &it)),
            Copied => into.recv().is_ok_and(|it| w.keep_message("t", &it)),
        }
    }

    fn operation(self) -> Operation {
        Operation::of(
            self.name,
            match (self.empty, many_receivers(self.kind)) {
                (false, true) => &[Alone, Waiters, Met, Stopped, StoppedWaiter],
                (false, false) => &[Alone, Waiters, Met, Stopped],
                (true, true) => &[Alone, Waiters, StoppedWaiter],
                (true, false) => &[Alone],
            },
        )
        .victim_holds(!self.empty)
        .victim_sleeps(self.empty)
        .retold(move |_| {
            // As for `Send`.
            self.empty && matches!(self.kind, Mpsc | Spmc)
        })
        .build(move |w| {
            w.make("p", 1)?;
            w.make_tube("t", self.kind, Receive::slots(w))?;
            if self.empty {
                // Receivers that have got their message go.
                if many_receivers(self.kind) {
                    w.receive_from("t")?;
                }
                return w.send_to("t");
            }
            if !w.scene().waits() {
                w.post_all("t", KEEPER, 2)?;
                if w.scene() == Met && self.kind == Spsc {
                    w.stop_sending("t");
                }
                return Ok(());
            }
            // An only sender, which waits, fills it itself.
            if many_senders(self.kind) { w.post_all("t", KEEPER, FEW) } else { Ok(()) }
        })
        .perform(move |w| {
            let into = receiver(w);
            if !self.empty {
                attended(w, many_senders(self.kind));
            }
            w.stage().begin();
            let done = self.perform_in(w, &into);
            w.stage().end(done);
            std::mem::forget(into);
        })
        .wait_each(move |w, which| {
            if self.empty {
                return w.fetch_slowly("t").map(drop);
            }
            let who = HELPER + which as u64;
            if !many_senders(self.kind) {
                if which > 0 {
                    return Ok(());
                }
                w.post_all("t", who, FEW)?;
            }
            w.post_slowly("t", who)
        })
        .meet(
            move |w| if many_receivers(self.kind) { w.fetch_slowly("t").map(drop) } else { w.post_slowly("t", HELPER) },
        )
        .others(move |w| {
            if w.scene() == StoppedWaiter {
                self.deliver(w)?;
                if !self.empty {
                    w.fetch_all("t", 1)?;
                }
                return w.first_through();
            }
            // Two messages stay for the stopped one, of which it has one at most.
            if many_receivers(self.kind) { w.messages_pass("t", 6, 1) } else { w.post_all("t", KEEPER, 2) }
        })
        .asleep(move |w| self.deliver(w))
        .bereaved(move |w| self.deliver(w))
        .check(move |w| {
            // A receiver that copies out what is there never has it in hand; one that sleeps, or looks in place, does.
            let marks = u32::from(self.empty || matches!(self.how, InPlace | GivenUp));
            let could = !self.empty || w.was_woken();
            check(w, Receive::slots(w), Part::Receives(could, marks))
        })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let send = |name, kind, how, full| Send { name, kind, how, full }.operation();
    let receive = |name, kind, how, empty| Receive { name, kind, how, empty }.operation();
    let own = vec![
        send("tube send, spsc", Spsc, Copied, false),
        send("tube send, mpsc", Mpsc, Copied, false),
        send("tube send, spmc", Spmc, Copied, false),
        send("tube send, mpmc", Mpmc, Copied, false),
        send("tube try_send, mpmc", Mpmc, Tried, false),
        send("tube reserve, commit, spsc", Spsc, InPlace, false),
        send("tube reserve, commit, mpmc", Mpmc, InPlace, false),
        send("tube reserve, drop, spsc", Spsc, GivenUp, false),
        send("tube reserve, drop, mpmc", Mpmc, GivenUp, false),
        send("tube send, full, spsc", Spsc, Copied, true),
        send("tube send, full, mpsc", Mpsc, Copied, true),
        send("tube send, full, spmc", Spmc, Copied, true),
        send("tube send, full, mpmc", Mpmc, Copied, true),
        send("tube reserve, full, mpmc", Mpmc, InPlace, true),
        receive("tube recv, spsc", Spsc, Copied, false),
        receive("tube recv, mpsc", Mpsc, Copied, false),
        receive("tube recv, spmc", Spmc, Copied, false),
        receive("tube recv, mpmc", Mpmc, Copied, false),
        receive("tube try_recv, mpmc", Mpmc, Tried, false),
        receive("tube borrow, release, spsc", Spsc, InPlace, false),
        receive("tube borrow, release, mpmc", Mpmc, InPlace, false),
        receive("tube borrow, drop, mpmc", Mpmc, GivenUp, false),
        receive("tube recv, empty, spsc", Spsc, Copied, true),
        receive("tube recv, empty, mpsc", Mpsc, Copied, true),
        receive("tube recv, empty, spmc", Spmc, Copied, true),
        receive("tube recv, empty, mpmc", Mpmc, Copied, true),
        receive("tube borrow, empty, mpmc", Mpmc, InPlace, true),
    ];
    let ends = ends::all().into_iter().chain(watched::all()).chain(inherited::all());
    let choices = choices::all().into_iter().chain(mixed::all());
    own.into_iter().chain(timed::all()).chain(bytes::all()).chain(ends).chain(choices).collect()
}
