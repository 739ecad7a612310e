//! Known mistakes, planted one at a time in a copy of the protocols: each must be found.
//!
//! A mutant is a file in `crates/sync/mutants` or `crates/ras/mutants`: a sentence that says what is wrong, who must find it, and one or more
//! changes: the source file, a piece of it as it is, and the same as it must not be.
//!
//! ```text
//! Who gives back does not look whether anybody waits.
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
//! | line | who finds it | when |
//! |---|---|---|
//! | `test: crash_SUITE TEST` | the explorer | `cargo xtask mutants`; with `known:` also in `cargo xtask test` |
//! | `test: PACKAGE/crash_SUITE TEST` | the explorer, in another package than chappe-sync | the same |
//! | `test: loom_SUITE TEST` | loom | the same |
//! | `test: PACKAGE/SUITE TEST` | a test of what ships; the suite `lib` is the package's own | the same |
//! | `test: PACKAGE+FEATURE/SUITE TEST` | the same, optimised, with a feature that is there for its tests | the same |
//! | `model: MODEL MISTAKE` | spin, in the protocol's model, where the same mistake is planted | `cargo xtask models --mistakes` |
//! | `sweep: WORDS` | the injector, which kills real processes in the operation and scene of that name | `cargo xtask mutants --sweep` |
//!
//! `known:` says which race or fault of the field's (or of the papers' own code) it is. A piece that no longer occurs exactly
//! once is an error: mutants are kept up with the source. One that does not compile, or whose test fails without a schedule
//! to replay or the word of loom that it found it, has not been caught; of a test of what ships an assertion must fail, or its
//! watchdog.
//!
//! Two lanes work at once, each with a tree and a build of its own.

use crate::models;
use crate::run::{Cargo, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

const CRATES: [&str; 8] = [
    "crates/arena",
    "crates/crashsim",
    "crates/plat",
    "crates/sync",
    "crates/ras",
    "crates/chappe",
    "crates/ffi",
    "crates/injector",
];
/// Where mutants are.
const KEPT: [&str; 2] = ["crates/sync/mutants", "crates/ras/mutants"];
const LANES: usize = 2;
/// Seconds that a build and its test may take: a mistake in what ships may have it hang.
const LIMIT: u64 = 900;
/// What the injector is asked to sweep: every so-manieth instruction, and all that matter.
const SHARE: &str = "400";

#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    name: String,
    why: String,
    known: Option<String>,
    checkers: Vec<Checker>,
    edits: Vec<Edit>,
}

/// Who must find it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Checker {
    Test { suite: String, test: String },
    Model { model: String, mistake: String },
    Sweep { words: String },
}

#[derive(Debug, PartialEq, Eq)]
struct Edit {
    file: String,
    old: String,
    new: String,
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
    fn fits(&self, tree: &Path) -> Result<()> {
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
    /// What the table calls it.
    fn title(&self) -> String {
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
        Ok((Edit { file, old, new }, rest))
    }

    fn plant(&self, source: &str) -> Result<String> {
        let times = source.matches(&self.old).count();
        ensure!(times == 1, "what it replaces occurs {times} times in {}, not once: bring it up to date", self.file);
        Ok(source.replacen(&self.old, &self.new, 1))
    }
}

/// Plants each mutant whose name contains `filter`, and demands that each of its tests catches it; with `sweep`, that the
/// injector does where it is named.
pub fn hunt(filter: &str, sweep: bool) -> Result<String> {
    let mutants = all(filter)?;
    let jobs = jobs(&mutants, |c| match c {
        Checker::Test { .. } => !sweep,
        Checker::Sweep { .. } => sweep,
        Checker::Model { .. } => false,
    });
    catch(&mutants, jobs)
}

/// As [`hunt`], of the mutants that plant a known race or fault; that the others still fit is looked at as well.
pub fn sample() -> Result<String> {
    let mutants = all("")?;
    let mut suites = BTreeMap::new();
    for m in &mutants {
        for c in &m.checkers {
            if let Checker::Test { suite, .. } = c {
                *suites.entry(suite).or_insert(false) |= m.known.is_some();
            }
        }
    }
    let without: Vec<_> = suites.iter().filter(|(_, has)| !**has).map(|(suite, _)| suite.as_str()).collect();
    ensure!(without.is_empty(), "no mutant with `known:` tries {}", without.join(", "));
    let mut jobs = jobs(&mutants, |c| matches!(c, Checker::Test { .. }));
    jobs.retain(|(m, _)| m.known.is_some());
    catch(&mutants, jobs)
}

type Job<'a> = (&'a Mutant, &'a Checker);

/// What is to be tried, those of one build together.
fn jobs(mutants: &[Mutant], wanted: impl Fn(&Checker) -> bool) -> VecDeque<Job<'_>> {
    let each = mutants.iter().flat_map(|m| m.checkers.iter().map(move |c| (m, c)));
    let mut jobs: Vec<Job<'_>> = each.filter(|(_, c)| wanted(c)).collect();
    jobs.sort_by_key(|(m, c)| (std::mem::discriminant(*c) != std::mem::discriminant(&m.checkers[0]), c.title()));
    jobs.into()
}

