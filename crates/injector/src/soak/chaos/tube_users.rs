//! Processes that send and receive messages by tubes, each worker in a part of its own:
//!
//! | arena | parts |
//! |---|---|
//! | first | sends by `a`; sends by `a` or `b`; receives from `a`; receives from either; the same, or takes a unit |
//! | second | two send by `c`; one receives from it; one sends by `d`; one receives |
//! | third | one sends by `e`, two receive; one sends by `f`, one receives |
//!
//! Messages are copied in, and written in place, some given up and begun again; they are copied out, and looked at in place.
//! A tube user that finds an end taken that only one may have stands by. What is noted when is told in [`ledger`](super::ledger).

use std::collections::HashMap;

use chappe::Select;
use chappe::tube::named::{NotReceived, NotSent, Receiver, Sender, TubeError};

use super::board::{Deed, Found};
use super::ledger::{Unit, message, number};
use super::places::{MESSAGES, Message, Place, TUBES};
use super::semaphore_users;
use super::worker::{Broken, Mistake, Worker};
use std::sync::atomic::Ordering::SeqCst;

/// What one worker does.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Sends by this tube.
    Send(usize),
    /// Sends by `a` or `b`.
    SendEither,
    /// Receives from this tube.
    Receive(usize),
    /// Receives from `a` or `b`; if so, or takes a unit.
    ReceiveEither(bool),
}

/// All parts; those of one process are those whose numbers differ by three.
pub const PARTS: [Part; 15] = [
    Part::Send(0),
    Part::SendEither,
    Part::Receive(0),
    Part::ReceiveEither(false),
    Part::ReceiveEither(true),
    Part::Send(2),
    Part::Send(2),
    Part::Receive(2),
    Part::Send(3),
    Part::Receive(3),
    Part::Send(4),
    Part::Receive(4),
    Part::Receive(4),
    Part::Send(5),
    Part::Receive(5),
];

/// All its turns.
///
/// # Errors
/// What should not have failed.
pub fn live(worker: &mut Worker, places: &[Place], part: Part) -> Result<(), Broken> {
    let mut user = TubeUser { worker, sent: [0; TUBES.len()], last: HashMap::new() };
    match part {
        Part::Send(tube) => user.send(tube),
        Part::SendEither => user.send_either(),
        Part::Receive(tube) => user.receive(tube),
        Part::ReceiveEither(units) => user.receive_either(&places[0], units),
    }
}

struct TubeUser<'a, 'z> {
    worker: &'a mut Worker<'z>,
    /// How many messages it has sent by each tube.
    sent: [u64; TUBES.len()],
    /// The last that it has received by each tube from each sender.
    last: HashMap<(usize, u32), u64>,
}

impl TubeUser<'_, '_> {
    fn is_over(&self) -> bool {
        self.worker.board().is_over()
    }

