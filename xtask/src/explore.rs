//! `cargo xtask crashsim`: every world of the protocols, for as long as one likes, and what that came to.
//!
//! Each search prints one line; their numbers are added up here. Each also writes which places of the source it came to (a
//! *site* is a call of the facade: an atomic operation, a system call, a `step!`), and after which of them it killed a process:
//! once, and while that one was recovering from another's death. A place that no search came to, or never killed at, is named:
//! of it the exploration says nothing.

use crate::run::{Cargo, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// How long each search may take, unless it is told otherwise.
const SECONDS: &str = "8";
/// Whose places are counted.
const SOURCES: [&str; 7] = [
    "crates/arena/src",
    "crates/lane/src",
    "crates/structures/src",
    "crates/wait/src",
    "crates/tube/src",
    "crates/sync/src",
    "crates/ras/src",
];
/// What makes a line of the source one that calls the facade.
const CALLS: [&str; 16] = [
    ".load(",
    ".store(",
    ".swap(",
    ".compare_exchange(",
    ".compare_exchange_weak(",
    ".fetch_add(",
    ".fetch_sub(",
    ".fetch_and(",
    ".fetch_or(",
    ".fetch_max(",
    "futex::wait",
    "futex::wake(",
    "step!(",
    ".try_claim(",
    ".release_as_process(",
    "heavy()",
];

/// Runs the command with its arguments.
pub fn command(mut args: &[&str]) -> Result<()> {
    let (mut limit, mut seed) = (("CRASHSIM_SECONDS", SECONDS), None);
    while let [flag, rest @ ..] = args {
        let [value, rest @ ..] = rest else { bail!("`{flag}` needs a number") };
        let number: u64 = value.parse().with_context(|| format!("`{flag} {value}`: not a number"))?;
        ensure!(number > 0 || *flag == "--seed", "`{flag} {value}` explores nothing");
        match *flag {
            "--seconds" => limit = ("CRASHSIM_SECONDS", value),
            "--schedules" => limit = ("CRASHSIM_SCHEDULES", value),
            "--seed" => seed = Some(*value),
            other => bail!("`{other}` is not known here: --seconds N, --schedules N, --seed N"),
        }
        args = rest;
    }
    let sites = target().join("crashsim/sites");
    if sites.exists() {
        fs::remove_dir_all(&sites)?;
    }
    let mut run = Cargo::new("test")
        .args(["--profile", "explore", "-p", "chappe-sync", "-p", "chappe-ras", "--features", "sim"])
        .args(["--no-fail-fast", "--", "--nocapture"])
        .env(limit.0, limit.1)
        .env("CRASHSIM_SHARE", "1")
        .env("CRASHSIM_COVERAGE", &sites.display().to_string());
    if let Some(seed) = seed {
        run = run.env("CRASHSIM_SEED", seed);
    }
    let mut sum = Sum::default();
    let ended = run.lines(|line| {
        println!("{line}");
        sum.add(line);
    })?;
    println!("\n{}", sum.text());
    println!("{}", coverage(&sites)?);
    ensure!(ended && sum.failed == 0, "a world failed: see above");
    Ok(())
}

/// All searches together.
#[derive(Default, Debug, PartialEq, Eq)]
struct Sum {
    searches: u64,
    complete: u64,
    failed: u64,
    schedules: u64,
    steps: u64,
    kills: u64,
    doubles: u64,
    stops: u64,
    backstops: u64,
    spurious: u64,
    held: u64,
}

impl Sum {
    /// Adds the line of a search; others are none.
    fn add(&mut self, line: &str) {
        let Some((_, line)) = line.split_once("crashsim ") else { return };
        let Some((_, numbers)) = line.split_once("]: ") else { return };
        let before = |unit: &str| {
            let at = numbers.find(unit)?;
            numbers[..at].rsplit([' ', '(']).next()?.parse::<u64>().ok()
        };
        let Some(schedules) = before(" schedules,") else { return };
        self.searches += 1;
        self.schedules += schedules;
        self.complete += u64::from(numbers.ends_with("clean, complete"));
        self.failed += u64::from(numbers.ends_with("FAILED"));
        for (to, unit) in [
            (&mut self.steps, " steps "),
            (&mut self.kills, " kills "),
            (&mut self.doubles, " of recoverers)"),
            (&mut self.stops, " stops,"),
            (&mut self.backstops, " backstops)"),
            (&mut self.spurious, " spurious wakes,"),
            (&mut self.held, " held stores,"),
        ] {
            *to += before(unit).unwrap_or(0);
        }
    }

    fn text(&self) -> String {
        format!(
            "crashsim in all: {} searches ({} of them complete, {} failed), {} schedules, {} steps, {} kills, {} double faults \
             (kills of recoverers), {} stops, {} spurious wakes, {} held stores, {} backstops",
            self.searches,
            self.complete,
            self.failed,
            self.schedules,
            self.steps,
            self.kills,
            self.doubles,
            self.stops,
            self.spurious,
            self.held,
            self.backstops
        )
    }
}

/// Kills after a site, and double ones.
type Hits = (u64, u64);

/// What all searches say of the places of the source.
fn coverage(sites: &Path) -> Result<String> {
    let mut hits: BTreeMap<(String, u32), Hits> = BTreeMap::new();
    for entry in fs::read_dir(sites).with_context(|| sites.display().to_string())? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let (site, killed) = read(line).with_context(|| format!("`{line}` is no site"))?;
            let sum = hits.entry(site).or_default();
            sum.0 += killed.0;
            sum.1 += killed.1;
        }
    }
    let mut text = format!("{:<44}{:>8}{:>9}{:>8}{:>9}\n", "", "places", "reached", "killed", "doubles");
    let (mut all, mut silent) = ([0usize; 4], Vec::new());
    for file in sources()? {
        let calls = calls(&fs::read_to_string(root().join(&file))?);
        let known: BTreeSet<u32> = hits.keys().filter(|(f, _)| *f == file).map(|(_, line)| *line).collect();
        let places: BTreeSet<u32> = calls.union(&known).copied().collect();
        let count = |f: &dyn Fn(&Hits) -> bool| known.iter().filter(|line| f(&hits[&(file.clone(), **line)])).count();
        let row = [places.len(), known.len(), count(&|h| h.0 > 0), count(&|h| h.1 > 0)];
        if row[0] > 0 {
            text += &format!("{file:<44}{:>8}{:>9}{:>8}{:>9}\n", row[0], row[1], row[2], row[3]);
        }
        all.iter_mut().zip(row).for_each(|(a, r)| *a += r);
        silent.extend(calls.difference(&known).map(|line| format!("{file}:{line}")));
    }
    text += &format!("{:<44}{:>8}{:>9}{:>8}{:>9}\n", "in all", all[0], all[1], all[2], all[3]);
    if !silent.is_empty() {
        text += &format!("never reached: {}\n", silent.join(" "));
    }
    Ok(text)
}

