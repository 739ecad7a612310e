//! Suites as mutants name them: what builds them, and what they say when they find a mistake.

use anyhow::{Result, bail};

/// What a suite's test programs are built with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// For the explorer.
    Explored,
    /// For loom.
    Loom,
    /// As it ships.
    Ships,
    /// Optimised, with a feature that is there for tests.
    WithFeature(String),
}

impl Kind {
    /// Of a suite as mutants name it, with its package, and its own name.
    pub fn of(suite: &str) -> (Kind, String, String) {
        let (package, name) = suite.split_once('/').unwrap_or(("chappe-sync", suite));
        let (kind, package) = match package.split_once('+') {
            Some((package, feature)) => (Kind::WithFeature(feature.to_owned()), package),
            None if name.starts_with("crash_") => (Kind::Explored, package),
            None if name.starts_with("loom_") => (Kind::Loom, package),
            None => (Kind::Ships, package),
        };
        (kind, package.to_owned(), name.to_owned())
    }

    /// Arguments of cargo.
    pub fn profile(&self) -> &'static [&'static str] {
        if *self == Kind::Ships { &[] } else { &["--profile", "explore"] }
    }

    /// Which one is built with.
    pub fn feature(&self) -> Option<&str> {
        match self {
            Kind::Explored => Some("sim"),
            Kind::Loom => Some("loom"),
            Kind::Ships => None,
            Kind::WithFeature(feature) => Some(feature),
        }
    }

    /// What a test says that has found a mistake, and is not broken itself.
    pub fn found(&self) -> &'static [&'static str] {
        match self {
            Kind::Explored => &["replay with CRASHSIM_REPLAY"],
            // Light threads' nodes are on their stacks: a node that belongs to no wait is memory of another.
            Kind::Loom => &["found by loom", "(signal: 11"],
            Kind::Ships | Kind::WithFeature(_) => &["panicked at", "has been running for over 60 seconds"],
        }
    }
}

/// Whether the mistake was found by a test that ended so.
pub fn judged(passed: bool, text: &str, found: &[&str]) -> Result<bool> {
    if !passed && !found.iter().any(|f| text.contains(f)) {
        bail!("its test failed for another reason:\n{text}");
    }
    Ok(!passed)
}
