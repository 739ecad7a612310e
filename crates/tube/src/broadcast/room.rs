//! A publisher's wait for room in a broadcast tube. Invariants: the tube's (`cast`).

use super::cast::{Mapped, ROOM};
use crate::named::arms::Not;
use chappe_structures::broadcast::place::Mask;
use chappe_wait::interrupt::Interrupt;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Refused, Site};
use chappe_wait::wait::{Ended, Parties, Party, Patience, Terms, arrive, finish, wait};

/// A publisher that waits for room.
struct Mouth(Mapped);

impl Arm for Mouth {
    fn site(&self) -> Site {
        self.0.site()
    }
    fn look(&self, _me: &Party, _how: Looking) -> Result<Mark, Refused> {
        self.0.wants_room();
        Ok(self.0.ring.has_room().into())
    }
}

/// Sends a record, sleeping until there is room.
pub fn publish_attached(
    cast: &Mapped,
    record: &[u8],
    wanted: &Mask,
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(), Not> {
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let (arrival, me) = (arrive(who, patience), who.main.member as u16);
    loop {
        let arm = Mouth(*cast);
        let terms = Terms { first: 0, arrival, need: ROOM, packet: 0, deadline, patience };
        let (ended, begun) = wait(who, &[&arm], terms);
        let is_late = match ended {
            Ended::Granted(..) => {
                finish(who, &[&arm], &begun);
                false
            }
            Ended::TimedOut => true,
            Ended::Dead(_) | Ended::TooMany => return Err(Not::Dead),
        };
        match cast.publish(me, record, wanted) {
            Err(Not::Now) if !is_late => {}
            Err(Not::Now) if patience.is_interrupted() => return Err(Not::Interrupted),
            other => return other,
        }
    }
}
