//! The two ends of a tube as arms of a choice: [`Out`] sends, [`In`] receives.

use super::*;

/// A tube's end where messages go in, as an arm of a choice.
pub struct Out<P>(pub P);

/// A tube's end where messages come out, as an arm of a choice.
pub struct In<P>(pub P);

fn site(end: &End, nature: Nature) -> Site {
    Site { map: end.map(), place: end.place(), nature }
}

impl<T> Tube<T> {
    /// A look of a thread that waits, or for its mark, at the senders' end.
    #[inline(never)]
    fn look_out(&self, me: &Party, how: Looking) -> Mark {
        match how {
            Looking::Mark => self.mark_out(me),
            Looking::Waiting if self.has_meetings() && !self.receivers.is_gone() => {
                rendezvous::look(self.opposite(Side::Recv), me).into()
            }
            Looking::Free | Looking::Waiting => self.may_send(me).into(),
            _ => Mark::Nothing(0),
        }
    }

    /// The same at the receivers' end.
    #[inline(never)]
    fn look_in(&self, me: &Party, how: Looking) -> Mark {
        match (how, &self.body) {
            (Looking::Mark, _) => self.mark_in(me),
            (Looking::Waiting, Body::Rendezvous(left)) if !self.senders.is_gone() => {
                (left.has_message() || rendezvous::look(self.opposite(Side::Send), me)).into()
            }
            (Looking::Free | Looking::Waiting, _) => self.may_recv(me).into(),
            _ => Mark::Nothing(0),
        }
    }
}

/// Whether a light thread may find a waiter at that end, or that it has gone; a kernel thread only knows with its attachment.
#[cfg(not(feature = "sim"))]
#[inline(always)]
fn may_be_met<T>(tube: &Tube<T>, other: Side) -> bool {
    !tube.lights.is_empty(other) || !tube.end(other).is_deserted() || light::current().is_none()
}

impl<T, P: Deref<Target = Tube<T>>> Arm for Out<P> {
    fn site(&self) -> Site {
        site(&self.0.senders, if self.0.has_meetings() { Nature::Meeting } else { Nature::Tube })
    }
    #[cfg(not(feature = "sim"))]
    fn outlook(&self) -> Outlook {
        Outlook { may_be: !self.0.has_meetings() || may_be_met(&self.0, Side::Recv), map: self.0.senders.map() }
    }
    #[inline(always)]
    fn standing(&self) -> Option<Standing<'_>> {
        // SAFETY: an end keeps its tube.
        Some(unsafe { self.0.standing(Side::Send) })
    }
    fn glance(&self, _cautious: bool) -> TryFast {
        let tube = &*self.0;
        match &tube.body {
            Body::Ring(ring) if !tube.receivers.is_gone() => match ring.claim() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None => TryFast::Nothing,
            },
            Body::Rendezvous(_) => glance_to_meet(tube, Side::Recv),
            _ => self.attempt(&Party::nobody(tube.senders.map()), false).into(),
        }
    }
    #[inline(never)]
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
        let tube = &self.0;
        let got = match &tube.body {
            _ if tube.receivers.is_gone() => Some(taken(GONE, 0)),
            Body::Ring(ring) => ring.claim().map(|claim| taken(CLAIMED, claim.number())),
            Body::Segmented(ring) => ring.claim().map(|claim| taken(CLAIMED, claim.number())),
            // SAFETY: as in `try_send_alone`.
            Body::Spsc(line) => unsafe { line.has_hole() }.then_some(taken(THERE, 0)),
            _ => rendezvous::meet(tube.opposite(Side::Recv), me).map(|packet| taken(MEETING, packet)),
        };
        let got = got.or_else(|| tube.receivers.is_gone().then_some(taken(GONE, 0))).ok_or(Refused::NoneFree)?;
        if told {
            tube.pass_on_hole();
        }
        Ok(got)
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        Ok(if how == Looking::Free { self.0.may_send(me).into() } else { self.0.look_out(me, how) })
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        collect(me, grant)
    }
    fn pass_on(&self) {
        self.0.pass_on_hole();
    }
}

impl<T, P: Deref<Target = Tube<T>>> Arm for In<P> {
    fn site(&self) -> Site {
        let nature = match &self.0.body {
            Body::Rendezvous(_) => Nature::Meeting,
            Body::Clock(_) | Body::Never => Nature::Clock,
            _ => Nature::Tube,
        };
        site(&self.0.receivers, nature)
    }
    #[cfg(not(feature = "sim"))]
    #[inline]
    fn outlook(&self) -> Outlook {
        let may_be = match &self.0.body {
            Body::Ring(ring) => ring.may_have_message() | self.0.senders.is_gone(),
            Body::Rendezvous(_) => may_be_met(&self.0, Side::Send),
            _ => true,
        };
        Outlook { may_be, map: self.0.senders.map() }
    }
    #[inline(always)]
    fn standing(&self) -> Option<Standing<'_>> {
        // SAFETY: an end keeps its tube.
        (!matches!(self.0.body, Body::Clock(_) | Body::Never)).then(|| unsafe { self.0.standing(Side::Recv) })
    }
    fn glance(&self, _cautious: bool) -> TryFast {
        let tube = &*self.0;
        match &tube.body {
            Body::Ring(ring) => match ring.claim_message() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None if tube.senders.is_gone() => self.attempt(&Party::nobody(tube.senders.map()), false).into(),
                None => TryFast::Nothing,
            },
            Body::Rendezvous(left) => match left.claim() {
                Some(claim) => TryFast::Taken(taken(CLAIMED, claim.number())),
                None => glance_to_meet(tube, Side::Send),
            },
            _ => self.attempt(&Party::nobody(tube.senders.map()), false).into(),
        }
    }
    #[inline(never)]
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
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
        let got = match look() {
            Some(got) => got,
            None if !tube.senders.is_gone() => return Err(Refused::NoneFree),
            // One may have come in between.
            None => look().unwrap_or(taken(GONE, 0)),
        };
        if told {
            tube.pass_on_message();
        }
        Ok(got)
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        Ok(if how == Looking::Free { self.0.may_recv(me).into() } else { self.0.look_in(me, how) })
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        collect(me, grant)
    }
    fn pass_on(&self) {
        self.0.pass_on_message();
    }
}
