//! Suites as mutants name them: what builds them, which of their tests is meant, and what they say when they find a mistake.

use crate::suites::Program;
use anyhow::{Result, bail, ensure};

/// Seconds that a build and its test may take: a mistake in what ships may have it hang. On a machine with a load of 35 a search of a
/// minute took more than 900.
pub const LIMIT: u64 = 3600;

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

/// A suite, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// What its program is built with.
    pub kind: Kind,
    /// Whose it is.
    pub package: String,
    /// Its test program.
    pub program: String,
    /// How the names of its tests begin: the suites of chappe-sync are modules of two programs.
    pub prefix: String,
}

impl Suite {
    /// As mutants name it.
    pub fn of(suite: &str) -> Suite {
        let (package, name) = suite.split_once('/').unwrap_or(("chappe-sync", suite));
        let (kind, package) = match package.split_once('+') {
            Some((package, feature)) => (Kind::WithFeature(feature.to_owned()), package),
            None if name.starts_with("crash_") => (Kind::Explored, package),
            None if name.starts_with("loom_") => (Kind::Loom, package),
            None => (Kind::Ships, package),
        };
        let (program, prefix) = match kind {
            Kind::Explored if package == "chappe-sync" => ("explored", format!("{name}::")),
            Kind::Loom if package == "chappe-sync" => ("searched", format!("{name}::")),
            _ => (name, String::new()),
        };
        Suite { kind, package: package.to_owned(), program: program.to_owned(), prefix }
    }

    /// Whether this program is its.
    pub fn is_in(&self, program: &Program) -> bool {
        let named = if self.program == "lib" { program.target == "--lib" } else { program.name == self.program };
        named && program.package == self.package
    }

    /// What tells cargo to build its program alone.
    pub fn target(&self) -> Vec<&str> {
        if self.program == "lib" { vec!["--lib"] } else { vec!["--test", &self.program] }
    }

    /// Whether its tests with `test` in their names find the mistake that the program has.
    pub fn finds(&self, program: &Program, test: &str, seconds: u64, environment: &[(String, String)]) -> Result<bool> {
        let is_meant = |name: &&String| name.strip_prefix(&self.prefix).is_some_and(|name| name.contains(test));
        let all = program.tests()?;
        let meant: Vec<&str> = all.iter().filter(is_meant).map(String::as_str).collect();
        ensure!(!meant.is_empty(), "no test is called `{}{test}`", self.prefix);
        let args = [&["--include-ignored", "--exact"][..], &meant].concat();
        let said = program.run_within(seconds, &args, environment)?;
        judged(said.well, &said.text, self.kind.found())
    }
}

impl Kind {
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
            // A mistake may hand out memory that is another's: the allocator ends the program, or the kernel does.
            Kind::Ships | Kind::WithFeature(_) => {
                &["panicked at", "has been running for over 60 seconds", "(signal: 6)", "(signal: 11"]
            }
        }
    }
}

/// Whether the mistake was found by a test that ended so.
fn judged(passed: bool, text: &str, found: &[&str]) -> Result<bool> {
    if !passed && !found.iter().any(|f| text.contains(f)) {
        bail!("its test failed for another reason:\n{text}");
    }
    Ok(!passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_of_this_crate_is_a_module_and_others_are_programs() {
        let parts = |name: &str| {
            let suite = Suite::of(name);
            (suite.kind, format!("{} {} {}", suite.package, suite.program, suite.prefix))
        };
        assert_eq!(parts("crash_pool"), (Kind::Explored, "chappe-sync explored crash_pool::".to_owned()));
        assert_eq!(parts("loom_ring"), (Kind::Loom, "chappe-sync searched loom_ring::".to_owned()));
        assert_eq!(parts("chappe-ras/crash_lock"), (Kind::Explored, "chappe-ras crash_lock ".to_owned()));
        assert_eq!(parts("chappe-thread/lib"), (Kind::Ships, "chappe-thread lib ".to_owned()));
        let inject = Kind::WithFeature("inject".to_owned());
        assert_eq!(parts("chappe-ras+inject/lock"), (inject, "chappe-ras lock ".to_owned()));
    }
}
