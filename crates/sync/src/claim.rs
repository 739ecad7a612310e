//! Waiting until something is ours: what a choice's arms are to the wait queue.
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

/// What is ours: a pool's permit and its cell's word; of a semaphore, nothing more is to be known.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub position: u32,
    pub word: Word,
}

impl Taken {
    /// A unit: whose it is nobody keeps.
    pub const UNIT: Taken = Taken { position: 0, word: Word(0) };
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Refused {
    NoneFree,
    TimedOut,
    /// See [`crate::interruptible`].
    Interrupted,
    Dead(usize),
    TooMany,
    /// This arm's end is the parent process's.
    #[cfg(not(feature = "sim"))]
    Inherited(usize),
}

/// What became of a grant.
pub(crate) enum Collected {
    /// It is ours.
    Taken(Taken),
    /// It was taken away, or is void: wait again, in the old place.
    Void,
    /// Nothing was granted but another try.
    Nudged,
}

/// What who has no seat yet sees of an arm.
pub(crate) enum Glance {
    /// It is ours.
    Taken(Taken),
    /// It cannot be had now.
    Nothing,
    /// Only a member can say.
    Ask,
}

impl From<Result<Taken, Refused>> for Glance {
    #[inline]
    fn from(tried: Result<Taken, Refused>) -> Glance {
        tried.map_or(Glance::Nothing, Glance::Taken)
    }
}

/// What a look finds of an arm from which nothing could be taken: see `lull`.
pub(crate) enum Mark {
    /// There is something, by now or in this very moment.
    Something,
    /// There is nothing. If a later look finds the same number, there was nothing in between either.
    Nothing(u64),
    /// What a look finds says nothing of the next: but who stands in the queue is told of what comes.
    InQueue,
    /// What a look finds says nothing of the next.
    Blind,
}

/// One of the things a choice chooses among.
pub(crate) trait Operation: Arm {
    /// Whether it is worth an attempt: what looks as if it cannot be had now could not be had at that moment. The cheapest look
    /// there is.
    #[cfg(not(feature = "sim"))]
    fn may_be(&self) -> bool {
        true
    }
    /// An attempt by whoever: what it takes is nobody's, or no member's.
    fn glance(&self) -> Glance {
        Glance::Ask
    }
    /// Takes it if it is there and nobody waits for it. Never sleeps.
    fn attempt(&self, me: &Party) -> Result<Taken, Refused>;
    /// Takes what was granted, while the wait word still says so.
    fn collect(&self, me: &Party, grant: Grant, number: u32) -> Collected;
    /// Gives back what the dead hold of it. True if that may have freed something.
    #[cfg(not(feature = "sim"))]
    fn revive(&self) -> bool {
        false
    }
    /// Makes the object that one waits on, if there is none yet.
    fn prepare(&self) -> Result<(), ArenaError> {
        Ok(())
    }
    /// When it is to be tried again, though nobody tells us to: clocks.
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
    /// What an attempt that is made to know leaves behind. Takes nothing.
    fn mark(&self, _me: &Party) -> Mark {
        Mark::InQueue
    }
    /// The same of an [`Mark::InQueue`] by who stands in its queue: something, or a number as there.
    fn mark_in_queue(&self) -> Option<u64> {
        Some(0)
    }
    /// Gives back what was taken only to see whether it is there.
    fn put_back(&self, _taken: Taken) {}
    /// The same before it is taken, where nobody would know of what is taken: the wait word still says GRANTED, and what is
    /// granted goes back as that of the dead does. False: it is taken, and put back.
    fn hand_back(&self, _me: &Party) -> bool {
        false
    }
    /// What was chosen is not asked for: a permit goes back, a wake-up is consumed.
    #[cfg(not(feature = "sim"))]
    fn forgo(&self, _taken: Taken) {}
    /// We were told to try, and have taken something.
    fn took(&self) {}
    /// Whether nothing of it is lost with a thread that ends in the middle: nobody need watch for that.
    #[cfg(not(feature = "sim"))]
    fn dies_unseen(&self) -> bool {
        false
    }
    /// Whether those who wait for it may be overtaken by who tries again and again.
    fn is_tube(&self) -> bool {
        false
    }
    /// Where a light thread waits for it, if it can without a seat.
    fn standing(&self) -> Option<Standing<'_>> {
        None
    }
    /// Whether a light thread can wait for it so, or need not wait in any line.
    fn is_for_light(&self) -> bool {
        !self.is_queued() || self.standing().is_some()
    }
    /// Whether who waits must make a packet known.
    fn has_meetings(&self) -> bool {
        false
    }
}

