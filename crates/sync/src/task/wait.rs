//! A task's stay in the queues of what it waits for, from its first poll until it is over or dropped.

use chappe_arena::ArenaError;
use chappe_wait::attachment::priority;
use chappe_wait::operation::{Arm, Refused, Site, Taken};
use chappe_wait::tasks::crowd::{self, Came, Right, Standing};
use chappe_wait::tasks::{Seat, Step, Waiting};
use chappe_wait::wait::{Parties, Party};
use std::task::{Context, Poll};

/// A task's stay in the queues of some arms.
pub struct Stay {
    at: At,
    waiting: Waiting,
}

/// Where it waits.
enum At {
    /// In a seat, which it gives back before the right to it.
    Sits(Seat, Option<Right>),
    Stands(Standing),
}

/// Why a stay gave nothing.
pub enum Failed {
    Arena(ArenaError),
    Refused(Refused),
}

impl Stay {
    fn poll<A: Arm + ?Sized>(&mut self, arm: &A, dies: bool, cx: &mut Context<'_>) -> Poll<Result<Taken, Failed>> {
        let seat = loop {
            match &mut self.at {
                At::Sits(seat, _) => break seat,
                At::Stands(standing) => match standing.poll(cx.waker()) {
                    Ok(None) => return Poll::Pending,
                    Ok(Some(right)) => match sit(right, &arm.site(), &self.waiting, dies) {
                        Ok(at) => self.at = at,
                        Err(e) => return Poll::Ready(Err(Failed::Arena(e))),
                    },
                    Err(refused) => return Poll::Ready(Err(Failed::Refused(refused))),
                },
            }
        };
        if let Err(refused) = seat.note(cx.waker()) {
            return Poll::Ready(Err(Failed::Refused(refused)));
        }
        match self.waiting.poll(&seat.party(), &[arm], false, seat.bell()) {
            Step::Waits => Poll::Pending,
            Step::Soon => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Over(over) => Poll::Ready(over.map(|(_, taken)| taken).map_err(Failed::Refused)),
        }
    }
}

/// Takes a seat. If the arena has none left, the task stands as long as others sit at the object.
fn sit(right: Right, site: &Site, waiting: &Waiting, dies: bool) -> Result<At, ArenaError> {
    match Seat::take(site.map, dies) {
        Ok(seat) => Ok(At::Sits(seat, Some(right))),
        Err(e @ ArenaError::MembersFull { .. }) => {
            right.stand_again(waiting.turn(site)).map(At::Stands).map_err(|_right| e)
        }
        Err(e) => Err(e),
    }
}

/// A wait for one arm: nothing yet, then a stay, then nothing again.
pub struct Wait {
    pub stay: Option<Stay>,
    /// Whether what it waits for may return at the death of a thread.
    dies: bool,
    /// How much it needs: see the drainers.
    pub need: u32,
    /// See [`Terms::packet`](chappe_wait::wait::Terms::packet).
    pub packet: u64,
    /// Whether it may stand before it has a seat: what it waits for stays until then.
    stands: bool,
}

impl Wait {
    pub fn new(dies: bool, need: u32) -> Wait {
        Wait { stay: None, dies, need, packet: 0, stands: true }
    }

    /// For a notification, which nobody keeps.
    pub fn always_seated() -> Wait {
        Wait { stands: false, ..Wait::new(true, 1) }
    }

    /// Whether it has not begun, and would overtake no task of this process.
    pub fn may_take<A: Arm + ?Sized>(&self, arm: &A) -> bool {
        self.stay.is_none() && !crowd::stand_at(&arm.site())
    }

    fn begin<A: Arm + ?Sized>(&self, arm: &A) -> Result<Stay, ArenaError> {
        let (site, priority) = (arm.site(), priority());
        let who = Parties { main: Party::nobody(site.map), private: None };
        let waiting = Waiting::new(&who, priority);
        let at = match self.stands.then(|| crowd::come(&site, || waiting.turn(&site))) {
            None => At::Sits(Seat::take(site.map, self.dies)?, None),
            Some(Came::Sits(right)) => sit(right, &site, &waiting, self.dies)?,
            Some(Came::Stands(standing)) => At::Stands(standing),
        };
        Ok(Stay { at, waiting })
    }

    /// Begins its stay, and takes what it would wait for if that is there and nobody waits for it: in the name of its seat, which comes with it.
    pub fn attempt<A: Arm + ?Sized>(&mut self, arm: &A) -> Result<Option<(Taken, Seat)>, Failed> {
        let stay = self.begin(arm).map_err(Failed::Arena)?;
        let tried = match &stay.at {
            At::Sits(seat, _) => arm.attempt(&seat.party().main, false),
            At::Stands(_) => Err(Refused::NoneFree),
        };
        match (tried, stay) {
            (Ok(taken), Stay { at: At::Sits(seat, _), .. }) => return Ok(Some((taken, seat))),
            (Err(refused), _) if !matches!(refused, Refused::NoneFree) => return Err(Failed::Refused(refused)),
            (_, stay) => self.stay = Some(stay),
        }
        Ok(None)
    }

    /// Ready: with what was taken, in the name of the seat, which `then` gets, and lets go of when what was taken is the process's.
    pub fn poll<A: Arm + ?Sized, R>(
        &mut self,
        arm: &A,
        cx: &mut Context<'_>,
        then: impl FnOnce(Taken, Seat) -> R,
    ) -> Poll<Result<R, Failed>> {
        if self.stay.is_none() {
            match self.begin(arm) {
                Ok(stay) => self.stay = Some(stay),
                Err(e) => return Poll::Ready(Err(Failed::Arena(e))),
            }
        }
        let stay = self.stay.as_mut().expect("it was begun");
        (stay.waiting.need, stay.waiting.packet) = (self.need, self.packet);
        let Poll::Ready(over) = stay.poll(arm, self.dies, cx) else { return Poll::Pending };
        match (over, self.stay.take().map(|stay| stay.at)) {
            // The right goes last: the seat is there for the task that gets it.
            (Ok(taken), Some(At::Sits(seat, _right))) => Poll::Ready(Ok(then(taken, seat))),
            (Err(failed), _) => Poll::Ready(Err(failed)),
            (Ok(_), _) => unreachable!("a standing task is granted nothing"),
        }
    }

    /// The future is dropped: see [`Waiting::leave`].
    pub fn end<A: Arm + ?Sized>(&mut self, arm: &A) -> Option<Taken> {
        let mut stay = self.stay.take()?;
        match &stay.at {
            At::Sits(seat, _) if seat.is_here() => stay.waiting.leave(&seat.party(), &[arm]),
            _ => None,
        }
    }
}
