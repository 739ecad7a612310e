//! The same program once more, in a world of its own: another environment, or no more sequences than are asked for.
//!
//! It writes a line for each row: the name, a tab, and what was measured, round by round.

use crate::table::Table;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The argument that makes the program one of these.
pub const WORD: &str = "ras-part";

/// In the environment: keeps the C library from registering an area for restartable sequences.
pub const NO_AREA: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
/// In the environment: our locks are not biased.
pub const NO_BIAS: (&str, &str) = ("CHAPPE_BIAS", "off");

/// The program.
pub struct Again(PathBuf);

impl Again {
    /// This one.
    pub fn new(program: impl AsRef<Path>) -> Again {
        Again(program.as_ref().to_owned())
    }

    /// What a part of it writes.
    ///
    /// # Errors
    /// It does not start (under an emulator it may not), it fails, or it writes something else: in words.
    pub fn run(&self, environment: &[(&str, &str)], part: &[&str]) -> Result<Vec<(String, Vec<f64>)>, String> {
        let mut command = Command::new(&self.0);
        let output = command.arg(WORD).args(part).envs(environment.iter().copied()).output();
        let output = output.map_err(|e| format!("{}: {e}", self.0.display()))?;
        if !output.status.success() {
            return Err(format!("{part:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines().map(|l| row(l).ok_or_else(|| format!("{part:?} says `{l}`"))).collect()
    }
}

fn row(line: &str) -> Option<(String, Vec<f64>)> {
    let (name, samples) = line.split_once('\t')?;
    let samples: Result<Vec<f64>, _> = samples.split(' ').map(str::parse).collect();
    Some((name.to_owned(), samples.ok()?))
}

/// Writes a row.
pub fn tell(name: &str, samples: &[f64]) {
    let samples: Vec<String> = samples.iter().map(f64::to_string).collect();
    println!("{name}\t{}", samples.join(" "));
}

/// Writes a table's rows.
pub fn tell_all(table: &Table) {
    table.names().for_each(|name| tell(name, table.row(name).samples()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        assert_eq!(row("a b\t1 2.5"), Some(("a b".into(), vec![1.0, 2.5])));
        assert!(row("nothing").is_none() && row("a\tnot a number").is_none());
    }
}