fn all(filter: &str) -> Result<Vec<Mutant>> {
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

/// The table of all mutants, for people: the known ones first.
pub fn table() -> Result<String> {
    let mutants = all("")?;
    let mut text = String::from(HEAD);
    let row = |m: &Mutant| {
        let by: Vec<String> = m.checkers.iter().map(Checker::title).collect();
        format!("| `{}` | {} | {} |\n", m.name, m.why, by.join("; "))
    };
    text += "\n## Known races and faults: planted in each `cargo xtask test`\n\n";
    text += "| known as | mutant | what it does | caught by |\n|---|---|---|---|\n";
    let mut known: Vec<_> = mutants.iter().filter_map(|m| Some((m.known.as_deref()?, m))).collect();
    known.sort_by_key(|(what, _)| *what);
    for (what, m) in known {
        let _ = write!(text, "| {what} {}", row(m));
    }
    text +=
        "\n## All others: planted by `cargo xtask mutants`\n\n| mutant | what it does | caught by |\n|---|---|---|\n";
    mutants.iter().filter(|m| m.known.is_none()).for_each(|m| text += &row(m));
    Ok(text)
}

const HEAD: &str = "\
# Planted mistakes, and who catches them

Made by `cargo xtask mutants --table`. Each mistake is planted alone, in a copy of the protocols; crashsim is the explorer, a *test* one of
what ships, spin runs the protocol's model with the same mistake, and the kill sweep kills real processes.
";

/// All must fit; the jobs are done. Answers how many mutants were caught.
fn catch(mutants: &[Mutant], jobs: VecDeque<Job<'_>>) -> Result<String> {
    let trees: Vec<PathBuf> = (0..LANES).map(|lane| target().join(format!("mutants/{lane}/tree"))).collect();
    for tree in &trees {
        copy_house(tree)?;
    }
    let stale: Vec<String> =
        mutants.iter().filter_map(|m| m.fits(&trees[0]).err().map(|e| format!("{}: {e:#}", m.name))).collect();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    let tried: BTreeMap<&str, u32> = jobs.iter().fold(BTreeMap::new(), |mut all, (m, _)| {
        *all.entry(m.name.as_str()).or_default() += 1;
        all
    });
    ensure!(!tried.is_empty(), "nothing to try: no mutant of these names a checker of that kind");
    let (jobs, escaped) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    // One lane begins at either end, where the other's kind of build is not: each has fewer to make.
    let lane = |number: usize, tree: &Path| -> Result<()> {
        let next = || {
            let mut jobs = jobs.lock().expect("no lane panics");
            if number == 0 { jobs.pop_front() } else { jobs.pop_back() }
        };
        loop {
            let Some((mutant, checker)) = next() else { return Ok(()) };
            let start = Instant::now();
            let found = caught(mutant, checker, tree).with_context(|| format!("mutant {}", mutant.name))?;
            let (seconds, verdict) = (start.elapsed().as_secs_f64(), if found { "caught " } else { "ESCAPED" });
            println!("  {:<34}{verdict} {seconds:>5.1} s   {:<44} {}", mutant.name, checker.title(), mutant.why);
            if !found {
                escaped.lock().expect("no lane panics").push(format!("{} by {}", mutant.name, checker.title()));
            }
        }
    };
    std::thread::scope(|s| {
        let all: Vec<_> = trees.iter().enumerate().map(|(number, tree)| s.spawn(move || lane(number, tree))).collect();
        all.into_iter().try_for_each(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    let escaped = escaped.into_inner().expect("no lane panics");
    ensure!(escaped.is_empty(), "not caught: {}", escaped.join(", "));
    let twice = tried.values().filter(|n| **n > 1).count();
    Ok(format!("{} mutants caught, {twice} of them by two, of {}", tried.len(), mutants.len()))
}

fn caught(mutant: &Mutant, checker: &Checker, tree: &Path) -> Result<bool> {
    let mut sound = Vec::new();
    for edit in &mutant.edits {
        let path = tree.join(&edit.file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        fs::write(&path, edit.plant(&text)?)?;
        sound.push((path, text));
    }
    let verdict = match checker {
        Checker::Test { suite, test } => try_test(tree, suite, test),
        Checker::Sweep { words } => try_sweep(tree, words),
        Checker::Model { .. } => bail!("models are run by `cargo xtask models`"),
    };
    for (path, text) in sound.into_iter().rev() {
        fs::write(path, text)?;
    }
    verdict
}

/// A call of cargo in a lane's tree, with the lane's build.
fn in_tree(subcommand: &str, tree: &Path) -> Cargo {
    let build = tree.with_file_name("build").display().to_string();
    Cargo::within(LIMIT, subcommand).directory(tree).env("CARGO_TARGET_DIR", &build)
}

fn try_test(tree: &Path, suite: &str, test: &str) -> Result<bool> {
    let run = in_tree("test", tree);
    let (package, suite) = suite.split_once('/').map_or((None, suite), |(p, s)| (Some(p), s));
    let explored = suite.starts_with("crash_");
    let (run, found): (_, &[&str]) = match package {
        Some(package) if !explored => {
            let run = match package.split_once('+') {
                Some((package, feature)) => run.args(["--profile", "explore", "-p", package, "--features", feature]),
                None => run.args(["-p", package]),
            };
            let run = if suite == "lib" { run.args(["--lib"]) } else { run.args(["--test", suite]) };
            (run.args([test]), &["panicked at", "has been running for over 60 seconds"])
        }
        _ => {
            let loom = suite.starts_with("loom_");
            let feature = if loom { "loom" } else { "sim" };
            let package = package.unwrap_or("chappe-sync");
            let run = run.args(["--profile", "explore", "-p", package, "--features", feature]);
            let found = if loom { &["found by loom"] } else { &["replay with CRASHSIM_REPLAY"] };
            (run.args(["--test", suite, test]), found)
        }
    };
    let (passed, text) = run.quiet()?;
    ensure!(!text.contains("running 0 tests"), "no test is called `{test}`");
    if !passed && !found.iter().any(|f| text.contains(f)) {
        bail!("its test failed for another reason:\n{text}");
    }
    Ok(!passed)
}

fn try_sweep(tree: &Path, words: &str) -> Result<bool> {
    let run = in_tree("run", tree).args(["--profile", "explore", "-p", "chappe-injector", "--"]);
    let (passed, text) = run.args(["sweep", "--share", SHARE, "--only", words]).quiet()?;
    // The injector's last row is the sum of what it found.
    if !passed && !text.contains("in all") {
        bail!("the sweep failed for another reason:\n{text}");
    }
    Ok(!passed)
}

/// Copies the crates that the explorer needs, as a workspace of their own; files that have not changed keep their time,
/// so that only what a mutant touches is built again.
fn copy_house(tree: &Path) -> Result<()> {
    for dir in CRATES {
        copy(&root().join(dir), &tree.join(dir))?;
    }
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        copy(&root().join(file), &tree.join(file))?;
    }
    let members: Vec<String> = CRATES.iter().map(|c| format!("\"{c}\"")).collect();
    let manifest: String =
        fs::read_to_string(root().join("Cargo.toml"))?
            .lines()
            .filter(|l| !l.starts_with("default-members"))
            .map(|l| {
                if l.starts_with("members") {
                    format!("members = [{}]\n", members.join(", "))
                } else {
                    format!("{l}\n")
                }
            })
            .collect();
    write_if_new(&tree.join("Cargo.toml"), manifest.as_bytes())
}

fn copy(from: &Path, to: &PathBuf) -> Result<()> {
    if !from.is_dir() {
        return write_if_new(to, &fs::read(from).with_context(|| from.display().to_string())?);
    }
    fs::create_dir_all(to)?;
    for old in fs::read_dir(to)? {
        let old = old?;
        if !from.join(old.file_name()).exists() && old.path().is_file() {
            fs::remove_file(old.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn write_if_new(to: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())
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
    }

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
    fn thirty_known_races_and_faults_are_planted_and_the_table_says_by_whom_each_is_caught() {
        let known = all("").unwrap().iter().filter(|m| m.known.is_some()).count();
        assert!(known >= 30, "{known}");
        let there = fs::read_to_string(root().join("docs/mutants.md")).unwrap();
        assert!(
            there == table().unwrap(),
            "docs/mutants.md is not up to date: `cargo xtask mutants --table > docs/mutants.md`"
        );
    }
}
