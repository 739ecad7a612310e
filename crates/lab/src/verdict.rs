//! Where chappe is slower than the best peer, said first.
//!
//! In each table the fastest of our cases is held against the fastest peer, by medians. The ratio is taken round by round, with its interval:
//! *slower* where all of the interval is above 1, *faster* where all of it is below, *even* otherwise. Floors are no peers.

use crate::report::{CaseOf, Measured, Report, ratios};
use crate::sides::Side;
use crate::statistics::Estimate;

/// One table's comparison.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The row's name.
    pub row: String,
    /// The table's title.
    pub table: String,
    /// The fastest of our cases.
    pub ours: String,
    /// The fastest peer.
    pub peer: String,
    /// Ours to the peer's.
    pub ratio: Estimate,
    /// Other cases of ours that are slower than that peer: a kind with more senders, or one that survives more.
    pub others: Vec<(String, Estimate)>,
}

impl Verdict {
    /// Whether the peer is faster beyond the noise of this run.
    pub fn slower(&self) -> bool {
        self.ratio.low > 1.0
    }

    /// Whether chappe is faster beyond the noise of this run.
    pub fn faster(&self) -> bool {
        self.ratio.high < 1.0
    }
}

fn fastest(table: &Measured, side: Side) -> Option<&CaseOf> {
    let of_side = table.cases.iter().filter(|case| case.side == side && case.time.is_some());
    of_side.min_by(|a, b| {
        let median = |case: &CaseOf| case.time.map_or(f64::INFINITY, |t| t.median);
        median(a).total_cmp(&median(b))
    })
}

/// All tables that have a case of ours and a peer, the slowest of ours first.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let tables = report.rows.iter().flat_map(|row| row.tables.iter().map(move |table| (row, table)));
    let mut all: Vec<Verdict> = tables
        .filter_map(|(row, table)| {
            let (ours, peer) = (fastest(table, Side::Ours)?, fastest(table, Side::Peer)?);
            let slower = table.cases.iter().filter(|c| c.side == Side::Ours && c.name != ours.name).filter_map(|c| {
                let ratio = Estimate::of(&ratios(&c.samples, &peer.samples))?;
                (ratio.low > 1.0).then(|| (c.name.clone(), ratio))
            });
            Some(Verdict {
                row: row.id.clone(),
                table: table.title.clone(),
                ours: ours.name.clone(),
                peer: peer.name.clone(),
                ratio: Estimate::of(&ratios(&ours.samples, &peer.samples))?,
                others: slower.collect(),
            })
        })
        .collect();
    all.sort_by(|a, b| b.ratio.median.total_cmp(&a.ratio.median));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;
    use chappe_bench::table::Table;

    #[test]
    fn the_slowest_comes_first_and_floors_are_no_peers() {
        let table = |title: &str, ours: f64| {
            let rows = vec![
                ("floor: nothing".to_owned(), vec![0.1; 9]),
                ("pthread mutex".to_owned(), vec![2.0; 9]),
                ("mutex".to_owned(), vec![ours; 9]),
            ];
            Measured::new(&Table::of(title, rows))
        };
        let row = Outcome { tables: vec![table("good", 1.0), table("bad", 3.0)], ..crate::html::tests::outcome() };
        let report = Report { rows: vec![row], ..crate::html::tests::report() };
        let all = verdicts(&report);
        assert_eq!(all.iter().map(|v| v.table.as_str()).collect::<Vec<_>>(), ["bad", "good"]);
        assert!(all[0].slower() && all[1].faster());
        assert_eq!(all[0].peer, "pthread mutex");
    }
}
