//! `cargo xtask count`: lines of code, without blank ones and comments, by crate; beside those of a commit.
//!
//! What is counted: Rust, C, Python and shell that git knows. A crate's tests are `tests` and its `#[cfg(test)]` modules.

use crate::lint::{Line, lines};
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Crates that are there to try or to measure the others.
const APPARATUS: [&str; 7] = ["injector", "crashsim", "bench", "counts", "lab", "xtask", "examples"];
/// What begins a comment, by the file's ending.
const LANGUAGES: [(&str, &str); 6] = [("rs", "//"), ("c", "//"), ("h", "//"), ("py", "#"), ("pyi", "#"), ("sh", "#")];

/// Lines of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    comments: usize,
    tests: usize,
}

impl Lines {
    fn add(&mut self, other: Lines) {
        self.code += other.code;
        self.comments += other.comments;
        self.tests += other.tests;
    }
}

/// Prints the table; with a commit, its numbers stand before those of the files as they are.
pub fn command(commit: Option<&str>) -> Result<()> {
    let now = count(git(&["ls-files"])?.lines().filter_map(|path| {
        // One that was removed, and not yet from the index, is none.
        Some((path.to_owned(), std::fs::read_to_string(root().join(path)).ok()?))
    }));
    let before = commit.map(|commit| Ok::<_, anyhow::Error>(count(of(commit)?.into_iter()))).transpose()?;
    print!("{}", table(&now, before.as_ref()));
    Ok(())
}

