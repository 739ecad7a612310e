//! The messages sent through tubes, with their senders and receivers.
//!
//! A message names its writer and its number, and the rest of it follows from that: what is torn contradicts itself. Survivors note on the
//! board what they send and what they receive. The victim notes which message it is about to send, which it looks at in place, and which it
//! has received for good; so what is missing at the end, or is there twice, can be its doing or a fault. Tubes are called `t` and `u`.
//!
//! When the victim is dead, its tube is tried ([`World::sound`]): what is there is received, in order; as many messages as it
//! has slots can be sent and no more; each end is told that the other has gone when it has, and not before.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use chappe::Arena;
use chappe::tube::named::{Kind, NotReceived, NotSent, Tube, TubeError, TubeInfo, TubeOptions};

pub use super::desk::Message;
use super::desk::WRITERS;
use super::world::{OPTIONS, World, fault, fine};
use crate::board::{Fault, SETTING, Verdict};

/// The writers: the keeper.
pub const KEEPER: u64 = 0;
/// The first helper; the second is one more.
pub const HELPER: u64 = 1;
/// The victim.
pub const ACTOR: u64 = 3;

/// Messages of writer `i` to tube `j` that were sent, a bit each: word `SENT + 4 * j + i`.
const SENT: usize = 192;
/// The same, received by survivors.
const GOT: usize = SENT + 8;
/// The same, as far as they came once more.
const MARKED: usize = GOT + 8;
/// The message that the victim sends to tube `j`: word `TRIED + j`.
const TRIED: usize = MARKED + 8;
/// The message that it looks at.
const HELD: usize = TRIED + 2;
/// The message that it has received.
const TAKEN: usize = HELD + 2;

/// Writer's message of this number.
pub fn message(writer: u64, number: u64) -> Message {
    let name = writer << 32 | number;
    [name, !name, name.rotate_left(17) ^ 0x5eed_1e77_e5ee_d0d0, name.wrapping_mul(0x9e37_79b9_7f4a_7c15)]
}

/// The writer of a message, and its number.
pub fn read(it: &Message) -> Result<(u64, u64), (Fault, String)> {
    let (writer, number) = (it[0] >> 32, it[0] & 0xffff_ffff);
    if *it == message(writer, number) && writer < WRITERS && number < 64 {
        return Ok((writer, number));
    }
    fault(Fault::Torn, format!("a torn message: {it:x?}"))
}

fn number(tube: &str) -> usize {
    usize::from(tube.as_bytes()[0] & 1)
}

/// What the victim's operation does with messages.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Sends the one that it noted; or never sends it.
    Sends(bool),
    /// Receives one, if one was there while it lived; as many may come again, marked.
    Receives(bool, u32),
    /// Neither.
    Nothing,
}

/// What there was when a survivor came for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// One, by this writer.
    Message(u64),
    /// None.
    Nothing,
    /// None, and no sender any more.
    Ended,
}

