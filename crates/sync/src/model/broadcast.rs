//! Broadcast tubes, for the explorer: the operations of a thread at their ends, without handles. The thread stands for its process.

use super::named::Came;
use super::{Actor, SemaphoreAt};
use crate::tube::broadcast::heard::{Heard, Test};
use chappe_arena::{ArenaError, Map};
use chappe_plat::atomic::AtomicU64;
use chappe_structures::broadcast::place::{Mask, Shape, Terms};
use chappe_tube::broadcast::cast::{self, Cast, Ear, Mapped, by};
use chappe_tube::broadcast::room::publish_attached;
use chappe_tube::named::arms::Not;
use chappe_wait::claim::wait_for;
use chappe_wait::lull::look;
use chappe_wait::operation::{Arm, Mode, WaitSpec};
use chappe_wait::order::Order;
use chappe_wait::wait::{Parties, Patience};
use std::cell::Cell;
use std::mem::MaybeUninit;

pub use chappe_structures::broadcast::place::in_words as cast_in_words;

/// A broadcast tube of numbers.
#[derive(Clone, Copy)]
pub struct CastAt(Mapped);

/// What a subscription does when it is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Publishers wait.
    Block,
    /// It loses the oldest.
    Oldest,
    /// It keeps so many, and loses the newest.
    Newest(u32),
}

/// What a subscriber wants: messages whose last digit is so much at least.
pub(crate) struct Least(u64);

impl Test for Least {
    fn passes(&mut self, record: &[u8]) -> bool {
        u64::from_le_bytes(record.try_into().expect("a number")) % 10 >= self.0
    }
}

/// A subscription as an arm of a choice, with its own test. Its publishers know nothing of that.
pub struct HeardAt {
    pub(crate) heard: Heard<Least>,
    /// The entry of the actor that comes and goes as its only publisher.
    entry: Cell<Option<usize>>,
}

/// What a choice between a subscription and a semaphore came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Of the subscription, this.
    Heard(Came),
    /// A unit.
    Unit,
    /// It only looked: something is ready.
    Ready,
}

impl HeardAt {
    /// Of a subscription of the calling thread.
    pub fn of(tube: CastAt, who: u32) -> HeardAt {
        HeardAt { heard: Heard::new(Ear { cast: tube.0, who }, Least(0), 8), entry: Cell::new(None) }
    }

    /// Wants messages whose last digit is so much at least, from now on.
    pub fn wants(&self, least: u64) {
        self.heard.own.borrow_mut().0 = least;
        let Ear { cast, who } = self.heard.ear;
        cast.change(who, &least.to_le_bytes());
        self.heard.tests_again();
    }

    /// The next message that is there for it and passes.
    fn next(&self) -> Result<u64, Not> {
        let mut buffer = [0; 8];
        match self.heard.given(&mut buffer) {
            Some(_) => {}
            None => _ = self.heard.take(&mut buffer)?,
        }
        Ok(u64::from_le_bytes(buffer))
    }
}

/// A filter as a publisher's router sees it: subscription, its owner's member number, and the text with its version, or none while it is
/// being written.
pub type FilterSeen = (u32, u32, Option<(u32, Vec<u8>)>);

impl CastAt {
    /// Makes a tube of so many slots for so many subscriptions.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, slots: u32, subscriptions: u32) -> Result<CastAt, ArenaError> {
        let admin = map.admin();
        let shape = Shape { slots, size: 8, align: 8, subscriptions };
        let place = match map.find(name) {
            Some(place) => place,
            None => cast::make(map, &admin, name, shape, 0, (0, ""))?,
        };
        Ok(CastAt(Cast::of(map, place).expect("a tube")))
    }

    /// The object on which all threads wait.
    pub fn object(&self) -> u32 {
        self.0.place.index
    }

    /// A slot's word.
    pub fn word(&self, slot: u32) -> &'static AtomicU64 {
        self.0.ring.word_of(slot)
    }

    /// How many slots it has.
    pub fn slots(&self) -> u32 {
        self.0.ring.shape().slots
    }

    /// How many members subscribe, without the dead.
    pub fn subscribers(&self) -> usize {
        self.0.subscriptions().count()
    }

    /// How many members publish, without the dead.
    pub fn publishers(&self) -> usize {
        self.0.publishers().count()
    }

    /// What a subscription has lost because it was too slow, and what it dropped as the newest.
    pub fn lost(&self, who: u32) -> (u32, u64) {
        let dropped = self.0.ring.sub(who).dropped.load(chappe_plat::atomic::Ordering::SeqCst); // SeqCst: an onlooker.
        (self.0.ring.lost(who), dropped)
    }

    /// The filters as a publisher's router sees them.
    pub fn filters(&self) -> Vec<FilterSeen> {
        let all: Vec<_> = self.0.subscriptions().collect();
        all.into_iter().map(|(who, member)| (who, member, self.0.text(who))).collect()
    }

    /// How many publishers have died, or broken off, modulo 2^19.
    pub fn died(&self) -> u32 {
        self.0.died()
    }

    /// Removes it.
    pub fn remove(&self) {
        let admin = self.0.map.admin();
        self.0.map.unmake(&admin, self.0.place);
    }
}

impl Actor {
    fn owner(&self) -> u64 {
        by(self.who.main.member, self.who.main.generation)
    }

