//! An arrival at a barrier as something that a thread waits for: see `operation`. It is an event: once its round has turned, or is broken, it stays so,
//! and nothing is taken. Invariants: those of the rounds.

use super::round::{Outcome, Rounds};
use chappe_plat::process;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Nature, Refused, Site, Taken, TryFast};
use chappe_wait::wait::Party;
use std::cell::Cell;

/// A member's arrival.
pub(crate) struct Arrived {
    pub rounds: Rounds<'static>,
    pub member: u32,
    /// A forked child has another one.
    pub incarnation: u64,
    /// What became of it was told.
    pub concluded: Cell<bool>,
}

impl Arrived {
    pub fn is_ours(&self) -> bool {
        self.incarnation == process::incarnation()
    }

    /// Whether its round has turned, or is broken, or the arrival is void here.
    pub fn is_over(&self) -> Result<bool, Refused> {
        if self.concluded.get() || !self.is_ours() || self.rounds.outcome(self.member) != Outcome::Waits {
            // Also at a removed barrier, whose memory the member's bit keeps.
            return Ok(true);
        }
        if self.rounds.body.is_live() { Ok(false) } else { Err(Refused::Dead(0)) }
    }
}

impl Arm for Arrived {
    fn site(&self) -> Site {
        Site { map: self.rounds.body.map(), place: self.rounds.body.place(), nature: Nature::Event }
    }

    fn glance(&self, _cautious: bool) -> TryFast {
        match self.is_over() {
            Ok(true) => TryFast::Taken(Taken::UNIT),
            Ok(false) => TryFast::Nothing,
            Err(_) => TryFast::Ask,
        }
    }

    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        if self.is_over()? { Ok(Taken::UNIT) } else { Err(Refused::NoneFree) }
    }

    fn look(&self, _me: &Party, how: Looking) -> Result<Mark, Refused> {
        #[cfg(not(feature = "sim"))]
        if how == Looking::Dead {
            return Ok((self.rounds.body.map().recover_dead() > 0).into());
        }
        let _ = how;
        self.is_over().map(Mark::from)
    }
}
