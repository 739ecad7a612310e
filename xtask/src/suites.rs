//! Test programs: built by one call of cargo, run side by side.
//!
//! Cargo runs test programs one after the other, and most of ours wait more than they compute. What cargo gives to a test program that
//! it runs (the package's directory, `CARGO`), it gets here as well. Documentation tests are none: they stay with cargo.

use crate::run::Cargo;
use crate::show::Bar;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A test program that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// The directory of its package, in which it is run.
    pub directory: PathBuf,
    /// What cargo calls the package.
    pub package: String,
    /// The target's name.
    pub name: String,
    /// What tells cargo to run this one alone: `--test NAME`, `--lib`, ...
    pub target: String,
    /// How the names of the tests begin that are run; all are if there is nothing here.
    pub only: Vec<String>,
}

/// What a program said when it had ended.
pub struct Said {
    /// Whether all its tests passed.
    pub well: bool,
    /// Both streams.
    pub text: String,
}

impl Program {
    /// From a line that cargo prints of what it has made; `None` if that is no test program.
    fn read(line: &str) -> Option<Program> {
        if !line.contains("\"reason\":\"compiler-artifact\"") || !line.contains("\"test\":true},\"features\"") {
            return None;
        }
        let path = PathBuf::from(text(line, "\"executable\":\"")?);
        let manifest = PathBuf::from(text(line, "\"manifest_path\":\"")?);
        let target = line.split_once("\"target\":{")?.1;
        let name = text(target, "\"name\":\"")?;
        let kind = text(target, "\"kind\":[\"")?;
        let target = match kind.as_str() {
            "test" | "bin" | "example" => format!("--{kind} {name}"),
            _ => "--lib".to_owned(),
        };
        // `path+file:///.../crates/ras#chappe-ras@0.1.0`, or `...#0.1.0` where the directory has the package's name.
        let (place, version) =
            text(line, "\"package_id\":\"")?.split_once('#').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        let package = match version.split_once('@') {
            Some((package, _)) => package.to_owned(),
            None => place.rsplit('/').next()?.to_owned(),
        };
        Some(Program { path, directory: manifest.parent()?.to_owned(), package, name, target, only: vec![] })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }

    /// Runs it.
    pub fn run(&self, args: &[&str], environment: &[(String, String)]) -> Result<Said> {
        let mut command = self.command();
        command.args(args).args(&self.only).envs(environment.iter().map(|(k, v)| (k, v)));
        let out = command.output().with_context(|| format!("cannot start {}", self.path.display()))?;
        let text = [out.stdout, out.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
        // As cargo says it.
        let text = match out.status.signal() {
            Some(signal) => format!("{text}\n(signal: {signal})"),
            None => text,
        };
        Ok(Said { well: out.status.success(), text })
    }

    /// The same, which is ended with all that it started when it has taken so many seconds.
    pub fn run_within(&self, seconds: u64, args: &[&str], environment: &[(String, String)]) -> Result<Said> {
        let limit = seconds.to_string();
        let within = Program { path: PathBuf::from("timeout"), ..self.clone() };
        let path = self.path.display().to_string();
        within.run(&[&["--kill-after=5", &limit, &path], args].concat(), environment)
    }

    /// The names of its tests.
    pub fn tests(&self) -> Result<Vec<String>> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]);
        let out = command.output().with_context(|| format!("cannot start {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// The string behind such a key. Paths with quotes or backslashes are not known here.
fn text(line: &str, key: &str) -> Option<String> {
    let rest = line.split_once(key)?.1;
    let value = rest.split('"').next()?;
    (!value.contains('\\')).then(|| value.to_owned())
}

/// What a build made beside test programs: the files that such a line names.
fn files(line: &str) -> Vec<PathBuf> {
    let list = line.split_once("\"filenames\":[").and_then(|(_, rest)| rest.split_once(']'));
    let files = list.map_or("", |(files, _)| files).split(',').map(|file| file.trim_matches('"'));
    files.filter(|file| !file.is_empty()).map(PathBuf::from).collect()
}

/// Builds test programs. `call` is `cargo test` with what selects them.
///
/// # Errors
/// What does not compile, as cargo says it.
pub fn build(call: Cargo) -> Result<Vec<Program>> {
    Ok(build_all(call)?.0)
}

/// The same, and all files that were made.
///
/// # Errors
/// As for [`build`].
pub fn build_all(call: Cargo) -> Result<(Vec<Program>, Vec<PathBuf>)> {
    let call = call.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let shown = call.shown();
    let (well, out, err) = call.both()?;
    ensure!(well, "{err}\nthis failed: {shown}");
    let programs: Vec<Program> = out.lines().filter_map(Program::read).collect();
    ensure!(!programs.is_empty(), "{err}\nno test program was built: {shown}");
    Ok((programs, out.lines().flat_map(files).collect()))
}

/// What came of a run of programs.
#[derive(Default)]
pub struct Sum {
    /// How many tests passed.
    pub passed: u64,
    /// How many were left out: storms.
    pub left_out: u64,
    /// What they say that they could not test here.
    pub untested: Vec<String>,
}

impl Sum {
    /// What came of a further run.
    pub fn add(&mut self, other: Sum) {
        self.passed += other.passed;
        self.left_out += other.left_out;
        self.untested.extend(other.untested);
    }
}

/// How programs are run.
pub struct How<'a> {
    /// Arguments of each program.
    pub args: &'a [&'a str],
    /// Variables of their environment.
    pub environment: &'a [(String, String)],
    /// How many at once.
    pub lanes: usize,
    /// The words between `cargo test` and the program, so that one test can be run again.
    pub again: &'a str,
}

