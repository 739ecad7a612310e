//! Waiting until an arm of a choice yields something.

mod granted;

pub use granted::granted;

use crate::interrupt::Interrupt;
use crate::lull::{look, lull};
use crate::operation::{Arm, Mode, Nature, Refused, Taken, WaitSpec, due};
use crate::order::Order;
use crate::wait::{Ended, Parties, Terms, arrive, wait};
use chappe_plat::clock;

/// Waits for one of the arms. The caller has found none ready, and has seen to it that each has its object.
pub fn wait_for<A: Arm + ?Sized>(who: &Parties, arms: &[&A], wish: WaitSpec<'_>) -> Result<(usize, Taken), Refused> {
    let WaitSpec { aim, first, biased, patience, packet, .. } = wish;
    let need = u32::from(aim == Mode::Take);
    let mut natures = arms.iter().map(|arm| arm.site().nature);
    // At arms of that nature alone, nothing can be taken that was not granted.
    let may_look = natures.any(|nature| nature != Nature::Granting);
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let arrival = arrive(who, patience);
    let is_late = || wish.deadline.is_some_and(|d| clock::now() >= d);
    loop {
        // Another thread may have taken a clock's stroke: ask again.
        let deadline = [wish.deadline, due(arms, &who.main)].into_iter().flatten().min();
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
