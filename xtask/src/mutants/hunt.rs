//! The hunt: which mutants are planted, two at a time, and whether each is caught.

use super::mutant::{Checker, Mutant, all};
use super::suite::{LIMIT, Suite};
use super::switched::Switched;
use super::tree::copy_house;
use crate::run::{Cargo, root, target};
use crate::show::Bar;
use crate::suites;
use crate::turn::is_due;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

const LANES: usize = 2;
/// What the injector is asked to sweep: every so-manieth instruction, and all that matter.
const SHARE: &str = "400";

/// Plants each mutant whose name contains `filter`, and demands that each of its tests catches it; with `sweep`, that the
/// injector does where it is named.
pub fn hunt(filter: &str, sweep: bool) -> Result<String> {
    let mutants = all(filter)?;
    let jobs = jobs(&mutants, |c| match c {
        Checker::Test { .. } => !sweep,
        Checker::Sweep { .. } => sweep,
        Checker::Model { .. } => false,
    });
    catch(&mutants, jobs, &Which::All, &Bar::new("mutants"))
}

/// Which of them are planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of this turn, of which a deterministic test must find each: see [`crate::turn`].
    Due(u64),
    /// Those of these names, of which a deterministic test must find each.
    Named(BTreeSet<String>),
    /// Those that plant a known race or fault.
    Known,
    /// Every one.
    All,
}

/// As [`hunt`], of some; that the others still fit is looked at as well.
pub fn hunted(which: Which, bar: &Bar) -> Result<String> {
    let mutants = all("")?;
    let mut jobs = jobs(&mutants, |c| matches!(c, Checker::Test { .. }));
    jobs.retain(|(m, c)| match &which {
        Which::Due(turn) => c.is_explored() && is_due(&m.name, *turn),
        Which::Named(names) => c.is_explored() && names.contains(&m.name),
        Which::Known => m.known.is_some(),
        Which::All => true,
    });
    if matches!(which, Which::Named(_)) && jobs.is_empty() {
        return Ok(String::new());
    }
    catch(&mutants, jobs, &which, bar)
}

type Job<'a> = (&'a Mutant, &'a Checker);

/// What is to be tried, those of one build together.
fn jobs(mutants: &[Mutant], wanted: impl Fn(&Checker) -> bool) -> VecDeque<Job<'_>> {
    let each = mutants.iter().flat_map(|m| m.checkers.iter().map(move |c| (m, c)));
    let mut jobs: Vec<Job<'_>> = each.filter(|(_, c)| wanted(c)).collect();
    jobs.sort_by_key(|(m, c)| (std::mem::discriminant(*c) != std::mem::discriminant(&m.checkers[0]), c.title()));
    jobs.into()
}

/// Each finds all that it changes in the source.
pub(super) fn fit(mutants: &[Mutant]) -> Result<()> {
    let stale: Vec<String> =
        mutants.iter().filter_map(|m| m.fits(&root()).err().map(|e| format!("{}: {e:#}", m.name))).collect();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    Ok(())
}

/// All must fit; the jobs are done, those that can be switched in one build, the others (unless these are left out) one after the
/// other. Answers how many mutants were caught.
fn catch(mutants: &[Mutant], jobs: VecDeque<Job<'_>>, which: &Which, bar: &Bar) -> Result<String> {
    fit(mutants)?;
    ensure!(!jobs.is_empty(), "nothing to try: no mutant of these names a checker of that kind");
    let only_switched = matches!(which, Which::Due(_) | Which::Named(_));
    let switched = Switched::plant(mutants, matches!(which, Which::Due(_)))?;
    let (together, mut alone): (VecDeque<_>, VecDeque<_>) = jobs
        .into_iter()
        .partition(|(m, c)| matches!(c, Checker::Test { .. }) && switched.numbers.contains_key(&m.name));
    let left_out = if only_switched { std::mem::take(&mut alone).len() } else { 0 };
    let tried: BTreeMap<&str, u32> = together.iter().chain(&alone).fold(BTreeMap::new(), |mut all, (m, _)| {
        *all.entry(m.name.as_str()).or_default() += 1;
        all
    });
    let programs = switched.build(together.iter().map(|(_, c)| *c))?;
    bar.expect(together.len() + alone.len(), "mutants");
    let escaped = Mutex::new(Vec::new());
    let told = |mutant: &Mutant, checker: &Checker, found: bool, start: Instant| {
        let (seconds, verdict) = (start.elapsed().as_secs_f64(), if found { "caught " } else { "ESCAPED" });
        bar.step();
        bar.say(&format!("{:<34}{verdict} {seconds:>5.1} s   {:<44} {}", mutant.name, checker.title(), mutant.why));
        if !found {
            escaped.lock().expect("no lane panics").push(format!("{} by {}", mutant.name, checker.title()));
        }
    };
    lanes(together, |_, (mutant, checker)| {
        let start = Instant::now();
        let found = switched.caught(&programs, mutant, checker).with_context(|| format!("mutant {}", mutant.name))?;
        told(mutant, checker, found, start);
        Ok(())
    })?;
    if !alone.is_empty() {
        let trees: Vec<PathBuf> = (0..LANES).map(|lane| target().join(format!("mutants/{lane}/tree"))).collect();
        trees.iter().try_for_each(|tree| copy_house(tree))?;
        lanes(alone, |lane, (mutant, checker)| {
            let start = Instant::now();
            let found = caught(mutant, checker, &trees[lane]).with_context(|| format!("mutant {}", mutant.name))?;
            told(mutant, checker, found, start);
            Ok(())
        })?;
    }
    let escaped = escaped.into_inner().expect("no lane panics");
    ensure!(escaped.is_empty(), "not caught: {}", escaped.join(", "));
    let twice = tried.values().filter(|n| **n > 1).count();
    let rest = if left_out > 0 { format!("; {left_out} need a build of their own: --all") } else { String::new() };
    Ok(format!("{} mutants caught, {twice} of them by two, of {}{rest}", tried.len(), mutants.len()))
}

/// Does the jobs, two at a time. One lane begins at either end, where the other's kind of build is not: each has fewer to make.
fn lanes<'a>(jobs: VecDeque<Job<'a>>, work: impl Fn(usize, Job<'a>) -> Result<()> + Sync) -> Result<()> {
    let jobs = Mutex::new(jobs);
    let lane = |number: usize| -> Result<()> {
        loop {
            let job = {
                let mut jobs = jobs.lock().expect("no lane panics");
                if number == 0 { jobs.pop_front() } else { jobs.pop_back() }
            };
            let Some(job) = job else { return Ok(()) };
            work(number, job)?;
        }
    };
    std::thread::scope(|s| {
        let all: Vec<_> = (0..LANES).map(|number| s.spawn(move || lane(number))).collect();
        all.into_iter().try_for_each(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })
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
    let named = Suite::of(suite);
    let call = in_tree("test", tree).args(named.kind.profile()).args(["-p", &named.package]).args(named.target());
    let call = if let Some(feature) = named.kind.feature() { call.args(["--features", feature]) } else { call };
    let programs = suites::build(call)?;
    let program = programs.iter().find(|program| named.is_in(program));
    named.finds(program.with_context(|| format!("there is no suite `{suite}`"))?, test, LIMIT, &[])
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
