//! One table or figure of a paper, as something that can be measured.

use chappe_bench::house::House;
use chappe_bench::machine::processors;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The five papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// Soriano-Salvador and others: Optimistic Semaphores with Non-deterministic Choice Operation.
    Nix,
    /// Mullender and Cox: Semaphores in Plan 9.
    Plan9,
    /// McGarry: User-level Restartable Atomic Sequences on NetBSD.
    Netbsd,
    /// Massalin: Synthesis.
    Synthesis,
    /// Hohmuth and Härtig: Pragmatic nonblocking synchronization for real-time systems.
    Fiasco,
}

impl Paper {
    /// All, in the report's order.
    pub const ALL: [Paper; 5] = [Paper::Nix, Paper::Plan9, Paper::Netbsd, Paper::Synthesis, Paper::Fiasco];

    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Paper::Nix => "Optimistic semaphores for Nix",
            Paper::Plan9 => "Semaphores in Plan 9",
            Paper::Netbsd => "Restartable atomic sequences on NetBSD",
            Paper::Synthesis => "Synthesis",
            Paper::Fiasco => "Pragmatic nonblocking synchronization",
        }
    }
}

/// The paper's own figures: a table of text, its first line the heads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// What it was measured on, and in which unit.
    pub on: String,
    /// The heads, then the rows.
    pub cells: Vec<Vec<String>>,
}

impl Figures {
    /// From lines whose cells are parted by `|`.
    pub fn new(on: &str, lines: &[&str]) -> Figures {
        let cells = lines.iter().map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect()).collect();
        Figures { on: on.to_owned(), cells }
    }
}

/// What a row has to measure with.
pub struct Lab {
    /// A directory of arenas for this row alone.
    pub house: House,
    /// How many rounds a case has in a pass.
    pub rounds: u32,
    /// This program, for measurements that need a process of another environment.
    pub program: PathBuf,
    /// The peers' program in Go, if it could be built here.
    pub go: Option<PathBuf>,
}

/// Why there is nothing to measure: a machine without something, or a part of chappe that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent(pub String);

impl Absent {
    /// In words.
    pub fn new(why: impl Into<String>) -> Absent {
        Absent(why.into())
    }
}

/// Measures where a process can have a processor for itself, beside another.
pub fn on_two_processors(measure: impl FnOnce()) -> Result<(), Absent> {
    if processors() < 2 {
        return Err(Absent::new(
            "this machine has one processor: an application core needs one for itself, beside another",
        ));
    }
    measure();
    Ok(())
}

/// A table or figure that can be measured.
pub struct Row {
    /// How it is named on the command line and in JSON.
    pub id: &'static str,
    /// Where it is from.
    pub paper: Paper,
    /// Which table or figure.
    pub part: &'static str,
    /// What is measured, in one line.
    pub title: &'static str,
    /// What differs from the paper's measurement, or how to read it.
    pub note: &'static str,
    /// How many seconds it may take in all, quick and whole; none if it is not measured. A row whose benchmark takes longer for one
    /// pass has one pass.
    pub seconds: (u32, u32),
    /// The paper's own figures, where it prints numbers: what they were measured on, and the lines (see [`Figures::new`]).
    pub figures: Option<(&'static str, &'static [&'static str])>,
    /// Measures. All tables that `chappe-bench` makes meanwhile are the row's; what it prints stands beside them. An error: this
    /// machine cannot, and why.
    pub measure: fn(&Lab) -> Result<(), Absent>,
    /// Whether it has peers in Go: then their program is built before.
    pub wants_go: bool,
    /// Whether a table that was made belongs to this row; a benchmark may make more than one row shows.
    pub shows: fn(&str) -> bool,
}

impl Row {
    /// What most rows have in common.
    pub const PLAIN: Row = Row {
        id: "",
        paper: Paper::Nix,
        part: "",
        title: "",
        note: "",
        seconds: (0, 0),
        figures: None,
        measure: |_| Ok(()),
        wants_go: false,
        shows: |_| true,
    };
}
