//! Adding units to a semaphore: those that the head of the queue wants are its own at once.
//!
//! ```text
//!   look ---> add --- done --------------------------------------> end
//!    ^         |--- it changed meanwhile: with what was read ---+
//!    |         |<----------------------------------------------+
//!    |         |--- no answer ---> settle --- it was done -------> end
//!    +-------------------------------------------- it was not
//! ```
//!
//! | the adder dies, or stops | the units |
//! |---|---|
//! | before the transaction | are not added |
//! | after it | are there: a waiter that dies before it returns has spent its own |
//!
//! What an unanswered transaction did is told by `done/ID`, which it writes, and which goes with the adder's lease: so one has a lease to add.
//! A waiter behind the head takes what is left by itself ([`acquire`](crate::acquire), I6).

use crate::engine::{EngineError, Keys, Op, Reply, Revision, Txn, TxnReply};
use crate::grant::{self, Attempt, Waiter};
use crate::keys::{self, Object, Space};

/// The most units that a semaphore can have: as many as one of a single machine.
pub const MOST: u32 = i32::MAX as u32;

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// They were added; so many were left right after that.
    Added(u32),
    /// There is no such semaphore.
    NoSem,
    /// It is another kind of object.
    Other(Object),
    /// It would have more than [`MOST`]; nothing was added. So many it has.
    TooMany(u32),
    /// The adder's lease has ended; nothing was added.
    Lost,
    /// The answer was lost, and the lease ended, or the engine refused for this reason, before it was known whether they were added.
    Unsure(String),
    /// What stands there is of a newer format.
    Newer(u32),
    /// The engine refused.
    Refused(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Have the engine do this, and tell what came of it.
    Call(Txn),
    /// It is over.
    Done(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Look,
    Add {
        known: Revision,
        rest: u32,
        to: Option<Waiter>,
    },
    /// `full`: what an engine said that has no room. It does nothing later, and takes no fence.
    Settle {
        rest: u32,
        full: Option<String>,
    },
    Done(Outcome),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Add {
    space: Space,
    by: Attempt,
    base: String,
    /// How many attempts ended without an answer.
    tries: u32,
    sem: String,
    n: u32,
    /// The lease of a head was gone: this one adds, and the next in line takes.
    alone: bool,
    at: At,
}

impl Add {
    /// A machine that begins: `n` units are to be added, at least one.
    pub fn new(space: Space, by: Attempt, sem: String, n: u32) -> Add {
        Add { space, base: by.id.clone(), by, tries: 0, sem, n, alone: false, at: At::Look }
    }

    /// The attempt that was the last.
    pub fn id(&self) -> &str {
        &self.by.id
    }

    /// What to do next. The same, until the machine is told something.
    pub fn step(&self) -> Step {
        let (space, sem) = (&self.space, &self.sem);
        match &self.at {
            At::Look => {
                let mut ops = vec![Op::Get(Keys::One(space.format()))];
                ops.extend(grant::head(space, sem));
                Step::Call(Txn::of(ops))
            }
            At::Add { known, rest, to } => Step::Call(grant::add(space, &self.by, sem, *known, *rest, to.as_ref())),
            At::Settle { full, .. } => Step::Call(grant::settle_add(space, &self.by, full.is_some())),
            At::Done(outcome) => Step::Done(outcome.clone()),
        }
    }

    /// The engine did what [`step`](Add::step) said, or did not say that it did.
    pub fn answered(&mut self, answer: &Result<TxnReply, EngineError>) {
        match (answer, &self.at) {
            (Ok(reply), _) => self.done(reply),
            (Err(EngineError::Unknown(_)), At::Add { rest, .. }) => self.at = At::Settle { rest: *rest, full: None },
            (Err(EngineError::Full(why)), At::Add { rest, .. }) => {
                self.at = At::Settle { rest: *rest, full: Some(why.clone()) };
            }
            (Err(EngineError::Unknown(_)), _) => {}
            // The head's, or its own: that is seen without the head.
            (Err(EngineError::LeaseGone), At::Add { to: Some(_), .. }) => (self.alone, self.at) = (true, At::Look),
            (
                Err(why @ (EngineError::LeaseGone | EngineError::Refused(_) | EngineError::Full(_))),
                At::Settle { .. },
            ) => {
                self.at = At::Done(Outcome::Unsure(why.to_string()));
            }
            (Err(EngineError::LeaseGone), _) => self.at = At::Done(Outcome::Lost),
            (Err(EngineError::Refused(why) | EngineError::Full(why)), _) => {
                self.at = At::Done(Outcome::Refused(why.clone()))
            }
        }
    }

    fn done(&mut self, reply: &TxnReply) {
        self.at = match &self.at {
            At::Look => match reply.replies.as_slice() {
                [Reply::Found(format), rest @ ..] => {
                    keys::newer(format).map_or_else(|| self.next(rest), |newer| At::Done(Outcome::Newer(newer)))
                }
                _ => return,
            },
            At::Add { rest, .. } if reply.held => At::Done(Outcome::Added(*rest)),
            At::Add { .. } => self.next(&reply.replies),
            At::Settle { rest, full } => match (reply.replies.last(), full) {
                (Some(Reply::Found(done)), _) if !done.is_empty() => At::Done(Outcome::Added(*rest)),
                (_, Some(why)) => At::Done(Outcome::Refused(why.clone())),
                _ => {
                    // Nothing of that attempt can happen any more.
                    self.tries += 1;
                    self.by.id = format!("{}.{}", self.base, self.tries);
                    At::Look
                }
            },
            At::Done(_) => return,
        };
    }

    /// What to do, as the head and the semaphore are now.
    fn next(&self, replies: &[Reply]) -> At {
        let [Reply::Found(head), Reply::Found(size)] = replies else { return At::Look };
        let Some(entry) = size.first() else { return At::Done(Outcome::NoSem) };
        let value = match keys::read(&entry.value) {
            Some(Object::Sem { value }) => value,
            Some(other) => return At::Done(Outcome::Other(other)),
            None => return At::Done(Outcome::NoSem),
        };
        let Some(all) = value.checked_add(self.n).filter(|all| *all <= MOST) else {
            return At::Done(Outcome::TooMany(value));
        };
        let head = head.first().and_then(|entry| Waiter::of(&self.space, entry)).filter(|_| !self.alone);
        let given = head.and_then(|(to, n)| Some((to, all.checked_sub(n)?)));
        let (to, rest) = given.map_or((None, all), |(to, rest)| (Some(to), rest));
        At::Add { known: entry.modified, rest, to }
    }
}
