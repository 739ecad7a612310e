//! Rows that take turns, and what is told of them.
//!
//! *ratio* is the median of a row's ratios to the baseline, round by round: both had the machine's mood of that moment.
//! *of min* is the ratio of the two minima: what both can do undisturbed.

use std::fmt::Write;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What tables are kept in while [`recorded`] runs.
static RECORD: Mutex<Option<Vec<Table>>> = Mutex::new(None);

fn keep(table: &Table) {
    // A panic elsewhere leaves a whole list.
    if let Some(all) = RECORD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        all.push(table.clone());
    }
}

/// All tables that `work` and its threads make, in the order in which they are done. One call at a time in a process.
pub fn recorded(work: impl FnOnce()) -> Vec<Table> {
    *RECORD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    work();
    RECORD.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

/// In what a table's figures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds an operation.
    #[default]
    Nanoseconds,
    /// Bytes of one object.
    Bytes,
    /// Events, such as blocks that were late.
    Count,
}

impl Unit {
    const ALL: [(Unit, &'static str); 3] =
        [(Unit::Nanoseconds, "nanoseconds"), (Unit::Bytes, "bytes"), (Unit::Count, "count")];

    /// In a word.
    pub fn name(self) -> &'static str {
        Unit::ALL.iter().find(|(unit, _)| *unit == self).map_or("", |(_, name)| name)
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Unit> {
        Unit::ALL.iter().find(|(_, n)| *n == name).map(|(unit, _)| *unit)
    }

    /// A figure, for people.
    pub fn show(self, figure: f64) -> String {
        match self {
            Unit::Nanoseconds => nanoseconds(figure),
            Unit::Bytes if figure < 10_000.0 => format!("{figure:.0} B"),
            Unit::Bytes if figure < 10_240_000.0 => format!("{:.1} KiB", figure / 1024.0),
            Unit::Bytes => format!("{:.1} MiB", figure / 1_048_576.0),
            Unit::Count if figure.fract() == 0.0 || figure >= 10_000.0 => format!("{figure:.0}"),
            Unit::Count => format!("{figure:.2}"),
        }
    }
}

/// One row to be measured: a name, and a run that answers in nanoseconds an operation.
pub struct Case<'a> {
    name: String,
    run: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Case<'a> {
    /// A case whose run measures itself.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> f64 + 'a) -> Case<'a> {
        Case { name: name.into(), run: Box::new(run) }
    }

