//! The first half of a wait, for the explorer. A member that waits so may be granted what it waits for, and never take it; or give up
//! before anything came.

use super::{Actor, MutexAt, SemaphoreAt};
use chappe_wait::claim::wait_for;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Mode, Site, WaitSpec};
use chappe_wait::wait::{Begun, Terms, arrive, begin, end};
use std::cell::Cell;

/// A wait that has begun.
pub struct InLine(Begun);

impl Actor {
    /// Begins to wait for a unit, and does not sleep.
    pub fn get_in_line(&self, semaphore: SemaphoreAt) -> InLine {
        InLine(self.begin(semaphore))
    }

    /// Gives the wait up.
    pub fn leave_the_line(&self, semaphore: SemaphoreAt, InLine(begun): InLine) {
        end(&self.who, &[&semaphore], &begun);
    }

    /// Waits until a unit could be taken, and takes none. False: the time was up.
    pub fn wait_for_one(&self, semaphore: SemaphoreAt, deadline: Option<u64>) -> bool {
        if matches!(semaphore.look(&self.who.main, Looking::Free), Ok(Mark::Something)) {
            return true;
        }
        let budget = Cell::new(0);
        let patience = self.patience(&budget);
        let wish = WaitSpec { aim: Mode::Look, ..WaitSpec::to_take(deadline, &patience) };
        wait_for(&self.who, &[&semaphore], wish).is_ok()
    }

    /// Begins to wait for a mutex, as if overtaken for long, and does not sleep.
    pub fn is_overdue_for(&self, mutex: MutexAt) -> InLine {
        InLine(self.begin(Site::of(mutex.map, mutex.place)))
    }

    /// Gives that wait up.
    pub fn leaves_overdue(&self, mutex: MutexAt, InLine(begun): InLine) {
        end(&self.who, &[&Site::of(mutex.map, mutex.place)], &begun);
    }

    fn begin<A: Arm>(&self, arm: A) -> Begun {
        let budget = Cell::new(0);
        let patience = self.patience(&budget);
        let arrival = arrive(&self.who, &patience);
        let terms = Terms { first: 0, arrival, need: 1, packet: 0, deadline: None, patience: &patience };
        begin(&self.who, &[&arm], terms)
    }
}
