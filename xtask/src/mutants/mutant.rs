//! A mutant, as its file says it.
//!
//! A mutant is a file in `mutants` of chappe-sync, -ras, -remote, -term or -lane: a sentence that says what is wrong, which checker must find it, and
//! one or more changes: the source file, a piece of it as it is, and the same as it must not be.
//!
//! ```text
//! A releaser does not look for waiters.
//! known: WAITERS flag against the fast path: lost wake
//! test: crash_pool acquire_and_release
//! model: pool NO_LOOK
//! sweep: release, waiters
//! file: crates/sync/src/permit.rs
//! ---- old
//! ...
//! ---- new
//! ...
//! ---- end
//! ```
//!
//! | line | finder | when |
//! |---|---|---|
//! | `test: crash_SUITE TEST` | the explorer | `cargo xtask mutants`; a tenth, in turn, in `cargo xtask test` |
//! | `test: PACKAGE/crash_SUITE TEST` | the explorer, in another package than chappe-sync | the same |
//! | `test: loom_SUITE TEST` | loom | the same |
//! | `test: PACKAGE/SUITE TEST` | a test of what ships; the suite `lib` is the package's own | `cargo xtask mutants` |
//! | `test: PACKAGE+FEATURE/SUITE TEST` | the same, optimised, with a feature that is there for its tests | the same |
//! | `model: MODEL MISTAKE` | spin, in the protocol's model, where the same mistake is planted | `cargo xtask models --mistakes` |
//! | `sweep: WORDS` | the injector, which kills real processes in the operation and scene of that name | `cargo xtask mutants --sweep` |
//!
//! `known:` says which race or fault of the field's (or of the papers' own code) it is. A piece that no longer occurs exactly
//! once is an error: mutants are kept up with the source. One that does not compile, or whose test fails without a schedule
//! to replay or the word of loom that it found it, has not been caught; of a test of what ships an assertion must fail, or its
//! watchdog.

use crate::models;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Where mutants are.
const KEPT: [&str; 5] = [
    "crates/sync/mutants",
    "crates/ras/mutants",
    "crates/remote/mutants",
    "crates/term/mutants",
    "crates/lane/mutants",
];

/// A mistake, and what must find it.
#[derive(Debug, PartialEq, Eq)]
pub struct Mutant {
    pub name: String,
    pub why: String,
    pub known: Option<String>,
    pub checkers: Vec<Checker>,
    pub edits: Vec<Edit>,
}

/// The checker that must find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checker {
    Test { suite: String, test: String },
    Model { model: String, mistake: String },
    Sweep { words: String },
}

/// A change of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Edit {
    pub file: String,
    pub old: String,
    pub new: String,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Mutant> {
        let at = text.find("file: ").context("no `file:`")?;
        let (head, mut rest) = text.split_at(at);
        let (mut why, mut known, mut checkers) = (String::new(), None, Vec::new());
        for line in head.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let two = |args: &str| -> Result<(String, String)> {
                let (a, b) = args.split_once(' ').with_context(|| format!("`{line}` names two things"))?;
                Ok((a.to_owned(), b.to_owned()))
            };
            match line.split_once(": ") {
                Some(("known", what)) => known = Some(what.to_owned()),
                Some(("test", args)) => {
                    let (suite, test) = two(args)?;
                    checkers.push(Checker::Test { suite, test });
                }
                Some(("model", args)) => {
                    let (model, mistake) = two(args)?;
                    checkers.push(Checker::Model { model, mistake });
                }
                Some(("sweep", words)) => checkers.push(Checker::Sweep { words: words.to_owned() }),
                _ => {
                    let space = if why.is_empty() { "" } else { " " };
                    let _ = write!(why, "{space}{line}");
                }
            }
        }
        ensure!(checkers.iter().any(|c| matches!(c, Checker::Test { .. })), "no `test:`");
        let mut edits = Vec::new();
        while !rest.trim().is_empty() {
            let edit;
            (edit, rest) = Edit::parse(rest)?;
            edits.push(edit);
        }
        ensure!(!edits.is_empty(), "it changes nothing");
        Ok(Mutant { name: name.to_owned(), why, known, checkers, edits })
    }

    /// Whether all it changes is there, once, and so is each model's mistake.
    pub fn fits(&self, tree: &Path) -> Result<()> {
        for edit in &self.edits {
            edit.plant(&fs::read_to_string(tree.join(&edit.file)).with_context(|| edit.file.clone())?)?;
        }
        for checker in &self.checkers {
            if let Checker::Model { model, mistake } = checker {
                models::has(model, mistake)?;
            }
        }
        Ok(())
    }
}

