//! What scenarios of tubes begin with and end with: how many slots, the victim's ends, helpers, the last look.

use Kind::{Mpmc, Mpsc, Spmc};
use chappe::tube::named::{Kind, NotSent, Receiver, Sender};

use super::super::messages::{Message, Part};
use super::super::world::{self, FIRST, SECOND, World};
use crate::board::Verdict;

pub fn many_senders(kind: Kind) -> bool {
    matches!(kind, Mpsc | Mpmc)
}

pub fn many_receivers(kind: Kind) -> bool {
    matches!(kind, Spmc | Mpmc)
}

/// How many slots: where helpers wait at a full tube, as many as there are senders then.
pub const SLOTS: u32 = 4;
pub const FEW: u32 = 3;

/// Joins the arena, and attaches a sender.
pub fn sender(w: &World) -> Sender<Message> {
    w.warm("p");
    w.tube("t").and_then(|t| world::fine("attaching", t.sender())).expect("nobody else has one")
}

/// The same with a receiver.
pub fn receiver(w: &World) -> Receiver<Message> {
    w.warm("p");
    w.tube("t").and_then(|t| world::fine("attaching", t.receiver())).expect("nobody else has one")
}

/// The victim has helpers come, as many as there can be at their end, and goes on when they wait.
pub fn attended(w: &World, many: bool) {
    if w.scene().waits() {
        w.call(FIRST);
        w.call(SECOND);
        let all = if many { w.helpers() } else { 1 };
        let count = || world::waiters_of("t");
        w.gathered(|| count() == all);
    }
}

pub fn check(w: &World, slots: u32, part: Part) -> Verdict {
    w.settle("t", slots, part)?;
    w.in_order(&["p", "t"])
}

/// Why a message was not sent, without the message.
pub fn without(why: NotSent<Message>) -> NotSent {
    match why {
        NotSent::Disconnected { tube, .. } => NotSent::Disconnected { tube, message: () },
        NotSent::Timeout(_) => NotSent::Timeout(()),
        _ => NotSent::Full(()),
    }
}
