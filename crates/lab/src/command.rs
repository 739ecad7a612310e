//! The command line of `chappe lab`.

use crate::row::Row;
use crate::{compare, html, report::Report, rows, run};
use anyhow::{Context, Result, bail};
use chappe_bench::ras::{self, again};
use chappe_bench::thread;
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run the papers' measurements on this machine, with peers beside them
///
/// A row is a table or a figure of one of the papers. Each runs in a process of its own; a row that this machine cannot run says why. The report says first
/// where chappe is slower than a peer. Absolute times mean little on a machine that others use too: read the ratios.
#[derive(Parser, Debug)]
#[command(
    name = "chappe lab",
    version,
    after_help = "Exit status: 0, or 1 if a report cannot be made, read or written; 2 for bad options."
)]
struct Options {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    measure: Measure,
    #[arg(long, hide = true)]
    one: Option<String>,
    #[arg(long, hide = true)]
    rounds: Option<u32>,
    #[arg(long, hide = true)]
    result: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct Measure {
    /// Three minutes at most, instead of twenty-five: fewer visits to each row
    #[arg(long)]
    quick: bool,
    /// Write the report as one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the report for programs, and for `compare`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these rows: names, or beginnings of names; may be given several times
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// List the rows, and measure nothing
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand, Debug)]
enum Sub {
    /// Say what changed between two reports beyond noise
    Compare {
        /// The report before
        before: PathBuf,
        /// The report after
        after: PathBuf,
    },
}

fn selected(only: &[String]) -> Result<Vec<&'static Row>> {
    for name in only {
        if !rows::all().any(|row| row.id.starts_with(name.as_str())) {
            bail!("no row is called `{name}`: `chappe lab --list` names them");
        }
    }
    let wanted = |row: &&Row| only.is_empty() || only.iter().any(|name| row.id.starts_with(name.as_str()));
    Ok(rows::all().filter(wanted).collect())
}

fn list(rows: &[&Row]) {
    for row in rows {
        println!("{:<18}{}, {}: {}", row.id, row.paper.name(), row.part, row.title);
    }
}

/// Refuses a place that cannot be written before half an hour is spent.
fn writable(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

fn measure(options: &Measure) -> Result<()> {
    let rows = selected(&options.only)?;
    if options.list {
        list(&rows);
        return Ok(());
    }
    for path in [&options.html, &options.json].into_iter().flatten() {
        writable(path)?;
    }
    let report = run::all(&rows, options.quick)?;
    if let Some(path) = &options.json {
        report.write(path)?;
        println!("{}", path.display());
    }
    if let Some(path) = &options.html {
        std::fs::write(path, html::page(&report)).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    if options.json.is_none() && options.html.is_none() {
        for row in &report.rows {
            println!("\n== {}, {}: {}", row.id, row.part, row.title);
            match &row.absent {
                Some(why) => println!("not measured: {why}"),
                None => println!("{}", row.text.trim_end()),
            }
        }
    }
    let all = crate::verdict::verdicts(&report);
    let count = |which: fn(&crate::verdict::Verdict) -> bool| all.iter().filter(|v| which(v)).count();
    let (slower, faster) = (count(crate::verdict::Verdict::slower), count(crate::verdict::Verdict::faster));
    println!(
        "of {} tables with a peer: slower in {slower}, even in {}, faster in {faster}",
        all.len(),
        all.len() - slower - faster
    );
    Ok(())
}

fn row(id: &str) -> Result<&'static Row> {
    rows::all().find(|row| row.id == id).with_context(|| format!("no row is called `{id}`"))
}

fn act(options: Options) -> Result<()> {
    match (options.command, options.one, options.result) {
        (Some(Sub::Compare { before, after }), ..) => {
            let (before, after) = (Report::read(&before)?, Report::read(&after)?);
            print!("{}", compare::compare(&before, &after).text());
            Ok(())
        }
        (None, Some(id), Some(result)) => run::one(row(&id)?, options.rounds.unwrap_or(5), &result),
        (None, Some(_), None) => bail!("`--one` needs `--result`"),
        (None, None, _) => measure(&options.measure),
    }
}

/// All of the program.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    // A measurement that needs a process of another environment starts this program again.
    if args.get(1).is_some_and(|word| word == again::WORD) {
        let _house = chappe_bench::house::House::new("lab-part");
        ras::part(&args[2..].iter().map(String::as_str).collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    if args.get(1).is_some_and(|word| word == thread::WORD) {
        let _house = chappe_bench::house::House::new("lab-thread");
        let known = thread::part(&args[2..].iter().map(String::as_str).collect::<Vec<_>>());
        return if known { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    match act(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chappe lab: {why:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Options::command().debug_assert();
    }

    #[test]
    fn a_row_that_is_none_is_named_with_what_to_do() {
        let e = selected(&["nonsense".into()]).err().unwrap().to_string();
        assert!(e.contains("`nonsense`") && e.contains("--list"), "{e}");
        assert!(selected(&["plan9".into()]).unwrap().len() >= 2);
    }
}
