//! What is found, and where.

use chappe_arena::ArenaError;
use chappe_sync::Capacity;

/// Something noteworthy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of thing it is, for programs: `dead-member`, `orphan-permit`; see `chappe help json`.
    pub kind: &'static str,
    /// What was found.
    pub what: String,
    /// What was done about it, if anything was.
    pub done: Option<String>,
    /// What is to be done, or what will become of it, if anything is left.
    pub advice: Option<String>,
}

impl Finding {
    pub(crate) fn new(kind: &'static str, what: impl Into<String>) -> Finding {
        Finding { kind, what: what.into(), done: None, advice: None }
    }

    pub(crate) fn done(self, done: impl Into<String>) -> Finding {
        Finding { done: Some(done.into()), ..self }
    }

    pub(crate) fn advice(self, advice: impl Into<String>) -> Finding {
        Finding { advice: Some(advice.into()), ..self }
    }
}

/// How one arena is.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArenaHealth {
    /// Its name.
    pub name: String,
    /// Why it cannot be used, if it cannot.
    pub error: Option<ArenaError>,
    /// What was found in it; nothing is best.
    pub findings: Vec<Finding>,
    /// How full it is.
    pub capacity: Option<Capacity>,
}

/// What lies and runs around the arenas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Surroundings {
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many processes could not be looked at: other users', as a rule.
    pub unseen: u32,
}
