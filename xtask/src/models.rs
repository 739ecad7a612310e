//! `cargo xtask models`: the protocols' models in Promela, each as it is and with each mistake that its head lists.
//!
//! A model's head says of each mistake how it is found:
//!
//! ```text
//!  *   MISTAKE_NO_MARK  a waiter sets its bit, and not WAITERS (I6). Found: assertion
//! ```
//!
//! Here `spin` translates the model, `gcc` compiles what that makes, and the result, `pan`, looks at every state. As it is a model
//! must have no error, and no statement that is never reached (in an `inline` there may be: it stands in several places, and some
//! are none of its concern). With a mistake it must fail in the way that the head says, and only so: an assertion, or an invalid end
//! state (a process waits for good). A model that is cut short, by its time, its memory or its depth, has said nothing, and fails.
//!
//! What a search wrote is left in `target/models/MODEL.MISTAKE`, the trail of what it found included: models/README.md says how to
//! read it. Two searches run at once. `cargo xtask test` looks at the models as they are; their mistakes, which are many and each a
//! compilation of its own, are planted by `cargo xtask models --mistakes`.

use crate::run::{root, target};
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// What is said where a model cannot be looked at.
const SPIN_IS_ABSENT: &str = "not tested: models: spin is not installed (apt-get install spin)";
const GCC_IS_ABSENT: &str = "not tested: models: gcc is not installed (apt-get install gcc)";
const LANES: usize = 2;
/// Of one search: seconds, megabytes, and steps of one run.
const LIMIT: &str = "600";
const MEMORY: &str = "-DMEMLIM=3000";
const DEPTH: &str = "-m1000000";

/// How a mistake is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Assertion,
    EndState,
}

impl Found {
    const ALL: [(Found, &'static str, &'static str); 2] = [
        (Found::Assertion, "assertion", "assertion violated"),
        (Found::EndState, "invalid end state", "invalid end state"),
    ];

