//! A task's wait. One thread is its runtime and the driver in one: it polls, and sleeps at the bell until it is rung.

use super::actor::{Actor, Refusal};
use super::arms::SemaphoreAt;
use chappe_plat::clock;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::Chime;
use chappe_wait::tasks::{Step, Waiting};

impl Actor {
    /// Consumes a unit as a task: waits at the bell that the actor sleeps at, and drops the wait at the deadline. `None`: it was dropped.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn down_as_task(&self, semaphore: SemaphoreAt, deadline: Option<u64>) -> Option<Result<(), Refusal>> {
        let at = self.bell.expect("a task waits at its process's bell");
        let chime = Chime::new(&self.who.main.map.member(at).bell, |_, _| {});
        let mut waiting = Waiting::new(&self.who, self.priority);
        loop {
            if let Step::Over(over) = waiting.poll(&self.who, &[&semaphore], false, Some(at)) {
                return Some(over.map(|_| ()).map_err(Refusal::from));
            }
            if let Some((word, value)) = chime.sleeps() {
                futex::wait(word, value, deadline, Scope::Shared);
            }
            chime.is_up();
            chime.is_rung();
            // A task that is dropped is not polled before.
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                waiting.leave(&self.who, &[&semaphore]);
                return None;
            }
        }
    }
}
