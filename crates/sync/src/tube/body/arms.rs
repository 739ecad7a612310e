//! The two ends of a tube as arms of a choice: [`Out`] sends, [`In`] receives.

use super::*;

/// A tube's end where messages go in, as an arm of a choice.
pub(crate) struct Out<P>(pub P);

/// A tube's end where messages come out, as an arm of a choice.
pub(crate) struct In<P>(pub P);

impl<T, P: Deref<Target = Tube<T>>> Arm for Out<P> {
    fn map(&self) -> &'static Map {
        self.0.senders.map()
    }
    fn place(&self) -> Place {
        self.0.senders.place()
    }
    fn before(&self) {}
    fn enlists(&self) {
        self.0.senders.enlists();
    }
    fn enlisted(&self, _me: &Party) {}
    fn is_fenced(&self) -> bool {
        true
    }
    fn is_fenced_alone(&self) -> bool {
        self.0.has_meetings() || self.0.senders.is_turned()
    }
    fn turns(&self) -> bool {
        self.0.senders.turns(self.0.gone_in())
    }
    fn turn(&self, is_fenced: bool) {
        self.0.senders.turn(is_fenced);
    }
    fn look(&self, me: &Party) -> bool {
        let tube = &self.0;
        if tube.has_meetings() && !tube.receivers.is_gone() {
            return rendezvous::look(tube.opposite(Side::Recv), me);
        }
        tube.may_send(me)
    }
    fn left(&self, _member: u32, grant: Option<Grant>) {
        self.0.senders.left(grant.map(|g| g.permit));
    }
}

/// Whether a light thread may find a waiter at that end, or that it has gone; a kernel thread only knows with its attachment.
#[cfg(not(feature = "sim"))]
#[inline(always)]
fn may_be_met<T>(tube: &Tube<T>, other: Side) -> bool {
    !tube.lights.is_empty(other) || !tube.end(other).is_deserted() || light::current().is_none()
}

impl<T, P: Deref<Target = Tube<T>>> Operation for Out<P> {
    #[cfg(not(feature = "sim"))]
    fn may_be(&self) -> bool {
        !self.0.has_meetings() || may_be_met(&self.0, Side::Recv)
    }
    #[inline(always)]
    fn standing(&self) -> Option<Standing<'_>> {
        // SAFETY: an end keeps its tube.
        Some(unsafe { self.0.standing(Side::Send) })
    }
    fn glance(&self) -> TryFast {
        let tube = &*self.0;
        match &tube.body {
            Body::Ring(ring) if !tube.receivers.is_gone() => match ring.claim() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None => TryFast::Nothing,
            },
            Body::Rendezvous(_) => glance_to_meet(tube, Side::Recv),
            _ => self.attempt(&nobody(self.map())).into(),
        }
    }
    #[inline(never)]
    fn attempt(&self, me: &Party) -> Result<Taken, Refused> {
        let tube = &self.0;
        if tube.receivers.is_gone() {
            return Ok(taken(GONE, 0));
        }
        let got = match &tube.body {
            Body::Ring(ring) => ring.claim().map(|claim| taken(CLAIMED, claim.number())),
            Body::Segmented(ring) => ring.claim().map(|claim| taken(CLAIMED, claim.number())),
            // SAFETY: as in `try_send_alone`.
            Body::Spsc(line) => unsafe { line.has_hole() }.then_some(taken(THERE, 0)),
            _ => rendezvous::meet(tube.opposite(Side::Recv), me).map(|packet| taken(MEETING, packet)),
        };
        got.or_else(|| tube.receivers.is_gone().then_some(taken(GONE, 0))).ok_or(Refused::NoneFree)
    }
    fn collect(&self, me: &Party, grant: Grant, _number: u32) -> Collected {
        collect(me, grant)
    }
    fn prepare(&self) -> Result<(), ArenaError> {
        self.0.senders.prepare()
    }
    fn is_ready(&self, me: &Party) -> Result<bool, Refused> {
        Ok(self.0.may_send(me))
    }
    fn mark(&self, me: &Party) -> Mark {
        self.0.mark_out(me)
    }
    fn took(&self) {
        self.0.pass_on_hole();
    }
    fn is_tube(&self) -> bool {
        true
    }
    #[cfg(not(feature = "sim"))]
    fn dies_unseen(&self) -> bool {
        true
    }
    fn has_meetings(&self) -> bool {
        self.0.has_meetings()
    }
}

