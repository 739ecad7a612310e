//! What `cargo xtask test` is made of, in the order in which it is cheapest to fail.
//!
//! Two levels:
//!
//! | | gate: `cargo xtask test` | `cargo xtask test --all` |
//! |---|---|---|
//! | tests | those that need no race, no sleep and no quiet machine | also those marked `#[ignore = "storm: ..."]`: they race, kill, measure, or take long |
//! | interleavings of clients of an engine | a fifth of the tests, each search whole | all |
//! | explorer | a fifth of its tests; of these each complete search whole, and a part of the others, from the same seeds each time | all that the tests ask for |
//! | loom | a fifth of the tests of `sync`, and the litmus tests of `plat`, each search whole | all |
//! | kill sweep | a tenth of the operations; its controls, a fifth of them also by deaths at each instruction | a tenth of the kill points of each operation, others each time |
//! | mutants | a tenth of those that a deterministic test finds | every one |
//! | clients of engines, and engines that [`engines`] builds; benchmarks and the lab: tables and plots | no | yes |
//! | clippy, documentation | no: `cargo xtask check` | yes |
//! | licences, the guide as a site, models, release build, crates as they would be published, programs for AArch64 | no | yes, with the models' mistakes |
//!
//! The tenth is another one with each commit, and the same for the same commit: [`turn()`]. A test of the explorer, of loom or of those
//! interleavings is due in two of ten; those that a change reaches are run at once by `--changed`. Tests that do less of the same in the
//! gate read `CHAPPE_TEST_ALL`, and `CHAPPE_TEST_TURN`.
//!
//! The explorer's backend is a feature of `plat`, and so is loom's, and features unify across a build: so whatever is built
//! with `sim` or `loom` is built by a call of its own, and never together with what ships.
//!
//! `--changed` runs of the gate what a change reaches: [`changed`].
//!
//! The gate builds for the stages to come while it runs one ([`Sum::ahead`]), and its mutants while the last are built.
//!
//! One line a stage: its time on the clock, what its processes had of the processors, how many tests it ran. At the first failure the
//! stage's output, and what to do. At the end it is repeated what the tests say that they could not test on this machine.

use crate::changed::{self, Part, Reach};
use crate::engines;
use crate::lint;
use crate::models;
use crate::mutants;
use crate::published;
use crate::run::{Cargo, root};
use crate::stage::{Choice, Level, Programs, Stage, Work, stage};
use crate::sum::{Outcome, Sum};
use crate::turn::{self, turn};
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Instant;

const SIM: [&str; 16] = [
    "-p",
    "chappe-plat",
    "-p",
    "chappe-arena",
    "-p",
    "chappe-structures",
    "-p",
    "chappe-wait",
    "-p",
    "chappe-tube",
    "-p",
    "chappe-sync",
    "-p",
    "chappe-ras",
    "--features",
    "chappe-plat/sim,chappe-arena/sim,chappe-structures/sim,chappe-wait/sim,chappe-tube/sim,chappe-sync/sim,chappe-ras/sim",
];

const LOOM: [&str; 12] = [
    "-p",
    "chappe-plat",
    "-p",
    "chappe-structures",
    "-p",
    "chappe-wait",
    "-p",
    "chappe-tube",
    "-p",
    "chappe-sync",
    "--features",
    "chappe-plat/loom,chappe-structures/loom,chappe-wait/loom,chappe-tube/loom,chappe-sync/loom",
];

/// What `cargo xtask test --help` prints.
pub const HELP: &str = "\
cargo xtask test          what must hold before a change goes in; deterministic
cargo xtask test --all    that, and everything else; for a machine that does nothing beside it
  --keep-going            go on after a stage that fails, and repeat all failures at the end
  --only WORD             the stages with this in their names alone, such as crashsim
cargo xtask test --changed [COMMIT]
                          what reaches what has changed since COMMIT, or since this branch left the one that it goes to

The first runs: format, lint, all tests but storms (with counts of system calls and allocations), the command's build without
features, documentation tests, the explorer, loom and the interleavings of clients of an engine with a fifth of their tests, the
sequences with delays, the kill injector over a tenth of the operations, and a tenth of the mutants. The tenths are drawn by the
commit's hash.

