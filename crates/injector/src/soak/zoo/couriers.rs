//! Animals that send and receive letters by tubes, each limb in a part of its own:
//!
//! | arena | parts |
//! |---|---|
//! | first | sends by `a`; sends by `a` or `b`; receives from `a`; receives from either; the same, or takes a unit |
//! | second | two send by `c`; one receives from it; one sends by `d`; one receives |
//! | third | one sends by `e`, two receive; one sends by `f`, one receives |
//!
//! Letters are copied in, and written in place, some given up and begun again; they are copied out, and looked at in place.
//! A courier that finds an end taken that only one may have stands by. What is noted when is told in [`ledger`](super::ledger).

use std::collections::HashMap;

use chappe::Select;
use chappe::tube::named::{NotReceived, NotSent, Receiver, Sender, TubeError};

use super::board::{Deed, Found};
use super::ledger::{Letter, Unit, letter, number};
use super::limb::{Broken, Limb, Mistake};
use super::places::{Place, TUBES};
use super::sippers;
use std::sync::atomic::Ordering::SeqCst;

/// What one limb does.
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
pub fn live(limb: &mut Limb, places: &[Place], part: Part) -> Result<(), Broken> {
    let mut courier = Courier { limb, sent: [0; TUBES.len()], last: HashMap::new() };
    match part {
        Part::Send(tube) => courier.send(tube),
        Part::SendEither => courier.send_either(),
        Part::Receive(tube) => courier.receive(tube),
        Part::ReceiveEither(units) => courier.receive_either(&places[0], units),
    }
}

struct Courier<'a, 'z> {
    limb: &'a mut Limb<'z>,
    /// How many letters it has sent by each tube.
    sent: [u64; TUBES.len()],
    /// The last that it has received by each tube from each sender.
    last: HashMap<(usize, u32), u64>,
}

impl Courier<'_, '_> {
    fn is_over(&self) -> bool {
        self.limb.board().is_over()
    }

