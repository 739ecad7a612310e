//! Giving permits and mutexes back, each to the head of the queue if there is one.
//!
//! ```text
//!   give back, if nobody waits --- done ------------------------------------> end
//!       | somebody waits     ^ none, where it began so
//!   head's ticket, n = 1 ------- hand over --- done, or given back ---------> next permit, or end
//!       | none, or it wants several, or the permit is beyond the pool's size
//!   give back ---------------------------------------------------------------> end
//! ```
//!
//! A hand-over is one transaction: the permit is never free, so nobody overtakes the head. One that fails gives the permit back in the same
//! transaction, and the head takes it, or is helped ([`acquire`](crate::acquire), I6). Each step compares that the permit's token is the
//! giver's, so all can be repeated when an answer is lost, and a permit that another process holds by now is left alone.
//!
//! **The head may be an old one.** Where it is likely that somebody waits, the head is read first, as one member has it: no other is asked for that, and
//! nothing synced, so a hand-over costs one write. What that member has not heard of yet is told by the conditions of the hand-over, or by those of the
//! first step; and a head that is there still is the head, since tickets come behind it only.

use crate::engine::{EngineError, Op, Reply, Revision, Txn, TxnReply};
use crate::grant::{self, End, Own, Permits, Waiter};
use crate::keys::{self, Object, Space};
use crate::view::{Given, Seen};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Have the engine do this, and tell what came of it.
    Call(Txn),
    /// The same of what only reads: it may be old ([`Engine::glance`](crate::engine::Engine::glance)).
    Glance(Txn),
    /// It is over: these permits were another's by then, or the engine refused.
    Done(Result<Vec<u32>, String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Unwaited,
    /// Likely waited for.
    Glance,
    Head,
    HandOver(Waiter, Permits),
    GiveBack,
    Done(Result<Vec<u32>, String>),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    space: Space,
    own: Own,
    /// What is still to be given back.
    left: Vec<u32>,
    lost: Vec<u32>,
    /// An answer was lost: what is not there any more may have been given back.
    unsure: bool,
    /// When all was given back, and nobody waited.
    freed: Option<Revision>,
    at: At,
}

impl Release {
    /// A machine that begins. `waited_for`: it is likely that somebody waits.
    pub fn new(space: Space, own: Own, indices: Vec<u32>, waited_for: bool) -> Release {
        let at = if waited_for { At::Glance } else { At::Unwaited };
        Release { space, own, left: indices, lost: vec![], unsure: false, freed: None, at }
    }

    /// What to do next. The same, until the machine is told something.
    pub fn step(&self) -> Step {
        let (space, own) = (&self.space, &self.own);
        match &self.at {
            At::Unwaited => Step::Call(grant::give_back_unless_waited_for(space, own, &self.left)),
            At::Glance => Step::Glance(Txn::of(grant::head(space, &own.pool))),
            At::Head => Step::Call(Txn::of(grant::head(space, &own.pool))),
            At::HandOver(to, permit) => Step::Call(grant::hand_over(space, to, own, permit)),
            At::GiveBack => Step::Call(self.giving_back()),
            At::Done(end) => Step::Done(end.clone()),
        }
    }

    /// One by one, so that each that is lost is known, after all together.
    fn giving_back(&self) -> Txn {
        let one = |index: &u32| Op::Txn(grant::give_back(&self.space, &self.own, std::slice::from_ref(index)));
        Txn::of(self.left.iter().map(one).collect())
    }

    /// The engine did what [`step`](Release::step) said, or did not say that it did.
    pub fn answered(&mut self, answer: &Result<TxnReply, EngineError>) {
        match answer {
            Ok(reply) => self.done(reply),
            // Each step can be repeated; one that reads has given nothing back.
            Err(EngineError::Unknown(_)) => self.unsure |= !matches!(self.at, At::Glance | At::Head),
            // The head's lease: the next is head.
            Err(EngineError::LeaseGone) => self.at = At::Head,
            // To give back is to delete, which such an engine does, if it has not handed over.
            Err(EngineError::Full(_)) if matches!(self.at, At::HandOver(..)) => {
                (self.unsure, self.at) = (true, At::GiveBack)
            }
            Err(EngineError::Refused(why) | EngineError::Full(why)) => self.at = At::Done(Err(why.clone())),
        }
    }

    /// What may be tried for next, of what was seen when it was granted: `None` if somebody waited, it was lost, or the next holder is to be warned.
    pub fn freed(&self, seen: Seen) -> Option<Seen> {
        let (at, mut object) = (self.freed?, seen.object);
        if let Object::Mutex { taken } = &mut object.what {
            if self.own.end == End::Left {
                return None;
            }
            (*taken, object.modified) = (false, at);
        }
        Some(Seen { object, ..seen })
    }

    /// Whether the engine refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.at, At::Done(Err(_)))
    }

    /// The engine is to be asked again what it refused.
    pub fn again(&mut self) {
        if self.is_refused() {
            self.at = At::Unwaited;
        }
    }

    fn done(&mut self, reply: &TxnReply) {
        match &self.at {
            At::Unwaited if reply.held => {
                self.freed = Some(reply.revision);
                self.end();
            }
            At::Glance => {
                let next = self.next(&reply.replies);
                // One that came since is seen by the condition.
                self.at = if matches!(next, At::GiveBack) { At::Unwaited } else { next };
            }
            At::Unwaited | At::Head => self.at = self.next(&reply.replies),
            At::HandOver(_, permit) => {
                let index = permit.given.indices()[0];
                let given_back = matches!(reply.replies.first(), Some(Reply::Txn(true, _)));
                if !reply.held && !given_back {
                    self.gone(index);
                }
                self.left.retain(|left| *left != index);
                self.at = At::Head;
                if self.left.is_empty() {
                    self.end();
                }
            }
            At::GiveBack => {
                let given = reply.replies.iter().map(|reply| matches!(reply, Reply::Txn(true, _)));
                let gone: Vec<u32> = self.left.iter().zip(given).filter(|(_, given)| !given).map(|(i, _)| *i).collect();
                gone.into_iter().for_each(|index| self.gone(index));
                self.end();
            }
            At::Done(_) => {}
        }
    }

    fn gone(&mut self, index: u32) {
        if !self.unsure {
            self.lost.push(index);
        }
    }

    fn end(&mut self) {
        self.left.clear();
        self.at = At::Done(Ok(std::mem::take(&mut self.lost)));
    }

    /// Which way the next permit goes, as the head and the size are now.
    fn next(&self, replies: &[Reply]) -> At {
        let [Reply::Found(head), Reply::Found(size)] = replies else { return At::GiveBack };
        let Some(&index) = self.left.first() else { return At::GiveBack };
        let given = size.first().and_then(|entry| {
            let given = match keys::read(&entry.value)? {
                Object::Pool { permits } => (index < permits).then(|| Given::Permits(vec![index]))?,
                Object::Mutex { .. } => Given::Mutex { owner_died: self.own.end == End::Left },
                Object::Sem { .. } | Object::Tube { .. } => return None,
            };
            Some(Permits { pool: self.own.pool.clone(), size: entry.modified, given })
        });
        match (head.first().and_then(|entry| Waiter::of(&self.space, entry)), given) {
            (Some((to, 1)), Some(permit)) => At::HandOver(to, permit),
            _ => At::GiveBack,
        }
    }
}
