//! Waiting until something is ours: what a choice's arms are to the wait queue.
//!
//! An arm can be tried, waited on, and collected. Everything that has a word of its own and a place in the queue joins a
//! choice through [`Operation`].

use crate::cell::Word;
use crate::wait::{Arm, Ended, Grant, Parties, Party, Patience, Terms, arm_granted, arrive, finish, wait};
use chappe_plat::{clock, step};

/// What is ours: a pool's permit and its cell's word; of a semaphore, nothing more is to be known.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub position: u32,
    pub word: Word,
}

impl Taken {
    /// A unit: whose it is nobody keeps.
    pub const UNIT: Taken = Taken { position: 0, word: Word(0) };
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Refused {
    NoneFree,
    TimedOut,
    Dead(usize),
    TooMany,
}

/// What became of a grant.
pub(crate) enum Collected {
    /// It is ours.
    Taken(Taken),
    /// It was taken away, or is void: wait again, in the old place.
    Void,
    /// Nothing was granted but another try.
    Nudged,
}

/// One of the things a choice chooses among.
pub(crate) trait Operation: Arm {
    /// Takes it if it is there and nobody waits for it. Never sleeps.
    fn attempt(&self, me: &Party) -> Result<Taken, Refused>;
    /// Takes what was granted, while the wait word still says so.
    fn collect(&self, me: &Party, grant: Grant, number: u32) -> Collected;
    /// Gives back what the dead hold of it. True if that may have freed something.
    #[cfg(not(feature = "sim"))]
    fn revive(&self) -> bool {
        false
    }
}

/// Waits for one of the arms. The caller has found none ready.
pub(crate) fn wait_for<A: Operation + ?Sized>(
    who: &Parties,
    arms: &[&A],
    first: usize,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(usize, Taken), Refused> {
    let terms = Terms { first, tickets: arrive(who), need: 1, deadline, patience };
    loop {
        let (ended, begun) = wait(who, arms, terms);
        let (grant, number) = match ended {
            Ended::Granted(grant, number) => (grant, number),
            Ended::TimedOut => return Err(Refused::TimedOut),
            Ended::Dead(arm) => return Err(Refused::Dead(arm)),
            Ended::TooMany => return Err(Refused::TooMany),
        };
        step!("granted, not yet taken");
        let at = arm_granted(arms, grant);
        let me = who.party(arms[at].map());
        let collected = arms[at].collect(me, grant, number);
        finish(who, arms, &begun);
        match collected {
            Collected::Taken(taken) => return Ok((at, taken)),
            Collected::Void => {}
            Collected::Nudged => match arms[at].attempt(me) {
                Ok(taken) => return Ok((at, taken)),
                Err(Refused::Dead(_)) => return Err(Refused::Dead(at)),
                // One that is told again and again, and comes too late, gives up all the same.
                Err(_) if deadline.is_some_and(|d| clock::now() >= d) => return last_look(who, arms),
                Err(_) => {}
            },
        }
    }
}

/// The time is up: what is there now, without a wait.
fn last_look<A: Operation + ?Sized>(who: &Parties, arms: &[&A]) -> Result<(usize, Taken), Refused> {
    let found = arms.iter().enumerate().find_map(|(at, arm)| Some((at, arm.attempt(who.party(arm.map())).ok()?)));
    found.ok_or(Refused::TimedOut)
}
