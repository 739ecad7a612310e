//! A stage of `cargo xtask test`: what it builds, and what it runs of that.
//!
//! The two are apart. In the gate a thread builds for the stages to come while another runs what was built for this one: compilers and
//! linkers, and test programs that wait or have one long search left, leave processors idle that the others use. What builds beside tests
//! has a low priority: they meet hardly a busier machine than they would alone. Lines come in the stages' order. `--all` has storms, which
//! want the machine to themselves, and builds nothing beside them.

use crate::calls;
use crate::install;
use crate::mutants;
use crate::run::Cargo;
use crate::show::{Bar, processor_seconds};
use crate::suites::{self, How, Program};
use crate::sum::{Outcome, Sum};
use crate::turn;
use anyhow::{Context, Result, bail};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Those that call cargo themselves where `CHAPPE_TEST_BUILT` does not say what was built, which replaces files that others use: then no
/// other runs beside them. They take long, and come first.
const ALONE: [&str; 2] = ["c", "command"];
/// The others that take long come next, so that none is waited for at the end.
const LONG: [&str; 7] = ["shim", "broken", "between_processes", "interleavings", "explored", "explorer", "crash_lock"];

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What is deterministic, and quick enough to run before each change goes in.
    Gate,
    /// Everything.
    All,
}

/// A stage's work.
pub enum Work {
    /// A call of cargo.
    Call(Cargo),
    /// Documentation tests, which only cargo can run: none is a failure.
    Documented(Cargo),
    /// Test programs: what selects them, variables of their environment, and how many run at once.
    Programs(Programs),
    /// Planted mistakes, in programs that stages before it have built.
    Mutants(mutants::Which),
}

/// Test programs of a stage.
pub struct Programs {
    /// What selects them, as `cargo test` is told: one call or several.
    pub select: Vec<&'static str>,
    /// Variables of their environment.
    pub environment: Vec<(&'static str, String)>,
    /// How many run at once.
    pub lanes: usize,
    /// Whether the gate builds them in the tree with all mutants, none of them switched on: the stage `mutants` then has its programs.
    pub planted: bool,
    /// Which of their tests are run, by how the names begin, and whether any are; all are without it. The next build is nearly the same then.
    pub part: Option<Choice>,
    /// The program of which the gate runs a fifth of the tests.
    pub by_turns: Option<&'static str>,
}

/// Of a package and a program.
pub type Choice = Box<dyn Fn(&str, &str) -> Option<Vec<String>> + Send + Sync>;

/// A part of the test, and what to do when it fails.
pub struct Stage {
    /// What its line begins with.
    pub name: &'static str,
    /// What it does.
    pub work: Work,
    /// What to do when it fails.
    pub advice: &'static str,
}

/// One that is a call of cargo.
pub fn stage(name: &'static str, call: Cargo, advice: &'static str) -> Stage {
    Stage { name, work: Work::Call(call), advice }
}

/// The gate's programs are quick to build and to start; `--all` tests those that can lie anywhere, as what is installed does. Those of
/// another profile start no command.
fn built_for(call: Cargo, level: Level) -> Cargo {
    let call = call.at_once();
    if level == Level::Gate && !call.shown().contains(" --profile ") { call.unmovable() } else { call }
}

/// `tests`: none is a failure.
fn call_cargo(call: Cargo, tests: bool) -> Result<Outcome> {
    let (shown, start) = (call.shown(), Instant::now());
    let before = calls::seconds();
    let (ok, text) = call.quiet()?;
    let took = (start.elapsed().as_secs_f64(), calls::seconds() - before);
    if !ok {
        bail!("{text}\nthis failed: {shown}");
    }
    let ran = suites::count(&text, " passed");
    if tests && ran == 0 {
        bail!("{text}\nno test ran: {shown}");
    }
    Ok(Outcome {
        took: Some(took),
        tests: tests.then_some(ran),
        untested: suites::untested(&text),
        ..Outcome::default()
    })
}

/// What is ready to be run of a stage.
enum Ready {
    /// Nothing: it is done.
    Done(Outcome),
    /// Test programs.
    Programs(Built),
    /// Planted mistakes.
    Mutants(mutants::Which),
}

/// Test programs, and how they are run.
struct Built {
    /// One after the other, before the rest.
    alone: Vec<Program>,
    rest: Vec<Program>,
    environment: Vec<(String, String)>,
    args: &'static [&'static str],
    lanes: usize,
    /// What is told anew for each program that selects packages and targets.
    again: String,
    /// What selected all of them, if one test at least must pass.
    some: Option<String>,
    /// Seconds on the clock and of processors that building took.
    took: (f64, f64),
    /// What the stage's line says at its end.
    more: String,
}

