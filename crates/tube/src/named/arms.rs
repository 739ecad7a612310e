//! The two ends of a named tube as arms of a choice, and waiting there by a thread that has an attachment.
//!
//! A choice takes a slot: reserved, or borrowed. It belongs to the choosing thread. If that thread dies before it has completed the
//! choice, nothing was sent, and a borrowed record comes again. [`Taken::position`] says which slot was borrowed, or that the other end
//! has gone; the word is the position, or the slot's word.

use super::pipe::{Pipe, Side, TO_COMMIT};
use chappe_structures::record::{Borrowed, Received, Slot, Unsent};
use chappe_wait::cell::Word;
use chappe_wait::claim::wait_for;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Nature, Refused, Site, Taken, WaitSpec};
use chappe_wait::wait::{Ended, Parties, Party, Patience, Terms, arrive, finish, wait};
use std::mem::MaybeUninit;

/// The other end has gone.
const GONE: u32 = u32::MAX;
/// A slot was reserved.
const RESERVED: u32 = u32::MAX - 1;

/// A tube of this process's mappings, which last as long as it.
pub type Mapped = Pipe<'static>;

/// Why nothing was sent, or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Not {
    /// The operation would have to wait, or its time was up.
    Now,
    /// The other end has gone.
    Ever,
    /// The wait was interrupted: see `interruptible` of `chappe-sync`.
    Interrupted,
    /// The tube was removed.
    Dead,
    /// The handle is the parent process's.
    #[cfg(not(feature = "sim"))]
    Inherited,
    /// Another process has taken this thread for dead, or the thread has left the arena meanwhile.
    Lost,
}

impl From<Refused> for Not {
    fn from(refused: Refused) -> Not {
        match refused {
            Refused::Dead(_) => Not::Dead,
            Refused::Interrupted => Not::Interrupted,
            _ => Not::Now,
        }
    }
}

/// The end where messages go in.
#[derive(Clone, Copy)]
pub struct Out(pub Mapped);

/// The end where messages come out.
#[derive(Clone, Copy)]
pub struct In(pub Mapped);

fn number(me: &Party) -> u16 {
    me.member as u16
}

/// The result of an attempt.
fn attempted(pipe: &Mapped, side: Side, take: impl Fn() -> Option<Taken>) -> Result<Taken, Refused> {
    if !pipe.is_live() {
        return Err(Refused::Dead(0));
    }
    let gone = Taken { position: GONE, word: Word(0) };
    if side == Side::Senders && pipe.seems_gone(Side::Receivers) {
        return Ok(gone);
    }
    if let Some(taken) = take() {
        return Ok(taken);
    }
    if !pipe.is_gone(side.other()) {
        return Err(Refused::NoneFree);
    }
    if side == Side::Senders {
        return Ok(gone);
    }
    // A record may have come in between, or come again from a dead receiver.
    pipe.map.recover_dead();
    Ok(take().unwrap_or(gone))
}

impl Arm for Out {
    fn site(&self) -> Site {
        site(&self.0, Side::Senders)
    }
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
        // An only sender's reservation marks nothing: a message that it sends before it completes the choice takes the
        // same slot.
        let reserve = || {
            let slot = self.0.ring.reserve(number(me))?;
            Some(Taken { position: RESERVED, word: Word(slot.number()) })
        };
        let taken = attempted(&self.0, Side::Senders, reserve)?;
        if told {
            self.0.received();
        }
        Ok(taken)
    }
    fn look(&self, _me: &Party, how: Looking) -> Result<Mark, Refused> {
        look(&self.0, Side::Senders, how)
    }
    fn pass_on(&self) {
        self.0.received();
    }
}

impl Arm for In {
    fn site(&self) -> Site {
        site(&self.0, Side::Receivers)
    }
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
        let borrow = || {
            let (position, word) = borrow(&self.0, number(me))?.parts();
            Some(Taken { position, word: Word(word) })
        };
        let taken = attempted(&self.0, Side::Receivers, borrow)?;
        if told {
            self.0.pass_on();
        }
        Ok(taken)
    }
    fn look(&self, _me: &Party, how: Looking) -> Result<Mark, Refused> {
        look(&self.0, Side::Receivers, how)
    }
    fn pass_on(&self) {
        self.0.pass_on();
    }
}

