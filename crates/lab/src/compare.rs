//! What changed between two reports beyond noise.
//!
//! A case is compared by its ratio to its table's baseline, since two machines, or two days, have different clocks; a baseline is compared by its
//! time only where both reports name the same processor and kernel. Two figures agree if their intervals meet.

use crate::report::{CaseOf, Report};
use crate::statistics::Estimate;
use std::fmt::Write;

/// What became of one figure.
#[derive(Clone, Debug)]
pub struct Change {
    /// Row, table and case.
    pub of: (String, String, String),
    /// Before and after.
    pub figures: (Estimate, Estimate),
}

impl Change {
    /// After, in terms of before.
    pub fn factor(&self) -> f64 {
        self.figures.1.median / self.figures.0.median
    }
}

/// A comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Figures whose intervals meet.
    pub agree: usize,
    /// Those whose do not, the largest change first.
    pub changed: Vec<Change>,
    /// Cases that one of the two has alone.
    pub alone: Vec<String>,
}

fn cases(report: &Report) -> impl Iterator<Item = ((String, String, String), &CaseOf, bool)> {
    report.rows.iter().flat_map(|row| {
        row.tables.iter().flat_map(move |table| {
            table
                .cases
                .iter()
                .enumerate()
                .map(move |(at, case)| ((row.id.clone(), table.title.clone(), case.name.clone()), case, at == 0))
        })
    })
}

/// Compares.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let same = before.machine.processor == after.machine.processor && before.machine.kernel == after.machine.kernel;
    let mut all = Comparison::default();
    let old: std::collections::BTreeMap<_, _> = cases(before).map(|(of, case, base)| (of, (case, base))).collect();
    let mut seen = std::collections::BTreeSet::new();
    for (of, case, base) in cases(after) {
        let Some((was, _)) = old.get(&of) else {
            all.alone.push(format!("{}: {}: {}, after only", of.0, of.1, of.2));
            continue;
        };
        seen.insert(of.clone());
        let figures = if base { if same { was.time.zip(case.time) } else { None } } else { was.ratio.zip(case.ratio) };
        match figures {
            Some((a, b)) if a.meets(&b) => all.agree += 1,
            Some(figures) => all.changed.push(Change { of, figures }),
            None => {}
        }
    }
    let gone = old.keys().filter(|of| !seen.contains(*of));
    all.alone.extend(gone.map(|of| format!("{}: {}: {}, before only", of.0, of.1, of.2)));
    all.changed.sort_by(|a, b| b.factor().ln().abs().total_cmp(&a.factor().ln().abs()));
    all
}

impl Comparison {
    /// For people.
    pub fn text(&self) -> String {
        let total = self.agree + self.changed.len();
        let share = if total == 0 { 0.0 } else { 100.0 * self.agree as f64 / total as f64 };
        let mut text = format!("{} of {total} figures agree within their intervals ({share:.0} %)\n", self.agree);
        for change in &self.changed {
            let (row, table, case) = &change.of;
            let (a, b) = &change.figures;
            let _ = writeln!(
                text,
                "  {:>5.2}x  {row}: {table}: {case}: {:.3} -> {:.3}",
                change.factor(),
                a.median,
                b.median
            );
        }
        for one in &self.alone {
            let _ = writeln!(text, "  {one}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Measured, Outcome};
    use chappe_bench::table::Table;

    fn report(ours: f64, name: &str) -> Report {
        let noise = |x: f64| (0..20).map(|n| x * (1.0 + f64::from(n % 3) / 100.0)).collect::<Vec<_>>();
        let table = Table::of("t", vec![("sem_t".into(), noise(10.0)), (name.into(), noise(ours))]);
        let row = Outcome { tables: vec![Measured::new(&table)], ..crate::html::tests::outcome() };
        Report { rows: vec![row], ..crate::html::tests::report() }
    }

    #[test]
    fn results_beyond_the_noise_are_named() {
        let (same, slower) =
            (compare(&report(5.0, "a"), &report(5.0, "a")), compare(&report(5.0, "a"), &report(9.0, "a")));
        assert_eq!((same.agree, same.changed.len()), (2, 0));
        assert_eq!((slower.agree, slower.changed.len()), (1, 1));
        assert!(slower.text().contains("1.80x"), "{}", slower.text());
    }

    #[test]
    fn a_case_that_one_has_alone_is_named() {
        let c = compare(&report(5.0, "a"), &report(5.0, "b"));
        assert_eq!(c.alone.len(), 2, "{:?}", c.alone);
    }
}
