//! What the wait queue, and a choice, need of an arm: it can be tried, waited on, and collected. Everything that has a word of its own and a place
//! in the queue joins a choice through [`Operation`].

use crate::cell::Word;
use crate::mark::Mark;
use crate::tube::lights::Standing;
use crate::wait::{Arm, Grant, Party, Patience};
use chappe_arena::ArenaError;

/// What the caller has taken: a pool's permit and its cell's word; a semaphore's unit needs no description.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub position: u32,
    pub word: Word,
}

impl Taken {
    /// A unit: nobody records its owner.
    pub const UNIT: Taken = Taken { position: 0, word: Word(0) };
}

/// Why nothing was taken.
#[derive(Debug)]
pub(crate) enum Refused {
    NoneFree,
    TimedOut,
    /// See [`crate::interruptible`].
    Interrupted,
    Dead(usize),
    TooMany,
    /// This arm's end belongs to the parent process.
    #[cfg(not(feature = "sim"))]
    Inherited(usize),
}

/// What became of a grant.
pub(crate) enum Collected {
    /// The caller has it.
    Taken(Taken),
    /// It was taken away, or is void: wait again, in the old place.
    Void,
    /// Nothing was granted: the waiter was told to try again.
    Nudged,
}

/// What a thread without an attachment sees of an arm.
pub(crate) enum TryFast {
    /// The caller has it.
    Taken(Taken),
    /// Nothing can be taken now.
    Nothing,
    /// Only a member can tell.
    Ask,
}

impl From<Result<Taken, Refused>> for TryFast {
    #[inline]
    fn from(tried: Result<Taken, Refused>) -> TryFast {
        tried.map_or(TryFast::Nothing, TryFast::Taken)
    }
}

/// One of the arms of a choice.
pub(crate) trait Operation: Arm {
    /// Whether it is worth an attempt. False: at that moment nothing could be taken. The cheapest look
    /// there is.
    #[cfg(not(feature = "sim"))]
    fn may_be(&self) -> bool {
        true
    }
    /// Whether a message was left for a receiver, at a tube without slots.
    fn has_left(&self) -> bool {
        false
    }
    /// An attempt by a thread without an attachment: what it takes has no owner, or no member as owner.
    fn glance(&self) -> TryFast {
        TryFast::Ask
    }
    /// Takes it if it is there and nobody waits for it. Never sleeps.
    fn attempt(&self, me: &Party) -> Result<Taken, Refused>;
    /// Takes what was granted, while the wait word still says so.
    fn collect(&self, me: &Party, grant: Grant, number: u32) -> Collected;
    /// Gives back what dead members hold of it. True if that may have freed something.
    #[cfg(not(feature = "sim"))]
    fn revive(&self) -> bool {
        false
    }
    /// Makes the object that the caller is to wait on, if there is none yet.
    fn prepare(&self) -> Result<(), ArenaError> {
        Ok(())
    }
    /// When it is to be tried again without being told: clocks.
    fn due(&self) -> Option<u64> {
        None
    }
    /// Whether an attempt would take something. Never sleeps.
    fn is_ready(&self, me: &Party) -> Result<bool, Refused> {
        match self.attempt(me) {
            Ok(taken) => {
                self.put_back(taken);
                Ok(true)
            }
            Err(Refused::Dead(at)) => Err(Refused::Dead(at)),
            Err(_) => Ok(false),
        }
    }
    /// The mark of its state: see [`Mark`]. Takes nothing.
    fn mark(&self, _me: &Party) -> Mark {
        Mark::InQueue
    }
    /// The same of an arm with [`Mark::InQueue`], for a thread that stands in its queue: `None`: there is something; else a number as there.
    fn mark_in_queue(&self) -> Option<u64> {
        Some(0)
    }
    /// Gives back what was taken only to see whether it is there.
    fn put_back(&self, _taken: Taken) {}
    /// Gives back what was granted without taking it first, where a taken thing has no recorded owner: the wait word still says GRANTED, and
    /// the grant goes back as a dead waiter's does. False: not supported; it is taken, and put back.
    fn hand_back(&self, _me: &Party) -> bool {
        false
    }
    /// The choice was made, and its caller does not want the result: a permit goes back, a wake-up is consumed.
    #[cfg(not(feature = "sim"))]
    fn forgo(&self, _taken: Taken) {}
    /// The caller was told to try, and has taken something.
    fn took(&self) {}
    /// Whether the death of a thread in the middle loses nothing: then nobody need watch for it.
    #[cfg(not(feature = "sim"))]
    fn dies_unseen(&self) -> bool {
        false
    }
    /// Whether waiters may be overtaken by a thread that tries again and again.
    fn is_tube(&self) -> bool {
        false
    }
    /// Whether what it has lies there for any thread to take while waiters that were told have not tried: a waiter whose time is up must look once
    /// more.
    fn is_barging(&self) -> bool {
        false
    }
    /// Where a light thread waits for it without an attachment, if it can.
    fn standing(&self) -> Option<Standing<'_>> {
        None
    }
    /// Whether a light thread can wait for it without an attachment, or need not wait in any queue.
    fn is_for_light(&self) -> bool {
        !self.is_queued() || self.standing().is_some()
    }
    /// Whether a waiter must make a packet known.
    fn has_meetings(&self) -> bool {
        false
    }
}

/// The aim of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Take something.
    Take,
    /// Find something that could be taken.
    Look,
}

/// A wait for one of several arms, without the waiter.
#[derive(Clone, Copy)]
pub(crate) struct WaitSpec<'a> {
    pub aim: Mode,
    /// The arm that is looked at first.
    pub first: usize,
    /// Of several arms that are ready the first, instead of any.
    pub biased: bool,
    pub deadline: Option<u64>,
    pub patience: &'a Patience<'a>,
    /// See [`Terms::packet`].
    pub packet: u64,
}

impl<'a> WaitSpec<'a> {
    /// To take the first that comes.
    pub fn to_take(deadline: Option<u64>, patience: &'a Patience<'a>) -> WaitSpec<'a> {
        WaitSpec { aim: Mode::Take, first: 0, biased: false, deadline, patience, packet: 0 }
    }
}

impl Mode {
    /// Tries an arm.
    pub fn attempt<A: Operation + ?Sized>(self, arm: &A, me: &Party) -> Result<Taken, Refused> {
        match self {
            Mode::Take => arm.attempt(me),
            Mode::Look if arm.is_ready(me)? => Ok(Taken::UNIT),
            Mode::Look => Err(Refused::NoneFree),
        }
    }
}