    /// Attaches an end; nothing, if it is another's and the round is over.
    fn attach<E>(&mut self, tube: usize, end: impl Fn() -> Result<E, TubeError>) -> Result<Option<E>, Broken> {
        loop {
            self.worker.at(Deed::Attach, TUBES[tube].arena);
            match end() {
                Ok(end) => {
                    self.worker.at(Deed::Tube, TUBES[tube].arena);
                    return Ok(Some(end));
                }
                Err(TubeError::Single { .. }) if self.is_over() => return Ok(None),
                Err(TubeError::Single { .. }) => self.worker.alone(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn sender(&mut self, tube: usize) -> Result<Option<Sender<Message>>, Broken> {
        self.attach(tube, || TUBES[tube].open()?.sender())
    }

    fn receiver(&mut self, tube: usize) -> Result<Option<Receiver<Message>>, Broken> {
        self.attach(tube, || TUBES[tube].open()?.receiver())
    }

    // ---- senders ----

    fn write(&mut self, number: u32, tube: usize) -> Message {
        self.sent[tube] += 1;
        message(number, self.worker.number, self.sent[tube], tube)
    }

    /// The message was sent by this tube, or no receiver is there.
    fn sent(&mut self, number: u32, tube: usize, sent: Result<(), Option<Broken>>) -> Result<(), Broken> {
        match sent {
            Ok(()) => {
                self.worker.board().sent(number, tube);
                self.worker.turn();
                Ok(())
            }
            Err(None) => {
                self.worker.alone();
                Ok(())
            }
            Err(Some(e)) => Err(e),
        }
    }

    fn send(&mut self, tube: usize) -> Result<(), Broken> {
        let Some(mut out) = self.sender(tube)? else { return Ok(()) };
        while !self.is_over() {
            let number = self.worker.board().next_message();
            let it = self.write(number, tube);
            let sent =
                if self.worker.roll(2) == 0 { out.send(it).map_err(unsent) } else { self.in_place(&mut out, it) };
            self.sent(number, tube, sent)?;
        }
        Ok(())
    }

    fn in_place(&mut self, out: &mut Sender<Message>, it: Message) -> Result<(), Option<Broken>> {
        // One that is given up first, now and then.
        if self.worker.roll(8) == 0 {
            drop(out.reserve().map_err(unsent)?);
        }
        let mut slot = out.reserve().map_err(unsent)?;
        slot[..3].copy_from_slice(&it[..3]);
        self.worker.dawdle();
        *slot = it;
        slot.commit().map_err(unsent)
    }

    fn send_either(&mut self) -> Result<(), Broken> {
        let (Some(a), Some(b)) = (self.sender(0)?, self.sender(1)?) else { return Ok(()) };
        let outs = [a, b];
        while !self.is_over() {
            let number = self.worker.board().next_message();
            let mut select = Select::new();
            outs.iter().for_each(|out| {
                select.send_on(out);
            });
            let chosen = select.wait()?;
            let tube = chosen.index();
            self.worker.dawdle();
            let it = self.write(number, tube);
            let sent = chosen.send_on(&outs[tube], it).map_err(|_| None);
            self.sent(number, tube, sent)?;
        }
        Ok(())
    }

    // ---- receivers ----

    fn note(&mut self, it: &Message, tube: usize, again: bool) {
        match self.worker.board().received(it, tube, again) {
            // Marked ones come late.
            Ok(_) if again => {}
            Ok((sender, count)) => {
                let last = self.last.insert((tube, sender), count).unwrap_or(0);
                if last >= count {
                    let text = format!("by {} came message {count} of {sender} after {last}", TUBES[tube].name);
                    self.worker.chaos.found(Found::Order, &text);
                }
            }
            Err((what, text)) => self.worker.chaos.found(what, &text),
        }
    }

    /// From here on one message of the tubes of this group is in its hands, or not.
    fn copies(&self, group: Option<usize>) {
        self.worker.notes.copies.store(group.map_or(0, |group| group as u32 + 1), SeqCst);
    }

    fn receive(&mut self, tube: usize) -> Result<(), Broken> {
        let Some(into) = self.receiver(tube)? else { return Ok(()) };
        loop {
            let forgetful = self.worker.chaos.mistake == Some(Mistake::Forgetful);
            let got =
                if !forgetful && self.worker.roll(2) == 0 { self.copy(&into, tube) } else { self.look(&into, tube) };
            match got {
                Ok(()) => self.worker.turn(),
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) if self.is_over() => {
                    return Ok(());
                }
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => self.worker.alone(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn copy(&mut self, into: &Receiver<Message>, tube: usize) -> Result<(), NotReceived> {
        self.copies(Some(TUBES[tube].group));
        let got = into.recv_redelivered().map(|(it, again)| self.note(&it, tube, again));
        self.copies(None);
        got
    }

    fn look(&mut self, into: &Receiver<Message>, tube: usize) -> Result<(), NotReceived> {
        let loan = into.borrow()?;
        self.worker.dawdle();
        let (it, again) = (*loan, loan.again());
        if self.worker.chaos.mistake == Some(Mistake::Forgetful) {
            loan.release()?;
            std::thread::sleep(self.worker.moment(3_000));
            self.note(&it, tube, again);
            return Ok(());
        }
        // First which one: what is noted and comes again is excused by that. One that is no message is found below.
        let number = it[0] % MESSAGES as u64;
        self.worker.notes.holds.store(number as u32 + 1, SeqCst);
        self.note(&it, tube, again);
        self.worker.dawdle();
        let released = loan.release();
        self.worker.notes.holds.store(0, SeqCst);
        released
    }

    fn receive_either(&mut self, place: &Place, units: bool) -> Result<(), Broken> {
        let (Some(a), Some(b)) = (self.receiver(0)?, self.receiver(1)?) else { return Ok(()) };
        let (intos, hay) = ([a, b], &place.semaphores[0]);
        if units {
            self.worker.at(Deed::TubeOrUnit, 0);
        }
        let mut ended = [false; 2];
        while ended != [true; 2] {
            let mut select = Select::new();
            let listed: Vec<usize> = (0..2).filter(|which| !ended[*which]).collect();
            listed.iter().for_each(|which| {
                select.recv_on(&intos[*which]);
            });
            if units {
                select.down(hay);
                self.worker.unit(Unit::Taking(number(0, 0)));
            }
            self.copies(Some(TUBES[0].group));
            let chosen = select.wait()?;
            let Some(which) = listed.get(chosen.index()).copied() else {
                self.copies(None);
                chosen.down(hay)?;
                semaphore_users::give_back(self.worker, number(0, 0), hay)?;
                self.worker.turn();
                continue;
            };
            self.worker.unit(Unit::Idle);
            self.worker.dawdle();
            match chosen.recv_redelivered(&intos[which]) {
                Ok((it, again)) => {
                    self.note(&it, which, again);
                    self.copies(None);
                    self.worker.turn();
                }
                Err(_) => {
                    self.copies(None);
                    ended[which] = self.is_over();
                    self.worker.alone();
                }
            }
        }
        Ok(())
    }
}

/// Why it was not sent: nothing, if only no receiver is there.
fn unsent<M>(why: NotSent<M>) -> Option<Broken> {
    match why {
        NotSent::Disconnected { .. } => None,
        other => Some(other.to_string().into()),
    }
}
