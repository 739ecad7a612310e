//! What a world's client asks of the engine, and what it is told.

use super::seen::reads;
use super::{Act, Client, Doing, World, space};
use chappe_remote::acquire::Step;
use chappe_remote::add;
use chappe_remote::engine::{EngineError, Revision, Txn};
use chappe_remote::grant::End;
use chappe_remote::release;

/// What a release is to give back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gives {
    pub pool: String,
    pub token: Revision,
    /// How many permits it has not given back itself.
    pub lost: usize,
    /// An answer was lost of what gives some back.
    pub doubts: bool,
}

impl World {
    /// How many of the permits are there that its release is to give back.
    pub fn to_be_given(&self, c: usize) -> usize {
        let Some(gives) = &self.clients[c].gives else { return 0 };
        self.engine.found(&space().holders(&gives.pool)).filter(|entry| entry.modified == gives.token).count()
    }
}

impl Client {
    pub fn is_busy(&self) -> bool {
        !self.acts.is_empty() && (self.doing != Doing::Next || self.attempts > 0)
    }

    /// Whether what it asks next one member may answer.
    pub fn glances(&self) -> bool {
        match &self.doing {
            Doing::Acquiring(machine) => machine.glances(),
            Doing::Releasing(release) => matches!(release.step(), release::Step::Glance(_)),
            _ => false,
        }
    }

    pub fn next_act(&mut self) {
        self.acts.pop_front();
        (self.doing, self.watch) = (Doing::Next, None);
    }

    /// How what it holds is left by what it does.
    pub fn end(&self) -> End {
        let finishes = matches!((&self.doing, self.acts.front()), (Doing::Releasing(_), Some(Act::Hold(..))));
        if finishes { End::Finished } else { End::Left }
    }

    /// The call that it makes next, if it makes one.
    pub fn txn(&mut self) -> Option<Txn> {
        match &mut self.doing {
            Doing::Acquiring(machine) => match machine.step() {
                Step::Call(txn) => Some(txn),
                _ => None,
            },
            Doing::Releasing(release) => match release.step() {
                release::Step::Call(txn) | release::Step::Glance(txn) => Some(txn),
                release::Step::Done(_) => None,
            },
            Doing::Adding(add) => match add.step() {
                add::Step::Call(txn) => Some(txn),
                add::Step::Done(_) => None,
            },
            Doing::Forgetting(txn) => Some(txn.clone()),
            _ => None,
        }
    }

    pub fn told(&mut self, answer: &Result<chappe_remote::engine::TxnReply, EngineError>) {
        match &mut self.doing {
            Doing::Acquiring(machine) => machine.answered(answer),
            Doing::Releasing(release) => {
                // To read gives nothing back.
                let writes = matches!(release.step(), release::Step::Call(txn) if !reads(&txn));
                if let (Some(gives), Err(EngineError::Unknown(_) | EngineError::Full(_))) = (&mut self.gives, answer) {
                    gives.doubts |= writes;
                }
                release.answered(answer);
            }
            Doing::Adding(add) => add.answered(answer),
            Doing::Forgetting(_) if !matches!(answer, Err(EngineError::Unknown(_))) => self.next_act(),
            _ => {}
        }
    }
}
