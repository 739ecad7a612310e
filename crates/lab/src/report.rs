//! What came out of a run, and its form as JSON.

use crate::machine::Machine;
use crate::row::{Figures, Paper};
use crate::sides::{Side, side};
use crate::statistics::{Estimate, quantile};
use anyhow::{Context, Result, ensure};
use chappe_bench::table::{Table, Unit};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The form's number: a report of another one is refused.
pub const FORM: u32 = 2;

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
    /// How often it was visited, a process each time.
    pub visits: u32,
    /// Seconds that it took in all.
    pub seconds: f64,
}

/// A table, measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// What is measured.
    pub title: String,
    /// In what its figures are.
    #[serde(with = "unit")]
    pub unit: Unit,
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
    /// Nanoseconds an operation (or the table's unit), with its interval.
    pub time: Option<Estimate>,
    /// To the baseline, round by round.
    pub ratio: Option<Estimate>,
    /// Least, tenth, quarter, half, three quarters, nine tenths, greatest.
    pub quantiles: Vec<f64>,
    /// What was measured, visit by visit and round by round; at most about [`KEPT`] of them.
    pub samples: Vec<Vec<f64>>,
}

/// How many samples of a case a report keeps.
pub const KEPT: usize = 300;

mod unit {
    use chappe_bench::table::Unit;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(unit: &Unit, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(unit.name())
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Unit, D::Error> {
        let name = String::deserialize(from)?;
        Unit::of(&name).ok_or_else(|| serde::de::Error::custom(format!("`{name}` is no unit")))
    }
}

/// A table as one visit has made it: what a row's process hands over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Raw {
    /// What is measured.
    pub title: String,
    /// In what.
    #[serde(with = "unit")]
    pub unit: Unit,
    /// Each case's name, and its samples.
    pub cases: Vec<(String, Vec<f64>)>,
}

impl Raw {
    /// What a benchmark has made.
    pub fn new(table: &Table) -> Raw {
        let cases = table.rows().iter().map(|row| (row.name().to_owned(), row.samples().to_vec())).collect();
        Raw { title: table.title().to_owned(), unit: table.unit(), cases }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|(name, _)| name.as_str())
    }
}

impl Measured {
    /// From the visits that made this table, one at least.
    ///
    /// # Panics
    /// When there is none.
    pub fn of(visits: &[&Raw]) -> Measured {
        let first = visits[0];
        let visits: Vec<&Raw> = visits.iter().copied().filter(|v| v.names().eq(first.names())).collect();
        let of = |at: usize| visits.iter().map(|v| v.cases[at].1.clone()).collect::<Vec<Vec<f64>>>();
        let baseline = if first.cases.is_empty() { Vec::new() } else { of(0) };
        let cases = (0..first.cases.len()).map(|at| {
            let name = first.cases[at].0.clone();
            let samples = of(at);
            let mut sorted: Vec<f64> = samples.iter().flatten().copied().filter(|x| x.is_finite()).collect();
            sorted.sort_by(f64::total_cmp);
            let quantiles = match sorted.len() {
                0 => Vec::new(),
                _ => [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0].iter().map(|share| quantile(&sorted, *share)).collect(),
            };
            let step = sorted.len().div_ceil(KEPT).max(1);
            let kept = |v: &Vec<f64>| v.iter().copied().step_by(step).filter(|x| x.is_finite()).map(short).collect();
            CaseOf {
                side: side(&name),
                name,
                time: Estimate::of(&samples),
                ratio: Estimate::of(&ratios(&samples, &baseline)),
                quantiles,
                samples: samples.iter().map(kept).collect(),
            }
        });
        Measured { title: first.title.clone(), unit: first.unit, cases: cases.collect() }
    }

    /// From a benchmark's table alone: one visit.
    pub fn new(table: &Table) -> Measured {
        Measured::of(&[&Raw::new(table)])
    }
}

/// A row's tables: each as all of its visits have made it.
pub fn joined(visits: &[Vec<Raw>]) -> Vec<Measured> {
    let mut titles: Vec<&str> = Vec::new();
    for table in visits.iter().flatten() {
        if !titles.contains(&table.title.as_str()) {
            titles.push(&table.title);
        }
    }
    let of = |title: &str| visits.iter().flatten().filter(|t| t.title == title).collect::<Vec<&Raw>>();
    titles.into_iter().map(|title| Measured::of(&of(title))).collect()
}

/// Round by round.
pub fn ratios(of: &[Vec<f64>], to: &[Vec<f64>]) -> Vec<Vec<f64>> {
    of.iter().zip(to).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a / b).collect()).collect()
}

/// Five digits: more than that is noise, and makes the file long.
fn short(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
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
        let text = serde_json::to_string(self)?;
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
        assert!(measured.cases[0].samples[0].len() <= KEPT);
        assert_eq!(short(1.234_567_8), 1.2346);
    }

    #[test]
    fn visits_are_joined_by_title_and_one_of_other_cases_is_left_out() {
        let raw = |x: f64| Raw::new(&Table::of("t", vec![("a".into(), vec![x; 2]), ("b".into(), vec![2.0 * x; 2])]));
        let other = Raw::new(&Table::of("t", vec![("c".into(), vec![1.0])]));
        let visits = [vec![raw(1.0)], vec![other], vec![raw(5.0)]];
        let tables = joined(&visits);
        let [measured] = &tables[..] else { panic!("{} tables", tables.len()) };
        assert_eq!(measured.cases[1].ratio.map(|r| (r.low, r.high)), Some((2.0, 2.0)));
        assert_eq!(measured.cases[0].samples, [[1.0, 1.0], [5.0, 5.0]]);
    }

    #[test]
    fn a_file_that_is_no_report_is_refused_with_a_reason() {
        let path = std::env::temp_dir().join(format!("chappe-lab-form-{}", std::process::id()));
        for (text, says) in [
            ("{}", "is not a report"),
            ("{\"form\": 99}", "has form 99"),
            ("{\"form\": 1}", "has form 1,"),
            ("{\"form\": 2}", "is damaged"),
        ] {
            std::fs::write(&path, text).unwrap();
            let e = format!("{:#}", Report::read(&path).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
