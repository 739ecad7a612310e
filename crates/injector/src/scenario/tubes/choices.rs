//! Choices with tubes among their arms: exactly one arm happens, with the dead as with the living.

use std::sync::atomic::Ordering::SeqCst;

use chappe::tube::named::{Kind, Receiver, Sender};
use chappe::{Select, Semaphore};

use super::super::Operation;
use super::super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::super::messages::{HELPER, KEEPER, Message, Part};
use super::super::world::{World, fault, fine};
use super::setting::{FEW, SLOTS};
use crate::board::{Fault, Verdict};
use Arms::{ReceiveDown, SendReceive, TwoReceive};

/// The arms, on tubes `t` and `u` and semaphore `s`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arms {
    TwoReceive,
    SendReceive,
    ReceiveDown,
}

/// The arm that the victim's choice took, counted from 1: its operation is complete.
const ARM: usize = 16;

#[derive(Clone, Copy)]
struct Choice {
    name: &'static str,
    arms: Arms,
    /// Nothing can be done at first.
    blocks: bool,
}

/// What a choice is made of.
struct Hands {
    out: Option<Sender<Message>>,
    into: [Option<Receiver<Message>>; 2],
    semaphore: Option<&'static Semaphore>,
}

impl Choice {
    fn slots(&self) -> u32 {
        if self.blocks { FEW } else { SLOTS }
    }