--all adds `cargo xtask check` (clippy three times, documentation), storms (tests marked `#[ignore = \"storm: ...\"]`: they race,
kill at random, measure, or take long), all schedules of the explorer's random searches, every operation of the kill
injector, the release build, the crates as they would be published, licences, the guide, every mutant, and the models with their mistakes.

--changed is for daily work, and no gate: format, lint, the tests of each package that has changed and of those that depend on it
(of a test that has changed, that one alone; of the guide or an example, of those that read it), the mutants of each file that has
changed, and the explorer's and loom's suites that notice them: all suites, where a file that they run has no mutant. The
sequences and the injector, where they changed themselves. What has changed in the command, the libraries or their client of engines
is compiled with that client. No documentation tests. What is built else is what the gate builds.

Each stage prints a line: its time, what its processes had of the processors, how many tests it ran. (The gate builds for the stages
to come while it runs one: the stages' times come to more than the whole.) A failure says how to run the test that failed alone.

  CHAPPE_TEST_TURN=N      another tenth than that of the commit (0 to 9)
";

fn first() -> Stage {
    stage("format", Cargo::new("fmt").args(["--all", "--check"]), "run `cargo fmt --all`")
}

/// What looks at the source and runs nothing.
fn looks() -> Vec<Stage> {
    vec![
        stage(
            "clippy",
            Cargo::new("clippy").args(
                "--workspace --features chappe-cli/full,chappe-ffi/term,chappe-ffi/remote,chappe-cli/remote,chappe-py/remote,chappe-remote/etcd,chappe/futures \
                 --all-targets -- -D warnings"
                    .split_whitespace(),
            ),
            "each warning says what it wants; warnings are errors here",
        ),
        stage(
            "clippy, explored build",
            Cargo::new("clippy").args(SIM).args(["--all-targets", "--", "-D", "warnings"]),
            "the same, in the code as the explorer sees it (feature `sim`)",
        ),
        stage(
            "clippy, loom's build",
            Cargo::new("clippy").args(LOOM).args("--lib --test searched --test loom_* -- -D warnings".split_whitespace()),
            "the same, in the code as loom sees it (feature `loom`)",
        ),
        stage(
            "documentation",
            Cargo::new("doc")
                .args(["--workspace", "--no-deps", "--features", "chappe-remote/etcd"])
                .env("RUSTDOCFLAGS", "-D warnings"),
            "a link in a comment leads nowhere, or the markup is broken",
        ),
    ]
}

/// Whose source has parts that are there with a client of engines alone.
const CLIENTS: [&str; 5] = ["chappe", "chappe-cli", "chappe-ffi", "chappe-py", "chappe-remote"];

/// For `--changed` alone. The gate builds no client of engines: the crates for HTTP and TLS below it would be more to compile than all that
/// is compiled here. `cargo xtask check` and `--all` have it.
fn clients() -> Stage {
    let with = "--quiet -p chappe-cli -p chappe-ffi -p chappe-py --all-targets \
                --features chappe-cli/full,chappe-cli/remote,chappe-ffi/term,chappe-ffi/remote,chappe-py/remote";
    stage(
        "clients of engines",
        Cargo::new("check").args(with.split_whitespace()),
        "it does not compile with the feature `remote`",
    )
}

fn rest(level: Level) -> Vec<Stage> {
    let programs = |name, select: &[&'static str], environment, lanes, advice| Stage {
        name,
        work: Work::Programs(Programs {
            select: select.to_vec(),
            environment,
            lanes,
            planted: false,
            part: None,
            by_turns: None,
        }),
        advice,
    };
    let planted = |mut stage: Stage| {
        if let Work::Programs(programs) = &mut stage.work {
            programs.planted = level == Level::Gate;
        }
        stage
    };
    let by_turns = |name, mut stage: Stage| {
        if let Work::Programs(programs) = &mut stage.work {
            programs.by_turns = (level == Level::Gate).then_some(name);
        }
        stage
    };
    // Storms are made to have the machine to themselves: one program after the other.
    let side_by_side = if level == Level::All { 1 } else { processors() };
    let mut stages = vec![
        // All searches of the engines' protocol take 50 s of processors.
        by_turns("interleavings", programs(
            "tests",
            match level {
                // Without the Python package: all its tests are storms. Without the benchmarks and the lab, which ship to nobody: with their
                // peers they are a sixth of what is built here, and their tests are of tables and plots. `cargo xtask check` compiles them.
                // `--tests`: without examples that have no tests, each of which would be linked with all of the library.
                Level::Gate => &[
                    "--tests --workspace --features chappe-cli/full,chappe-ffi/term,chappe/futures --exclude chappe-injector --exclude chappe-crashsim \
                     --exclude chappe-py --exclude chappe-bench --exclude chappe-lab",
                ],
                Level::All => &[
                    "--workspace --features chappe-cli/full,chappe-ffi/term,chappe-ffi/remote,chappe-cli/remote,chappe-remote/etcd,chappe/futures \
                     --exclude chappe-injector --exclude chappe-bench --exclude chappe-counts --exclude chappe-crashsim",
                ],
            },
            vec![],
            // These wait about a fifth of their time.
            if level == Level::All { 1 } else { processors() + 1 },
            "a test of what ships failed",
        )),
        by_turns("explored", planted(programs(
            "crashsim",
            // Unit tests of what is explored are among those of what ships.
            &[
                "--profile explore -p chappe-crashsim -p chappe-sync -p chappe-ras --features chappe-sync/sim,chappe-ras/sim \
                 --test explorer --test explored --test crash_*",
                "--profile explore -p chappe-crashsim --lib",
            ],
            match level {
                // One worker a search: how many there are is part of the seed.
                Level::Gate => vec![("CRASHSIM_PERCENT", "15".to_owned()), ("CRASHSIM_WORKERS", "1".to_owned())],
                Level::All => vec![("CRASHSIM_WORKERS", processors().to_string())],
            },
            side_by_side,
            "the failure names the seed that replays it, and tells in words what happened",
        ))),
        by_turns("searched", planted(programs(
            "loom",
            &[
                "--profile explore -p chappe-plat -p chappe-sync --features chappe-plat/loom,chappe-sync/loom --test searched --test loom_*",
            ],
            vec![],
            side_by_side,
            "loom's word on the first line that says `found by loom`; LOOM_LOG=trace tells each step of that test alone",
        ))),
        // Not while tests run, of which one calls cargo in the same directory.
        stage(
            "first command",
            Cargo::new("check").args(["--quiet", "-p", "chappe-cli"]),
            "the command does not compile without features, as the README's first command builds it: all else has them",
        ),
        Stage {
            // One after the other, and so beside what runs.
            name: "documentation tests",
            // With the features of the tests: others would build 58 crates again. What is left out has no examples.
            work: Work::Documented(Cargo::new("test").args(
                "--workspace --features chappe-cli/full,chappe-ffi/term,chappe/futures --exclude chappe-injector --exclude chappe-py \
                 --exclude chappe-bench --exclude chappe-lab --doc"
                    .split_whitespace(),
            )),
            advice: "an example in a comment does not do what it says",
        },
        programs(
            "sequences",
            // In the same form as the injector's, which is next. Of the other programs, each does here what it does among the tests.
            &[
                "--profile explore -p chappe-ras --features chappe-ras/inject,chappe-plat/uring,chappe-sync/synth --lib --test descriptors \
                 --test edges --test fallback --test lock --test mechanism --test rasctl --test sharded --test storm",
            ],
            vec![],
            side_by_side,
            "each step of each section takes long now and then; the failure names the operation that lost or doubled something",
        ),
        programs(
            "injector",
            match level {
                // Not for long, but optimised: without, there are ten times as many instructions to stop at.
                Level::Gate => &["--profile explore -p chappe-injector --lib --test kills"],
                Level::All => &["--profile dist -p chappe-injector --features rivals"],
            },
            vec![],
            1,
            "the failure names the operation and the instruction; `cargo xtask kill-sweep` tries all of them",
        ),
    ];
    if level == Level::All {
        stages.push(programs(
            "counts",
            // Optimised, and not for long: what is counted here is no time.
            &["--profile explore -p chappe-counts -p chappe-bench --lib --test *"],
            vec![],
            side_by_side,
            "something on a path that must not now makes a system call, allocates, or opens a descriptor",
        ));
        let build = Cargo::new("build").args(["--release"]);
        stages.push(stage("release build", build, "the command itself does not build"));
        let emulated = Cargo::new("xtask").args(["emulated"]);
        stages.push(stage("emulated", emulated, "a test fails on AArch64: `cargo xtask emulated -p CRATE`"));
        // In the order of what they depend on, each built from its package alone.
        let publish = Cargo::new("publish").args(["--workspace", "--dry-run", "--allow-dirty"]);
        stages.push(stage("packages", publish, "a crate could not be published: what it needs is not in its package"));
    }
    stages
}

/// How many there are, for what is to use all of them.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Sum {
    /// Format, and the house's rules.
    fn form(&mut self, level: Level, turn: u64) -> Result<()> {
        self.stage(first(), level, turn)?;
        self.go("lint", "each line names a file and the rule it breaks", |_| {
            lint::command(&root()).map(|()| Outcome::default())
        })
    }
}

