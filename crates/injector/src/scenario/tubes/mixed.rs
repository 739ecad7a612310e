//! One choice of everything: send to tube `t`, receive from tube `u`, down of semaphore `s`, acquire of pool `p`.
//!
//! | way | what can be done | what happens |
//! |---|---|---|
//! | ready | all of it | one arm, whichever |
//! | borrow | a message is in `u` | it is looked at in place, then received |
//! | looked | all of it | nothing: the choice only says which |
//! | default | nothing | nothing, at once |
//! | timed out | nothing | nothing, after a while; helpers that wait get theirs afterwards |

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::tube::named::{Kind, Receiver, Sender};
use chappe::{Pool, Select, SelectError, Semaphore};

use super::super::Operation;
use super::super::Scene::{Alone, Met, Stopped, Waiters};
use super::super::messages::{KEEPER, Message, Part};
use super::super::world::{World, fault, fine};
use super::setting::{FEW, SLOTS};
use crate::board::Fault;
use Way::{Borrow, Default, Looked, Ready, TimedOut};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Ready,
    Borrow,
    Looked,
    Default,
    TimedOut,
}

/// The arm that was completed, counted from 1.
const ARM: usize = 16;
/// What the arms are, in their order.
const SENDS: usize = 0;
const RECEIVES: usize = 1;
const DOWNS: usize = 2;

#[derive(Clone, Copy)]
struct Mixed {
    way: Way,
}

/// What a choice is made of.
struct Hands {
    out: Sender<Message>,
    into: Receiver<Message>,
    semaphore: &'static Semaphore,
    pool: &'static Pool,
}

impl Hands {
    fn of(w: &World) -> Result<Hands, (Fault, String)> {
        Ok(Hands {
            out: fine("attaching a sender", w.tube("t")?.sender())?,
            into: fine("attaching a receiver", w.tube("u")?.receiver())?,
            semaphore: w.semaphore("s")?,
            pool: w.open("p")?,
        })
    }

    fn choice(&self) -> Select<'_> {
        let mut select = Select::new();
        select.send_on(&self.out);
        select.recv_on(&self.into);
        select.down(self.semaphore);
        select.acquire(self.pool);
        select
    }
}

impl Mixed {
    fn is_ready(&self) -> bool {
        matches!(self.way, Ready | Borrow | Looked)
    }

    fn slots(&self) -> u32 {
        if self.is_ready() { SLOTS } else { FEW }
    }

    /// Whether it came out as it must.
    fn choose(&self, w: &World, hands: &Hands, it: Message) -> bool {
        let keep = |message: Message| w.keep_message("u", &message);
        match self.way {
            Ready => hands.choice().wait().is_ok_and(|chosen| {
                let arm = chosen.index();
                let done = match arm {
                    SENDS => chosen.send_on(&hands.out, it).is_ok(),
                    RECEIVES => chosen.recv_on(&hands.into).is_ok_and(keep),
                    DOWNS => chosen.down(hands.semaphore).is_ok(),
                    _ => chosen.permit(hands.pool).map(std::mem::forget).is_ok(),
                };
                w.stage().word(ARM).store(arm as u64 + 1, SeqCst);
                done
            }),
            Borrow => {
                let mut select = Select::new();
                select.recv_on(&hands.into);
                select.wait().and_then(|chosen| chosen.borrow(&hands.into).map_err(|_| SelectError::Nothing)).is_ok_and(
                    |loan| {
                        let message = *loan;
                        w.hold_message("u", &message) && loan.release().is_ok() && keep(message)
                    },
                )
            }
            Looked => hands.choice().ready() <= DOWNS + 1,
            Default => matches!(hands.choice().try_wait(), Err(SelectError::WouldBlock)),
            TimedOut => matches!(hands.choice().wait_timeout(Duration::from_millis(1)), Err(SelectError::Timeout)),
        }
    }

