//! Runs the rows, each in a process of its own, and shows how far it is.
//!
//! ```text
//!   chappe-lab             --one ID --rounds N --result FILE        a process for each row
//!      |  stdout: what the benchmark prints, kept as the row's text
//!      |  FILE:   the tables, as JSON, written when the row is done
//! ```
//! A row that panics, or ends otherwise without a result, becomes a row that says so; the run goes on. Ctrl-C ends the row and the run: the terminal
//! sends it to both.

use crate::machine::{Machine, load};
use crate::report::{FORM, Measured, Outcome, Report};
use crate::row::{Absent, Lab, Row};
use anyhow::{Context, Result, bail};
use chappe_bench::house::House;
use chappe_bench::table::recorded;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds of a case, quick and whole.
const ROUNDS: (u32, u32) = (5, 25);

/// What the process of a row leaves in its file.
#[derive(serde::Serialize, serde::Deserialize)]
struct Left {
    absent: Option<String>,
    tables: Vec<Measured>,
}

/// The process of one row.
///
/// # Errors
/// The result cannot be written.
pub fn one(row: &dyn Row, rounds: u32, result: &Path) -> Result<()> {
    let program = std::env::current_exe().context("a program has a file")?;
    let lab = Lab { house: House::new(&format!("lab-{}", row.about().id)), rounds, program };
    // Programs that need locks have threads: with none, the C library leaves out half of its work.
    std::thread::spawn(|| {
        loop {
            std::thread::park()
        }
    });
    let mut absent = None;
    let tables = recorded(|| absent = row.measure(&lab).err());
    let tables = tables.iter().filter(|t| !t.rows().is_empty() && row.shows(t.title())).map(Measured::new).collect();
    let text = serde_json::to_string(&Left { absent: absent.map(|Absent(why)| why), tables })?;
    std::fs::write(result, text).with_context(|| format!("cannot write {}", result.display()))
}

/// A file of this process that goes when it is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file left behind is no reason to fail.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn outcome(row: &dyn Row, rounds: u32) -> Result<Outcome> {
    let about = row.about();
    let began = Instant::now();
    let file = Scratch(std::env::temp_dir().join(format!("chappe-lab-{}-{}", std::process::id(), about.id)));
    let output = Command::new(std::env::current_exe()?)
        .args(["--one", about.id, "--rounds", &rounds.to_string(), "--result"])
        .arg(&file.0)
        .stdin(Stdio::null())
        .output()
        .context("cannot start a process for the row")?;
    let result: Option<Left> = std::fs::read_to_string(&file.0).ok().and_then(|text| serde_json::from_str(&text).ok());
    let (absent, tables) = match result {
        Some(Left { absent, tables }) if output.status.success() => {
            let none = tables.is_empty() && absent.is_none();
            (absent.or_else(|| none.then(|| "the benchmark made no table on this machine".into())), tables)
        }
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().next_back().unwrap_or("it said nothing").to_owned();
            (Some(format!("the measurement ended with {}: {last}", output.status)), Vec::new())
        }
    };
    Ok(Outcome {
        id: about.id.into(),
        paper: about.paper,
        part: about.part.into(),
        title: about.title.into(),
        note: about.note.into(),
        figures: row.figures(),
        absent,
        tables,
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Runs these rows. The bar goes to stderr, if that is a terminal; otherwise a line a row.
///
/// # Errors
/// There is no row, or no process can be started.
pub fn all(rows: &[&dyn Row], quick: bool) -> Result<Report> {
    if rows.is_empty() {
        bail!("no row is selected: `chappe lab --list` names them");
    }
    let rounds = if quick { ROUNDS.0 } else { ROUNDS.1 };
    let takes = |row: &dyn Row| u64::from(if quick { row.about().seconds.0 } else { row.about().seconds.1 });
    let (mut machine, began) = (Machine::look(), Instant::now());
    let bar = ProgressBar::new(rows.iter().map(|row| takes(*row)).sum());
    let style = "{bar:30} {percent:>3} %  {msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut done, mut outcomes) = (0, Vec::new());
    for row in rows {
        let about = row.about();
        let left = bar.length().unwrap_or(0).saturating_sub(done);
        // What is estimated, corrected by how long all before took.
        let pace = if done == 0 { 1.0 } else { began.elapsed().as_secs_f64() / done as f64 };
        let left = Duration::from_secs((left as f64 * pace) as u64);
        bar.set_message(format!("{} left   {}: {}", indicatif::HumanDuration(left), about.id, about.title));
        bar.tick();
        let outcome = outcome(*row, rounds)?;
        let came = match &outcome.absent {
            Some(why) => format!("not measured: {why}"),
            None => format!("{} tables", outcome.tables.len()),
        };
        let line = format!("{:<18}{:>6.1} s  {came}", about.id, outcome.seconds);
        if bar.is_hidden() {
            eprintln!("{line}");
        } else {
            bar.println(line);
        }
        done += takes(*row);
        bar.set_position(done);
        outcomes.push(outcome);
    }
    bar.finish_and_clear();
    machine.load.1 = load();
    machine.seconds = began.elapsed().as_secs_f64();
    Ok(Report { form: FORM, version: env!("CARGO_PKG_VERSION").into(), quick, machine, rows: outcomes })
}
