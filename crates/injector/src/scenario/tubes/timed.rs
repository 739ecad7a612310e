//! Waits at a tube that end without a message, and looks that find none: a process that gives up takes nothing from the waiters.

use std::time::Duration;

use chappe::tube::named::{Kind, Loan, NotReceived, NotSent};

use super::super::Operation;
use super::super::Scene::{Alone, Stopped, Waiters};
use super::super::messages::{HELPER, KEEPER, Message, Part};
use super::super::world::World;
use super::setting::{FEW, check, receiver, sender, without};
use crate::board::Verdict;
use How::{Borrow, Reserve, Send};

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Send,
    Reserve,
    Receive,
    Borrow,
}

impl How {
    fn sends(self) -> bool {
        matches!(self, Send | Reserve)
    }
}

/// The tube is full, or empty. Helpers wait where the victim does.
#[derive(Clone, Copy)]
struct Vain {
    name: &'static str,
    how: How,
    /// For a while.
    waits: bool,
}

const NEVER: Duration = Duration::from_micros(1);
const WHILE: Duration = Duration::from_millis(1);

impl Vain {
    /// Lets those that wait on: room, or messages.
    fn give(&self, w: &World) -> Verdict {
        if w.scene() == Stopped {
            return Ok(());
        }
        if self.how.sends() { w.fetch_all("t", FEW) } else { w.post_all("t", KEEPER, w.helpers() as u32) }
    }

    fn operation(self) -> Operation {
        Operation::of(self.name, &[Alone, Waiters, Stopped])
            .build(move |w| {
                w.make("p", 1)?;
                w.make_tube("t", Kind::Mpmc, FEW)?;
                w.receive_from("t")?;
                w.send_to("t")?;
                if self.how.sends() { w.post_all("t", KEEPER, FEW) } else { Ok(()) }
            })
            .perform(move |w| {
                if self.how.sends() {
                    let mut out = sender(w);
                    let it = w.try_write("t");
                    if self.waits {
                        // Starts what a first wait starts.
                        drop(out.reserve_timeout(NEVER));
                    }
                    w.stage().begin();
                    let got = match (self.how, self.waits) {
                        (Send, true) => out.send_timeout(it, WHILE).map_err(without),
                        (Send, false) => out.try_send(it).map_err(without),
                        (_, true) => out.reserve_timeout(WHILE).map(drop),
                        (_, false) => out.try_reserve().map(drop),
                    };
                    if got.is_err() || self.how == Reserve {
                        w.not_sent("t");
                    }
                    w.stage().end(match got {
                        Err(NotSent::Timeout(())) => self.waits,
                        Err(NotSent::Full(())) => !self.waits,
                        other => other.is_ok() && w.scene() == Stopped,
                    });
                    std::mem::forget(out);
                } else {
                    let into = receiver(w);
                    if self.waits {
                        // As above.
                        drop(into.borrow_timeout(NEVER));
                    }
                    w.stage().begin();
                    let kept = |it: Message| w.keep_message("t", &it);
                    // That is to release it.
                    let taken = |loan: Loan<'_, Message>| w.hold_message("t", &loan) && kept(*loan);
                    let got = match (self.how, self.waits) {
                        (Borrow, true) => into.borrow_timeout(WHILE).map(taken),
                        (Borrow, false) => into.try_borrow().map(taken),
                        (_, true) => into.recv_timeout(WHILE).map(kept),
                        (_, false) => into.try_recv().map(kept),
                    };
                    w.stage().end(match got {
                        Err(NotReceived::Timeout) => self.waits,
                        Err(NotReceived::Empty) => !self.waits,
                        other => other.is_ok_and(|whole| whole) && w.scene() == Stopped,
                    });
                    std::mem::forget(into);
                }
            })
            .wait_each(move |w, which| {
                if self.how.sends() { w.post_slowly("t", HELPER + which as u64) } else { w.fetch_slowly("t").map(drop) }
            })
            // What it gives up waiting for comes: there is one more than it can take.
            .others(move |w| if self.how.sends() { w.fetch_all("t", 2) } else { w.messages_pass("t", 2, 1) })
            .bereaved(move |w| self.give(w))
            .check(move |w| {
                let come = w.scene() == Stopped;
                check(w, FEW, if self.how.sends() { Part::Sends(come) } else { Part::Receives(come, u32::from(come)) })
            })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let scenario = |name, how, waits| Vain { name, how, waits }.operation();
    vec![
        scenario("tube send, timed out", Send, true),
        scenario("tube reserve, timed out", Reserve, true),
        scenario("tube recv, timed out", How::Receive, true),
        scenario("tube borrow, timed out", Borrow, true),
        scenario("tube try_send, full", Send, false),
        scenario("tube try_reserve, full", Reserve, false),
        scenario("tube try_recv, empty", How::Receive, false),
        scenario("tube try_borrow, empty", Borrow, false),
    ]
}
