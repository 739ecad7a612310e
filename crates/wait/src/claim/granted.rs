//! The end of a wait that was granted: takes what was granted.

use crate::kinds;
use crate::operation::{Arm, Collected, Mode, Refused, Site, Taken, WaitSpec};
use crate::order::one_of;
use crate::wait::{Begun, Grant, Parties, Party, arm_granted, finish};
use chappe_plat::step;

/// Takes what was granted, and ends the wait. None: it is gone, or the waiter was told to try and found nothing.
pub fn granted<A: Arm + ?Sized>(
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
    let Site { map, place, nature } = arms[at].site();
    let me = who.party(map);
    let collected = arms[at].collect(me, Some(grant), number, aim);
    finish(who, arms, begun);
    match collected {
        Collected::HandedBack => {
            kinds::drain(map, place.index);
            Ok(Some((at, Taken::UNIT)))
        }
        Collected::Taken(taken) => {
            if aim == Mode::Look {
                arms[at].give_back(taken);
            }
            Ok(Some((at, taken)))
        }
        Collected::Void => Ok(None),
        Collected::Nudged => {
            let (at, tried) = attempt_like(arms, at, me, aim);
            if aim == Mode::Look && !nature.is_tube() {
                // It takes nothing: the next waiter must be told, and nobody else would tell it. (Tubes tell threads that only look besides.)
                kinds::drain(map, place.index);
            }
            match tried {
                Ok(taken) => Ok(Some((at, taken))),
                Err(Refused::Dead(_)) => Err(Refused::Dead(at)),
                Err(_) => Ok(None),
            }
        }
    }
}

/// Tries an arm, and if it has nothing the others that wait for the same object, where each may have something of its own: two subscriptions of one
/// tube. The waiter was told of the object, not of the arm.
fn attempt_like<A: Arm + ?Sized>(arms: &[&A], first: usize, me: &Party, aim: Mode) -> (usize, Result<Taken, Refused>) {
    let tried = aim.attempt(arms[first], me, true);
    if !matches!(tried, Err(Refused::NoneFree)) {
        return (first, tried);
    }
    let site = arms[first].site();
    for (at, arm) in arms.iter().enumerate().filter(|(at, arm)| *at != first && site.is_like(&arm.site())) {
        match aim.attempt(*arm, me, true) {
            Err(Refused::NoneFree) => {}
            other => return (at, other),
        }
    }
    (first, tried)
}

/// Picks one of the arms that wait for the same object, each as likely; or the first.
fn any_like<A: Arm + ?Sized>(arms: &[&A], at: usize, biased: bool) -> usize {
    let site = arms[at].site();
    let (mut chosen, mut many) = (at, 0);
    for (other, _) in arms.iter().enumerate().filter(|(_, arm)| site.is_like(&arm.site())) {
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
