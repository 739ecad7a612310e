//! A task's stay in the queues of what it waits for, from its first poll until it is over or dropped.

use chappe_arena::{ArenaError, Map};
use chappe_wait::attachment::priority;
use chappe_wait::operation::{Arm, Refused, Taken};
use chappe_wait::tasks::{Seat, Step, Waiting};
use std::task::{Context, Poll};

/// A task's stay in the queues of some arms.
pub struct Stay {
    seat: Seat,
    waiting: Waiting,
}

/// Why a stay gave nothing.
pub enum Failed {
    Arena(ArenaError),
    Refused(Refused),
}

impl Stay {
    fn begin(map: &'static Map, dies: bool) -> Result<Stay, ArenaError> {
        let seat = Seat::take(map, dies)?;
        let waiting = Waiting::new(&seat.party(), priority());
        Ok(Stay { seat, waiting })
    }

    fn poll<A: Arm + ?Sized>(&mut self, arm: &A, cx: &mut Context<'_>) -> Poll<Result<Taken, Refused>> {
        if let Err(refused) = self.seat.note(cx.waker()) {
            return Poll::Ready(Err(refused));
        }
        match self.waiting.poll(&self.seat.party(), &[arm], false, self.seat.bell()) {
            Step::Waits => Poll::Pending,
            Step::Soon => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Over(over) => Poll::Ready(over.map(|(_, taken)| taken)),
        }
    }
}

/// A wait for one arm: nothing yet, then a stay, then nothing again.
pub struct Wait {
    pub stay: Option<Stay>,
    /// Whether what it waits for may return at the death of a thread.
    dies: bool,
    /// How much it needs: see the drainers.
    pub need: u32,
}

impl Wait {
    pub fn new(dies: bool, need: u32) -> Wait {
        Wait { stay: None, dies, need }
    }

    /// Begins its stay, and takes what it would wait for if that is there and nobody waits for it: in the name of its seat, which comes with it.
    pub fn attempt<A: Arm + ?Sized>(&mut self, arm: &A) -> Result<Option<(Taken, Seat)>, Failed> {
        let stay = Stay::begin(arm.site().map, self.dies).map_err(Failed::Arena)?;
        match arm.attempt(&stay.seat.party().main, false) {
            Ok(taken) => return Ok(Some((taken, stay.seat))),
            Err(Refused::NoneFree) => self.stay = Some(stay),
            Err(refused) => return Err(Failed::Refused(refused)),
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
        let stay = match &mut self.stay {
            Some(stay) => stay,
            none => match Stay::begin(arm.site().map, self.dies) {
                Ok(stay) => none.insert(stay),
                Err(e) => return Poll::Ready(Err(Failed::Arena(e))),
            },
        };
        stay.waiting.need = self.need;
        let Poll::Ready(over) = stay.poll(arm, cx) else { return Poll::Pending };
        let stay = self.stay.take().expect("it was polled just now");
        Poll::Ready(over.map(|taken| then(taken, stay.seat)).map_err(Failed::Refused))
    }

    /// The future is dropped.
    pub fn end<A: Arm + ?Sized>(&mut self, arm: &A) {
        if let Some(mut stay) = self.stay.take()
            && stay.seat.is_here()
        {
            stay.waiting.leave(&stay.seat.party(), &[arm]);
        }
    }
}
