//! NumPy and polars over the same records: a script measures them, where they are installed.

use super::trades::{Trade, trades};
use crate::table::Table;
use std::process::Command;

/// Prints their rows of the table of two terms.
///
/// The script is told where the records are. The interpreter is `CHAPPE_PYTHON`'s, or `python3`.
pub fn measure(rounds: u32) {
    const SCRIPT: &str = include_str!("../../python/expressions.py");
    let python = std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let file = std::env::temp_dir().join(format!("chappe-bench-trades-{}", std::process::id()));
    let all: Vec<Trade> = trades();
    if std::fs::write(&file, bytemuck::cast_slice::<Trade, u8>(&all)).is_err() {
        return;
    }
    let output = Command::new(python).args(["-c", SCRIPT]).arg(&file).arg(rounds.to_string()).output();
    let _ = std::fs::remove_file(&file);
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    // A line for each that is there: its name, a tab, nanoseconds of each round.
    let rows: Vec<(String, Vec<f64>)> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, ns)| (name.to_owned(), ns.split(' ').filter_map(|n| n.parse().ok()).collect()))
        .filter(|(_, ns): &(String, Vec<f64>)| !ns.is_empty())
        .collect();
    if rows.is_empty() {
        println!("\nneither NumPy nor polars here: no rows for them");
        return;
    }
    println!("{}", Table::of("two terms, many records of 64 B at once, in Python", rows).report());
}