impl Stage {
    /// Calls cargo.
    fn make(self, level: Level, turn: u64) -> Result<Ready> {
        match self.work {
            Work::Call(call) => call_cargo(built_for(call, level), false).map(Ready::Done),
            Work::Documented(call) => call_cargo(built_for(call, level), true).map(Ready::Done),
            Work::Programs(programs) => programs.build(level, turn).map(Ready::Programs),
            Work::Mutants(which) => Ok(Ready::Mutants(which)),
        }
    }
}

impl Ready {
    /// Runs it.
    fn run(self, bar: &Bar) -> Result<Outcome> {
        match self {
            Ready::Done(outcome) => Ok(outcome),
            Ready::Programs(built) => built.run(bar),
            Ready::Mutants(which) => Ok(Outcome { more: mutants::hunted(which, bar)?, ..Outcome::default() }),
        }
    }
}

impl Programs {
    fn build(&self, level: Level, turn: u64) -> Result<Built> {
        let (select, start, before) = (&self.select, Instant::now(), calls::seconds());
        let calls: Vec<Vec<&str>> = select.iter().map(|call| call.split_whitespace().collect()).collect();
        let (mut programs, mut files, at_once) = (vec![], vec![], self.part.is_none());
        if self.planted {
            programs = mutants::planted(&calls, at_once)?;
        } else {
            for words in &calls {
                let call = Cargo::new("test").args(words);
                let (some, made) = suites::build_all(if at_once { built_for(call, level) } else { call })?;
                programs.extend(some);
                files.extend(made);
            }
        }
        if let Some(part) = &self.part {
            programs.retain_mut(|p| part(&p.package, &p.name).map(|only| p.only = only).is_some());
        }
        let took = (start.elapsed().as_secs_f64(), calls::seconds() - before);
        let mut more = format!(", building {:.0} s and {:.0} s of processors", took.0, took.1);
        if let Some(of) = self.by_turns.filter(|_| at_once) {
            for program in programs.iter_mut().filter(|p| p.name == of) {
                let all = program.tests()?;
                program.only = all.iter().filter(|name| turn::is_due_often(name, turn)).cloned().collect();
                more += &format!(", {} of {} tests of `{of}`", program.only.len(), all.len());
            }
        }
        let mut environment: Vec<(String, String)> =
            self.environment.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let mut calls_cargo = true;
        let args: &[&str] = match level {
            Level::Gate => {
                // Else the tests of C and of the command build it again, each with the features of that package alone, as --all does.
                if let Some(built) = install::gathered(&files)? {
                    environment.push(("CHAPPE_TEST_BUILT".to_owned(), built.display().to_string()));
                    calls_cargo = false;
                }
                environment.push(("CHAPPE_TEST_TURN".to_owned(), turn.to_string()));
                environment.push(("PROPTEST_RNG_SEED".to_owned(), "1".to_owned()));
                &[]
            }
            Level::All => {
                environment.push(("CHAPPE_TEST_ALL".to_owned(), "1".to_owned()));
                &["--include-ignored"]
            }
        };
        let order = |p: &Program| ALONE.iter().chain(&LONG).position(|long| *long == p.name).unwrap_or(usize::MAX);
        programs.sort_by_key(order);
        let (alone, rest): (Vec<Program>, Vec<Program>) =
            programs.into_iter().partition(|p| calls_cargo && ALONE.contains(&p.name.as_str()));
        let (mut again, mut words) = (String::new(), select[0].split_whitespace());
        while let Some(word) = words.next() {
            match word {
                "--profile" | "--features" => again += &format!("{word} {} ", words.next().unwrap_or_default()),
                _ => {}
            }
        }
        let some = at_once.then(|| format!("cargo test {}", select.join("; cargo test ")));
        Ok(Built { alone, rest, environment, args, lanes: self.lanes, again, some, took, more })
    }
}

