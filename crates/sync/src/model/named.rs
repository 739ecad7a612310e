//! Tubes between processes, for the explorer: the operations of a thread at their ends, without handles. The thread stands for its process.

use super::{Actor, SemaphoreAt};
use chappe_arena::{ArenaError, Map};
use chappe_plat::atomic::AtomicU64;
use chappe_structures::record::{Borrowed, Shape, Slot};
use chappe_tube::named::arms::{
    In, Mapped, Not, Out, borrow_attached, borrowed, commit_attached, give_up, recv_attached,
};
use chappe_tube::named::arms::{
    put_back, recv_taken, release, reserve_attached, reserved, send_attached, try_recv, try_send,
};
use chappe_tube::named::pipe::{self, Pipe, Side, Unattached};
use chappe_wait::claim::wait_for;
use chappe_wait::operation::{Arm, WaitSpec};
use chappe_wait::wait::{Parties, Patience};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// A tube of numbers.
#[derive(Clone, Copy)]
pub struct NamedAt(Mapped);

/// The outcome of an operation at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The message was sent.
    Sent,
    /// This message was received; and whether a receiver that had it before has died.
    Message(u64, bool),
    /// A semaphore's unit was consumed.
    Unit,
    /// Not now, or not in time.
    Nothing,
    /// The other end has gone.
    Gone,
    /// The tube was removed.
    Dead,
    /// The slot was taken away.
    Lost,
}

impl From<Not> for Came {
    fn from(why: Not) -> Came {
        match why {
            Not::Now => Came::Nothing,
            Not::Ever => Came::Gone,
            Not::Dead => Came::Dead,
            Not::Lost => Came::Lost,
            Not::Interrupted => unreachable!("nobody interrupts here"),
        }
    }
}

/// Why a process was not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The tube was removed.
    Dead,
    /// No sender may come any more.
    Sealed,
    /// Another process has the only handle.
    Taken,
}

/// A reserved slot.
pub struct Reserved(Slot);

/// A borrowed message.
pub struct Lent(Borrowed);

pub(super) fn side(senders: bool) -> Side {
    if senders { Side::Senders } else { Side::Receivers }
}

pub(super) fn message(bytes: [MaybeUninit<u8>; 8]) -> u64 {
    // SAFETY: they were there from the start.
    u64::from_le_bytes(bytes.map(|b| unsafe { b.assume_init() }))
}

impl NamedAt {
    /// Makes a tube of so many slots; the flags say whether each end may have one handle only, and whether it drops.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, slots: u32, one: [bool; 2], drops: bool) -> Result<NamedAt, ArenaError> {
        let admin = map.admin();
        let [one_sender, one_receiver] = one;
        let shape = Shape { one_sender, one_receiver, drops, ..Shape::many(slots, 8, 8) };
        let place = match map.find(name) {
            Some(place) => place,
            None => pipe::made::make(map, &admin, name, shape, 0, (0, ""))?,
        };
        Ok(NamedAt(Pipe::of(map, place).expect("a tube")))
    }

    pub(super) fn pipe(&self) -> Pipe<'static> {
        self.0
    }

    /// The objects on which threads wait: senders, receivers.
    pub fn objects(&self) -> [u32; 2] {
        [self.0.end.index, self.0.place.index]
    }

    /// A slot's word.
    pub fn word(&self, slot: u32) -> &'static AtomicU64 {
        self.0.ring.word_of(slot)
    }

    /// How many slots it has.
    pub fn slots(&self) -> u32 {
        self.0.ring.slots()
    }

    /// Removes it.
    pub fn remove(&self) {
        let admin = self.0.map.admin();
        pipe::made::unmake(self.0.map, &admin, &self.0);
    }

    /// Seals the tube: no sender comes any more.
    pub fn seal(&self) {
        let admin = self.0.map.admin();
        self.0.seal(&admin);
    }

    /// How many processes are at an end.
    pub fn attached(&self, senders: bool) -> usize {
        self.0.attached(side(senders)).count()
    }

    /// What a member does that leaves the arena, and may have leaked slots here.
    pub fn keep_from_all(&self, member: u32) {
        pipe::keep_from_all(self.0.map, self.0.place, member, &mut self.0.map.visitor_in(member));
    }

    /// Whether any process, dead ones included, is at one of its ends.
    pub fn is_attached(&self) -> bool {
        pipe::is_attached(self.0.map, self.0.place.index, self.0.place.head)
    }

    /// How many senders have not ended well.
    pub fn died(&self) -> u32 {
        self.0.died()
    }

    /// Of how many of them a new receiver need not be told.
    pub fn known(&self) -> u32 {
        self.0.known()
    }

    /// How many there are, if a receiver was not told of all. It counts as told now.
    pub fn learns(&self, told: u32) -> Option<u32> {
        self.0.learns(told)
    }

    /// Receives what is there, without being a member.
    pub fn drained(&self) -> Came {
        let mut buffer = [MaybeUninit::new(0); 8];
        match self.0.ring.try_recv(&mut buffer) {
            Some(received) => Came::Message(message(buffer), received.again),
            None => Came::Nothing,
        }
    }

    /// How many messages were dropped.
    pub fn dropped(&self) -> u64 {
        self.0.ring.dropped()
    }
}

impl Actor {
    fn me(&self) -> u16 {
        self.who.main.member as u16
    }

    fn lone(&self) -> Parties {
        Parties { private: None, ..self.who }
    }