    fn tubes(&self) -> &'static [&'static str] {
        if self.arms == ReceiveDown { &["t"] } else { &["t", "u"] }
    }

    fn hands(&self, w: &World) -> Result<Hands, (Fault, String)> {
        let out = |tube| Ok(Some(fine("attaching a sender", w.tube(tube)?.sender())?));
        let into = |tube| Ok(Some(fine("attaching a receiver", w.tube(tube)?.receiver())?));
        Ok(match self.arms {
            TwoReceive => Hands { out: None, into: [into("t")?, into("u")?], semaphore: None },
            SendReceive => Hands { out: out("t")?, into: [None, into("u")?], semaphore: None },
            ReceiveDown => Hands { out: None, into: [into("t")?, None], semaphore: Some(w.semaphore("s")?) },
        })
    }

    /// Chooses; then `done` is told which arm it was, of which tube, and with which message.
    fn choose(
        &self,
        hands: &Hands,
        it: Message,
        done: impl Fn(usize, Option<(&'static str, Message)>) -> Verdict,
    ) -> Verdict {
        let mut select = Select::new();
        if let Some(out) = &hands.out {
            select.send_on(out);
        }
        for into in hands.into.iter().flatten() {
            select.recv_on(into);
        }
        if let Some(semaphore) = hands.semaphore {
            select.down(semaphore);
        }
        let chosen = fine("choosing", select.wait())?;
        let arm = chosen.index();
        match (self.arms, arm, &hands.out, &hands.into, hands.semaphore) {
            (SendReceive, 0, Some(out), ..) => {
                fine("sending what was chosen", chosen.send_on(out, it).map_err(|_| "all receivers have gone"))?;
                done(arm, None)
            }
            (ReceiveDown, 1, .., Some(semaphore)) => {
                fine("taking what was chosen", chosen.down(semaphore))?;
                done(arm, None)
            }
            (TwoReceive | ReceiveDown, 0, _, [Some(into), _], _) => {
                let got = fine("receiving what was chosen", chosen.recv_on(into))?;
                done(arm, Some(("t", got)))
            }
            (TwoReceive | SendReceive, 1, _, [_, Some(into)], _) => {
                let got = fine("receiving what was chosen", chosen.recv_on(into))?;
                done(arm, Some(("u", got)))
            }
            _ => fault(Fault::Torn, format!("arm {arm} was chosen")),
        }
    }

    /// Does what so many choices wait for, once.
    fn give(&self, w: &World) -> Verdict {
        if !self.blocks || w.has_let_go() {
            return Ok(());
        }
        w.let_go();
        let all = 1 + w.helpers() as u32;
        match self.arms {
            TwoReceive => w.post_all("u", KEEPER, all),
            SendReceive => w.fetch_all("t", all),
            ReceiveDown => (0..all).try_for_each(|_| w.give_unit("s")),
        }
    }

    fn operation(self) -> Operation {
        Operation::of(self.name, if self.blocks { &[Alone, Waiters, StoppedWaiter] } else { &[Alone, Met, Stopped] })
            .victim_sleeps(self.blocks)
            .retold(move |scene| {
                // The sleep is the same, whatever the arms are.
                self.blocks
                    && match self.arms {
                        TwoReceive => scene != Waiters,
                        SendReceive => scene != StoppedWaiter,
                        ReceiveDown => scene != Alone,
                    }
            })
            .build(move |w| {
                w.make("p", 1)?;
                if self.arms == ReceiveDown {
                    w.make_semaphore("s", if self.blocks { 0 } else { 2 }, false)?;
                }
                for tube in self.tubes() {
                    w.make_tube(tube, Kind::Mpmc, self.slots())?;
                    w.send_to(tube)?;
                    w.receive_from(tube)?;
                    let full = self.arms == SendReceive && *tube == "t";
                    let there = match (self.blocks, full) {
                        (true, true) => FEW,
                        (true, false) => 0,
                        (false, true) => 1,
                        (false, false) => 2,
                    };
                    w.post_all(tube, KEEPER, there)?;
                }
                Ok(())
            })
            .perform(move |w| {
                w.warm("p");
                let hands = self.hands(w).expect("there may be many");
                let it = if self.arms == SendReceive { w.try_write("t") } else { Message::default() };
                w.stage().begin();
                let done = self.choose(&hands, it, |arm, got| {
                    let whole = got.is_none_or(|(tube, message)| w.keep_message(tube, &message));
                    w.stage().word(ARM).store(arm as u64 + 1, SeqCst);
                    if whole { Ok(()) } else { fault(Fault::Torn, "torn") }
                });
                w.stage().end(done.is_ok());
                std::mem::forget(hands);
            })
            .wait_each(move |w, which| {
                let hands = self.hands(w)?;
                let writer = HELPER + which as u64;
                let it = if self.arms == SendReceive { w.write("t", writer) } else { Message::default() };
                self.choose(&hands, it, |arm, got| {
                    if let Some((tube, message)) = got {
                        if self.arms == SendReceive {
                            w.tear_up("t", &it);
                        }
                        // A choice does not say whether what it has received was there before.
                        return w.receive(tube, &message, None).map(drop);
                    }
                    if self.arms == ReceiveDown && arm == 1 {
                        w.note_taken("s");
                    }
                    Ok(())
                })
            })
            .others(move |w| {
                if w.scene() == StoppedWaiter {
                    self.give(w)?;
                    return w.first_through();
                }
                for tube in self.tubes() {
                    w.messages_pass(tube, 6, 1)?;
                }
                if self.arms == ReceiveDown && !w.try_unit("s")? {
                    return fault(Fault::Wedged, "of two units the stopped one keeps both away");
                }
                Ok(())
            })
            .asleep(move |w| self.give(w))
            .bereaved(move |w| self.give(w))
            .check(move |w| {
                let mut arms = 0;
                for tube in self.tubes() {
                    // Whatever was looked at may come again, if its choice was not completed.
                    w.settle(tube, self.slots(), Part::Receives(true, 1))?;
                    arms += w.missing(tube).len();
                }
                arms += usize::from(self.arms == SendReceive && w.came_through("t"));
                let mut names = vec!["p", "t"];
                match self.arms {
                    ReceiveDown => {
                        let units = w.difference("s")?;
                        if !(-1..=0).contains(&units) {
                            return fault(Fault::Lost, format!("s has {units:+} of the victim's"));
                        }
                        arms += usize::from(units < 0);
                        names.insert(1, "s");
                    }
                    TwoReceive | SendReceive => names.push("u"),
                }
                let done = w.stage().word(ARM).load(SeqCst) != 0;
                if arms > 1 {
                    return fault(Fault::Doubled, format!("a choice took {arms} arms"));
                }
                if done && arms == 0 {
                    return fault(Fault::Lost, "a choice that was completed took no arm");
                }
                if self.blocks && !w.was_woken() && arms > 0 {
                    return fault(Fault::Lost, "nothing was there while it lived, and something is missing");
                }
                w.in_order(&names)
            })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let choice = |name, arms, blocks| Choice { name, arms, blocks }.operation();
    vec![
        choice("choice: recv, recv", TwoReceive, false),
        choice("choice: send, recv", SendReceive, false),
        choice("choice: recv, down", ReceiveDown, false),
        choice("choice: recv, recv, blocks", TwoReceive, true),
        choice("choice: send, recv, blocks", SendReceive, true),
        choice("choice: recv, down, blocks", ReceiveDown, true),
    ]
}
