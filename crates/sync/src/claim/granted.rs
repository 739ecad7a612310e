//! The end of a wait that was granted: takes what was granted.

use crate::kinds;
use crate::operation::{Collected, Mode, Operation, Refused, Taken, WaitSpec};
use crate::order::one_of;
use crate::wait::{Begun, Grant, Parties, Party, arm_granted, finish};
use chappe_plat::step;

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
