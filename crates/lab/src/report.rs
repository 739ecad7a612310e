//! What came out of a run, and its form as JSON.

use crate::machine::Machine;
use crate::row::{Figures, Paper};
use crate::sides::{Side, side};
use crate::statistics::{Estimate, quantile};
use anyhow::{Context, Result, ensure};
use chappe_bench::table::Table;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The form's number: a report of another one is refused.
pub const FORM: u32 = 1;

/// One run of the lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORM`].
    pub form: u32,
    /// chappe's version.
    pub version: String,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Where it ran.
    pub machine: Machine,
    /// In the order of the papers.
    pub rows: Vec<Outcome>,
}

/// What came of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The row's name.
    pub id: String,
    /// Where it is from.
    pub paper: Paper,
    /// Which table or figure.
    pub part: String,
    /// What is measured.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// The paper's own figures.
    pub figures: Option<Figures>,
    /// Why there is nothing here, if so.
    pub absent: Option<String>,
    /// What was measured.
    pub tables: Vec<Measured>,
    /// What the benchmark printed.
    pub text: String,
    /// Seconds that it took.
    pub seconds: f64,
}

/// A table, measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// What is measured.
    pub title: String,
    /// The baseline first.
    pub cases: Vec<CaseOf>,
}

/// A case of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseOf {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub side: Side,
    /// Nanoseconds an operation, with its interval.
    pub time: Option<Estimate>,
    /// To the baseline, round by round.
    pub ratio: Option<Estimate>,
    /// Least, tenth, quarter, half, three quarters, nine tenths, greatest.
    pub quantiles: Vec<f64>,
    /// Nanoseconds an operation, round by round; at most [`KEPT`] of them.
    pub samples: Vec<f64>,
}

/// How many samples of a case a report keeps.
pub const KEPT: usize = 400;

impl Measured {
    /// From a benchmark's table.
    pub fn new(table: &Table) -> Measured {
        let baseline = table.rows().first();
        let cases = table.rows().iter().map(|row| {
            let samples = row.samples();
            let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
            sorted.sort_by(f64::total_cmp);
            let quantiles = match sorted.len() {
                0 => Vec::new(),
                _ => [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0].iter().map(|share| quantile(&sorted, *share)).collect(),
            };
            let ratios: Vec<f64> = baseline
                .map(|base| samples.iter().zip(base.samples()).map(|(a, b)| a / b).collect())
                .unwrap_or_default();
            let step = samples.len().div_ceil(KEPT).max(1);
            CaseOf {
                name: row.name().to_owned(),
                side: side(row.name()),
                time: Estimate::of(samples),
                ratio: Estimate::of(&ratios),
                quantiles,
                samples: samples.iter().copied().step_by(step).filter(|x| x.is_finite()).collect(),
            }
        });
        Measured { title: table.title().to_owned(), cases: cases.collect() }
    }
}

impl Report {
    /// Reads one.
    ///
    /// # Errors
    /// The file cannot be read, is no report, or is one of another form.
    pub fn read(path: &Path) -> Result<Report> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        #[derive(Deserialize)]
        struct Head {
            form: u32,
        }
        let head: Head = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a report of `chappe lab --json`", path.display()))?;
        ensure!(
            head.form == FORM,
            "{} has form {}, and this program reads form {FORM}: make the report again with this version",
            path.display(),
            head.form
        );
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// As JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_becomes_estimates_and_keeps_a_part_of_its_samples() {
        let table = Table::of("t", vec![("pthread mutex".into(), vec![2.0; 1000]), ("mutex".into(), vec![1.0; 1000])]);
        let measured = Measured::new(&table);
        assert_eq!(measured.cases[1].ratio.unwrap().median, 0.5);
        assert_eq!(measured.cases[0].side, Side::Peer);
        assert!(measured.cases[0].samples.len() <= KEPT);
    }

    #[test]
    fn what_is_no_report_is_refused_with_a_reason() {
        let path = std::env::temp_dir().join(format!("chappe-lab-form-{}", std::process::id()));
        for (text, says) in
            [("{}", "is not a report"), ("{\"form\": 99}", "has form 99"), ("{\"form\": 1}", "is damaged")]
        {
            std::fs::write(&path, text).unwrap();
            let e = format!("{:#}", Report::read(&path).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
