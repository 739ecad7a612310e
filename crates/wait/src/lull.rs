//! Lulls. A *lull* is a moment at which no arm of a choice was ready. A choice takes its default,
//! or reports that its time is up, only if there was one (exceptions: "not covered", below). Terms:
//! `book/src/glossary.md`.
//!
//! Looking at one arm after the other does not prove a lull, though each look finds nothing:
//!
//! ```text
//!   the chooser:    one: nothing                                          two: nothing
//!   another:                      sends to one, then receives from two
//! ```
//!
//! So a chooser that has tried all arms and found nothing takes three steps more: it reads the
//! *marks* of the arms, which stand for their state; it tries the arms that have none; it reads the
//! marks again.
//!
//! | arm | mark | why the same mark twice proves that nothing was there in between |
//! |---|---|---|
//! | a tube with slots | the position where the next message, or hole, will be | positions only advance (`ring` I2, I5; `record` I2, I3) |
//! | a named one, besides | how many have come to the other end, and how many messages came again | both only grow |
//! | a tube without slots | how many have come to wait at the other end, and wait there | the first only grows (`end`) |
//! | a clock | when it strikes next | it advances when the stroke is taken |
//! | a semaphore, a pool | none: a unit comes and goes without a trace | |
//! | a descriptor | none: the kernel keeps no record | |
//!
//! If all marks are the same, there was a moment between the two readings at which no arm was
//! ready. Otherwise something came: the chooser tries all arms, and begins again. (The marks of all
//! arms are folded into one number of 64 bits, which is compared.)
//!
//! A semaphore or pool that is the only arm without a mark is tried between the readings, as a
//! descriptor always is. If there are several arms without a mark, the chooser meanwhile stands in
//! the queues of the semaphores and pools, as a waiter: what comes there is granted, to it or to an
//! earlier waiter. What is granted to the chooser ends the choice. If the chooser dies with a
//! grant, it goes on as any dead waiter's (wait queue, R6). While the chooser stands in the queue
//! of a semaphore whose waiters may be overtaken, that arm has a mark, the stamp beside the
//! semaphore's word: each unit that comes while a thread waits changes the stamp.
//!
//! Not covered: of several descriptors, each was not ready at some moment at which no other kind of arm was, but not all of them at the
//! same moment. At a tube without slots, a thread at the other end may be missed: while it begins to wait, and is stopped before it can be
//! met; and after it was told to look whether it can meet another, until it has found that it cannot. At a named tube: a thread that comes
//! to an end, and is killed before it is counted, if another of its process was there before.
//!
//! A choice among pools and semaphores that serve in order reports that its time is up without a look, since nothing can be taken there that was
//! not granted (`wait_for`). A semaphore whose waiters may be overtaken is looked at once more: while a waiter that was told of a unit is
//! stopped before it takes it, the unit is there for any thread.
//!
//! Progress: lock-free: the chooser begins again only if something came, and another took it. The
//! rounds have no other bound.
//!
//! Explored: `tests/crash_lull.rs`.

use crate::claim::granted;
use crate::mark::Mark;
use crate::operation::{Arm, Looking, Mode, Nature, Refused, Site, Taken, WaitSpec};
use crate::order::Order;
use crate::wait::{Begun, Ended, Parties, Patience, Terms, arrive, begin, end};
use chappe_plat::step;
use std::cell::Cell;
use std::mem::MaybeUninit;

/// The outcome of a look: which arm, and what was taken from it.
type Found = Option<(usize, Taken)>;

/// Up to so many arms in queues need no allocation.
const FEW: usize = 32;

/// Tries the arms in this order.
#[inline]
pub fn look<A: Arm + ?Sized>(arms: &[&A], who: &Parties, mut order: Order, aim: Mode) -> Result<Found, Refused> {
    while let Some(at) = order.peek() {
        match aim.attempt(arms[at], who.party_in(|| arms[at].site().map), false) {
            Ok(taken) => return Ok(Some((at, taken))),
            Err(Refused::Dead(_)) => return Err(Refused::Dead(at)),
            #[cfg(not(feature = "sim"))]
            Err(Refused::Inherited(_)) => return Err(Refused::Inherited(at)),
            Err(_) => order.skip(),
        }
    }
    Ok(None)
}

/// After a look at all arms that found nothing: whether there was a lull. If not, an arm that was ready.
#[inline(never)]
pub fn lull<A: Arm + ?Sized>(arms: &[&A], who: &Parties, biased: bool, aim: Mode) -> Result<Found, Refused> {
    if arms.len() < 2 {
        // That look was at one moment.
        return Ok(None);
    }
    let (mut queued, mut blind) = (0, 0);
    for nature in arms.iter().map(|arm| arm.site().nature) {
        queued += usize::from(nature.drains());
        blind += usize::from(is_blind(nature));
    }
    let stands = queued > 0 && queued + blind > 1;
    loop {
        match if stands { in_queues(arms, who, queued, biased, aim)? } else { looks(arms, who, false, aim)? } {
            Looks::Lull => return Ok(None),
            Looks::Found(at, taken) => return Ok(Some((at, taken))),
            Looks::Changed => {}
        }
        if let Some(found) = look(arms, who, Order::new(arms.len(), biased), aim)? {
            return Ok(Some(found));
        }
    }
}

