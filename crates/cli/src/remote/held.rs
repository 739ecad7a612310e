//! What is held on an engine.

use chappe::remote::engine::{Keys, Revision};
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
    /// Whether others waited at the same time.
    pub waited: bool,
}

impl Held {
    /// What gives it back.
    pub fn release(&self, space: Space) -> Release {
        Release::new(space, self.pool.clone(), self.indices.clone(), self.token, self.waited)
    }

    /// Its keys there.
    pub fn keys(&self) -> Vec<Keys> {
        let Ok(space) = Space::new(&self.namespace) else { return vec![] };
        self.indices.iter().map(|index| Keys::One(space.held(&self.pool, *index))).collect()
    }
}