/// Where an end is, as an arm.
fn site(pipe: &Mapped, side: Side) -> Site {
    Site { map: pipe.map, place: pipe.waits(side), nature: Nature::Shared { fenced: pipe.is_fenced(side) } }
}

/// A look at an end, as an arm.
fn look(pipe: &Mapped, side: Side, how: Looking) -> Result<Mark, Refused> {
    match how {
        Looking::Free if !pipe.is_live() => Err(Refused::Dead(0)),
        Looking::Free | Looking::Waiting => Ok(pipe.is_ready(side).into()),
        Looking::Mark => Ok(pipe.mark(side)),
        #[cfg(not(feature = "sim"))]
        Looking::Dead => Ok(pipe.revive().into()),
        Looking::Queued => Ok(Mark::Nothing(0)),
    }
}

/// Borrows a record, and tells a sender that there may be a hole.
fn borrow(pipe: &Mapped, me: u16) -> Option<Borrowed> {
    let borrowed = pipe.ring.borrow(me)?;
    pipe.received();
    Some(borrowed)
}

/// The slot that an attempt reserved, or that sending is useless.
pub fn reserved(taken: Taken, me: u16) -> Result<Slot, Not> {
    if taken.position == GONE { Err(Not::Ever) } else { Ok(Slot::of(taken.word.0, me)) }
}

/// The record that an attempt borrowed, or that none will come.
pub fn borrowed(pipe: &Mapped, taken: Taken) -> Result<Borrowed, Not> {
    if taken.position == GONE { Err(Not::Ever) } else { Ok(pipe.ring.borrowed(taken.position, taken.word.0)) }
}

/// Sends a record now.
#[inline(always)]
pub fn try_send(pipe: &Mapped, me: u16, record: &[u8]) -> Result<(), Not> {
    if !pipe.is_live() {
        return Err(Not::Dead);
    }
    if pipe.seems_gone(Side::Receivers) {
        return Err(Not::Ever);
    }
    if pipe.ring.try_send(me, record) {
        pipe.sent();
        return Ok(());
    }
    Err(if pipe.is_gone(Side::Receivers) { Not::Ever } else { Not::Now })
}

/// Sends a record now, also if no receiver is there.
#[cfg(not(feature = "sim"))]
pub fn try_send_ahead(pipe: &Mapped, me: u16, record: &[u8]) -> Result<(), Not> {
    if !pipe.is_live() {
        return Err(Not::Dead);
    }
    if !pipe.ring.try_send(me, record) {
        return Err(Not::Now);
    }
    pipe.sent();
    Ok(())
}

/// Sends a record from a slot that an attempt reserved.
pub fn send_taken(pipe: &Mapped, me: u16, taken: Taken, record: &[u8]) -> Result<(), Not> {
    let slot = reserved(taken, me)?;
    if pipe.is_single(Side::Senders) {
        return try_send(pipe, me, record);
    }
    pipe.ring.fill(&slot, record);
    match commit(pipe, slot, record.len() as u32) {
        Ok(()) => Ok(()),
        Err(Unsent::Full(slot)) => {
            give_up(pipe, slot);
            Err(Not::Now)
        }
        Err(Unsent::Revoked) => Err(Not::Lost),
    }
}

#[inline(always)]
pub fn commit(pipe: &Mapped, slot: Slot, len: u32) -> Result<(), Unsent> {
    pipe.ring.commit(slot, len)?;
    pipe.sent();
    Ok(())
}

/// Gives up a reservation.
pub fn give_up(pipe: &Mapped, slot: Slot) {
    pipe.ring.abandon(slot);
    pipe.received();
}

/// Receives a record now, by copying it out.
#[inline(always)]
pub fn try_recv(pipe: &Mapped, buffer: &mut [MaybeUninit<u8>]) -> Result<Received, Not> {
    if !pipe.is_live() {
        return Err(Not::Dead);
    }
    if let Some(received) = pipe.ring.try_recv(buffer) {
        pipe.received();
        return Ok(received);
    }
    try_recv_last(pipe, buffer)
}

#[cold]
fn try_recv_last(pipe: &Mapped, buffer: &mut [MaybeUninit<u8>]) -> Result<Received, Not> {
    if !pipe.is_gone(Side::Senders) {
        return Err(Not::Now);
    }
    // As in `attempted`.
    pipe.map.recover_dead();
    let received = pipe.ring.try_recv(buffer).ok_or(Not::Ever)?;
    pipe.received();
    Ok(received)
}