    /// What was taken of `s` and `p` while the victim lived.
    fn units(&self) -> u32 {
        if self.is_ready() { 2 } else { 0 }
    }

    fn operation(self) -> Operation {
        Operation::of(
            match self.way {
                Ready => "choice of all kinds",
                Borrow => "choice: borrow",
                Looked => "choice of all kinds, looked at",
                Default => "choice of all kinds, default",
                TimedOut => "choice of all kinds, timed out",
            },
            match self.way {
                Ready => &[Alone, Met, Stopped],
                Borrow => &[Alone, Met, Stopped],
                Looked => &[Alone, Met, Stopped],
                Default | TimedOut => &[Alone, Waiters],
            },
        )
        // Looks at everything again and again before it sleeps.
        .long(self.way == TimedOut)
        .build(move |w| {
            let pool = w.make("p", 1)?;
            if !self.is_ready() {
                w.hold(pool)?;
            }
            w.make_semaphore("s", self.units(), false)?;
            for (tube, messages) in
                [("t", if self.is_ready() { 1 } else { FEW }), ("u", if self.is_ready() { 2 } else { 0 })]
            {
                w.make_tube(tube, Kind::Mpmc, self.slots())?;
                w.send_to(tube)?;
                w.receive_from(tube)?;
                w.post_all(tube, KEEPER, messages)?;
            }
            w.count_waiters_of("u");
            Ok(())
        })
        .perform(move |w| {
            w.warm("p");
            let hands = Hands::of(w).expect("there may be many");
            let it = if self.way == Ready { w.try_write("t") } else { Message::default() };
            if self.way == TimedOut {
                // Starts what a first wait starts.
                drop(hands.choice().wait_timeout(Duration::from_micros(1)));
            }
            w.stage().begin();
            let done = self.choose(w, &hands, it);
            w.stage().end(done);
            std::mem::forget(hands);
        })
        // Waits for a message, as one arm of the victim's choice does.
        .wait(|w| w.fetch_slowly("u").map(drop))
        .meet(|w| {
            w.fetch_slowly("u")?;
            w.pass_unit("s")
        })
        .others(|w| {
            for tube in ["t", "u"] {
                w.messages_pass(tube, 4, 1)?;
            }
            if !w.try_unit("s")? {
                return fault(Fault::Wedged, "of two units the stopped one keeps both away");
            }
            w.take_or_victim_has("p")
        })
        .bereaved(|w| if w.scene() == Waiters { w.post_all("u", KEEPER, 2) } else { Ok(()) })
        .check(move |w| {
            let arm = w.stage().word(ARM).load(SeqCst) as usize;
            // Whatever was looked at may come again, if its choice was not completed.
            let came_out = matches!(self.way, Ready | Borrow);
            w.settle("t", self.slots(), if self.way == Ready { Part::Receives(false, 0) } else { Part::Nothing })?;
            w.settle("u", self.slots(), Part::Receives(came_out, u32::from(came_out)))?;
            let units = w.difference("s")?;
            if !(-1..=0).contains(&units) || units < 0 && self.way != Ready {
                return fault(Fault::Lost, format!("s has {units:+} of the victim's"));
            }
            let arms = [w.came_through("t"), !w.missing("u").is_empty(), units < 0];
            let taken = arms.iter().filter(|taken| **taken).count();
            if taken > 1 || arm > DOWNS + 1 && taken > 0 {
                return fault(Fault::Doubled, format!("a choice took several arms: {arms:?}, and completed arm {arm}"));
            }
            if (1..=DOWNS + 1).contains(&arm) && !arms[arm - 1] {
                return fault(Fault::Lost, format!("arm {arm} was completed, and happened were {arms:?}"));
            }
            w.in_order(&["p", "s", "t", "u"])
        })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let ways = [Ready, Borrow, Looked, Default, TimedOut];
    ways.into_iter().map(|way| Mixed { way }.operation()).collect()
}