/// `cargo xtask check`: form, clippy and documentation, for before a commit. Nothing is run.
pub fn check() -> Result<()> {
    let mut sum = Sum::default();
    sum.form(Level::All, 0)?;
    looks().into_iter().try_for_each(|stage| sum.stage(stage, Level::All, 0))
}

/// What the change since a commit reaches, which a line says; `None` if there is no change.
fn what_changed(since: Option<&str>) -> Result<Option<Arc<Reach>>> {
    let (base, files) = changed::files(since)?;
    let base = &base[..base.len().min(10)];
    if files.is_empty() {
        println!("nothing has changed since {base}: `--changed COMMIT` takes what has changed since another");
        return Ok(None);
    }
    let reach = changed::reach(&files, &changed::packages()?, &mutants::changes()?);
    let told = |part: &Part| match part {
        Part::All => "all".to_owned(),
        Part::These(these) => these.len().to_string(),
    };
    let packages: Vec<&str> = reach.programs.keys().map(String::as_str).collect();
    println!(
        "{} files have changed since {base}; suites of the explorer: {}, of loom: {}; mutants: {}; tests of packages: {}",
        files.len(),
        told(&reach.explored),
        told(&reach.searched),
        reach.mutants.len(),
        if packages.is_empty() { "none".to_owned() } else { packages.join(", ") }
    );
    Ok(Some(Arc::new(reach)))
}

