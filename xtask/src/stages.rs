//! What `cargo xtask test` is made of, in the order in which it is cheapest to fail.
//!
//! The explorer's backend is a feature of `plat`, and so is loom's, and features unify across a build: so whatever is built
//! with `sim` or `loom` is built by a call of its own, and never together with what ships.
//!
//! One line a stage, with its time and how many tests it ran; at the first failure the stage's output, and what to do. At the
//! end it is repeated what the tests say that they could not test on this machine.

use crate::lint;
use crate::models;
use crate::mutants;
use crate::run::{Cargo, root};
use anyhow::{Result, bail};
use std::io::Write;
use std::time::Instant;

const SIM: [&str; 10] = [
    "-p",
    "chappe-plat",
    "-p",
    "chappe-arena",
    "-p",
    "chappe-sync",
    "-p",
    "chappe-ras",
    "--features",
    "chappe-plat/sim,chappe-arena/sim,chappe-sync/sim,chappe-ras/sim",
];

const LOOM: [&str; 6] = ["-p", "chappe-plat", "-p", "chappe-sync", "--features", "chappe-plat/loom,chappe-sync/loom"];

/// A call of cargo, and what to do when it fails.
struct Stage {
    name: &'static str,
    call: Cargo,
    advice: &'static str,
    /// A run of tests: one that ran none has failed.
    tests: bool,
}

fn first() -> Stage {
    Stage {
        name: "format",
        call: Cargo::new("fmt").args(["--all", "--check"]),
        advice: "run `cargo fmt --all`",
        tests: false,
    }
}

