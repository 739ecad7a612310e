//! A task's wait. One thread is its runtime and the driver in one: it polls, and sleeps at the bell until it is rung.

use super::CondvarAt;
use super::actor::{Actor, Held, Locking, MutexAt, Refusal};
use super::arms::{PoolAt, SemaphoreAt};
use crate::awaited::{Hears, Locks, Several};
use crate::contend::need;
use crate::lock::Try;
use crate::many::Many;
use chappe_plat::clock;
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::Chime;
use chappe_wait::operation::{Arm, Refused, Site, Taken};
use chappe_wait::tasks::{Step, Waiting};
use std::cell::RefCell;

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
        self.wait_as_task(&semaphore, || 1, 0, || (), dropped).0
    }

    /// Consumes a unit of one of these semaphores as a task: of which.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn down_any_as_task(&self, semaphores: &[SemaphoreAt], dropped: Dropped) -> (TaskEnd, Option<usize>) {
        let arms: Vec<_> = semaphores.iter().collect();
        let (end, found) = self.choose_as_task(&arms, || 1, 0, || (), dropped);
        (end, found.map(|(at, _)| at))
    }

    /// Takes `n` permits of a pool at once as a task, for another member of its process to hold.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn acquire_many_as_task(&self, pool: PoolAt, n: u32, holder: &Actor, dropped: Dropped) -> (TaskEnd, Vec<Held>) {
        let into = RefCell::new(Many::new());
        let arm = Several { pool: pool.site(), need: n, holder: *holder.party(pool.map), into };
        let end = match arm.attempt(self.party(pool.map), false) {
            Err(Refused::NoneFree) => self.wait_as_task(&arm, || n, 0, || (), dropped).0,
            over => TaskEnd::Over(over.map(|_| ()).map_err(Refusal::from)),
        };
        (end, arm.into.into_inner().all().map(|taken| Held { pool, taken }).collect())
    }

    /// Locks a mutex as a task, for another member of its process to hold.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn lock_as_task(&self, mutex: MutexAt, holder: &Actor, dropped: Dropped) -> (TaskEnd, Locking) {
        let locks = Locks::new(Site::of(mutex.map, mutex.place), holder.mine());
        let since = clock::now();
        let end = match locks.attempt(self.party(mutex.map), false) {
            Err(Refused::NoneFree) => self.wait_as_task(&locks, || need(since), 0, || (), dropped).0,
            over => TaskEnd::Over(over.map(|_| ()).map_err(Refusal::from)),
        };
        if matches!(end, TaskEnd::Over(Err(_))) {
            locks.refused();
        }
        let outcome = if matches!(end, TaskEnd::Over(_)) { locks.outcome() } else { Try::Busy };
        (end, outcome.into())
    }

    /// Waits for a notification as a task, which gives the mutex up that `holder` has when it would hear one.
    ///
    /// # Panics
    /// If the actor has no bell.
    pub fn hear_as_task(&self, condvar: CondvarAt, mutex: MutexAt, holder: &Actor, dropped: Dropped) -> TaskEnd {
        let unlock = || assert!(holder.unlock(mutex));
        self.wait_as_task(&Hears(Site::of(condvar.map, condvar.place)), || 1, 0, unlock, dropped).0
    }

    /// Waits as a task; with what was taken, or what a meeting took that came before the drop. `polled`: follows the first poll.
    pub(super) fn wait_as_task<A: Arm + ?Sized>(
        &self,
        arm: &A,
        need: impl Fn() -> u32,
        packet: u64,
        polled: impl FnOnce(),
        dropped: Dropped,
    ) -> (TaskEnd, Option<Taken>) {
        let (end, found) = self.choose_as_task(&[arm], need, packet, polled, dropped);
        (end, found.map(|(_, taken)| taken))
    }

    fn choose_as_task<A: Arm + ?Sized>(
        &self,
        arms: &[&A],
        need: impl Fn() -> u32,
        packet: u64,
        polled: impl FnOnce(),
        dropped: Dropped,
    ) -> (TaskEnd, Option<(usize, Taken)>) {
        let mut polled = Some(polled);
        let at = self.bell.expect("a task waits at its process's bell");
        let chime = Chime::new(&self.who.main.map.member(at).bell, |_, _| {});
        let mut waiting = Waiting::new(&self.who, self.priority);
        let deadline = if let Dropped::At(deadline) = dropped { Some(deadline) } else { None };
        loop {
            (waiting.need, waiting.packet) = (need(), packet);
            let step = waiting.poll(&self.who, arms, false, Some(at));
            polled.take().into_iter().for_each(|polled| polled());
            if let Step::Over(over) = step {
                let taken = over.as_ref().ok().copied();
                return (TaskEnd::Over(over.map(|_| ()).map_err(Refusal::from)), taken);
            }
            if dropped != Dropped::AfterPoll {
                if let Some((word, value)) = chime.sleeps() {
                    futex::wait(word, value, deadline, Scope::Shared);
                }
                chime.is_up();
                chime.is_rung();
            }
            if dropped == Dropped::AfterPoll || deadline.is_some_and(|deadline| clock::now() >= deadline) {
                let had = waiting.leave(&self.who, arms);
                return (if had.is_some() { TaskEnd::GaveBack } else { TaskEnd::Dropped }, had.map(|had| (0, had)));
            }
        }
    }
}
