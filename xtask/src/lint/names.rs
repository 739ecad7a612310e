//! Rule `names` (style 6): a test is called by the property that it holds, a mutant by its mistake.
//!
//! Such a name is what a failure prints: it has a named subject and the field's words, not `who_` or `what_`, whose
//! subject the reader must look for, and is no longer than a line.
//!
//! - A function below `#[test]`, or a Python method `test_...`: it begins with none of [`RIDDLES`], behind `test_`.
//! - A mutant's file: none of [`RIDDLES`] is a part of its name.
//! - A mutant's `test:` line: its suite has a test whose name contains that text. Without one the mutant cannot be caught.

use super::Finding;
use super::house::{House, Source};
use crate::mutants::suite::Suite;
use std::collections::BTreeMap;

/// Letters of the longest name.
const MOST: usize = 80;

/// Words that name no subject.
const RIDDLES: [&str; 16] = [
    "who",
    "whoever",
    "whom",
    "whose",
    "what",
    "whatever",
    "where",
    "wherever",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "someone",
    "anyone",
    "everyone",
    "whichever",
];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |path: &str, line, text: String| findings.push(Finding::new(path, line, "names", text));
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, source) in house.rust() {
        for (line, name) in rust_tests(source) {
            if let Some(wrong) = wrong(name, name) {
                found(path, line, wrong);
            }
            tests.entry(path).or_default().push(name);
        }
    }
    for (path, text) in house.texts().filter(|(path, _)| path.ends_with(".py")) {
        let names = text.lines().enumerate().filter_map(|(at, l)| Some((at + 1, l.trim_start().strip_prefix("def ")?)));
        for (line, rest) in names.filter(|(_, rest)| rest.starts_with("test_")) {
            let name = rest.split('(').next().unwrap_or(rest);
            if let Some(wrong) = wrong(name, &name["test_".len()..]) {
                found(path, line, wrong);
            }
        }
    }
    for (path, text) in house.texts().filter(|(path, _)| path.ends_with(".mutant")) {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".mutant");
        if let Some(word) = name.split('_').find(|part| RIDDLES.contains(part)) {
            found(path, 0, format!("`{word}` names nothing: a mutant's name says the mistake"));
        }
        let head = text.lines().enumerate().take_while(|(_, l)| !l.starts_with("file: "));
        for (at, line) in head.filter_map(|(at, l)| Some((at, l.strip_prefix("test: ")?))) {
            let (suite, test) = line.split_once(' ').unwrap_or((line, ""));
            let wanted = test.rsplit("::").next().unwrap_or(test);
            let mut of_suite = tests.iter().filter(|(path, _)| is_of(path, suite)).flat_map(|(_, names)| names);
            if !of_suite.any(|name| name.contains(wanted)) {
                let text = format!("`{suite}` has no test whose name contains `{wanted}`: name the one that finds it");
                found(path, at + 1, text);
            }
        }
    }
    findings
}

/// What is wrong with a test's name, whose property is this.
fn wrong(name: &str, property: &str) -> Option<String> {
    let first = property.split('_').next().unwrap_or(property);
    if RIDDLES.contains(&first) && first != property {
        return Some(format!("`{name}`: name the subject and its property, as in a_cancelled_wait_consumes_no_permit"));
    }
    (name.len() > MOST).then(|| format!("`{name}` has {} letters: at most {MOST}, one property", name.len()))
}

/// The functions below `#[test]`, with their lines.
fn rust_tests(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    source.lines.iter().enumerate().filter_map(move |(at, line)| {
        let code = line.code.trim();
        let name = code.strip_prefix("pub ").unwrap_or(code).strip_prefix("fn ").filter(|_| is_test);
        is_test = code.starts_with("#[test]") || is_test && (code.is_empty() || code.starts_with('#'));
        Some((at + 1, name?.split(['(', '<']).next()?))
    })
}

/// Whether this file may have tests of the suite that a mutant names.
fn is_of(path: &str, suite: &str) -> bool {
    let Suite { package, program, prefix, .. } = Suite::of(suite);
    let package = format!("crates/{}/", package.trim_start_matches("chappe-"));
    let program = if prefix.is_empty() { program.as_str() } else { prefix.trim_end_matches("::") };
    path.strip_prefix(&package).is_some_and(|rest| match (program, rest.strip_prefix("tests/")) {
        ("lib", _) => rest.starts_with("src/"),
        // All files of a directory in one program.
        ("all", Some(_)) => true,
        (_, Some(rest)) => rest.strip_prefix(program).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')),
        (_, None) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&house(path, text)).len()
    }

    #[test]
    fn a_test_without_a_subject_is_caught() {
        let named =
            |name: &str| found("crates/sync/tests/x.rs", &format!("//! A head.\n#[test]\n#[ignore]\nfn {name}() {{\n"));
        assert_eq!(named("who_gives_up_waiting_takes_nothing_along"), 1);
        assert_eq!(named("nobody_is_forgotten"), 1);
        assert_eq!(named("a_cancelled_wait_consumes_no_permit"), 0);
        assert_eq!(named("whole_words_only"), 0);
        assert_eq!(found("crates/sync/src/x.rs", "//! A head.\nfn nobody_waits() {\n"), 0, "it is no test");
    }

    #[test]
    fn a_name_longer_than_a_line_is_caught() {
        let named = |len: usize| found("tests/x.rs", &format!("//! A head.\n#[test]\nfn {}() {{\n", "a".repeat(len)));
        assert_eq!((named(81), named(80)), (1, 0));
    }

    #[test]
    fn a_python_test_without_a_subject_is_caught() {
        let named = |name: &str| found("crates/py/tests/x.py", &format!("class X:\n    def {name}(self):\n"));
        assert_eq!((named("test_what_is_no_arm_is_refused"), named("test_a_waiter_is_notified")), (1, 0));
    }

    #[test]
    fn a_mutant_is_named_by_its_mistake_and_names_a_test_that_exists() {
        let of = |name: &str, test: &str| {
            let mut house = house("crates/sync/tests/crash_pool.rs", "//! A head.\n#[test]\nfn a_queue_survives() {\n");
            house.add("crates/ras/src/lock.rs", "//! A head.\n#[test]\nfn a_lock_locks() {\n");
            house.add(&format!("crates/sync/mutants/{name}.mutant"), &format!("Why.\n\ntest: {test}\nfile: x\n"));
            check(&house).len()
        };
        assert_eq!(of("release_does_not_look", "crash_pool a_queue"), 0);
        assert_eq!(of("release_does_not_look", "chappe-ras/lib lock::a_lock"), 0);
        assert_eq!(of("granted_by_who_is_gone", "crash_pool a_queue"), 1);
        assert_eq!(of("release_does_not_look", "crash_pool a_choice"), 1);
        assert_eq!(of("release_does_not_look", "crash_mutex a_queue"), 1);
    }
}