/// What a wait is to come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Something is ours.
    Take,
    /// Something could be.
    Look,
}

/// A wait for one of several things, but for who waits.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub aim: Aim,
    /// The arm that is looked at first.
    pub first: usize,
    /// Of several that are ready the first one, instead of any.
    pub biased: bool,
    pub deadline: Option<u64>,
    pub patience: &'a Patience<'a>,
    /// See [`Terms::packet`].
    pub packet: u64,
}

impl<'a> Wish<'a> {
    /// To have the first that comes.
    pub fn to_take(deadline: Option<u64>, patience: &'a Patience<'a>) -> Wish<'a> {
        Wish { aim: Aim::Take, first: 0, biased: false, deadline, patience, packet: 0 }
    }
}

impl Aim {
    /// Tries an arm.
    pub fn attempt<A: Operation + ?Sized>(self, arm: &A, me: &Party) -> Result<Taken, Refused> {
        match self {
            Aim::Take => arm.attempt(me),
            Aim::Look if arm.is_ready(me)? => Ok(Taken::UNIT),
            Aim::Look => Err(Refused::NoneFree),
        }
    }
}

/// Waits for one of the arms. The caller has found none ready, and has seen to it that each has its object.
pub(crate) fn wait_for<A: Operation + ?Sized>(
    who: &Parties,
    arms: &[&A],
    wish: Wish<'_>,
) -> Result<(usize, Taken), Refused> {
    let Wish { aim, first, biased, patience, packet, .. } = wish;
    let need = u32::from(aim == Aim::Take);
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let arrival = arrive(who, patience);
    // Of the others nothing is there that was not granted.
    let may_look = arms.iter().any(|arm| arm.is_tube() || arm.is_fenced() || arm.due().is_some());
    let is_late = || wish.deadline.is_some_and(|d| clock::now() >= d);
    loop {
        // A clock may have been another's meanwhile.
        let due = arms.iter().filter_map(|arm| arm.due()).min();
        let deadline = [wish.deadline, due].into_iter().flatten().min();
        let (ended, begun) = wait(who, arms, Terms { first, arrival, need, packet, deadline, patience });
        match ended {
            Ended::Granted(grant, number) => {
                if let Some(found) = granted(who, arms, &begun, grant, number, &wish)? {
                    return Ok(found);
                }
                // One that is told again and again, and comes too late, gives up all the same.
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

/// Takes what was granted, and ends the wait. None: it has gone, or it was another try that came to nothing.
pub(crate) fn granted<A: Operation + ?Sized>(
    who: &Parties,
    arms: &[&A],
    begun: &Begun,
    grant: Grant,
    number: u32,
    wish: &Wish<'_>,
) -> Result<Option<(usize, Taken)>, Refused> {
    let aim = wish.aim;
    step!("granted, not yet taken");
    let at = any_like(arms, arm_granted(arms, begun, grant), wish.biased);
    let me = who.party(arms[at].map());
    if aim == Aim::Look && arms[at].hand_back(me) {
        finish(who, arms, begun);
        kinds::drain(arms[at].map(), arms[at].place().index);
        return Ok(Some((at, Taken::UNIT)));
    }
    let collected = arms[at].collect(me, grant, number);
    finish(who, arms, begun);
    match collected {
        Collected::Taken(taken) => {
            if aim == Aim::Look {
                arms[at].put_back(taken);
            }
            Ok(Some((at, taken)))
        }
        Collected::Void => Ok(None),
        Collected::Nudged => {
            let tried = aim.attempt(arms[at], me);
            if aim == Aim::Look && !arms[at].is_tube() {
                // It takes nothing: what it was told of is for the next, whom nobody else would tell. (Tubes tell lookers besides.)
                kinds::drain(arms[at].map(), arms[at].place().index);
            }
            match tried {
                Ok(taken) => {
                    if aim == Aim::Take {
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

/// Of the arms that wait for one object, each as likely; or the first.
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