fn rest() -> Vec<Stage> {
    let stage = |name, call, advice| Stage { name, call, advice, tests: false };
    let tests = |name, call, advice| Stage { name, call, advice, tests: true };
    vec![
        stage(
            "clippy",
            Cargo::new("clippy").args(["--workspace", "--all-targets", "--", "-D", "warnings"]),
            "each warning says what it wants; warnings are errors here",
        ),
        stage(
            "clippy, explored build",
            Cargo::new("clippy").args(SIM).args(["--all-targets", "--", "-D", "warnings"]),
            "the same, in the code as the explorer sees it (feature `sim`)",
        ),
        stage(
            "clippy, loom's build",
            Cargo::new("clippy").args(LOOM).args(["--lib", "--test", "loom_*", "--", "-D", "warnings"]),
            "the same, in the code as loom sees it (feature `loom`)",
        ),
        stage(
            "documentation",
            Cargo::new("doc").args(["--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
            "a link in a comment leads nowhere, or the markup is broken",
        ),
        tests(
            "tests",
            Cargo::new("test").args(["--workspace"]).args([
                "--exclude",
                "chappe-injector",
                "--exclude",
                "chappe-bench",
            ]),
            "run the failing test alone: `cargo test -p CRATE NAME -- --nocapture`",
        ),
        tests(
            "crashsim",
            // Each search on all processors, one test after the other: none of them waits at the end for a long one. Less of what
            // goes by dice than the tests ask for: `cargo xtask crashsim` has all of it, and more.
            Cargo::new("test")
                .args(["--profile", "explore", "-p", "chappe-sync", "-p", "chappe-ras", "--features", "sim"])
                .args(["--", "--test-threads=1"])
                .env("CRASHSIM_WORKERS", &processors())
                .env("CRASHSIM_PERCENT", "40"),
            "the failure names the seed that replays it, and tells in words what happened",
        ),
        tests(
            "loom",
            Cargo::new("test").args(["--profile", "explore"]).args(LOOM).args(["--test", "loom_*"]),
            "loom's word on the first line that says `found by loom`; LOOM_LOG=trace tells each step of that test alone",
        ),
        tests(
            "sequences",
            // Alone: what the storms are to disturb is each other's threads.
            Cargo::new("test").args(["--profile", "explore", "-p", "chappe-ras", "--features", "inject"]),
            "each step of each section takes long now and then; the failure names the operation that lost or doubled something",
        ),
        tests(
            "injector",
            Cargo::new("test").args(["--release", "-p", "chappe-injector"]),
            "the failure names the operation and the instruction; `cargo xtask kill-sweep` tries all of them",
        ),
        tests(
            "counts",
            // Optimised, and not for long: what is counted here is no time.
            Cargo::new("test").args(["--profile", "explore", "-p", "chappe-bench"]),
            "something on a path that must not now makes a system call, allocates, or opens a descriptor",
        ),
        stage("release build", Cargo::new("build").args(["--release"]), "the command itself does not build"),
    ]
}

/// How many there are, for what is to use all of them.
pub fn processors() -> String {
    std::thread::available_parallelism().map_or(1, usize::from).to_string()
}

/// Runs all stages; stops at the first that fails.
pub fn test() -> Result<()> {
    let start = Instant::now();
    let mut not_tested = go(first())?;
    timed("lint", || lint::command(&root()).map(|()| None), "each line names a file and the rule it breaks")?;
    for stage in rest() {
        not_tested.extend(go(stage)?);
    }
    let mut absent = None;
    timed(
        "models",
        || {
            println!();
            let said = models::check(None, false)?;
            println!("  {said}");
            print!("{:<24}", "");
            absent = said.starts_with("not tested: ").then_some(said);
            Ok(None)
        },
        "a model does not hold: `cargo xtask models NAME`, and models/README.md",
    )?;
    not_tested.extend(absent);
    timed(
        "mutants",
        mutants,
        "a planted mistake was not found, or no longer fits the source: `cargo xtask mutants NAME`",
    )?;
    let well = if not_tested.is_empty() { "all is well" } else { "all that was tested is well" };
    println!("{well}, after {:.0} s", start.elapsed().as_secs_f64());
    for line in not_tested {
        println!("{line}");
    }
    Ok(())
}

fn mutants() -> Result<Option<u64>> {
    println!();
    println!("  {}", mutants::sample()?);
    print!("{:<24}", "");
    Ok(None)
}

/// Runs a stage. Answers what it says was not tested.
fn go(stage: Stage) -> Result<Vec<String>> {
    let Stage { name, call, advice, tests } = stage;
    let mut not_tested = Vec::new();
    timed(
        name,
        || {
            let shown = call.shown();
            let (ok, text) = call.quiet()?;
            if !ok {
                bail!("{text}\nthis failed: {shown}");
            }
            let ran = passed(&text);
            if tests && ran == 0 {
                bail!("{text}\nno test ran: {shown}");
            }
            not_tested = untested(&text);
            Ok(tests.then_some(ran))
        },
        advice,
    )?;
    Ok(not_tested)
}

fn timed(name: &str, work: impl FnOnce() -> Result<Option<u64>>, advice: &str) -> Result<()> {
    print!("{name:<24}");
    // Only for the eye: a stage may take minutes.
    let _ = std::io::stdout().flush();
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(ran) => {
            println!("ok {seconds:>7.1} s{}", ran.map(|n| format!("   {n} tests")).unwrap_or_default());
            Ok(())
        }
        Err(e) => {
            println!("FAILED {seconds:>3.1} s");
            bail!("{e:#}\n{name}: {advice}");
        }
    }
}

/// How many tests a run of cargo says have passed.
fn passed(text: &str) -> u64 {
    let counts = text.lines().filter_map(|l| l.trim().strip_prefix("test result: ok. ")?.split(' ').next());
    counts.filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// The lines in which tests say that they lack something here.
fn untested(text: &str) -> Vec<String> {
    text.lines().filter(|l| l.starts_with("not tested: ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_passed_in_all_binaries() {
        let text = "running 2 tests\ntest result: ok. 2 passed; 0 failed\n\ntest result: ok. 40 passed; 0 failed";
        assert_eq!(passed(text), 42);
        assert_eq!(passed("no tests here"), 0);
    }

    #[test]
    fn what_was_not_tested_is_repeated() {
        let text = "test a ... ok\nnot tested: a: it needs b\nnote: not tested: c\n";
        assert_eq!(untested(text), ["not tested: a: it needs b"]);
    }

    #[test]
    fn a_failing_stage_says_what_to_do() {
        let e = timed("nothing", || bail!("it broke"), "mend it").unwrap_err().to_string();
        assert!(e.contains("it broke") && e.contains("mend it"), "{e}");
    }

    #[test]
    fn a_run_of_no_tests_is_a_failure() {
        let none = Stage { name: "none", call: Cargo::new("--version"), advice: "write one", tests: true };
        assert!(go(none).unwrap_err().to_string().contains("no test ran"));
    }
}
