//! Known mistakes, planted one at a time in a copy of the protocols: each must be found.
//!
//! What a mutant is, [`mutant`] says.
//!
//! All that can be are planted in one tree, and switched on one at a time: [`switch`]. The others have a build of their own each. Two
//! lanes work at once; for the latter each has a tree and a build.

mod hunt;
mod mutant;
pub mod suite;
mod switch;
mod switched;
mod tree;

pub use hunt::{Which, hunt, hunted};

use crate::changed::Planted;
use crate::suites::Program;
use anyhow::Result;
use mutant::{Checker, Mutant, all};
use std::fmt::Write;
use switched::Switched;

/// Test programs of the tree with all mutants, which have no mistake unless `CHAPPE_MUTANT` names one. Each of `calls` selects some.
/// `at_once`: nothing is kept for a next build that is nearly the same.
pub fn planted(calls: &[Vec<&str>], at_once: bool) -> Result<Vec<Program>> {
    let mutants = all("")?;
    hunt::fit(&mutants)?;
    let switched = Switched::plant(&mutants, at_once)?;
    let all: Vec<Vec<Program>> = calls.iter().map(|args| switched.programs(args)).collect::<Result<_>>()?;
    Ok(all.concat())
}

/// What each mutant changes, and which suites of the explorer and of loom notice it.
pub fn changes() -> Result<Vec<Planted>> {
    let suites = |m: &Mutant| {
        let explored = m.checkers.iter().filter(|c| c.is_explored());
        explored.filter_map(|c| if let Checker::Test { suite, .. } = c { Some(suite.clone()) } else { None }).collect()
    };
    let files = |m: &Mutant| m.edits.iter().map(|edit| edit.file.clone()).collect();
    Ok(all("")?.iter().map(|m| Planted { name: m.name.clone(), files: files(m), suites: suites(m) }).collect())
}

/// The table of all mutants, for people: the known ones first.
pub fn table() -> Result<String> {
    let mutants = all("")?;
    hunt::fit(&mutants)?;
    let mut text = String::from(HEAD);
    let row = |m: &Mutant| {
        let by: Vec<String> = m.checkers.iter().map(Checker::title).collect();
        format!("| `{}` | {} | {} |\n", m.name, m.why, by.join("; "))
    };
    text += "\n## Known races and faults\n\n";
    text += "| known as | mutant | what it does | caught by |\n|---|---|---|---|\n";
    let mut known: Vec<_> = mutants.iter().filter_map(|m| Some((m.known.as_deref()?, m))).collect();
    known.sort_by_key(|(what, _)| *what);
    for (what, m) in known {
        let _ = write!(text, "| {what} {}", row(m));
    }
    text += "\n## All others\n\n| mutant | what it does | caught by |\n|---|---|---|\n";
    mutants.iter().filter(|m| m.known.is_none()).for_each(|m| text += &row(m));
    Ok(text)
}

const HEAD: &str = "\
# Planted mistakes, and what catches them

Made by `cargo xtask mutants --table`. Each mistake is planted alone, in a copy of the protocols; crashsim is the explorer, a *test* one of
what ships, spin runs the protocol's model with the same mistake, and the kill sweep kills real processes. `cargo xtask mutants` plants all
of them; each `cargo xtask test` plants a tenth of those that crashsim or loom finds, another one with each commit.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;

    #[test]
    fn each_mistake_that_a_mutant_names_is_one_of_a_model() {
        let mutants = all("").unwrap();
        let named =
            mutants.iter().flat_map(|m| m.checkers.iter().map(move |c| (&m.name, c))).filter_map(|(name, c)| match c {
                Checker::Model { model, mistake } => Some((name, models::has(model, mistake))),
                _ => None,
            });
        let (good, bad): (Vec<_>, Vec<_>) = named.partition(|(_, found)| found.is_ok());
        assert!(bad.is_empty() && !good.is_empty(), "{bad:?}");
    }

    #[test]
    fn thirty_known_races_are_planted_and_the_table_names_their_finders() {
        let known = all("").unwrap().iter().filter(|m| m.known.is_some()).count();
        assert!(known >= 30, "{known}");
        let table = table().unwrap();
        assert!(all("").unwrap().iter().all(|m| table.contains(&format!("`{}`", m.name))), "{table}");
    }
}