fn mutants_of(which: mutants::Which) -> Stage {
    let advice = "a planted mistake was not found, or no longer fits the source: `cargo xtask mutants NAME`";
    Stage { name: "mutants", work: Work::Mutants(which), advice }
}

/// The gate's stages with the planted mistakes, which wait for one long search at their end: before what is built last, for the processors
/// to have work.
fn with_mutants(mut stages: Vec<Stage>, planted: Option<mutants::Which>) -> Vec<Stage> {
    let at = stages
        .iter()
        .position(|stage| ["first command", "documentation tests", "sequences", "injector"].contains(&stage.name))
        .unwrap_or(stages.len());
    stages.splice(at..at, planted.map(mutants_of));
    stages
}

/// The part of a stage that is reached; `None` if it is not.
fn reached(mut stage: Stage, reach: &Arc<Reach>) -> Option<Stage> {
    if stage.name == "clients of engines" {
        return CLIENTS.iter().any(|package| reach.stages.contains(*package)).then_some(stage);
    }
    let Work::Programs(programs) = &mut stage.work else { return None };
    let own = Arc::clone(reach);
    let part: Choice = match stage.name {
        "tests" if !reach.programs.is_empty() => Box::new(move |package, program| own.tests(package, program)),
        "crashsim" if !reach.explored.is_none() => Box::new(move |package, program| own.suites(package, program)),
        "loom" if !reach.searched.is_none() => Box::new(move |package, program| own.suites(package, program)),
        "sequences" if reach.stages.contains("chappe-ras") => Box::new(|_, _| Some(vec![])),
        "injector" if reach.stages.contains("chappe-injector") => Box::new(|_, _| Some(vec![])),
        _ => return None,
    };
    programs.part = Some(part);
    Some(stage)
}

