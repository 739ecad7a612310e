//! A publisher's wait for room in a broadcast tube. Invariants: the tube's (`cast`).

use super::cast::{Mapped, Not, ROOM};
use super::place::Mask;
use crate::interrupt::Interrupt;
use crate::wait::{Arm, Ended, Grant, Parties, Party, Patience, Terms, arrive, finish, wait};
use chappe_arena::{Map, Place};

/// A publisher that waits for room.
struct Mouth(Mapped);

impl Arm for Mouth {
    fn map(&self) -> &'static Map {
        self.0.map
    }
    fn place(&self) -> Place {
        self.0.place
    }
    fn before(&self) {}
    fn enlisted(&self, me: &Party) {
        self.0.wants_room();
        if self.0.ring.has_room() {
            self.0.tell_myself(me);
        }
    }
    fn look(&self, _me: &Party) -> bool {
        self.0.ring.has_room()
    }
    fn left(&self, _member: u32, _grant: Option<Grant>) {}
}

/// Sends a record, sleeping until there is room.
pub(crate) fn publish_attached(
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
