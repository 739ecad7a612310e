//! What is held on an engine.

use chappe::remote::engine::{Keys, Revision};
use chappe::remote::grant::{End, Own};
use chappe::remote::keys::Space;
use chappe::remote::release::Release;
use serde::{Deserialize, Serialize};

/// A permit that is held, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The namespace.
    pub namespace: String,
    /// The pool.
    pub pool: String,
    /// Which.
    pub indices: Vec<u32>,
    /// The fencing token.
    pub token: Revision,
    /// What that becomes: the next holder of a mutex is told whether the job ended by itself.
    pub end: End,
    /// Whether others waited at the same time.
    pub waited: bool,
}

impl Held {
    /// What gives it back.
    pub fn release(&self, space: Space) -> Release {
        let own = Own { pool: self.pool.clone(), token: self.token, end: self.end };
        Release::new(space, own, self.indices.clone(), self.waited)
    }

    /// Its keys there.
    pub fn keys(&self) -> Vec<Keys> {
        let Ok(space) = Space::new(&self.namespace) else { return vec![] };
        self.indices.iter().map(|index| Keys::One(space.held(&self.pool, *index))).collect()
    }
}