/// Runs all stages; stops at the first that fails, unless it is to keep going.
///
/// # Errors
/// What failed, with what to do; a word among the arguments that is not known; `--only` with a word that is in no stage's name.
pub fn test(args: &[&str]) -> Result<()> {
    let (start, turn) = (Instant::now(), turn()?);
    let (mut level, mut keep_going, mut only, mut reach) = (Level::Gate, false, None, None);
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        match *arg {
            "--all" => level = Level::All,
            "--keep-going" => keep_going = true,
            "--only" => only = Some((*args.next().context("`--only` needs a word: --only crashsim")?).to_owned()),
            "--changed" => {
                let since = args.next_if(|next| !next.starts_with('-'));
                let Some(all) = what_changed(since.copied())? else { return Ok(()) };
                reach = Some(all);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("`{other}` is not known here; these are the commands:\n{HELP}"),
        }
    }
    ensure!(
        reach.is_none() || level == Level::Gate,
        "`--all` runs everything, whatever has changed: leave `--changed` out"
    );
    let mut sum = Sum { only, failures: keep_going.then(Vec::new), ..Sum::default() };
    let stages = match &reach {
        Some(reach) => [clients()].into_iter().chain(rest(level)).filter_map(|stage| reached(stage, reach)).collect(),
        None => rest(level),
    };
    if level == Level::Gate {
        let planted = match &reach {
            None => Some(mutants::Which::Due(turn)),
            Some(reach) if reach.mutants.is_empty() => None,
            Some(reach) => Some(mutants::Which::Named(reach.mutants.clone())),
        };
        sum.ahead(with_mutants(stages, planted), turn, |sum| sum.form(level, turn))?;
    } else {
        sum.form(level, turn)?;
        sum.go("engines", "", |_| Ok(Outcome::said(engines::said())))?;
        for stage in looks().into_iter().chain(stages) {
            sum.stage(stage, level, turn)?;
        }
        sum.go("guide", "what mdBook says; `mdbook serve book` shows it", |_| published::guide().map(Outcome::said))?;
        sum.go("licences", "deny.toml says what is allowed, and why", |_| published::licences().map(Outcome::said))?;
        sum.go("models", "`cargo xtask models NAME` looks at one", |_| models::check(None, true).map(Outcome::said))?;
        sum.stage(mutants_of(mutants::Which::All), level, turn)?;
    }
    if let Some(failures) = sum.failures.filter(|failures| !failures.is_empty()) {
        bail!(
            "{}\n{} stages failed, after {:.0} s",
            failures.join("\n\n"),
            failures.len(),
            start.elapsed().as_secs_f64()
        );
    }
    if let Some(only) = sum.only.filter(|_| sum.stages == 0) {
        bail!("no stage has `{only}` in its name\n{HELP}");
    }
    let well = if sum.untested.is_empty() { "all is well" } else { "all that was tested is well" };
    let part = match level {
        Level::Gate if reach.is_some() => "; what the change reaches, of the gate".to_owned(),
        Level::Gate => {
            format!(
                "; part {turn} of {} of the explorer, of loom, of the mutants and of the kill sweep; `cargo xtask test --all` runs the rest",
                turn::PARTS
            )
        }
        Level::All => String::new(),
    };
    println!(
        "{well}, after {:.0} s, and {:.0} s of processors: {} tests, {} storms left out{part}",
        start.elapsed().as_secs_f64(),
        sum.processors,
        sum.tests,
        sum.left_out
    );
    sum.untested.sort();
    sum.untested.dedup();
    for line in sum.untested {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_of_what_has_a_client_of_engines_is_compiled_with_one() {
        let of = |package: &str| Arc::new(Reach { stages: [package.to_owned()].into(), ..Reach::default() });
        let compiled = |package| reached(clients(), &of(package)).is_some();
        assert!(CLIENTS.into_iter().all(compiled) && !compiled("chappe-rows"));
        let packages = changed::packages().unwrap();
        assert!(CLIENTS.iter().all(|name| packages.iter().any(|package| package.name == *name)));
    }

    #[test]
    fn no_test_stands_where_none_is_built() {
        for package in crate::changed::packages().unwrap() {
            let at = root().join(&package.directory);
            let manifest = fs::read_to_string(at.join("Cargo.toml")).unwrap();
            for part in manifest.split("\n[").filter(|part| part.contains("\ntest = false")) {
                let named = part.split_once("\npath = \"").map(|(_, rest)| rest.split('"').next().unwrap_or_default());
                let source = fs::read_to_string(at.join(named.unwrap_or("src/lib.rs"))).unwrap();
                assert!(!source.contains("#[test]"), "{}: {part}", package.name);
            }
            if package.name == "chappe-py" {
                let all = fs::read_to_string(at.join("tests/python_tests.rs")).unwrap();
                assert_eq!(all.matches("#[test]\n").count(), all.matches("#[test]\n#[ignore = \"storm: ").count());
            }
        }
    }
}
