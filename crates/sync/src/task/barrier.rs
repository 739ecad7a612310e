//! Tasks that wait at barriers: an arrival is the process's, in the name of a member that no thread has.
//!
//! That member is a seat's, which the arrival keeps until it is over; the task waits in another, that of a choice. So a task has two at most. The member that
//! waits has not arrived, so each WAKE tells it (the rounds, I7): then it looks at the arrival, and waits on if that is current.
//!
//! The seat's bit at the barrier stands from before the arrival until that is over, and goes before another wait has the seat (I4 of the body).
//!
//! Explored: `tests/crash_barrier.rs` (`seated`). Left out there: the seat, and the bit.

use super::choice::{End, choose};
use crate::armed::Armed;
use crate::barrier::arm::Arrived;
use crate::barrier::{Barrier, BarrierError, Turn};
use crate::error::SelectError;
use chappe_plat::process;
use chappe_wait::body;
use chappe_wait::private;
use chappe_wait::tasks::Seat;
use std::cell::Cell;

/// An arrival at a barrier that belongs to the process, not to a thread: [`Barrier::arrive_owned`]. Any thread may wait for its turn, in a task, or take it back.
/// Dropped, it is taken back if its round has not turned. When the process dies, the party has died. One that is leaked stands until then.
///
/// In a child made by fork it is void.
#[must_use = "an arrival that is not kept is taken back at once"]
pub struct OwnedArrival {
    barrier: Barrier,
    arm: Arrived,
    round: u64,
    seat: Seat,
}

impl std::fmt::Debug for OwnedArrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnedArrival({:?}, round {})", self.barrier.name(), self.round)
    }
}

impl Barrier {
    /// As [`Barrier::arrive_once`], for the process: the party is this arrival, which any task may wait for. Never waits for others.
    ///
    /// Each arrival that lives has a place in the arena, and one that is waited for a second.
    ///
    /// # Errors
    /// `Broken`, `Full`, `Dead`; `Object` if the arena has no place left.
    pub fn arrive_owned(&self) -> Result<OwnedArrival, BarrierError> {
        let (map, rounds) = (self.handle.map, self.rounds);
        if map.is_private() {
            // In a forked child: its copy is made usable first.
            private::usable();
        }
        let seat = Seat::take(map, map.directory().is_some())?;
        let member = seat.party().main.member;
        // Nothing to take back yet: so far only the bit goes with it.
        let arm = Arrived { rounds, member, incarnation: process::incarnation(), concluded: Cell::new(true) };
        let mut arrival = OwnedArrival { barrier: self.clone(), arm, round: 0, seat };
        if !rounds.body.enter(&map.admin(), member) {
            return Err(self.dead());
        }
        arrival.round = self.places(|| rounds.arrive(member, true))?;
        arrival.arm.concluded.set(false);
        Ok(arrival)
    }

    /// As [`Barrier::wait_once`], for a task: arrives with the first poll, and waits until all others have, without blocking the thread that polls.
    ///
    /// A future that is dropped takes its arrival back, if the round has not turned: the others wait on, also for this task. If the process dies, its tasks
    /// die as parties. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// `PartyDied`: the round has turned, and parties died in it. `Broken`, `Full`, `Dead`, `Inherited`; `Object` if the arena has no place left.
    pub async fn wait_async(&self) -> Result<Turn, BarrierError> {
        self.arrive_owned()?.wait_async().await
    }
}

/// The arm of an arrival: ready when its round has turned, or is broken. Nothing is taken.
pub struct TurnOf<'a>(&'a mut OwnedArrival);

// SAFETY: it has one arm.
unsafe impl End for TurnOf<'_> {
    fn armed(&self) -> Armed<'_> {
        Armed(&self.0.arm)
    }
}

impl OwnedArrival {
    /// Waits for the turn, as a task. A future that is dropped takes the arrival back, if the round has not turned.
    ///
    /// # Errors
    /// As [`Barrier::wait_async`].
    pub async fn wait_async(mut self) -> Result<Turn, BarrierError> {
        let turned = choose((self.__task_turn(), ()), true, None).await.map(drop);
        match turned {
            // It could not wait. If the round has turned meanwhile, the others have gone on with it.
            Err(SelectError::Arena(e)) if self.take_back() => Err(e.into()),
            Err(SelectError::System(e)) if self.take_back() => Err(BarrierError::System(e)),
            // Of an inherited one, and of one at a removed barrier, it says so.
            _ => self.conclude(),
        }
    }

    /// Whether the round has turned, or is broken, or the barrier was removed: to wait does not block any more. Never waits.
    pub fn is_over(&self) -> bool {
        self.arm.is_over().unwrap_or(true)
    }

    /// Takes the arrival back, as dropping it does. True: the round goes on without it. False: it has turned, or is broken, or was taken back before.
    pub fn take_back(&self) -> bool {
        self.seat.is_here() && self.arm.take_back()
    }

    /// The turn, if the round has turned; else the barrier breaks, as at the end of [`Barrier::wait_timeout_or_break`]. Never waits.
    ///
    /// # Errors
    /// `Broken`; else as [`Barrier::wait_async`].
    pub fn turn_or_break(self) -> Result<Turn, BarrierError> {
        if !self.is_over() {
            // If it is not current any more, it has turned after all, or is broken.
            self.arm.rounds.time_out(self.arm.member);
        }
        self.conclude()
    }

    #[doc(hidden)]
    pub fn __task_turn(&mut self) -> TurnOf<'_> {
        TurnOf(self)
    }

    #[doc(hidden)]
    pub fn conclude(&self) -> Result<Turn, BarrierError> {
        self.arm.conclude(&self.barrier, self.round, true)
    }
}

impl Drop for OwnedArrival {
    fn drop(&mut self) {
        if !self.seat.is_here() {
            return;
        }
        self.arm.let_go();
        let body = self.arm.rounds.body;
        // The process has the member, as what gives a seat back does.
        body::clear(body.map(), body.place(), self.arm.member, &mut body.map().visitor_in(self.arm.member));
    }
}
