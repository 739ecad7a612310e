//! Waiting until an arm of a choice yields something, and what the wait queue needs of an arm.
//!
//! An arm can be tried, waited on, and collected. Everything that has a word of its own and a place in the queue joins a
//! choice through [`Operation`].

use crate::cell::Word;
use crate::interrupt::Interrupt;
use crate::kinds;
use crate::lull::{look, lull};
use crate::order::{Order, one_of};
use crate::tube::lights::Standing;
use crate::wait::{Arm, Begun, Ended, Grant, Parties, Party, Patience, Terms, arm_granted, arrive, finish, wait};
use chappe_arena::ArenaError;
use chappe_plat::{clock, step};

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

/// What a look finds at an arm from which nothing could be taken: see `lull`.
pub(crate) enum Mark {
    /// There is something: by now, or at this very moment.
    Something,
    /// There is nothing. If a later look finds the same number, there was nothing in between either.
    Nothing(u64),
    /// A look says nothing of the next look; but a thread that stands in the queue is told of what comes.
    InQueue,
    /// A look says nothing of the next look.
    Blind,
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

/// Waits for one of the arms. The caller has found none ready, and has seen to it that each has its object.
pub(crate) fn wait_for<A: Operation + ?Sized>(
    who: &Parties,
    arms: &[&A],
    wish: WaitSpec<'_>,
) -> Result<(usize, Taken), Refused> {
    let WaitSpec { aim, first, biased, patience, packet, .. } = wish;
    let need = u32::from(aim == Mode::Take);
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let arrival = arrive(who, patience);
    // At arms of the other kinds, nothing can be taken that was not granted.
    let may_look = arms.iter().any(|arm| arm.is_tube() || arm.is_barging() || arm.is_fenced() || arm.due().is_some());
    let is_late = || wish.deadline.is_some_and(|d| clock::now() >= d);
    loop {
        // Another thread may have taken a clock's stroke: ask again.
        let due = arms.iter().filter_map(|arm| arm.due()).min();
        let deadline = [wish.deadline, due].into_iter().flatten().min();
        let (ended, begun) = wait(who, arms, Terms { first, arrival, need, packet, deadline, patience });
        match ended {
            Ended::Granted(grant, number) => {
                if let Some(found) = granted(who, arms, &begun, grant, number, &wish)? {
                    return Ok(found);
                }
                // A waiter that is told again and again, and always comes too late, still times out.
            }
            Ended::TimedOut if !may_look && patience.is_interrupted() => return Err(Refused::Interrupted),
            Ended::TimedOut if !may_look => return Err(Refused::TimedOut),
            Ended::TimedOut => {
                if let Some(found) = look(arms, who, Order::new(arms.len(), biased), aim)? {
                    return Ok(found);
                }
                if patience.is_interrupted() {
                    return Err(Refused::Interrupted);
                }
            }
            Ended::Dead(arm) => return Err(Refused::Dead(arm)),
            Ended::TooMany => return Err(Refused::TooMany),
        }
        if is_late() {
            return lull(arms, who, biased, aim)?.ok_or(Refused::TimedOut);
        }
    }
}

/// Takes what was granted, and ends the wait. None: it is gone, or the waiter was told to try and found nothing.
pub(crate) fn granted<A: Operation + ?Sized>(
    who: &Parties,
    arms: &[&A],
    begun: &Begun,
    grant: Grant,
    number: u32,
    wish: &WaitSpec<'_>,
) -> Result<Option<(usize, Taken)>, Refused> {
    let aim = wish.aim;
    step!("granted, not yet taken");
    let at = any_like(arms, arm_granted(arms, begun, grant), wish.biased);
    let me = who.party(arms[at].map());
    if aim == Mode::Look && arms[at].hand_back(me) {
        finish(who, arms, begun);
        kinds::drain(arms[at].map(), arms[at].place().index);
        return Ok(Some((at, Taken::UNIT)));
    }
    let collected = arms[at].collect(me, grant, number);
    finish(who, arms, begun);
    match collected {
        Collected::Taken(taken) => {
            if aim == Mode::Look {
                arms[at].put_back(taken);
            }
            Ok(Some((at, taken)))
        }
        Collected::Void => Ok(None),
        Collected::Nudged => {
            let (at, tried) = attempt_like(arms, at, me, aim);
            if aim == Mode::Look && !arms[at].is_tube() {
                // It takes nothing: the next waiter must be told, and nobody else would tell it. (Tubes tell threads that only look besides.)
                kinds::drain(arms[at].map(), arms[at].place().index);
            }
            match tried {
                Ok(taken) => {
                    if aim == Mode::Take {
                        arms[at].took();
                    }
                    Ok(Some((at, taken)))
                }
                Err(Refused::Dead(_)) => Err(Refused::Dead(at)),
                Err(_) => Ok(None),
            }
        }
    }
}

/// Tries an arm, and if it has nothing the others that wait for the same object, where each may have something of its own: two subscriptions of one
/// tube. The waiter was told of the object, not of the arm.
fn attempt_like<A: Operation + ?Sized>(
    arms: &[&A],
    first: usize,
    me: &Party,
    aim: Mode,
) -> (usize, Result<Taken, Refused>) {
    let tried = aim.attempt(arms[first], me);
    if !matches!(tried, Err(Refused::NoneFree)) {
        return (first, tried);
    }
    let (map, index) = (arms[first].map(), arms[first].place().index);
    let is_like = |arm: &A| arm.is_queued() && std::ptr::eq(arm.map(), map) && arm.place().index == index;
    for (at, arm) in arms.iter().enumerate().filter(|(at, arm)| *at != first && is_like(arm)) {
        match aim.attempt(*arm, me) {
            Err(Refused::NoneFree) => {}
            other => return (at, other),
        }
    }
    (first, tried)
}

/// Picks one of the arms that wait for the same object, each as likely; or the first.
fn any_like<A: Operation + ?Sized>(arms: &[&A], at: usize, biased: bool) -> usize {
    let (map, index) = (arms[at].map(), arms[at].place().index);
    let is_like = |arm: &A| arm.is_queued() && std::ptr::eq(arm.map(), map) && arm.place().index == index;
    let (mut chosen, mut many) = (at, 0);
    for (other, _) in arms.iter().enumerate().filter(|(_, arm)| is_like(arm)) {
        many += 1;
        if one_of(many) == 0 {
            chosen = other;
        }
        if biased {
            break;
        }
    }
    chosen
}