    /// An operation that is repeated `count` times a run.
    pub fn repeat<R>(name: impl Into<String>, count: u32, mut operation: impl FnMut() -> R + 'a) -> Case<'a> {
        Case::new(name, move || {
            let start = Instant::now();
            for _ in 0..count {
                black_box(operation());
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
    }
}

/// What a row came to.
#[derive(Clone)]
pub struct Row {
    name: String,
    samples: Vec<f64>,
}

impl Row {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was measured, round by round.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// The value below which this share of the samples lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (share * (sorted.len() - 1) as f64).round() as usize;
        sorted[at]
    }
}

/// Rows measured together; the first is the baseline.
#[derive(Clone)]
pub struct Table {
    title: String,
    rows: Vec<Row>,
    unit: Unit,
}

impl Table {
    /// Measures all cases, `rounds` times each, in turns that begin with another case every time.
    pub fn measure(title: impl Into<String>, rounds: u32, mut cases: Vec<Case<'_>>) -> Table {
        let mut rows: Vec<Row> = cases.iter().map(|c| Row { name: c.name.clone(), samples: Vec::new() }).collect();
        let count = cases.len();
        for round in 0..=rounds as usize {
            for turn in 0..count {
                let at = (round + turn) % count;
                let ns = (cases[at].run)();
                // The first round warms up.
                if round > 0 {
                    rows[at].samples.push(ns);
                }
            }
        }
        let table = Table { title: title.into(), rows, unit: Unit::Nanoseconds };
        keep(&table);
        table
    }

    /// A table of samples that were taken elsewhere.
    pub fn of(title: impl Into<String>, rows: Vec<(String, Vec<f64>)>) -> Table {
        Table::counted(title, Unit::Nanoseconds, rows)
    }

    /// The same, of what is not time.
    pub fn counted(title: impl Into<String>, unit: Unit, rows: Vec<(String, Vec<f64>)>) -> Table {
        let rows = rows.into_iter().map(|(name, samples)| Row { name, samples }).collect();
        let table = Table { title: title.into(), rows, unit };
        keep(&table);
        table
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// In what its figures are.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// All rows, the baseline first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// A row by its name.
    ///
    /// # Panics
    /// When there is none.
    pub fn row(&self, name: &str) -> &Row {
        self.rows.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no row `{name}` in `{}`", self.title))
    }

    /// The rows' names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|r| r.name.as_str())
    }

    /// The median of a row's ratios to the baseline, round by round.
    pub fn ratio(&self, name: &str) -> f64 {
        self.ratio_to(name, &self.rows[0].name)
    }

    /// The median of a row's ratios to another's, round by round.
    pub fn ratio_to(&self, name: &str, baseline: &str) -> f64 {
        Row { name: String::new(), samples: self.ratios_to(name, baseline) }.quantile(0.5)
    }

    /// A row's ratios to another's, round by round.
    pub fn ratios_to(&self, name: &str, baseline: &str) -> Vec<f64> {
        let pairs = self.row(name).samples.iter().zip(&self.row(baseline).samples);
        pairs.map(|(a, b)| a / b).collect()
    }

    /// Of these rows the one with the least median.
    ///
    /// # Panics
    /// When these are none.
    pub fn best<'n>(&self, names: &[&'n str]) -> &'n str {
        let median = |name: &str| self.row(name).quantile(0.5);
        names.iter().min_by(|a, b| median(a).total_cmp(&median(b))).expect("some names")
    }

    /// For people: fewer quantiles, and what else is known.
    pub fn report_with(&self, columns: &[Column]) -> String {
        let mut text = format!("\n{:<48}{:>9}{:>9}{:>8}{:>8}", self.title, "min", "median", "ratio", "of min");
        columns.iter().for_each(|c| text += &format!("{:>9}", c.head));
        text.push('\n');
        for (at, row) in self.rows.iter().enumerate() {
            let (least, median) = (row.quantile(0.0), row.quantile(0.5));
            let _ = write!(text, "  {:<46}{:>9}{:>9}", row.name, self.unit.show(least), self.unit.show(median));
            let _ = write!(text, "{:>8.2}{:>8.2}", self.ratio(&row.name), least / self.rows[0].quantile(0.0));
            columns.iter().for_each(|c| text += &format!("{:>9}", c.cells[at]));
            text.push('\n');
        }
        text
    }

    /// For people.
    pub fn report(&self) -> String {
        let mut text = format!(
            "\n{:<48}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>8}\n",
            self.title, "min", "p10", "median", "p90", "p99", "ratio", "of min"
        );
        for row in &self.rows {
            let _ = write!(text, "  {:<46}", row.name);
            for share in [0.0, 0.1, 0.5, 0.9, 0.99] {
                let _ = write!(text, "{:>9}", self.unit.show(row.quantile(share)));
            }
            let least = row.quantile(0.0) / self.rows[0].quantile(0.0);
            let _ = writeln!(text, "{:>8.2}{least:>8.2}", self.ratio(&row.name));
        }
        text
    }
}

/// Something else that is known of each row.
pub struct Column {
    head: &'static str,
    cells: Vec<String>,
}

impl Column {
    /// A cell for each row, in the rows' order.
    pub fn new(head: &'static str, cells: Vec<String>) -> Column {
        Column { head, cells }
    }
}

