//! A task's wait. One thread is its runtime and the driver in one: it polls, and sleeps at the bell until it is rung.

use super::actor::{Actor, Refusal};
use super::arms::SemaphoreAt;
use chappe_plat::clock;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::Chime;
use chappe_wait::tasks::{Step, Waiting};

/// When a task is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It is not.
    Never,
    /// After its first poll, as a branch of a choice whose other branch is ready.
    AfterPoll,
    /// At that time, and it is not polled before.
    At(u64),
}

/// How a task's wait ended.
#[derive(Debug)]
pub enum TaskEnd {
    /// It was served, or refused.
    Over(Result<(), Refusal>),
    /// It was dropped, and had not been granted a unit.
    Dropped,
    /// It was dropped, and gave back what it had been granted.
    GaveBack,
}

impl Actor {
    /// Consumes a unit as a task: waits at the bell that the actor sleeps at.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn down_as_task(&self, semaphore: SemaphoreAt, dropped: Dropped) -> TaskEnd {
        let at = self.bell.expect("a task waits at its process's bell");
        let chime = Chime::new(&self.who.main.map.member(at).bell, |_, _| {});
        let mut waiting = Waiting::new(&self.who, self.priority);
        let deadline = if let Dropped::At(deadline) = dropped { Some(deadline) } else { None };
        loop {
            if let Step::Over(over) = waiting.poll(&self.who, &[&semaphore], false, Some(at)) {
                return TaskEnd::Over(over.map(|_| ()).map_err(Refusal::from));
            }
            if dropped != Dropped::AfterPoll {
                if let Some((word, value)) = chime.sleeps() {
                    futex::wait(word, value, deadline, Scope::Shared);
                }
                chime.is_up();
                chime.is_rung();
            }
            if dropped == Dropped::AfterPoll || deadline.is_some_and(|deadline| clock::now() >= deadline) {
                let had = waiting.leave(&self.who, &[&semaphore]);
                return if had { TaskEnd::GaveBack } else { TaskEnd::Dropped };
            }
        }
    }
}
