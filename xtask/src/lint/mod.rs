//! The house rules that a program can check.
//!
//! | rule | what it wants | where |
//! |---|---|---|
//! | ordering | every memory ordering is explained beside it | [`ordering`] |
//! | unsafe | every `unsafe` says on what it stands | [`safety`] |
//! | layers | arrows go down only; one room touches the outside | [`layers`] |
//! | circles | no files of a crate import each other in a circle | [`circles`] |
//! | rooms | of the files of a crate, none imports one that stands above it | [`rooms`] |
//! | shape | one idea a file, a head that tells it, at most 700 lines | [`shape`] |
//! | cited | an invariant that a comment cites is written down | [`cited`] |
//! | documents | what a document names is there | [`documents`] |
//! | links | a link of a document leads somewhere | [`links`] |
//! | late | what may write into another object's memory is a closed list | [`late`] |
//! | waits | one place parks, one wakes; whatever else sleeps says why | [`waits`] |
//! | names | a test is called by its property, a mutant by its mistake, and both exist | [`names`] |
//! | words | nothing unfinished, nobody's own machine | [`words`] |
//! | commits | each commit gives its reason | [`commits`] |
//!
//! A rule is a function from the [`House`] to findings; that of commits reads the history instead. Each has tests in which it catches what was planted.

mod circles;
mod cited;
mod commits;
mod documents;
mod finding;
mod house;
mod imports;
mod late;
mod layers;
mod links;
mod modules;
mod names;
mod ordering;
mod rooms;
mod safety;
mod shape;
mod source;
mod waits;
mod words;

pub use layers::needs;
pub use source::{Line, lines};

use anyhow::{Result, bail, ensure};
use finding::Finding;
use house::House;
use std::path::Path;

type Rule = fn(&House) -> Vec<Finding>;

const RULES: [Rule; 13] = [
    ordering::check,
    safety::check,
    layers::check,
    circles::check,
    rooms::check,
    shape::check,
    cited::check,
    documents::check,
    links::check,
    late::check,
    waits::check,
    names::check,
    words::check,
];

/// Checks the workspace and tells what it found.
pub fn command(root: &Path) -> Result<()> {
    let house = House::read(root)?;
    ensure!(house.rust().count() > 1, "no Rust source under {}: is this the workspace?", root.display());
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&house)).collect();
    findings.extend(commits::check(root));
    findings.sort();
    for f in &findings {
        eprintln!("{}:{}: {}: {}", f.file, f.line, f.rule, f.text);
    }
    if findings.is_empty() { Ok(()) } else { bail!("{} finding(s)", findings.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_file_is_found_on_disk() {
        let dir = std::env::temp_dir().join(format!("xtask-lint-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("crates/new/src")).unwrap();
        std::fs::write(dir.join("crates/new/src/lib.rs"), "//! A head.\n").unwrap();
        std::fs::write(dir.join("crates/new/src/new.rs"), "pub fn f() {}\n").unwrap();
        let result = command(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(result.unwrap_err().to_string(), "1 finding(s)");
    }
}
