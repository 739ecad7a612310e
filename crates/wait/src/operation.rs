//! What a thread can wait for, alone or as one of several in a choice: the *arms*. Whatever has a
//! word of its own and a place in the wait queue joins a choice, a wait and a claim through
//! [`Arm`], and through nothing else.
//!
//! | nature | such as | once a waiter's bit is set | its mark, for `lull` |
//! |---|---|---|---|
//! | granting | pool, semaphore, lock | the drain grants | none: it stands in the queue |
//! | barging | barging semaphore | the drain grants | the same |
//! | tube | private tube | fence for all threads, or own; look | positions |
//! | meeting | the same without slots | own fence, look | waiters that have come |
//! | event | arrival at a barrier | own fence, look | none: it stays |
//! | clock | clock, never | - (no queue) | when it strikes |
//! | descriptor | readable, writable | as a tube | none: it is tried |
//! | shared | named tube, subscription | own fence; fenced: for processes; look | positions |
//!
//! ```text
//!   glance -- attempt -- wait: bit, look --+-- granted: collect --+-- not wanted: give_back
//!                                          +-- told: attempt -----+
//! ```

use crate::cell::Word;
use crate::clock::NEVER;
use crate::kinds;
use crate::lights::Standing;
use crate::mark::Mark;
use crate::wait::{Grant, Party, Patience};
use chappe_arena::{Map, Place};
use std::os::fd::RawFd;

/// What the caller has taken: a pool's permit and its cell's word; a semaphore's unit needs no
/// description.
#[derive(Clone, Copy)]
pub struct Taken {
    pub position: u32,
    pub word: Word,
}

impl Taken {
    /// A unit: nobody records its owner.
    pub const UNIT: Taken = Taken { position: 0, word: Word(0) };
}

/// Why nothing was taken.
#[derive(Debug)]
pub enum Refused {
    NoneFree,
    TimedOut,
    /// See [`crate::interrupt`].
    Interrupted,
    Dead(usize),
    TooMany,
    /// This arm's end belongs to the parent process.
    #[cfg(not(feature = "sim"))]
    Inherited(usize),
}

/// What became of a grant.
pub enum Collected {
    /// The caller has it.
    Taken(Taken),
    /// It was taken away, or is void: wait again, in the old place.
    Void,
    /// Nothing was granted: the waiter was told to try again.
    Nudged,
    /// The caller only looks: it was there, and went back.
    HandedBack,
}

/// What a thread without an attachment sees of an arm.
pub enum TryFast {
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

/// What a choice sees of all its arms before it attempts one.
pub struct Outlook {
    /// Whether it is worth an attempt. False: at that moment nothing could be taken.
    pub may_be: bool,
    /// Its arena.
    pub map: &'static Map,
}

/// Of which nature an arm is: what a wait and a choice must know of it beforehand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// An object that grants what it has to its waiters, in their order.
    Granting,
    /// The same, but what it has lies there for any thread to take while waiters that were told
    /// have not tried: a waiter whose time is up must look once more.
    Barging,
    /// An end of a private tube with slots.
    Tube,
    /// An end of a private tube without slots: a waiter must make a packet known.
    Meeting,
    /// A clock: nobody waits for it in a queue.
    Clock,
    /// A descriptor: an event from outside the process, though no named object is involved.
    Descriptor(RawFd),
    /// What happens once for the waiter, and stays so: nothing is taken.
    Event,
    /// An end of a tube in a named arena. Fenced: a waiter looks only when all its bits are set,
    /// and after a fence for other processes' threads.
    Shared { fenced: bool },
}

impl Nature {
    /// Whether a member waits for it in a queue. Such an arm has an object, at the latest when a
    /// wait on it begins.
    pub fn is_queued(self) -> bool {
        self != Nature::Clock
    }

    /// Whether the object's own drain grants what there is: nothing can be taken that was not
    /// granted, or, where it barges, told.
    #[inline]
    pub fn drains(self) -> bool {
        matches!(self, Nature::Granting | Nature::Barging)
    }

    /// Whether a waiter makes, or spares, a fence for all threads of this process, by its
    /// [`Standing`].
    pub fn has_end(self) -> bool {
        matches!(self, Nature::Tube | Nature::Meeting | Nature::Descriptor(_))
    }

    /// Whether waiters may be overtaken by a thread that tries again and again, and a choice must
    /// complete what it took.
    #[inline]
    pub fn is_tube(self) -> bool {
        matches!(self, Nature::Tube | Nature::Meeting | Nature::Clock | Nature::Shared { .. })
    }

    /// Whether it is to be tried again without being told: the mark says when.
    pub fn is_timed(self) -> bool {
        matches!(self, Nature::Clock | Nature::Descriptor(_))
    }

    /// Whether the death of a thread in the middle loses nothing: then nobody need watch for it.
    #[inline]
    pub fn dies_unseen(self) -> bool {
        matches!(self, Nature::Tube | Nature::Meeting | Nature::Clock | Nature::Descriptor(_))
    }
}

/// Where an arm is, and of which nature. As a waiter of its own: an object that grants, from which
/// nothing is taken but what was granted (a mutex, a condition variable).
#[derive(Clone, Copy)]
pub struct Site {
    pub map: &'static Map,
    pub place: Place,
    pub nature: Nature,
}

impl Site {
    /// An object that grants.
    #[inline]
    pub fn of(map: &'static Map, place: Place) -> Site {
        Site { map, place, nature: Nature::Granting }
    }