impl Built {
    fn run(self, bar: &Bar) -> Result<Outcome> {
        let (start, before) = (Instant::now(), processor_seconds());
        let how = |lanes| How { args: self.args, environment: &self.environment, lanes, again: &self.again };
        bar.expect(self.alone.len() + self.rest.len(), "programs");
        // The second run begins also if the first fails: one look shows all that fails.
        let sum = match (suites::run(&self.alone, &how(1), bar), suites::run(&self.rest, &how(self.lanes), bar)) {
            (Ok(mut sum), Ok(more)) => {
                sum.add(more);
                sum
            }
            (Err(one), Err(other)) => bail!("{one}\n\n{other}"),
            (Err(e), Ok(_)) | (Ok(_), Err(e)) => return Err(e),
        };
        if let Some(call) = self.some.filter(|_| sum.passed == 0) {
            bail!("no test ran: {call}");
        }
        let took = (start.elapsed().as_secs_f64(), processor_seconds() - before);
        let took = Some((took.0 + self.took.0, took.1 + self.took.1));
        Ok(Outcome { took, tests: Some(sum.passed), left_out: sum.left_out, untested: sum.untested, more: self.more })
    }
}

impl Sum {
    /// A stage: builds, and then runs.
    pub fn stage(&mut self, stage: Stage, level: Level, turn: u64) -> Result<()> {
        self.go(stage.name, stage.advice, |bar| stage.make(level, turn)?.run(bar))
    }

    /// The gate's stages: while `first`, and then each of them, is run here, a thread builds for those to come.
    pub fn ahead(&mut self, stages: Vec<Stage>, turn: u64, first: impl FnOnce(&mut Sum) -> Result<()>) -> Result<()> {
        let stages: Vec<Stage> = stages.into_iter().filter(|stage| self.wants(stage.name)).collect();
        let told: Vec<_> = stages.iter().map(|stage| (stage.name, stage.advice)).collect();
        let goes_on = self.failures.is_some();
        let (made, ready) = channel();
        std::thread::scope(|s| {
            s.spawn(move || {
                for stage in stages {
                    let built = stage.make(Level::Gate, turn);
                    let ends = built.is_err() && !goes_on;
                    if made.send(built).is_err() || ends {
                        return;
                    }
                    calls::come_last();
                }
            });
            let run = || {
                first(self)?;
                let next = |bar: &Bar| ready.recv().context("the thread that builds has ended")??.run(bar);
                told.iter().try_for_each(|(name, advice)| self.go(name, advice, next))
            };
            // The build that goes on is for nothing then.
            run().inspect_err(|_| calls::stop())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_run_of_no_tests_is_a_failure() {
        let e = call_cargo(Cargo::new("--version"), true).err().expect("it runs none").to_string();
        assert!(e.contains("no test ran"), "{e}");
    }

    #[test]
    fn stages_built_ahead_keep_their_order_and_one_that_fails_is_kept() {
        let of = |name, word| stage(name, Cargo::new(word), "mend it");
        let stages = vec![
            of("one", "--version"),
            of("two", "no-such-command"),
            of("left", "--version"),
            of("one more", "--version"),
        ];
        let mut sum = Sum { failures: Some(vec![]), only: Some("o".to_owned()), ..Sum::default() };
        sum.ahead(stages, 0, |sum| sum.go("form", "", |_| bail!("it is wrong"))).unwrap();
        let failures = sum.failures.unwrap();
        assert!(failures[0].starts_with("it is wrong") && failures[1].ends_with("two: mend it"), "{failures:?}");
        assert_eq!((sum.stages, failures.len()), (4, 2));
    }

    #[test]
    fn each_listed_long_test_program_exists() {
        for name in ALONE.iter().chain(&LONG) {
            let found = ["crates", "tests"].iter().any(|dir| {
                let all = crate::run::root().join(dir);
                fs::read_dir(all).unwrap().flatten().any(|package| {
                    let tests = package.path().join("tests");
                    tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists()
                })
            });
            assert!(found, "no test program is called {name}");
        }
    }
}