    /// Attaches an end; nothing, if it is another's and the round is over.
    fn attach<E>(&mut self, tube: usize, end: impl Fn() -> Result<E, TubeError>) -> Result<Option<E>, Broken> {
        loop {
            self.limb.at(Deed::Attach, TUBES[tube].arena);
            match end() {
                Ok(end) => {
                    self.limb.at(Deed::Tube, TUBES[tube].arena);
                    return Ok(Some(end));
                }
                Err(TubeError::Single { .. }) if self.is_over() => return Ok(None),
                Err(TubeError::Single { .. }) => self.limb.alone(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn sender(&mut self, tube: usize) -> Result<Option<Sender<Letter>>, Broken> {
        self.attach(tube, || TUBES[tube].open()?.sender())
    }

    fn receiver(&mut self, tube: usize) -> Result<Option<Receiver<Letter>>, Broken> {
        self.attach(tube, || TUBES[tube].open()?.receiver())
    }

    // ---- senders ----

    fn write(&mut self, number: u32, tube: usize) -> Letter {
        self.sent[tube] += 1;
        letter(number, self.limb.number, self.sent[tube], tube)
    }

    /// The letter was sent by this tube, or no receiver is there.
    fn sent(&mut self, number: u32, tube: usize, sent: Result<(), Option<Broken>>) -> Result<(), Broken> {
        match sent {
            Ok(()) => {
                self.limb.board().sent(number, tube);
                self.limb.turn();
                Ok(())
            }
            Err(None) => {
                self.limb.alone();
                Ok(())
            }
            Err(Some(e)) => Err(e),
        }
    }

    fn send(&mut self, tube: usize) -> Result<(), Broken> {
        let Some(mut out) = self.sender(tube)? else { return Ok(()) };
        while !self.is_over() {
            let number = self.limb.board().next_letter();
            let it = self.write(number, tube);
            let sent = if self.limb.roll(2) == 0 { out.send(it).map_err(unsent) } else { self.in_place(&mut out, it) };
            self.sent(number, tube, sent)?;
        }
        Ok(())
    }

    fn in_place(&mut self, out: &mut Sender<Letter>, it: Letter) -> Result<(), Option<Broken>> {
        // One that is given up first, now and then.
        if self.limb.roll(8) == 0 {
            drop(out.reserve().map_err(unsent)?);
        }
        let mut slot = out.reserve().map_err(unsent)?;
        slot[..3].copy_from_slice(&it[..3]);
        self.limb.dawdle();
        *slot = it;
        slot.commit().map_err(unsent)
    }

    fn send_either(&mut self) -> Result<(), Broken> {
        let (Some(a), Some(b)) = (self.sender(0)?, self.sender(1)?) else { return Ok(()) };
        let outs = [a, b];
        while !self.is_over() {
            let number = self.limb.board().next_letter();
            let mut select = Select::new();
            outs.iter().for_each(|out| {
                select.send_on(out);
            });
            let chosen = select.wait()?;
            let tube = chosen.index();
            self.limb.dawdle();
            let it = self.write(number, tube);
            let sent = chosen.send_on(&outs[tube], it).map_err(|_| None);
            self.sent(number, tube, sent)?;
        }
        Ok(())
    }

    // ---- receivers ----

    fn note(&mut self, it: &Letter, tube: usize, again: bool) {
        match self.limb.board().received(it, tube, again) {
            // Marked ones come late.
            Ok(_) if again => {}
            Ok((sender, count)) => {
                let last = self.last.insert((tube, sender), count).unwrap_or(0);
                if last >= count {
                    let text = format!("by {} came letter {count} of {sender} after {last}", TUBES[tube].name);
                    self.limb.zoo.found(Found::Order, &text);
                }
            }
            Err((what, text)) => self.limb.zoo.found(what, &text),
        }
    }

    /// From here on one letter of the tubes of this group is in its hands, or not.
    fn copies(&self, group: Option<usize>) {
        self.limb.notes.copies.store(group.map_or(0, |group| group as u32 + 1), SeqCst);
    }

    fn receive(&mut self, tube: usize) -> Result<(), Broken> {
        let Some(into) = self.receiver(tube)? else { return Ok(()) };
        loop {
            let forgetful = self.limb.zoo.mistake == Some(Mistake::Forgetful);
            let got =
                if !forgetful && self.limb.roll(2) == 0 { self.copy(&into, tube) } else { self.look(&into, tube) };
            match got {
                Ok(()) => self.limb.turn(),
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) if self.is_over() => {
                    return Ok(());
                }
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => self.limb.alone(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn copy(&mut self, into: &Receiver<Letter>, tube: usize) -> Result<(), NotReceived> {
        self.copies(Some(TUBES[tube].group));
        let got = into.recv_redelivered().map(|(it, again)| self.note(&it, tube, again));
        self.copies(None);
        got
    }

    fn look(&mut self, into: &Receiver<Letter>, tube: usize) -> Result<(), NotReceived> {
        let loan = into.borrow()?;
        self.limb.dawdle();
        let (it, again) = (*loan, loan.again());
        if self.limb.zoo.mistake == Some(Mistake::Forgetful) {
            loan.release()?;
            std::thread::sleep(self.limb.moment(3_000));
            self.note(&it, tube, again);
            return Ok(());
        }
        // First which one: what is noted and comes again is excused by that. One that is no letter is found below.
        let number = it[0] % super::ledger::LETTERS as u64;
        self.limb.notes.holds.store(number as u32 + 1, SeqCst);
        self.note(&it, tube, again);
        self.limb.dawdle();
        let released = loan.release();
        self.limb.notes.holds.store(0, SeqCst);
        released
    }

    fn receive_either(&mut self, place: &Place, units: bool) -> Result<(), Broken> {
        let (Some(a), Some(b)) = (self.receiver(0)?, self.receiver(1)?) else { return Ok(()) };
        let (intos, hay) = ([a, b], &place.semaphores[0]);
        if units {
            self.limb.at(Deed::TubeOrUnit, 0);
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
                self.limb.unit(Unit::Taking(number(0, 0)));
            }
            self.copies(Some(TUBES[0].group));
            let chosen = select.wait()?;
            let Some(which) = listed.get(chosen.index()).copied() else {
                self.copies(None);
                chosen.down(hay)?;
                sippers::give_back(self.limb, number(0, 0), hay)?;
                self.limb.turn();
                continue;
            };
            self.limb.unit(Unit::Idle);
            self.limb.dawdle();
            match chosen.recv_redelivered(&intos[which]) {
                Ok((it, again)) => {
                    self.note(&it, which, again);
                    self.copies(None);
                    self.limb.turn();
                }
                Err(_) => {
                    self.copies(None);
                    ended[which] = self.is_over();
                    self.limb.alone();
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