impl Checker {
    /// Whether what finds it is the explorer, or loom: not a test of what ships, which may race.
    pub fn is_explored(&self) -> bool {
        let Checker::Test { suite, .. } = self else { return false };
        let suite = suite.rsplit('/').next().unwrap_or_default();
        suite.starts_with("crash_") || suite.starts_with("loom_")
    }

    /// What the table calls it.
    pub fn title(&self) -> String {
        match self {
            Checker::Test { suite, test } => match suite.split_once('_') {
                _ if suite.contains('/') && !suite.contains("/crash_") => format!("test `{suite}` {test}"),
                Some(("loom", _)) => format!("loom `{suite}` {test}"),
                _ => format!("crashsim `{suite}` {test}"),
            },
            Checker::Model { model, mistake } => format!("spin `{model}` {mistake}"),
            Checker::Sweep { words } => format!("kill sweep `{words}`"),
        }
    }
}

impl Edit {
    fn parse(text: &str) -> Result<(Edit, &str)> {
        let cut = |text, mark: &str| -> Result<(String, &str)> {
            let (part, rest) = str::split_once(text, mark).with_context(|| format!("no `{}`", mark.trim()))?;
            Ok((part.to_owned(), rest))
        };
        let (_, rest) = cut(text, "file: ")?;
        let (file, rest) = cut(rest, "\n---- old\n")?;
        let (old, rest) = cut(rest, "---- new\n")?;
        let (new, rest) = cut(rest, "---- end\n")?;
        ensure!(!format!("{old}{new}").contains("---- "), "an edit of {file} has no `---- end`");
        Ok((Edit { file, old, new }, rest))
    }

    pub fn plant(&self, source: &str) -> Result<String> {
        let times = source.matches(&self.old).count();
        ensure!(times == 1, "what it replaces occurs {times} times in {}, not once: bring it up to date", self.file);
        Ok(source.replacen(&self.old, &self.new, 1))
    }
}

/// Those whose names contain `filter`.
pub fn all(filter: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let each = KEPT.iter().map(|dir| fs::read_dir(root().join(dir)).with_context(|| (*dir).to_owned()));
    for entry in each.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(filter) {
            let text = fs::read_to_string(&path)?;
            mutants.push(Mutant::parse(&name, &text).with_context(|| path.display().to_string())?);
        }
    }
    ensure!(!mutants.is_empty(), "no mutant is called `{filter}`");
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "It is wrong.\nVery.\n\nknown: a race\ntest: suite name\nmodel: m MISTAKE\nsweep: up, waiters\n\
                        file: a.rs\n---- old\none\n---- new\ntwo\n---- end\n";

    #[test]
    fn a_mutant_is_read_and_planted() {
        let m = Mutant::parse("m", TEXT).unwrap();
        assert_eq!((m.why.as_str(), m.known.as_deref()), ("It is wrong. Very.", Some("a race")));
        let titles: Vec<_> = m.checkers.iter().map(Checker::title).collect();
        assert_eq!(titles, ["crashsim `suite` name", "spin `m` MISTAKE", "kill sweep `up, waiters`"]);
        assert_eq!(m.edits[0].plant("zero\none\nthree\n").unwrap(), "zero\ntwo\nthree\n");
    }

    #[test]
    fn a_mutant_that_fits_nowhere_or_twice_is_an_error() {
        let m = Mutant::parse("m", TEXT).unwrap();
        assert!(m.edits[0].plant("two\n").unwrap_err().to_string().contains("occurs 0 times"));
        assert!(m.edits[0].plant("one\none\n").unwrap_err().to_string().contains("occurs 2 times"));
        assert!(Mutant::parse("m", "no such thing").is_err());
        assert!(Mutant::parse("m", &TEXT.replace("test: suite name\n", "")).is_err());
        let two = TEXT.replace("---- end\n", "---- old\none\n---- new\ntwo\n---- end\n");
        assert!(Mutant::parse("m", &two).unwrap_err().to_string().contains("no `---- end`"));
    }
}