fn git(args: &[&str]) -> Result<String> {
    let out = Command::new("git").args(args).current_dir(root()).output().context("git cannot be started")?;
    ensure!(out.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// All files of a commit that are counted.
fn of(commit: &str) -> Result<Vec<(String, String)>> {
    let names = git(&["ls-tree", "-r", "--name-only", commit])?;
    let mut cat = Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("git cannot be started")?;
    let (mut asked, answered) = (cat.stdin.take().context("its input is ours")?, cat.stdout.take());
    let mut answered = BufReader::new(answered.context("its output is ours")?);
    let mut all = Vec::new();
    for name in names.lines().filter(|name| home(name).is_some()) {
        writeln!(asked, "{commit}:{name}")?;
        let mut head = String::new();
        answered.read_line(&mut head)?;
        let size: usize = head.trim().rsplit(' ').next().unwrap_or_default().parse().context(name.to_owned())?;
        // Behind the text is a line's end.
        let mut text = vec![0; size + 1];
        answered.read_exact(&mut text)?;
        all.push((name.to_owned(), String::from_utf8_lossy(&text).into_owned()));
    }
    drop(asked);
    cat.wait()?;
    Ok(all)
}

/// The crate of a file that is counted, whether it is of its tests, and what begins a comment there.
fn home(path: &str) -> Option<(&str, bool, &'static str)> {
    let ending = path.rsplit_once('.')?.1;
    let comment = LANGUAGES.iter().find(|(e, _)| *e == ending)?.1;
    let mut parts = path.split('/');
    Some(match (parts.next()?, parts.next()?, parts.next()) {
        ("crates", own, Some(below)) => (own, below == "tests", comment),
        ("tests", ..) => ("tests", true, comment),
        (own @ ("xtask" | "examples"), ..) => (own, false, comment),
        _ => return None,
    })
}

fn count(files: impl Iterator<Item = (String, String)>) -> BTreeMap<String, Lines> {
    let mut all: BTreeMap<String, Lines> = BTreeMap::new();
    for (path, text) in files {
        let Some((own, test, comment)) = home(&path) else { continue };
        all.entry(own.to_owned()).or_default().add(counted(&text, comment, path.ends_with(".rs"), test));
    }
    all
}

fn counted(text: &str, comment: &str, rust: bool, test: bool) -> Lines {
    let mut sum = Lines::default();
    let (of_rust, mut within) = (if rust { lines(text) } else { vec![] }, false);
    for (at, raw) in text.lines().enumerate().filter(|(_, raw)| !raw.trim().is_empty()) {
        let raw = raw.trim();
        let is_comment = match of_rust.get(at) {
            Some(Line { code, comment, doc, .. }) => {
                code.trim().is_empty()
                    && (!comment.is_empty() || !doc.is_empty() || raw.chars().all(|c| "/!".contains(c)))
            }
            None => {
                // C's, which may go on over lines.
                let begins = comment == "//" && raw.starts_with("/*");
                let is = within || begins || raw.starts_with(comment);
                within = (within || begins) && !raw.contains("*/");
                is
            }
        };
        match (is_comment, test || of_rust.get(at).is_some_and(|line| line.test)) {
            (true, true) => {}
            (true, false) => sum.comments += 1,
            (false, true) => sum.tests += 1,
            (false, false) => sum.code += 1,
        }
    }
    sum
}

fn table(now: &BTreeMap<String, Lines>, before: Option<&BTreeMap<String, Lines>>) -> String {
    let none = BTreeMap::new();
    let old = before.unwrap_or(&none);
    let names: BTreeSet<&String> = now.keys().chain(old.keys()).collect();
    let mut text = format!("{:<12}{:>18}{:>18}{:>18}  comments a line\n", "", "code", "comments", "tests");
    let row = |text: &mut String, name: &str, old: Lines, new: Lines| {
        let two = |old: usize, new: usize| if before.is_some() { format!("{old} {new}") } else { new.to_string() };
        let ratio = |lines: Lines| format!("{:.2}", lines.comments as f64 / lines.code.max(1) as f64);
        let ratio = if before.is_some() { format!("{} {}", ratio(old), ratio(new)) } else { ratio(new) };
        let (code, comments, tests) =
            (two(old.code, new.code), two(old.comments, new.comments), two(old.tests, new.tests));
        let _ = writeln!(text, "{name:<12}{code:>18}{comments:>18}{tests:>18}  {ratio}");
    };
    let (mut product, mut apparatus) = ([Lines::default(); 2], [Lines::default(); 2]);
    for name in names {
        let both = [old, now].map(|all| all.get(name).copied().unwrap_or_default());
        let sum = if APPARATUS.contains(&name.as_str()) { &mut apparatus } else { &mut product };
        sum.iter_mut().zip(both).for_each(|(sum, one)| sum.add(one));
        row(&mut text, name, both[0], both[1]);
    }
    row(&mut text, "product", product[0], product[1]);
    row(&mut text, "apparatus", apparatus[0], apparatus[1]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_none_and_comments_and_tests_are_apart() {
        let rust = "//! A head.\n\nfn f() {\n    // Why.\n    g(\"\n// text\n\"); // and so\n}\n///\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(counted(rust, "//", true, false), Lines { code: 5, comments: 3, tests: 4 });
        assert_eq!(counted(rust, "//", true, true).tests, 9);
        let c = "/* A head\n * goes on. */\nint f(void); /* so */\n// Why.\n\n";
        assert_eq!(counted(c, "//", false, false), Lines { code: 1, comments: 3, tests: 0 });
        assert_eq!(counted("#!/bin/sh\nset -e\n", "#", false, false), Lines { code: 1, comments: 1, tests: 0 });
    }

    #[test]
    fn each_file_belongs_to_a_crate_and_to_its_tests_or_not() {
        assert_eq!(home("crates/sync/src/a/b.rs"), Some(("sync", false, "//")));
        assert_eq!(home("crates/cli/tests/command/a.rs"), Some(("cli", true, "//")));
        assert_eq!(home("tests/channels/tests/a.rs"), Some(("tests", true, "//")));
        assert_eq!(home("xtask/src/main.rs"), Some(("xtask", false, "//")));
        assert_eq!(
            (home("docs/papers.md"), home("crates/sync/mutants/a.mutant"), home("Cargo.toml")),
            (None, None, None)
        );
    }

    #[test]
    fn numbers_of_a_commit_stand_before_those_of_now() {
        let of = |code| BTreeMap::from([("sync".to_owned(), Lines { code, comments: 1, tests: 2 })]);
        let text = table(&of(4), Some(&of(2)));
        assert!(text.contains("2 4") && text.contains("0.50 0.25") && text.contains("product"), "{text}");
        assert!(!table(&of(4), None).contains("2 4"));
    }
}