/// Runs all of them; those that take long should come first. All end, also if one fails.
///
/// # Errors
/// What failed, with what it said, and how to run it alone.
pub fn run(programs: &[Program], how: &How<'_>, bar: &Bar) -> Result<Sum> {
    let (jobs, sum, failed) =
        (Mutex::new(programs.iter().collect::<VecDeque<_>>()), Mutex::new(Sum::default()), Mutex::new(Vec::new()));
    let lane = || -> Result<()> {
        loop {
            let Some(program) = jobs.lock().expect("no lane panics").pop_front() else { return Ok(()) };
            let said = program.run(how.args, how.environment)?;
            let mut sum = sum.lock().expect("no lane panics");
            sum.passed += count(&said.text, " passed");
            sum.left_out += count(&said.text, " ignored");
            sum.untested.extend(untested(&said.text));
            if !said.well {
                failed.lock().expect("no lane panics").push(told(program, how, &said.text));
            }
            bar.step();
        }
    };
    std::thread::scope(|s| {
        let lanes: Vec<_> = (0..how.lanes.max(1)).map(|_| s.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    let failed = failed.into_inner().expect("no lane panics");
    if !failed.is_empty() {
        bail!("{}", failed.join("\n\n"));
    }
    Ok(sum.into_inner().expect("no lane panics"))
}

/// A failed program's words, and how to run what failed alone.
fn told(program: &Program, how: &How<'_>, text: &str) -> String {
    let mut told = format!("{text}\n{} of {} failed; to run one test of it:", program.target, program.package);
    let failed = failures(text);
    let all = if failed.is_empty() { vec!["NAME".to_owned()] } else { failed };
    let again = again_of(program, how.again);
    let set: Vec<String> = how.environment.iter().map(|(k, v)| format!("{k}={v} ")).collect();
    for test in all {
        told += &format!(
            "\n  {}cargo test {}-p {} {} -- --exact {test} --include-ignored --nocapture",
            set.concat(),
            again,
            program.package,
            program.target
        );
    }
    told
}

/// What selects a package's build, of what selected all. What no other package depends on has no features for another.
fn again_of(program: &Program, again: &str) -> String {
    let Some((before, rest)) = again.split_once("--features ") else { return again.to_owned() };
    let (list, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_own = |feature: &&str| {
        let of = feature.split_once('/').map_or("", |(of, _)| of);
        of == program.package || !["chappe-cli", "chappe-remote"].contains(&of)
    };
    let own: Vec<&str> = list.split(',').filter(is_own).collect();
    let own = if own.is_empty() { String::new() } else { format!("--features {} ", own.join(",")) };
    format!("{before}{own}{rest}")
}

/// The names of tests that failed.
fn failures(text: &str) -> Vec<String> {
    let Some((_, list)) = text.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().take_while(|l| !l.is_empty()).filter_map(|l| l.strip_prefix("    ")).map(str::to_owned).collect()
}

/// How many tests a run says to have had that ended so.
pub fn count(text: &str, what: &str) -> u64 {
    let counts = text.lines().filter_map(|l| l.trim().strip_prefix("test result: ")?.split(what).next());
    counts.filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The lines in which tests say that they lack something here.
pub fn untested(text: &str) -> Vec<String> {
    text.lines().filter(|l| l.starts_with("not tested: ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file://DIR/crates/ras#chappe-ras@0.1.0","manifest_path":"DIR/crates/ras/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"lock","src_path":"DIR/crates/ras/tests/lock.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["DIR/t/lock-1"],"executable":"DIR/t/lock-1","fresh":true}"#;

    #[test]
    fn a_line_of_cargos_names_a_program() {
        let program = Program::read(LINE).unwrap();
        assert_eq!((program.package.as_str(), program.target.as_str()), ("chappe-ras", "--test lock"));
        assert_eq!((program.directory, program.path), (PathBuf::from("DIR/crates/ras"), PathBuf::from("DIR/t/lock-1")));
        let named =
            LINE.replace("crates/ras#chappe-ras@0.1.0", "crates/chappe#0.1.0").replace("[\"test\"]", "[\"lib\"]");
        let program = Program::read(&named).unwrap();
        assert_eq!((program.package.as_str(), program.target.as_str()), ("chappe", "--lib"));
        assert_eq!(Program::read(&LINE.replace("\"test\":true},\"features\"", "\"test\":false},\"features\"")), None);
        assert_eq!(Program::read("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn files_that_a_line_names_are_read() {
        assert_eq!(files(LINE), [PathBuf::from("DIR/t/lock-1")]);
        let two = LINE.replace(r#"["DIR/t/lock-1"]"#, r#"["a.rlib","a.a"]"#);
        assert_eq!(files(&two), [PathBuf::from("a.rlib"), PathBuf::from("a.a")]);
        assert!(files("{\"reason\":\"build-finished\"}").is_empty());
    }

    #[test]
    fn counts_what_passed_and_what_was_left_out_in_all_programs() {
        let text = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 3 ignored; 0 measured\n\n\
                    test result: ok. 40 passed; 0 failed; 1 ignored; 0 measured";
        assert_eq!((count(text, " passed"), count(text, " ignored")), (42, 4));
        assert_eq!(count("no tests here", " passed"), 0);
    }

    #[test]
    fn a_not_tested_line_is_repeated() {
        let text = "test a ... ok\nnot tested: a: it needs b\nnote: not tested: c\n";
        assert_eq!(untested(text), ["not tested: a: it needs b"]);
    }

    #[test]
    fn a_failure_says_how_to_run_the_test_alone() {
        let text = "failures:\n\n---- a::b stdout ----\nit broke\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED. 1 passed; 2 failed;";
        assert_eq!(failures(text), ["a::b", "c"]);
        let how = How {
            args: &[],
            environment: &[("X".into(), "1".into())],
            lanes: 1,
            again: "--features chappe-cli/full,chappe-cli/remote,chappe-remote/etcd,chappe-plat/uring --profile dist ",
        };
        let told = told(&Program::read(LINE).unwrap(), &how, text);
        assert!(
            told.contains(
                "X=1 cargo test --features chappe-plat/uring --profile dist -p chappe-ras --test lock -- --exact a::b "
            ),
            "{told}"
        );
    }
}