    fn shown(self) -> &'static str {
        Found::ALL.iter().find(|(f, _, _)| *f == self).map_or("", |(_, shown, _)| shown)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mistake {
    name: String,
    found: Found,
}

/// A model, and what its head says.
#[derive(Debug)]
struct Model {
    name: String,
    path: PathBuf,
    mistakes: Vec<Mistake>,
}

/// Runs the command with its arguments.
pub fn command(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    let mistakes = args.iter().position(|a| *a == "--mistakes").map(|at| args.remove(at)).is_some();
    let name = match args[..] {
        [] => None,
        [name] if !name.starts_with('-') => Some(name),
        _ => bail!("`{}` is not known here: cargo xtask models [NAME] [--mistakes]", args.join(" ")),
    };
    println!("{}", check(name, mistakes)?);
    Ok(())
}

/// Looks at all models, or at one, and at their mistakes if these are wanted. What came of it, or what is missing here.
pub fn check(name: Option<&str>, mistakes: bool) -> Result<String> {
    let mut models = all()?;
    if let Some(name) = name {
        models.retain(|m| m.name == name);
        ensure!(!models.is_empty(), "there is no models/{name}.pml");
    }
    for (program, asked, absent) in [("spin", "-V", SPIN_IS_ABSENT), ("gcc", "--version", GCC_IS_ABSENT)] {
        if Command::new(program).arg(asked).output().is_err() {
            return Ok(absent.to_owned());
        }
    }
    let mut jobs: VecDeque<(&Model, Option<&Mistake>)> = models.iter().map(|m| (m, None)).collect();
    if mistakes {
        jobs.extend(models.iter().flat_map(|m| m.mistakes.iter().map(move |x| (m, Some(x)))));
    }
    let planted = jobs.len() - models.len();
    let (jobs, failed) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let lane = || -> Result<()> {
        loop {
            let Some((model, mistake)) = jobs.lock().expect("no lane panics").pop_front() else { return Ok(()) };
            let seen = search(model, mistake)?;
            println!("  {}", seen.line(model, mistake));
            if let Some(fault) = seen.fault(mistake) {
                failed.lock().expect("no lane panics").push(format!("{}: {fault}", title(model, mistake)));
            }
        }
    };
    std::thread::scope(|s| {
        let lanes: Vec<_> = (0..LANES).map(|_| s.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    let failed = failed.into_inner().expect("no lane panics");
    ensure!(failed.is_empty(), "{}\nmodels/README.md says how to read the trail", failed.join("\n"));
    let found = if mistakes { format!(", {planted} planted mistakes found") } else { String::new() };
    Ok(format!("{} models hold{found}", models.len()))
}

/// Whether a model has such a mistake.
///
/// # Errors
/// What is not there.
pub fn has(model: &str, mistake: &str) -> Result<()> {
    let path = root().join(format!("models/{model}.pml"));
    let name = format!("MISTAKE_{mistake}");
    let known = Model::read(&path)?.mistakes.iter().any(|m| m.name == name);
    ensure!(known, "the head of models/{model}.pml lists no {name}");
    Ok(())
}

fn all() -> Result<Vec<Model>> {
    let mut models = Vec::new();
    for entry in fs::read_dir(root().join("models"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "pml") {
            models.push(Model::read(&path)?);
        }
    }
    ensure!(!models.is_empty(), "there are no models");
    models.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(models)
}

impl Model {
    fn read(path: &Path) -> Result<Model> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mistakes = mistakes(&text).with_context(|| path.display().to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Model { name, path: path.to_owned(), mistakes })
    }
}

/// What the head lists; all that the body has must be there.
fn mistakes(text: &str) -> Result<Vec<Mistake>> {
    let (head, body) = text.split_once("*/").context("no head")?;
    let mut all = Vec::new();
    for line in head.lines() {
        let Some(rest) = line.strip_prefix(" *   MISTAKE_") else { continue };
        let name = format!("MISTAKE_{}", rest.split(' ').next().unwrap_or_default());
        let how = rest.rsplit_once("Found: ").map(|(_, how)| how.trim()).unwrap_or_default();
        let found = Found::ALL.iter().find(|(_, shown, _)| *shown == how);
        let (found, _, _) = found.with_context(|| format!("{name}: how it is found is not said"))?;
        ensure!(body.contains(&name), "{name} stands in the head alone");
        all.push(Mistake { name, found: *found });
    }
    let marks = body.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| w.starts_with("MISTAKE_"));
    let missing = marks.into_iter().find(|w| all.iter().all(|m| m.name != *w));
    ensure!(missing.is_none(), "{} is not in the head", missing.unwrap_or_default());
    Ok(all)
}

/// The lines that stand in an `inline`.
fn inlines(text: &str) -> Vec<bool> {
    let mut inside = false;
    let line = |line: &str| {
        inside = (inside || line.starts_with("inline ")) && !line.starts_with('}');
        inside
    };
    text.lines().map(line).collect()
}

/// What `pan` said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    states: u64,
    depth: u64,
    errors: Option<u64>,
    found: Option<Found>,
    cut: bool,
    /// Lines that no run came to.
    unreached: Vec<usize>,
    tenths: u64,
}

impl Seen {
    fn read(output: &str, inlines: &[bool]) -> Seen {
        let number = |text: &str| text.trim().split([' ', ',']).next().and_then(|n| n.parse::<u64>().ok());
        let mut seen = Seen::default();
        for line in output.lines() {
            if let Some((before, _)) = line.split_once(" states, stored") {
                seen.states = before.trim().parse().unwrap_or(0);
            }
            if let Some((_, rest)) = line.split_once("depth reached ") {
                seen.depth = number(rest).unwrap_or(0);
            }
            if let Some((_, rest)) = line.split_once("errors: ") {
                seen.errors = number(rest);
            }
            if let Some(text) = line.strip_prefix("pan:1: ") {
                seen.found = Found::ALL.iter().find(|(_, _, said)| text.starts_with(said)).map(|(found, _, _)| *found);
            }
            seen.cut |= line.contains("max search depth too small") || line.contains("out of memory");
            if let Some((_, rest)) = line.split_once(".pml:")
                && line.starts_with('\t')
                && let Some(at) = number(rest)
                && !inlines.get(at as usize - 1).is_some_and(|inside| *inside)
            {
                seen.unreached.push(at as usize);
            }
        }
        seen
    }

    /// What is wrong with it.
    fn fault(&self, mistake: Option<&Mistake>) -> Option<String> {
        if self.cut || self.errors.is_none() {
            return Some(format!("cut short after {} states: it says nothing", self.states));
        }
        match (mistake, self.found) {
            (None, None) if self.errors == Some(0) && self.unreached.is_empty() => None,
            (None, None) => Some(format!("never reached: lines {:?}", self.unreached)),
            (None, Some(found)) => Some(format!("{}: the model does not hold", found.shown())),
            (Some(m), Some(found)) if m.found == found => None,
            (Some(m), Some(found)) => Some(format!("{}, where its head says {}", found.shown(), m.found.shown())),
            (Some(_), None) => Some("not found".to_owned()),
        }
    }