    fn only(&self) -> Parties {
        Parties { private: None, ..self.who }
    }

    /// Adds a publisher: its entry.
    pub fn publishes(&self, tube: CastAt) -> Option<usize> {
        let admin = tube.0.map.admin();
        tube.0.enter(&admin, self.owner()).ok()
    }

    /// Removes a publisher.
    pub fn publishes_no_more(&self, tube: CastAt, at: usize) {
        tube.0.leave(at, self.owner(), true);
    }

    /// Subscribes: the number.
    pub fn subscribes(&self, tube: CastAt, when: When) -> Option<u32> {
        self.subscribes_with(tube, when, b"")
    }

    /// The same with a filter.
    pub fn subscribes_with(&self, tube: CastAt, when: When, filter: &[u8]) -> Option<u32> {
        let admin = tube.0.map.admin();
        let terms = match when {
            When::Block => Terms::Block,
            When::Oldest => Terms::Oldest,
            When::Newest(most) => Terms::Newest(most),
        };
        tube.0.subscribe(&admin, self.owner(), terms, filter).ok()
    }

    /// Gives its subscription another filter.
    pub fn refilters(&self, tube: CastAt, who: u32, filter: &[u8]) {
        tube.0.change(who, filter);
    }

    /// Ends the subscription.
    pub fn unsubscribes(&self, tube: CastAt, who: u32) {
        tube.0.unsubscribe(&tube.0.map.admin(), who, self.owner());
    }

    /// Sends to all subscriptions, sleeping at once if that is impossible now, until `deadline`.
    pub fn says(&self, tube: CastAt, message: u64, deadline: Option<u64>) -> Came {
        let (record, mut wanted) = (message.to_le_bytes(), Mask::default());
        tube.0.subscriptions().for_each(|(who, _)| wanted[who as usize / 64] |= 1 << (who % 64));
        tube.0.ring.narrow(&mut wanted);
        let budget = Cell::new(0);
        let sent = match tube.0.publish(self.who.main.member as u16, &record, &wanted) {
            Err(Not::Now) => publish_attached(&tube.0, &record, &wanted, &self.only(), deadline, &sleeper(&budget)),
            other => other,
        };
        sent.map_or_else(Came::from, |()| Came::Sent)
    }

    /// Sends to all subscriptions, but for the last step: as one that dies in the middle.
    pub fn half_says(&self, tube: CastAt, message: u64) {
        let mut wanted = Mask::default();
        tube.0.subscriptions().for_each(|(who, _)| wanted[who as usize / 64] |= 1 << (who % 64));
        tube.0.ring.half_publishes(self.who.main.member as u16, &message.to_le_bytes(), &wanted);
    }

    /// Takes a message that a subscription wants, or a unit; or only looks whether there is one. Sleeps at once if there is none.
    pub fn picks(&self, heard: &HeardAt, semaphore: SemaphoreAt, looks: bool) -> Picked {
        let (arms, who): ([&dyn Arm; 2], _) = ([&heard.heard, &semaphore], self.only());
        let aim = if looks { Mode::Look } else { Mode::Take };
        let found = look(&arms, &who, Order::new(2, true), aim).expect("both are there");
        let found = found.unwrap_or_else(|| {
            let budget = Cell::new(0);
            let patience = sleeper(&budget);
            let wish = WaitSpec { aim, ..WaitSpec::to_take(None, &patience) };
            wait_for(&who, &arms, wish).expect("both are there")
        });
        match found.0 {
            _ if looks => Picked::Ready,
            0 => Picked::Heard(heard.next().map_or_else(Came::from, |m| Came::Message(m, false))),
            _ => Picked::Unit,
        }
    }

    /// Comes, or goes, as the only publisher of a subscription's tube.
    pub(super) fn ends(&self, heard: &HeardAt, gone: bool) -> bool {
        let cast = heard.heard.ear.cast;
        if gone {
            let at = heard.entry.take().or_else(|| cast.enter(&cast.map.admin(), self.owner()).ok()).expect("room");
            cast.leave(at, self.owner(), true);
        } else {
            heard.entry.set(cast.enter(&cast.map.admin(), self.owner()).ok());
        }
        true
    }

    /// Takes a subscription's next message, sleeping at once if there is none now, until `deadline`.
    pub fn hears(&self, tube: CastAt, who: u32, deadline: Option<u64>) -> Came {
        let mut buffer = [MaybeUninit::new(0); 8];
        let budget = Cell::new(0);
        loop {
            match tube.0.take(who, &mut buffer) {
                // SAFETY: they were there from the start.
                Ok(_) => return Came::Message(u64::from_le_bytes(buffer.map(|b| unsafe { b.assume_init() })), false),
                Err(Not::Now) => {}
                Err(why) => return why.into(),
            }
            let ear = Ear { cast: tube.0, who };
            if let Err(why) = wait_for(&self.only(), &[&ear], WaitSpec::to_take(deadline, &sleeper(&budget))) {
                return match why {
                    chappe_wait::operation::Refused::Dead(_) => Came::Dead,
                    _ => Came::Nothing,
                };
            }
        }
    }
}

fn sleeper(budget: &Cell<u32>) -> Patience<'_> {
    Patience { budget, forever: false, none: true, interrupt: None, priority: 0, bell: None }
}
