//! table 1 of nonblocking-real-time: lateness of a periodic handler.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Lateness;

impl Row for Lateness {
    fn about(&self) -> About {
        About {
            id: "fiasco-1",
            paper: Paper::Fiasco,
            part: "table 1",
            title: "lateness of a periodic handler",
            note: "",
            seconds: (0, 0),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds, at the most, of a handler every 250 us",
            &["system|lateness", "Fiasco / L4Linux|65", "L4/x86 / L4Linux|541", "RTLinux|58"],
        ))
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("no benchmark of the nonblocking structures is joined to this row yet"))
    }
}
