//! Known mistakes, planted one at a time in a copy of the protocols: the explorer, or loom, must find each.
//!
//! A mutant is a file in `crates/sync/mutants`: a sentence that says what is wrong, the test that must fail, and one or
//! more changes: the source file, a piece of it as it is, and the same as it must not be.
//!
//! ```text
//! Who gives back does not look whether anybody waits.
//! test: crash_pool acquire_and_release
//! file: crates/sync/src/permit.rs
//! ---- old
//! ...
//! ---- new
//! ...
//! ---- end
//! ```
//!
//! A suite whose name begins with `loom_` is built for loom, the others for the explorer. A piece that no longer occurs
//! exactly once is an error: mutants are kept up with the source. One that does not compile, or whose test fails without
//! a schedule to replay or the word of loom that it found it, has not been caught.

use crate::run::{Cargo, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const CRATES: [&str; 4] = ["crates/arena", "crates/crashsim", "crates/plat", "crates/sync"];

#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    name: String,
    why: String,
    suite: String,
    test: String,
    edits: Vec<Edit>,
}

#[derive(Debug, PartialEq, Eq)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Mutant> {
        let (why, rest) = text.split_once("test: ").context("no `test:`")?;
        let (test, mut rest) = rest.split_once('\n').context("nothing after `test:`")?;
        let (suite, test) = test.split_once(' ').context("`test:` names a suite and a test")?;
        let mut edits = Vec::new();
        while !rest.trim().is_empty() {
            let edit;
            (edit, rest) = Edit::parse(rest)?;
            edits.push(edit);
        }
        ensure!(!edits.is_empty(), "it changes nothing");
        let [name, why, suite, test] = [name, why.trim(), suite, test].map(str::to_owned);
        Ok(Mutant { name, why, suite, test, edits })
    }

    /// Whether all it changes is there, once.
    fn fits(&self, tree: &Path) -> Result<()> {
        for edit in &self.edits {
            edit.plant(&fs::read_to_string(tree.join(&edit.file)).with_context(|| edit.file.clone())?)?;
        }
        Ok(())
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

/// Plants each mutant whose name contains `filter`, and demands that its test catches it.
pub fn hunt(filter: &str) -> Result<String> {
    catch(all(filter)?, usize::MAX)
}

/// As [`hunt`], of the first mutant of each suite; that the others still fit their sources is looked at as well.
pub fn sample() -> Result<String> {
    let mut seen = std::collections::BTreeSet::new();
    let (mut first, rest): (Vec<_>, Vec<_>) = all("")?.into_iter().partition(|m| seen.insert(m.suite.clone()));
    let count = first.len();
    first.extend(rest);
    catch(first, count)
}

fn all(filter: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for entry in fs::read_dir(root().join("crates/sync/mutants"))? {
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

/// All must fit; the first `count` are planted.
fn catch(mutants: Vec<Mutant>, count: usize) -> Result<String> {
    let tree = target().join("mutants/tree");
    copy_house(&tree)?;
    let stale: Vec<String> =
        mutants.iter().filter_map(|m| m.fits(&tree).err().map(|e| format!("{}: {e:#}", m.name))).collect();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    let mut escaped = Vec::new();
    for mutant in mutants.iter().take(count) {
        let start = Instant::now();
        let verdict = caught(mutant, &tree).with_context(|| format!("mutant {}", mutant.name))?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "  {:<28}{} {seconds:>5.1} s   {}",
            mutant.name,
            if verdict { "caught " } else { "ESCAPED" },
            mutant.why
        );
        if !verdict {
            escaped.push(mutant.name.as_str());
        }
    }
    ensure!(escaped.is_empty(), "not caught: {}", escaped.join(", "));
    let caught = count.min(mutants.len());
    Ok(format!("{caught} mutants caught, of {}", mutants.len()))
}

fn caught(mutant: &Mutant, tree: &Path) -> Result<bool> {
    let mut sound = Vec::new();
    for edit in &mutant.edits {
        let path = tree.join(&edit.file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        fs::write(&path, edit.plant(&text)?)?;
        sound.push((path, text));
    }
    let (feature, found) = if mutant.suite.starts_with("loom_") {
        ("loom", "found by loom")
    } else {
        ("sim", "replay with CRASHSIM_REPLAY")
    };
    let run = Cargo::new("test")
        .directory(tree)
        .args(["--profile", "explore", "-p", "chappe-sync", "--features", feature])
        .args(["--test", mutant.suite.as_str(), mutant.test.as_str()])
        .env("CARGO_TARGET_DIR", &target().join("mutants/build").display().to_string())
        .quiet();
    for (path, text) in sound.into_iter().rev() {
        fs::write(path, text)?;
    }
    let (passed, text) = run?;
    ensure!(!text.contains("running 0 tests"), "no test is called `{}`", mutant.test);
    if !passed && !text.contains(found) {
        bail!("its test failed for another reason:\n{text}");
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

    const TEXT: &str = "It is wrong.\ntest: suite name\nfile: a.rs\n---- old\none\n---- new\ntwo\n---- end\n";

    #[test]
    fn a_mutant_is_read_and_planted() {
        let m = Mutant::parse("m", TEXT).unwrap();
        assert_eq!((m.why.as_str(), m.suite.as_str(), m.test.as_str()), ("It is wrong.", "suite", "name"));
        assert_eq!(m.edits[0].plant("zero\none\nthree\n").unwrap(), "zero\ntwo\nthree\n");
    }

    #[test]
    fn a_mutant_that_fits_nowhere_or_twice_is_an_error() {
        let m = Mutant::parse("m", TEXT).unwrap();
        assert!(m.edits[0].plant("two\n").unwrap_err().to_string().contains("occurs 0 times"));
        assert!(m.edits[0].plant("one\none\n").unwrap_err().to_string().contains("occurs 2 times"));
        assert!(Mutant::parse("m", "no such thing").is_err());
    }
}