    /// Whether both wait for the same object.
    pub fn is_like(&self, other: &Site) -> bool {
        self.nature.is_queued()
            && other.nature.is_queued()
            && std::ptr::eq(self.map, other.map)
            && self.place.index == other.place.index
    }
}

/// Why an arm is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// Whether an attempt would take something.
    Free,
    /// The same by a waiter: its bit is set, its fence made. A light thread's has no member.
    Waiting,
    /// For its mark: see `lull`. Not where it has none.
    Mark,
    /// For the mark of an arm that has none, by a thread that stands in its queue.
    Queued,
    /// Gives back what dead members have of it: whether that may have freed something.
    #[cfg(not(feature = "sim"))]
    Dead,
}

/// What a thread can wait for. Nothing here sleeps.
pub trait Arm {
    /// Where it is, and of which nature: a few loads.
    fn site(&self) -> Site;
    /// Where a waiter stands besides, if it is an end of a private tube, or a descriptor.
    fn standing(&self) -> Option<Standing<'_>> {
        None
    }
    /// The cheapest look there is.
    #[cfg(not(feature = "sim"))]
    fn outlook(&self) -> Outlook {
        Outlook { may_be: true, map: self.site().map }
    }
    /// An attempt by a thread that makes no attachment for it. Cautious: it takes nothing named, and
    /// nothing that has an owner. There may be arms in two named arenas (such a choice is refused,
    /// even if an arm is ready); or a task chooses, and its thread is not to own what it takes.
    fn glance(&self, _cautious: bool) -> TryFast {
        TryFast::Ask
    }
    /// Takes it if it is there and nobody waits for it. A thread that was told to try, and takes
    /// something, passes on what else there is.
    fn attempt(&self, me: &Party, _told: bool) -> Result<Taken, Refused> {
        attempt_by_looking(self, me)
    }
    /// Looks, and takes nothing. What it finds may be gone by now.
    fn look(&self, _me: &Party, _how: Looking) -> Result<Mark, Refused> {
        Ok(Mark::Nothing(0))
    }
    /// A wait of this member is over. With a grant: takes what was granted, while the wait word
    /// still says so; for [`Mode::Look`], what has no recorded owner is handed back instead.
    /// Without one: the member waits here no longer (said to shared arms alone).
    fn collect(&self, _me: &Party, _grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        Collected::Nudged
    }
    /// Gives back what was taken or granted and is not wanted: a permit; a wake-up is consumed.
    fn give_back(&self, _taken: Taken) {}
    /// A waiter that was told will not try: the next one is to.
    fn pass_on(&self) {
        let site = self.site();
        kinds::drain(site.map, site.place.index);
    }
}

impl Arm for Site {
    fn site(&self) -> Site {
        *self
    }
}

/// Attempts an arm by a look: it takes nothing that would have to go back.
fn attempt_by_looking<A: Arm + ?Sized>(arm: &A, me: &Party) -> Result<Taken, Refused> {
    match arm.look(me, Looking::Free)? {
        Mark::Something => Ok(Taken::UNIT),
        Mark::Nothing(_) => Err(Refused::NoneFree),
    }
}

/// Looks by an attempt; what it takes goes back. For other reasons than [`Looking::Free`] there is
/// nothing to see.
pub fn look_by_taking<A: Arm + ?Sized>(arm: &A, me: &Party, how: Looking) -> Result<Mark, Refused> {
    if how != Looking::Free {
        return Ok(Mark::Nothing(0));
    }
    match arm.attempt(me, false) {
        Ok(taken) => {
            arm.give_back(taken);
            Ok(Mark::Something)
        }
        Err(Refused::Dead(at)) => Err(Refused::Dead(at)),
        Err(_) => Ok(Mark::Nothing(0)),
    }
}

/// Whether a light thread can wait for it without an attachment, or need not wait in any queue.
pub(crate) fn is_for_light<A: Arm + ?Sized>(arm: &A) -> bool {
    !arm.site().nature.is_queued() || arm.standing().is_some()
}

/// When the first of the clocks among these is to be tried again without being told.
pub fn due<A: Arm + ?Sized>(arms: &[&A], me: &Party) -> Option<u64> {
    let when = |arm: &&A| match arm.look(me, Looking::Mark) {
        Ok(Mark::Nothing(NEVER)) => None,
        Ok(Mark::Nothing(at)) => Some(at),
        _ => Some(0),
    };
    arms.iter().filter(|arm| arm.site().nature.is_timed()).filter_map(when).min()
}

/// The aim of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Take something.
    Take,
    /// Find something that could be taken.
    Look,
}

/// A wait for one of several arms, without the waiter.
#[derive(Clone, Copy)]
pub struct WaitSpec<'a> {
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
    #[inline]
    pub fn to_take(deadline: Option<u64>, patience: &'a Patience<'a>) -> WaitSpec<'a> {
        WaitSpec { aim: Mode::Take, first: 0, biased: false, deadline, patience, packet: 0 }
    }
}

impl Mode {
    /// Tries an arm. Told: the caller waited, and was told to try.
    pub fn attempt<A: Arm + ?Sized>(self, arm: &A, me: &Party, told: bool) -> Result<Taken, Refused> {
        match self {
            Mode::Take => arm.attempt(me, told),
            Mode::Look => attempt_by_looking(arm, me),
        }
    }
}
