//! The tree with all mutants that can be switched, and its test programs.
//!
//! With none switched on it does what the source does: the gate explores it so, and then with each mistake of the day, in one build.

use super::mutant::{Checker, Mutant};
use super::suite::{Kind, LIMIT, Suite};
use super::switch::{self, Change};
use super::tree::copy_house_with;
use crate::run::{Cargo, root, target};
use crate::suites::{self, Program};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The crate on which all others stand that mutants change.
const LOWEST: &str = "crates/plat";

/// Whether the crate of a file can ask which mistake is in force: it is the lowest one, or stands on it.
fn asks(file: &str, read: &impl Fn(&str) -> Result<String>) -> Result<bool> {
    let of = file.split('/').take(2).collect::<Vec<_>>().join("/");
    Ok(of == LOWEST || read(&format!("{of}/Cargo.toml"))?.contains("\nchappe-plat"))
}

/// All mutants that can be in one tree, with their numbers there.
pub struct Switched {
    tree: PathBuf,
    /// Whether nothing is kept for a next build that is nearly the same.
    at_once: bool,
    /// By name; one that is not here needs a build of its own.
    pub numbers: BTreeMap<String, u32>,
}

impl Switched {
    /// Makes the tree: a copy in which each file that mutants change has all their mistakes.
    pub fn plant(mutants: &[Mutant], at_once: bool) -> Result<Switched> {
        let tree = target().join("mutants/all/tree");
        let mut numbers: BTreeMap<String, u32> = (1..).zip(mutants).map(|(n, m)| (m.name.clone(), n)).collect();
        let mut files: BTreeMap<&str, Vec<Change<'_>>> = BTreeMap::new();
        for mutant in mutants {
            for edit in &mutant.edits {
                let change = Change { number: numbers[&mutant.name], old: &edit.old, new: &edit.new };
                files.entry(&edit.file).or_default().push(change);
            }
        }
        let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| file.to_owned());
        // A mutant that changes two functions is switched in both, or in none; a refused mutant affects no other.
        loop {
            let mut refused = BTreeSet::new();
            for (file, changes) in &files {
                match asks(file, &read)? {
                    true => refused.extend(switch::refused(&read(file)?, changes)),
                    false => refused.extend(changes.iter().map(|c| c.number)),
                }
            }
            for changes in files.values_mut() {
                changes.retain(|c| !refused.contains(&c.number));
            }
            numbers.retain(|_, number| !refused.contains(number));
            if refused.is_empty() {
                break;
            }
        }
        let mut texts = BTreeMap::new();
        for (file, changes) in &files {
            let question = if file.starts_with(LOWEST) { "crate::mutant" } else { "chappe_plat::mutant" };
            texts.insert(PathBuf::from(file), switch::planted(&read(file)?, changes, question));
        }
        let lowest = PathBuf::from(LOWEST).join("src/lib.rs");
        let plain = read(&lowest.display().to_string())?;
        *texts.entry(lowest).or_insert(plain) += switch::QUESTION;
        copy_house_with(&tree, &texts)?;
        Ok(Switched { tree, at_once, numbers })
    }

    /// Builds the test programs that these checkers need, those of one kind by one call of cargo, in a directory of their own: cargo
    /// names what it makes of a package by its place within the workspace, so the workspace's own would be replaced.
    pub fn build<'a>(&self, checkers: impl Iterator<Item = &'a Checker>) -> Result<Vec<(Kind, Program)>> {
        let mut suites: BTreeMap<Kind, Vec<Suite>> = BTreeMap::new();
        for checker in checkers {
            if let Checker::Test { suite, .. } = checker {
                let suite = Suite::of(suite);
                suites.entry(suite.kind.clone()).or_default().push(suite);
            }
        }
        let mut all = Vec::new();
        for (kind, suites) in suites {
            let packages: BTreeSet<&str> = suites.iter().map(|suite| suite.package.as_str()).collect();
            let mut args: Vec<String> = kind.profile().iter().map(|word| (*word).to_owned()).collect();
            packages.iter().for_each(|package| args.extend(["-p".to_owned(), (*package).to_owned()]));
            if let Some(feature) = kind.feature() {
                let features: Vec<String> = packages.iter().map(|package| format!("{package}/{feature}")).collect();
                args.extend(["--features".to_owned(), features.join(",")]);
            }
            let targets: BTreeSet<Vec<&str>> = suites.iter().map(Suite::target).collect();
            args.extend(targets.into_iter().flatten().map(str::to_owned));
            all.extend(self.programs(&args)?.into_iter().map(|program| (kind.clone(), program)));
        }
        Ok(all)
    }

    /// Builds test programs of the tree, in which no mistake is switched on unless `CHAPPE_MUTANT` names one. `args` select them.
    pub fn programs(&self, args: &[impl AsRef<str>]) -> Result<Vec<Program>> {
        let build = self.tree.with_file_name("build").display().to_string();
        let call = Cargo::new("test").directory(&self.tree).env("CARGO_TARGET_DIR", &build).args(args);
        let call = if self.at_once { call.at_once() } else { call };
        suites::build(call).context("the tree with all mutants, target/mutants/all/tree, does not build")
    }

    /// Whether the mutant's test finds it.
    pub fn caught(&self, programs: &[(Kind, Program)], mutant: &Mutant, checker: &Checker) -> Result<bool> {
        let Checker::Test { suite, test } = checker else { bail!("only tests are switched") };
        let named = Suite::of(suite);
        let (_, program) = programs
            .iter()
            .find(|(kind, program)| *kind == named.kind && named.is_in(program))
            .with_context(|| format!("there is no suite `{suite}`"))?;
        let environment = [("CHAPPE_MUTANT".to_owned(), self.numbers[&mutant.name].to_string())];
        named.finds(program, test, LIMIT, &environment)
    }
}