    fn line(&self, model: &Model, mistake: Option<&Mistake>) -> String {
        let verdict = match (self.fault(mistake), self.found) {
            (Some(fault), _) => format!("FAILED: {fault}"),
            (None, Some(found)) => format!("found: {}", found.shown()),
            (None, None) => "holds".to_owned(),
        };
        let (title, seconds) = (title(model, mistake), self.tenths as f64 / 10.0);
        format!("{title:<44}{:>10} states, depth {:>5}, {seconds:>5.1} s   {verdict}", self.states, self.depth)
    }
}

fn title(model: &Model, mistake: Option<&Mistake>) -> String {
    mistake.map_or_else(|| model.name.clone(), |m| format!("{} {}", model.name, m.name))
}

fn search(model: &Model, mistake: Option<&Mistake>) -> Result<Seen> {
    let start = Instant::now();
    let at = target().join("models").join(title(model, mistake).replace(' ', "."));
    if at.exists() {
        fs::remove_dir_all(&at)?;
    }
    fs::create_dir_all(&at)?;
    let copy = format!("{}.pml", model.name);
    let text = fs::read_to_string(&model.path)?;
    fs::write(at.join(&copy), &text)?;
    let planted = mistake.map(|m| format!("-D{}", m.name));
    let run = |program: &str, args: &[&str]| -> Result<(bool, String)> {
        let out = Command::new(program).args(args).current_dir(&at).output();
        let out = out.with_context(|| format!("cannot start {program}"))?;
        Ok((out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()))
    };
    let must = |program: &str, args: &[&str]| -> Result<()> {
        let (ok, text) = run(program, args)?;
        ensure!(ok, "{program}, of {}:\n{text}", title(model, mistake));
        Ok(())
    };
    let translate: Vec<&str> = planted.iter().map(String::as_str).chain(["-a", copy.as_str()]).collect();
    must("spin", &translate)?;
    // A model's search takes longer than its compilation; a mistake's, mostly, not.
    let optimized = if mistake.is_some() { "-O1" } else { "-O2" };
    must("gcc", &[optimized, "-w", "-DSAFETY", "-DCOLLAPSE", MEMORY, "-o", "pan", "pan.c"])?;
    // Its success is that it came to an end: what it says of the model stands in its output.
    let (_, output) = run("timeout", &["--kill-after=5", LIMIT, "./pan", DEPTH])?;
    fs::write(at.join("output"), &output)?;
    let mut seen = Seen::read(&output, &inlines(&text));
    seen.tenths = (start.elapsed().as_millis() / 100) as u64;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "/*\n * It.\n *\n * Mistakes:\n *   MISTAKE_A  it is wrong (I1). Found: assertion\n *   MISTAKE_B  so. Found: invalid end state\n */\n\
                         inline here() {\n\tskip\n}\n#ifdef MISTAKE_A\n#ifndef MISTAKE_B\n";

    #[test]
    fn the_head_lists_each_mistake_and_how_it_is_found() {
        let all = mistakes(MODEL).unwrap();
        let listed: Vec<_> = all.iter().map(|m| (m.name.as_str(), m.found)).collect();
        assert_eq!(listed, [("MISTAKE_A", Found::Assertion), ("MISTAKE_B", Found::EndState)]);
        for (wrong, why) in [
            (MODEL.replace("#ifdef MISTAKE_A", "#ifdef MISTAKE_C"), "head alone"),
            (format!("{MODEL}#ifdef MISTAKE_C\n"), "not in the head"),
            (MODEL.replace("Found: assertion", ""), "not said"),
        ] {
            assert!(format!("{:#}", mistakes(&wrong).unwrap_err()).contains(why), "{why}");
        }
    }

    const HELD: &str = "State-vector 92 byte, depth reached 141, errors: 0\n    2594 states, stored\n\
                        unreached in proctype p\n\tm.pml:9, state 3, \"skip\"\n\t(1 of 9 states)\n";

    #[test]
    fn a_model_holds_only_if_all_of_it_was_reached_and_nothing_was_found() {
        let inlines = inlines(MODEL);
        let seen = Seen::read(HELD, &inlines);
        assert_eq!((seen.states, seen.depth, seen.errors, seen.found), (2594, 141, Some(0), None));
        assert_eq!(seen.fault(None), None);
        let dead = Seen::read(&HELD.replace("m.pml:9", "m.pml:12"), &inlines);
        assert!(dead.fault(None).unwrap().contains("[12]"));
        assert!(Seen::read("", &inlines).fault(None).unwrap().contains("cut short"));
        let shallow = Seen::read(&format!("error: max search depth too small\n{HELD}"), &inlines);
        assert!(shallow.fault(None).unwrap().contains("cut short"));
        let failed = Seen::read(&format!("pan:1: invalid end state (at depth 3)\n{HELD}"), &inlines);
        assert!(failed.fault(None).unwrap().contains("does not hold"));
    }

    #[test]
    fn a_mistake_must_be_found_in_the_way_that_the_head_says() {
        let mistake = Mistake { name: "MISTAKE_A".to_owned(), found: Found::Assertion };
        let said = |text: &str| Seen::read(&format!("{text}\n{}", HELD.replace("errors: 0", "errors: 1")), &[]);
        assert_eq!(said("pan:1: assertion violated x (at depth 3)").fault(Some(&mistake)), None);
        let otherwise = said("pan:1: invalid end state (at depth 3)").fault(Some(&mistake)).unwrap();
        assert!(otherwise.contains("where its head says assertion"));
        assert!(Seen::read(HELD, &[]).fault(Some(&mistake)).unwrap().contains("not found"));
    }

    #[test]
    fn the_heads_of_all_models_are_in_order_and_a_mistake_that_is_none_is_refused() {
        assert!(all().unwrap().iter().all(|m| !m.mistakes.is_empty()));
        has("plan9", "WAKES_ONE").unwrap();
        assert!(has("plan9", "WAKES").is_err() && has("no_such_model", "WAKES_ONE").is_err());
    }
}
