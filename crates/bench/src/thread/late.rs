//! Blocks that are late where an idle proc takes threads by age, and where it takes first those that would be late (synthesis, 6.5): in simulation.

use crate::table::{Table, Unit};
use chappe::thread::migration::{self, Late};

/// Runs of 20 s.
const RUNS: u64 = 20;

/// Simulates and prints.
pub fn measure() {
    let [by_age, late_first] = migration::both(RUNS);
    let counted = |what: &str, of: fn(&Late) -> u64| {
        let rows = [("late first", &late_first), ("by age", &by_age)];
        let rows = rows.map(|(how, late)| (how.to_owned(), vec![of(late) as f64])).to_vec();
        print!("{}", Table::counted(what, Unit::Count, rows).report_with(&[]));
    };
    counted(&format!("late blocks of {}", by_age.of), |late| late.late);
    counted("milliseconds until the last block is done", |late| late.ms);
}