fn read(line: &str) -> Option<((String, u32), Hits)> {
    let mut fields = line.split(' ');
    let mut place = fields.next()?.rsplitn(3, ':');
    let (_, at, file) = (place.next()?, place.next()?.parse().ok()?, place.next()?);
    let file = file.find("crates/").map_or(file, |i| &file[i..]).to_owned();
    Some(((file, at), (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
}

/// The files whose places are counted, relative to the workspace.
fn sources() -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders: Vec<_> = SOURCES.iter().map(|s| root().join(s)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path.strip_prefix(root())?.display().to_string());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The lines of a source that call the facade, its tests aside.
fn calls(source: &str) -> BTreeSet<u32> {
    let shipped = source.find("#[cfg(test)]\nmod ").map_or(source, |at| &source[..at]);
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let calls = |line: &str| CALLS.iter().any(|c| code(line).contains(c));
    (1u32..).zip(shipped.lines()).filter(|(_, line)| calls(line)).map(|(n, _)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_searches_are_added_up() {
        let mut sum = Sum::default();
        let line = ".crashsim a_world [sweep, 2 kills, 0 stops]: 100 schedules, 5000 steps (longest 99), 180 kills (70 of recoverers), \
                    3 stops, 2 time-outs (1 backstops), 4 spurious wakes, 5 held stores, 12 sites, 0.9 s: clean, complete";
        for line in [line, "test a_world ... ok", line] {
            sum.add(line);
        }
        let (searches, complete, failed) = (2, 2, 0);
        let (schedules, steps, kills, doubles) = (200, 10_000, 360, 140);
        let (stops, backstops, spurious, held) = (6, 2, 8, 10);
        let all =
            Sum { searches, complete, failed, schedules, steps, kills, doubles, stops, backstops, spurious, held };
        assert_eq!(sum, all);
    }

    #[test]
    fn a_site_is_read_and_calls_of_the_facade_are_found_in_code_only() {
        let site = read("elsewhere/crates/sync/src/a.rs:12:9 7 3");
        assert_eq!(site, Some((("crates/sync/src/a.rs".to_owned(), 12), (7, 3))));
        let source = "x.load(A);\n// x.store(B)\ny\nz.swap(1) // .load(\n#[cfg(test)]\nmod tests { x.load(C) }";
        assert_eq!(calls(source), BTreeSet::from([1, 4]));
    }
}
