//! Barriers, for the explorer: made, arrived and waited at, joined, removed.

use super::{Actor, Refusal};
use crate::barrier::arm::Arrived;
use crate::barrier::round::{self, Rounds};
use chappe_arena::{ArenaError, Dead, Map, Place};
use chappe_plat::atomic::AtomicU64;
use chappe_plat::process;
use chappe_wait::body::Body;
use chappe_wait::kinds;
use std::cell::Cell;

/// A barrier in an arena.
#[derive(Clone, Copy)]
pub struct BarrierAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

/// How an arrival ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// This round has turned; this party's index, and how many parties died in it.
    Turned(u64, u32, u32),
    /// It was broken.
    Broken,
    /// The time was up: it was taken back.
    TimedOut,
    /// The barrier was removed.
    Dead,
    /// There are as many parties as it was made for, or the member is one already.
    Refused,
}

/// How a barrier is: how many have arrived, joined, died; how many rounds have turned; whether it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked(pub u32, pub u32, pub u32, pub u64, pub bool);

impl BarrierAt {
    /// Makes a barrier for so many parties.
    ///
    /// # Errors
    /// As [`Map::make`].
    pub fn make(map: &'static Map, name: &str, parties: u32, breaks: bool) -> Result<BarrierAt, ArenaError> {
        let place = round::make(map, &map.admin(), name, parties, breaks)?;
        Ok(BarrierAt { map, place })
    }

    /// Removes it.
    pub fn remove(self) {
        self.map.unmake(&self.map.admin(), self.place);
    }

    fn rounds(self) -> Option<Rounds<'static>> {
        Body::of(self.map, self.place).and_then(Rounds::of)
    }

    /// How it is.
    ///
    /// # Panics
    /// If it was removed.
    pub fn look(self) -> Looked {
        let f = self.rounds().expect("a barrier").figures();
        Looked(f.arrived, f.joined, f.dead, f.rounds, f.broken.is_some())
    }

    /// Breaks it, on behalf of a member with its bit.
    pub fn abort(self) {
        self.rounds().into_iter().for_each(|rounds| rounds.abort());
    }

    /// Resets it, as above.
    pub fn reset(self) {
        self.rounds().into_iter().for_each(|rounds| rounds.reset());
    }

    /// Names its words.
    pub fn each_word(self, mut name: impl FnMut(&'static AtomicU64, String)) {
        self.rounds().into_iter().for_each(|rounds| rounds.each_word(&mut name));
    }
}

impl Actor {
    /// Sets its bit at a barrier.
    pub fn enters_barrier(&self, at: BarrierAt) {
        let body = Body::of(at.map, at.place).expect("a barrier");
        assert!(body.enter(&at.map.admin(), self.member()));
    }

    /// Arrives. `Err`: refused.
    fn arrives(&self, at: BarrierAt, once: bool) -> Result<(Arrived, u64), Passed> {
        let rounds = at.rounds().filter(|r| r.body.may_change(self.member())).ok_or(Passed::Dead)?;
        match rounds.arrive(self.member(), once) {
            Ok(round) => Ok((self.arrived(rounds), round)),
            Err(round::Not::Broken(..)) => Err(Passed::Broken),
            Err(_) => Err(Passed::Refused),
        }
    }

    /// Arrives, for once or until it leaves, and goes on.
    pub fn arrives_at(&self, at: BarrierAt, once: bool) -> bool {
        self.arrives(at, once).is_ok()
    }

    /// Recovers the barrier from the death of another.
    pub fn recovers_at(&self, at: BarrierAt, dead: &Actor) {
        let dead = Dead { member: dead.member(), generation: dead.joined.generation };
        kinds::recover(at.map, at.place.index, dead, &mut at.map.visitor_in(self.member()));
    }

    /// Arrives, and waits for the turn, sleeping at once, until `deadline`. Too late: breaks the barrier, or takes the arrival back.
    pub fn passes(&self, at: BarrierAt, deadline: Option<u64>, breaks: bool) -> Passed {
        self.arrives(at, false).map_or_else(|passed| passed, |arrived| self.waits_for(self, &arrived, deadline, breaks))
    }

    /// As [`Actor::passes`], for once: then it leaves.
    pub fn passes_once(&self, at: BarrierAt, deadline: Option<u64>) -> Passed {
        match self.arrives(at, true) {
            Ok((_, round)) => self.waits_once(at, round, deadline),
            Err(passed) => passed,
        }
    }

    /// As [`Actor::passes_once`], while another member of its process waits for it, as a task has it.
    pub fn passes_seated(&self, at: BarrierAt, waiter: &Actor, deadline: Option<u64>) -> Passed {
        match self.arrives(at, true) {
            Ok((_, round)) => self.waits_once_as(waiter, at, round, deadline),
            Err(passed) => passed,
        }
    }

    /// Waits, as above, for the turn of the round in which it has arrived for once.
    pub fn waits_once(&self, at: BarrierAt, round: u64, deadline: Option<u64>) -> Passed {
        self.waits_once_as(self, at, round, deadline)
    }

    fn waits_once_as(&self, waiter: &Actor, at: BarrierAt, round: u64, deadline: Option<u64>) -> Passed {
        let Some(arrived) = at.rounds().map(|rounds| self.arrived(rounds)) else { return Passed::Dead };
        let passed = self.waits_for(waiter, &(arrived, round), deadline, false);
        at.rounds().into_iter().for_each(|rounds| rounds.leave_once(self.member()));
        passed
    }

    fn arrived(&self, rounds: Rounds<'static>) -> Arrived {
        Arrived { rounds, member: self.member(), incarnation: process::incarnation(), concluded: Cell::new(false) }
    }

    fn waits_for(
        &self,
        waiter: &Actor,
        (arrived, round): &(Arrived, u64),
        deadline: Option<u64>,
        breaks: bool,
    ) -> Passed {
        match waiter.choose_as(&[arrived], deadline, false) {
            Ok(_) => {}
            Err(Refusal::TimedOut) if breaks => _ = arrived.rounds.time_out(self.member()),
            Err(Refusal::TimedOut) if arrived.rounds.take_back(self.member()) => return Passed::TimedOut,
            Err(Refusal::TimedOut) => {}
            Err(Refusal::Dead(_)) => return Passed::Dead,
            Err(other) => panic!("{other:?}"),
        }
        match arrived.rounds.collect(self.member()) {
            round::Outcome::Turned { index, died, .. } => Passed::Turned(*round, index, died),
            round::Outcome::Broken(..) => Passed::Broken,
            _ => Passed::Dead,
        }
    }

    /// Joins a barrier.
    pub fn joins_barrier(&self, at: BarrierAt) -> bool {
        at.rounds().is_some_and(|rounds| rounds.join(self.member()).is_ok())
    }

    /// Leaves it.
    pub fn leaves_barrier(&self, at: BarrierAt) {
        at.rounds().into_iter().for_each(|rounds| rounds.leave(self.member()));
    }
}
