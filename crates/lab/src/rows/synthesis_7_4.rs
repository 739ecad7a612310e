//! table 7.4 of synthesis: faults and pages.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::kernel;

/// The row.
pub struct Memory;

impl Row for Memory {
    fn about(&self) -> About {
        About {
            id: "synthesis-7-4",
            paper: Paper::Synthesis,
            part: "table 7.4",
            title: "faults and pages",
            note: "The kernel alone, and a record of a page through a tube: chappe manages no memory.",
            seconds: (1, 10),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds a page of 4 KiB",
            &[
                "operation|time",
                "service a translation fault|13.6",
                "allocate a page, zeroed before|16.0",
                "allocate a page that needs zeroing|166",
                "copy a page|274",
                "free a page|1.6",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        kernel::memory(lab.rounds);
        Ok(())
    }
}