/// Three figures or so.
pub fn nanoseconds(ns: f64) -> String {
    match ns {
        n if n.abs() < 10.0 => format!("{n:.2} ns"),
        n if n < 100.0 => format!("{n:.1} ns"),
        n if n < 1000.0 => format!("{n:.0} ns"),
        n if n < 100_000.0 => format!("{:.2} us", n / 1e3),
        n if n < 1_000_000.0 => format!("{:.0} us", n / 1e3),
        n if n < 1_000_000_000.0 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// What we want, and whether it was reached in this run.
pub struct Aim {
    what: String,
    reached: String,
    met: bool,
}

impl Aim {
    /// At most `most`, in the unit that `show` gives.
    pub fn at_most(what: impl Into<String>, most: f64, is: f64, show: impl Fn(f64) -> String) -> Aim {
        Aim { what: format!("{} <= {}", what.into(), show(most)), reached: show(is), met: is <= most }
    }

    /// At least `least`, in the same way.
    pub fn at_least(what: impl Into<String>, least: f64, is: f64, show: impl Fn(f64) -> String) -> Aim {
        Aim { what: format!("{} >= {}", what.into(), show(least)), reached: show(is), met: is >= least }
    }

    /// That a row of a table takes no longer than the best of these peers.
    pub fn to_best(table: &Table, title: &str, row: &str, peers: &[&str]) -> Aim {
        let best = table.best(peers);
        Aim::at_most(format!("{title}, {row}, to {best}"), 1.0, table.ratio_to(row, best), times)
    }

    /// All of them, for people.
    pub fn report(aims: &[Aim]) -> String {
        let mut text = String::from("aims\n");
        let width = aims.iter().map(|a| a.what.len()).fold(70, usize::max);
        for a in aims {
            let _ = writeln!(text, "  {:<width$}{:>10}  {}", a.what, a.reached, if a.met { "met" } else { "MISSED" });
        }
        text
    }
}

/// A ratio, for [`Aim::at_most`].
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let table = Table::of("t", vec![("a".into(), vec![1.0, 10.0, 100.0]), ("b".into(), vec![2.0, 20.0, 300.0])]);
        assert_eq!(table.ratio("b"), 2.0);
        assert_eq!(table.row("a").quantile(0.5), 10.0);
        assert_eq!(table.row("a").quantile(0.0), 1.0);
        assert_eq!(table.best(&["b", "a"]), "a");
    }

    #[test]
    fn tables_are_recorded_while_somebody_asks_for_them() {
        let make = |title: &str| Table::of(title, vec![("a".into(), vec![1.0])]);
        make("before");
        // Other tests make tables meanwhile.
        let all = recorded(|| drop((make("recorded one"), make("recorded two"))));
        let ours = all.iter().map(Table::title).filter(|t| t.starts_with("recorded"));
        assert_eq!(ours.collect::<Vec<_>>(), ["recorded one", "recorded two"]);
        assert!(all.iter().all(|t| t.title() != "before"));
    }

    #[test]
    fn a_missed_aim_is_told() {
        let aims = [Aim::at_most("pair", 0.8, 0.9, times), Aim::at_most("pair", 0.8, 0.7, times)];
        let text = Aim::report(&aims);
        assert!(text.contains("0.90x  MISSED") && text.contains("0.70x  met"), "{text}");
    }

    #[test]
    fn an_extra_column_stands_in_its_row() {
        let table = Table::of("t", vec![("a".into(), vec![1.0]), ("b".into(), vec![3.0])]);
        let text = table.report_with(&[Column::new("worst", vec!["7 us".into(), "9 us".into()])]);
        let last: Vec<&str> = text.lines().last().unwrap().split_ascii_whitespace().collect();
        assert_eq!(last, ["b", "3.00", "ns", "3.00", "ns", "3.00", "3.00", "9", "us"], "{text}");
    }

    #[test]
    fn each_case_has_its_turn() {
        let (mut a, mut b) = (0, 0);
        let cases = vec![
            Case::new("a", || {
                a += 1;
                1.0
            }),
            Case::new("b", || {
                b += 1;
                2.0
            }),
        ];
        Table::measure("t", 3, cases);
        assert_eq!((a, b), (4, 4));
    }
}