    /// Attaches to an end.
    ///
    /// # Errors
    /// Why that is refused.
    pub fn attach(&self, tube: NamedAt, senders: bool) -> Result<(), Refusal> {
        let admin = tube.0.map.admin();
        let who = self.who.main;
        tube.0.attach(&admin, side(senders), who.member, who.generation).map_err(|why| match why {
            Unattached::Dead => Refusal::Dead,
            Unattached::Sealed => Refusal::Sealed,
            Unattached::Taken(_) => Refusal::Taken,
        })
    }

    /// Leaves an end.
    pub fn detach(&self, tube: NamedAt, senders: bool) {
        tube.0.detach(side(senders), self.who.main.member, self.who.main.generation, true);
    }

    /// Sends, sleeping at once if it cannot be now, until `deadline`.
    pub fn put(&self, tube: NamedAt, message: u64, deadline: Option<u64>) -> Came {
        let record = message.to_le_bytes();
        let budget = Cell::new(0);
        let sent = match try_send(&tube.0, self.me(), &record) {
            Err(Not::Now) => send_attached(&Out(tube.0), &record, &self.lone(), deadline, &sleeper(&budget)),
            other => other,
        };
        sent.map_or_else(Came::from, |()| Came::Sent)
    }

    /// Receives, sleeping at once if there is nothing now, until `deadline`.
    pub fn get(&self, tube: NamedAt, deadline: Option<u64>) -> Came {
        let mut buffer = [MaybeUninit::new(0); 8];
        let budget = Cell::new(0);
        let received = match try_recv(&tube.0, &mut buffer) {
            Err(Not::Now) => recv_attached(&In(tube.0), &mut buffer, &self.lone(), deadline, &sleeper(&budget)),
            other => other,
        };
        received.map_or_else(Came::from, |received| Came::Message(message(buffer), received.again))
    }

    /// Reserves a slot and writes a message there, sleeping at once if there is none.
    ///
    /// # Errors
    /// Why not.
    pub fn reserve(&self, tube: NamedAt, message: u64) -> Result<Reserved, Came> {
        let budget = Cell::new(0);
        let slot = match Out(tube.0).attempt(&self.who.main, false).map_err(Not::from) {
            Ok(taken) => reserved(taken, self.me()),
            Err(Not::Now) => reserve_attached(&Out(tube.0), &self.lone(), None, &sleeper(&budget)),
            Err(why) => Err(why),
        }?;
        tube.0.ring.fill(&slot, &message.to_le_bytes());
        Ok(Reserved(slot))
    }

    /// Commits the slot.
    pub fn commit(&self, tube: NamedAt, slot: Reserved) -> Came {
        let budget = Cell::new(0);
        let sent = commit_attached(&tube.0, slot.0, 8, &self.lone(), &sleeper(&budget));
        sent.map_or_else(Came::from, |()| Came::Sent)
    }

    /// Gives the slot up.
    pub fn give_up(&self, tube: NamedAt, slot: Reserved) {
        give_up(&tube.0, slot.0);
    }

    /// Borrows a message, sleeping at once if there is none.
    ///
    /// # Errors
    /// Why not.
    pub fn borrow(&self, tube: NamedAt) -> Result<(Lent, u64, bool), Came> {
        let budget = Cell::new(0);
        let lent = match In(tube.0).attempt(&self.who.main, false).map_err(Not::from) {
            Ok(taken) => borrowed(&tube.0, taken),
            Err(Not::Now) => borrow_attached(&In(tube.0), &self.lone(), None, &sleeper(&budget)),
            Err(why) => Err(why),
        }?;
        let mut buffer = [MaybeUninit::new(0); 8];
        tube.0.ring.copy_out(&lent, &mut buffer);
        let again = lent.again();
        Ok((Lent(lent), message(buffer), again))
    }

    /// Releases the message. False: it was taken away.
    pub fn give_back(&self, tube: NamedAt, lent: Lent) -> bool {
        release(&tube.0, lent.0)
    }

    /// Gives the message back, unreceived; `died`: as if its receiver had died.
    pub fn put_back(&self, tube: NamedAt, lent: &Lent, died: bool) {
        put_back(&tube.0, &lent.0, died);
    }

    /// Receives from a tube, or consumes a unit.
    pub fn get_or_down(&self, tube: NamedAt, semaphore: SemaphoreAt) -> Came {
        let into = In(tube.0);
        let arms: [&dyn Arm; 2] = [&semaphore, &into];
        let taken = arms.iter().enumerate().find_map(|(at, arm)| Some((at, arm.attempt(&self.who.main, false).ok()?)));
        let budget = Cell::new(0);
        let patience = sleeper(&budget);
        let (at, taken) = match taken {
            Some(found) => found,
            None => match wait_for(&self.lone(), &arms, WaitSpec::to_take(None, &patience)) {
                Ok(found) => found,
                Err(why) => return Not::from(why).into(),
            },
        };
        if at == 0 {
            return Came::Unit;
        }
        let mut buffer = [MaybeUninit::new(0); 8];
        let received = recv_taken(&tube.0, taken, &mut buffer);
        received.map_or_else(Came::from, |received| Came::Message(message(buffer), received.again))
    }
}

/// The actor, as slots and records name it.
pub(super) fn of_me(actor: &Actor) -> u16 {
    actor.me()
}

fn sleeper(budget: &Cell<u32>) -> Patience<'_> {
    Patience { budget, forever: false, none: true, interrupt: None, priority: 0, bell: None }
}