/// Copies out the record that an attempt borrowed, and releases it.
pub fn recv_taken(pipe: &Mapped, taken: Taken, buffer: &mut [MaybeUninit<u8>]) -> Result<Received, Not> {
    let borrowed = borrowed(pipe, taken)?;
    let (len, again) = (pipe.ring.copy_out(&borrowed, buffer), borrowed.again());
    if release(pipe, borrowed) { Ok(Received { len, again }) } else { Err(Not::Lost) }
}

/// Gives a borrowed record's slot back. False: it is not ours any more.
pub fn release(pipe: &Mapped, borrowed: Borrowed) -> bool {
    let released = pipe.ring.release(borrowed);
    pipe.received();
    released
}

/// Gives a borrowed record back, unreceived: it comes again, or was dropped.
pub fn put_back(pipe: &Mapped, borrowed: &Borrowed, died: bool) {
    pipe.ring.put_back(borrowed, died, |slot| pipe.comes_again(borrowed.member(), slot));
    pipe.returned();
}

/// Reserves a slot, sleeping until there is one.
pub fn reserve_attached(out: &Out, who: &Parties, deadline: Option<u64>, patience: &Patience<'_>) -> Result<Slot, Not> {
    let (_, taken) = wait_for(who, &[out], WaitSpec::to_take(deadline, patience))?;
    reserved(taken, number(&who.main))
}

/// Sends a record, sleeping until it can be sent.
pub fn send_attached(
    out: &Out,
    record: &[u8],
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(), Not> {
    loop {
        let (_, taken) = wait_for(who, &[out], WaitSpec::to_take(deadline, patience))?;
        match send_taken(&out.0, number(&who.main), taken, record) {
            // Its slot was passed over, and there is no other now.
            Err(Not::Now) => {}
            other => return other,
        }
    }
}

/// Borrows a record, sleeping until there is one.
pub fn borrow_attached(
    into: &In,
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<Borrowed, Not> {
    let (_, taken) = wait_for(who, &[into], WaitSpec::to_take(deadline, patience))?;
    borrowed(&into.0, taken)
}

/// Receives a record, sleeping until there is one.
pub fn recv_attached(
    into: &In,
    buffer: &mut [MaybeUninit<u8>],
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<Received, Not> {
    let (_, taken) = wait_for(who, &[into], WaitSpec::to_take(deadline, patience))?;
    recv_taken(&into.0, taken, buffer)
}

/// A sender that has its record in a slot that was passed over, and waits until it can be committed.
struct Committing<'s> {
    pipe: Mapped,
    slot: &'s Slot,
}

impl Arm for Committing<'_> {
    fn site(&self) -> Site {
        site(&self.pipe, Side::Senders)
    }
    fn look(&self, _me: &Party, _how: Looking) -> Result<Mark, Refused> {
        Ok((self.pipe.ring.has_hole_for(self.slot) || self.pipe.is_gone(Side::Receivers)).into())
    }
}

/// Commits a record, sleeping while it cannot be committed since its slot was passed over. If that becomes impossible,
/// it is given up.
pub fn commit_attached(pipe: &Mapped, slot: Slot, len: u32, who: &Parties, patience: &Patience<'_>) -> Result<(), Not> {
    let (mut slot, mut arrival) = (slot, None);
    loop {
        slot = match commit(pipe, slot, len) {
            Ok(()) => return Ok(()),
            Err(Unsent::Revoked) => return Err(Not::Lost),
            Err(Unsent::Full(slot)) => slot,
        };
        if !pipe.is_live() || pipe.is_gone(Side::Receivers) {
            let why = if pipe.is_live() { Not::Ever } else { Not::Dead };
            give_up(pipe, slot);
            return Err(why);
        }
        let arrival = *arrival.get_or_insert_with(|| arrive(who, patience));
        let arm = Committing { pipe: *pipe, slot: &slot };
        let terms = Terms { first: 0, arrival, need: TO_COMMIT, packet: 0, deadline: None, patience };
        if let (Ended::Granted(..), begun) = wait(who, &[&arm], terms) {
            finish(who, &[&arm], &begun);
        }
    }
}
