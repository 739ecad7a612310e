//! A lull: a moment at which no arm of a choice was ready. A choice takes its default, or says that its time is up, only if there
//! was one.
//!
//! Looks at one arm after the other do not show it, though each finds nothing:
//!
//! ```text
//!   who chooses:    one: nothing                                          two: nothing
//!   another:                      sends to one, then receives from two
//! ```
//!
//! So who has found nothing looks again: first at all arms for what marks their state, and then, after all of them, once more.
//!
//! | arm | mark | why the same mark twice says that nothing was there in between |
//! |---|---|---|
//! | a tube with slots | the position where the next message, or hole, will be | positions only go on (`ring` I2, I5; `record` I2, I3) |
//! | and a named one | besides, how many have come to the other end, and how many messages came again | both only grow |
//! | a tube without slots | how many have come to wait at the other end, and wait there | the first only grows (`end`) |
//! | a clock | when it strikes next | it goes on when the stroke is taken |
//! | a semaphore, a pool | none: a unit comes and goes, and leaves no trace | |
//! | a descriptor | none: the kernel keeps no account | |
//!
//! If all marks are the same, then between the two looks no arm was ready; else one looks and marks again. A single arm without
//! mark is tried between the two looks. If there are several, who chooses stands in the queues of semaphores and pools meanwhile,
//! as one that waits: what comes there is granted, to it or to who came before it. (A semaphore whose waiters may be overtaken has
//! a mark then: each unit that comes while somebody waits changes its word.)
//!
//! What is left open: of several descriptors each was not ready at a moment at which no other kind of arm was, but not all
//! at the same moment. At a tube without slots somebody may be there and not seen: while it begins to wait, and stands still
//! before it can be met; and when it was told to look whether it can meet somebody, until it has found that it cannot. Of a named
//! tube: who comes to an end, and is killed before it is counted, where somebody of the same process was before.
//!
//! Progress: lock-free: one looks again only if something came, and was taken by somebody else.
//!
//! Explored: `tests/crash_lull.rs`.

use crate::claim::{Aim, Mark, Operation, Refused, Taken, Wish, granted};
use crate::order::Order;
use crate::wait::{Begun, Ended, Parties, Patience, Terms, arrive, begin, end};
use chappe_plat::step;
use std::cell::Cell;
use std::mem::MaybeUninit;

/// What a look came to: which arm, and what it took.
type Found = Option<(usize, Taken)>;

/// So many arms in queues need no memory.
const FEW: usize = 32;

/// Tries the arms in this order.
#[inline]
pub(crate) fn look<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    mut order: Order,
    aim: Aim,
) -> Result<Found, Refused> {
    while let Some(at) = order.peek() {
        match aim.attempt(arms[at], who.party(arms[at].map())) {
            Ok(taken) => return Ok(Some((at, taken))),
            Err(Refused::Dead(_)) => return Err(Refused::Dead(at)),
            #[cfg(not(feature = "sim"))]
            Err(Refused::Inherited(_)) => return Err(Refused::Inherited(at)),
            Err(_) => order.skip(),
        }
    }
    Ok(None)
}

/// After a look at all arms that found nothing: whether there was a moment at which none was ready. If not, an arm that is.
#[inline(never)]
pub(crate) fn lull<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    biased: bool,
    aim: Aim,
) -> Result<Found, Refused> {
    if arms.len() < 2 {
        // That look was at one moment.
        return Ok(None);
    }
    let (mut queued, mut blind) = (0, 0);
    for arm in arms {
        match arm.mark(who.party(arm.map())) {
            Mark::InQueue => queued += 1,
            Mark::Blind => blind += 1,
            Mark::Something | Mark::Nothing(_) => {}
        }
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

/// What two looks came to.
enum Looks {
    /// At a moment between the two nothing was there.
    Lull,
    /// What has no mark was there, and is ours.
    Found(usize, Taken),
    /// Something was there.
    Changed,
}

/// Two looks at the marks. Between them what has none is tried, but for what one stands in the queue of.
fn looks<A: Operation + ?Sized>(arms: &[&A], who: &Parties, stands: bool, aim: Aim) -> Result<Looks, Refused> {
    let marks = || {
        arms.iter().try_fold(0u64, |sum, arm| {
            let mark = match arm.mark(who.party(arm.map())) {
                Mark::Something => return None,
                Mark::Nothing(mark) => mark,
                Mark::InQueue if stands => arm.mark_in_queue()?,
                Mark::InQueue | Mark::Blind => 0,
            };
            Some((sum.rotate_left(5) ^ mark).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        })
    };
    let Some(before) = marks() else { return Ok(Looks::Changed) };
    step!("nothing there, looked at one after the other");
    for (at, arm) in arms.iter().enumerate() {
        let me = who.party(arm.map());
        let is_tried = match arm.mark(me) {
            Mark::InQueue => !stands,
            Mark::Blind => true,
            _ => false,
        };
        if is_tried && let Some((_, taken)) = look(&[*arm], who, Order::new(1, true), aim).map_err(|e| at_arm(e, at))? {
            return Ok(Looks::Found(at, taken));
        }
    }
    Ok(if marks() == Some(before) { Looks::Lull } else { Looks::Changed })
}

/// As [`looks`], by who stands in the queues of those arms that have no mark meanwhile.
#[cold]
fn in_queues<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    queued: usize,
    biased: bool,
    aim: Aim,
) -> Result<Looks, Refused> {
    let is_queued = |(_, arm): &(usize, &&A)| matches!(arm.mark(who.party(arm.map())), Mark::InQueue);
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
        // SAFETY: as many as there are were written just now, and their kinds do not change.
        line = unsafe { std::slice::from_raw_parts(few.as_ptr().cast::<&A>(), queued) };
    }
    let budget = Cell::new(0);
    let patience = Patience { budget: &budget, forever: false, none: true, interrupt: None, priority: 0, bell: None };
    let wish = Wish { aim, biased, ..Wish::to_take(None, &patience) };
    let terms = Terms {
        first: 0,
        arrival: arrive(who, &patience),
        need: u32::from(aim == Aim::Take),
        packet: 0,
        deadline: None,
        patience: &patience,
    };
    let begun = begin(who, line, terms);
    // If something was granted by now, or a queue's object is gone, the end says so.
    let seen = looks(arms, who, true, aim);
    match conclude(who, line, &begun, &wish).map_err(|e| at_arm_of(e, of))? {
        // What was found besides is of no kind that must be given back: only descriptors are tried.
        Ends::Granted(nth, taken) => Ok(Looks::Found(of(nth), taken)),
        Ends::Nothing => seen,
        Ends::Void => Ok(Looks::Changed),
    }
}

/// How a stand in the queues ended.
enum Ends {
    Granted(usize, Taken),
    /// Nothing was granted up to now.
    Nothing,
    /// Something was, and came to nothing.
    Void,
}

fn conclude<A: Operation + ?Sized>(
    who: &Parties,
    line: &[&A],
    begun: &Begun,
    wish: &Wish<'_>,
) -> Result<Ends, Refused> {
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

/// The same of an arm of the whole choice.
fn at_arm_of(e: Refused, of: impl Fn(usize) -> usize) -> Refused {
    match e {
        Refused::Dead(at) => Refused::Dead(of(at)),
        #[cfg(not(feature = "sim"))]
        Refused::Inherited(at) => Refused::Inherited(of(at)),
        other => other,
    }
}