impl<T, P: Deref<Target = Tube<T>>> Arm for In<P> {
    fn map(&self) -> &'static Map {
        self.0.receivers.map()
    }
    fn place(&self) -> Place {
        self.0.receivers.place()
    }
    fn is_queued(&self) -> bool {
        !matches!(self.0.body, Body::Clock(..) | Body::Never)
    }
    fn before(&self) {}
    fn enlists(&self) {
        self.0.receivers.enlists();
    }
    fn enlisted(&self, _me: &Party) {}
    fn is_fenced(&self) -> bool {
        true
    }
    fn is_fenced_alone(&self) -> bool {
        self.0.has_meetings() || self.0.receivers.is_turned()
    }
    fn turns(&self) -> bool {
        self.0.receivers.turns(self.0.gone_in())
    }
    fn turn(&self, is_fenced: bool) {
        self.0.receivers.turn(is_fenced);
    }
    fn look(&self, me: &Party) -> bool {
        let tube = &self.0;
        if let Body::Rendezvous(left) = &tube.body
            && !tube.senders.is_gone()
        {
            return left.has_message() || rendezvous::look(tube.opposite(Side::Send), me);
        }
        tube.may_recv(me)
    }
    fn left(&self, _member: u32, grant: Option<Grant>) {
        self.0.receivers.left(grant.map(|g| g.permit));
    }
}

impl<T, P: Deref<Target = Tube<T>>> Operation for In<P> {
    #[cfg(not(feature = "sim"))]
    #[inline]
    fn may_be(&self) -> bool {
        match &self.0.body {
            Body::Ring(ring) => ring.may_have_message() | self.0.senders.is_gone(),
            Body::Rendezvous(_) => may_be_met(&self.0, Side::Send),
            _ => true,
        }
    }
    #[inline(always)]
    fn standing(&self) -> Option<Standing<'_>> {
        // SAFETY: an end keeps its tube.
        self.is_queued().then(|| unsafe { self.0.standing(Side::Recv) })
    }
    fn glance(&self) -> TryFast {
        let tube = &*self.0;
        match &tube.body {
            Body::Ring(ring) => match ring.claim_message() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None if tube.senders.is_gone() => self.attempt(&nobody(self.map())).into(),
                None => TryFast::Nothing,
            },
            Body::Rendezvous(left) => match left.claim() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None => glance_to_meet(tube, Side::Send),
            },
            _ => self.attempt(&nobody(self.map())).into(),
        }
    }
    #[inline(never)]
    fn attempt(&self, me: &Party) -> Result<Taken, Refused> {
        let tube = &self.0;
        let look = || match &tube.body {
            Body::Ring(ring) => ring.claim_message().map(|claim| taken(CLAIMED, claim.number())),
            Body::Segmented(ring) => ring.claim_message().map(|claim| taken(CLAIMED, claim.number())),
            // SAFETY: as in `try_recv_alone`.
            Body::Spsc(line) => unsafe { line.has_message() }.then_some(taken(THERE, 0)),
            Body::Rendezvous(left) => match left.claim() {
                Some(claim) => Some(taken(CLAIMED, claim.number())),
                None => rendezvous::meet(tube.opposite(Side::Send), me).map(|packet| taken(MEETING, packet)),
            },
            Body::Clock(clock) => clock.take().map(|due| taken(STRUCK, due)),
            Body::Never => None,
        };
        if let Some(got) = look() {
            return Ok(got);
        }
        if !tube.senders.is_gone() {
            return Err(Refused::NoneFree);
        }
        // One may have come in between.
        Ok(look().unwrap_or(taken(GONE, 0)))
    }
    fn collect(&self, me: &Party, grant: Grant, _number: u32) -> Collected {
        collect(me, grant)
    }
    fn prepare(&self) -> Result<(), ArenaError> {
        if self.is_queued() { self.0.receivers.prepare() } else { Ok(()) }
    }
    fn due(&self) -> Option<u64> {
        match &self.0.body {
            Body::Clock(clock) => clock.due(),
            _ => None,
        }
    }
    fn is_ready(&self, me: &Party) -> Result<bool, Refused> {
        Ok(self.0.may_recv(me))
    }
    fn mark(&self, me: &Party) -> Mark {
        self.0.mark_in(me)
    }
    fn took(&self) {
        self.0.pass_on_message();
    }
    fn is_tube(&self) -> bool {
        true
    }
    #[cfg(not(feature = "sim"))]
    fn dies_unseen(&self) -> bool {
        true
    }
    fn has_meetings(&self) -> bool {
        self.0.has_meetings()
    }
    fn has_left(&self) -> bool {
        matches!(&self.0.body, Body::Rendezvous(left) if left.has_message())
    }
}
