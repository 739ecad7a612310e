//! What other threads learn of a tube: that there is something at an end, for the waiters there; and the mark of its state, for a
//! choice that has found nothing (`lull`).

use crate::body::{Body, Tube};
use chappe_plat::atomic::{Ordering, fence};
use chappe_wait::clock::NEVER;
use chappe_wait::lights::Side;
use chappe_wait::mark::Mark;
use chappe_wait::wait::Party;

impl<T> Tube<T> {
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_one(&self, side: Side) {
        let end = self.end(side);
        if end.is_calm() {
            return;
        }
        if !end.has_lights() {
            end.tell_one();
            return;
        }
        // SeqCst: lights, I3.
        fence(Ordering::SeqCst);
        let others = end.is_awaited_by_others();
        if others && self.lights.take_turn() && end.tell_one() {
            return;
        }
        if !self.lights.is_empty(side) && self.lights.tell_one(side) {
            if others {
                end.signal();
            }
        } else if others {
            end.tell_one();
        }
    }

    /// A look for a waiter to meet at that end: see `lull`.
    fn mark_meeting(&self, side: Side, me: &Party) -> Mark {
        let end = self.end(side);
        if !end.has_lights() {
            return end.mark(me.member);
        }
        // Before the look at the waiters.
        let came = self.lights.came();
        if self.lights.is_awaited(side) {
            return Mark::Something;
        }
        match end.mark(me.member) {
            // Both only grow, by little.
            Mark::Nothing(mark) => Mark::Nothing(mark.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(came)),
            other => other,
        }
    }

    /// A look for a choice to receive: see `lull`.
    pub(crate) fn mark_in(&self, me: &Party) -> Mark {
        if self.senders.is_gone() {
            return Mark::Something;
        }
        match &self.body {
            Body::Ring(ring) => marked(ring.no_message()),
            // Only the choosing thread could have taken it. SAFETY: as in `try_recv_alone`.
            Body::Spsc(line) => marked((!unsafe { line.has_message() }).then(|| line.gone_in())),
            Body::Segmented(ring) => marked(ring.no_message()),
            Body::Rendezvous(left) => match (left.no_message(), self.mark_meeting(Side::Send, me)) {
                (Some(left), Mark::Nothing(mark)) => Mark::Nothing(mark.wrapping_add(left << 32)),
                _ => Mark::Something,
            },
            Body::Clock(clock) => clock.mark(),
            Body::Never => Mark::Nothing(NEVER),
        }
    }

    /// The same to send.
    pub(crate) fn mark_out(&self, me: &Party) -> Mark {
        if self.receivers.is_gone() {
            return Mark::Something;
        }
        match &self.body {
            Body::Ring(ring) => marked(ring.no_hole()),
            // As above. SAFETY: as in `try_send_alone`.
            Body::Spsc(line) => marked((!unsafe { line.has_hole() }).then(|| line.gone_in())),
            Body::Rendezvous(_) => self.mark_meeting(Side::Recv, me),
            _ => Mark::Something,
        }
    }
}

fn marked(nothing: Option<u64>) -> Mark {
    nothing.map_or(Mark::Something, Mark::Nothing)
}