impl World<'_> {
    fn bits(&self, base: usize, tube: &str, writer: u64) -> &AtomicU64 {
        self.stage().word(base + 4 * number(tube) + writer as usize)
    }

    fn noted(&self, base: usize, tube: &str) -> Option<(u64, u64)> {
        let word = self.stage().word(base + number(tube)).load(SeqCst);
        word.checked_sub(1).map(|name| (name / 64, name % 64))
    }

    fn note(&self, base: usize, tube: &str, (writer, number_of_it): (u64, u64)) {
        self.stage().word(base + number(tube)).store(writer * 64 + number_of_it + 1, SeqCst);
    }

    // ---- tubes ----

    /// The keeper makes a tube in arena `default`, and will count the waiters at tube `t`.
    pub fn make_tube(&self, name: &'static str, kind: Kind, slots: u32) -> Verdict {
        fine("making the arena", Arena::open_or_create("default", &OPTIONS))?;
        let options = TubeOptions { slots, kind, ..TubeOptions::default() };
        fine(&format!("making {name}"), Tube::<Message>::create(name, &options))?;
        self.count_waiters_of("t");
        Ok(())
    }

    /// Opens a tube.
    pub fn tube(&self, name: &str) -> Result<Tube<Message>, (Fault, String)> {
        fine(&format!("opening {name}"), Tube::open(name))
    }

    /// How a tube stands.
    pub fn tube_info(&self, name: &str) -> Result<TubeInfo, (Fault, String)> {
        fine("asking how it stands", self.tube(name)?.info())
    }

    /// A survivor has a sender of the tube from now on.
    pub fn send_to(&self, tube: &str) -> Verdict {
        let end = &self.desk.out[number(tube)];
        if end.borrow().is_none() {
            *end.borrow_mut() = Some(fine("attaching a sender", self.tube(tube)?.sender())?);
        }
        Ok(())
    }

    /// A survivor has a receiver of the tube from now on.
    pub fn receive_from(&self, tube: &str) -> Verdict {
        let end = &self.desk.into[number(tube)];
        if end.borrow().is_none() {
            *end.borrow_mut() = Some(fine("attaching a receiver", self.tube(tube)?.receiver())?);
        }
        Ok(())
    }

    /// The survivor's sender goes.
    pub fn stop_sending(&self, tube: &str) {
        drop(self.desk.out[number(tube)].take());
    }

    /// The survivor's receiver goes.
    pub fn stop_receiving(&self, tube: &str) {
        drop(self.desk.into[number(tube)].take());
    }

    // ---- messages ----

    /// The writer's next message, noted as sent.
    pub fn write(&self, tube: &str, writer: u64) -> Message {
        let bits = self.bits(SENT, tube, writer);
        let next = u64::from(bits.load(SeqCst).trailing_ones());
        bits.fetch_or(1 << next, SeqCst);
        message(writer, next)
    }

    /// It was not sent.
    pub fn tear_up(&self, tube: &str, it: &Message) {
        self.bits(SENT, tube, it[0] >> 32).fetch_and(!(1 << (it[0] & 63)), SeqCst);
    }

    /// The victim's next message, noted as the one that it tries to send.
    pub fn try_write(&self, tube: &str) -> Message {
        let next = u64::from(self.bits(SENT, tube, ACTOR).load(SeqCst).trailing_ones());
        self.note(TRIED, tube, (ACTOR, next));
        message(ACTOR, next)
    }

    /// The victim was told that all receivers have gone: it has sent nothing.
    pub fn not_sent(&self, tube: &str) {
        self.stage().word(TRIED + number(tube)).store(0, SeqCst);
    }

    /// The victim looks at this one. Whether it is whole.
    pub fn hold_message(&self, tube: &str, it: &Message) -> bool {
        read(it).inspect(|which| self.note(HELD, tube, *which)).is_ok()
    }

    /// The victim has received this one. Whether it is whole.
    pub fn keep_message(&self, tube: &str, it: &Message) -> bool {
        read(it).inspect(|which| self.note(TAKEN, tube, *which)).is_ok()
    }

    /// Whether the victim says that it has received a message.
    pub fn has_kept(&self, tube: &str) -> bool {
        self.noted(TAKEN, tube).is_some()
    }

    /// A survivor has received this one: no other may have it. `again`: whether it was marked, if that was said.
    pub fn receive(&self, tube: &str, it: &Message, again: Option<bool>) -> Result<u64, (Fault, String)> {
        let (writer, which) = read(it)?;
        let (bit, name) = (1 << which, format!("message {which} of writer {writer} in {tube}"));
        let tried = self.noted(TRIED, tube) == Some((writer, which));
        if !tried && self.bits(SENT, tube, writer).load(SeqCst) & bit == 0 {
            return fault(Fault::Torn, format!("{name} was never sent"));
        }
        if self.bits(GOT, tube, writer).fetch_or(bit, SeqCst) & bit != 0 {
            return fault(Fault::Doubled, format!("{name} has come twice"));
        }
        if self.noted(TAKEN, tube) == Some((writer, which)) {
            return fault(Fault::Doubled, format!("{name} has come, which the victim had received"));
        }
        if again == Some(true) {
            self.bits(MARKED, tube, writer).fetch_or(bit, SeqCst);
            return Ok(writer);
        }
        if again.is_none() {
            return Ok(writer);
        }
        if self.noted(HELD, tube) == Some((writer, which)) {
            return fault(Fault::Doubled, format!("{name} has come unmarked, which the victim had looked at"));
        }
        if self.desk.last[number(tube)][writer as usize].replace(which + 1) > which {
            return fault(Fault::Torn, format!("{name} comes after a later one"));
        }
        Ok(writer)
    }

    /// A survivor sends a message if there is room.
    pub fn post(&self, tube: &str, writer: u64) -> Result<bool, (Fault, String)> {
        self.send_to(tube)?;
        let end = self.desk.out[number(tube)].borrow();
        let it = self.write(tube, writer);
        match end.as_ref().expect("just attached").try_send(it) {
            Ok(()) => Ok(true),
            Err(NotSent::Full(_)) => {
                self.tear_up(tube, &it);
                Ok(false)
            }
            Err(e) => {
                self.tear_up(tube, &it);
                fault(Fault::Torn, format!("sending to {tube}: {e}"))
            }
        }
    }

    /// So many messages, for which there is room.
    pub fn post_all(&self, tube: &str, writer: u64, messages: u32) -> Verdict {
        for done in 0..messages {
            if !self.post(tube, writer)? {
                return fault(Fault::Wedged, format!("{tube} is full after {done} of {messages} messages"));
            }
        }
        Ok(())
    }

    /// A survivor sends a message, for which there is room. It is not sent if all receivers have gone, as the victim has.
    pub fn offer(&self, tube: &str, writer: u64) -> Verdict {
        self.send_to(tube)?;
        let end = self.desk.out[number(tube)].borrow();
        let it = self.write(tube, writer);
        match end.as_ref().expect("just attached").try_send(it) {
            Ok(()) => Ok(()),
            Err(NotSent::Disconnected { .. }) => {
                self.tear_up(tube, &it);
                self.has_gone()
            }
            Err(e) => fault(Fault::Torn, format!("sending to {tube}: {e}")),
        }
    }

    /// A survivor sends a message, and waits for room. It is not sent if all receivers have gone, as the victim has.
    pub fn post_slowly(&self, tube: &str, writer: u64) -> Verdict {
        self.send_to(tube)?;
        let end = self.desk.out[number(tube)].borrow();
        let it = self.write(tube, writer);
        match end.as_ref().expect("just attached").send(it) {
            Ok(()) => Ok(()),
            Err(NotSent::Disconnected { .. }) => {
                self.tear_up(tube, &it);
                self.has_gone()
            }
            Err(e) => fault(Fault::Torn, format!("sending to {tube}: {e}")),
        }
    }

    /// A survivor looks at the next message in place, if there is one, and receives it.
    pub fn fetch(&self, tube: &str) -> Result<Found, (Fault, String)> {
        self.receive_from(tube)?;
        let end = self.desk.into[number(tube)].borrow();
        match end.as_ref().expect("just attached").try_borrow() {
            Ok(loan) => {
                let writer = self.receive(tube, &loan, Some(loan.again()))?;
                fine("releasing it", loan.release())?;
                Ok(Found::Message(writer))
            }
            Err(NotReceived::Empty) => Ok(Found::Nothing),
            Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => Ok(Found::Ended),
            Err(e) => fault(Fault::Torn, format!("receiving from {tube}: {e}")),
        }
    }

    /// A survivor copies the next message out, if there is one: while no process has died, none comes twice.
    pub fn copy_out(&self, tube: &str) -> Result<Found, (Fault, String)> {
        self.receive_from(tube)?;
        let end = self.desk.into[number(tube)].borrow();
        match end.as_ref().expect("just attached").try_recv() {
            Ok(it) => Ok(Found::Message(self.receive(tube, &it, Some(false))?)),
            Err(NotReceived::Empty) => Ok(Found::Nothing),
            Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => Ok(Found::Ended),
            Err(e) => fault(Fault::Torn, format!("receiving from {tube}: {e}")),
        }
    }

    /// So many messages, which are there.
    pub fn fetch_all(&self, tube: &str, messages: u32) -> Verdict {
        for done in 0..messages {
            match self.fetch(tube)? {
                Found::Message(_) => {}
                other => {
                    return fault(Fault::Wedged, format!("{tube} has {other:?} after {done} of {messages} messages"));
                }
            }
        }
        Ok(())
    }

    /// A survivor waits for a message. None comes if all senders have gone, as the victim has.
    pub fn fetch_slowly(&self, tube: &str) -> Result<Found, (Fault, String)> {
        self.receive_from(tube)?;
        let end = self.desk.into[number(tube)].borrow();
        match end.as_ref().expect("just attached").recv_redelivered() {
            Ok((it, again)) => Ok(Found::Message(self.receive(tube, &it, Some(again))?)),
            Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => {
                self.has_gone().map(|()| Found::Ended)
            }
            Err(e) => fault(Fault::Torn, format!("waiting for a message of {tube}: {e}")),
        }
    }

    /// While the victim is stopped: messages go past it. A process that has one slot, or has passed one, leaves the others.
    pub fn messages_pass(&self, tube: &str, rounds: u32, at_once: u32) -> Verdict {
        for round in 0..rounds {
            for _ in 0..at_once {
                if !self.post(tube, KEEPER)? {
                    return fault(Fault::Wedged, format!("round {round}: no room in {tube} past the stopped one"));
                }
            }
            for _ in 0..at_once {
                match if round % 2 == 0 { self.copy_out(tube)? } else { self.fetch(tube)? } {
                    Found::Message(_) => {}
                    other => {
                        return fault(
                            Fault::Wedged,
                            format!("round {round}: past the stopped one {tube} has {other:?}"),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Somebody was told that all have gone from an end: the victim must have begun to go.
    fn has_gone(&self) -> Verdict {
        if self.is_leaving() || self.leaves.get() && self.stage().board().phase.load(SeqCst) != SETTING {
            return Ok(());
        }
        fault(Fault::Torn, "told that all have gone from the other end, where the living victim is")
    }

    /// The victim's operation is to leave an end: a process that is told that it has gone need not look whether it has died.
    pub fn expect_to_leave(&self) {
        self.leaves.set(true);
    }

    // ---- after the death ----

    /// The tube is as good as new: see above. The keeper keeps no end of it.
    pub fn sound(&self, tube: &str, slots: u32) -> Verdict {
        let recovered = || chappe::doctor().is_ok() && self.is_recovered();
        self.demand(recovered, "the dead victim is not recovered:")?;
        // A process that has just begun to recover a dead member is no longer listed as one that
        // does.
        let (mut room, mut found) = (0, Ok(()));
        let whole = self.stage().until(|| {
            let tried = self.room(tube).map(|now| room = now);
            found = tried;
            found.is_err() || room == slots
        });
        found?;
        if !whole {
            return fault(Fault::Leaked, format!("{tube} has room for {room} messages, not {slots}"));
        }
        if self.fetch(tube)? != Found::Nothing {
            return fault(Fault::Torn, format!("{tube} is to be empty, and has a sender"));
        }
        self.stop_sending(tube);
        if self.fetch(tube)? != Found::Ended {
            return fault(Fault::Torn, format!("the last sender of {tube} has gone, and nobody is told"));
        }
        self.send_to(tube)?;
        self.stop_receiving(tube);
        let end = self.desk.out[number(tube)].take().expect("just attached");
        // A dead receiver is taken for a living one until it has been recovered: what is sent is
        // for the next.
        let mut refused = Ok(());
        let told = self.stage().until(|| {
            refused = end.try_send(message(KEEPER, 0));
            if refused.is_ok()
                && let Ok(into) = self.tube(tube).and_then(|t| fine("attaching", t.receiver()))
            {
                // There is one message, or none: then it is missed below.
                let _ = into.try_recv();
            }
            matches!(refused, Err(NotSent::Disconnected { .. }))
        });
        if !told {
            return fault(Fault::Torn, format!("the last receiver of {tube} has gone, and sending says {refused:?}"));
        }
        drop(end);
        let info = self.tube_info(tube)?;
        let left = (info.messages, info.senders.len(), info.receivers.len());
        if left == (0, 0, 0) { Ok(()) } else { fault(Fault::Torn, format!("at last {tube} is {info:?}")) }
    }

    /// Receives what is there; then for how many messages there is room. They are received too, and forgotten.
    fn room(&self, tube: &str) -> Result<u32, (Fault, String)> {
        self.receive_from(tube)?;
        while let Found::Message(_) = self.fetch(tube)? {}
        let (sent, got) = (self.bits(SENT, tube, KEEPER), self.bits(GOT, tube, KEEPER));
        let last = &self.desk.last[number(tube)][KEEPER as usize];
        let before = (sent.load(SeqCst), last.get());
        let mut room = 0;
        while self.post(tube, KEEPER)? {
            room += 1;
        }
        while let Found::Message(_) = self.fetch(tube)? {}
        let new = sent.load(SeqCst) & !before.0;
        if got.load(SeqCst) & new != new {
            return fault(Fault::Lost, format!("of {room} messages to {tube} some have not come"));
        }
        sent.fetch_and(!new, SeqCst);
        got.fetch_and(!new, SeqCst);
        last.set(before.1);
        Ok(room)
    }

    /// Messages that were sent, and that no survivor has received.
    pub fn missing(&self, tube: &str) -> Vec<(u64, u64)> {
        let all = (0..WRITERS).flat_map(|writer| (0..64).map(move |which| (writer, which)));
        let lacks = |(writer, which): &(u64, u64)| {
            let read = |base| self.bits(base, tube, *writer).load(SeqCst) >> which & 1 != 0;
            read(SENT) && !read(GOT)
        };
        all.filter(lacks).collect()
    }

    /// Whether a survivor has received the message that the victim sent.
    pub fn came_through(&self, tube: &str) -> bool {
        self.noted(TRIED, tube).is_some_and(|(writer, which)| {
            let got = self.bits(GOT, tube, writer).load(SeqCst);
            got >> which & 1 != 0
        })
    }

    /// How many messages came once more.
    pub fn marked(&self, tube: &str) -> u32 {
        (0..WRITERS).map(|writer| self.bits(MARKED, tube, writer).load(SeqCst).count_ones()).sum()
    }

    /// The tube is sound, and what is missing from it is the victim's.
    pub fn settle(&self, tube: &str, slots: u32, part: Part) -> Verdict {
        self.sound(tube, slots)?;
        let (missing, came) = (self.missing(tube), self.came_through(tube));
        let (most, marks) = match part {
            Part::Receives(could, marks) => (u32::from(could), marks),
            Part::Sends(_) | Part::Nothing => (0, 0),
        };
        match part {
            Part::Sends(true) if self.was_done() && !came && self.noted(TRIED, tube).is_some() => {
                return fault(Fault::Lost, "what the victim had sent has not come");
            }
            Part::Sends(false) if came => return fault(Fault::Torn, "what the victim gave up has come"),
            _ => {}
        }
        let taken = self.noted(TAKEN, tube);
        let right = match taken {
            Some(which) => missing == [which],
            None => missing.len() <= most as usize,
        };
        if !right {
            return fault(Fault::Lost, format!("missing in {tube}: {missing:?}; the victim has received {taken:?}"));
        }
        if self.marked(tube) > marks {
            return fault(Fault::Torn, format!("{} messages came again, {marks} can have", self.marked(tube)));
        }
        Ok(())
    }

    /// Whether an attempt to attach an end was refused because another process has the only one.
    pub fn is_single<T>(&self, got: Result<T, TubeError>) -> Result<Option<T>, (Fault, String)> {
        match got {
            Ok(end) => Ok(Some(end)),
            Err(TubeError::Single { .. }) => Ok(None),
            Err(e) => fault(Fault::Torn, format!("attaching: {e}")),
        }
    }
}