/// Whether a look at it says nothing of the next look, and no queue tells of what comes.
fn is_blind(nature: Nature) -> bool {
    matches!(nature, Nature::Descriptor(_))
}

/// The outcome of two looks.
enum Looks {
    /// There was a moment between the two at which nothing was there.
    Lull,
    /// An arm without a mark was ready, and something was taken.
    Found(usize, Taken),
    /// Something was there.
    Changed,
}

/// Two looks at the marks. Between them, arms without a mark are tried, except those in whose queues the chooser stands.
fn looks<A: Arm + ?Sized>(arms: &[&A], who: &Parties, stands: bool, aim: Mode) -> Result<Looks, Refused> {
    let is_tried = |nature: Nature| is_blind(nature) || nature.drains() && !stands;
    let marks = || {
        arms.iter().try_fold(0u64, |sum, arm| {
            let Site { map, nature, .. } = arm.site();
            let how = if nature.drains() { Looking::Queued } else { Looking::Mark };
            let mark = match arm {
                _ if is_tried(nature) => 0,
                arm => match arm.look(who.party(map), how) {
                    Ok(Mark::Nothing(mark)) => mark,
                    // What a try refuses, the try reports.
                    _ => return None,
                },
            };
            Some((sum.rotate_left(5) ^ mark).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        })
    };
    let Some(before) = marks() else { return Ok(Looks::Changed) };
    step!("nothing there, looked at one after the other");
    for (at, arm) in arms.iter().enumerate() {
        if is_tried(arm.site().nature)
            && let Some((_, taken)) = look(&[*arm], who, Order::new(1, true), aim).map_err(|e| at_arm(e, at))?
        {
            return Ok(Looks::Found(at, taken));
        }
    }
    Ok(if marks() == Some(before) { Looks::Lull } else { Looks::Changed })
}

/// As [`looks`], while the chooser stands in the queues of the arms that have no mark.
#[cold]
fn in_queues<A: Arm + ?Sized>(
    arms: &[&A],
    who: &Parties,
    queued: usize,
    biased: bool,
    aim: Mode,
) -> Result<Looks, Refused> {
    let is_queued = |(_, arm): &(usize, &&A)| arm.site().nature.drains();
    let of = |nth: usize| arms.iter().enumerate().filter(is_queued).nth(nth).map_or(0, |(at, _)| at);
    let queues = arms.iter().enumerate().filter(is_queued).map(|(_, arm)| *arm);
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    let (mut many, line);
    if queued > FEW {
        many = Vec::with_capacity(queued);
        many.extend(queues);
        line = &many[..];
    } else {
        few.iter_mut().zip(queues).for_each(|(place, arm)| _ = place.write(arm));
        // SAFETY: so many were written just now, since the arms' kinds do not change.
        line = unsafe { std::slice::from_raw_parts(few.as_ptr().cast::<&A>(), queued) };
    }
    let budget = Cell::new(0);
    let patience = Patience { budget: &budget, forever: false, none: true, interrupt: None, priority: 0, bell: None };
    let wish = WaitSpec { aim, biased, ..WaitSpec::to_take(None, &patience) };
    let terms = Terms {
        first: 0,
        arrival: arrive(who, &patience),
        need: u32::from(aim == Mode::Take),
        packet: 0,
        deadline: None,
        patience: &patience,
    };
    let begun = begin(who, line, terms);
    // If something was granted by now, or a queue's object is gone, `conclude` finds out.
    let seen = looks(arms, who, true, aim);
    match conclude(who, line, &begun, &wish).map_err(|e| at_arm_of(e, of))? {
        // Anything else found need not be given back: only descriptors are tried.
        Ends::Granted(nth, taken) => Ok(Looks::Found(of(nth), taken)),
        Ends::Nothing => seen,
        Ends::Void => Ok(Looks::Changed),
    }
}

/// How the stand in the queues ended.
enum Ends {
    Granted(usize, Taken),
    /// Nothing was granted up to now.
    Nothing,
    /// Something was granted, and came to nothing.
    Void,
}

fn conclude<A: Arm + ?Sized>(who: &Parties, line: &[&A], begun: &Begun, wish: &WaitSpec<'_>) -> Result<Ends, Refused> {
    match end(who, line, begun) {
        Ended::Granted(grant, number) => {
            Ok(granted(who, line, begun, grant, number, wish)?
                .map_or(Ends::Void, |(at, taken)| Ends::Granted(at, taken)))
        }
        Ended::TimedOut => Ok(Ends::Nothing),
        Ended::Dead(at) => Err(Refused::Dead(at)),
        Ended::TooMany => Err(Refused::TooMany),
    }
}

fn at_arm(e: Refused, at: usize) -> Refused {
    at_arm_of(e, |_| at)
}

/// The same error, for the arm's index in the whole choice.
fn at_arm_of(e: Refused, of: impl Fn(usize) -> usize) -> Refused {
    match e {
        Refused::Dead(at) => Refused::Dead(of(at)),
        #[cfg(not(feature = "sim"))]
        Refused::Inherited(at) => Refused::Inherited(of(at)),
        other => other,
    }
}
